"""Scores and shares with intervals, compared with scikit-learn, SciPy and simulations."""

from __future__ import annotations

import tracemalloc

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
@pytest.mark.parametrize(("n_classes", "positive"), [(2, 0), (2, 1), (4, 3)])
def test_f1_is_that_of_scikit_learn(n_classes, positive):
    rng = rng_of()
    y, p = rng.integers(n_classes, size=(2, 60))
    W = rng.integers(0, 4, size=(20, 60)).astype(float)
    options = {"pos_label": positive} if n_classes == 2 else {"average": "macro"}
    expected = [f1_score(y, p, sample_weight=w, zero_division=0, **options) for w in W]
    np.testing.assert_allclose(weighted_f1(W, y, p, n_classes, positive), expected, rtol=1e-12)


def test_a_class_without_rows_scores_zero():
    y = p = np.zeros(5, dtype=np.int64)
    assert weighted_f1(np.ones((1, 5)), y, p, 2, 1).tolist() == [0.0]


# -- gain ----------------------------------------------------------------------------------------
def gain(y, first, second, n_classes=2, **options):
    settings = {"confidence": 0.95, "n_resamples": 1000, "rng": rng_of(), **options}
    return paired_gain(y, np.atleast_2d(first), np.atleast_2d(second), n_classes, 1, **settings)


def noisy(y, rate, seed):
    flip = rng_of(seed).random(len(y)) < rate
    return np.where(flip, 1 - y, y)


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


def test_interval_grows_with_the_confidence_and_shrinks_with_the_rows():
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
    scores = [[f1_score(y, p) for p in repeats] for repeats in (first, second)]
    assert found.gain == pytest.approx(np.mean(scores[1]) - np.mean(scores[0]))


@pytest.mark.parametrize("step", [1, -1])
def test_equal_predictions_in_any_order_gain_nothing(step):
    y = rng_of().integers(2, size=100)
    repeats = np.stack([noisy(y, 0.2, s) for s in (1, 2, 3)])
    found = gain(y, repeats, repeats[::step])
    assert found.gain == pytest.approx(0, abs=0 if step == 1 else 1e-12)
    assert found.low < 0 < found.high  # other rows could tell the two apart
    again = gain(y, repeats, repeats)
    assert (found.low, found.high) == pytest.approx((again.low, again.high), abs=1e-12)


def test_interval_of_two_equally_good_classifiers_covers_zero():
    covered = 0
    for seed in range(200):
        y = (rng_of(seed).random(150) < 0.3).astype(np.int64)
        first, second = (noisy(y, 0.2, start + seed) for start in (1000, 2000))
        found = gain(y, first, second, confidence=0.9, n_resamples=300)
        covered += found.low <= 0 <= found.high
    assert 0.83 <= covered / 200 <= 0.97


#: Shares of the rows by class, first and second prediction: 5% are positive, and the two predict
#: differently for 1.5%, 5% and 25% of all rows.
POPULATIONS = (
    np.array([[[0.943, 0.002], [0.003, 0.002]], [[0.012, 0.006], [0.004, 0.028]]]),
    np.array([[[0.9, 0.02], [0.01, 0.02]], [[0.01, 0.01], [0.01, 0.02]]]),
    np.array([[[0.67, 0.14], [0.09, 0.05]], [[0.01, 0.01], [0.01, 0.02]]]),
)


def counted(counts):
    """Classes and both predictions of rows, from their numbers by kind."""
    return np.repeat(np.stack(np.unravel_index(np.arange(8), (2, 2, 2))), counts.ravel(), axis=1)


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("n", [100, 300])
def test_coverage_of_the_interval_of_a_gain(population, n):
    y, first, second = counted(np.round(1000 * population).astype(int))
    truth = f1_score(y, second) - f1_score(y, first)
    rng, missed = rng_of(n), np.zeros(2)
    for _ in range(200):
        y, *p = counted(rng.multinomial(n, population.ravel()))
        found = gain(y, *p, n_resamples=400, rng=rng)
        missed += truth < found.low, truth > found.high
    assert (missed / 200 <= 0.05).all()


def test_interval_of_a_gain_is_that_of_the_posterior():
    counts = np.array([[[70, 3], [0, 5]], [[4, 6], [1, 11]]])
    found = gain(*counted(counts), n_resamples=100_000)
    one_right = np.array([[[0, 1], [1, 0]], [[0, 1], [1, 0]]])
    P = rng_of(1).dirichlet((counts + one_right / 2).ravel(), size=100_000).reshape(-1, 2, 2, 2)
    f1 = [
        2 * hit / (P[:, 1].sum(axis=(1, 2)) + predicted)
        for hit, predicted in (
            (P[:, 1, 1].sum(axis=1), P[:, :, 1].sum(axis=(1, 2))),
            (P[:, 1, :, 1].sum(axis=1), P[..., 1].sum(axis=(1, 2))),
        )
    ]
    expected = np.quantile(f1[1] - f1[0], [0.025, 0.975])
    np.testing.assert_allclose((found.low, found.high), expected, atol=0.003)
    assert found.probability == pytest.approx(np.mean(f1[1] > f1[0]), abs=0.005)


def test_the_gain_lies_in_its_interval():
    y = np.repeat([1, 0], [15, 285])
    found = gain(y, 0 * y, y)
    assert found.gain == found.high == 1
    assert 0.5 < found.low < 1


def test_memory_grows_with_the_classes_and_not_with_their_pairs():
    y = np.arange(800) % 400
    tracemalloc.start()
    found = gain(y, y, y, n_classes=400, n_resamples=100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.low < 0 < found.high
    assert peak < 20e6


def test_classes_that_no_row_confuses_leave_the_interval_of_macro_f1_open():
    y = np.repeat(np.arange(4), 25)
    found = gain(y, y, y, n_classes=4)
    assert found.gain == 0
    assert -0.05 < found.low < -0.001
    assert 0.001 < found.high < 0.05


def test_interval_of_a_mean_is_that_of_students_t():
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


@given(st.integers(2, 5), st.integers(0, 10_000), st.sampled_from([0.6, 1.0]))
def test_exact_shares_are_recovered(n_classes, seed, weight):
    rng = rng_of(seed)
    M = rng.dirichlet(np.ones(n_classes), size=n_classes)
    M = weight * np.eye(n_classes) + (1 - weight) * M
    p = rng.dirichlet(np.ones(n_classes))
    found = corrected_shares(M * rng.integers(1, 100, size=(n_classes, 1)), M.T @ p)
    np.testing.assert_allclose(found, p, atol=1e-6)


@pytest.mark.parametrize(
    ("confusion", "predicted"),
    [
        ([[10, 0], [0, 0]], [5, 5]),  # a class without a row
        ([[8, 2], [4, 1]], [5, 5]),  # the same rates in both classes
        ([[8, 2], [1, 4]], [0, 0]),  # nothing to count
    ],
)
def test_shares_that_cannot_be_estimated(confusion, predicted):
    found = corrected_shares(np.array(confusion, dtype=float), np.array(predicted, dtype=float))
    assert found is None


def simulated(rng, y, share, rates):
    """Predictions of held-out rows, and counts of the predictions of 3000 other rows."""
    held_out = (rng.random(len(y)) < np.take(rates, y)).astype(np.int64)
    truth = (rng.random(3000) < share).astype(np.int64)
    positive = int((rng.random(3000) < np.take(rates, truth)).sum())
    return y, held_out[None], np.array([3000 - positive, positive])


#: Ten positives that are nearly all found: their error rate is uncertain.
FEW = np.repeat([0, 1], [90, 10])
MANY = np.repeat([0, 1], [210, 90])


@pytest.mark.parametrize(
    ("y", "share", "rates", "confidence", "low_rate", "high_rate"),
    [
        (MANY, 0.1, (0.05, 0.6), 0.9, 0.8, 0.98),
        (FEW, 0.5, (0.01, 0.9), 0.95, 0.88, 1.0),
    ],
    ids=["many", "few"],
)
def test_coverage_of_the_intervals_of_shares(y, share, rates, confidence, low_rate, high_rate):
    covered = 0
    for seed in range(120):
        rng = rng_of(seed)
        _, low, high = shares_with_intervals(
            *simulated(rng, y, share, rates), 2, confidence=confidence, n_resamples=200, rng=rng
        )
        covered += low[1] <= share <= high[1]
    assert low_rate <= covered / 120 <= high_rate


def test_shares_are_corrected_and_repeats_do_not_narrow_the_interval():
    y, held_out, counts = simulated(rng_of(), MANY, 0.1, (0.05, 0.6))
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


def test_shares_that_cannot_be_estimated_have_no_interval():
    y = np.array([0, 0, 1, 1])
    constant = np.zeros((1, 4), dtype=np.int64)
    options = {"confidence": 0.9, "n_resamples": 10, "rng": rng_of()}
    assert shares_with_intervals(y, constant, np.array([9, 0]), 2, **options) is None
