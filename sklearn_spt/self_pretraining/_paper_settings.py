"""The settings of the paper; they do not follow changes of the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sklearn_spt.nets._bert_classifier import BertClassifier

#: Of the net: plain fine-tuning, the paper's *Baseline*.
PAPER_NET: dict[str, Any] = {
    "head_init": "random",
    "max_length": "auto",
    "dropout": 0.1,
    "batch_size": 32,
    "max_epochs": 3,
    "balanced_batches": True,
}

_PAPER_METHOD: dict[str, Any] = {
    "lam": 0.3,
    "alpha": 0.1,
    "temperature": 3.0,
    "step_size": 0.2,
    "max_iter": None,
    "n_starts": 1,
    "n_students": 1,
    "pretrain_epochs": 1,
    "token_deletion": 0.0,
    "finetune_epochs": 3,
    "balanced_batches": True,
    "ensemble": "last_two",
    "logit_adjustment": 0.0,
}


class _PaperSettings(Mapping[str, Any]):
    """Parameters of `SelfPretrainingClassifier` as in the paper, by name, for any encoder.

    Each access to ``"estimator"`` makes a new net, so that classifiers share none. Pooling,
    learning rate and encoder have the defaults of `BertClassifier`.

    Examples
    --------
    >>> from sklearn_spt import PAPER_SETTINGS, SelfPretrainingClassifier
    >>> clf = SelfPretrainingClassifier(**PAPER_SETTINGS, random_state=0)
    >>> clf = clf.set_params(estimator__pretrained="bert-base-uncased")  # the paper's encoder
    """

    def __getitem__(self, name: str) -> Any:
        return BertClassifier(**PAPER_NET) if name == "estimator" else _PAPER_METHOD[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("estimator", *_PAPER_METHOD))

    def __len__(self) -> int:
        return 1 + len(_PAPER_METHOD)

    __eq__ = object.__eq__  # nets do not compare equal
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<estimator=BertClassifier({_written(PAPER_NET)}), {_written(_PAPER_METHOD)}>"


def _written(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


PAPER_SETTINGS: Mapping[str, Any] = _PaperSettings()
