"""Teachers that are no nets: they label the unlabelled documents in the first iteration."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter
from skorch import NeuralNet

from sklearn_spt._base import PartlyLabeled, concatenate
from sklearn_spt._labels import FloatArray
from sklearn_spt._losses import softmax
from sklearn_spt._soft_self_training import SoftSelfTrainingClassifier
from sklearn_spt._texts import as_texts


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
) -> tuple[FloatArray, FloatArray]:
    """Return the teachers' mean class probabilities of U and of L.

    Each teacher is cloned and fitted on the documents as they were given, with class codes as y,
    -1 at unlabelled rows, and the weights if its fit, or that of its last step, takes them.
    """
    X, more = data.documents
    if (texts := as_texts(X)) is not None:
        X = np.array([*texts, *(() if more is None else as_texts(more) or ())], dtype=object)
    elif more is not None:
        frames = hasattr(X, "iloc") and hasattr(more, "iloc")
        X = pd.concat([X, more], ignore_index=True) if frames else concatenate(X, more)
    y = np.full(len(data.labeled), -1, dtype=np.int64)
    y[data.labeled] = data.y
    weights = np.ones(len(y))
    weights[data.labeled] = data.weights
    P = []
    for teacher in teachers:
        model = _on_embeddings(net) if isinstance(teacher, str) else clone(teacher)
        name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
        how = {}
        if np.ptp(data.weights) > 0 and has_fit_parameter(last, "sample_weight"):
            how[f"{name}__sample_weight".removeprefix("__")] = weights
        # the weights of one step need no routing; what an encoder loses has been said
        with config_context(enable_metadata_routing=False), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*the encoder")
            model.fit(X, y, **how)
        P.append(np.asarray(model.predict_proba(X), dtype=np.float64))
        _check_answers(P[-1], model, len(y), data.classes.tolist())
    with np.errstate(divide="ignore"):  # a probability of 0 stays one
        tempered = softmax(np.log(np.mean(P, axis=0)), temperature)
    return tempered[~data.labeled], tempered[data.labeled]


def _check_answers(P: FloatArray, model: Any, n: int, classes: list[Any]) -> None:
    """Raise an error that says what is wrong with the probabilities of a teacher."""
    K, name = len(classes), type(model).__name__
    known = np.asarray(model.classes_).tolist() if hasattr(model, "classes_") else classes
    if known not in (classes, list(range(K))) or P.shape != (n, K):
        raise ValueError(
            f"the teacher {name} returned probabilities of shape {P.shape} for the classes "
            f"{known}, but must return shape {(n, K)}, a column for each of {classes}. If it takes "
            "-1 for a class, fit it on the labelled rows, and pass FrozenEstimator(fitted)."
        )
    wrong = np.flatnonzero(~((P >= -1e-9).all(axis=1) & (abs(P.sum(axis=1) - 1) < 1e-3)))
    if len(wrong):
        raise ValueError(
            f"the teacher {name} returned {P[wrong[0]].tolist()} for row {wrong[0]}: probabilities "
            "are not negative, and sum to 1. Where it has no answer, let it return equal ones."
        )


def _on_embeddings(net: NeuralNet) -> Any:
    """Return soft self-training on frozen embeddings by the encoder of the net."""
    from sklearn_spt.text import SentenceEmbedder

    if not hasattr(net, "pretrained"):  # a net that reads numbers: they are the features
        return SoftSelfTrainingClassifier()
    names = ("pooling", "max_length", "device", "precision")
    settings = {name: getattr(net, name) for name in names}
    return make_pipeline(SentenceEmbedder(net.pretrained, **settings), SoftSelfTrainingClassifier())
