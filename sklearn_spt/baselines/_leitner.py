"""Queues of a Leitner system.

Epochs are counted from 1 and queues from 0. One array holds the queue of each document.
"""

from __future__ import annotations

import numpy as np

from sklearn_spt._typing import BoolArray, IntArray


def due_documents(queue: IntArray, epoch: int, n_queues: int) -> IntArray:
    """Rows of the documents to review in an epoch: queue i is due if ``epoch % 2**i == 0``."""
    due_queues = [i for i in range(n_queues) if epoch % 2**i == 0]
    return np.flatnonzero(np.isin(queue, due_queues))


def next_queues(queue: IntArray, correct: BoolArray, n_queues: int) -> IntArray:
    """Queues of due documents after a review: correct ones rise by one, the others fall to 0."""
    return np.where(correct, np.minimum(queue + 1, n_queues - 1), 0)


def nearest_occupied(sizes: IntArray, queue: int) -> int:
    """Return `queue` or, if it is empty, the nearest lower, else the nearest higher one."""
    occupied = np.flatnonzero(sizes)
    lower = occupied[occupied <= queue]
    return int(lower[-1] if len(lower) else occupied[0])
