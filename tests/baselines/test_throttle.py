"""The selection of the most confident candidates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt.baselines._selection import throttle


def throttle_loop_by_loop(confidence, n_train, threshold, max_fraction):
    eligible = [(-conf, i) for i, conf in enumerate(confidence) if conf >= threshold]
    n = min(len(eligible), max(1, math.floor(Fraction(str(max_fraction)) * n_train)))
    return [i for _, i in sorted(eligible)[:n]]


class TestThrottle:
    @given(
        st.lists(st.sampled_from([0.5, 0.8, 0.9, 0.95, 1.0]), max_size=40),
        st.integers(0, 300),
        st.sampled_from([0.0, 0.8, 0.9, 0.93, 1.01]),
        st.sampled_from([0.0, 0.05, 0.1, 0.29, 1.0]),
    )
    def test_equals_the_steps_written_as_loops(self, confidence, n_train, threshold, max_fraction):
        rows = throttle(np.array(confidence), n_train, threshold, max_fraction)
        assert rows.dtype == np.int64
        assert rows.tolist() == throttle_loop_by_loop(confidence, n_train, threshold, max_fraction)

    def test_takes_the_most_confident_first_and_ties_by_row(self):
        confidence = [0.95, 0.99, 0.2, 0.95, 0.99, 0.9]
        assert throttle(confidence, n_train=1000).tolist() == [1, 4, 0, 3, 5]
        assert throttle(confidence, n_train=30).tolist() == [1, 4, 0]

    def test_takes_at_least_one_and_at_most_a_tenth(self):
        confidence = np.full(1000, 0.99)
        assert [len(throttle(confidence, n)) for n in (0, 1, 19, 20, 300)] == [1, 1, 1, 2, 30]

    def test_growth_of_three_hundred_documents(self):
        n_train, added = 300, []
        for _ in range(5):
            added.append(len(throttle(np.full(10_000, 1.0), n_train)))
            n_train += added[-1]
        assert added == [30, 33, 36, 39, 43]

    def test_decimal_fractions_in_spite_of_binary_ones(self):
        assert 0.29 * 100 < 29
        assert len(throttle(np.ones(100), n_train=100, max_fraction=0.29)) == 29

    def test_threshold_is_included_in_either_precision(self):
        for dtype in (np.float32, np.float64):
            assert throttle(np.array([0.9, 0.89], dtype=dtype), 10).tolist() == [0]

    def test_nobody_confident_or_nobody_there(self):
        assert throttle([0.5, 0.6], 100).tolist() == []
        assert throttle([1.0], 100, threshold=1.1).tolist() == []
        assert throttle([], 100).tolist() == []
