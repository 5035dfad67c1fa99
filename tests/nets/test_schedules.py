from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sklearn_spt.nets._schedules import n_batches, right_trapezoidal, slanted

modest = settings(deadline=None, max_examples=80)


@pytest.mark.parametrize("n_steps", [1, 2, 30, 101])
def test_slanted_is_the_linear_schedule_of_torch(n_steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=n_steps, power=1.0)
    for step in range(n_steps):
        assert slanted(step, n_steps) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        scheduler.step()


def test_golden_numbers():
    multipliers = [slanted(step, 5) for step in range(7)]
    assert_allclose(multipliers, [1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0], atol=1e-15)
    rates = [5e-5 * right_trapezoidal(step, 4, 5) for step in range(9)]
    assert_allclose(rates, [5e-5, 5e-5, 5e-5, 5e-5, 5e-5, 4e-5, 3e-5, 2e-5, 1e-5], rtol=1e-6)


@modest
@given(st.integers(0, 200), st.integers(1, 200))
def test_right_trapezoidal_is_piecewise_linear(n_constant, n_decay):
    steps = np.arange(n_constant + n_decay + 1)
    expected = np.interp(steps, [0, n_constant, n_constant + n_decay], [1, 1, 0])
    multipliers = [right_trapezoidal(int(step), n_constant, n_decay) for step in steps]
    assert_allclose(multipliers, expected, atol=1e-12)
    assert sum(multipliers[n_constant:]) == pytest.approx((n_decay + 1) / 2)
    assert multipliers[n_constant] == 1.0
    assert multipliers[-2] == pytest.approx(1 / n_decay)  # the last step is never zero


def test_second_stage_is_slanted():
    for step in range(8):
        assert right_trapezoidal(6 + step, 6, 7) == slanted(step, 7)
        assert right_trapezoidal(step, 0, 7) == slanted(step, 7)


def test_a_stage_without_steps():
    assert [right_trapezoidal(step, 3, 0) for step in range(5)] == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert right_trapezoidal(0, 0, 0) == 0.0


@pytest.mark.parametrize("n_samples", [1, 31, 32, 33, 64, 300, 2**53 + 1])
def test_n_batches_is_the_length_of_a_data_loader(n_samples):
    assert n_batches(n_samples, 32) == len(torch.utils.data.DataLoader(range(n_samples), 32))
