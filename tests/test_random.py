"""Seeds that derive from one."""

from __future__ import annotations

import numpy as np
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt._random import derive_seed


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
