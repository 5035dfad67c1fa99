"""How Self-Pretraining trains one teacher or student, and what it notes down meanwhile.

The algorithm itself is `SelfPretrainingClassifier._fit`; here are its steps 1, 5 and 7 to 11.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from skorch import NeuralNet
from skorch.dataset import get_len

from sklearn_spt._base import SemiSupervisedData, class_counts, concatenated, plain_label
from sklearn_spt._callbacks import RightTrapezoidalLR, ScheduledLR
from sklearn_spt._functional import (
    GroupStatistics,
    mean_probabilities,
    predicted_classes,
    tempered_softmax,
)
from sklearn_spt._losses import distillation_targets, one_hot
from sklearn_spt._sampling import derive_seed
from sklearn_spt._schedules import slanted
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._training import (
    fresh_net,
    isolated,
    n_steps,
    predict_logits,
    release_optimizer,
    set_loss,
    train,
)
from sklearn_spt._validation import check_option

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Iteration:
    """What ``on_iteration`` is called with after each iteration.

    Attributes
    ----------
    number : int
        0 is the supervised start, then 1, 2, ...
    student : skorch.NeuralNet
        The net trained in this iteration.
    teacher : skorch.NeuralNet
        The net that labelled for it; the student itself at the start.
    record : dict
        The entry of ``history_``.
    """

    number: int
    student: NeuralNet
    teacher: NeuralNet
    record: dict[str, Any]
    _model: Any
    _n_classes: int

    def predict_proba(self, X: Any, which: str = "ensemble") -> FloatArray:
        """Probabilities of the "student", the "teacher", or their "ensemble" (the mean).

        This is what the fitted classifier would return if the fit ended here.
        """
        check_option(which, "which", ("ensemble", "student", "teacher"))
        nets = {
            "student": [self.student],
            "teacher": [self.teacher],
            "ensemble": [self.teacher, self.student],
        }[which]
        with isolated():
            encoded = self._model._encode(self.student, X, reset=False)
            return mean_probabilities(
                *(tempered_softmax(predict_logits(n, encoded, self._n_classes)) for n in nets)
            )


class Run:
    """One fit in progress: trains nets by the parameters of the model and keeps the records."""

    def __init__(
        self,
        model: Any,
        net: NeuralNet,
        data: SemiSupervisedData,
        sizes: list[int],
    ) -> None:
        self.model = model
        self.net = net
        self.data = data
        self.history: list[dict[str, Any]] = []
        self.record: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        L = len(data.y)
        per_student = model.finetune_epochs * L
        on_sample = model.pretrain_epochs if model.two_stage else model.finetune_epochs
        texts = per_student + sum((1 + on_sample) * size + L + per_student for size in sizes)
        self.trainer = SupervisedTrainer(model, net, data.classes, texts, "self-pretraining")
        self.root, self.progress = self.trainer.root, self.trainer.progress
        # hard labels, scaled by the weights of the user
        self.hard = one_hot(data.y, data.n_classes)
        # at T = 1 the soft terms are plain cross-entropies against one-hot pseudo-labels
        self.T = model.temperature if model.distillation else 1.0

    def rng(self, t: int) -> np.random.Generator:
        """Draws the sample of iteration `t`; a function of `t` alone."""
        return np.random.default_rng(derive_seed(self.root, t, 1))

    def supervised_start(self) -> NeuralNet:
        """Step 1: a fresh net, trained on L with hard labels and a slanted rate."""
        data = self.data
        with timed(self.seconds, "supervised"):
            M, loss = self.trainer.train(data.X_labeled, data.y, 0, weights=data.weights)
        self.record["loss"] = {"supervised": loss}
        self.end_iteration(0, M, M)
        return M

    def soft_labels(self, M2: NeuralNet, X: Any) -> FloatArray:
        """Label by the teacher (steps 5 and 7): tempered probabilities, or one-hot without T."""
        start = time.perf_counter()
        P = tempered_softmax(predict_logits(M2, X, self.data.n_classes), self.T)
        if not self.model.distillation:
            P = one_hot(predicted_classes(P), self.data.n_classes).astype(np.float64)
        self.progress.advance(get_len(X))
        self.seconds["labeling"] = self.seconds.get("labeling", 0.0) + time.perf_counter() - start
        return P

    def note_groups(
        self, before: Mapping[int, GroupStatistics], after: Mapping[int, GroupStatistics]
    ) -> None:
        """Keep the class distributions before and after inertia."""
        for name, groups in (("groups_before", before), ("groups_after", after)):
            self.record[name] = {
                plain_label(self.data.classes[c]): {
                    "count": g.count,
                    "mean": g.mean,
                    "variance": g.variance,
                }
                for c, g in groups.items()
            }

    def student(self, t: int, C: Any, P: FloatArray, q: FloatArray) -> NeuralNet:
        """Train a fresh net on the pseudo-labels and then on L (steps 8 to 10)."""
        data = self.data
        codes = predicted_classes(P)
        self.record["pseudo_label_counts"] = class_counts(codes, data.classes)
        on_C = distillation_targets(np.zeros_like(P), P)
        on_L = distillation_targets(self.hard, q, data.weights)
        with isolated(derive_seed(self.root, t)):
            if self.model.two_stage:
                return self._two_stages(t, C, on_C, codes, on_L)
            return self._one_stage(t, C, on_C, codes, on_L)

    def _two_stages(
        self,
        t: int,
        C: Any,
        on_C: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int64],
        on_L: npt.NDArray[np.float32],
    ) -> NeuralNet:
        model, data = self.model, self.data
        M1 = fresh_net(self.net, data.classes, model.pretrain_epochs)
        n_C = n_steps(M1, C, on_C, model.pretrain_epochs)
        n_L = n_steps(M1, data.X_labeled, on_L, model.finetune_epochs)
        schedule = (
            RightTrapezoidalLR(n_constant=n_C, n_decay=max(n_L, 1))
            if model.lr_schedule == "right_trapezoidal"
            else ScheduledLR(partial(slanted, n_steps=n_C + n_L))
        ).initialize()
        rng = np.random.default_rng(derive_seed(self.root, t, 2))
        start = time.perf_counter()
        # stage 1: distillation alone, on the pseudo-labelled sample
        set_loss(M1, lam=1.0, temperature=self.T, max_epochs=model.pretrain_epochs)
        stage1 = self._train(
            M1, C, on_C, codes, epochs=model.pretrain_epochs, schedule=schedule, rng=rng
        )
        middle = time.perf_counter()
        schedule.step_ = n_C  # also if a callback of the user's ended stage 1 early
        # stage 2: true labels and distillation, mixed by λ
        set_loss(
            M1,
            lam=model.lam,
            temperature=self.T,
            max_epochs=model.finetune_epochs,
            reset_optimizer=model.reset_optimizer,
        )
        stage2 = self._train(
            M1,
            data.X_labeled,
            on_L,
            data.y,
            epochs=model.finetune_epochs,
            schedule=schedule,
            rng=rng,
        )
        self.record["loss"] = {"stage1": stage1, "stage2": stage2}
        self.seconds.update(stage1=middle - start, stage2=time.perf_counter() - middle)
        return M1

    def _one_stage(
        self,
        t: int,
        C: Any,
        on_C: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int64],
        on_L: npt.NDArray[np.float32],
    ) -> NeuralNet:
        """Ablation: one run over C and L together, with a slanted rate."""
        model, data = self.model, self.data
        M1 = fresh_net(self.net, data.classes, model.finetune_epochs)
        X = concatenated(C, data.X_labeled)
        # λ differs from row to row here, so it is multiplied into the targets
        K = data.n_classes
        mixed = on_L * np.repeat([1 - model.lam, model.lam], K).astype(np.float32)
        targets = np.concatenate([on_C, mixed])
        steps = n_steps(M1, X, targets, model.finetune_epochs)
        start = time.perf_counter()
        set_loss(M1, lam=None, temperature=self.T, max_epochs=model.finetune_epochs)
        loss = self._train(
            M1,
            X,
            targets,
            np.concatenate([codes, data.y]),
            epochs=model.finetune_epochs,
            schedule=ScheduledLR(partial(slanted, n_steps=steps)).initialize(),
            rng=np.random.default_rng(derive_seed(self.root, t, 2)),
        )
        self.record["loss"] = {"one_stage": loss}
        self.seconds["one_stage"] = time.perf_counter() - start
        return M1

    def _train(
        self,
        M: NeuralNet,
        X: Any,
        targets: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int64],
        *,
        epochs: int,
        schedule: ScheduledLR,
        rng: np.random.Generator,
    ) -> list[float]:
        return train(
            M,
            X,
            targets,
            codes,
            epochs=epochs,
            schedule=schedule,
            balanced=self.model.balanced_batches,
            rng=rng,
            progress=self.progress,
        )

    def end_iteration(self, t: int, M1: NeuralNet, M2: NeuralNet) -> None:
        """Step 11: file the record, free memory, tell the user's callback."""
        drawn = sum(self.record.get("pseudo_label_counts", {}).values())
        entry = {"iteration": t, "sample_size": drawn, **self.record, "seconds": self.seconds}
        self.history.append(entry)
        self.record, self.seconds = {}, {}
        release_optimizer(M2)
        self.progress.say(f"iteration {t}")
        if self.model.on_iteration is not None:
            self.model.on_iteration(Iteration(t, M1, M2, entry, self.model, self.data.n_classes))
