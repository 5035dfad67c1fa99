"""Bootstrap samples, disagreements and votes of three nets.

P holds class probabilities by net, of shape (n_nets, n, K).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sklearn_spt._random import share_down
from sklearn_spt._typing import BoolArray, FloatArray, IntArray

_PEERS = ((1, 2), (0, 2), (0, 1))
_MAX_REDRAWS = 100


def bootstrap_rows(codes: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw a bootstrap sample that holds every class; after 100 redraws, draw class by class."""
    n = len(codes)
    classes = np.unique(codes)
    for _ in range(1 + _MAX_REDRAWS):
        rows = rng.integers(n, size=n)
        if len(np.unique(codes[rows])) == len(classes):
            return rows
    members = [np.flatnonzero(codes == c) for c in classes]
    return np.concatenate([rng.choice(rows, size=len(rows)) for rows in members])


def disagreements(P: FloatArray, threshold: float) -> BoolArray:
    """Mask (3, n): two nets agree, net i does not, and one of the two reaches the threshold."""
    predicted, confidence = P.argmax(axis=2), P.max(axis=2)
    found = np.zeros(predicted.shape, dtype=bool)
    for i, (j, k) in enumerate(_PEERS):
        agreed = (predicted[j] == predicted[k]) & (predicted[j] != predicted[i])
        found[i] = agreed & (np.maximum(confidence[j], confidence[k]) >= threshold)
    return found


def disagreement_sets(P: FloatArray, threshold: float, quotas: Sequence[int]) -> IntArray:
    """Labels (3, n) of the ``quotas[i]`` most confident `disagreements` of net i, -1 elsewhere."""
    predicted, confidence = P.argmax(axis=2), P.max(axis=2)
    labels = np.full(predicted.shape, -1, dtype=np.int64)
    for i, (found, (j, k)) in enumerate(zip(disagreements(P, threshold), _PEERS, strict=True)):
        rows = np.flatnonzero(found)
        both = (confidence[j] + confidence[k])[rows] / 2
        best = rows[np.argsort(-both, kind="stable")[: quotas[i]]]
        labels[i, best] = predicted[j, best]
    return labels


def set_quotas(n_labeled: int, sizes: IntArray, max_fraction: float) -> list[int]:
    """Maximum sizes of the next sets, given the current `sizes`; each may grow by at least 1."""
    return [size + max(1, share_down(max_fraction, n_labeled + size)) for size in sizes.tolist()]


def majority_vote(P: FloatArray) -> IntArray:
    """Class that most nets predict; without a majority, the class of greatest mean probability."""
    predicted = P.argmax(axis=2)
    votes = (predicted[:, :, None] == np.arange(P.shape[2])).sum(axis=0)
    decided = votes.max(axis=1) > len(P) / 2
    return np.where(decided, votes.argmax(axis=1), P.mean(axis=0).argmax(axis=1))


def majority_mean(P: FloatArray) -> FloatArray:
    """Mean over the nets that predict the majority class; over all if no two nets agree."""
    predicted = P.argmax(axis=2)
    agree = predicted == majority_vote(P)
    agree[:, agree.sum(axis=0) < 2] = True
    return np.asarray((P * agree[:, :, None]).sum(axis=0) / agree.sum(axis=0)[:, None])
