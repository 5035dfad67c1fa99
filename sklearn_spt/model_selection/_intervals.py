"""Scores and shares with intervals, from predictions on rows that were held out. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import stdtrit

from sklearn_spt._typing import FloatArray, IntArray

_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedGain:
    """Scores of two classifiers on the same rows, and an interval of their difference.

    Attributes
    ----------
    first, second : float
        The scores.
    gain : float
        Second less first.
    low, high : float
        Ends of the interval of the gain.
    probability : float
        Share of the resamples in which the second is better.
    """

    first: float
    second: float
    gain: float
    low: float
    high: float
    probability: float


def resample_counts(n: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """How often each of `n` rows is drawn in each bootstrap resample, shape (n_resamples, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(np.float64)


def weighted_f1(
    W: FloatArray, y: IntArray, predicted: IntArray, n_classes: int, positive: int
) -> FloatArray:
    """F1 of the positive class of two, or macro-F1 of more, under each set of weights.

    Parameters
    ----------
    W : ndarray of shape (m, n)
        Sets of weights of the rows, not negative.
    y, predicted : ndarray of int of shape (n,)
        Class codes.
    n_classes, positive : int
        K, and the code of the positive class, used for K = 2.

    Returns
    -------
    ndarray of shape (m,)
        Scores; a class that is neither there nor predicted has an F1 of 0, as in scikit-learn.
    """
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
    """Compare two classifiers by a paired bootstrap over the rows.

    Parameters
    ----------
    y : ndarray of int of shape (n,)
        True classes.
    first, second : ndarray of int of shape (n_repeats, n)
        Predicted classes of rows that were held out; scores are means over the repeats.
    n_classes, positive : int
        As in `weighted_f1`.
    confidence : float in (0, 1)
        Coverage of the interval, between the percentiles of the resampled gains.
    n_resamples : int
        Number of bootstrap resamples.
    rng : numpy.random.Generator
        Draws them.

    Returns
    -------
    PairedGain
        The comparison.
    """

    def scores(W: FloatArray) -> tuple[FloatArray, FloatArray]:
        one, other = (
            np.mean([weighted_f1(W, y, p, n_classes, positive) for p in repeats], axis=0)
            for repeats in (first, second)
        )
        return one, other

    a, b = (float(s[0]) for s in scores(np.ones((1, len(y)))))
    one, other = scores(resample_counts(len(y), n_resamples, rng))
    gains = other - one
    gains[np.abs(gains) < _ROUNDING] = 0.0  # equal predictions in another order are no gain
    low, high = interval_of(gains, confidence)
    return PairedGain(a, b, b - a, low, high, float(np.mean(gains > 0)))


def interval_of(values: FloatArray, confidence: float) -> tuple[float, float]:
    """Percentiles that enclose the share `confidence` of the values."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def mean_with_interval(
    values: FloatArray, confidence: float
) -> tuple[float, float | None, float | None]:
    """Mean of independent values and the interval of Student's t; no interval for a single value.

    Parameters
    ----------
    values : ndarray of shape (n,)
        At least one value.
    confidence : float in (0, 1)
        Coverage of the interval, if the values are normally distributed.

    Returns
    -------
    mean, low, high : float
        `low` and `high` are None for n = 1.
    """
    mean = float(values.mean())
    if len(values) < 2:
        return mean, None, None
    half = stdtrit(len(values) - 1, (1 + confidence) / 2) * values.std(ddof=1) / len(values) ** 0.5
    return mean, float(mean - half), float(mean + half)


def mean_of_means_with_interval(
    groups: Sequence[FloatArray], confidence: float
) -> tuple[float, float | None, float | None]:
    """Mean of the means of some groups, and its interval over new values of these groups.

    How far the groups lie apart does not widen it. Degrees of freedom are those of Welch and
    Satterthwaite.

    Parameters
    ----------
    groups : sequence of ndarray
        Independent values of each group, at least one.
    confidence : float in (0, 1)
        Coverage of the interval, if the values of each group are normally distributed.

    Returns
    -------
    mean, low, high : float
        `low` and `high` are None if a group has a single value.
    """
    mean = float(np.mean([values.mean() for values in groups]))
    if any(len(values) < 2 for values in groups):
        return mean, None, None
    n = np.array([len(values) for values in groups])
    squares = np.array([values.var(ddof=1) for values in groups]) / n  # of the standard errors
    if not squares.any():
        return mean, mean, mean
    degrees = squares.sum() ** 2 / (squares**2 / (n - 1)).sum()
    half = stdtrit(degrees, (1 + confidence) / 2) * squares.sum() ** 0.5 / len(groups)
    return mean, float(mean - half), float(mean + half)


def corrected_shares(confusion: FloatArray, predicted: FloatArray) -> FloatArray | None:
    """Shares of the classes in a set, from the shares of predictions and known error rates.

    A classifier that misses half the positives reports half of them; how often it errs is known
    from rows that were held out. The shares p solve ``M.T @ p = q`` as nearly as shares can, where
    ``M[c, j]`` is the rate of predicting j for rows of the class c. For two classes this is the
    adjusted count, (q - FPR) / (TPR - FPR) with the rates of false and true positives, cut to
    [0, 1]. Error rates must be the same on both
    sets: the texts of a class have to be of the same kind, whatever their number.

    Parameters
    ----------
    confusion : ndarray of shape (K, K)
        Held-out rows by true class (row) and predicted class (column).
    predicted : ndarray of shape (K,)
        Shares q of the predicted classes, or counts.

    Returns
    -------
    ndarray of shape (K,) or None
        Shares that sum to 1; None where they cannot be told, since a class has no row or
        predictions do not depend on the class.

    References
    ----------
    .. [1] W. J. Rogan and B. Gladen, "Estimating prevalence from the results of a screening
       test", American Journal of Epidemiology, 1978.
    .. [2] G. Forman, "Quantifying counts and costs via classification", Data Mining and Knowledge
       Discovery, 2008.
    """
    totals = confusion.sum(axis=1, keepdims=True)
    if (totals == 0).any() or predicted.sum() == 0:
        return None
    M = confusion / totals
    if np.linalg.matrix_rank(M, tol=1e-9) < len(M):
        return None
    K = len(M)
    # the last equation, that they sum to 1, is made to hold by its weight
    heavy = 1e6
    A = np.vstack([M.T, np.full((1, K), heavy)])
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
    """Corrected shares with intervals that cover the uncertainty of both sets.

    Parameters
    ----------
    y : ndarray of int of shape (n,)
        True classes of held-out rows.
    held_out : ndarray of int of shape (n_repeats, n)
        Predicted classes; repeats count as one set of rows, with their mean error rates.
    predicted : ndarray of int of shape (K,)
        How many of the other rows were given each class.
    n_classes : int
        K.
    confidence, n_resamples, rng
        As in `paired_gain`. The predictions are resampled; the error rates of each class are drawn
        from their posterior.

    Returns
    -------
    estimate, low, high : ndarray of shape (K,)
        Or None where the shares cannot be told, see `corrected_shares`.
    """
    confusion = np.zeros((n_classes, n_classes))
    np.add.at(confusion, (np.broadcast_to(y, held_out.shape), held_out), 1 / len(held_out))
    estimate = corrected_shares(confusion, predicted.astype(np.float64))
    if estimate is None:
        return None
    found = []
    total = int(predicted.sum())
    for _ in range(n_resamples):
        # ten of ten rows found do not prove that all are: rates from their posterior under
        # Jeffreys' prior, where resampling the rows would never give another
        rates = np.array([rng.dirichlet(row + 0.5) for row in confusion])
        counts = rng.multinomial(total, predicted / total)
        shares = corrected_shares(rates, counts.astype(np.float64))
        if shares is not None:
            found.append(shares)
    ends = [interval_of(column, confidence) for column in np.array(found).T]
    low, high = (np.array(side) for side in zip(*ends, strict=True))
    return estimate, np.minimum(low, estimate), np.maximum(high, estimate)
