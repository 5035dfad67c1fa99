from __future__ import annotations

import pickle
from typing import ClassVar

import numpy as np
import pytest
import torch
from helpers.figures import names_of
from helpers.nets import mlp_net
from helpers.variants import variant
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.inspection import LearningRateDisplay
from sklearn_spt.nets._schedules import right_trapezoidal, slanted

pytestmark = pytest.mark.usefixtures("closed_figures")


class RecordingSGD(torch.optim.SGD):
    """Keeps the rate of each step."""

    rates: ClassVar[list[float]] = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


@pytest.fixture
def partly_labelled(numbers):
    X, y = numbers
    return X.astype(np.float32), np.where(np.arange(200) < 40, y, -1)


def test_from_estimator_has_the_rates_of_the_student(fitted):
    # 100 pseudo-labelled rows in batches of 8, then three times 40 labelled ones
    display = LearningRateDisplay.from_estimator(fitted)
    expected = [0.25 * right_trapezoidal(step, 13, 15) for step in range(28)]
    assert_allclose(display.lines_[0].get_ydata(), expected)
    assert_array_equal(display.boundary_.get_xdata(), [13, 13])
    assert names_of(display.ax_) == ["right-trapezoidal", "labelled texts begin"]
    assert display.ax_.get_ylabel() == "learning rate"
    again = LearningRateDisplay.from_estimator(pickle.loads(pickle.dumps(fitted)))
    assert_array_equal(again.lines_[0].get_ydata(), display.lines_[0].get_ydata())


def test_rates_are_those_of_the_optimiser(partly_labelled):
    net = mlp_net(module__n_in=8, verbose=0, optimizer=RecordingSGD)
    clf = SelfPretrainingClassifier(net, max_iter=1, alpha=0, random_state=0)
    RecordingSGD.rates.clear()
    clf.fit(*partly_labelled)
    drawn = LearningRateDisplay.from_estimator(clf).lines_[0].get_ydata()
    assert_allclose(RecordingSGD.rates[-len(drawn) :], drawn)


@pytest.mark.parametrize(
    ("params", "n"), [({"switch": "one stage"}, 3 * 25), ({"max_iter": 0}, 15)]
)
def test_from_estimator_with_a_slanted_rate(partly_labelled, params, n):
    net = mlp_net(module__n_in=8, verbose=0)
    clf = variant(net, step_size=0.5, random_state=0, **params)
    display = LearningRateDisplay.from_estimator(clf.fit(*partly_labelled))
    assert_allclose(display.lines_[0].get_ydata(), [0.1 * slanted(step, n) for step in range(n)])
    assert display.boundary_ is None


def test_from_estimator_without_a_student():
    clf = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"LogisticRegression has no student_.*from_schedule"):
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
