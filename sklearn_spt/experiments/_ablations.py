"""Ablations of Self-Pretraining and other readings of the paper; each class changes one step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._functional import predicted_classes
from sklearn_spt._random import derive_seed, isolated
from sklearn_spt._typing import FloatArray
from sklearn_spt.nets._callbacks import ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, one_hot
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._training import n_steps, set_loss, train
from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier
from sklearn_spt.self_pretraining._inertia import InertialResult, inertial_transform
from sklearn_spt.self_pretraining._trainer import (
    ClassDistributions,
    Losses,
    SelfPretrainingTrainer,
    seed_path,
)
from sklearn_spt.text._documents import concatenated


class _OneStageTrainer(SelfPretrainingTrainer):
    def train_student(
        self, t: int, number: int, C: Any, P: FloatArray, q: FloatArray
    ) -> tuple[NeuralNet, Losses]:
        """Train once on C and L together, with a slanted rate."""
        data, K, epochs = self.data, self.data.n_classes, self.finetune_epochs
        on_C = distillation_targets(np.zeros_like(P), P)
        on_L = distillation_targets(self._hard, q, data.weights)
        # the targets carry λ, which differs between rows; 0.5 * 2 makes both terms count in full
        on_L = on_L * np.repeat([1 - self.lam, self.lam], K).astype(np.float32)
        targets = 2 * np.concatenate([on_C, on_L])
        X = concatenated(C, data.X_labeled)
        path = seed_path(t, number)
        with isolated(derive_seed(self.root, *path)):
            M = self._fresh_student(epochs)
            schedule = ScheduledLR(partial(slanted, n_steps=n_steps(M, X, targets, epochs)))
            set_loss(M, lam=0.5, temperature=self.temperature, max_epochs=epochs)
            losses = train(
                M,
                X,
                targets,
                np.concatenate([predicted_classes(P), data.y]),
                epochs=epochs,
                schedule=schedule.initialize(),
                balanced=self.balanced_batches,
                rng=self.rng(*path, 2),
                progress=self.progress,
                keep_optimizer=False,
            )
        return M, {"one_stage": losses}

    def _texts_per_student(self, size: int, L: int) -> int:
        return self.finetune_epochs * (size + L)


class _SlantedTrainer(SelfPretrainingTrainer):
    def _schedule(self, n_C: int, n_L: int) -> ScheduledLR:
        return ScheduledLR(partial(slanted, n_steps=n_C + n_L)).initialize()


class _HardLabelTrainer(SelfPretrainingTrainer):
    def __init__(self, *args: Any, temperature: float, **kwargs: Any) -> None:
        # at T = 1 the soft terms are cross-entropies with one-hot pseudo-labels
        super().__init__(*args, temperature=1.0, **kwargs)

    def soft_labels(
        self, t: int, teachers: list[NeuralNet], C: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Return the predicted classes as one-hot rows."""
        P, q = (
            one_hot(predicted_classes(p), self.data.n_classes).astype(np.float64)
            for p in super().soft_labels(t, teachers, C)
        )
        return P, q

    def inertia(self, P: FloatArray, S: ClassDistributions) -> InertialResult | None:
        """Do nothing: there are no probabilities."""
        return None


class _IndependentVarianceTrainer(SelfPretrainingTrainer):
    def inertia(self, P: FloatArray, S: ClassDistributions) -> InertialResult | None:
        return inertial_transform(P, S, self.alpha, variance="independent")


class _RawStateTrainer(SelfPretrainingTrainer):
    def inertia(self, P: FloatArray, S: ClassDistributions) -> InertialResult | None:
        return inertial_transform(P, S, self.alpha, new_state="raw")


class _KeptOptimizerTrainer(SelfPretrainingTrainer):
    keep_optimizer = True


class WithoutTwoStages(SelfPretrainingClassifier):
    """The paper's ablation that trains each student once, on both sets together.

    `pretrain_epochs` and `token_deletion` belong to stage 1 and have no effect.
    """

    _trainer_class = _OneStageTrainer


class WithoutTrapezoidalLR(SelfPretrainingClassifier):
    """The paper's ablation with one slanted learning rate over both stages."""

    _trainer_class = _SlantedTrainer


class WithoutDistillation(SelfPretrainingClassifier):
    """The paper's ablation with one-hot pseudo-labels, T = 1 and no inertia."""

    _trainer_class = _HardLabelTrainer


class IndependentVariance(SelfPretrainingClassifier):
    """The paper's literal formula: inertia combines variances with squared weights."""

    _trainer_class = _IndependentVarianceTrainer


class RawInertiaState(SelfPretrainingClassifier):
    """The paper's literal S_t: inertia keeps the statistics from before the transform."""

    _trainer_class = _RawStateTrainer


class KeptOptimizer(SelfPretrainingClassifier):
    """Stage 2 keeps the optimiser of stage 1; the paper's code makes a new one."""

    _trainer_class = _KeptOptimizerTrainer


class HalfFirstSample(SelfPretrainingClassifier):
    """The first sample is half a step, as in the paper's code."""

    def _first_size(self, step: int) -> int:
        return max(1, step // 2)
