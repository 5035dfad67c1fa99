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

    def test_threshold_is_included_in_either_precision(self):
        for dtype in (np.float32, np.float64):
            assert throttle(np.array([0.9, 0.89], dtype=dtype), 10).tolist() == [0]
