"""Training of one net: the template, fresh clones, epochs of drawn rows, logits.

All methods train their nets through `Trainer`. `train_supervised` is also the fit of
`BertClassifier`, so that supervised training is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping, EpochScoring, LRScheduler, PassthroughScoring
from skorch.dataset import get_len
from skorch.utils import multi_indexing, to_numpy
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

from sklearn_spt._labels import Codes, FloatArray
from sklearn_spt._losses import DistillationLoss, distillation_targets
from sklearn_spt._pretrained import load_encoder
from sklearn_spt._random import generator, seeded


# -- callbacks -------------------------------------------------------------------------------------
@dataclass(eq=False)
class RightTrapezoidalLR(Callback):
    """Right-trapezoidal learning rate: constant at first, then a straight line to zero.

    Self-Pretraining keeps the rate constant while a student learns from pseudo-labels and lowers it
    while the student learns from true labels. The callback scales the initial rate of each
    parameter group, and works in any skorch net. One schedule may span several runs of a net.

    Parameters
    ----------
    n_constant : int >= 0, default=0
        Optimiser steps with the full rate. 0 gives the slanted schedule of fine-tuning.
    n_decay : int >= 1 or None, default=None
        Optimiser steps over which the rate falls; the last of them has 1/n_decay of the full rate,
        and after them it is 0. None takes the rest of ``max_epochs`` epochs after `n_constant`
        steps.

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

    n_constant: int = 0
    n_decay: int | None = None
    step_: int = field(default=0, init=False)

    def initialize(self) -> RightTrapezoidalLR:
        """Start at step 0."""
        self.step_ = 0
        return self

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        """Fix the length of the decay and remember the initial rates."""
        self.base_ = [group["lr"] for group in net.optimizer_.param_groups]
        self.n_decay_: int = self.n_decay or 0
        if self.n_decay is None:  # each run of the net has a schedule of its own
            self.step_, steps = 0, steps_per_epoch(net, net.get_split_datasets(X, y)[0])
            self.n_decay_ = max(net.max_epochs * steps - self.n_constant, 1)

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        """Set the rates of the step that begins."""
        if training:
            fallen = max(self.step_ - self.n_constant, 0) / self.n_decay_
            for group, rate in zip(net.optimizer_.param_groups, self.base_, strict=True):
                group["lr"] = rate * max(1.0 - fallen, 0.0)
            self.step_ += 1

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        """Set the initial rates again, so that a later run starts there."""
        for group, rate in zip(net.optimizer_.param_groups, self.base_, strict=True):
            group["lr"] = rate


@dataclass(eq=False)
class _Bar(Callback):
    """Advances a progress bar by the size of each training batch."""

    bar: tqdm[Any]

    def on_batch_end(self, net: Any, training: bool = False, **kwargs: Any) -> None:
        if training:
            self.bar.update(net.history[-1, "batches", -1, "train_batch_size"])


def steps_per_epoch(net: NeuralNet, X: Any, y: Any = None) -> int:
    """Count the optimiser steps that a net takes in one epoch over the given data."""
    steps = len(net.get_iterator(net.get_dataset(X, y), training=True))
    if steps == 0:
        raise ValueError(
            f"the net's iterator yields no batch from {get_len(X)} rows; set "
            "iterator_train__drop_last=False or a smaller batch_size."
        )
    return steps


# -- the template ----------------------------------------------------------------------------------
def check_template(net: Any, name: str = "estimator") -> None:
    """Raise an error that says what the net of a parameter must be."""
    if not isinstance(net, NeuralNet):
        got = f"the class {net.__name__}" if isinstance(net, type) else f"a {type(net).__name__}"
        raise TypeError(
            f"{name} must be None, the name of an encoder, or an unfitted skorch net whose module "
            f"returns logits; got {got}."
        )
    own = [key for key in net.get_params(deep=False) if key.startswith("criterion__")]
    plain = (torch.nn.NLLLoss, torch.nn.CrossEntropyLoss, DistillationLoss)
    if net.criterion not in plain or (own and net.criterion is not DistillationLoss):
        raise ValueError(
            f"{name} has a criterion of its own ({', '.join(own) or net.criterion}), but the "
            "method sets the loss of each stage; leave it at torch.nn.CrossEntropyLoss. To weight "
            "rows or classes, pass sample_weight to fit."
        )
    for entry in net.callbacks if isinstance(net.callbacks, list | tuple) else ():
        callback = entry[1] if isinstance(entry, tuple) else entry
        kind = callback if isinstance(callback, type) else type(callback)
        if issubclass(kind, LRScheduler | RightTrapezoidalLR):
            raise ValueError(
                f"{name} has the callback {kind.__name__}, but the method sets the learning rate; "
                "remove it."
            )
        monitor = str(getattr(callback, "monitor", "valid_loss" if kind is EarlyStopping else ""))
        scores = issubclass(kind, EpochScoring) and (
            not getattr(callback, "on_train", False) or isinstance(callback.scoring, str)
        )
        if monitor.startswith("valid") or scores:
            raise ValueError(
                f"{name} has the callback {kind.__name__}, which needs validation data or class "
                "labels, but nets learn soft labels of all rows; use monitor='train_loss', or "
                "cross-validation."
            )


def set_loss(net: NeuralNet, lam: float, temperature: float) -> None:
    """Set λ and T of the criterion; skorch makes a new optimiser then, as the paper's code does."""
    net.set_params(criterion__lam=lam, criterion__temperature=temperature)
    for _, callback in net.callbacks_:
        if isinstance(callback, PassthroughScoring | EpochScoring):
            callback.initialize()  # the best loss so far is one of another criterion


# -- training and logits ---------------------------------------------------------------------------
def train(
    net: NeuralNet,
    X: Any,
    targets: NDArray[np.float32],
    codes: Codes,
    *,
    epochs: int,
    balanced: bool,
    rng: np.random.Generator,
    bar: tqdm[Any],
    schedule: RightTrapezoidalLR | None = None,
    augment: Callable[[Any], Any] | None = None,
    on_epoch: Callable[[NeuralNet, int], bool] | None = None,
) -> list[float]:
    """Train a net for some more epochs and return the mean training loss of each.

    `targets` go to the criterion, and `codes` hold the classes for balanced draws. `augment`
    changes the rows that are drawn for an epoch. ``on_epoch(net, epoch)`` ends the training by
    returning True. The step counter of `schedule` continues; None is a slanted learning rate.
    """
    if epochs == 0:
        return []
    schedule = schedule or RightTrapezoidalLR(0, epochs * steps_per_epoch(net, X, targets))
    own, losses = net.callbacks_, []
    net.callbacks_ = [*own, ("learning_rate", schedule), ("bar", _Bar(bar))]
    try:
        net.notify("on_train_begin", X=X, y=targets)
        for epoch in range(1, epochs + 1):
            rows = epoch_rows(codes, balanced, rng)
            part = multi_indexing(X, rows)
            part = part if augment is None else augment(part)
            stopped = False
            try:
                net.fit_loop(part, targets[rows], epochs=1)
            except KeyboardInterrupt:  # from EarlyStopping, or Ctrl-C: that leaves patience
                stoppers = [c for _, c in net.callbacks_ if isinstance(c, EarlyStopping)]
                stopped = any(c.misses_ == c.patience for c in stoppers)
                if not stopped:
                    raise
            batches = net.history[-1]["batches"]
            sizes = [batch["train_batch_size"] for batch in batches]
            means = [batch["train_loss"] for batch in batches]
            losses.append(float(np.average(means, weights=sizes)))
            if on_epoch is not None:
                stopped = on_epoch(net, epoch) or stopped
            if not np.isfinite(losses[-1]):
                raise ValueError(
                    f"the training loss became {losses[-1]} in epoch {epoch}; lower the learning "
                    f"rate (lr={net.lr}), or look for NaN in the input."
                )
            if stopped:
                break
        net.notify("on_train_end", X=X, y=targets)
    finally:
        net.callbacks_ = own
        net.optimizer_.zero_grad()
    return losses


def train_supervised(
    net: NeuralNet,
    X: Any,
    codes: Codes,
    n_classes: int,
    weights: FloatArray,
    epochs: int,
    balanced: bool,
    rng: np.random.Generator,
    bar: tqdm[Any],
    on_epoch: Callable[[NeuralNet, int], bool] | None = None,
) -> list[float]:
    """Train an initialised net on true labels with a slanted learning rate; return losses."""
    targets = distillation_targets(np.eye(n_classes)[codes], None, weights)
    how: Any = {"epochs": epochs, "balanced": balanced, "rng": rng, "bar": bar}
    losses = train(net, X, targets, codes, on_epoch=on_epoch, **how)
    net.optimizer_.state.clear()  # twice as large as the net
    return losses


def predict_logits(net: NeuralNet, X: Any, n_classes: int) -> FloatArray:
    """Return logits of shape (n, n_classes) in evaluation mode; check their shape and values."""
    out = net.forward(X)
    logits = to_numpy(out[0] if isinstance(out, tuple) else out).astype(np.float64)
    if logits.ndim != 2 or logits.shape[1] != n_classes:
        raise ValueError(
            f"the net's module must return logits of shape (n, {n_classes}), one column for each "
            f"class, but returned shape {logits.shape}; give its last layer {n_classes} outputs."
        )
    bad = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(bad):
        raise ValueError(
            f"the net's module returned NaN or infinite logits for {len(bad)} of {len(logits)} "
            f"rows (first: row {bad[0]}); lower the learning rate, or look for NaN in the input."
        )
    return logits


def probabilities(net: NeuralNet, X: Any, n_classes: int, temperature: float = 1.0) -> FloatArray:
    """Return the class probabilities of encoded documents, (n, n_classes)."""
    return np.asarray(softmax(predict_logits(net, X, n_classes) / temperature, axis=1))


@dataclass(eq=False)
class Trainer:
    """Trains clones of one net on labelled documents, each with a seed of its own.

    Its pickle holds what determines a result, so that joblib can use it as a key.
    """

    net: NeuralNet
    classes: NDArray[Any]
    epochs: int
    balanced: bool
    root: int
    bar: tqdm[Any]
    refit_with: Any = None  # unlabelled documents, if linear layers are fitted anew with them
    _head: Any = None  # the initial one for the rows of the last net
    _rows: Any = None
    _checked: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what a result depends on; joblib keeps nets before their layers are refitted."""
        names = ("net", "classes", "epochs", "balanced", "root")
        state = {name: getattr(self, name) for name in names}
        name = getattr(self.net, "pretrained", None) if hasattr(self.net, "encode") else None
        return state | {"weights": None if name is None else load_encoder(name).weights_hash}

    def fresh(self, X: Any, codes: Codes, weights: FloatArray) -> NeuralNet:
        """Return an initialised net to train on `X`; call it inside `seeded`."""
        M = self.untrained()
        with seeded(0):  # what follows draws nothing from the stream of the training
            if not self._checked:
                logits = predict_logits(M, multi_indexing(X, np.arange(1)), len(self.classes))
                if (logits >= 0).all() and np.allclose(logits.sum(), 1.0, atol=1e-5):
                    raise ValueError(
                        f"the net's module {type(M.module_).__name__} returns probabilities (rows "
                        "without negative values that sum to 1), but logits are needed; remove "
                        "its final softmax."
                    )
                self._checked = True
            if hasattr(M, "start_head"):
                known = self._head if X is self._rows else None  # the same rows have one head
                self._head = M.start_head(X, codes, weights, self.balanced, known)
                self._rows = X
        return M

    def untrained(self) -> NeuralNet:
        """Return an initialised clone with the settings of the method."""
        M = clone(self.net)
        params: dict[str, Any] = {
            "train_split": None,  # skorch would hold out a fifth of the rows
            "criterion": DistillationLoss,
            "criterion__lam": 0.0,
            "criterion__temperature": 1.0,
            "max_epochs": self.epochs,
        }
        if "classes" in M.get_params(deep=False):
            params["classes"] = self.classes.tolist()
        if M.iterator_valid is DataLoader:
            # a DataLoader draws the seed of its workers, even if it has none, and a prediction must
            # not change torch's global generator
            params["iterator_valid__generator"] = torch.Generator()
        return M.set_params(**params).initialize()

    def train(
        self,
        X: Any,
        codes: Codes,
        weights: FloatArray,
        *path: int,
        epochs: int | None = None,
        on_epoch: Callable[[NeuralNet, int], bool] | None = None,
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net with cross-entropy and a slanted learning rate; return net and losses.

        Randomness depends on `root` and `path` only, and the path (0,) gives the same net as
        `BertClassifier.fit`.
        """
        epochs = self.epochs if epochs is None else epochs
        how = epochs, self.balanced, generator(self.root, *path), self.bar, on_epoch
        with seeded(self.root, *path):
            M = self.fresh(X, codes, weights)
            losses = train_supervised(M, X, codes, len(self.classes), weights, *how)
        return M, losses

    def refit(self, nets: list[Any], X: Any, codes: Codes, weights: FloatArray) -> list[Any]:
        """Fit the linear layers of nets anew, if that is asked for; return a `Refit` of each."""
        how = self.refit_with, self.balanced, self.bar
        nets = nets if self.refit_with is not None else []
        return [M.refit_head(X, codes, weights, *how) for M in nets]

    def probabilities(self, net: NeuralNet, X: Any, temperature: float = 1.0) -> FloatArray:
        """Return the class probabilities of encoded documents."""
        P = probabilities(net, X, len(self.classes), temperature)
        self.bar.update(len(P))
        return P


def epoch_rows(
    codes: NDArray[np.intp], balanced: bool, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw the rows of one epoch: all of them shuffled, or class-balanced with replacement.

    With K classes present, n_c rows of class c and balanced draws, a row of class c has the
    probability ``1 / (K * n_c)``, as in the authors' code.
    """
    if not balanced or not len(codes):
        return rng.permutation(len(codes))
    by_class = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    first = np.cumsum(sizes) - sizes
    present = np.flatnonzero(sizes)
    c = present[rng.integers(len(present), size=len(codes))]
    return np.asarray(by_class[first[c] + rng.integers(sizes[c])])
