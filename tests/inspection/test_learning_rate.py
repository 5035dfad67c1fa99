from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch
from helpers.figures import names_of
from helpers.nets import mlp_net
from helpers.variants import variant
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch.callbacks import EarlyStopping

from sklearn_spt._holdout import HoldOut
from sklearn_spt.inspection import LearningRateDisplay


class RecordingSGD(torch.optim.SGD):
    """Keeps the rate of each step."""

    rates: ClassVar[list[float]] = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


@pytest.mark.parametrize(
    ("params", "name", "boundary"),
    [
        # 160 pseudo-labelled rows in batches of 8, before three times 40 labelled ones
        ({}, "right-trapezoidal", 20),
        ({"switch": "one stage"}, "slanted", None),
        ({"max_iter": 0}, "slanted", None),
    ],
)
def test_rates_are_those_of_the_optimiser(numbers, params, name, boundary):
    X, y = numbers
    net = mlp_net(module__n_in=8, verbose=0, lr=0.25, optimizer=RecordingSGD)
    clf = variant(net, step_size=0.5, random_state=0, **params)
    RecordingSGD.rates.clear()
    clf.fit(X.astype(np.float32), np.where(np.arange(200) < 40, y, -1))
    display = LearningRateDisplay.from_estimator(clf)
    drawn = display.lines_[0].get_ydata()
    assert drawn.max() == 0.25
    assert_allclose(RecordingSGD.rates[-len(drawn) :], drawn)
    assert names_of(display.ax_)[0] == name
    assert display.ax_.get_ylabel() == "learning rate"
    if boundary is None:
        assert display.boundary_ is None
    else:
        assert_array_equal(display.boundary_.get_xdata(), [boundary] * 2)


@pytest.mark.parametrize(("max_iter", "n_steps"), [(None, 20 + 2 * 5), (0, 2 * 5)])
def test_rates_of_a_stage_that_ended_early(numbers, max_iter, n_steps):
    X, y = numbers
    stop = EarlyStopping("train_loss", patience=1, threshold=1e9)
    net = mlp_net(module__n_in=8, lr=0.25, optimizer=RecordingSGD, callbacks=[stop])
    clf = variant(net, step_size=0.5, max_iter=max_iter, random_state=0)
    pipeline = make_pipeline(FunctionTransformer(), clf)
    RecordingSGD.rates.clear()
    pipeline.fit(X.astype(np.float32), np.where(np.arange(200) < 40, y, -1))
    drawn = LearningRateDisplay.from_estimator(pipeline).lines_[0].get_ydata()
    assert len(drawn) == n_steps
    assert_allclose(RecordingSGD.rates[-len(drawn) :], drawn)


def test_rates_are_those_of_the_kept_iteration(numbers, monkeypatch):
    X, y = numbers
    scores = iter([0.9, 0.5, 0.4])
    monkeypatch.setattr(HoldOut, "score", lambda self, P: next(scores))
    net = mlp_net(module__n_in=8, verbose=0, lr=0.25, optimizer=RecordingSGD)
    clf = variant(net, step_size=0.5, validation_fraction=0.2, random_state=0)
    RecordingSGD.rates.clear()
    with pytest.warns(UserWarning, match="the unlabelled documents did not help"):
        clf.fit(X.astype(np.float32), np.where(np.arange(200) < 40, y, -1))
    assert clf.best_iter_ == 0
    display = LearningRateDisplay.from_estimator(clf)
    assert names_of(display.ax_)[0] == "slanted"
    assert_allclose(display.lines_[0].get_ydata(), RecordingSGD.rates[:12])  # 32 rows, by 8
    assert display.boundary_ is None


def test_from_estimator_without_a_student():
    clf = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"LogisticRegression has no students_.*from_schedule"):
        LearningRateDisplay.from_estimator(clf)


def test_from_schedule_compares_the_two_of_the_paper():
    display = LearningRateDisplay.from_schedule(n_constant=4, n_decay=5)
    assert_allclose(display.lines_[0].get_ydata(), [1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2])
    assert_allclose(display.lines_[1].get_ydata(), 1 - np.arange(9) / 9)
    assert display.ax_.get_ylabel() == "learning rate (multiple of the initial rate)"
    assert display.ax_.get_xlabel() == "optimiser step"
    for name in ("n_constant", "n_decay"):
        with pytest.raises(ValueError, match=f"{name} must be at least 0"):
            LearningRateDisplay.from_schedule(**{"n_constant": 1, "n_decay": 1, name: -1})
