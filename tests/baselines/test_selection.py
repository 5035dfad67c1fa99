"""Candidate pools, and the most confident candidates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt.baselines._selection import growing_pools, pool_size, throttle


def rng(seed=0):
    return np.random.default_rng(seed)


# -- the pool ----------------------------------------------------------------------------------
def test_the_pool_grows_by_a_tenth_until_it_is_everything():
    assert [pool_size(t, 10_000, 10_000) for t in (1, 2, 9, 10, 11)] == [
        1000,
        2000,
        9000,
        10_000,
        10_000,
    ]
    assert pool_size(1, 15, 15) == 2  # rounded up
    assert pool_size(5, 100, 30) == 30  # no more than are left
    assert pool_size(1, 0, 0) == 0


@given(
    n_unlabeled=st.integers(1, 60),
    n_left=st.integers(0, 60),
    t=st.integers(1, 15),
    seed=st.integers(0, 99),
)
def test_pools_are_disjoint_parts_of_what_is_left(n_unlabeled, n_left, t, seed):
    n_left = min(n_left, n_unlabeled)
    left = rng(seed).choice(n_unlabeled, n_left, replace=False)
    parts = list(growing_pools(left, t, n_unlabeled, rng(seed)))
    drawn = np.concatenate([np.empty(0, int), *parts])
    np.testing.assert_array_equal(np.sort(drawn), np.sort(left))
    assert all(len(part) for part in parts)
    if n_left:
        sizes = np.cumsum([len(part) for part in parts])
        steps = range(t, t + len(parts))
        assert sizes.tolist() == [pool_size(step, n_unlabeled, n_left) for step in steps]


# -- throttling ---------------------------------------------------------------------------------
def throttle_loop_by_loop(confidence, n_train, threshold, max_fraction):
    eligible = [(-conf, i) for i, conf in enumerate(confidence) if conf >= threshold]
    n = min(len(eligible), max(1, math.floor(Fraction(str(max_fraction)) * n_train)))
    return [i for _, i in sorted(eligible)[:n]]


@given(
    st.lists(st.sampled_from([0.5, 0.8, 0.9, 0.95, 1.0]), max_size=40),
    st.integers(0, 300),
    st.sampled_from([0.0, 0.8, 0.9, 0.93, 1.01]),
    st.sampled_from([0.0, 0.05, 0.1, 0.29, 1.0]),
)
def test_throttling_equals_the_steps_written_as_loops(confidence, n_train, threshold, max_fraction):
    rows = throttle(np.array(confidence), n_train, threshold, max_fraction)
    assert rows.dtype == np.int64
    assert rows.tolist() == throttle_loop_by_loop(confidence, n_train, threshold, max_fraction)


def test_threshold_is_included_in_either_precision():
    for dtype in (np.float32, np.float64):
        assert throttle(np.array([0.9, 0.89], dtype=dtype), 10, 0.9, 0.1).tolist() == [0]
