"""Inertia: it slows down the change of the pseudo-labels' class distributions.

See the section "Inertial class distributions" of the paper.
"""

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

# Well above the float32 rounding of a softmax over a thousand classes.
_ROW_SUM_TOLERANCE = 1e-4


@dataclass(frozen=True)
class GroupStatistics:
    """Size of a predicted class, and mean and population variance of its probability there."""

    count: int
    mean: float
    variance: float


def group_statistics(P: ArrayLike, *, epsilon: float = 1e-6) -> dict[int, GroupStatistics]:
    """Return the statistics of ``P[i, c]`` over the rows i that are predicted to be of class c.

    Classes without rows are absent. `epsilon` is added to every variance; the authors' code adds
    the same, through the ``reg_covar`` of scikit-learn's ``GaussianMixture``.
    """
    P = _as_probabilities(P)
    return _statistics_of(P, predicted_classes(P), _checked_epsilon(epsilon))


@dataclass(frozen=True)
class InertialResult:
    """Transformed probabilities, the state for the next iteration, and statistics of `P`.

    Both statistics group the rows by the class that was predicted before the map.
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
    """Slow down the drift of the class distributions between two iterations.

    The probabilities of each predicted class count as one Gaussian. An affine map moves it towards
    the Gaussian of the iteration before, whose (mean, variance) is in `state`. The result is
    clipped to [0, 1], and the other classes keep their proportions. Classes that are not in
    `state` stay as they are; classes without rows keep their entry in it.

    `alpha` is the share of the old distribution. `variance` says how to combine variances:
    "linear", the authors' code, does so as for means, and changes nothing if nothing has drifted.
    "independent", the paper's formula, uses squared weights, and narrows the distribution in each
    iteration. `new_state` says what to hand on: "ema", the authors' code, the combined values
    before clipping; "raw", as the paper writes, those of the input. `epsilon` is as in
    `group_statistics`.
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
            # With epsilon = 0 the variance may be 0; all rows then go to the new mean.
            z = (d - mu) / np.sqrt(sigma2) if sigma2 > 0 else np.zeros_like(d)
            d_prime = np.clip(z * np.sqrt(sigma2_hat) + mu_hat, 0.0, 1.0)
            P_tilde[rows] = _rebuilt_rows(P[rows], c, d_prime)
    return InertialResult(P_tilde, S, before, _statistics_of(P_tilde, groups, epsilon))


def _rebuilt_rows(P: FloatArray, c: int, d_prime: FloatArray) -> FloatArray:
    """Put `d_prime` into column c, and scale the other columns so that rows sum to 1."""
    others = P.copy()
    others[:, c] = 0.0
    # Not 1 - d: it loses digits where d is close to 1.
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
            # The computed mean of equal numbers can be off by one bit, and their variance above 0.
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
