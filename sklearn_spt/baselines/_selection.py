"""Choices on held-out labelled documents: the split, the score, the pool that grows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._sampling import share_down
from sklearn_spt._typing import IntArray


def pool_size(t: int, n_unlabeled: int, n_left: int, n_rounds: int = 10) -> int:
    """Size of the pool of candidates at iteration t; it grows linearly.

    Parameters
    ----------
    t : int
        Iteration, from 1.
    n_unlabeled : int
        Number of unlabelled documents at the start, |U|.
    n_left : int
        Number of those that may still be drawn.
    n_rounds : int, default=10
        After so many iterations the pool is all that is left.

    Returns
    -------
    int
        ``min(n_left, t * ceil(n_unlabeled / n_rounds))``.
    """
    return min(n_left, t * math.ceil(n_unlabeled / n_rounds))


def growing_pools(
    left: IntArray, t: int, n_unlabeled: int, growth: str, rng: np.random.Generator
) -> Iterator[IntArray]:
    """Draw the pool of candidates of one iteration, and more where that holds none.

    Parameters
    ----------
    left : ndarray of int of shape (n_left,)
        Rows that may be drawn.
    t : int
        Iteration, from 1.
    n_unlabeled : int
        Number of unlabelled documents at the start, |U|.
    growth : {"pool", "quota"}
        "pool" begins with `pool_size(t, ...)` rows and goes on as if the iteration were a later
        one; "quota" takes all rows at once.
    rng : numpy.random.Generator
        Source of randomness.

    Yields
    ------
    ndarray of int
        The rows that join the pool: drawn uniformly and without replacement, none of them twice,
        until none is left. Nothing at all if `left` is empty.
    """
    if growth == "quota":
        if len(left):
            yield left
        return
    order, drawn = rng.permutation(left), 0
    for step in count(t):
        if drawn == len(left):
            return
        size = pool_size(step, n_unlabeled, len(left))
        yield order[drawn:size]
        drawn = size


def quota_limit(t: int, n_labeled: int, max_fraction: float) -> int:
    """Greatest number of documents that iteration t adds where the quota grows linearly.

    Parameters
    ----------
    t : int
        Iteration, from 1.
    n_labeled : int
        Number of labelled documents, N.
    max_fraction : float
        Share of them that the first iteration adds at most.

    Returns
    -------
    int
        ``t * max(1, floor(max_fraction * n_labeled))``.
    """
    return t * max(1, share_down(max_fraction, n_labeled))


def throttle(
    confidence: ArrayLike, n_train: int, threshold: float = 0.9, max_fraction: float = 0.1
) -> IntArray:
    """Select the most confident documents, but never many at once.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probability of the predicted class of each candidate.
    n_train : int
        Size of the current training set, labelled and pseudo-labelled.
    threshold : float, default=0.9
        Least confidence, the paper's. Compared in the precision of `confidence`, so that 0.9 in
        float32 reaches 0.9. Above 1 nothing is eligible.
    max_fraction : float, default=0.1
        At most this share of `n_train` is selected, the paper's, rounded down but at least one
        document.

    Returns
    -------
    rows : ndarray of int64
        Selected candidates, the most confident first, ties to the lower row. May be empty.

    Raises
    ------
    ValueError
        If a confidence is not finite, or a size is negative.
    """
    confidence = np.asarray(confidence)
    if confidence.ndim != 1:
        raise ValueError(f"confidence must have shape (n,), got {confidence.shape}.")
    bad = np.flatnonzero(~np.isfinite(confidence))
    if bad.size:
        raise ValueError(f"confidence must be finite, but row {bad[0]} is {confidence[bad[0]]}.")
    for name, value in (("n_train", n_train), ("max_fraction", max_fraction)):
        if not value >= 0:
            raise ValueError(f"{name} must be at least 0, got {value!r}.")
    eligible = np.flatnonzero(confidence >= threshold)
    quota = max(1, share_down(max_fraction, n_train))
    best_first = np.argsort(-confidence[eligible], kind="stable")
    return eligible[best_first[:quota]].astype(np.int64, copy=False)
