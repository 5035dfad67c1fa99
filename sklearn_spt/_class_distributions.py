"""Distributions of predictions: inertia (paper, section 3), logit adjustment, temperature."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from sklearn_spt._labels import Codes, FloatArray
from sklearn_spt._losses import predicted_codes

#: Mean and variance of the probability of each predicted class, by class code.
Distributions = Mapping[int, tuple[float, float]]

#: Added to every variance, as the ``reg_covar`` of ``GaussianMixture`` in the authors' code.
EPSILON = 1e-6


def inertia(
    P: FloatArray, S: Distributions, alpha: float, *, squared: bool = False
) -> tuple[FloatArray, dict[int, tuple[float, float]], dict[int, dict[str, float]]]:
    """Move the Gaussian of each predicted class towards that of the iteration before.

    For class c let d be the column P[:, c] of the rows that are predicted as c, with mean μ and
    variance σ². Then

        μ̂ = α m + (1 − α) μ,   σ̂² = α v + (1 − α) σ²,   d′ = clip((d − μ) / σ · σ̂ + μ̂, 0, 1)

    with (m, v) = S[c]. The other classes keep their proportions. A class that is not in S stays
    as it is; a class without rows keeps its entry of S.

    `squared` combines variances with squared weights, the paper's formula. The default is that of
    its code: it changes nothing if nothing has drifted. Returned are P of shape (n, K) after the
    map, S for the next iteration, and by class code count, mean and variance of P before the map.
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
        new_S[c] = mu_hat, var_hat  # the paper writes those of P; this is its code
        groups[c] = {"count": len(rows), "mean": mu, "variance": var}
    return moved, new_S, groups


#: "auto" uses at most so many unlabelled documents: the standard error of a share is then 0.016.
MOST_DOCUMENTS = 1000
#: "auto" needs at least so many. With fewer, the shares are too noisy.
LEAST_DOCUMENTS = 50
#: Upper bound of "auto". It limits the harm if the shares of the labels are wrong.
_MOST_TAU = 0.5


def class_shares(codes: Codes, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the share of each class, of the weights if there are any."""
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def logit_adjusted(P: FloatArray, shares: ArrayLike, tau: float) -> FloatArray:
    """Return ``P_c * shares_c ** tau``, scaled to rows that sum to 1."""
    # Menon et al. (ICLR 2021, section 4.1) subtract tau * log(shares) from logits of nets that see
    # classes as they come. Nets that see all equally often predict rare ones too often: we add it.
    if tau == 0:
        return P
    adjusted = P * np.asarray(shares) ** tau
    return np.asarray(adjusted / adjusted.sum(axis=1, keepdims=True))


def largest_tau(predicted: FloatArray, shares: FloatArray) -> float:
    """Return the greatest τ that does not lower the F1 of a rare class, at most 0.5.

    The best threshold for the F1 of a class is half of that F1 (Lipton et al., ECML PKDD 2014). m
    is the predicted and π the true share of a class. For each class with m > π and π < 1/2, the τ
    with odds(π)**(1 - τ) = odds(F1 / 2) moves the threshold there. The least of these is returned.
    F1 is estimated as that of a classifier which is right equally often inside and outside the
    class, s = (1 - π - m) / (1 - 2π), so that F1 = 2πs / (π + m).
    """
    tau = _MOST_TAU
    for m, pi in zip(predicted.tolist(), shares.tolist(), strict=True):
        if 0 < pi < min(m, 0.5):
            half = pi * max(1 - pi - m, 0) / (1 - 2 * pi) / (pi + m)  # F1 / 2
            if half == 0:
                return 0.0
            tau = min(tau, 1 - np.log(half / (1 - half)) / np.log(pi / (1 - pi)))
    return float(max(tau, 0.0))


def matching_tau(P: FloatArray, shares: FloatArray, target: FloatArray) -> float:
    """Choose τ from 0 to `largest_tau` so that the predicted shares are closest to `target`."""
    K = len(shares)
    taus = np.linspace(0, largest_tau(class_shares(P.argmax(axis=1), K), target), 51)
    found = [class_shares(logit_adjusted(P, shares, tau).argmax(axis=1), K) for tau in taus]
    distance = np.abs(np.array(found) - target).sum(axis=1)
    # the smallest of equally good values, whose distances may differ in their last digits
    return float(taus[int(np.argmax(distance <= distance.min() + 1e-12))])


def tempered(P: FloatArray, T: float) -> FloatArray:
    """Return ``P ** (1 / T)``, scaled to rows that sum to 1; each row keeps its order."""
    Q = (P / P.max(axis=1, keepdims=True)) ** (1 / T)
    return np.asarray(Q / Q.sum(axis=1, keepdims=True)) if T != 1 else P


def matching_temperature(P: FloatArray, certainty: float) -> float:
    """Choose T from 1 to 20 so that the mean greatest probability of P is closest to a number."""

    def excess(T: float) -> float:
        return float(tempered(P, T).max(axis=1).mean() - certainty)

    if excess(1.0) <= 0 or excess(20.0) >= 0:
        return 1.0 if excess(1.0) <= 0 else 20.0
    return float(brentq(excess, 1.0, 20.0))
