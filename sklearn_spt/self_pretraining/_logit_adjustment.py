"""Logit adjustment: it lowers the probabilities of classes that are rare among the labels.

A net that sees every class equally often predicts rare classes too often, and so do its students.
Unlabelled documents say how far to adjust: until they are predicted to be of each class as often
as the labelled ones are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._typing import FloatArray, IntArray

#: "auto" uses at most so many unlabelled documents: the standard error of a share is then 0.016.
MOST_DOCUMENTS = 1000
#: "auto" needs at least so many. With fewer, chance decides.
LEAST_DOCUMENTS = 50
#: Upper bound of "auto". It limits the harm where the labels' shares are wrong.
_MOST_TAU = 0.5
_N_TAUS = 51


def class_shares(codes: IntArray, n_classes: int, weights: FloatArray | None = None) -> FloatArray:
    """Return the share of each class.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Class of each document, n > 0.
    n_classes : int
        Number of classes K.
    weights : ndarray of shape (n,) or None, default=None
        Weights >= 0 of the documents, not all zero.

    Returns
    -------
    shares : ndarray of shape (K,)
        They sum to 1.
    """
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def logit_adjusted(P: ArrayLike, shares: ArrayLike, tau: float) -> FloatArray:
    """Add ``tau * log(shares)`` to the logits of probabilities.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities of nets that saw all classes equally often.
    shares : array-like of shape (K,)
        Shares of the classes among the documents that were drawn from, all positive.
    tau : float in [0, 1]
        τ; 0 leaves `P` as it is, 1 makes the shares the prior of the classes.

    Returns
    -------
    adjusted : ndarray of shape (n, K)
        ``P_c * shares_c ** tau``, scaled to rows that sum to 1.

    References
    ----------
    .. [1] A. K. Menon, S. Jayasumana, A. S. Rawat, H. Jain, A. Veit and S. Kumar, "Long-tail
       learning via logit adjustment", ICLR 2021, section 4.1, for nets that were trained on
       classes as they come; here classes were drawn equally often, and the sign is the other one.
    """
    P = np.asarray(P, dtype=np.float64)
    if tau == 0:
        return P
    adjusted = P * np.asarray(shares, dtype=np.float64) ** tau
    adjusted /= adjusted.sum(axis=1, keepdims=True)
    return adjusted


def worthwhile_tau(predicted: ArrayLike, shares: ArrayLike) -> float:
    """Return how far an adjustment can go before the F1 of a rare class suffers.

    The best threshold for the F1 of a class is half of that F1 [1]_. So a class that is hard to
    recognise allows less adjustment.

    Parameters
    ----------
    predicted : array-like of shape (K,)
        Shares m of the classes among predictions that have not been adjusted.
    shares : array-like of shape (K,)
        True shares π.

    Returns
    -------
    tau : float in [0, 0.5]
        With odds(p) = p / (1 - p), the τ at which a probability of odds(π)**(1 - τ) = odds(F1 / 2)
        becomes a half; the least of all classes with m > π and π < 1/2, or 0.5. F1 is not known:
        it is estimated as that of a classifier which recognises documents of the class as often as
        it does others, s = (1 - π - m) / (1 - 2π), so that F1 = 2πs / (π + m).

    References
    ----------
    .. [1] Z. C. Lipton, C. Elkan and B. Naryanaswamy, "Optimal Thresholding of Classifiers to
       Maximize F1 Measure", ECML PKDD 2014.
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


def matching_tau(P: ArrayLike, shares: ArrayLike, target: ArrayLike | None = None) -> float:
    """Choose τ so that the predicted classes are as frequent as they should be.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities of documents without labels.
    shares : array-like of shape (K,)
        See `logit_adjusted`.
    target : array-like of shape (K,) or None, default=None
        How frequent the classes should be; None takes the shares.

    Returns
    -------
    tau : float in [0, 0.5]
        Of 51 values from 0 to `worthwhile_tau` the one with the least total variation between the
        target and the shares of the most probable classes; of several the smallest. It never goes
        beyond what the shares themselves justify: equal shares give 0 whatever the documents are.

    References
    ----------
    .. [1] D. Berthelot et al., "ReMixMatch: Semi-Supervised Learning with Distribution Alignment
       and Augmentation Anchoring", ICLR 2020, section 3.1, aligns pseudo-labels, class by class
       and without a bound.
    """
    P, shares = np.asarray(P, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    goal = shares if target is None else np.asarray(target, dtype=np.float64)
    if not len(P) or np.ptp(shares) == 0:
        return 0.0
    K = len(shares)
    taus = np.linspace(0, worthwhile_tau(class_shares(P.argmax(axis=1), K), goal), _N_TAUS)
    there = [class_shares(logit_adjusted(P, shares, tau).argmax(axis=1), K) for tau in taus]
    distances = np.abs(np.array(there) - goal).sum(axis=1)
    # equal distances may differ in their last digits
    return float(taus[int(np.argmax(distances <= distances.min() + 1e-12))])
