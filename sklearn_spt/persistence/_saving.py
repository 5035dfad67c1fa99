"""Save and load fitted classifiers: safetensors, JSON and the tokenizer, without code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted
from skorch import NeuralNet

from sklearn_spt.persistence._export import export
from sklearn_spt.persistence._fitted_state import Reader, Writer
from sklearn_spt.persistence._folder import new_folder, seal, verify
from sklearn_spt.persistence._values import from_json
from sklearn_spt.text._pretrained import forget_encoders

_ESTIMATOR = "estimator.json"


class SavingMixin:
    """Gives a classifier the methods `save` and `export`."""

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save the fitted classifier to a folder that `sklearn_spt.load` reads.

        The folder holds the weights of each net once (safetensors), parameters and fitted
        attributes (JSON), and the tokenizer and configuration of the encoder. It holds no code and
        no state of an optimiser. It appears whole or not at all.

        Parameters
        ----------
        folder : str or path-like
            New or empty folder; parents are created.
        overwrite : bool, default=False
            Whether to replace a folder that an earlier `save` wrote.

        Raises
        ------
        ValueError
            If the folder is in use, or if something cannot be saved without code: a net that is
            not a `BertClassifier`, a callback or another function, a subclass, or a class label
            that is neither a string, number, boolean nor date. Use pickle for these.
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        _check_is_fitted(self)
        with new_folder(folder, overwrite) as part:
            writer = Writer(part)
            content = {"classifier": writer.fitted(self, "the classifier"), "nets": writer.nets}
            (part / _ESTIMATOR).write_text(json.dumps(content, indent=1), encoding="utf-8")
            seal(part)

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        format: str = "huggingface",
        overwrite: bool = False,
    ) -> None:
        """Export one net to a folder that other libraries load without code of this one.

        The net is the classifier itself, the first of the `students_` of
        `SelfPretrainingClassifier`, or the first net of another method. Its head includes the logit
        adjustment. One net needs a fraction of the time and memory of all nets; "docs/saving" says
        how much F1 it costs. The folder cannot be read back by `sklearn_spt.load`: use `save` for
        that.

        Parameters
        ----------
        folder : str or path-like
            New or empty folder; parents are created.
        format : {"huggingface", "onnx"}, default="huggingface"
            "huggingface": a BERT with ``pooling="cls"`` becomes a folder for transformers
            (``AutoModelForSequenceClassification``). No stock class of transformers classifies the
            mean of the token states, so all other nets become a folder for sentence-transformers,
            whose ``encode`` returns the logits. "onnx": ``model.onnx`` maps token ids of any number
            and width to probabilities; it needs the extra ``[onnx]``.
        overwrite : bool, default=False
            Whether to replace a folder that an earlier `export` wrote. It must hold no file that
            the new one does not have: another format or encoder needs another folder.

        Raises
        ------
        ValueError
            If the folder is in use, or the net is not a `BertClassifier` with its default module.
        ImportError
            If a package of the extra is missing.
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        _check_is_fitted(self)
        export(self, folder, format, overwrite)


def load(folder: str | os.PathLike[str]) -> Any:
    """Load a classifier that `save` wrote.

    All files are checked against their SHA-256 first, and no code of the folder is run. The encoder
    is not needed: neither on disk nor from the hub. On the same machine the probabilities are equal
    bit by bit. With ``device="auto"`` the loaded nets use a GPU if there is one.

    Parameters
    ----------
    folder : str or path-like
        The folder. It is not needed after the call.

    Returns
    -------
    BertClassifier, SelfPretrainingClassifier or another classifier of sklearn_spt
        As it was saved: parameters, fitted attributes, nets. A new `fit` starts from the encoder
        that the parameters name; `partial_fit` continues from the weights with a new optimiser.

    Raises
    ------
    ValueError
        If the folder is missing, damaged, of another program or of a newer format.

    Examples
    --------
    >>> import sklearn_spt
    >>> clf = sklearn_spt.load("model")  # doctest: +SKIP
    """
    path = Path(folder).expanduser()
    try:
        versions = verify(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded: {error}.") from error
    try:
        content = json.loads((path / _ESTIMATOR).read_bytes())
        return from_json(content["classifier"], Reader(path, content["nets"]).built)
    except Exception as error:
        raise ValueError(
            f"{path} was written by sklearn-spt {versions.get('sklearn-spt')} with torch "
            f"{versions.get('torch')} and transformers {versions.get('transformers')}, and cannot "
            f"be loaded with the installed versions: {error}"
        ) from error
    finally:
        forget_encoders()


def _check_is_fitted(clf: Any) -> None:
    if isinstance(clf, NeuralNet):
        clf.check_is_fitted()
    else:
        check_is_fitted(clf)
