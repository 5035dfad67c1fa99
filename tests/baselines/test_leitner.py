"""Queues: when they are due, and how documents move between them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt.baselines._leitner import due_documents, nearest_occupied, next_queues


def after(n_epochs, correct, n=1, n_queues=6):
    """Queues after each epoch; `correct(epoch, due)` judges the documents that are due."""
    queue, history = np.zeros(n, dtype=np.int64), []
    for epoch in range(1, n_epochs + 1):
        due = due_documents(queue, epoch, n_queues)
        queue[due] = next_queues(queue[due], correct(epoch, due), n_queues)
        history.append(queue.copy())
    return history


# -- when --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("epoch", "due"), [(1, [0]), (2, [0, 1]), (6, [0, 1]), (8, [0, 1, 2, 3]), (32, [*range(6)])]
)
def test_due_documents_by_epoch(epoch, due):
    np.testing.assert_array_equal(due_documents(np.arange(6), epoch, 6), due)


# -- how they move -----------------------------------------------------------------------------
@given(st.integers(1, 70), st.integers(1, 8))
def test_the_queue_of_a_correct_document_is_logarithmic(epochs, n_queues):
    queues = after(epochs, lambda epoch, due: np.ones(len(due), bool), n_queues=n_queues)
    expected = [min(n_queues - 1, 1 + int(math.log2(e))) for e in range(1, epochs + 1)]
    assert [int(q[0]) for q in queues] == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.floats(0, 1))
def test_documents_rise_by_one_or_fall_to_the_first_when_due(seed, n_queues, share):
    rng = np.random.default_rng(seed)
    seen = []

    def judge(epoch, due):
        correct = rng.random(len(due)) < share
        seen.append((set(due.tolist()), set(due[correct].tolist())))
        return correct

    before = np.zeros(30, dtype=np.int64)
    for epoch, queue in enumerate(after(20, judge, 30, n_queues), start=1):
        due, correct = seen[epoch - 1]
        # every document is in one queue, and the queues hold them all
        assert queue.shape == (30,)
        assert ((queue >= 0) & (queue < n_queues)).all()
        assert np.bincount(queue, minlength=n_queues).sum() == 30
        for x in range(30):
            assert (x in due) == (epoch % 2 ** before[x] == 0)
            if x not in due:
                assert queue[x] == before[x]
            elif x in correct:
                assert queue[x] == min(before[x] + 1, n_queues - 1)
            else:
                assert queue[x] == 0
        before = queue


# -- which queue -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sizes", "wanted", "queue"),
    [
        ([1, 1, 1], 1, 1),
        ([1, 1, 0], 2, 1),
        ([1, 0, 0, 9], 2, 0),  # a lower one first, however small and far
        ([0, 0, 0, 2, 2], 1, 3),
        ([0, 0, 0, 0, 2], 4, 4),
    ],
)
def test_an_empty_queue_has_a_substitute(sizes, wanted, queue):
    assert nearest_occupied(np.array(sizes), wanted) == queue
