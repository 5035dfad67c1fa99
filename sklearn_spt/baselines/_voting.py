"""Three nets against each other: their samples, their disagreements, their vote."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_spt._sampling import share_down
from sklearn_spt._typing import BoolArray, FloatArray, IntArray

_PEERS = ((1, 2), (0, 2), (0, 1))


def bootstrap_rows(codes: IntArray, rng: np.random.Generator, max_redraws: int = 100) -> IntArray:
    """Draw a bootstrap sample that holds every class.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Class of each row.
    rng : numpy.random.Generator
        Source of randomness.
    max_redraws : int, default=100
        After one draw and so many redraws without some class, each class is drawn for itself, as
        many rows as it has.

    Returns
    -------
    rows : ndarray of int64 of shape (n,)
        Drawn with replacement.
    """
    n = len(codes)
    classes = np.unique(codes)
    for _ in range(1 + max_redraws):
        rows = rng.integers(n, size=n)
        if len(np.unique(codes[rows])) == len(classes):
            return rows
    members = [np.flatnonzero(codes == c) for c in classes]
    return np.concatenate([rng.choice(rows, size=len(rows)) for rows in members])


def disagreements(P: FloatArray, threshold: float) -> BoolArray:
    """Find what two nets can teach the third.

    Parameters
    ----------
    P : ndarray of shape (3, n, K)
        Class probabilities by net.
    threshold : float
        Least confidence of the more confident of the two.

    Returns
    -------
    ndarray of bool of shape (3, n)
        Row i is True where the two other nets predict one class, net i another one, and one of
        the two has the confidence. No document is True in two rows.
    """
    predicted, confidence = P.argmax(axis=2), P.max(axis=2)
    found = np.zeros(predicted.shape, dtype=bool)
    for i, (j, k) in enumerate(_PEERS):
        agreed = (predicted[j] == predicted[k]) & (predicted[j] != predicted[i])
        found[i] = agreed & (np.maximum(confidence[j], confidence[k]) >= threshold)
    return found


def disagreement_sets(P: FloatArray, threshold: float, quotas: Sequence[int]) -> IntArray:
    """Select what two nets teach the third.

    Parameters
    ----------
    P : ndarray of shape (3, n, K)
        Class probabilities by net.
    threshold : float
        Least confidence of the more confident of the two.
    quotas : sequence of three ints
        Greatest number of documents for each net.

    Returns
    -------
    labels : ndarray of int64 of shape (3, n)
        In row i the class that each selected document gets in the set of net i, -1 elsewhere.
        Those with the greatest mean confidence of the two are selected, ties to the lower row.
    """
    predicted, confidence = P.argmax(axis=2), P.max(axis=2)
    labels = np.full(predicted.shape, -1, dtype=np.int64)
    for i, (found, (j, k)) in enumerate(zip(disagreements(P, threshold), _PEERS, strict=True)):
        rows = np.flatnonzero(found)
        both = (confidence[j] + confidence[k])[rows] / 2
        best = rows[np.argsort(-both, kind="stable")[: quotas[i]]]
        labels[i, best] = predicted[j, best]
    return labels


def set_quotas(
    n_labeled: int, sizes: IntArray, max_fraction: float, most_added: int | None = None
) -> list[int]:
    """Return the greatest sizes of the next sets.

    Parameters
    ----------
    n_labeled : int
        Number of labelled documents, N.
    sizes : ndarray of int
        Number of documents in each set now: its net was trained on so many more than N.
    max_fraction : float
        A set may grow by this share of what its net was trained on, rounded down, but by one at
        least.
    most_added : int or None, default=None
        Nor may it grow by more than this, but for that one.

    Returns
    -------
    list of int
        Each above its size.
    """
    quotas = []
    for size in sizes.tolist():
        growth = share_down(max_fraction, n_labeled + size)
        quotas.append(size + max(1, growth if most_added is None else min(growth, most_added)))
    return quotas


def majority_vote(P: FloatArray) -> IntArray:
    """Let nets vote on the class of each document.

    Parameters
    ----------
    P : ndarray of shape (n_nets, n, K)
        Class probabilities of one net, or of three.

    Returns
    -------
    ndarray of int64 of shape (n,)
        The class that most nets predict; where no two of three agree, the class of greatest mean
        probability.
    """
    predicted = P.argmax(axis=2)
    votes = (predicted[:, :, None] == np.arange(P.shape[2])).sum(axis=0)
    decided = votes.max(axis=1) > len(P) / 2
    return np.where(decided, votes.argmax(axis=1), P.mean(axis=0).argmax(axis=1))


def majority_mean(P: FloatArray) -> FloatArray:
    """Mean over the nets that predict the majority class, for P of shape (3, n, K).

    It is over all three nets where no two agree. So the most probable class is the majority vote.
    """
    predicted = P.argmax(axis=2)
    agree = predicted == majority_vote(P)
    agree[:, agree.sum(axis=0) < 2] = True
    return np.asarray((P * agree[:, :, None]).sum(axis=0) / agree.sum(axis=0)[:, None])
