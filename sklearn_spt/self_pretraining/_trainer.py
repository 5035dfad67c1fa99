"""The steps of Self-Pretraining that train and ask nets; the algorithm is in `_classifier`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import joblib
import numpy as np
from skorch import NeuralNet
from skorch.dataset import get_len

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._functional import mean_probabilities, predicted_classes, tempered_softmax
from sklearn_spt._random import derive_seed, draw_sample, isolated, random_states, set_random_states
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt.nets._callbacks import RightTrapezoidalLR, ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, one_hot
from sklearn_spt.nets._token_net import TokenNet
from sklearn_spt.nets._training import (
    fresh_net,
    n_steps,
    predict_logits,
    set_loss,
    start_head,
    train,
)
from sklearn_spt.self_pretraining._fit_key import fit_key
from sklearn_spt.self_pretraining._inertia import InertialResult, inertial_transform
from sklearn_spt.self_pretraining._memory import recall
from sklearn_spt.text._encoding import with_deletions
from sklearn_spt.text._pretrained import pad_token_id

_R = TypeVar("_R")
Losses = dict[str, list[float]]
ClassDistributions = dict[int, tuple[float, float]]
_AfterStage1 = tuple[NeuralNet, ScheduledLR, np.random.Generator, list[float]]
_Path = tuple[int, ...]

# Stands in the seed path of every net of an iteration after the first.
_FURTHER_NET = 5


def seed_path(t: int, number: int) -> _Path:
    """Return the path of a net's seed; the first start has that of `BertClassifier.fit`."""
    return (t,) if number == 0 else (t, _FURTHER_NET, number)


def _mean_losses(losses: list[list[float]]) -> list[float]:
    """Return the mean loss of each epoch over the nets that trained for so many."""
    return [
        float(np.mean([loss for loss in epoch if loss is not None]))
        for epoch in zip_longest(*losses)
    ]


class SelfPretrainingTrainer(SupervisedTrainer):
    """Trains the teachers and the students of one fit.

    L and U are the labelled and unlabelled documents of `data`. `memory` keeps what does not depend
    on λ and α: the first teachers, their labels, and stage 1 of the first students.
    """

    #: Reading of the paper: whether stage 2 goes on with the optimiser of stage 1.
    keep_optimizer = False

    def __init__(
        self,
        model: BaseSemiSupervisedClassifier,
        net: NeuralNet,
        data: SemiSupervisedData,
        *,
        lam: float,
        alpha: float,
        temperature: float,
        pretrain_epochs: int,
        token_deletion: float,
        n_starts: int,
        n_students: int,
        memory: joblib.Memory,
    ) -> None:
        super().__init__(model, net, data.classes, "self-pretraining")
        self.data = data
        self.lam = lam
        self.alpha = alpha
        self.temperature = temperature
        self.pretrain_epochs = pretrain_epochs
        self.token_deletion = token_deletion
        if token_deletion > 0 and not isinstance(net, TokenNet):
            raise ValueError(
                f"token_deletion={token_deletion:g} needs a net that reads token ids, such as "
                f"BertClassifier, but estimator is a {type(net).__name__}; set token_deletion=0."
            )
        self.n_starts = n_starts
        self.n_students = n_students
        self.memory = memory
        #: Seconds of each phase since the last iteration ended.
        self.seconds: dict[str, float] = {}
        self._hard = one_hot(data.y, data.n_classes)

    def supervised_start(self) -> tuple[list[NeuralNet], Losses]:
        """Train the first teachers on L alone; return them and their mean losses (step 1)."""
        X, y, weights = self.data.X_labeled, self.data.y, self.data.weights
        n_texts = self.finetune_epochs * len(y)

        def start(number: int) -> tuple[NeuralNet, list[float]]:
            path = seed_path(0, number)
            return self._recalled(
                "start",
                n_texts,
                lambda: self.train(X, y, *path, weights=weights, announced=True),
                number=number,
            )

        self.progress.expect(self.n_starts * n_texts)  # so that the bar is full once, not each time
        with timed(self.seconds, "supervised"):
            starts = [start(number) for number in range(self.n_starts)]
        return [M for M, _ in starts], {"supervised": _mean_losses([loss for _, loss in starts])}

    def sample(self, t: int, size: int) -> IntArray:
        """Draw rows of U for iteration t (step 2)."""
        return draw_sample(self.data.n_unlabeled, size, self.rng(t, 1))

    def soft_labels(
        self, t: int, teachers: list[NeuralNet], C: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Mean tempered probabilities of the sample C and of L by the teachers (step 3)."""
        with timed(self.seconds, "labeling"):
            found = [self._soft_labels(t, i, M, C) for i, M in enumerate(teachers)]
        P, q = zip(*found, strict=True)
        return mean_probabilities(*P), mean_probabilities(*q)

    def _soft_labels(
        self, t: int, number: int, teacher: NeuralNet, C: Any
    ) -> tuple[FloatArray, FloatArray]:
        K, T = self.data.n_classes, self.temperature

        def logits() -> tuple[FloatArray, FloatArray]:
            return predict_logits(teacher, C, K), predict_logits(teacher, self.data.X_labeled, K)

        on_C, on_L = (
            self._recalled("labels", 0, logits, size=get_len(C), number=number)
            if t == 1
            else logits()
        )
        self.progress.advance(len(on_C) + len(on_L))
        return tempered_softmax(on_C, T), tempered_softmax(on_L, T)

    def inertia(self, P: FloatArray, S: ClassDistributions) -> InertialResult | None:
        """Move the class distributions of P towards those of the iteration before (step 4)."""
        return inertial_transform(P, S, self.alpha)

    def train_students(
        self, t: int, C: Any, P: FloatArray, q: FloatArray
    ) -> tuple[list[NeuralNet], Losses]:
        """Train fresh nets on the same labels; return them and their mean losses."""
        found = [self.train_student(t, number, C, P, q) for number in range(self.n_students)]
        losses = [loss for _, loss in found]
        return [M for M, _ in found], {
            stage: _mean_losses([loss[stage] for loss in losses]) for stage in losses[0]
        }

    def train_student(
        self, t: int, number: int, C: Any, P: FloatArray, q: FloatArray
    ) -> tuple[NeuralNet, Losses]:
        """Train a fresh net on the sample, then on L (steps 5 and 6); return it and its losses."""
        path = seed_path(t, number)
        with isolated(derive_seed(self.root, *path)):
            on_L = distillation_targets(self._hard, q, self.data.weights)
            with timed(self.seconds, "stage1"):
                M, schedule, rng, loss_1 = self._first_stage(path, C, P, on_L)
            with timed(self.seconds, "stage2"):
                loss_2 = self._stage_2(M, on_L, schedule, rng)
        return M, {"stage1": loss_1, "stage2": loss_2}

    def _first_stage(self, path: _Path, C: Any, P: FloatArray, on_L: AnyArray) -> _AfterStage1:
        if path[0] > 1 or self.keep_optimizer:  # a pickle of a net lacks the optimiser's state
            return self._stage_1(path, C, P, on_L)
        # In the first iteration the key determines P, so the result can be kept.
        n_texts = self.pretrain_epochs * len(P)
        return self._recalled(
            "stage1",
            n_texts,
            lambda: self._stage_1(path, C, P, on_L),
            size=len(P),
            path=path,
            n_starts=self.n_starts,
        )

    def _stage_1(self, path: _Path, C: Any, P: FloatArray, on_L: AnyArray) -> _AfterStage1:
        """Train a fresh student on the pseudo-labelled sample, by distillation alone."""
        M = self._fresh_student(self.pretrain_epochs)
        on_C = distillation_targets(np.zeros_like(P), P)
        n_C = n_steps(M, C, on_C, self.pretrain_epochs)
        n_L = n_steps(M, self.data.X_labeled, on_L, self.finetune_epochs)
        schedule = self._schedule(n_C, n_L)
        rng = self.rng(*path, 2)
        set_loss(M, lam=1.0, temperature=self.temperature, max_epochs=self.pretrain_epochs)
        losses = train(
            M,
            C,
            on_C,
            predicted_classes(P),
            epochs=self.pretrain_epochs,
            schedule=schedule,
            balanced=self.balanced_batches,
            rng=rng,
            progress=self.progress,
            augment=self._deletion(rng),
            keep_optimizer=self.keep_optimizer,
        )
        schedule.step_ = n_C  # EarlyStopping may have ended the stage
        return M, schedule, rng, losses

    def _deletion(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        """Return what deletes tokens of the texts of an epoch, if there is anything to delete."""
        if self.token_deletion == 0:
            return None
        pad_id = pad_token_id(self.net.reads_with)
        return partial(with_deletions, pad_id=pad_id, share=self.token_deletion, rng=rng)

    def _stage_2(
        self, M: NeuralNet, on_L: AnyArray, schedule: ScheduledLR, rng: np.random.Generator
    ) -> list[float]:
        """Train the student on L, by true labels and distillation, weighted by λ."""
        set_loss(
            M,
            lam=self.lam,
            temperature=self.temperature,
            max_epochs=self.finetune_epochs,
            keep_optimizer=self.keep_optimizer,
        )
        return train(
            M,
            self.data.X_labeled,
            on_L,
            self.data.y,
            epochs=self.finetune_epochs,
            schedule=schedule,
            balanced=self.balanced_batches,
            rng=rng,
            progress=self.progress,
            keep_optimizer=False,
        )

    def _schedule(self, n_C: int, n_L: int) -> ScheduledLR:
        """Learning rates of both stages, of n_C and n_L steps."""
        return RightTrapezoidalLR(n_constant=n_C, n_decay=max(n_L, 1)).initialize()

    def _fresh_student(self, epochs: int) -> NeuralNet:
        data = self.data
        M = fresh_net(self.net, data.classes, epochs)
        L = (data.X_labeled, data.y, data.weights)
        self.head = start_head(M, *L, balanced=self.balanced_batches, known=self.head)
        return M

    def rebuilt(self, t: int, number: int, loss: dict[str, Any]) -> NeuralNet:
        """Return a student of iteration t, or a start for t = 0, with its initial weights."""
        with isolated(derive_seed(self.root, *seed_path(t, number))):
            M = fresh_net(self.net, self.data.classes, self.finetune_epochs)
            set_loss(M, **loss)
        return M

    def n_texts(self, t: int, size: int) -> int:
        """Return the number of texts that iteration t labels and trains on."""
        L = len(self.data.y)
        n_teachers = self.n_starts if t == 1 else self.n_students
        return n_teachers * (size + L) + self.n_students * self._texts_per_student(size, L)

    def _texts_per_student(self, size: int, L: int) -> int:
        return self.pretrain_epochs * size + self.finetune_epochs * L

    def _recalled(
        self, step: str, n_texts: int, compute: Callable[[], _R], **depends_on: Any
    ) -> _R:
        """Compute a step, or take it from `memory` and advance the bar by `n_texts`."""
        if self.memory.store_backend is None:
            return compute()
        data = self.data
        depends_on["fit"] = (self.root, self.finetune_epochs, self.balanced_batches)
        depends_on["L"] = (data.X_labeled, data.y, data.weights, data.classes)
        if step != "start":
            kind = f"{type(self).__module__}.{type(self).__qualname__}"
            settings = (self.temperature, self.pretrain_epochs, self.token_deletion)
            depends_on["student"] = (kind, *settings)
            depends_on["U"] = data.X_unlabeled
        key = fit_key(self.net, **depends_on)
        (result, states), known = recall(
            self.memory, step, key, lambda: (compute(), random_states())
        )
        if known:
            set_random_states(states)
            self.progress.advance(n_texts)
        return result
