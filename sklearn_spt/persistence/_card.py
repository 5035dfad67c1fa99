"""The model card of an exported net. It holds counts and settings, and no text."""

from __future__ import annotations

import inspect
import os
from importlib.metadata import version
from typing import Any

import numpy as np
from skorch import NeuralNet

# Folders of the user's machine, and functions.
_NOT_SHOWN = {"estimator", "keyword_estimator", "views", "memory", "checkpoint_dir", "on_iteration"}

_USE = {
    "transformers": """from transformers import pipeline

classify = pipeline("text-classification", "this_folder", top_k=None)
classify(["a text"], truncation=True)  # probabilities by label""",
    "sentence-transformers": """import torch
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("this_folder")
logits = model.encode(["a text"], convert_to_tensor=True)
torch.softmax(logits, dim=1)  # probabilities; the columns are the labels below""",
    "onnx": """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("this_folder/tokenizer.json")
tokenizer.encode_special_tokens = True  # "[SEP]" in a text is plain text
session = onnxruntime.InferenceSession("this_folder/model.onnx")
ids = np.array([one.ids for one in tokenizer.encode_batch(["a text"])])
session.run(None, {"input_ids": ids})[0]  # probabilities; the columns are the labels below""",
}

_CARD = """---
library_name: {library}
pipeline_tag: text-classification
{base}tags:
- text-classification
- semi-supervised-learning
- sklearn-spt
---

# Classifier of short texts

{what}, exported by sklearn-spt {version}.

```python
{use}
```

Labels, in the order of the columns: {labels}.

## Training

- Labelled texts: {labeled}.
- Unlabelled texts: {unlabeled}.
- Training loss of each epoch: {losses}.
- Score on held-out texts: {score}.

| parameter | value |
| --- | --- |
{parameters}

## Intended use and limits

Classify short texts of the kind that the labelled texts were drawn from. For other topics,
languages or times, score the model first. It repeats the errors and the bias of its labels. Do not
let it decide about persons alone.{of_how_many}
"""


def model_card(clf: Any, net: NeuralNet, names: list[str], library: str) -> str:
    """Return the card as Markdown."""
    encoder = _public_name(net.pretrained)
    labeled, unlabeled, losses, score = _training(clf)
    what, parameters, of_how_many, of_all = "The net", _parameters(net), "", ""
    if clf is not net:
        if len(clf.estimators_) > 1:
            of_all = f", of the {len(clf.estimators_)} nets of the classifier together"
        what = "A student" if hasattr(clf, "students_") else "One of the nets"
        parameters.update(_parameters(clf))  # the seed and the draws of the net are not used
        of_how_many = f"\nThe classifier itself predicts with {len(clf.estimators_)} nets."
    parameters["pretrained"] = encoder
    return _CARD.format(
        library=library,
        base=f"base_model: {encoder.partition('@')[0]}\n" if encoder == net.pretrained else "",
        what=f"{what} of a `{type(clf).__name__}`",
        version=version("sklearn-spt"),
        use=_USE[library],
        labels=", ".join(f"`{name}`" for name in names),
        labeled=labeled,
        unlabeled=unlabeled,
        losses=losses,
        score="none was measured during training" if score is None else f"{score:.3f}{of_all}",
        parameters="\n".join(f"| {name} | {value} |" for name, value in parameters.items()),
        of_how_many=of_how_many,
    )


def _public_name(pretrained: str | os.PathLike[str]) -> str:
    """Return the name of an encoder, or of its folder without where it is."""
    name = os.fspath(pretrained)
    is_folder = not isinstance(pretrained, str) or os.path.isdir(name) or name[:1] in "./~"
    return os.path.basename(os.path.normpath(name)) if is_folder else name


def _parameters(estimator: Any) -> dict[str, Any]:
    names = inspect.signature(type(estimator)).parameters.keys() - _NOT_SHOWN - {"kwargs"}
    given = {name: getattr(estimator, name) for name in sorted(names)}
    return {k: v for k, v in given.items() if isinstance(v, str | int | float | None)}


def _training(clf: Any) -> tuple[str, int, Any, float | None]:
    """Return labelled and unlabelled rows, and losses and held-out score of the kept iteration."""
    if isinstance(clf, NeuralNet):
        sizes = [sum(b["train_batch_size"] for b in epoch["batches"]) for epoch in clf.history]
        losses = _rounded([epoch["train_loss"] for epoch in clf.history])
        return f"{max(sizes, default=0)} in an epoch", 0, losses, None
    is_labeled = clf.labeled_iter_ == 0
    labels, counts = np.unique(clf.transduction_[is_labeled], return_counts=True)
    by_class = ", ".join(f"{n} of `{label}`" for label, n in zip(labels, counts, strict=True))
    labeled = f"{is_labeled.sum()} ({by_class})"
    kept = getattr(clf, "best_iter_", clf.n_iter_)
    entry = clf.history_[min(kept, len(clf.history_) - 1)]
    if entry.get("validation_score") is not None:
        labeled += f", of which {clf.validation_fraction:.0%} were held out"
    losses = _rounded(entry["loss"]) or "none in the last iteration"
    return labeled, (~is_labeled).sum(), losses, entry.get("validation_score")


def _rounded(losses: Any) -> Any:
    """Return losses, in lists and dictionaries, as numbers of Python with four digits."""
    if isinstance(losses, dict):
        return {name: _rounded(part) for name, part in losses.items()}
    if isinstance(losses, list):
        return [_rounded(loss) for loss in losses]
    return round(float(losses), 4)
