"""Learning-rate schedules as pure functions of the step.

A schedule returns the multiplier of each parameter group's own initial rate, so that groups keep
their ratio. Steps count optimiser steps from 0.
"""

from __future__ import annotations


def slanted(step: int, n_steps: int) -> float:
    """Fall in a straight line from 1 to 0, without warm-up, as in the authors' code.

    Steps count from 0. The multiplier is ``1 - step / n_steps``: ``1 / n_steps`` at the last step,
    and 0 from `n_steps` on.
    """
    _check_counts(step=step, n_steps=n_steps)
    return 0.0 if step >= n_steps else 1.0 - step / n_steps


def right_trapezoidal(step: int, n_constant: int, n_decay: int) -> float:
    """Stay constant on pseudo-labelled documents, then fall in a line to 0 on labelled ones.

    Parameters
    ----------
    step : int
        Optimiser step, counted through both stages from 0. From ``n_constant + n_decay`` on the
        multiplier is 0.
    n_constant : int
        Steps of the pre-training stage.
    n_decay : int
        Steps of the fine-tuning stage, all its epochs together.

    Returns
    -------
    multiplier : float
        1 up to and including step `n_constant`, then falling by ``1 / n_decay`` a step; the last
        step has ``1 / n_decay``, never exactly 0.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, "Learning rate".
    """
    _check_counts(step=step, n_constant=n_constant, n_decay=n_decay)
    if step < n_constant:
        return 1.0
    if step >= n_constant + n_decay:
        return 0.0
    return 1.0 - (step - n_constant) / n_decay


def n_batches(n_samples: int, batch_size: int, drop_last: bool = False) -> int:
    """Count the optimiser steps in one epoch.

    Parameters
    ----------
    n_samples : int
        Number of documents.
    batch_size : int
        Documents per batch, at least 1.
    drop_last : bool, default=False
        Whether an incomplete last batch is left out. If so, fewer documents than one batch give 0,
        as in a ``torch.utils.data.DataLoader``.

    Returns
    -------
    n_batches : int
        ``n_samples / batch_size``, rounded up, or down with `drop_last`.
    """
    _check_counts(n_samples=n_samples)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size!r}.")
    return n_samples // batch_size if drop_last else -(-n_samples // batch_size)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name} must not be negative, got {count!r}.")
