"""Training of one net: fresh copies, epochs of drawn rows, logits.

`BertClassifier` and all methods train their nets through these functions, so that a supervised fit
is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping, EpochScoring, PassthroughScoring
from skorch.dataset import get_len
from skorch.utils import get_dim, multi_indexing, to_numpy
from torch.utils.data import DataLoader

from sklearn_spt._progress import Progress
from sklearn_spt._random import epoch_rows, isolated
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt._validation import n_rows
from sklearn_spt.nets._callbacks import BatchProgress, ScheduledLR, steps_per_epoch
from sklearn_spt.nets._losses import DistillationLoss
from sklearn_spt.nets._parts import optimizers
from sklearn_spt.nets._protocol import prepared

#: Whether a step of torch's Adam is part of a CUDA graph; it asks the device.
_ASKS = "_accelerator_graph_capture_health_check"


@contextmanager
def quiet(net: NeuralNet) -> Iterator[None]:
    """Set ``verbose=0`` inside the block."""
    verbose = net.verbose
    net.verbose = 0
    try:
        yield
    finally:
        net.verbose = verbose


def fresh_net(template: NeuralNet, classes: AnyArray, max_epochs: int) -> NeuralNet:
    """Return an initialised clone of `template` with the settings of the method."""
    net = clone(template)
    params: dict[str, Any] = {
        "train_split": None,  # skorch would hold out a fifth of the rows
        "criterion": DistillationLoss,
        "criterion__lam": 0.0,
        "criterion__temperature": 1.0,
        "max_epochs": max_epochs,
    }
    if "classes" in net.get_params(deep=False):
        params["classes"] = classes.tolist()
    net.set_params(**params)
    with quiet(net):
        net.initialize()
    return net


def start_head(
    net: NeuralNet,
    X: Any,
    codes: IntArray,
    weights: FloatArray | None = None,
    *,
    balanced: bool,
    known: Any = None,
) -> Any:
    """Call `PreparedNet.start_head` without a change to the random stream of the training."""
    with isolated():
        return prepared(net).start_head(X, codes, weights, balanced=balanced, known=known)


def set_loss(
    net: NeuralNet,
    *,
    lam: float,
    temperature: float,
    max_epochs: int,
    keep_optimizer: bool = False,
) -> None:
    """Set λ and T of the criterion for the next stage; the module keeps its weights."""
    # skorch builds a new optimiser when the criterion changes, as the paper's code does
    states = {name: optimizer.state_dict() for name, optimizer in optimizers(net).items()}
    with quiet(net):
        net.set_params(
            criterion__lam=lam, criterion__temperature=temperature, max_epochs=max_epochs
        )
    if keep_optimizer:
        for name, optimizer in optimizers(net).items():
            optimizer.load_state_dict(states[name])
    for _, callback in net.callbacks_:
        if isinstance(callback, PassthroughScoring | EpochScoring):
            callback.initialize()  # the best loss so far is one of another criterion


def release_optimizer(net: NeuralNet) -> None:
    """Free the state of the optimiser after the last training step."""
    release_gradients(net)
    for optimizer in optimizers(net).values():
        optimizer.state.clear()


def release_gradients(net: NeuralNet) -> None:
    """Free the gradients, which are as large as the weights."""
    for optimizer in optimizers(net).values():
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = None


@contextmanager
def without_accelerator(net: NeuralNet) -> Iterator[None]:
    """Keep the optimisers of a net on the CPU from asking for the stream of an accelerator.

    To ask starts CUDA, which takes memory and time in each process, and breaks forks.
    """
    held = [
        optimizer
        for optimizer in optimizers(net).values()
        if all(w.device.type == "cpu" for group in optimizer.param_groups for w in group["params"])
        and hasattr(optimizer, _ASKS)
    ]
    for optimizer in held:
        setattr(optimizer, _ASKS, _ask_nothing)
    try:
        yield
    finally:
        for optimizer in held:
            vars(optimizer).pop(_ASKS, None)


def _ask_nothing() -> None:
    """Stand in for the question; not a lambda, so that a callback can pickle the net."""


def n_steps(net: NeuralNet, X: Any, targets: AnyArray, epochs: int) -> int:
    """Count the optimiser steps of a training run with the net's iterator; an epoch needs one."""
    per_epoch = steps_per_epoch(net, X, targets)
    if per_epoch == 0:
        raise ValueError(
            f"the net's iterator yields no batch from {len(targets)} rows "
            f"(batch_size={net.batch_size}); set iterator_train__drop_last=False or a smaller "
            "batch_size."
        )
    return epochs * per_epoch


def train(
    net: NeuralNet,
    X: Any,
    targets: AnyArray,
    codes: IntArray,
    *,
    epochs: int,
    schedule: ScheduledLR,
    balanced: bool,
    rng: np.random.Generator,
    progress: Progress,
    augment: Callable[[Any], Any] | None = None,
    on_epoch: Callable[[NeuralNet, int], bool] | None = None,
    keep_optimizer: bool = True,
) -> list[float]:
    """Train `net` for some more epochs and return the mean training loss of each.

    `targets` go to the criterion, and `codes` hold the classes for balanced draws. The step counter
    of `schedule` continues. `augment` changes the rows that are drawn for an epoch.
    ``on_epoch(net, epoch)`` ends the training by returning True.
    """
    losses: list[float] = []
    own = net.callbacks_
    net.callbacks_ = [
        *own,
        ("learning_rate", schedule),
        ("progress", BatchProgress(progress).initialize()),
    ]
    try:
        with quiet(net):
            net.notify("on_train_begin", X=X, y=targets)
            with prepared(net).training_run(X), without_accelerator(net):
                for _ in range(epochs):
                    rows = epoch_rows(codes, balanced, rng)
                    part = multi_indexing(X, rows)
                    if augment is not None:
                        part = augment(part)
                    epoch = partial(net.fit_loop, part, targets[rows], epochs=1)
                    stopped = ends_early(net, epoch)
                    losses.append(epoch_loss(net))
                    if not np.isfinite(losses[-1]):
                        raise ValueError(
                            f"the training loss became {losses[-1]} in epoch {len(losses)}; lower "
                            f"the learning rate (lr={net.lr}), or look for NaN in the input."
                        )
                    if on_epoch is not None:
                        with isolated():
                            stopped = on_epoch(net, len(losses)) or stopped
                    if stopped:
                        break
                if not keep_optimizer:
                    release_optimizer(net)
            if losses:  # callbacks look at the last epoch
                net.notify("on_train_end", X=X, y=targets)
    finally:
        net.callbacks_ = own
        schedule.restore(net)
        release_gradients(net)
    return losses


def ends_early(net: NeuralNet, end_of_epoch: Callable[[], object]) -> bool:
    """Call a function that may end the training; return True if EarlyStopping of skorch did."""
    try:
        end_of_epoch()
    except KeyboardInterrupt:
        for _, callback in net.callbacks_:  # Ctrl-C raises it with patience left
            if isinstance(callback, EarlyStopping) and callback.misses_ == callback.patience:
                return True
        raise
    return False


def epoch_loss(net: NeuralNet) -> float:
    """Return the mean training loss of the last epoch."""
    batches = net.history[-1]["batches"]
    sizes = np.array([b["train_batch_size"] for b in batches], dtype=float)
    losses = np.array([b["train_loss"] for b in batches], dtype=float)
    return float((losses * sizes).sum() / sizes.sum())


def predict_logits(
    net: NeuralNet, X: Any, n_classes: int, advance: Callable[[int], object] | None = None
) -> FloatArray:
    """Return logits of shape (n, n_classes) in evaluation mode; check their shape and values.

    `advance` is called with the number of rows of each finished batch.
    """
    left = get_len(X) if isinstance(X, tuple) else n_rows(X, "X")

    def count(n: int) -> None:
        nonlocal left
        if advance is not None and left:
            n = min(n, left)
            left -= n
            advance(n)

    view = _view(net, count)
    try:
        out = view.forward(X)
    finally:
        vars(view).clear()  # it holds itself, and the weights
    count(left)  # of a net that has no batches
    logits = to_numpy(out[0] if isinstance(out, tuple) else out).astype(np.float64)
    if get_dim(logits) != 2 or logits.shape[1] != n_classes:
        raise ValueError(
            f"the net's module must return logits of shape (n, {n_classes}), one column for each "
            f"class, but returned shape {logits.shape}; give its last layer {n_classes} outputs."
        )
    bad = ~np.isfinite(logits).all(axis=1)
    if bad.any():
        raise ValueError(
            f"the net's module returned NaN or infinite logits for {int(bad.sum())} of "
            f"{len(logits)} rows (first: row {int(np.flatnonzero(bad)[0])}); lower the learning "
            "rate, or look for NaN in the input."
        )
    return logits


def _view(net: NeuralNet, count: Callable[[int], None]) -> NeuralNet:
    """Return a view of the net that counts the rows of its batches.

    Its DataLoader draws no number from torch's global generator.
    """
    # The net itself stays as it is, so that several threads can predict.
    view = object.__new__(type(net))
    own = vars(view)
    own.update(vars(net))
    if isinstance(net.iterator_valid, type) and issubclass(net.iterator_valid, DataLoader):
        # a DataLoader draws the seed of its workers, even if it has none
        own.setdefault("iterator_valid__generator", torch.Generator())
    step = view.evaluation_step

    def counted(batch: Any, *args: Any, **kwargs: Any) -> Any:
        out = step(batch, *args, **kwargs)
        with suppress(TypeError, ValueError):  # of a batch without rows that can be counted
            count(get_len(batch[0] if isinstance(batch, tuple | list) else batch))
        return out

    own["evaluation_step"] = counted
    return view


def check_outputs(net: NeuralNet, X: Any, n_classes: int) -> None:
    """Check that an untrained net returns finite logits of the right shape, not probabilities."""
    logits = predict_logits(net, X, n_classes)
    if (logits >= 0).all() and np.allclose(logits.sum(axis=1), 1.0, atol=1e-5):
        raise ValueError(
            f"the net's module {type(net.module_).__name__} returns probabilities (rows without "
            "negative values that sum to 1), but logits are needed; remove its final softmax."
        )
