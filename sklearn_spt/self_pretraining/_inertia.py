"""Inertia: class distributions of pseudo-labels that change slowly from iteration to iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._functional import as_matrix, predicted_classes
from sklearn_spt._typing import FloatArray, IntArray

VarianceRule = Literal["linear", "independent"]
StateRule = Literal["ema", "raw"]

# float32 rounding of a softmax over a thousand classes stays well below this.
_ROW_SUM_TOLERANCE = 1e-4


@dataclass(frozen=True)
class GroupStatistics:
    """Statistics of the rows that are predicted to be of one class.

    Parameters
    ----------
    count : int
        Number of rows in the group.
    mean : float
        Mean probability, in [0, 1], that these rows give to their class.
    variance : float
        Population variance of the same, with the floor ``epsilon`` added.
    """

    count: int
    mean: float
    variance: float


def group_statistics(P: ArrayLike, *, epsilon: float = 1e-6) -> dict[int, GroupStatistics]:
    """Compute mean and variance of the probability of each predicted class.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities.
    epsilon : float, default=1e-6
        Added to every variance. The default is what the authors' code adds, through the
        ``reg_covar`` of scikit-learn's ``GaussianMixture``.

    Returns
    -------
    statistics : dict of int to GroupStatistics
        Class ``c`` -> statistics of ``P[i, c]`` over the rows whose predicted class is ``c``
        (see `predicted_classes`). Classes that no row is predicted to be are absent.
    """
    P = _as_probabilities(P)
    return _statistics_of(P, predicted_classes(P), _checked_epsilon(epsilon))


@dataclass(frozen=True)
class InertialResult:
    """What `inertial_transform` returns.

    Parameters
    ----------
    P : ndarray of shape (n, K)
        The transformed probabilities.
    state : dict of int to (float, float)
        Class -> (mean, variance), to be handed to the next iteration.
    before : dict of int to GroupStatistics
        Statistics of the input, by predicted class.
    after : dict of int to GroupStatistics
        Statistics of the same rows, grouped as they were before the map, in the output.
    """

    P: FloatArray
    state: dict[int, tuple[float, float]]
    before: dict[int, GroupStatistics]
    after: dict[int, GroupStatistics]


def inertial_transform(
    P: ArrayLike,
    state: Mapping[int, tuple[float, float]],
    alpha: float,
    *,
    variance: VarianceRule = "linear",
    new_state: StateRule = "ema",
    epsilon: float = 1e-6,
) -> InertialResult:
    """Hold back the drift of the class distributions between two iterations.

    The probabilities of each predicted class are taken as one Gaussian. An affine map moves it
    towards the Gaussian of the iteration before, the result is clipped to [0, 1], and the other
    classes share what is left in their old proportions.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Tempered probabilities of this iteration's sample. Not modified.
    state : mapping of int to (float, float)
        Class -> (mean, variance) of the iteration before, for the probability of that class
        itself. Empty at the first iteration. Rows of a class that is not in it stay as they are.
    alpha : float
        Inertia in [0, 1], the share of the old distribution. 0 leaves `P` exactly as it is, and
        still records statistics and state.
    variance : {"linear", "independent"}, default="linear"
        "linear" combines variances as it combines means, which the authors' code does and which
        changes nothing when nothing has drifted. "independent" is the literal reading of a linear
        combination of two independent Gaussians, with squared weights; it narrows the
        distribution at every iteration.
    new_state : {"ema", "raw"}, default="ema"
        "ema" hands on the combined mean and variance, before clipping, as the authors' code does:
        an exponential moving average. "raw" hands on those of the input, as the paper writes.
    epsilon : float, default=1e-6
        Added to the variance of every group (see `group_statistics`).

    Returns
    -------
    result : InertialResult
        Transformed probabilities, new state, and statistics before and after. A class that no row
        was predicted to be keeps its old entry in the state.

    Raises
    ------
    ValueError
        If `alpha` is outside [0, 1], a rule is unknown, `P` does not hold probabilities, or the
        state names a class that `P` has no column for.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, "Inertial class distributions".
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be in [0, 1], got {alpha!r}.")
    if variance not in ("linear", "independent"):
        raise ValueError(f"variance must be 'linear' or 'independent', got {variance!r}.")
    if new_state not in ("ema", "raw"):
        raise ValueError(f"new_state must be 'ema' or 'raw', got {new_state!r}.")
    epsilon = _checked_epsilon(epsilon)
    P = _as_probabilities(P)
    _check_state(state, n_classes=P.shape[1])

    groups = predicted_classes(P)
    before = _statistics_of(P, groups, epsilon)
    # squared weights: the variance of a sum of independent variables
    power = 1 if variance == "linear" else 2
    P_tilde = P.copy()
    old = {int(c): (float(m), float(v)) for c, (m, v) in state.items()}
    S = dict(old)
    for c, group in before.items():
        mu, sigma2 = group.mean, group.variance
        mu_hat, sigma2_hat = mu, sigma2
        if c in old:
            m, v = old[c]
            mu_hat = alpha * m + (1 - alpha) * mu
            sigma2_hat = alpha**power * v + (1 - alpha) ** power * sigma2
        S[c] = (mu_hat, sigma2_hat) if new_state == "ema" else (mu, sigma2)
        # At alpha = 0 the map is the identity, but only up to rounding.
        if c in old and alpha > 0:
            rows = np.flatnonzero(groups == c)
            d = P[rows, c]
            # Without the floor a group may have no spread: all its members go to the new mean.
            z = (d - mu) / np.sqrt(sigma2) if sigma2 > 0 else np.zeros_like(d)
            d_prime = np.clip(z * np.sqrt(sigma2_hat) + mu_hat, 0.0, 1.0)
            P_tilde[rows] = _rebuilt_rows(P[rows], c, d_prime)
    return InertialResult(P_tilde, S, before, _statistics_of(P_tilde, groups, epsilon))


def _rebuilt_rows(P: FloatArray, c: int, d_prime: FloatArray) -> FloatArray:
    """Return the rows with ``d_prime`` in column c, the rest shared out as it was before."""
    others = P.copy()
    others[:, c] = 0.0
    # Their own sum and not 1 - d, which loses its digits when d is close to 1.
    rest = others.sum(axis=1, keepdims=True)
    equal = np.full_like(others, 1 / (P.shape[1] - 1))
    equal[:, c] = 0.0
    shares = np.divide(others, rest, out=equal, where=rest > 0)
    rebuilt: FloatArray = shares * (1 - d_prime)[:, None]
    rebuilt[:, c] = d_prime
    return rebuilt


def _statistics_of(P: FloatArray, groups: IntArray, epsilon: float) -> dict[int, GroupStatistics]:
    statistics = {}
    for c in range(P.shape[1]):
        d = P[groups == c, c]
        if d.size:
            # The mean of equal numbers can be off by one bit. The variance of that rounding would
            # make z-scores of -1 or 1 out of nothing where epsilon = 0.
            mean, variance = (d.mean(), d.var()) if d.min() < d.max() else (d[0], 0.0)
            statistics[c] = GroupStatistics(d.size, float(mean), float(variance) + epsilon)
    return statistics


def _checked_epsilon(epsilon: float) -> float:
    if not 0 <= epsilon < np.inf:
        raise ValueError(f"epsilon must be finite and at least 0, got {epsilon!r}.")
    return epsilon


def _check_state(state: Mapping[int, tuple[float, float]], n_classes: int) -> None:
    for c, entry in state.items():
        if c not in range(n_classes):
            raise ValueError(
                f"state has an entry for class {c!r}, but P has {n_classes} columns; "
                f"its keys must be integers from 0 to {n_classes - 1}."
            )
        mean, variance = entry
        if not (np.isfinite(mean) and 0 <= variance < np.inf):
            raise ValueError(
                f"state of class {c} must be a finite mean and a variance >= 0, got {entry!r}."
            )


def _as_probabilities(values: ArrayLike) -> FloatArray:
    P = as_matrix(values, "P")
    bad = np.flatnonzero((P < 0).any(axis=1) | (np.abs(P.sum(axis=1) - 1) > _ROW_SUM_TOLERANCE))
    if bad.size:
        raise ValueError(
            "P must hold probabilities, rows >= 0 that sum to 1, but row "
            f"{bad[0]} is {P[bad[0]].tolist()}. Apply tempered_softmax to logits first."
        )
    return P
