"""Callbacks for learning rates and progress bars."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skorch.callbacks import (
    BatchScoring,
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LRScheduler,
)

from sklearn_spt._progress import Progress
from sklearn_spt._validation import check_integer
from sklearn_spt.nets._parts import optimizers
from sklearn_spt.nets._schedules import n_batches, right_trapezoidal


class ScheduledLR(Callback):
    """Before each training step, multiply every group's initial rate by ``multiplier(step)``."""

    # Unlike skorch's LRScheduler, which restarts at each partial_fit, one schedule may span several
    # runs and a new optimiser.

    def __init__(self, multiplier: Callable[[int], float]) -> None:
        self.multiplier = multiplier

    def initialize(self) -> ScheduledLR:
        """Forget earlier runs: an initialised net starts at step 0."""
        self.step_ = 0
        self.base_: dict[str, list[float]] = {}
        return self

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Remember the initial rates, once."""
        if not self.base_:
            self.base_ = {
                name: [group["lr"] for group in optimizer.param_groups]
                for name, optimizer in optimizers(net).items()
            }

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Set the rates of the step that begins."""
        if not training:
            return
        self._set_rates(net, self._factor(self.step_))
        self.step_ += 1

    def _factor(self, step: int) -> float:
        return self.multiplier(step)

    def restore(self, net: Any) -> None:
        """Set every group back to its initial rate, so that a later run starts there."""
        self._set_rates(net, 1.0)

    def _set_rates(self, net: Any, factor: float) -> None:
        of_net = optimizers(net)
        for name, rates in self.base_.items():
            for group, rate in zip(of_net[name].param_groups, rates, strict=True):
                group["lr"] = rate * factor


def check_callbacks(net: Any, owner: str) -> None:
    """Refuse callbacks that set the learning rate, or need validation data or hard labels."""
    for entry in net.callbacks if isinstance(net.callbacks, list | tuple) else []:
        callback = entry[1] if isinstance(entry, tuple) else entry
        kind = callback if isinstance(callback, type) else type(callback)
        prefix = f"callbacks__{entry[0] if isinstance(entry, tuple) else kind.__name__}__"
        if issubclass(kind, LRScheduler | ScheduledLR):
            raise ValueError(
                f"{owner} has a learning-rate schedule of its own, {kind.__name__}, but the method "
                "already sets the learning rate; remove this callback."
            )
        if not issubclass(kind, EarlyStopping | Checkpoint | EpochScoring | BatchScoring):
            continue
        given = {} if isinstance(callback, type) else vars(callback)
        defaults = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
        own = {k.removeprefix(prefix): v for k, v in vars(net).items() if k.startswith(prefix)}
        _check_monitored(kind, {**defaults, **given, **own}, f"{owner} has the callback")


def _check_monitored(kind: type, params: dict[str, Any], start: str) -> None:
    """Raise an error if a callback with these parameters needs what no training has."""
    without = "but nets are trained without validation data"
    monitor = params.get("monitor")
    if isinstance(monitor, str) and monitor.startswith("valid"):
        instead = "train_loss_best" if monitor.endswith("_best") else "train_loss"
        raise ValueError(
            f"{start} {kind.__name__}(monitor={monitor!r}), {without}; use monitor={instead!r}, or "
            "hold rows out with validation_fraction= of SelfPretrainingClassifier."
        )
    if params.get("on_train") is False:
        raise ValueError(
            f"{start} {kind.__name__}(on_train=False), {without}; use on_iteration= or "
            "validation_fraction= of SelfPretrainingClassifier, or cross_validate of scikit-learn."
        )
    if "scoring" in params and not callable(params["scoring"]):
        raise ValueError(
            f"{start} {kind.__name__}(scoring={params['scoring']!r}), which needs hard labels, but "
            "the targets of a training batch are distributions; pass a function "
            "scoring(net, X, y), or use on_iteration= of SelfPretrainingClassifier."
        )


class RightTrapezoidalLR(ScheduledLR):
    """Right-trapezoidal learning rate: constant at first, then a straight line to zero.

    Self-Pretraining keeps the rate constant while a student learns from pseudo-labels and lowers it
    while the student learns from true labels. The callback scales the initial rate of each
    parameter group, and works in any skorch net.

    Parameters
    ----------
    n_constant : int, default=0
        Optimiser steps with the full rate. 0 gives the slanted schedule of fine-tuning.
    n_decay : int or None, default=None
        Optimiser steps over which the rate falls; the last of them has 1/n_decay of the full rate.
        None takes the rest of ``max_epochs`` epochs after `n_constant` steps. A ``partial_fit``
        continues the schedule, and after its end the rate is 0.

    Attributes
    ----------
    step_ : int
        Steps taken so far.
    n_decay_ : int
        Resolved value of `n_decay`.

    References
    ----------
    .. [1] Karisani & Karisani, "Semi-Supervised Text Classification via Self-Pretraining",
       WSDM 2021, section 3 (right-trapezoidal learning rate).

    Examples
    --------
    >>> from sklearn_spt import RightTrapezoidalLR
    >>> callback = RightTrapezoidalLR(n_constant=4, n_decay=5)
    """

    def __init__(self, n_constant: int = 0, n_decay: int | None = None) -> None:
        self.n_constant = n_constant
        self.n_decay = n_decay

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Fix the length of the decay and remember the initial rates."""
        check_integer(self.n_constant, "n_constant", low=0)
        check_integer(self.n_decay, "n_decay", low=1, allow_none=True)
        super().on_train_begin(net, X=X, y=y, **kwargs)
        if self.n_decay is None:
            steps = net.max_epochs * steps_per_epoch(net, X, y)
            self.n_decay_ = max(steps - self.n_constant, 1)
        else:
            self.n_decay_ = self.n_decay

    def _factor(self, step: int) -> float:
        return right_trapezoidal(step, self.n_constant, self.n_decay_)


def steps_per_epoch(net: Any, X: Any, y: Any) -> int:
    """Optimiser steps that `net` takes in one epoch over the given data."""
    dataset, _ = net.get_split_datasets(X, y)
    iterator = net.get_iterator(dataset, training=True)
    try:
        return len(iterator)
    except TypeError:  # a custom iterator without a length
        n = len(dataset)
        return n_batches(n, n if net.batch_size == -1 else net.batch_size)  # -1: all rows


class BatchProgress(Callback):
    """Advance a progress bar by the size of each training batch."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Count the texts of the batch that ended."""
        if training:
            self.progress.advance(net.history[-1, "batches", -1, "train_batch_size"])
