"""Nets that learn from hard labels inside a semi-supervised fit.

Self-Pretraining begins with one; the methods of `sklearn_spt.baselines` train nothing else.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.dataset import get_len
from skorch.utils import multi_indexing

from sklearn_spt._functional import tempered_softmax
from sklearn_spt._progress import Progress
from sklearn_spt._random import derive_seed, isolated, root_seed
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt.nets._callbacks import ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, one_hot
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._training import (
    check_outputs,
    fresh_net,
    n_steps,
    predict_logits,
    start_head,
    train,
)


class SupervisedTrainer:
    """Trains fresh nets on hard labels by the parameters of a classifier, and labels with them.

    Parameters
    ----------
    model : BaseSemiSupervisedClassifier
        Has the parameters `finetune_epochs`, `balanced_batches`, `random_state` and `verbose`.
    net : skorch.NeuralNet
        Unfitted; is cloned for every training run.
    classes : ndarray of shape (n_classes,)
        Class labels.
    n_texts : int
        Texts that will be trained on and labelled, at most: the length of the progress bar.
    description : str
        What stands to the left of the bar.

    Attributes
    ----------
    root : int
        All seeds derive from it.
    progress : Progress
        The bar; a context manager.
    """

    def __init__(
        self, model: Any, net: NeuralNet, classes: AnyArray, n_texts: int, description: str
    ) -> None:
        self.model = model
        self.net = net
        self.classes = classes
        self.root = root_seed(model.random_state)
        self.progress = Progress(n_texts, model.verbose, description)
        self._checked: set[int] = set()
        self.head: Any = None  # start of the last net's last layer, see `start_head`

    def rng(self, *path: int) -> np.random.Generator:
        """Return a generator that is a function of `random_state` and `path` alone."""
        return np.random.default_rng(derive_seed(self.root, *path))

    def fresh(
        self,
        X: Any,
        codes: IntArray,
        weights: FloatArray | None = None,
        net: NeuralNet | None = None,
        head: Any = None,
    ) -> NeuralNet:
        """Initialise a clone for rows to train on; in a seeded block, see `isolated`."""
        M = fresh_net(net or self.net, self.classes, self.model.finetune_epochs)
        if id(net) not in self._checked:
            with isolated():  # a look at the outputs must not shift the random stream
                check_outputs(M, multi_indexing(X, np.arange(1)), len(self.classes))
            self._checked.add(id(net))
        balanced = self.model.balanced_batches
        self.head = start_head(M, X, codes, weights, balanced=balanced, known=head)
        return M

    def train(
        self,
        X: Any,
        codes: IntArray,
        *path: int,
        weights: FloatArray | None = None,
        net: NeuralNet | None = None,
        epochs: int | None = None,
        on_epoch: Callable[[NeuralNet, int], bool] | None = None,
        head: Any = None,
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net with cross-entropy and a slanted learning rate.

        Parameters
        ----------
        X : indexable of length n
            Encoded documents.
        codes : ndarray of int of shape (n,)
            Their classes.
        *path : int
            What the net is for, such as its iteration. Everything random in the run is a function
            of `random_state` and `path` alone; the path (0,) gives what the supervised
            `BertClassifier` does with the same `random_state`.
        weights : ndarray of shape (n,) or None
            Scales the loss of each row.
        net : skorch.NeuralNet or None
            Another net to clone than the one given at the start.
        epochs : int or None
            Passes over the rows, over which the rate falls; None is `finetune_epochs`.
        on_epoch : callable or None
            Called as ``on_epoch(net, epoch)`` after each epoch, counted from 1; True ends the
            training. What it draws does not shift the random stream of the training.
        head : object or None
            `self.head` after a run on the same rows, which this one need not find anew.

        Returns
        -------
        net : skorch.NeuralNet
            Trained; its optimiser is released.
        losses : list of float
            Mean loss of each epoch.
        """
        epochs = self.model.finetune_epochs if epochs is None else epochs
        seed = derive_seed(self.root, *path)
        rng = np.random.default_rng(seed)
        targets = distillation_targets(one_hot(codes, len(self.classes)), None, weights)
        with isolated(seed):
            M = self.fresh(X, codes, weights, net, head)
            steps = n_steps(M, X, targets, epochs)
            schedule = ScheduledLR(partial(slanted, n_steps=steps)).initialize()
            losses = train(
                M,
                X,
                targets,
                codes,
                epochs=epochs,
                schedule=schedule,
                balanced=self.model.balanced_batches,
                rng=rng,
                progress=self.progress,
                on_epoch=on_epoch,
                keep_optimizer=False,
            )
        return M, losses

    def probabilities(self, net: NeuralNet, X: Any) -> FloatArray:
        """Class probabilities (T = 1) of encoded documents, shape (n, n_classes)."""
        with isolated():
            p = tempered_softmax(predict_logits(net, X, len(self.classes)))
        self.progress.advance(get_len(X))
        return p


def mean_losses(losses: Sequence[Sequence[float]]) -> list[float]:
    """Mean loss of each epoch over several runs, of which some may have ended early."""
    epochs = itertools.zip_longest(*losses)
    return [float(np.mean([loss for loss in epoch if loss is not None])) for epoch in epochs]


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add the wall-clock seconds of a block to ``seconds[name]``."""
    start = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
