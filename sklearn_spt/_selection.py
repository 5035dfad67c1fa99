"""Choices on held-out labelled documents: the split, the score, the pool that grows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from sklearn_spt._sampling import share_down, share_up

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def validation_split(
    codes: IntArray, fraction: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray, bool] | None:
    """Hold out a part of the labelled rows, by class where that is possible.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Class of each labelled row.
    fraction : float in (0, 1)
        Share of the rows to hold out, rounded up.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    (train, valid, stratified) or None
        Sorted rows of the two parts; every class stays in the training part, and every class of
        two rows or more comes into the other, as far as there is room. `stratified` is False where
        classes are not held out in proportion: some class has a single row, or so few that its
        share is no row, or a part has fewer rows than there are classes. None if every row is
        needed for training.
    """
    n = len(codes)
    counts = np.bincount(codes)
    counts = counts[counts > 0]
    n_valid = share_up(fraction, n)
    seed = int(rng.integers(2**31))
    if counts.min() >= 2 and min(n_valid, n - n_valid) >= len(counts):
        train, valid = train_test_split(
            np.arange(n), test_size=n_valid, stratify=codes, random_state=seed
        )
        if len(np.unique(codes[train])) == len(np.unique(codes[valid])) == len(counts):
            return np.sort(train), np.sort(valid), True
    # one row of each class has to stay, and a score needs one of each class, the rarest above all;
    # of the others, any may be held out
    order = rng.permutation(n)
    _, first = np.unique(codes[order], return_index=True)
    free = np.delete(order, first)
    kinds, second = np.unique(codes[free], return_index=True)
    rarest_first = second[np.argsort(np.bincount(codes)[kinds], kind="stable")]
    free = np.concatenate([free[rarest_first], np.delete(free, second)])
    valid = np.sort(free[: min(n_valid, len(free))])
    if not len(valid):
        return None
    return np.setdiff1d(np.arange(n), valid), valid, False


def validation_score(
    y: IntArray,
    predicted: IntArray,
    n_classes: int,
    positive: int,
    weights: FloatArray | None = None,
) -> float:
    """F1 of the positive class of two, or macro-F1 of more.

    Parameters
    ----------
    y, predicted : ndarray of int of shape (n,)
        True and predicted class codes.
    n_classes : int
        Number of classes, K.
    positive : int
        Code of the positive class, used for K = 2.
    weights : ndarray of shape (n,) or None
        How much each row counts; None counts all alike.

    Returns
    -------
    float in [0, 1]
        0 where it is undefined, as nothing was found. Macro-F1 is over the classes that y or the
        predictions hold.
    """
    if n_classes == 2:
        y, predicted, average = y == positive, predicted == positive, "binary"
    else:
        average = "macro"
    return float(f1_score(y, predicted, average=average, sample_weight=weights, zero_division=0.0))


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
