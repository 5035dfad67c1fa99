"""Training one net: seeds, fresh copies, epochs of drawn rows, logits.

Nothing here knows a method; every method trains its nets through these functions, and
`BertClassifier` does too, so that a supervised fit is the same wherever it happens.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from skorch import NeuralNet
from skorch.utils import get_dim, multi_indexing, to_numpy

from sklearn_spt._progress import Progress
from sklearn_spt._random import isolated
from sklearn_spt._sampling import epoch_rows
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt.nets._callbacks import BatchProgress, ScheduledLR, steps_per_epoch
from sklearn_spt.nets._losses import DistillationLoss


@contextmanager
def quiet(net: NeuralNet) -> Iterator[None]:
    """Let the net print nothing inside the block, whatever its ``verbose`` says."""
    verbose = net.verbose
    net.verbose = 0
    try:
        yield
    finally:
        net.verbose = verbose


# ---------------------------------------------------------------------------------------------
# Nets
# ---------------------------------------------------------------------------------------------
def fresh_net(template: NeuralNet, classes: AnyArray, max_epochs: int) -> NeuralNet:
    """Clone `template`, prepare and initialise the clone; the template stays as it is.

    Set are ``train_split`` (skorch would hold out a fifth of the rows), the criterion,
    ``max_epochs`` and, where the net knows it, ``classes``; everything else is the user's.
    """
    net = clone(template)
    params: dict[str, Any] = {
        "train_split": None,
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
    """Let a fresh net start its last layer from the rows to train on, if it can.

    What it returns may be given to another net as `known`, so as to save the work. Whatever is
    drawn at random does not shift the random stream.
    """
    start = getattr(net, "start_head", None)
    if start is None:
        return None
    with isolated():
        return start(X, codes, weights, balanced=balanced, known=known)


def set_loss(
    net: NeuralNet,
    *,
    lam: float | None,
    temperature: float,
    max_epochs: int,
    reset_optimizer: bool = True,
) -> None:
    """Turn to another stage: new weights of the loss; the module's weights stay.

    skorch builds a new optimiser whenever the criterion changes. That is what the released code
    of the paper does at the seam of its two stages; with ``reset_optimizer=False`` the moments
    are carried over.
    """
    names = net._optimizers
    states = {name: getattr(net, name + "_").state_dict() for name in names}
    with quiet(net):
        net.set_params(
            criterion__lam=lam, criterion__temperature=temperature, max_epochs=max_epochs
        )
    if not reset_optimizer:
        for name in names:
            getattr(net, name + "_").load_state_dict(states[name])


def release_optimizer(net: NeuralNet) -> None:
    """Free the moments of a net that will not be trained on (twice the size of its weights)."""
    for name in net._optimizers:
        getattr(net, name + "_").state.clear()


def n_steps(net: NeuralNet, X: Any, targets: AnyArray, epochs: int) -> int:
    """Optimiser steps of a training run, by the net's own iterator.

    Raises
    ------
    ValueError
        If an epoch would have no step at all (``drop_last`` on less than one batch).
    """
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
    on_epoch: Callable[[NeuralNet, int], bool] | None = None,
    keep_optimizer: bool = True,
) -> list[float]:
    """Continue `net` for some epochs and return the mean training loss of each.

    Each epoch draws its rows anew: class-balanced with replacement, or a shuffle.

    Parameters
    ----------
    net : NeuralNet
        Initialised; trained in place.
    X : indexable of length n
        Whatever the net takes.
    targets : ndarray with n rows
        What the criterion takes.
    codes : ndarray of shape (n,)
        Class of each row, for balanced draws.
    epochs : int
        Passes over the data; 0 trains nothing.
    schedule : ScheduledLR
        Learning rates; its step counter goes on where it stood.
    balanced : bool
        Whether every class is drawn equally often.
    rng : numpy.random.Generator
        Draws the rows.
    progress : Progress
        Is advanced by the texts trained on.
    on_epoch : callable or None
        Called as ``on_epoch(net, epoch)`` after each epoch, counted from 1; True ends the training.
        What it draws does not shift the random stream of the training.
    keep_optimizer : bool, default=True
        False frees the optimiser's moments at the end, see `release_optimizer`.
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
            with trained_on(net, X), graphed(net):
                for _ in range(epochs):
                    rows = epoch_rows(codes, balanced, rng)
                    stopped = asked_to_stop(
                        partial(net.fit_loop, select_rows(net, X, rows), targets[rows], epochs=1)
                    )
                    losses.append(_epoch_loss(net))
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
            net.notify("on_train_end", X=X, y=targets)
    finally:
        net.callbacks_ = own
        schedule.restore(net)
    return losses


def select_rows(net: NeuralNet, X: Any, rows: IntArray) -> Any:
    """Documents by their numbers, in a form that the net takes."""
    select = getattr(net, "select_rows", None)
    return multi_indexing(X, rows) if select is None else select(X, rows)


def trained_on(net: NeuralNet, *X: Any) -> AbstractContextManager[None]:
    """Tell a net on which documents it is trained inside the block, if it wants to know."""
    tell = getattr(net, "trained_on", None)
    return nullcontext() if tell is None else tell(*X)


def graphed(net: NeuralNet) -> AbstractContextManager[None]:
    """Let a net run its training steps inside the block as CUDA graphs, if it can and should."""
    run = getattr(net, "graphed", None)
    return nullcontext() if run is None else run()


def asked_to_stop(end_of_epoch: Callable[[], object]) -> bool:
    """Call what ends an epoch; True if a callback of the user's asked to stop.

    skorch's early stopping raises KeyboardInterrupt, as does Ctrl-C: only the former may pass.
    """
    try:
        end_of_epoch()
    except KeyboardInterrupt:
        last = traceback.extract_tb(sys.exc_info()[2])[-1]
        if last.name != "on_epoch_end":
            raise
        return True
    return False


def _epoch_loss(net: NeuralNet) -> float:
    batches = net.history[-1]["batches"]
    sizes = np.array([b["train_batch_size"] for b in batches], dtype=float)
    losses = np.array([b["train_loss"] for b in batches], dtype=float)
    return float((losses * sizes).sum() / sizes.sum())


def predict_logits(net: NeuralNet, X: Any, n_classes: int) -> FloatArray:
    """Logits of shape (n, n_classes) in evaluation mode.

    Raises
    ------
    ValueError
        If the module's output has another shape or is not finite.
    """
    out = net.forward(X)
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


def check_outputs(net: NeuralNet, X: Any, n_classes: int) -> None:
    """Look at the outputs of an untrained net: right shape, finite, no probabilities."""
    logits = predict_logits(net, X, n_classes)
    if (logits >= 0).all() and np.allclose(logits.sum(axis=1), 1.0, atol=1e-5):
        raise ValueError(
            f"the net's module {type(net.module_).__name__} returns probabilities (rows not "
            "negative that sum to 1), but logits are needed; remove the softmax at its end."
        )
