from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sklearn_spt.nets._schedules import n_batches, right_trapezoidal, slanted

modest = settings(deadline=None, max_examples=80)


def rates_of(scheduler_class, n_steps, **kwargs):
    """Learning rates that one of torch's schedulers gives to the steps of a run."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = scheduler_class(optimizer, **kwargs)
    rates = []
    for _ in range(n_steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


class TestSlanted:
    def test_expected_multipliers(self):
        multipliers = [slanted(step, 5) for step in range(7)]
        assert_allclose(multipliers, [1.0, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0], atol=1e-15)

    @pytest.mark.parametrize("n_steps", [1, 2, 30, 101])
    def test_is_the_line_of_torch(self, n_steps):
        expected = rates_of(
            torch.optim.lr_scheduler.PolynomialLR, n_steps, total_iters=n_steps, power=1.0
        )
        assert_allclose([slanted(step, n_steps) for step in range(n_steps)], expected, atol=1e-12)

    def test_last_step_is_never_zero(self):
        assert slanted(29, 30) == pytest.approx(1 / 30)

    @modest
    @given(st.integers(1, 300))
    def test_is_linear(self, n_steps):
        steps = np.arange(n_steps + 1)
        multipliers = [slanted(int(step), n_steps) for step in steps]
        assert_allclose(multipliers, np.interp(steps, [0, n_steps], [1, 0]), atol=1e-12)

    def test_rejects_negative_counts(self):
        with pytest.raises(ValueError, match="step must not be negative, got -1"):
            slanted(-1, 10)
        with pytest.raises(ValueError, match="n_steps must not be negative, got -10"):
            slanted(0, -10)


class TestRightTrapezoidal:
    def test_golden(self):
        rates = [5e-5 * right_trapezoidal(step, 4, 5) for step in range(9)]
        assert_allclose(rates, [5e-5, 5e-5, 5e-5, 5e-5, 5e-5, 4e-5, 3e-5, 2e-5, 1e-5], rtol=1e-6)

    @modest
    @given(st.integers(0, 200), st.integers(1, 200))
    def test_is_piecewise_linear(self, n_constant, n_decay):
        steps = np.arange(n_constant + n_decay + 1)
        expected = np.interp(steps, [0, n_constant, n_constant + n_decay], [1, 1, 0])
        multipliers = [right_trapezoidal(int(step), n_constant, n_decay) for step in steps]
        assert_allclose(multipliers, expected, atol=1e-12)

    @modest
    @given(st.integers(0, 200), st.integers(1, 200))
    def test_sum_seam_and_last_step(self, n_constant, n_decay):
        decay = [right_trapezoidal(n_constant + i, n_constant, n_decay) for i in range(n_decay)]
        assert sum(decay) == pytest.approx((n_decay + 1) / 2)
        assert decay[0] == 1.0
        assert decay[-1] == pytest.approx(1 / n_decay)

    def test_second_stage_is_slanted(self):
        for step in range(8):
            assert right_trapezoidal(6 + step, 6, 7) == slanted(step, 7)
            assert right_trapezoidal(step, 0, 7) == slanted(step, 7)

    def test_a_stage_without_steps(self):
        assert [right_trapezoidal(step, 3, 0) for step in range(5)] == [1.0, 1.0, 1.0, 0.0, 0.0]
        assert right_trapezoidal(0, 0, 0) == 0.0

    @pytest.mark.parametrize(
        ("arguments", "name"),
        [((-1, 2, 2), "step"), ((0, -1, 2), "n_constant"), ((0, 2, -1), "n_decay")],
    )
    def test_rejects_negative_counts(self, arguments, name):
        with pytest.raises(ValueError, match=f"^{name} must not be negative"):
            right_trapezoidal(*arguments)


class TestNBatches:
    @pytest.mark.parametrize("drop_last", [False, True])
    @pytest.mark.parametrize("n_samples", [1, 31, 32, 33, 64, 300])
    def test_is_the_length_of_a_data_loader(self, n_samples, drop_last):
        loader = torch.utils.data.DataLoader(range(n_samples), batch_size=32, drop_last=drop_last)
        assert n_batches(n_samples, 32, drop_last) == len(loader)

    @modest
    @given(st.integers(0, 10**12), st.integers(1, 10**6))
    def test_rounds_up_or_down(self, n_samples, batch_size):
        full, rest = divmod(n_samples, batch_size)
        assert n_batches(n_samples, batch_size) == full + (rest > 0)
        assert n_batches(n_samples, batch_size, drop_last=True) == full

    def test_needs_no_floating_point(self):
        n = 2**53 + 1
        assert n_batches(n, 1) == n != math.ceil(n / 1)

    def test_rejects_impossible_counts(self):
        with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
            n_batches(10, 0)
        with pytest.raises(ValueError, match="n_samples must not be negative, got -1"):
            n_batches(-1, 32)
