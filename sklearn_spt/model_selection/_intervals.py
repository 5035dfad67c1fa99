"""Scores and class shares with intervals, from predictions of held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit

from sklearn_spt._typing import FloatArray, IntArray


@dataclass(frozen=True)
class PairedGain:
    """Scores of two classifiers, and the gain (second minus first) with its interval."""

    first: float
    second: float
    gain: float
    low: float
    high: float
    probability: float  # share of the resamples with a gain


def weighted_f1(
    W: FloatArray, y: IntArray, predicted: IntArray, n_classes: int, positive: int
) -> FloatArray:
    """F1 of the positive class of two, or macro-F1 of more, for each row of weights in `W`."""
    scores = []
    for c in [positive] if n_classes == 2 else range(n_classes):
        hit = W @ ((y == c) & (predicted == c)).astype(np.float64)
        both = W @ (y == c).astype(np.float64) + W @ (predicted == c).astype(np.float64)
        scores.append(np.divide(2 * hit, both, out=np.zeros_like(hit), where=both > 0))
    return np.asarray(np.mean(scores, axis=0))


def paired_gain(
    y: IntArray,
    first: IntArray,
    second: IntArray,
    n_classes: int,
    positive: int,
    *,
    confidence: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> PairedGain:
    """Compare class codes of shape (n_repeats, n) by a paired Bayesian bootstrap over the rows.

    Each resample gives the rows random weights (Rubin, 1981). Rows that only one of the two
    predicts right may be few, or there may be none: resamples of the rows alone then hardly vary,
    and their interval is too narrow. So two rows are added for each class, of weight one half in
    the mean: each of the two predicts one of them right, and the other another class. For two
    classes that is Jeffreys' prior of these rows.
    """

    def scores(W: FloatArray, *rows: IntArray) -> tuple[FloatArray, FloatArray]:
        truth, *predicted = rows
        one, other = (
            np.mean([weighted_f1(W, truth, p, n_classes, positive) for p in repeats], axis=0)
            for repeats in predicted
        )
        return one, other

    a, b = (float(s[0]) for s in scores(np.ones((1, len(y))), y, first, second))
    right = np.arange(n_classes)
    wrong = np.roll(right, -1)
    added = np.r_[right, right], np.r_[right, wrong], np.r_[wrong, right]
    weights = np.r_[np.ones(len(y)), np.full(2 * n_classes, 0.5)]
    W = rng.standard_gamma(weights, size=(n_resamples, len(weights)))
    rows = (
        np.concatenate([known, np.broadcast_to(new, (*known.shape[:-1], len(new)))], axis=-1)
        for known, new in zip((y, first, second), added, strict=True)
    )
    one, other = scores(W, *rows)
    gains = other - one
    low, high = interval_of(gains, confidence)
    low, high = min(low, b - a), max(high, b - a)  # the added rows can take the gain outside
    return PairedGain(a, b, b - a, low, high, float(np.mean(gains > 0)))


def interval_of(values: FloatArray, confidence: float) -> tuple[float, float]:
    """Percentiles between which the share `confidence` of the values lies."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def mean_with_interval(
    values: FloatArray, confidence: float
) -> tuple[float, float | None, float | None]:
    """Mean of independent values and its Student's t interval, which is None for a single value."""
    mean = float(values.mean())
    if len(values) < 2:
        return mean, None, None
    half = stdtrit(len(values) - 1, (1 + confidence) / 2) * values.std(ddof=1) / len(values) ** 0.5
    return mean, float(mean - half), float(mean + half)


def mean_of_means_with_interval(
    groups: Sequence[FloatArray], confidence: float
) -> tuple[float, float | None, float | None]:
    """Mean of the group means and its interval, which is None if a group has a single value."""
    mean = float(np.mean([values.mean() for values in groups]))
    if any(len(values) < 2 for values in groups):
        return mean, None, None
    n = np.array([len(values) for values in groups])
    squares = np.array([values.var(ddof=1) for values in groups]) / n
    if not squares.any():
        return mean, mean, mean
    # Welch and Satterthwaite; only the variance within the groups counts
    degrees = squares.sum() ** 2 / (squares**2 / (n - 1)).sum()
    half = stdtrit(degrees, (1 + confidence) / 2) * squares.sum() ** 0.5 / len(groups)
    return mean, float(mean - half), float(mean + half)


def corrected_shares(confusion: FloatArray, predicted: FloatArray) -> FloatArray | None:
    """Estimate class shares from predicted shares or counts, given the error rates.

    Row c of `confusion` counts held-out rows of the true class c by their predicted class. With
    ``M[c, j]`` the rate of predicting j for class c, and q the predicted shares, the shares p solve
    ``M.T @ p = q`` by non-negative least squares. For two classes this is the adjusted count
    (Rogan and Gladen, 1978; Forman, 2008), ``(q - FPR) / (TPR - FPR)``, clipped to [0, 1]. The
    error rates must be the same on both sets. The result is None if a class has no row, or if the
    predictions do not depend on the class.
    """
    totals = confusion.sum(axis=1, keepdims=True)
    if (totals == 0).any() or predicted.sum() == 0:
        return None
    M = confusion / totals
    if np.linalg.matrix_rank(M, tol=1e-9) < len(M):
        return None
    # the last equation says that the shares sum to 1; its large weight enforces it
    heavy = 1e6
    A = np.vstack([M.T, np.full((1, len(M)), heavy)])
    p, _ = nnls(A, np.append(predicted / predicted.sum(), heavy))
    return np.asarray(p / p.sum())


def shares_with_intervals(
    y: IntArray,
    held_out: IntArray,
    predicted: IntArray,
    n_classes: int,
    *,
    confidence: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Corrected shares with the ends of their intervals, or None if they cannot be estimated.

    `held_out` holds predicted classes of shape (n_repeats, n), `predicted` counts those of the
    other rows.
    """
    # the repeats count as one set of rows with their mean error rates
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion, (np.broadcast_to(y, held_out.shape), held_out), 1 / len(held_out))
    estimate = corrected_shares(confusion, predicted.astype(np.float64))
    if estimate is None:
        return None
    found = []
    total = int(predicted.sum())
    for _ in range(n_resamples):
        # posterior under Jeffreys' prior; a bootstrap of 10 hits in 10 rows would never vary
        rates = np.array([rng.dirichlet(row + 0.5) for row in confusion])
        counts = rng.multinomial(total, predicted / total)
        shares = corrected_shares(rates, counts.astype(np.float64))
        if shares is not None:
            found.append(shares)
    ends = [interval_of(column, confidence) for column in np.array(found).T]
    low, high = (np.array(side) for side in zip(*ends, strict=True))
    return estimate, np.minimum(low, estimate), np.maximum(high, estimate)
