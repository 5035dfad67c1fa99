"""Teachers that are no nets: they label the unlabelled documents in the first iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import has_fit_parameter
from skorch import NeuralNet

from sklearn_spt._class_distributions import tempered
from sklearn_spt._data import PartlyLabeled, as_texts, concatenate
from sklearn_spt._labels import FloatArray
from sklearn_spt._random import seeded_clone
from sklearn_spt._soft_self_training import SoftSelfTrainingClassifier
from sklearn_spt._training import Trainer
from sklearn_spt.text import SentenceEmbedder


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
    teachers: list[Any], trainer: Trainer, data: PartlyLabeled, temperature: float
) -> tuple[FloatArray, FloatArray]:
    """Return the teachers' mean class probabilities of U and of L.

    Each teacher is cloned and fitted on the documents as they were given, with class codes as y,
    -1 at unlabelled rows, and the weights if its fit, or that of its last step, takes them.
    """
    X = _in_one(*data.documents)
    y = np.full(len(data.labeled), -1, dtype=np.int64)
    y[data.labeled] = data.y
    weights = np.ones(len(y))
    weights[data.labeled] = data.weights
    P = []
    for k, teacher in enumerate(teachers):
        teacher = _on_embeddings(trainer.net) if isinstance(teacher, str) else teacher
        model = seeded_clone(teacher, trainer.root, 0, 6, k)
        name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
        # a clone that has classes, or holds what has, was fitted before, and knows labels
        inside = last.get_params(deep=False).values()
        fitted = any(hasattr(part, "classes_") for part in (last, *inside))
        weighted = np.ptp(data.weights) > 0 and has_fit_parameter(last, "sample_weight")
        how = {f"{name}__sample_weight".removeprefix("__"): weights} if weighted else {}
        try:
            with config_context(enable_metadata_routing=False):  # one step needs no routing
                model.fit(X, y, **how)
            answers = np.asarray(model.predict_proba(X), dtype=np.float64)
            P.append(_by_class(answers, model, len(y), data.classes.tolist(), fitted))
        except Exception as error:
            error.add_note(f"The teacher {type(model).__name__} got X as a {type(X).__name__}.")
            raise
    mean = np.clip(np.mean(P, axis=0), 0, None)
    soft = tempered(mean / mean.sum(axis=1, keepdims=True), temperature)
    return soft[~data.labeled], soft[data.labeled]


def _in_one(X: Any, more: Any) -> Any:
    """Return X and X_unlabeled in one: a frame, a Series or a matrix, else an array of texts."""
    parts = [X] if more is None else [X, more]
    if hasattr(X, "iloc") and all(type(part) is type(X) for part in parts):
        named = [part.set_axis(X.columns, axis=1) for part in parts] if X.ndim == 2 else parts
        return pd.concat(named, ignore_index=True)
    if as_texts(X) is not None:
        return np.array([text for part in parts for text in as_texts(part) or ()], dtype=object)
    return X if more is None else concatenate(X, more)


def _by_class(P: FloatArray, model: Any, n: int, classes: list[Any], fitted: bool) -> FloatArray:
    """Return a teacher's probabilities with a column for each class of y, 0 if it lacks one."""
    known = np.asarray(model.classes_).tolist() if hasattr(model, "classes_") else classes
    name, codes = type(model).__name__, list(range(len(classes)))
    names = codes if not fitted and (known == codes or not set(known) <= set(classes)) else classes
    foreign = "".join(f"; {label!r} is no class of y" for label in known if label not in names)
    if foreign or P.shape != (n, len(known)):
        raise ValueError(
            f"the teacher {name} returned probabilities of shape {P.shape} for the classes "
            f"{known}, but must return {n} rows, with columns for each of {classes} or for some of "
            f"them{foreign}. If it takes -1 for a class, fit it on the labelled rows, and pass "
            "FrozenEstimator(fitted)."
        )
    wrong = np.flatnonzero(~((P >= -1e-9).all(axis=1) & (abs(P.sum(axis=1) - 1) < 1e-3)))
    if len(wrong):
        raise ValueError(
            f"the teacher {name} returned {P[wrong[0]].tolist()} for row {wrong[0]}: probabilities "
            "are not negative, and sum to 1. Where it has no answer, let it return equal ones."
        )
    return P @ np.eye(len(classes))[[names.index(label) for label in known]]


def _on_embeddings(net: NeuralNet) -> Any:
    """Return soft self-training on frozen embeddings by the encoder of the net."""
    if not hasattr(net, "pretrained"):  # a net that reads numbers: they are the features
        return SoftSelfTrainingClassifier()
    names = ("pooling", "max_length", "device", "precision")
    settings = {name: getattr(net, name) for name in names}
    embed = SentenceEmbedder(net.pretrained, **settings).transform  # fit would warn as the net did
    return make_pipeline(FunctionTransformer(embed), SoftSelfTrainingClassifier())
