"""Seeds that derive from one, torch's generators, and draws of rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sklearn_spt._data import share_of
from sklearn_spt._random import derive_seed, seeded, set_torch_state, torch_state
from sklearn_spt._training import epoch_rows


# -- seeds -----------------------------------------------------------------------------------------
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


@given(st.integers(1, 100), st.integers(1, 10_000))
def test_shares_of_counts(percent, n):
    assert share_of(percent / 100, n) == percent * n // 100
    assert share_of(percent / 100, n, up=True) == -(-percent * n // 100)
