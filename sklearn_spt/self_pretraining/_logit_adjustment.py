"""Logit adjustment: it lowers the probabilities of classes that are rare among the labels.

Nets that see every class equally often predict rare classes too often. τ is chosen so that the
predicted class shares of unlabelled documents equal those of the labelled ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._typing import FloatArray, IntArray

#: "auto" uses at most so many unlabelled documents: the standard error of a share is then 0.016.
MOST_DOCUMENTS = 1000
#: "auto" needs at least so many. With fewer, the shares are too noisy.
LEAST_DOCUMENTS = 50
#: Upper bound of "auto". It limits the harm if the shares of the labels are wrong.
_MOST_TAU = 0.5
_N_TAUS = 51


def class_shares(codes: IntArray, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the share of each class, of the weights if there are any."""
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def logit_adjusted(P: ArrayLike, shares: ArrayLike, tau: float) -> FloatArray:
    """Return ``P_c * shares_c ** tau``, scaled to rows that sum to 1."""
    # Menon et al. (ICLR 2021, section 4.1) subtract tau * log(shares) from logits of nets that see
    # classes as they come. Here nets see all classes equally often, so the sign is the opposite.
    P = np.asarray(P, dtype=np.float64)
    if tau == 0:
        return P
    adjusted = P * np.asarray(shares, dtype=np.float64) ** tau
    adjusted /= adjusted.sum(axis=1, keepdims=True)
    return adjusted


def worthwhile_tau(predicted: ArrayLike, shares: ArrayLike) -> float:
    """Return the greatest τ that does not lower the F1 of a rare class, at most 0.5.

    The best threshold for the F1 of a class is half of that F1 (Lipton et al., ECML PKDD 2014). m
    is the predicted and π the true share of a class. For each class with m > π and π < 1/2, the τ
    with odds(π)**(1 - τ) = odds(F1 / 2) moves the threshold there. The least of these is returned.
    F1 is estimated as that of a classifier which is right equally often inside and outside the
    class, s = (1 - π - m) / (1 - 2π), so that F1 = 2πs / (π + m).
    """
    tau = _MOST_TAU
    for m, pi in zip(np.asarray(predicted), np.asarray(shares), strict=True):
        if not 0 < pi < min(m, 0.5):
            continue
        half = pi * max(1 - pi - m, 0) / (1 - 2 * pi) / (pi + m)  # F1 / 2
        if half == 0:
            return 0.0
        tau = min(tau, 1 - np.log(half / (1 - half)) / np.log(pi / (1 - pi)))
    return float(max(tau, 0.0))


def matching_tau(P: FloatArray, shares: FloatArray, target: FloatArray) -> float:
    """Choose τ from 0 to `worthwhile_tau` so that the predicted shares are closest to `target`."""
    if not len(P) or np.ptp(shares) == 0:
        return 0.0
    K = len(shares)
    taus = np.linspace(0, worthwhile_tau(class_shares(P.argmax(axis=1), K), target), _N_TAUS)
    there = [class_shares(logit_adjusted(P, shares, tau).argmax(axis=1), K) for tau in taus]
    distances = np.abs(np.array(there) - target).sum(axis=1)
    # the smallest of equally good values, whose distances may differ in their last digits
    return float(taus[int(np.argmax(distances <= distances.min() + 1e-12))])
