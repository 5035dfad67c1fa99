"""Scores of predictions and of probabilities, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from sklearn_spt.experiments._scores import (
    brier_score,
    calibration_error,
    class_scores,
    probability_scores,
)


def drawn(n, n_classes, seed):
    """Probabilities, and classes drawn by them."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_classes), size=n)
    y = np.array([rng.choice(n_classes, p=row) for row in P])
    return y, P


def test_scores_of_two_and_of_more_classes():
    y = np.array([0, 0, 1, 1])
    found = class_scores(y, np.array([0, 1, 1, 1]), 2)
    assert found["f1"] == pytest.approx(0.8)
    assert found["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    three = class_scores(np.array([0, 1, 2, 2]), np.array([0, 1, 2, 1]), 3)
    assert three["f1"] == three["macro_f1"]
    assert class_scores(y, np.zeros(4, dtype=int), 2)["precision"] == 0
    # of three classes also where the rows hold two
    assert class_scores(y, y, 3)["f1"] == class_scores(y, y, 3)["macro_f1"]


def test_the_brier_score_of_two_classes_is_scikit_learns():
    y, P = drawn(200, 2, seed=0)
    assert brier_score(y, P) == pytest.approx(brier_score_loss(y, P[:, 1]))


def test_certain_and_right_is_best_and_certain_and_wrong_is_worst():
    y = np.array([0, 1, 2, 1])
    right = np.eye(3)[y]
    assert probability_scores(y, right) == {"brier": 0, "ece": 0}
    assert probability_scores(y, np.roll(right, 1, axis=1)) == {"brier": 1, "ece": 1}


def test_true_probabilities_are_calibrated():
    y, P = drawn(50_000, 3, seed=1)
    assert calibration_error(y, P) < 0.01
    too_sure = P**3 / (P**3).sum(axis=1, keepdims=True)
    assert calibration_error(y, too_sure) > 0.1


@pytest.mark.parametrize(
    ("P", "y", "n_bins", "error"),
    [
        # (1/3, 2/3] holds two rows of mean 0.58 and accuracy 0.5, (2/3, 1] one
        ([[0.6, 0.4], [0.56, 0.44], [0.1, 0.9]], [0, 1, 1], 3, (2 * 0.08 + 0.1) / 3),
        # 0.5 is in (0, 0.5], 0.51 in (0.5, 1]: errors of opposite signs do not cancel
        ([[0.5, 0.5], [0.51, 0.49]], [1, 0], 2, (0.5 + 0.49) / 2),
    ],
)
def test_the_calibration_error_by_hand(P, y, n_bins, error):
    assert calibration_error(np.array(y), np.array(P), n_bins) == pytest.approx(error)
