"""Training with hard labels, the first step of every semi-supervised method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.dataset import get_len
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier
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
    """Trains clones of `net` on hard labels and labels documents with them."""

    def __init__(
        self,
        model: BaseSemiSupervisedClassifier,
        net: NeuralNet,
        classes: AnyArray,
        description: str,
    ) -> None:
        self.net = net
        self.classes = classes
        self.finetune_epochs = model.finetune_epochs
        self.balanced_batches = model.balanced_batches
        self.root = root_seed(model.random_state)
        self.progress = Progress(model.verbose, description)
        #: Initial weights of the last net's last layer, see `PreparedNet.start_head`.
        self.head: Any = None
        self._checked: set[int] = set()

    def rng(self, *path: int) -> np.random.Generator:
        """Return a generator that depends on `root` and `path` only."""
        return np.random.default_rng(derive_seed(self.root, *path))

    def fresh(
        self,
        X: Any,
        codes: IntArray,
        weights: FloatArray | None = None,
        net: NeuralNet | None = None,
    ) -> NeuralNet:
        """Return an initialised net to train on `X`; call it inside a seeded `isolated` block."""
        M = fresh_net(net or self.net, self.classes, self.finetune_epochs)
        if id(net) not in self._checked:
            with isolated():
                check_outputs(M, multi_indexing(X, np.arange(1)), len(self.classes))
            self._checked.add(id(net))
        self.head = start_head(M, X, codes, weights, balanced=self.balanced_batches)
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
        announced: bool = False,
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net with cross-entropy and a slanted learning rate; return net and losses.

        Randomness depends on `root` and `path` only, and the path (0,) gives the same net as
        `BertClassifier.fit`. If `announced`, the total of the bar holds these texts already.
        """
        epochs = self.finetune_epochs if epochs is None else epochs
        seed = derive_seed(self.root, *path)
        rng = np.random.default_rng(seed)
        targets = distillation_targets(one_hot(codes, len(self.classes)), None, weights)
        if not announced:
            self.progress.expect(epochs * len(codes))
        with isolated(seed):
            M = self.fresh(X, codes, weights, net)
            steps = n_steps(M, X, targets, epochs)
            losses = train(
                M,
                X,
                targets,
                codes,
                epochs=epochs,
                schedule=ScheduledLR(partial(slanted, n_steps=steps)).initialize(),
                balanced=self.balanced_batches,
                rng=rng,
                progress=self.progress,
                on_epoch=on_epoch,
                keep_optimizer=False,
            )
        return M, losses

    def probabilities(self, net: NeuralNet, X: Any) -> FloatArray:
        """Return the class probabilities of encoded documents."""
        self.progress.expect(get_len(X))
        with isolated():
            K = len(self.classes)
            return tempered_softmax(predict_logits(net, X, K, self.progress.advance))


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add the wall-clock seconds of a block to ``seconds[name]``."""
    start = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
