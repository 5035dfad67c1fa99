from __future__ import annotations

import inspect
import math
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_spt._random import derive_seed
from sklearn_spt._sampling import class_balanced_draws, draw_sample, shuffled
from sklearn_spt.baselines._selection import throttle
from sklearn_spt.self_pretraining._sample_sizes import growing_sample_sizes, resolve_step_size

modest = settings(deadline=None, max_examples=80)


def probability_of_each_row(classes):
    """``1 / (K' * n_c)`` of every row, counted one by one."""
    present = []
    for c in classes:
        if c not in present:
            present.append(c)
    return [1 / (len(present) * list(classes).count(c)) for c in classes]


def throttle_loop_by_loop(confidence, n_train, threshold, max_fraction):
    eligible = [(-conf, i) for i, conf in enumerate(confidence) if conf >= threshold]
    n = min(len(eligible), max(1, math.floor(Fraction(str(max_fraction)) * n_train)))
    return [i for _, i in sorted(eligible)[:n]]


class TestDeriveSeed:
    def test_is_a_function_of_root_and_path(self):
        assert derive_seed(7, 1, 2) == derive_seed(7, 1, 2)
        assert derive_seed(np.int64(7), np.int32(1), 2) == derive_seed(7, 1, 2)

    def test_stays_the_same_over_versions(self):
        seeds = [derive_seed(0), derive_seed(0, 0), derive_seed(42, 1, 2)]
        sequences = [
            np.random.SeedSequence(0),
            np.random.SeedSequence(0).spawn(1)[0],
            np.random.SeedSequence(42).spawn(2)[1].spawn(3)[2],
        ]
        assert seeds == [int(s.generate_state(1)[0]) // 2 for s in sequences]
        assert seeds == [1484405855, 1878776328, 2003573811]

    def test_different_paths_have_different_seeds(self):
        paths = [(), *((i,) for i in range(30)), *((i, j) for i in range(30) for j in range(30))]
        seeds = {derive_seed(root, *path) for root in range(3) for path in paths}
        assert len(seeds) == 3 * len(paths)

    @modest
    @given(st.integers(0, 2**64), st.lists(st.integers(0, 2**40), max_size=4))
    def test_is_in_the_range_that_everybody_accepts(self, root, path):
        seed = derive_seed(root, *path)
        assert type(seed) is int
        assert 0 <= seed < 2**31

    def test_is_uniform(self):
        seeds = np.array([derive_seed(0, i) for i in range(2000)])
        assert scipy.stats.kstest(seeds / 2**31, "uniform").pvalue > 0.01

    def test_rejects_negative_numbers(self):
        with pytest.raises(ValueError, match="root must hold integers >= 0, got -1"):
            derive_seed(-1)
        with pytest.raises(ValueError, match="path must hold integers >= 0, got -2"):
            derive_seed(0, 1, -2)


class TestClassBalancedDraws:
    @pytest.mark.parametrize(
        "classes",
        [
            [0] * 9 + [1],
            [1, 0, 1, 1, 0, 1, 1, 1],
            [5, 2, 2, 5, 5, 9, 2, 2, 2],  # classes 0, 1, 3, ... are absent
            [3, 3, 3, 3],
            [256, 0, 1, 65_537, 0],  # not to be taken modulo 256 or 65,536
        ],
    )
    def test_rows_come_with_their_probability(self, classes):
        n_draws = 40_000
        rows = class_balanced_draws(classes, np.random.default_rng(0), n_draws)
        counts = np.bincount(rows, minlength=len(classes))
        expected = n_draws * np.array(probability_of_each_row(classes))
        assert scipy.stats.chisquare(counts, expected).pvalue > 0.01

    def test_draws_are_independent(self):
        classes = [0, 0, 0, 1]
        rows = class_balanced_draws(classes, np.random.default_rng(1), 40_000)
        pairs = np.bincount(4 * rows[::2] + rows[1::2], minlength=16)
        p = np.array(probability_of_each_row(classes))
        assert scipy.stats.chisquare(pairs, 20_000 * np.outer(p, p).ravel()).pvalue > 0.01

    def test_classes_of_ninety_and_ten_percent_become_equal(self):
        classes = np.repeat([0, 1], [90_000, 10_000])
        rows = class_balanced_draws(classes, np.random.default_rng(0))
        # Four standard deviations of a binomial share.
        assert abs(classes[rows].mean() - 0.5) < 4 * 0.5 / np.sqrt(100_000)

    @modest
    @given(
        hnp.arrays(np.int64, st.integers(1, 50), elements=st.integers(0, 6)),
        st.none() | st.integers(0, 60),
        st.integers(0, 2**32),
    )
    def test_draws_are_rows(self, classes, n_draws, seed):
        rows = class_balanced_draws(classes, np.random.default_rng(seed), n_draws)
        assert rows.dtype == np.int64
        assert len(rows) == (len(classes) if n_draws is None else n_draws)
        assert np.isin(rows, np.arange(len(classes))).all()

    def test_same_generator_state_gives_same_draws(self):
        classes = np.random.default_rng(0).integers(3, size=100)
        first, second = (class_balanced_draws(classes, np.random.default_rng(5)) for _ in range(2))
        assert_array_equal(first, second)
        assert not np.array_equal(first, class_balanced_draws(classes, np.random.default_rng(6)))

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
    def test_any_integer_type(self, dtype):
        classes = np.array([0, 1, 1, 2], dtype=dtype)
        expected = class_balanced_draws([0, 1, 1, 2], np.random.default_rng(0))
        assert_array_equal(class_balanced_draws(classes, np.random.default_rng(0)), expected)

    def test_a_million_rows_all_reachable(self):
        classes = np.zeros(1_000_000, dtype=np.int64)
        classes[:3] = 1
        rows = class_balanced_draws(classes, np.random.default_rng(0))
        assert_allclose((rows < 3).mean(), 0.5, atol=0.002)
        # Half a draw per row of the large class on average: 1 - exp(-1/2) of them come up.
        assert_allclose(len(np.unique(rows)) / 1e6, 1 - np.exp(-0.5), atol=0.002)

    def test_no_rows(self):
        rng = np.random.default_rng(0)
        assert len(class_balanced_draws([], rng)) == 0
        with pytest.raises(ValueError, match="cannot draw 3 rows from none"):
            class_balanced_draws([], rng, 3)

    def test_rejects_bad_classes(self):
        rng = np.random.default_rng(0)
        with pytest.raises(ValueError, match="at least 0, but row 2 is -1"):
            class_balanced_draws([0, 1, -1], rng)
        with pytest.raises(TypeError, match="integer class indices, got dtype float64"):
            class_balanced_draws([0.0, 1.0], rng)
        with pytest.raises(ValueError, match=r"one class index per row, got shape \(2, 1\)"):
            class_balanced_draws([[0], [1]], rng)
        with pytest.raises(ValueError, match="n_draws must not be negative, got -1"):
            class_balanced_draws([0, 1], rng, -1)


class TestShuffledAndDrawSample:
    @pytest.mark.parametrize("n", [0, 1, 2, 100])
    def test_shuffled_is_a_permutation(self, n):
        rows = shuffled(n, np.random.default_rng(0))
        assert rows.dtype == np.int64
        assert_array_equal(np.sort(rows), np.arange(n))

    def test_shuffled_is_uniform(self):
        rng = np.random.default_rng(0)
        codes = [int(shuffled(3, rng) @ [9, 3, 1]) for _ in range(6000)]
        counts = np.unique(codes, return_counts=True)[1]
        assert len(counts) == 6
        assert scipy.stats.chisquare(counts).pvalue > 0.01

    @modest
    @given(st.data())
    def test_draws_have_no_duplicates(self, data):
        n = data.draw(st.integers(0, 200))
        size = data.draw(st.integers(0, n))
        rows = draw_sample(n, size, np.random.default_rng(data.draw(st.integers(0, 1000))))
        assert rows.dtype == np.int64
        assert len(rows) == len(set(rows.tolist())) == size
        assert np.isin(rows, np.arange(n)).all()

    def test_all_of_them_is_a_permutation(self):
        rows = draw_sample(50, 50, np.random.default_rng(0))
        assert_array_equal(np.sort(rows), np.arange(50))
        assert not np.array_equal(rows, np.arange(50))

    @pytest.mark.parametrize("size", [2, 4])
    def test_draw_is_uniform(self, size):
        rng = np.random.default_rng(0)
        draws = np.concatenate([draw_sample(5, size, rng) for _ in range(4000)])
        counts = np.bincount(draws, minlength=5)
        assert_allclose(counts / 4000, size / 5, atol=0.03)

    @pytest.mark.parametrize("size", [-1, 6])
    def test_rejects_the_size(self, size):
        with pytest.raises(ValueError, match=f"from 0 to the 5 unlabelled documents, got {size}"):
            draw_sample(5, size, np.random.default_rng(0))


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

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_unlabeled": -1, "step": 1}, "n_unlabeled must be at least 0, got -1"),
            ({"n_unlabeled": 5, "step": 0}, "step must be at least 1, got 0"),
            ({"n_unlabeled": 5, "step": 1, "first": 0}, "first must be at least 1, got 0"),
            ({"n_unlabeled": 5, "step": 1, "max_iter": -1}, "max_iter must be at least 0, got -1"),
        ],
    )
    def test_rejects(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            growing_sample_sizes(**arguments)


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

    def test_decimal_shares_in_spite_of_binary_fractions(self):
        assert 0.07 * 100 > 7
        assert resolve_step_size(0.07, 100) == 7

    @pytest.mark.parametrize("bad", [0, -3, 0.0, -0.1, 1.5, 2000.0, float("nan"), float("inf")])
    def test_rejects_the_value(self, bad):
        with pytest.raises(ValueError, match=rf"^step_size as an? .*got {bad!r}"):
            resolve_step_size(bad, 100)

    @pytest.mark.parametrize("bad", [True, np.True_, "0.2", None, [0.2], 1j])
    def test_rejects_the_type(self, bad):
        with pytest.raises(TypeError, match=r"^step_size must be a float in .*got .*of type"):
            resolve_step_size(bad, 100)


class TestThrottle:
    @modest
    @given(
        hnp.arrays(
            np.float64, st.integers(0, 40), elements=st.sampled_from([0.5, 0.8, 0.9, 0.95, 1.0])
        ),
        st.integers(0, 300),
        st.sampled_from([0.0, 0.8, 0.9, 0.93, 1.01]),
        st.sampled_from([0.0, 0.05, 0.1, 0.29, 1.0]),
    )
    def test_equals_the_steps_written_as_loops(self, confidence, n_train, threshold, max_fraction):
        rows = throttle(confidence, n_train, threshold, max_fraction)
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


def test_global_random_state_is_never_touched():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    rng = np.random.default_rng(0)
    derive_seed(0, 1)
    class_balanced_draws([0, 1, 1], rng)
    shuffled(5, rng)
    draw_sample(5, 3, rng)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("function", [class_balanced_draws, shuffled, draw_sample])
def test_randomness_has_no_default(function):
    assert inspect.signature(function).parameters["rng"].default is inspect.Parameter.empty
