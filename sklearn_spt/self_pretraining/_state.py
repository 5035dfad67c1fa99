"""The state of a fit after an iteration, and its public view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skorch import NeuralNet

from sklearn_spt._functional import mean_probabilities, tempered_softmax
from sklearn_spt._random import isolated
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_option
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.self_pretraining._logit_adjustment import logit_adjusted

if TYPE_CHECKING:
    from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier


@dataclass(frozen=True)
class State:
    """The state after iteration `t`; at t = 0 teacher and student are the supervised start."""

    t: int
    student: NeuralNet
    teacher: NeuralNet | None
    S: dict[int, tuple[float, float]]  # mean and variance of each class, for inertia
    pseudo: IntArray  # code of each document of U, -1 if it was never drawn
    labeled_iter: IntArray  # iteration that gave it, or -1
    start: NeuralNet | None  # None if the ensemble is without it

    @property
    def ensemble(self) -> list[NeuralNet]:
        """The nets that predict, each once."""
        nets = [net for net in (self.start, self.teacher, self.student) if net is not None]
        return list({id(net): net for net in nets}.values())

    def followed_by(
        self, student: NeuralNet, S: dict[int, tuple[float, float]], rows: IntArray, codes: IntArray
    ) -> State:
        """Return the state after an iteration that gave `codes` to the `rows` of U."""
        pseudo, labeled_iter = self.pseudo.copy(), self.labeled_iter.copy()
        pseudo[rows], labeled_iter[rows] = codes, self.t + 1
        return State(self.t + 1, student, self.student, S, pseudo, labeled_iter, self.start)


@dataclass(frozen=True)
class Iteration:
    """State of a fit after an iteration: the argument of ``on_iteration``.

    Attributes
    ----------
    number : int
        0 for the supervised start, then 1, 2, ...
    student : skorch.NeuralNet
        The net that was trained in this iteration.
    teacher : skorch.NeuralNet
        The net that labelled for it; the student itself at the start.
    record : dict
        The entry of ``history_``.
    logit_adjustment : float
        τ of the ensemble.
    """

    number: int
    student: NeuralNet
    teacher: NeuralNet
    record: dict[str, Any]
    logit_adjustment: float
    _ensemble: list[NeuralNet]
    _model: SelfPretrainingClassifier
    _shares: FloatArray

    def predict_proba(self, X: Any, which: str = "ensemble") -> FloatArray:
        """Predict class probabilities with the ensemble, the student or the teacher.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.
        which : {"ensemble", "student", "teacher"}, default="ensemble"
            The ensemble is what the classifier would return if the fit ended here. Only its
            probabilities are adjusted by `logit_adjustment`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        check_option(which, "which", ("ensemble", "student", "teacher"))
        nets = {"ensemble": self._ensemble, "student": [self.student], "teacher": [self.teacher]}
        with isolated():
            encoded = self._model._encode(self.student, X, reset=False)
            found = [predict_logits(net, encoded, len(self._shares)) for net in nets[which]]
            P = mean_probabilities(*map(tempered_softmax, found))
        return logit_adjusted(P, self._shares, self.logit_adjustment) if which == "ensemble" else P
