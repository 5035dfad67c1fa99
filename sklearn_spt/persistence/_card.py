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
let it decide about persons alone. {one_net}
"""


def model_card(clf: Any, net: NeuralNet, names: list[str], library: str) -> str:
    """Return the card as Markdown."""
    method, public = type(clf).__name__, _public_name(net.pretrained)
    part = (
        "The net" if clf is net else "The last student" if hasattr(clf, "student_") else "One net"
    )
    labeled, unlabeled = _sizes(clf, net)
    losses, score = _training(clf)
    parameters = {**_parameters(clf), **({} if clf is net else _parameters(net))}
    parameters["pretrained"] = public
    is_name = public == str(net.pretrained)
    one_net = (
        f"The {method} itself predicts with {len(clf.estimators_)} nets." if clf is not net else ""
    )
    return _CARD.format(
        library=library,
        base=f"base_model: {public}\n" if is_name else "",
        what=f"{part} of a `{method}`",
        version=version("sklearn-spt"),
        use=_USE[library],
        labels=", ".join(f"`{name}`" for name in names),
        labeled=labeled,
        unlabeled=unlabeled,
        losses=losses,
        score="none was measured during training" if score is None else f"{score:.3f}",
        parameters="\n".join(f"| {name} | {value} |" for name, value in parameters.items()),
        one_net=one_net,
    ).replace(" \n", "\n")


def _public_name(pretrained: str | os.PathLike[str]) -> str:
    """Return the name of an encoder, or of its folder without where it is."""
    name = os.fspath(pretrained)
    is_folder = not isinstance(pretrained, str) or os.path.isdir(name) or name[:1] in "./~"
    return os.path.basename(os.path.normpath(name)) if is_folder else name


def _parameters(estimator: Any) -> dict[str, Any]:
    names = list(inspect.signature(type(estimator)).parameters)
    given = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    plain = (str, int, float, type(None))
    return {k: v for k, v in given.items() if k not in _NOT_SHOWN and isinstance(v, plain)}


def _sizes(clf: Any, net: NeuralNet) -> tuple[str, str]:
    if clf is net:
        n = (
            sum(batch["train_batch_size"] for batch in net.history[-1]["batches"])
            if net.history
            else 0
        )
        return f"{n} in an epoch", "0"
    is_labeled = clf.labeled_iter_ == 0
    labels, counts = np.unique(clf.transduction_[is_labeled], return_counts=True)
    by_class = ", ".join(f"{n} of `{label}`" for label, n in zip(labels, counts, strict=True))
    return f"{is_labeled.sum()} ({by_class})", str((~is_labeled).sum())


def _training(clf: Any) -> tuple[Any, float | None]:
    """Return the losses and the held-out score of the iteration whose nets were kept."""
    if isinstance(clf, NeuralNet):
        return [
            round(loss, 4) for loss in clf.history[:, "train_loss"]
        ] if clf.history else [], None
    kept = getattr(clf, "best_iter_", clf.n_iter_)
    entry = clf.history_[min(kept, len(clf.history_) - 1)]
    return entry["loss"], entry.get("validation_score")
