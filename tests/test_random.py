"""Seeds that derive from one, torch's generators, and draws of rows."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from sklearn_spt._data import share_of
from sklearn_spt._random import (
    derive_seed,
    generator,
    root_seed,
    seeded,
    set_torch_state,
    torch_state,
)
from sklearn_spt._training import epoch_rows


# -- seeds -----------------------------------------------------------------------------------------
def test_seeds_stay_the_same_over_versions():
    seeds = [derive_seed(0), derive_seed(0, 0), derive_seed(np.int64(42), 1, np.int32(2))]
    sequences = [
        np.random.SeedSequence(0),
        np.random.SeedSequence(0).spawn(1)[0],
        np.random.SeedSequence(42).spawn(2)[1].spawn(3)[2],
    ]
    assert seeds == [int(s.generate_state(1)[0]) // 2 for s in sequences]
    assert seeds == [1484405855, 1878776328, 2003573811]


def test_different_paths_have_different_seeds():
    paths = [(), *((i,) for i in range(30)), *((i, j) for i in range(30) for j in range(30))]
    seeds = [derive_seed(root, *path) for root in range(3) for path in paths]
    assert len({*seeds}) == 3 * len(paths)
    assert kstest(np.array(seeds) / 2**31, "uniform").pvalue > 0.01


def test_root_seed(global_random_state_unchanged):
    assert root_seed(7) == root_seed(np.int64(7)) == 7
    state = np.random.RandomState(0)
    assert root_seed(state) != root_seed(state)  # as in scikit-learn, it is drawn from
    assert root_seed(np.random.RandomState(0)) == root_seed(np.random.RandomState(0))
    assert 0 <= root_seed(None) != root_seed(None)
    with pytest.raises(ValueError, match="cannot be used to seed"):
        root_seed("seed")


# -- torch's generators ----------------------------------------------------------------------------
def test_a_block_has_its_seed_and_leaves_no_trace(global_random_state_unchanged):
    def draw():
        with seeded(5, 1):
            first = torch.rand(1).item()
            with seeded(6):
                torch.rand(9)
            return first, torch.rand(1).item()

    assert draw() == draw()
    with pytest.raises(RuntimeError, match="shape"), seeded(1):
        torch.rand(2) @ torch.rand(3).reshape(3, 1)


def test_a_stream_goes_on():
    with seeded(3):
        torch.rand(4)
        state = torch_state()
        expected = torch.rand(5)
    with seeded(9):
        set_torch_state(state)
        assert torch.equal(torch.rand(5), expected)


@pytest.mark.parametrize("started", [False, True])
def test_cuda_is_not_started(monkeypatch, started):
    """Its generators are saved and restored only where it has started."""
    states, seen = [torch.tensor([8]), torch.tensor([9])], []

    def get(device):
        seen.append(device)
        return states[device if isinstance(device, int) else device.index]

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: started)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", get)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    restored = []
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: restored.append(state))
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", restored.extend)
    with seeded(3):
        inside = torch_state()
        set_torch_state([inside[0], states])
    assert len(seen) == 2 * started
    assert inside[1] == (states if started else [])
    assert restored == (states * 2 if started else [])


@pytest.mark.parametrize(
    ("built_for", "n_devices", "locks"),
    [(None, 0, False), ("cuda", 0, False), ("cuda", 1, True), ("mps", 0, True)],
)
def test_without_a_device_no_lock_is_taken(monkeypatch, built_for, n_devices, locks):
    """A fork copies the locks of torch.cuda as they are, also one that another thread holds."""
    device, seeds = built_for and torch.device(built_for), []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    with seeded(3):
        first = torch.rand(3)
    assert seeds == locks * [derive_seed(3)]
    expected = torch.rand(3, generator=torch.Generator().manual_seed(derive_seed(3)))
    assert locks or torch.equal(first, expected)


# -- draws -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "codes", [[0] * 9 + [1], [1, 0, 1, 1, 0, 1, 1, 1], [5, 2, 2, 5, 5, 9, 2, 2, 2], [3, 3, 3]]
)
def test_balanced_draws_are_uniform_over_classes_and_rows(codes):
    """A row of a class with n_c of all rows has the probability 1 / (K n_c)."""
    rng, codes = np.random.default_rng(0), np.array(codes)
    rows = np.concatenate([epoch_rows(codes, True, rng) for _ in range(20_000 // len(codes))])
    expected = [1 / (len({*codes.tolist()}) * (codes == c).sum()) for c in codes]
    counts = np.bincount(rows, minlength=len(codes))
    assert chisquare(counts, len(rows) * np.array(expected)).pvalue > 0.01
    pairs = np.bincount(codes[rows[:-1]] * 10 + codes[rows[1:]], minlength=100)
    if len({*codes.tolist()}) > 1:  # one draw does not depend on the last
        assert chisquare(pairs[pairs > 0]).pvalue > 0.001


@given(hnp.arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 6)), st.booleans())
def test_an_epoch_is_as_long_as_the_data(codes, balanced):
    rows, same = (epoch_rows(codes, balanced, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(rows, same)
    assert rows.shape == codes.shape
    assert np.isin(rows, np.arange(len(codes))).all()
    if not balanced:
        assert len({*rows.tolist()}) == len(codes)


def test_each_of_many_rows_can_be_drawn():
    codes = np.zeros(100_000, dtype=np.int64)
    codes[:3] = 1
    rows = epoch_rows(codes, True, generator(0, 1))
    assert abs((rows < 3).mean() - 0.5) < 0.01
    # half a draw for each row of the large class: 1 - exp(-1/2) of them are drawn
    assert abs(len(np.unique(rows)) / 1e5 - 1 + np.exp(-0.5)) < 0.01


@given(st.integers(1, 100), st.integers(1, 10_000))
def test_shares_of_counts(percent, n):
    assert share_of(percent / 100, n) == percent * n // 100
    assert share_of(percent / 100, n, up=True) == -(-percent * n // 100)
