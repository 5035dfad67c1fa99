"""Logit adjustment: back from classes drawn equally often towards classes as frequent as they are.

A net that sees every class equally often predicts rare classes too often, and its students, who
learn from its labels, err in the same direction. How far the way back is worth going, documents
without labels tell: until as many of them are predicted to be of each class as are labelled so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._functional import mean_probabilities
from sklearn_spt._typing import FloatArray, IntArray

#: Documents that "auto" looks at, at most: the share of a class is then known to 0.016.
MOST_DOCUMENTS = 1000
#: And at least: of fewer, chance would decide.
LEAST_DOCUMENTS = 50
#: The most that "auto" chooses: shares that are wrong do half of the harm at most.
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
    """Say how far an adjustment can go before the F1 of a rare class suffers.

    The F1 of a class is best where documents count as its own from a probability of F1 / 2 on [1]_.
    The worse a class can be told from the others, the less there is to take back.

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


class Adjustment:
    """Finds the τ of an ensemble, which changes by one net from iteration to iteration.

    Parameters
    ----------
    given : float or "auto"
        τ itself, or "auto" to choose it.
    shares, target : ndarray of shape (K,)
        See `matching_tau`.
    n_unlabeled : int
        Number of documents by which τ could be chosen.
    n_iter : int
        Iterations of the fit, at most.
    n_members : callable
        ``n_members(t)`` is the number of nets that predict together after iteration t: after
        iteration 0 all that there are, and each other one trains one more.
    in_each : bool
        Whether τ is needed after each iteration, and not after the last alone.
    """

    def __init__(
        self,
        given: float | str,
        shares: FloatArray,
        target: FloatArray,
        *,
        n_unlabeled: int,
        n_iter: int,
        n_members: Callable[[int], int],
        in_each: bool,
    ) -> None:
        self.shares = shares
        self.target = target
        self.n_iter = n_iter
        self.n_members = n_members
        self.in_each = in_each
        chosen = given == "auto" and n_unlabeled >= LEAST_DOCUMENTS and np.ptp(shares) > 0
        self.n_documents = min(n_unlabeled, MOST_DOCUMENTS) if chosen else 0
        self.given = 0.0 if given == "auto" else float(given)
        self._known: list[tuple[Any, FloatArray]] = []

    def due(self, t: int) -> bool:
        """Whether τ is needed after iteration `t`."""
        return self.in_each or t == self.n_iter

    def texts(self, t: int) -> int:
        """Documents that nets have labelled for it up to iteration `t`, each net all of them."""
        if not self.due(t):
            return 0
        return self.n_documents * (self.n_members(0) + t if self.in_each else self.n_members(t))

    def texts_again(self, t: int) -> int:
        """How many of these are labelled once more if the fit goes on in another process."""
        goes_on = self.in_each and t < self.n_iter
        # all that predict after the next iteration but its student
        return self.n_documents * (self.n_members(t + 1) - 1) if goes_on else 0

    def let_go(self, but: Sequence[Any]) -> None:
        """Forget all nets but these, so that their memory is free."""
        self._known = [(net, P) for net, P in self._known if any(net is kept for kept in but)]

    def tau(self, nets: Sequence[Any], label: Callable[[Any], FloatArray]) -> float:
        """Return τ for these nets.

        Parameters
        ----------
        nets : sequence of nets
            The ensemble.
        label : callable
            Takes a net, returns probabilities of shape (n_documents, K); it is called once for
            each net as long as that stays in the ensemble.
        """
        if not self.n_documents:
            return self.given
        known = {id(net): P for net, P in self._known}
        # nets that predict no longer are let go
        self._known = [(net, known[id(net)] if id(net) in known else label(net)) for net in nets]
        P = mean_probabilities(*(P for _, P in self._known))
        return matching_tau(P, self.shares, self.target)
