"""Warnings point to the line of the user's code that called fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.nets import mlp_net
from sklearn.datasets import make_moons

from sklearn_spt import SelfPretrainingClassifier, ThrottledSelfTrainingClassifier
from sklearn_spt._holdout import HoldOut


def user_code(clf, *args, **kwargs):
    return clf.fit(*args, **kwargs)


FIT_LINE = user_code.__code__.co_firstlineno + 1


def moons(n_labeled):
    X, y = make_moons(60, noise=0.2, random_state=0)
    y[:2] = 0, 1
    return X.astype(np.float32), np.where(np.arange(60) < n_labeled, y, -1)


def model(**params):
    settings = {"step_size": 20, "logit_adjustment": 0.0, "alpha": 0.0, "random_state": 0}
    return SelfPretrainingClassifier(mlp_net(), **{**settings, **params})


@pytest.mark.parametrize(
    ("clf", "n_labeled", "more", "message"),
    [
        (model(step_size=1.0, alpha=0.1), 20, False, "alpha=0.1 has no effect"),
        (model(validation_fraction=0.5), 20, False, "the unlabelled documents did not help"),
        (model(validation_fraction=0.5), 2, False, "All of them are trained on"),
        (model(), 60, False, "y holds no unlabelled row"),
        (model(), 20, True, r"X_unlabeled has as many rows as X (60)"),
        (ThrottledSelfTrainingClassifier(mlp_net()), 60, False, "y holds no unlabelled row"),
    ],
)
def test_a_warning_points_to_the_call_of_fit(clf, n_labeled, more, message, monkeypatch):
    scores = iter([0.9, 0.5, 0.4, 0.3])
    monkeypatch.setattr(HoldOut, "score", lambda self, P: next(scores))
    X, y = moons(n_labeled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        user_code(clf, X, y, X_unlabeled=X if more else None)
    (one,) = [w for w in caught if message in str(w.message)]
    assert (one.filename, one.lineno) == (__file__, FIT_LINE)
