"""Observers of a fit: they see the state after each iteration, and do not change the training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._functional import class_counts, mean_probabilities, plain_label
from sklearn_spt._holdout import HoldOut
from sklearn_spt._progress import iteration_line
from sklearn_spt._random import draw_sample
from sklearn_spt._supervised import timed
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt.self_pretraining._checkpointing import Checkpoint
from sklearn_spt.self_pretraining._inertia import GroupStatistics, InertialResult
from sklearn_spt.self_pretraining._logit_adjustment import (
    LEAST_DOCUMENTS,
    MOST_DOCUMENTS,
    class_shares,
    logit_adjusted,
    matching_tau,
)
from sklearn_spt.self_pretraining._state import Iteration, State
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer

if TYPE_CHECKING:
    from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier

Entry = dict[str, Any]


class LogitAdjustment:
    """Chooses τ if none is given: after each iteration if `always`, else at the end of the fit."""

    def __init__(
        self, given: float | str, trainer: SelfPretrainingTrainer, n_iter: int, *, always: bool
    ) -> None:
        data = trainer.data
        self.trainer = trainer
        self.n_iter = n_iter
        self.always = always
        # Weights do not change how often rows are drawn, but they change the target.
        self.shares = class_shares(data.y, data.n_classes)
        self.target = class_shares(data.y, data.n_classes, data.weights)
        auto = given == "auto"
        # There is nothing to correct without balanced batches or with equal shares.
        chosen = auto and trainer.balanced_batches and np.ptp(self.shares) > 0
        enough = data.n_unlabeled >= LEAST_DOCUMENTS
        self.n_documents = min(data.n_unlabeled, MOST_DOCUMENTS) if chosen and enough else 0
        self.tau = 0.0 if auto else float(given)
        self._known: WeakKeyDictionary[NeuralNet, FloatArray] = WeakKeyDictionary()

    def on_iteration_end(self, state: State) -> None:
        """Choose τ if it is used now."""
        if self.always or state.t == self.n_iter:
            self._choose(state)

    def on_fit_end(self, state: State) -> None:
        """Choose τ if the fit ended before its last iteration."""
        if not self.always and state.t < self.n_iter:
            self._choose(state)

    def _choose(self, state: State) -> None:
        """Choose τ by unlabelled documents."""
        if self.n_documents:
            P = [self._probabilities(net) for net in state.ensemble]
            mean = mean_probabilities(*P, weights=state.weights)
            self.tau = matching_tau(mean, self.shares, self.target)

    def _probabilities(self, net: NeuralNet) -> FloatArray:
        if net not in self._known:
            data, trainer = self.trainer.data, self.trainer
            rows = np.sort(draw_sample(data.n_unlabeled, self.n_documents, trainer.rng(0, 4)))
            with timed(trainer.seconds, "adjustment"):
                self._known[net] = trainer.probabilities(
                    net, multi_indexing(data.X_unlabeled, rows)
                )
        return self._known[net]


@dataclass(frozen=True)
class Best:
    """The state with the best score on held-out rows."""

    state: State
    score: float
    tau: float


class Validation:
    """Scores the ensemble on held-out rows, and keeps the best state."""

    def __init__(
        self,
        held_out: HoldOut,
        trainer: SelfPretrainingTrainer,
        adjustment: LogitAdjustment,
    ) -> None:
        self.held_out = held_out
        self.trainer = trainer
        self.adjustment = adjustment
        self.best: Best | None = None

    def on_iteration_end(self, state: State, entry: Entry) -> None:
        """Score the ensemble, and keep its state if it is the best."""
        trainer, nets = self.trainer, state.ensemble
        with timed(trainer.seconds, "validation"):
            by_net = [trainer.probabilities(M, self.held_out.X) for M in nets]
            P = mean_probabilities(*by_net, weights=state.weights)
            P = logit_adjusted(P, self.adjustment.shares, self.adjustment.tau)
        score = entry["validation_score"] = self.held_out.score(P)
        if self.best is None or score > self.best.score:
            self.best = Best(state, score, self.adjustment.tau)


class Observers:
    """All observers of one fit."""

    def __init__(
        self,
        model: SelfPretrainingClassifier,
        trainer: SelfPretrainingTrainer,
        n_iter: int,
        held_out: HoldOut | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.model = model
        self.trainer = trainer
        self.n_iter = n_iter
        self.checkpoint = checkpoint
        self.history: list[Entry] = []
        self.iterations = model._task.subtask("iterations", n_iter + 1)
        self.iteration = self.iterations.subtask("iteration")
        #: Whether a callback of scikit-learn ends the fit.
        self.stopped = False
        self.adjustment = LogitAdjustment(
            model.logit_adjustment,
            trainer,
            n_iter,
            always=held_out is not None or model.on_iteration is not None,
        )
        self.validation = (
            None if held_out is None else Validation(held_out, trainer, self.adjustment)
        )

    @property
    def best(self) -> Best | None:
        """The best state on held-out rows; None if there are no such rows."""
        return None if self.validation is None else self.validation.best

    def resumed(self) -> State | None:
        """Return the state in the checkpoint, if there is one."""
        kept = None if self.checkpoint is None else self.checkpoint.load()
        if kept is None:
            return None
        state, best, watched = kept
        self.history, self.adjustment.tau = watched["history"], watched["tau"]
        if self.validation is not None and best is not None:
            self.validation.best = Best(best, *watched["best"])
        return state

    def on_iteration_begin(self, t: int, size: int) -> None:
        """Tell the progress bar how many texts the iteration takes."""
        self.iteration = self.iterations.subtask("iteration")
        self.trainer.progress.expect(self.trainer.n_texts(t, size))

    def on_iteration_end(self, state: State, entry: Entry) -> None:
        """Choose τ, score, add the entry to the history, save the state, call `on_iteration`."""
        self.adjustment.on_iteration_end(state)
        if self.validation is not None:
            self.validation.on_iteration_end(state, entry)
        entry["seconds"], self.trainer.seconds = self.trainer.seconds, {}
        self.history.append(entry)
        if self.checkpoint is not None:
            best = self.best
            watched = {
                "history": self.history,
                "tau": self.adjustment.tau,
                "best": None if best is None else (best.score, best.tau),
            }
            self.checkpoint.save(state, None if best is None else best.state, watched)
        self.trainer.progress.say(f"iteration {state.t} of {self.n_iter}")
        self.trainer.progress.line(iteration_line(entry))
        if self.model.on_iteration is not None:
            self.model.on_iteration(
                Iteration(
                    state.t,
                    state.students,
                    entry,
                    self.adjustment.tau,
                    state,
                    self.model,
                    self.adjustment.shares,
                )
            )
        self.stopped = self.iteration.end()

    def on_fit_end(self, state: State) -> None:
        """Choose τ if it is open, end the task of the iterations, and remove the checkpoint."""
        self.adjustment.on_fit_end(state)
        self.iterations.end()
        if self.checkpoint is not None:
            self.checkpoint.remove()


def iteration_entry(
    before: State,
    rows: IntArray,
    codes: IntArray,
    inertia: InertialResult | None,
    losses: dict[str, list[float]],
    data: SemiSupervisedData,
) -> Entry:
    """Return the entry of ``history_`` for an iteration that gave `codes` to the `rows` of U."""
    entry: Entry = {"iteration": before.t + 1, "sample_size": len(rows)}
    if inertia is not None:
        entry["groups_before"] = _groups(inertia.before, data.classes)
        entry["groups_after"] = _groups(inertia.after, data.classes)
    earlier = before.pseudo[rows]
    drawn_before = earlier >= 0
    changed = (earlier != codes)[drawn_before]
    entry["changed"] = float(changed.mean()) if len(changed) else None
    entry["pseudo_label_counts"] = class_counts(codes, data.classes)
    entry["loss"] = losses
    return entry


def _groups(groups: dict[int, GroupStatistics], classes: AnyArray) -> Entry:
    return {plain_label(classes[c]): vars(group).copy() for c, group in groups.items()}


def warn_unless_better(scores: list[float]) -> None:
    """Warn if no iteration scores above the supervised start, which is ``scores[0]``."""
    if len(scores) > 1 and max(scores) == scores[0]:
        warnings.warn(
            "the unlabelled documents did not help: on the held-out rows no iteration scores above "
            f"the supervised start ({scores[0]:.3f}), the last one {scores[-1]:.3f}; the "
            "supervised start is kept. Scores on few rows are unreliable: use "
            "compare_with_supervised to decide whether to use unlabelled documents.",
            UserWarning,
            stacklevel=5,
        )
