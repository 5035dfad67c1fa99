"""Samples, disagreements and votes of three nets: invariants, a slow oracle, small cases."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt.baselines._voting import (
    bootstrap_rows,
    disagreement_sets,
    majority_mean,
    majority_vote,
)

ALL = [10**6] * 3


def probabilities(seed, n=40, K=3, n_nets=3):
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=(n_nets, n))


seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 40)
class_numbers = st.integers(2, 5)


# -- bootstrap ---------------------------------------------------------------------------------
@given(seeds, st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_a_bootstrap_sample_holds_every_class(seed, codes):
    codes = np.array(codes)
    rows = bootstrap_rows(codes, np.random.default_rng(seed))
    assert rows.shape == codes.shape
    assert set(codes[rows]) == set(codes)
    assert rows.min() >= 0


def test_a_bootstrap_sample_is_drawn_with_replacement():
    codes = np.arange(1000) % 2
    rows = bootstrap_rows(codes, np.random.default_rng(0))
    assert 600 < len(np.unique(rows)) < 665  # 1 - 1/e of them
    np.testing.assert_array_equal(rows, np.random.default_rng(0).integers(1000, size=1000))


def test_classes_are_drawn_separately_if_no_sample_holds_them_all():
    codes = np.repeat(np.arange(30), [1] * 29 + [11])  # all in one sample: hopeless
    rows = bootstrap_rows(codes, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(codes[rows]), np.bincount(codes))
    assert len(np.unique(rows[-11:])) < 11


def test_redraws_are_counted():
    class Lopsided:
        """Draws the first row only, and counts."""

        drawn = 0

        def integers(self, n, size):
            self.drawn += 1
            return np.zeros(size, dtype=np.int64)

        def choice(self, rows, size):
            return np.repeat(rows[-1:], size)

    rng = Lopsided()
    rows = bootstrap_rows(np.array([0, 0, 1]), rng)
    assert rng.drawn == 101
    np.testing.assert_array_equal(rows, [1, 1, 2])


# -- disagreement ------------------------------------------------------------------------------
def slow_sets(P, threshold, quotas):
    """Apply the rule to one document and one net at a time."""
    sets = []
    for i in range(3):
        j, k = (m for m in range(3) if m != i)
        candidates = []
        for x in range(P.shape[1]):
            guess = [int(np.argmax(P[m, x])) for m in range(3)]
            confidence = [float(np.max(P[m, x])) for m in range(3)]
            if guess[j] == guess[k] != guess[i] and max(confidence[j], confidence[k]) >= threshold:
                candidates.append((-(confidence[j] + confidence[k]) / 2, x, guess[j]))
        sets.append({x: label for _, x, label in sorted(candidates)[: quotas[i]]})
    return sets


def as_dicts(labels):
    return [{int(x): int(row[x]) for x in np.flatnonzero(row >= 0)} for row in labels]


@given(seeds, sizes, class_numbers, st.floats(0, 1), st.tuples(*[st.integers(1, 9)] * 3))
def test_sets_equal_a_slow_oracle(seed, n, K, threshold, quotas):
    P = np.round(probabilities(seed, n, K), 1)  # with ties
    assert as_dicts(disagreement_sets(P, threshold, quotas)) == slow_sets(P, threshold, quotas)


# -- the vote ----------------------------------------------------------------------------------
@given(seeds, sizes, class_numbers)
def test_a_majority_wins_and_else_the_mean_decides(seed, n, K):
    P = probabilities(seed, n, K)
    vote = majority_vote(P)
    for x in range(n):
        (winner, count), *_ = Counter(P[:, x].argmax(axis=1)).most_common()
        assert vote[x] == (winner if count > 1 else P[:, x].mean(axis=0).argmax())


def test_a_class_without_votes_may_win_by_the_mean():
    P = np.array([[[0.4, 0.0, 0.25, 0.35]], [[0.0, 0.4, 0.25, 0.35]], [[0.25, 0.0, 0.4, 0.35]]])
    assert majority_vote(P).tolist() == [3]


@given(seeds, sizes, class_numbers)
def test_the_most_probable_class_of_the_mean_is_the_vote(seed, n, K):
    P = probabilities(seed, n, K)
    mean = majority_mean(P)
    np.testing.assert_allclose(mean.sum(axis=1), 1)
    np.testing.assert_array_equal(mean.argmax(axis=1), majority_vote(P))
