"""The state of a fit after an iteration, and its public view."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
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
    """The state after iteration `t`; at t = 0 the students are the supervised start."""

    t: int
    students: list[NeuralNet]  # the teachers of the next iteration
    teachers: list[NeuralNet]  # of this iteration, if they predict too
    S: dict[int, tuple[float, float]]  # mean and variance of each class, for inertia
    pseudo: IntArray  # code of each document of U, -1 if it was never drawn
    labeled_iter: IntArray  # iteration that gave it, or -1
    start: list[NeuralNet]  # the supervised start, if it predicts too
    rule: str  # the parameter `ensemble`

    @property
    def ensemble(self) -> list[NeuralNet]:
        """The nets that predict, each once."""
        nets = (*self.start, *self.teachers, *self.students)
        return list({id(net): net for net in nets}.values())

    @property
    def weights(self) -> FloatArray:
        """Weights of these nets: that of each student is 1, and the supervised starts share 1."""
        starts = self.students if self.t == 0 else self.teachers if self.t == 1 else self.start
        share = {id(net): 1 / len(starts) for net in starts}
        return np.array([share.get(id(net), 1.0) for net in self.ensemble])

    def without_spent_nets(self) -> State:
        """Return the state with those nets alone that predict after the next iteration."""
        return replace(self, teachers=[], students=[] if self.rule == "last" else self.students)

    def followed_by(
        self,
        students: list[NeuralNet],
        S: dict[int, tuple[float, float]],
        rows: IntArray,
        codes: IntArray,
    ) -> State:
        """Return the state after an iteration that gave `codes` to the `rows` of U."""
        pseudo, labeled_iter = self.pseudo.copy(), self.labeled_iter.copy()
        pseudo[rows], labeled_iter[rows] = codes, self.t + 1
        teachers = self.without_spent_nets().students
        return State(self.t + 1, students, teachers, S, pseudo, labeled_iter, self.start, self.rule)


@dataclass(frozen=True)
class Iteration:
    """State of a fit after an iteration: the argument of ``on_iteration``.

    Attributes
    ----------
    number : int
        0 for the supervised start, then 1, 2, ...
    students : list of skorch.NeuralNet
        The nets that were trained in this iteration. They label for the next one.
    record : dict
        The entry of ``history_``.
    logit_adjustment : float
        τ of the ensemble.
    """

    number: int
    students: list[NeuralNet]
    record: dict[str, Any]
    logit_adjustment: float
    _state: State
    _model: SelfPretrainingClassifier
    _shares: FloatArray

    def predict_proba(self, X: Any, which: str = "ensemble") -> FloatArray:
        """Predict class probabilities with the ensemble or the students.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.
        which : {"ensemble", "students"}, default="ensemble"
            The ensemble is what the classifier would return if the fit ended here. Only its
            probabilities are adjusted by `logit_adjustment`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        check_option(which, "which", ("ensemble", "students"))
        whole = which == "ensemble"
        nets = self._state.ensemble if whole else self.students
        with isolated():
            encoded = self._model._encode(nets[0], X, reset=False)
            found = [predict_logits(net, encoded, len(self._shares)) for net in nets]
            weights = self._state.weights if whole else None
            P = mean_probabilities(*map(tempered_softmax, found), weights=weights)
        return logit_adjusted(P, self._shares, self.logit_adjustment) if whole else P
