"""Template of the methods that add confident documents to their training set in iterations.

The template chooses the number of iterations on held-out labelled documents; a method defines one
iteration.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._functional import class_counts
from sklearn_spt._holdout import hold_out, positive_code
from sklearn_spt._random import derive_seed
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_integer, check_real
from sklearn_spt.baselines._selection import (
    check_throttling,
    growing_pools,
    throttle,
    warn_nothing_added,
)

#: Last parts of seed paths; the net of iteration t has the path (t,).
_POOL = 1
_SELECTION = 3


@dataclass
class ThrottledIteration:
    """Nets and pseudo-labels after an iteration."""

    nets: list[NeuralNet]
    pseudo: IntArray  # code of each unlabelled document; -1 without one
    labeled_iter: IntArray  # iteration that gave it, or -1
    record: dict[str, Any]  # entry of ``history_``
    ended: str | None = None  # why no iteration follows, if known


class PseudoLabels:
    """Pseudo-labels that were given so far."""

    def __init__(self, data: SemiSupervisedData) -> None:
        self.codes = np.full(data.n_unlabeled, -1, dtype=np.int64)
        self.iteration = np.full(data.n_unlabeled, -1, dtype=np.int64)
        self._classes = data.classes

    @property
    def left(self) -> IntArray:
        """Unlabelled rows without a pseudo-label."""
        return np.flatnonzero(self.codes < 0)

    def add(self, rows: IntArray, codes: IntArray, t: int) -> None:
        """Give pseudo-labels in iteration `t`."""
        self.codes[rows], self.iteration[rows] = codes, t

    def state(
        self,
        t: int,
        nets: list[NeuralNet],
        pool_size: int,
        n_train: Any,
        loss: Any,
        seconds: dict[str, float],
    ) -> ThrottledIteration:
        """Return the state after iteration `t`."""
        new = self.codes[self.iteration == t]
        record = {
            "iteration": t,
            "n_train": n_train,
            "pool_size": pool_size,
            "n_added": len(new),
            "pseudo_label_counts": class_counts(new, self._classes),
            "loss": loss,
            "seconds": seconds,
        }
        ended = "all_labeled" if len(self.codes) and not len(self.left) else None
        return ThrottledIteration(nets, self.codes.copy(), self.iteration.copy(), record, ended)


class ThrottledClassifier(BaseSemiSupervisedClassifier):
    """Template of methods that grow their training set by confident documents.

    A subclass writes `_iterations` and may override `_probabilities`.
    """

    #: Label of the progress bar.
    _description: str

    def __init__(
        self,
        estimator: Any = None,
        *,
        threshold: float = 0.9,
        max_fraction: float = 0.1,
        max_iter: int = 20,
        n_iterations: int | None = None,
        validation_fraction: float = 0.2,
        pos_label: Any = None,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        unlabeled_marker: Any = -1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.threshold = threshold
        self.max_fraction = max_fraction
        self.max_iter = max_iter
        self.n_iterations = n_iterations
        self.validation_fraction = validation_fraction
        self.pos_label = pos_label
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _iterations(
        self, trainer: SupervisedTrainer, data: SemiSupervisedData
    ) -> Iterator[ThrottledIteration]:
        """Yield the states from the supervised start on; set `ended` of the last one."""

    def _probabilities(
        self, trainer: SupervisedTrainer, nets: Sequence[NeuralNet], X: Any
    ) -> FloatArray:
        """Class probabilities of encoded documents, by the nets of an iteration."""
        return trainer.probabilities(nets[0], X)

    # -- parameters -----------------------------------------------------------------------------
    def _check_params(self) -> None:
        super()._check_params()
        check_throttling(self)
        check_integer(self.n_iterations, "n_iterations", low=0, allow_none=True)
        check_real(self.validation_fraction, "validation_fraction", low=0, high=1, closed="neither")

    # -- the fit --------------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """Choose the number of iterations, then run them on all labelled documents."""
        positive = positive_code(data.classes, self.pos_label)
        n, why = self.n_iterations, "n_iterations"
        if not data.n_unlabeled:
            n, why = 0, "no_unlabeled"
        elif self.threshold > 1:
            n, why = 0, "no_change"
        elif n is None and self.max_iter == 0:
            n, why = 0, "validation"
        trainer = SupervisedTrainer(self, net, data.classes, self._description)
        self.selection_history_: list[dict[str, Any]] = []
        self.history_: list[dict[str, Any]] = []
        with trainer.progress:
            if n is None:
                n, why = self._choose(trainer, data, positive)
            for state in islice(self._iterations(trainer, data), n + 1):
                self.history_.append(state.record)
                trainer.progress.say(f"iteration {state.record['iteration']}")
            why = state.ended or why

        self.estimators_ = state.nets
        self.n_iter_ = int(state.record["iteration"])
        self.termination_condition_ = why
        self._set_transduction(data, state.pseudo, state.labeled_iter)
        if why == "no_change" and self.n_iter_ == 0:
            warn_nothing_added(self.threshold)

    def _choose(
        self, trainer: SupervisedTrainer, data: SemiSupervisedData, positive: int
    ) -> tuple[int, str]:
        """Return the best number of iterations, and the reason."""
        search = copy.copy(trainer)  # same progress bar, but other seeds than the final run
        search.root = derive_seed(trainer.root, 0, _SELECTION)
        held = hold_out(
            data,
            self.validation_fraction,
            search.rng(0, _POOL),
            positive=positive,
            otherwise="One iteration is tried.",
            remedy="Label more rows of the rare classes, or set n_iterations.",
        )
        if held is None:
            return 1, "n_iterations"
        part = held.training_part(data)
        best: float = -1.0
        n = 0
        for state in islice(self._iterations(search, part), self.max_iter + 1):
            with timed(state.record["seconds"], "validation"):
                P = self._probabilities(search, state.nets, held.X)
            score = held.score(P)
            state.record["validation_score"] = score
            self.selection_history_.append(state.record)
            search.progress.say(f"choosing: iteration {state.record['iteration']}, {score:.3f}")
            if score > best:
                best, n = score, int(state.record["iteration"])
            if best == 1.0:
                break  # no later iteration can be better
        only_start = len(self.selection_history_) == 1
        return n, (state.ended if only_start and state.ended else "validation")

    # -- selection ------------------------------------------------------------------------------
    def _pools(
        self,
        trainer: SupervisedTrainer,
        data: SemiSupervisedData,
        t: int,
        left: IntArray,
        learners: Sequence[tuple[NeuralNet, Any]],
    ) -> Iterator[tuple[IntArray, list[FloatArray]]]:
        """Yield growing pools from that of iteration `t` on, each with probabilities by net."""
        pool = np.empty(0, dtype=np.int64)
        P = [np.empty((0, data.n_classes)) for _ in learners]
        for new in growing_pools(left, t, data.n_unlabeled, trainer.rng(t, _POOL)):
            pool = np.concatenate([pool, new])
            order = np.argsort(pool)  # ties go to the lower row
            pool = pool[order]
            P = [
                np.concatenate([old, trainer.probabilities(net, multi_indexing(X, new))])[order]
                for old, (net, X) in zip(P, learners, strict=True)
            ]
            yield pool, P

    def _select(self, pool: IntArray, P: FloatArray, n_train: int) -> tuple[IntArray, IntArray]:
        """Rows of a pool to add, and their predicted classes."""
        chosen = throttle(P.max(axis=1), n_train, self.threshold, self.max_fraction)
        return pool[chosen], P[chosen].argmax(axis=1)
