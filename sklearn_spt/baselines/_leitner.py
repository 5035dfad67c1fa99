"""Queues of a Leitner system, and what is picked from one: arrays in, arrays out.

Epochs are counted from 1 and queues from 0. The queue of each document stands in one array, so
that every document is in exactly one.
"""

from __future__ import annotations

import numpy as np

from sklearn_spt._typing import BoolArray, FloatArray, IntArray
from sklearn_spt.baselines._selection import throttle


def due_queues(epoch: int, n_queues: int) -> list[int]:
    """List the queues whose documents are looked at in an epoch.

    Parameters
    ----------
    epoch : int
        From 1.
    n_queues : int
        Number of queues.

    Returns
    -------
    list of int
        Every queue i with ``epoch % 2**i == 0``; queue 0 always is.
    """
    return [i for i in range(n_queues) if epoch % 2**i == 0]


def due_documents(queue: IntArray, epoch: int, n_queues: int) -> IntArray:
    """Return the rows of the documents in the queues that are due in an epoch.

    Parameters
    ----------
    queue : ndarray of int of shape (n,)
        Queue of each document.
    epoch, n_queues : int
        See `due_queues`.

    Returns
    -------
    ndarray of int64
        Ascending.
    """
    return np.flatnonzero(np.isin(queue, due_queues(epoch, n_queues)))


def moved(queue: IntArray, correct: BoolArray, n_queues: int, demote: str) -> IntArray:
    """Return the next queues of documents that were due.

    Parameters
    ----------
    queue : ndarray of int of shape (n,)
        Their queues.
    correct : ndarray of bool of shape (n,)
        Whether each was labelled correctly.
    n_queues : int
        Number of queues; a correct document of the last one stays.
    demote : {"first", "previous"}
        Where the others go: to queue 0, or down by one.

    Returns
    -------
    ndarray of int64 of shape (n,)
    """
    down = np.zeros_like(queue) if demote == "first" else np.maximum(queue - 1, 0)
    return np.where(correct, np.minimum(queue + 1, n_queues - 1), down)


def nearest_occupied(sizes: IntArray, queue: int) -> int:
    """Return `queue` if it is not empty, else the nearest lower one, else the nearest higher one.

    Parameters
    ----------
    sizes : ndarray of int of shape (n_queues,)
        Number of documents in each queue, not all 0.
    queue : int
        The queue that is wanted.

    Returns
    -------
    int
        A queue that is not empty.
    """
    occupied = np.flatnonzero(sizes)
    lower = occupied[occupied <= queue]
    return int(lower[-1] if len(lower) else occupied[0])


def k_centers(points: FloatArray, k: int, first: int) -> IntArray:
    """Pick points far from each other, greedily.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        For example probability vectors.
    k : int
        How many to pick, at most n.
    first : int
        Row to begin with.

    Returns
    -------
    rows : ndarray of int64 of shape (k,)
        Each next one has the greatest Euclidean distance to its nearest one before, ties to the
        lower row.
    """
    rows = np.empty(k, dtype=np.int64)
    distance = np.full(len(points), np.inf)
    for i in range(k):
        row = first if i == 0 else int(distance.argmax())
        rows[i] = row
        distance = np.minimum(distance, np.linalg.norm(points - points[row], axis=1))
        distance[rows[: i + 1]] = -1.0  # never again, even where all points are the same
    return rows


def selected(
    P: FloatArray,
    n_train: int,
    threshold: float,
    max_fraction: float,
    how: str,
    rng: np.random.Generator,
) -> IntArray:
    """Throttled choice among the documents of a queue.

    Parameters
    ----------
    P : ndarray of shape (n, K)
        Their class probabilities.
    n_train, threshold, max_fraction
        See `sklearn_spt._sampling.throttle`, which decides who is eligible and how many are
        selected.
    how : {"confidence", "random", "diverse"}
        Which of the eligible: the most confident; any; or, from the most confident one on, those
        whose probabilities differ most, see `k_centers`.
    rng : numpy.random.Generator
        Source of randomness, for "random".

    Returns
    -------
    rows : ndarray of int64
    """
    confidence = P.max(axis=1)
    rows = throttle(confidence, n_train, threshold, max_fraction)
    if how == "confidence" or not len(rows):
        return rows
    eligible = np.flatnonzero(confidence >= threshold)
    if how == "random":
        return np.sort(rng.choice(eligible, size=len(rows), replace=False))
    first = int(np.flatnonzero(eligible == rows[0])[0])
    return eligible[k_centers(P[eligible], len(rows), first)]
