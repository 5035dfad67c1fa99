"""How many documents each iteration samples."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_spt.self_pretraining._sample_sizes import (
    growing_sample_sizes,
    resolve_step_size,
    warn_of_sizes,
)

modest = settings(deadline=None, max_examples=80)


class TestGrowingSampleSizes:
    def test_the_papers_and_the_authors(self):
        assert growing_sample_sizes(10_000, 2000) == [2000, 4000, 6000, 8000, 10_000]
        assert growing_sample_sizes(10_000, 2000, first=1000) == [
            1000, 3000, 5000, 7000, 9000, 10_000,
        ]  # fmt: skip

    @modest
    @given(st.integers(1, 5000), st.integers(1, 600))
    def test_ends_with_all_of_them(self, n_unlabeled, step):
        sizes = growing_sample_sizes(n_unlabeled, step)
        assert len(sizes) == math.ceil(n_unlabeled / step)
        assert sizes[-1] == n_unlabeled
        assert sizes == sorted(sizes)

    @modest
    @given(
        st.integers(0, 500), st.integers(1, 90), st.none() | st.integers(1, 90),
        st.none() | st.integers(0, 9),
    )  # fmt: skip
    def test_equals_the_loop_of_the_algorithm(self, n_unlabeled, step, first, max_iter):
        expected: list[int] = []
        s = step if first is None else first
        while n_unlabeled > 0 and (max_iter is None or len(expected) < max_iter):
            expected.append(min(s, n_unlabeled))
            if s >= n_unlabeled:
                break
            s += step
        assert growing_sample_sizes(n_unlabeled, step, first, max_iter) == expected

    def test_limits(self):
        assert growing_sample_sizes(0, 5) == []
        assert growing_sample_sizes(3, 5) == [3]
        assert growing_sample_sizes(3, 1, first=7) == [3]
        assert growing_sample_sizes(10, 5) == [5, 10]
        assert growing_sample_sizes(10, 2, max_iter=2) == [2, 4]
        assert growing_sample_sizes(10, 2, max_iter=0) == []


def test_a_step_of_one_document_is_questioned():
    """``step_size=1`` is one document, and 1.0 is all of them."""
    message = r"step_size=1 and 101 unlabelled documents make 101 iterations; .*with 1.0 there is"
    with pytest.warns(UserWarning, match=message):
        warn_of_sizes(growing_sample_sizes(101, 1), 1, None, 0.1, 101)
    for sizes in (growing_sample_sizes(100, 1), 1, None), (growing_sample_sizes(900, 1), 1, 900):
        with warnings.catch_warnings(record=True) as found:
            warn_of_sizes(*sizes, 0.1, len(sizes[0]))
        assert found == []


class TestResolveStepSize:
    @pytest.mark.parametrize(
        ("step_size", "n_unlabeled", "expected"),
        [
            (0.2, 10_000, 2000),
            (0.2, 11, 3),
            (1.0, 7, 7),
            (1, 7, 1),
            (2000, 7, 2000),
            (1e-9, 7, 1),
            (0.2, 0, 1),
            (np.float32(0.5), 10, 5),
            (np.int64(3), 10, 3),
        ],
    )
    def test_shares_and_counts(self, step_size, n_unlabeled, expected):
        step = resolve_step_size(step_size, n_unlabeled)
        assert step == expected
        assert type(step) is int

    @modest
    @given(st.integers(1, 999), st.integers(1, 10**6))
    def test_rounds_up_as_the_decimal_number_that_was_written(self, thousandths, n_unlabeled):
        expected = math.ceil(Fraction(thousandths, 1000) * n_unlabeled)
        assert resolve_step_size(thousandths / 1000, n_unlabeled) == expected

    @pytest.mark.parametrize("bad", [0, -3, 0.0, -0.1, 1.5, 2000.0, float("nan"), float("inf")])
    def test_rejects_the_value(self, bad):
        with pytest.raises(ValueError, match=rf"^step_size as an? .*got {bad!r}"):
            resolve_step_size(bad, 100)

    @pytest.mark.parametrize("bad", [True, np.True_, "0.2", None, [0.2], 1j])
    def test_rejects_the_type(self, bad):
        with pytest.raises(TypeError, match=r"^step_size must be a float in .*got .*of type"):
            resolve_step_size(bad, 100)
