"""Inertia: it slows down the change of the pseudo-labels' class distributions (paper, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sklearn_spt._losses import predicted_codes

#: Mean and variance of the probability of each predicted class, by class code.
Distributions = Mapping[int, tuple[float, float]]

#: Added to every variance, as the ``reg_covar`` of ``GaussianMixture`` in the authors' code.
EPSILON = 1e-6


def inertia(
    P: NDArray[np.float64],
    S: Distributions,
    alpha: float,
    *,
    squared: bool = False,
    raw_state: bool = False,
) -> tuple[NDArray[np.float64], dict[int, tuple[float, float]], dict[int, dict[str, float]]]:
    """Move the Gaussian of each predicted class towards that of the iteration before.

    For class c let d be the column P[:, c] of the rows that are predicted as c, with mean μ and
    variance σ². Then

        μ̂ = α m + (1 − α) μ,   σ̂² = α v + (1 − α) σ²,   d′ = clip((d − μ) / σ · σ̂ + μ̂, 0, 1)

    with (m, v) = S[c]. The other classes keep their proportions. A class that is not in S stays
    as it is; a class without rows keeps its entry of S.

    Parameters
    ----------
    P : ndarray of shape (n, K)
        Probabilities of the pseudo-labels.
    S : mapping
        Class code -> (mean, variance) after the iteration before.
    alpha : float in [0, 1]
        α, the share of the old distribution.
    squared : bool, default=False
        Combine variances with squared weights, the paper's formula. The default is that of its
        code: it changes nothing if nothing has drifted.
    raw_state : bool, default=False
        Hand on the statistics of P, as the paper writes. The default is the code's: μ̂ and σ̂².

    Returns
    -------
    P : ndarray of shape (n, K)
        The probabilities after the map.
    S : dict
        The distributions for the next iteration.
    groups : dict
        Class code -> count, mean and variance of P before the map.
    """
    codes, power = predicted_codes(P), 2 if squared else 1
    moved, new_S, groups = P.copy(), dict(S), {}
    for c in np.unique(codes).tolist():
        rows = np.flatnonzero(codes == c)
        d = P[rows, c]
        # the computed mean of equal numbers can be off by one bit, and their variance above 0
        mu, var = (d.mean(), d.var()) if d.min() < d.max() else (d[0], 0.0)
        mu, var = float(mu), float(var) + EPSILON
        mu_hat, var_hat = mu, var
        if c in S:
            m, v = S[c]
            mu_hat = alpha * m + (1 - alpha) * mu
            var_hat = alpha**power * v + (1 - alpha) ** power * var
            if alpha > 0:  # at 0 the map is the identity, but only up to rounding
                d = np.clip((d - mu) / np.sqrt(var) * np.sqrt(var_hat) + mu_hat, 0.0, 1.0)
                others = np.delete(P[rows], c, axis=1)
                # not 1 - d, which loses digits where d is close to 1
                rest = others.sum(axis=1, keepdims=True)
                equal = np.full_like(others, 1 / others.shape[1])
                shares = np.divide(others, rest, out=equal, where=rest > 0)
                moved[rows] = np.insert(shares * (1 - d)[:, None], c, d, axis=1)
        new_S[c] = (mu, var) if raw_state else (mu_hat, var_hat)
        groups[c] = {"count": len(rows), "mean": mu, "variance": var}
    return moved, new_S, groups
