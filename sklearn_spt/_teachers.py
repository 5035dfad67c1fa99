"""Teachers that are no nets: they label the unlabelled documents in the first iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from skorch import NeuralNet

from sklearn_spt._base import PartlyLabeled, concatenate
from sklearn_spt._losses import softmax
from sklearn_spt._soft_self_training import SoftSelfTrainingClassifier
from sklearn_spt._texts import as_texts

FloatArray = NDArray[np.float64]


def split_teachers(teacher: Any) -> tuple[bool, list[Any]]:
    """Return whether nets are among the teachers, and the others."""
    given = teacher if isinstance(teacher, list | tuple) else [teacher]
    others = [one for one in given if one is not None and one != "nets"]
    for one in others if given else [teacher]:
        if one != "embeddings" and not (hasattr(one, "fit") and hasattr(one, "predict_proba")):
            raise TypeError(
                'teacher must be None, "nets", "embeddings", an estimator with fit and '
                f"predict_proba, or a list of these; got {one!r}."
            )
    return len(others) < len(given), others


def label(
    teachers: list[Any], net: NeuralNet, data: PartlyLabeled, temperature: float
) -> tuple[FloatArray, FloatArray] | None:
    """Return the teachers' mean class probabilities of U and of L; None without a teacher.

    Each teacher is cloned and fitted on the documents as they were given, with class codes as y,
    and -1 at unlabelled rows.
    """
    if not teachers:
        return None
    X, more = data.documents
    if (texts := as_texts(X)) is not None:
        X = np.array([*texts, *(() if more is None else as_texts(more) or ())], dtype=object)
    elif more is not None:
        frames = hasattr(X, "iloc") and hasattr(more, "iloc")
        X = pd.concat([X, more], ignore_index=True) if frames else concatenate(X, more)
    y = np.full(len(data.labeled), -1, dtype=np.int64)
    y[data.labeled] = data.y
    P = []
    for teacher in teachers:
        model = _on_embeddings(net) if isinstance(teacher, str) else clone(teacher)
        P.append(np.asarray(model.fit(X, y).predict_proba(X), dtype=np.float64))
        if P[-1].shape != (len(y), data.n_classes):
            raise ValueError(
                f"teacher {teacher!r} must return probabilities of shape "
                f"{(len(y), data.n_classes)}, a row for each document and a column for each class, "
                f"but returned {P[-1].shape}."
            )
    with np.errstate(divide="ignore"):  # a probability of 0 stays one
        tempered = softmax(np.log(np.mean(P, axis=0)), temperature)
    return tempered[~data.labeled], tempered[data.labeled]


def _on_embeddings(net: NeuralNet) -> Any:
    """Return soft self-training on frozen embeddings by the encoder of the net."""
    from sklearn_spt.text import SentenceEmbedder

    if not hasattr(net, "pretrained"):  # a net that reads numbers: they are the features
        return SoftSelfTrainingClassifier()
    names = ("pooling", "max_length", "device", "precision")
    settings = {name: getattr(net, name) for name in names}
    return make_pipeline(SentenceEmbedder(net.pretrained, **settings), SoftSelfTrainingClassifier())
