"""Warnings point to the line of the user that called fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.nets import mlp_net
from sklearn.datasets import make_moons

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt._holdout import HoldOut
from sklearn_spt.baselines import ThrottledSelfTrainingClassifier


def of_ones_own(clf, *args, **kwargs):
    return clf.fit(*args, **kwargs)


FIT_LINE = of_ones_own.__code__.co_firstlineno + 1


@pytest.fixture
def found(monkeypatch):
    """Fit from a function of one's own, and return the warnings."""
    scores = iter([0.9, 0.5, 0.4, 0.3])
    monkeypatch.setattr(HoldOut, "score", lambda self, P: next(scores))

    def fit(clf, *args, **kwargs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            of_ones_own(clf, *args, **kwargs)
        return caught

    return fit


def moons(n_labeled):
    X, y = make_moons(60, noise=0.2, random_state=0)
    y[:2] = 0, 1
    return X.astype(np.float32), np.where(np.arange(60) < n_labeled, y, -1)


def model(**params):
    settings = {"step_size": 20, "logit_adjustment": 0.0, "alpha": 0.0, "random_state": 0}
    return SelfPretrainingClassifier(mlp_net(), **{**settings, **params})


@pytest.mark.parametrize(
    ("params", "n_labeled", "message"),
    [
        ({"step_size": 1.0, "alpha": 0.1}, 20, "alpha=0.1 has no effect"),
        ({"validation_fraction": 0.5}, 20, "the unlabelled documents did not help"),
        ({"validation_fraction": 0.5}, 2, "All of them are trained on"),
        ({}, 60, "y holds no unlabelled row"),
    ],
)
def test_of_self_pretraining(found, params, n_labeled, message):
    caught = found(model(**params), *moons(n_labeled))
    (one,) = [w for w in caught if message in str(w.message)]
    assert (one.filename, one.lineno) == (__file__, FIT_LINE)


def test_of_unlabelled_documents_beside_x(found):
    X, y = moons(20)
    caught = found(model(), X, y, X_unlabeled=X)
    (one,) = [w for w in caught if "as many rows as X" in str(w.message)]
    assert (one.filename, one.lineno) == (__file__, FIT_LINE)


def test_of_a_baseline(found):
    caught = found(ThrottledSelfTrainingClassifier(mlp_net(), random_state=0), *moons(60))
    (one,) = [w for w in caught if "y holds no unlabelled row" in str(w.message)]
    assert (one.filename, one.lineno) == (__file__, FIT_LINE)
