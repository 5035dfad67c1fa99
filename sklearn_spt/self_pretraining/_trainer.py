"""How Self-Pretraining trains one teacher or student, and what it notes down meanwhile.

The algorithm itself is `SelfPretrainingClassifier._fit`; here are its steps 1, 3, 5 and 7 to 11.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_memory
from skorch import NeuralNet

from sklearn_spt._base import SemiSupervisedData, class_counts, concatenated, plain_label
from sklearn_spt._functional import mean_probabilities, predicted_classes, tempered_softmax
from sklearn_spt._holdout import HoldOut
from sklearn_spt._random import derive_seed, isolated, random_states, set_random_states
from sklearn_spt._sampling import draw_sample
from sklearn_spt._supervised import SupervisedTrainer, mean_losses, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt.nets._callbacks import RightTrapezoidalLR, ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, one_hot
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._training import fresh_net, n_steps, select_rows, set_loss, start_head, train
from sklearn_spt.self_pretraining._checkpointing import Checkpoint, fit_key, recall
from sklearn_spt.self_pretraining._inertia import GroupStatistics
from sklearn_spt.self_pretraining._labeling import TeacherLogits
from sklearn_spt.self_pretraining._logit_adjustment import Adjustment, class_shares, logit_adjusted
from sklearn_spt.self_pretraining._state import Best, Iteration, State, n_predicting

T = TypeVar("T")

#: Parameters that change no result.
_NO_MATTER = (
    *("estimator", "memory", "checkpoint_dir", "on_iteration"),
    *("unlabeled_marker", "random_state", "verbose"),
)


class Run:
    """One fit in progress: trains nets by the parameters of the model and keeps the records."""

    def __init__(
        self,
        model: Any,
        net: NeuralNet,
        data: SemiSupervisedData,
        sizes: list[int],
        held: HoldOut | None = None,
    ) -> None:
        self.model = model
        self.net = net
        self.data = data
        self.held = held
        self.history: list[dict[str, Any]] = []
        self.record: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.sizes = sizes
        with_starts = model.ensemble == "with_start"
        self._n_predicting = partial(n_predicting, n_starts=model.n_starts, with_starts=with_starts)
        auto = model.logit_adjustment == "auto"
        self.adjustment = Adjustment(
            # shuffled rows leave nothing to undo
            0.0 if auto and not model.balanced_batches else model.logit_adjustment,
            class_shares(data.y, data.n_classes),  # rows are drawn whatever they weigh
            class_shares(data.y, data.n_classes, data.weights),
            n_unlabeled=data.n_unlabeled,
            n_iter=len(sizes),
            n_members=self._n_predicting,
            # what is shown or scored after an iteration is what would be returned
            in_each=held is not None or model.on_iteration is not None,
        )
        texts = self._texts(len(sizes))
        self.trainer = SupervisedTrainer(model, net, data.classes, texts, "self-pretraining")
        self.root, self.progress = self.trainer.root, self.trainer.progress
        # hard labels, scaled by the weights of the user
        self.hard = one_hot(data.y, data.n_classes)
        # at T = 1 the soft terms are plain cross-entropies against one-hot pseudo-labels
        self.T = model.temperature if model.distillation else 1.0
        self.memory = check_memory(model.memory)
        self.logits = TeacherLogits(data, self.progress)
        self.head: Any = None
        self.checkpoint: Checkpoint | None = None

    def _texts(self, t: int) -> int:
        """Texts that are trained on and labelled from the start to iteration `t`."""
        model, L = self.model, len(self.data.y)
        on_L = (model.n_starts + t) * model.finetune_epochs * L
        on_sample = model.pretrain_epochs if model.two_stage else model.finetune_epochs
        on_samples = on_sample * sum(self.sizes[:t])
        with_all = model.teacher == "ensemble"
        teaching = [1 if i > 0 and not with_all else self._n_predicting(i) for i in range(t)]
        labelled = sum(n * (size + L) for n, size in zip(teaching, self.sizes[:t], strict=True))
        held = 0 if self.held is None else len(self.held.y)
        scored = held * sum(map(self._n_predicting, range(t + 1)))
        return int(on_L + on_samples + labelled + scored) + self.adjustment.texts(t)

    def rng(self, t: int) -> np.random.Generator:
        """Draws the sample of iteration `t`; a function of `t` alone."""
        return np.random.default_rng(derive_seed(self.root, t, 1))

    # -- work done before -----------------------------------------------------------------------
    def _key(self, *ignored: str, **parts: Any) -> str:
        """Hash what a part of the fit depends on: data, parameters but those `ignored`, seed."""
        params = self.model.get_params(deep=False)
        for parameter in (*_NO_MATTER, *ignored):
            del params[parameter]
        data = self.data
        L = (data.X_labeled, data.y, data.weights, data.classes)
        return fit_key(self.net, params=params, L=L, root=self.root, **parts)

    def _start_key(self) -> str:
        """Hash what the supervised start depends on."""
        kept = ("finetune_epochs", "balanced_batches")
        names = set(self.model.get_params(deep=False)) - {*kept, *_NO_MATTER}
        return self._key(*names)

    @cached_property
    def _first_key(self) -> str:
        """Hash what the labels and stage 1 of the first student depend on.

        λ weighs stage 2, and inertia begins with the second student.
        """
        ignored = ("lam", "alpha", "inertia_variance", "inertia_state")
        predicting = ("ensemble", "logit_adjustment")
        later = ("step_size", "initial_step_size", "max_iter", "teacher")
        return self._key(*ignored, *predicting, *later, U=self.data.X_unlabeled, size=self.sizes[0])

    def _recall(self, key: Callable[[], str], name: str, compute: Callable[[], T], texts: int) -> T:
        """Do a part of the fit, or take it from the memory."""
        if self.memory.store_backend is None:
            return compute()
        result, known = recall(self.memory, name, key(), compute)
        if known:
            self.progress.advance(texts)
        return result

    def resumed(self) -> State | None:
        """State at which an equal fit was killed, if there is one."""
        if self.model.checkpoint_dir is None:
            return None
        key = self._key(U=self.data.X_unlabeled, held=self.held)
        self.checkpoint = Checkpoint(self.model.checkpoint_dir, key)
        kept = self.checkpoint.load()
        if kept is None:
            return None
        self.history, self.logits.known = kept["history"], kept["logits"]
        state = State(**kept["state"])
        self.progress.advance(self._texts(state.t) - self.adjustment.texts_again(state.t))
        return state

    def complete(self) -> None:
        """Forget the state of a fit that ended."""
        if self.checkpoint is not None:
            self.checkpoint.remove()

    # -- the steps ------------------------------------------------------------------------------
    def supervised_start(self) -> State:
        """Step 1: fresh nets, trained on L with hard labels and a slanted rate."""
        with timed(self.seconds, "supervised"):
            trained = [self._start(k) for k in range(self.model.n_starts)]
        self.head = self.trainer.head  # students start from the same labels
        nets = tuple(M for M, _ in trained)
        self.record["loss"] = {"supervised": mean_losses([losses for _, losses in trained])}
        nobody = np.full(self.data.n_unlabeled, -1, dtype=np.int64)
        starts = nets if self.model.ensemble == "with_start" else ()
        return self.end_iteration(State(0, nets, nets, {}, nobody, nobody, starts))

    def _start(self, k: int) -> tuple[NeuralNet, list[float]]:
        """Train the supervised start number `k`; the first is that of `BertClassifier`."""
        data, trainer = self.data, self.trainer
        path = (0,) if k == 0 else (0, 5, k)
        settings = {"weights": data.weights, "head": trainer.head}
        return self._recall(
            self._start_key,
            f"start_{k}",
            lambda: trainer.train(data.X_labeled, data.y, *path, **settings),
            self.model.finetune_epochs * len(data.y),
        )

    def soft_labels(self, now: State, rows: IntArray, C: Any) -> tuple[FloatArray, FloatArray]:
        """Label C, which are `rows` of U, and L (steps 3, 5 and 7): tempered probabilities.

        The teacher is the last student, or all nets of the ensemble by the mean of their
        probabilities. Without distillation the classes themselves are the labels, one-hot.
        """
        t, with_all = now.t + 1, self.model.teacher == "ensemble"
        M2 = now.ensemble if with_all else now.M1
        remaining = (*now.starts, *now.M1)  # who predicts with the next student
        self.adjustment.let_go(remaining)
        again = remaining if with_all and t < len(self.sizes) else ()
        K, texts = self.data.n_classes, len(M2) * (len(rows) + len(self.data.y))
        with timed(self.seconds, "labeling"):
            ask = partial(self.logits.of, M2, rows, C)
            of = (
                self._recall(lambda: self._first_key, "teacher_logits", ask, texts)
                if t == 1
                else ask()
            )
            self.logits.keep(again, M2, rows, of)
            P, q = (
                mean_probabilities(*(tempered_softmax(z, self.T) for z in zs))
                for zs in zip(*of, strict=True)
            )
            if not self.model.distillation:
                P, q = (one_hot(predicted_classes(p), K).astype(np.float64) for p in (P, q))
        return P, q

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

    def note_changes(self, before: IntArray, after: IntArray) -> None:
        """Keep the share of earlier pseudo-labels of the sample that became another."""
        again = before >= 0
        changed = float((before != after)[again].mean()) if again.any() else None
        self.record["changed"] = changed

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

    def _fresh(self, epochs: int) -> NeuralNet:
        """Fresh net; where it can start its last layer from labels, from the true ones."""
        data = self.data
        M1 = fresh_net(self.net, data.classes, epochs)
        L = (data.X_labeled, data.y, data.weights)
        balanced = self.model.balanced_batches
        self.head = start_head(M1, *L, balanced=balanced, known=self.head)
        return M1

    def _two_stages(
        self,
        t: int,
        C: Any,
        on_C: npt.NDArray[np.float32],
        codes: IntArray,
        on_L: npt.NDArray[np.float32],
    ) -> NeuralNet:
        model, data = self.model, self.data
        M1 = self._fresh(model.pretrain_epochs)
        n_C = n_steps(M1, C, on_C, model.pretrain_epochs)
        n_L = n_steps(M1, data.X_labeled, on_L, model.finetune_epochs)
        schedule = (
            RightTrapezoidalLR(n_constant=n_C, n_decay=max(n_L, 1))
            if model.lr_schedule == "right_trapezoidal"
            else ScheduledLR(partial(slanted, n_steps=n_C + n_L))
        ).initialize()

        def first_stage() -> tuple[NeuralNet, list[float], np.random.Generator, dict[str, Any]]:
            """Stage 1: distillation alone, on the pseudo-labelled sample."""
            epochs = model.pretrain_epochs
            rng = np.random.default_rng(derive_seed(self.root, t, 2))
            set_loss(M1, lam=1.0, temperature=self.T, max_epochs=epochs)
            loss = self._train(
                M1,
                C,
                on_C,
                codes,
                epochs=epochs,
                schedule=schedule,
                rng=rng,
                keep_optimizer=not model.reset_optimizer,
            )
            return M1, loss, rng, random_states()

        start = time.perf_counter()
        if t == 1:
            texts = model.pretrain_epochs * len(codes)
            M1, stage1, rng, states = self._recall(
                lambda: self._first_key, "stage1", first_stage, texts
            )
            set_random_states(states)
        else:
            M1, stage1, rng, _ = first_stage()
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
        codes: IntArray,
        on_L: npt.NDArray[np.float32],
    ) -> NeuralNet:
        """Ablation: one run over C and L together, with a slanted rate."""
        model, data = self.model, self.data
        M1 = self._fresh(model.finetune_epochs)
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
        codes: IntArray,
        *,
        epochs: int,
        schedule: ScheduledLR,
        rng: np.random.Generator,
        keep_optimizer: bool = False,
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
            keep_optimizer=keep_optimizer,
        )

    def end_iteration(self, state: State) -> State:
        """Step 11: score and file the iteration, save the state, tell the user's callback."""
        if self.adjustment.due(state.t):
            state = replace(state, tau=self.adjustment.tau(state.ensemble, self._looked_at))
        state = self._scored(state)
        drawn = sum(self.record.get("pseudo_label_counts", {}).values())
        entry = {
            "iteration": state.t,
            "sample_size": drawn,
            **self.record,
            "seconds": self.seconds,
        }
        self.history.append(entry)
        self.record, self.seconds = {}, {}
        if self.checkpoint is not None:
            kept = {"history": self.history, "logits": self.logits.known}
            self.checkpoint.save({"state": vars(state), **kept})
        self.progress.say(f"iteration {state.t}")
        if self.model.on_iteration is not None:
            nets = {"student": state.M1, "teacher": state.M2, "ensemble": state.ensemble}
            of_model = {"_nets": nets, "_model": self.model, "_shares": self.adjustment.shares}
            self.model.on_iteration(
                Iteration(state.t, state.M1[0], state.M2[0], entry, state.tau, **of_model)
            )
        return state

    def _looked_at(self, M: NeuralNet) -> FloatArray:
        """Probabilities of the unlabelled documents by which the adjustment is chosen."""
        rng = np.random.default_rng(derive_seed(self.root, 0, 4))
        rows = np.sort(draw_sample(self.data.n_unlabeled, self.adjustment.n_documents, rng))
        with timed(self.seconds, "adjustment"):
            return self.trainer.probabilities(M, select_rows(M, self.data.X_unlabeled, rows))

    # -- rows that were held out ----------------------------------------------------------------
    def _scored(self, state: State) -> State:
        """Score what would be returned if the fit ended here."""
        if self.held is None:
            return state
        with timed(self.seconds, "validation"):
            found = [self.trainer.probabilities(M, self.held.X) for M in state.ensemble]
            P = mean_probabilities(*found)
            P = logit_adjusted(P, self.adjustment.shares, state.tau)
        score = self.record["validation_score"] = self.held.score(P)
        if state.best is None or score > state.best.score:
            best = Best(state.t, score, state.M1, state.M2, state.ensemble, state.tau)
            return replace(state, best=best)
        return state

    def out_of_patience(self, state: State) -> bool:
        """Whether the students have not become better for `patience` iterations."""
        patience = self.model.patience
        return (
            patience is not None and state.best is not None and state.t - state.best.t >= patience
        )
