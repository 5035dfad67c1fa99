"""The paper's ablations and other readings of it, as subclasses that change one step each."""

from __future__ import annotations

from functools import partial

import numpy as np

from sklearn_spt import RightTrapezoidalLR, SelfPretrainingClassifier
from sklearn_spt._class_distributions import inertia
from sklearn_spt._data import concatenate
from sklearn_spt._losses import distillation_targets, predicted_codes
from sklearn_spt._random import generator, seeded
from sklearn_spt._stages import seed_path
from sklearn_spt._training import set_loss, train


class WithoutTwoStages(SelfPretrainingClassifier):
    """Each student is trained once, on pseudo-labelled and labelled documents together.

    `pretrain_epochs` and `token_deletion` belong to stage 1 and have no effect.
    """

    def _train_student(self, trainer, data, t, number, C, P, q):
        K, epochs, path = data.n_classes, trainer.epochs, seed_path(t, number)
        on_C = distillation_targets(np.zeros_like(P), P)
        on_L = distillation_targets(np.eye(K)[data.y], q, data.weights)
        # the targets carry λ, which differs between rows; 0.5 * 2 makes both terms count in full
        on_L = on_L * np.repeat([1 - self.lam, self.lam], K).astype(np.float32)
        X, targets = concatenate(C, data.X), 2 * np.concatenate([on_C, on_L])
        with seeded(trainer.root, *path):
            M = trainer.fresh(data.X, data.y, data.weights)
            set_loss(M, 0.5, self.temperature)
            losses = train(
                M,
                X,
                targets,
                np.concatenate([predicted_codes(P), data.y]),
                epochs=epochs,
                balanced=self.balanced_batches,
                rng=generator(trainer.root, *path, 2),
                bar=trainer.bar,
            )
        return M, {"one_stage": losses}

    def _work(self, n_nets, n_L, n_refit, sizes, E2):
        first, *others = super()._work(n_nets, n_L, n_refit, sizes, E2)
        more = self.n_students * (E2 - self.pretrain_epochs)
        return [first, *(n + more * size for n, size in zip(others, sizes, strict=True))]


def slanted(n_C, n_L):
    """One straight line to zero over both stages."""
    return RightTrapezoidalLR(0, n_C + n_L)


class WithoutTrapezoidalLR(SelfPretrainingClassifier):
    """One slanted learning rate over both stages."""

    _schedule = staticmethod(slanted)


class WithoutDistillation(SelfPretrainingClassifier):
    """One-hot pseudo-labels, T = 1 and no inertia."""

    def _fit(self, net, data):
        temperature, self.temperature = self.temperature, 1.0
        try:
            super()._fit(net, data)
        finally:
            self.temperature = temperature

    def _soft_labels(self, *args):
        return tuple(np.eye(P.shape[1])[predicted_codes(P)] for P in super()._soft_labels(*args))

    @staticmethod
    def _inertia(P, S, alpha):
        return P, S, {}


class IndependentVariance(SelfPretrainingClassifier):
    """The paper's literal formula: inertia combines variances with squared weights."""

    _inertia = staticmethod(partial(inertia, squared=True))


class RawInertiaState(SelfPretrainingClassifier):
    """The paper's literal S_t: inertia hands on the statistics from before the map."""

    @staticmethod
    def _inertia(P, S, alpha):
        P, _, groups = inertia(P, S, alpha)
        return P, dict(S) | {c: (g["mean"], g["variance"]) for c, g in groups.items()}, groups


class KeptOptimizer(SelfPretrainingClassifier):
    """Stage 2 goes on with the optimiser of stage 1; the paper's code makes a new one."""

    @staticmethod
    def _set_loss(net, lam, temperature):
        optimizer = net.optimizer_.state_dict()
        set_loss(net, lam, temperature)
        net.optimizer_.load_state_dict(optimizer)


class HalfFirstSample(SelfPretrainingClassifier):
    """The first sample is half a step, as in the paper's code."""

    def _sample_sizes(self, n_unlabeled, step):
        sizes = super()._sample_sizes(n_unlabeled, step)
        if not sizes:
            return sizes
        first = max(1, sizes[0] // 2)
        return [*range(first, n_unlabeled, sizes[0]), n_unlabeled][: self.max_iter]
