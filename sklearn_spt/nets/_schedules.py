"""Learning-rate schedules as pure functions of the optimiser step, counted from 0.

A schedule returns the multiplier of a parameter group's initial rate, so that groups keep their
ratio.
"""

from __future__ import annotations


def slanted(step: int, n_steps: int) -> float:
    """Fall in a straight line from 1 to 0 over `n_steps`, as in the authors' code."""
    return 0.0 if step >= n_steps else 1.0 - step / n_steps


def right_trapezoidal(step: int, n_constant: int, n_decay: int) -> float:
    """Stay at 1 for `n_constant` steps, then fall in a straight line to 0 over `n_decay` steps."""
    return 1.0 if step < n_constant else slanted(step - n_constant, n_decay)


def n_batches(n_samples: int, batch_size: int) -> int:
    """Count the optimiser steps in one epoch, an incomplete last batch included."""
    return -(-n_samples // batch_size)
