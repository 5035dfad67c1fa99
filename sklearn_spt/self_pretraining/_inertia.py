"""Inertia: it slows down the change of the pseudo-labels' class distributions.

See the section "Inertial class distributions" of the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_spt._functional import predicted_classes
from sklearn_spt._typing import FloatArray, IntArray

VarianceRule = Literal["linear", "independent"]
StateRule = Literal["ema", "raw"]

#: Added to every variance, as the ``reg_covar`` of scikit-learn's ``GaussianMixture`` in the
#: authors' code.
EPSILON = 1e-6


@dataclass(frozen=True)
class GroupStatistics:
    """Size of a predicted class, and mean and population variance of its probability there."""

    count: int
    mean: float
    variance: float


@dataclass(frozen=True)
class InertialResult:
    """Transformed probabilities, the state for the next iteration, and statistics of `P`."""

    P: FloatArray
    state: dict[int, tuple[float, float]]
    #: Both statistics group the rows by the class that was predicted before the map.
    before: dict[int, GroupStatistics]
    after: dict[int, GroupStatistics]


def inertial_transform(
    P: FloatArray,
    state: Mapping[int, tuple[float, float]],
    alpha: float,
    *,
    variance: VarianceRule = "linear",
    new_state: StateRule = "ema",
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
    before clipping; "raw", as the paper writes, those of the input.
    """
    groups = predicted_classes(P)
    before = _statistics_of(P, groups)
    power = 1 if variance == "linear" else 2
    P_tilde = P.copy()
    S = dict(state)
    for c, group in before.items():
        mu, sigma2 = group.mean, group.variance
        mu_hat, sigma2_hat = mu, sigma2
        if c in state:
            m, v = state[c]
            mu_hat = alpha * m + (1 - alpha) * mu
            sigma2_hat = alpha**power * v + (1 - alpha) ** power * sigma2
        S[c] = (mu_hat, sigma2_hat) if new_state == "ema" else (mu, sigma2)
        # At alpha = 0 the map is the identity, but only up to rounding.
        if c in state and alpha > 0:
            rows = np.flatnonzero(groups == c)
            z = (P[rows, c] - mu) / np.sqrt(sigma2)
            d_prime = np.clip(z * np.sqrt(sigma2_hat) + mu_hat, 0.0, 1.0)
            P_tilde[rows] = _rebuilt_rows(P[rows], c, d_prime)
    return InertialResult(P_tilde, S, before, _statistics_of(P_tilde, groups))


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


def _statistics_of(P: FloatArray, groups: IntArray) -> dict[int, GroupStatistics]:
    """Return the statistics of ``P[i, c]`` over the rows i of each group c that has rows."""
    statistics = {}
    for c in range(P.shape[1]):
        d = P[groups == c, c]
        if d.size:
            # The computed mean of equal numbers can be off by one bit, and their variance above 0.
            mean, variance = (d.mean(), d.var()) if d.min() < d.max() else (d[0], 0.0)
            statistics[c] = GroupStatistics(d.size, float(mean), float(variance) + EPSILON)
    return statistics
