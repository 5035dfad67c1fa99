"""Logit adjustment: it lowers the probabilities of classes that are rare among the labels.

Nets that see every class equally often predict rare classes too often. τ is chosen so that the
predicted class shares of unlabelled documents come close to those of the labelled ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

#: "auto" uses at most so many unlabelled documents: the standard error of a share is then 0.016.
MOST_DOCUMENTS = 1000
#: "auto" needs at least so many. With fewer, the shares are too noisy.
LEAST_DOCUMENTS = 50
#: Upper bound of "auto". It limits the harm if the shares of the labels are wrong.
_MOST_TAU = 0.5


def class_shares(
    codes: NDArray[np.intp], n_classes: int, weights: FloatArray | None = None
) -> FloatArray:
    """Return the share of each class, of the weights if there are any."""
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def logit_adjusted(P: FloatArray, shares: ArrayLike, tau: float) -> FloatArray:
    """Return ``P_c * shares_c ** tau``, scaled to rows that sum to 1."""
    # Menon et al. (ICLR 2021, section 4.1) subtract tau * log(shares) from logits of nets that see
    # classes as they come. Here nets see all classes equally often, so the sign is the opposite.
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
