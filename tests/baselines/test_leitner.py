"""Queues: when they are due, how documents move, what is picked from one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt.baselines._leitner import (
    due_documents,
    due_queues,
    k_centers,
    moved,
    nearest_occupied,
    selected,
)
from sklearn_spt.baselines._selection import throttle

seeds = st.integers(0, 2**32 - 1)


def after(n_epochs, correct, n=1, n_queues=6, demote="first"):
    """Queues after each epoch; `correct(epoch, due)` judges the documents that are due."""
    queue, history = np.zeros(n, dtype=np.int64), []
    for epoch in range(1, n_epochs + 1):
        due = due_documents(queue, epoch, n_queues)
        queue[due] = moved(queue[due], correct(epoch, due), n_queues, demote)
        history.append(queue.copy())
    return history


# -- when --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("epoch", "due"), [(1, [0]), (2, [0, 1]), (6, [0, 1]), (8, [0, 1, 2, 3]), (32, [*range(6)])]
)
def test_due_queues(epoch, due):
    assert due_queues(epoch, 6) == due


@given(st.integers(1, 100), st.integers(1, 8))
def test_a_queue_is_due_every_power_of_two(epoch, n_queues):
    assert due_queues(epoch, n_queues) == [i for i in range(n_queues) if not epoch & ((1 << i) - 1)]


def test_due_documents_are_those_of_due_queues():
    queue = np.array([3, 0, 1, 2, 0, 5])
    np.testing.assert_array_equal(due_documents(queue, 1, 6), [1, 4])
    np.testing.assert_array_equal(due_documents(queue, 4, 6), [1, 2, 3, 4])
    assert len(due_documents(np.array([1, 2]), 3, 6)) == 0


# -- how they move -----------------------------------------------------------------------------
def test_an_always_correct_document_rises_ever_more_slowly():
    queues = [int(q[0]) for q in after(16, lambda epoch, due: np.ones(len(due), bool))]
    assert queues == [1, 2, 2, 3, 3, 3, 3] + [4] * 8 + [5]


@given(st.integers(1, 70), st.integers(1, 8))
def test_it_is_where_the_logarithm_says(epochs, n_queues):
    queues = after(epochs, lambda epoch, due: np.ones(len(due), bool), n_queues=n_queues)
    expected = [min(n_queues - 1, 1 + int(math.log2(e))) for e in range(1, epochs + 1)]
    assert [int(q[0]) for q in queues] == expected


@pytest.mark.parametrize("demote", ["first", "previous"])
def test_an_always_wrong_document_stays_in_the_first(demote):
    queues = after(20, lambda epoch, due: np.zeros(len(due), bool), demote=demote)
    assert [int(q[0]) for q in queues] == [0] * 20


@given(seeds, st.integers(1, 7), st.sampled_from(["first", "previous"]), st.floats(0, 1))
def test_documents_move_by_one_and_when_due(seed, n_queues, demote, share):
    rng = np.random.default_rng(seed)
    seen = []

    def judge(epoch, due):
        correct = rng.random(len(due)) < share
        seen.append((set(due.tolist()), set(due[correct].tolist())))
        return correct

    before = np.zeros(30, dtype=np.int64)
    for epoch, queue in enumerate(after(20, judge, 30, n_queues, demote), start=1):
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
                assert queue[x] == (0 if demote == "first" else max(before[x] - 1, 0))
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


# -- which documents ---------------------------------------------------------------------------
def probabilities(seed, n, K=3):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.3), size=n)


@given(seeds, st.integers(0, 30), st.sampled_from(["confidence", "random", "diverse"]))
def test_every_choice_is_throttled(seed, n, how):
    P = probabilities(seed, n)
    rng = np.random.default_rng(seed)
    rows = selected(P, 40, 0.8, 0.1, how, rng)
    assert len(rows) == len(set(rows.tolist())) == min(4, (P.max(axis=1) >= 0.8).sum())
    assert (P[rows].max(axis=1) >= 0.8).all()
    if how == "confidence":
        np.testing.assert_array_equal(rows, throttle(P.max(axis=1), 40, 0.8, 0.1))


def test_any_eligible_document_may_be_drawn():
    P = np.array([[0.9, 0.1]] * 3 + [[0.6, 0.4]])
    rng = np.random.default_rng(0)
    drawn = [int(selected(P, 10, 0.8, 0.1, "random", rng)[0]) for _ in range(300)]
    counts = np.bincount(drawn, minlength=4)
    assert counts[3] == 0
    assert (counts[:3] > 70).all()


def test_diverse_documents_are_of_several_classes():
    P = np.array([[0.99, 0.01], [0.98, 0.02], [0.97, 0.03], [0.08, 0.92], [0.5, 0.5]])
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(selected(P, 20, 0.9, 0.1, "confidence", rng), [0, 1])
    np.testing.assert_array_equal(selected(P, 20, 0.9, 0.1, "diverse", rng), [0, 3])
    np.testing.assert_array_equal(selected(P, 30, 0.9, 0.1, "diverse", rng), [0, 3, 2])


@given(seeds, st.integers(1, 15), st.data())
def test_each_centre_is_the_farthest_point(seed, n, data):
    points = probabilities(seed, n)
    k = data.draw(st.integers(1, n))
    first = data.draw(st.integers(0, n - 1))
    rows = k_centers(points, k, first).tolist()
    assert rows[0] == first
    assert len(set(rows)) == k
    for i in range(1, k):
        gaps = [min(math.dist(points[x], points[r]) for r in rows[:i]) for x in range(n)]
        assert gaps[rows[i]] == pytest.approx(max(gaps))


def test_equal_points_are_picked_once_each():
    np.testing.assert_array_equal(k_centers(np.ones((4, 2)), 4, 2), [2, 0, 1, 3])
