"""Scores and shares with intervals, against scikit-learn and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp, ttest_ind
from sklearn.metrics import f1_score

from sklearn_spt.model_selection._intervals import (
    corrected_shares,
    interval_of,
    mean_of_means_with_interval,
    mean_with_interval,
    paired_gain,
    shares_with_intervals,
    weighted_f1,
)


def rng_of(seed=0):
    return np.random.default_rng(seed)


# -- F1 ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("positive", [0, 1])
def test_binary_f1_is_scikit_learns(positive):
    rng = rng_of()
    y, p = rng.integers(2, size=(2, 60))
    W = rng.integers(0, 4, size=(20, 60)).astype(float)
    expected = [f1_score(y, p, pos_label=positive, sample_weight=w) for w in W]
    np.testing.assert_allclose(weighted_f1(W, y, p, 2, positive), expected, rtol=1e-12)


def test_macro_f1_is_scikit_learns():
    rng = rng_of()
    y, p = rng.integers(4, size=(2, 60))
    W = rng.integers(0, 4, size=(20, 60)).astype(float)
    expected = [
        f1_score(y, p, labels=range(4), average="macro", sample_weight=w, zero_division=0)
        for w in W
    ]
    np.testing.assert_allclose(weighted_f1(W, y, p, 4, 3), expected, rtol=1e-12)


def test_a_class_that_is_nowhere_scores_zero():
    y = p = np.zeros(5, dtype=np.int64)
    assert weighted_f1(np.ones((1, 5)), y, p, 2, 1).tolist() == [0.0]


# -- gain ----------------------------------------------------------------------------------------
def gain(y, first, second, n_classes=2, **options):
    settings = {"confidence": 0.95, "n_resamples": 1000, "rng": rng_of(), **options}
    return paired_gain(y, np.atleast_2d(first), np.atleast_2d(second), n_classes, 1, **settings)


def noisy(y, rate, seed):
    flip = rng_of(seed).random(len(y)) < rate
    return np.where(flip, 1 - y, y)


def test_equal_predictions_gain_nothing():
    y = rng_of().integers(2, size=80)
    found = gain(y, noisy(y, 0.2, 1), noisy(y, 0.2, 1))
    assert (found.gain, found.low, found.high, found.probability) == (0, 0, 0, 0)


def test_a_better_classifier_gains():
    y = rng_of().integers(2, size=300)
    worse, better = noisy(y, 0.3, 1), noisy(y, 0.1, 2)
    found = gain(y, worse, better)
    assert found.first == pytest.approx(f1_score(y, worse))
    assert found.second == pytest.approx(f1_score(y, better))
    assert 0 < found.low < found.gain < found.high
    assert found.probability == 1
    turned = gain(y, better, worse)
    assert turned.gain == -found.gain
    assert turned.high < 0


def test_the_interval_grows_with_the_confidence_and_falls_with_the_rows():
    y = rng_of().integers(2, size=400)
    a, b = noisy(y, 0.3, 1), noisy(y, 0.25, 2)

    def width(n, confidence):
        found = gain(y[:n], a[:n], b[:n], confidence=confidence)
        return found.high - found.low

    assert width(400, 0.5) < width(400, 0.9) < width(100, 0.9)


def test_repeats_are_averaged():
    y = rng_of().integers(2, size=100)
    first = np.stack([noisy(y, 0.3, s) for s in (1, 2)])
    second = np.stack([noisy(y, 0.2, s) for s in (3, 4)])
    found = gain(y, first, second)
    expected = np.mean(
        [f1_score(y, b) - f1_score(y, a) for a, b in zip(first, second, strict=True)]
    )
    assert found.gain == pytest.approx(expected)


def test_equal_predictions_in_another_order_are_no_gain():
    y = rng_of().integers(2, size=100)
    repeats = np.stack([noisy(y, 0.2, s) for s in (1, 2, 3)])
    found = gain(y, repeats, repeats[::-1])
    assert (found.low, found.high, found.probability) == (0, 0, 0)


def test_the_interval_covers_as_often_as_it_says():
    """Two classifiers that are equally good: the interval of their gain should hold 0."""
    covered = 0
    for seed in range(200):
        y = (rng_of(seed).random(150) < 0.3).astype(np.int64)
        found = gain(
            y,
            noisy(y, 0.2, 1000 + seed),
            noisy(y, 0.2, 2000 + seed),
            confidence=0.9,
            n_resamples=300,
        )
        covered += found.low <= 0 <= found.high
    assert 0.83 <= covered / 200 <= 0.97


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(1.0, 2.0, size=7)
    expected = ttest_1samp(values, 0.0).confidence_interval(0.9)
    found = mean_with_interval(values, 0.9)
    assert found == pytest.approx((values.mean(), expected.low, expected.high))


def test_one_group_has_the_interval_of_its_mean():
    values = np.random.default_rng(0).normal(size=6)
    assert mean_of_means_with_interval([values], 0.9) == pytest.approx(
        mean_with_interval(values, 0.9)
    )


def test_two_groups_have_welchs_interval():
    # half the sum of two means is half their difference after a change of sign
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=5), rng.normal(3.0, 2.0, size=8)
    expected = ttest_ind(first, -second, equal_var=False).confidence_interval(0.95)
    _, low, high = mean_of_means_with_interval([first, second], 0.95)
    assert (2 * low, 2 * high) == pytest.approx((expected.low, expected.high))


def test_equal_values_have_an_interval_without_width():
    groups = [np.full(3, 0.1), np.full(2, 0.3)]
    assert mean_of_means_with_interval(groups, 0.95) == pytest.approx((0.2, 0.2, 0.2))


def test_a_single_value_has_no_interval():
    assert mean_with_interval(np.array([0.5]), 0.95) == (0.5, None, None)
    groups = [np.array([0.5]), np.array([0.1, 0.2])]
    assert mean_of_means_with_interval(groups, 0.95)[1:] == (None, None)


def test_interval_of_known_values():
    assert interval_of(np.arange(101.0), 0.9) == pytest.approx((5, 95))


# -- shares --------------------------------------------------------------------------------------
@given(st.floats(0.55, 1.0), st.floats(0.0, 0.45), st.floats(0.0, 1.0), st.integers(100, 1000))
def test_two_classes_give_the_adjusted_count(tpr, fpr, q, n):
    confusion = np.array([[(1 - fpr) * n, fpr * n], [(1 - tpr) * n, tpr * n]])
    expected = np.clip((q - fpr) / (tpr - fpr), 0, 1)
    found = corrected_shares(confusion, np.array([1 - q, q]))
    np.testing.assert_allclose(found, [1 - expected, expected], atol=1e-6)


@given(st.integers(2, 5), st.integers(0, 10_000))
def test_exact_shares_are_found_again(n_classes, seed):
    rng = rng_of(seed)
    M = 0.6 * np.eye(n_classes) + 0.4 * rng.dirichlet(np.ones(n_classes), size=n_classes)
    p = rng.dirichlet(np.ones(n_classes))
    found = corrected_shares(M * rng.integers(1, 100, size=(n_classes, 1)), M.T @ p)
    np.testing.assert_allclose(found, p, atol=1e-6)


def test_a_perfect_classifier_is_believed():
    np.testing.assert_allclose(
        corrected_shares(np.diag([30.0, 7.0, 5.0]), np.array([60.0, 30.0, 10.0])), [0.6, 0.3, 0.1]
    )


@pytest.mark.parametrize(
    ("confusion", "predicted"),
    [
        ([[10, 0], [0, 0]], [5, 5]),  # a class without a row
        ([[8, 2], [4, 1]], [5, 5]),  # the same rates in both classes
        ([[8, 2], [1, 4]], [0, 0]),  # nothing to count
    ],
)
def test_where_shares_cannot_be_told(confusion, predicted):
    found = corrected_shares(np.array(confusion, dtype=float), np.array(predicted, dtype=float))
    assert found is None


def simulated(seed, share=0.1, n=300, n_more=3000, rates=(0.05, 0.6)):
    """True classes and predictions on held-out rows, and counts of predictions on others."""
    rng = rng_of(seed)
    fpr, tpr = rates
    y = (rng.random(n) < 0.3).astype(np.int64)
    held_out = (rng.random(n) < np.where(y == 1, tpr, fpr)).astype(np.int64)
    truth = rng.random(n_more) < share
    positive = int((rng.random(n_more) < np.where(truth, tpr, fpr)).sum())
    return y, held_out[None], np.array([n_more - positive, positive])


def test_intervals_of_shares_cover_as_often_as_they_say():
    covered = 0
    for seed in range(120):
        _, low, high = shares_with_intervals(
            *simulated(seed), 2, confidence=0.9, n_resamples=200, rng=rng_of(seed)
        )
        covered += low[1] <= 0.1 <= high[1]
    assert 0.8 <= covered / 120 <= 0.98


def test_intervals_cover_where_every_one_of_a_few_positives_was_found():
    """Ten positives, all or nearly all found: the rate is not known as well as it looks."""
    covered = 0
    for seed in range(120):
        rng = rng_of(seed)
        y = np.repeat([0, 1], [90, 10])
        held_out = (rng.random(100) < np.where(y == 1, 0.9, 0.01)).astype(np.int64)[None]
        truth = rng.random(3000) < 0.5
        positive = int((rng.random(3000) < np.where(truth, 0.9, 0.01)).sum())
        found = shares_with_intervals(
            y,
            held_out,
            np.array([3000 - positive, positive]),
            2,
            confidence=0.95,
            n_resamples=200,
            rng=rng,
        )
        covered += found[1][1] <= 0.5 <= found[2][1]
    assert covered / 120 >= 0.88


def test_shares_are_corrected_and_repeats_do_not_narrow_the_interval():
    y, held_out, counts = simulated(0)
    options = {"confidence": 0.9, "n_resamples": 500}
    estimate, low, high = shares_with_intervals(y, held_out, counts, 2, rng=rng_of(), **options)
    again = shares_with_intervals(
        y, np.repeat(held_out, 5, axis=0), counts, 2, rng=rng_of(), **options
    )
    assert abs(estimate[1] - 0.1) < 0.05
    assert (low <= estimate).all()
    assert (estimate <= high).all()
    np.testing.assert_allclose(again[0], estimate)
    np.testing.assert_allclose(again[2] - again[1], high - low, rtol=0.2)


def test_shares_that_cannot_be_told_have_no_interval():
    y = np.array([0, 0, 1, 1])
    constant = np.zeros((1, 4), dtype=np.int64)
    options = {"confidence": 0.9, "n_resamples": 10, "rng": rng_of()}
    assert shares_with_intervals(y, constant, np.array([9, 0]), 2, **options) is None
