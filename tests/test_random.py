"""Seeds that derive from one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt._random import derive_seed, isolated, random_states, set_random_states


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


# -- CUDA ----------------------------------------------------------------------------------------
class Cuda:
    """Two CUDA devices that start when a generator is read, as torch's do; each holds a seed."""

    def __init__(self, monkeypatch, started):
        self.started = started
        self.kept = None
        self.generators = [5, 5]
        own = {
            "is_available": lambda: True,
            "is_initialized": lambda: self.started,
            "device_count": lambda: 2,
            "_is_in_bad_fork": lambda: False,
            "manual_seed_all": self.seed,
            "get_rng_state": lambda device: self.start()[device],
            "set_rng_state": self.set_one,
            "get_rng_state_all": lambda: list(self.start()),
            "set_rng_state_all": lambda states: self.start().__setitem__(slice(None), states),
        }
        for name, function in own.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def start(self):
        if not self.started:
            self.started = True
            self.seed(self.kept)
        return self.generators

    def seed(self, seed):
        self.kept = seed
        if self.started:
            self.generators[:] = [seed, seed]

    def set_one(self, state, device):
        self.start()[device] = state


def test_isolated_does_not_start_cuda(monkeypatch):
    cuda = Cuda(monkeypatch, started=False)
    with isolated(3):
        states = random_states()
        set_random_states({**states, "cuda": [1, 2]})
    assert states["cuda"] == []
    assert not cuda.started


def test_cuda_that_starts_inside_is_seeded_there_and_afterwards_as_before(monkeypatch):
    cuda = Cuda(monkeypatch, started=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        with isolated(3):
            assert cuda.start() == [3, 3]
            with isolated(4):
                assert cuda.generators == [4, 4]
            assert cuda.generators == [3, 3]
        assert cuda.generators == [11, 11]


def test_a_later_start_of_cuda_takes_the_seed_from_before(monkeypatch):
    cuda = Cuda(monkeypatch, started=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        with isolated(3), isolated(4):
            pass
        assert cuda.start() == [11, 11]


@pytest.mark.parametrize("error", [False, True])
def test_generators_of_a_started_cuda_are_restored(monkeypatch, error):
    cuda = Cuda(monkeypatch, started=True)
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
