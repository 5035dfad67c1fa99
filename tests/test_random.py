"""Seeds that derive from one, and random draws of rows."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.stats
import torch
from helpers.cuda import Generators
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_spt._random import (
    class_balanced_draws,
    derive_seed,
    draw_sample,
    isolated,
    random_states,
    set_random_states,
    shuffled,
)


def test_a_seed_is_a_function_of_root_and_path():
    assert derive_seed(np.int64(7), np.int32(1), 2) == derive_seed(7, 1, 2)


def test_seeds_stay_the_same_over_versions():
    seeds = [derive_seed(0), derive_seed(0, 0), derive_seed(42, 1, 2)]
    sequences = [
        np.random.SeedSequence(0),
        np.random.SeedSequence(0).spawn(1)[0],
        np.random.SeedSequence(42).spawn(2)[1].spawn(3)[2],
    ]
    assert seeds == [int(s.generate_state(1)[0]) // 2 for s in sequences]
    assert seeds == [1484405855, 1878776328, 2003573811]


def test_different_paths_have_different_seeds():
    paths = [(), *((i,) for i in range(30)), *((i, j) for i in range(30) for j in range(30))]
    seeds = {derive_seed(root, *path) for root in range(3) for path in paths}
    assert len(seeds) == 3 * len(paths)


@given(st.integers(0, 2**64), st.lists(st.integers(0, 2**40), max_size=4))
def test_numpy_torch_and_scikit_learn_accept_a_seed(root, path):
    seed = derive_seed(root, *path)
    assert type(seed) is int
    assert 0 <= seed < 2**31


def test_seeds_are_uniform():
    seeds = np.array([derive_seed(0, i) for i in range(2000)])
    assert scipy.stats.kstest(seeds / 2**31, "uniform").pvalue > 0.01


def rng(seed=0):
    return np.random.default_rng(seed)


def probability_of_each_row(classes):
    """``1 / (K * n_c)`` of every row, counted one by one."""
    return [1 / (len({*classes}) * list(classes).count(c)) for c in classes]


def many_draws(classes, generator, n_draws):
    """Draws of several epochs."""
    epochs = [class_balanced_draws(classes, generator) for _ in range(n_draws // len(classes))]
    return np.concatenate(epochs)


class TestClassBalancedDraws:
    @pytest.mark.parametrize(
        "classes",
        [
            [0] * 9 + [1],
            [1, 0, 1, 1, 0, 1, 1, 1],
            [5, 2, 2, 5, 5, 9, 2, 2, 2],  # classes 0, 1, 3, ... are absent
            [3, 3, 3, 3],
            [256, 0, 1, 65_537, 0],  # more than 8 and 16 bits hold
        ],
    )
    def test_rows_have_their_probability(self, classes):
        rows = many_draws(np.array(classes), rng(), 40_000)
        expected = len(rows) * np.array(probability_of_each_row(classes))
        counts = np.bincount(rows, minlength=len(classes))
        assert scipy.stats.chisquare(counts, expected).pvalue > 0.01

    def test_draws_are_independent(self):
        classes = np.array([0, 0, 0, 1])
        rows = many_draws(classes, rng(1), 40_000)
        pairs = np.bincount(4 * rows[::2] + rows[1::2], minlength=16)
        p = np.array(probability_of_each_row(classes))
        assert scipy.stats.chisquare(pairs, 20_000 * np.outer(p, p).ravel()).pvalue > 0.01

    @given(hnp.arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 6)), st.integers(0, 99))
    def test_draws_are_rows_and_a_function_of_the_generator(self, classes, seed):
        rows, same = (class_balanced_draws(classes, rng(seed)) for _ in range(2))
        assert rows.dtype == np.int64
        assert len(rows) == len(classes)
        assert np.isin(rows, np.arange(len(classes))).all()
        assert_array_equal(rows, same)

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
    def test_any_integer_type(self, dtype):
        classes = np.array([0, 1, 1, 2])
        expected = class_balanced_draws(classes, rng())
        assert_array_equal(class_balanced_draws(classes.astype(dtype), rng()), expected)

    def test_each_of_a_million_rows_can_be_drawn(self):
        classes = np.zeros(1_000_000, dtype=np.int64)
        classes[:3] = 1
        rows = class_balanced_draws(classes, rng())
        assert_allclose((rows < 3).mean(), 0.5, atol=0.002)
        # Half a draw per row of the large class on average: 1 - exp(-1/2) of them are drawn.
        assert_allclose(len(np.unique(rows)) / 1e6, 1 - np.exp(-0.5), atol=0.002)


class TestShuffledAndDrawSample:
    @pytest.mark.parametrize("n", [0, 1, 2, 100])
    def test_all_rows_are_a_permutation(self, n):
        for rows in (shuffled(n, rng()), draw_sample(n, n, rng())):
            assert rows.dtype == np.int64
            assert_array_equal(np.sort(rows), np.arange(n))
            assert n < 3 or not np.array_equal(rows, np.arange(n))

    def test_shuffled_is_uniform(self):
        generator = rng()
        codes = [int(shuffled(3, generator) @ [9, 3, 1]) for _ in range(6000)]
        counts = np.unique(codes, return_counts=True)[1]
        assert len(counts) == 6
        assert scipy.stats.chisquare(counts).pvalue > 0.01

    @given(st.data())
    def test_draws_have_no_duplicates(self, data):
        n = data.draw(st.integers(0, 200))
        size = data.draw(st.integers(0, n))
        rows = draw_sample(n, size, rng(data.draw(st.integers(0, 1000))))
        assert rows.dtype == np.int64
        assert len(rows) == len(set(rows.tolist())) == size
        assert np.isin(rows, np.arange(n)).all()

    @pytest.mark.parametrize("size", [2, 4])
    def test_draw_is_uniform(self, size):
        generator = rng()
        draws = np.concatenate([draw_sample(5, size, generator) for _ in range(4000)])
        assert_allclose(np.bincount(draws, minlength=5) / 4000, size / 5, atol=0.03)


# -- CUDA ----------------------------------------------------------------------------------------
def test_isolated_does_not_start_cuda(monkeypatch):
    cuda = Generators(monkeypatch, started=False)
    with isolated(3):
        states = random_states()
        set_random_states({**states, "cuda": [1, 2]})
    assert states["cuda"] == []
    assert not cuda.started


def test_cuda_that_starts_inside_is_seeded_there_and_afterwards_as_before(monkeypatch):
    cuda = Generators(monkeypatch, started=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        with isolated(3):
            assert cuda.start() == [3, 3]
            with isolated(4):
                assert cuda.generators == [4, 4]
            assert cuda.generators == [3, 3]
        assert cuda.generators == [11, 11]


def test_a_later_start_of_cuda_takes_the_seed_from_before(monkeypatch):
    cuda = Generators(monkeypatch, started=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        with isolated(3), isolated(4):
            pass
        assert cuda.start() == [11, 11]


@pytest.mark.parametrize("error", [False, True])
def test_generators_of_a_started_cuda_are_restored(monkeypatch, error):
    cuda = Generators(monkeypatch, started=True)
    cuda.generators[:] = [8, 9]
    try:
        with isolated(3):
            assert cuda.generators == [3, 3]
            states = random_states()
            cuda.generators[:] = [1, 2]
            set_random_states(states)
            assert cuda.generators == [3, 3]
            if error:
                raise RuntimeError("stop")
    except RuntimeError:
        assert error
    assert cuda.generators == [8, 9]
