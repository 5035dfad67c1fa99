"""Where a fit stands after an iteration: for the next one, for a checkpoint, for the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from skorch import NeuralNet

from sklearn_spt._adjustment import logit_adjusted
from sklearn_spt._functional import mean_probabilities, tempered_softmax
from sklearn_spt._training import isolated, predict_logits
from sklearn_spt._validation import check_option

IntArray = npt.NDArray[np.int64]
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
    logit_adjustment : float
        τ of the ensemble.
    """

    number: int
    student: NeuralNet
    teacher: NeuralNet
    record: dict[str, Any]
    logit_adjustment: float
    _ensemble: tuple[NeuralNet, ...]
    _model: Any
    _shares: FloatArray

    def predict_proba(self, X: Any, which: str = "ensemble") -> FloatArray:
        """Probabilities of the "student", the "teacher", or the "ensemble".

        The last is what the fitted classifier would return if the fit ended here; it alone is
        adjusted by `logit_adjustment`.
        """
        check_option(which, "which", ("ensemble", "student", "teacher"))
        nets = {
            "student": (self.student,),
            "teacher": (self.teacher,),
            "ensemble": self._ensemble,
        }[which]
        with isolated():
            encoded = self._model._encode(self.student, X, reset=False)
            K = len(self._shares)
            P = mean_probabilities(*(tempered_softmax(predict_logits(n, encoded, K)) for n in nets))
        return logit_adjusted(P, self._shares, self.logit_adjustment) if which == "ensemble" else P


@dataclass(frozen=True)
class Best:
    """The nets that did best on rows that were held out, and after which iteration."""

    t: int
    score: float
    M1: NeuralNet
    M2: NeuralNet
    ensemble: tuple[NeuralNet, ...]
    tau: float


@dataclass(frozen=True)
class State:
    """Where a fit stands after iteration `t`: all that the next one needs."""

    t: int
    M1: NeuralNet
    M2: NeuralNet
    S: dict[int, tuple[float, float]]
    pseudo: IntArray
    labeled_iter: IntArray
    start: NeuralNet | None = None  # the supervised start, if it is to predict with the others
    best: Best | None = None
    tau: float = 0.0  # of the logit adjustment

    @property
    def ensemble(self) -> tuple[NeuralNet, ...]:
        """What predicts if the fit ends here, each net once."""
        nets = (self.M2, self.M1) if self.start is None else (self.start, self.M2, self.M1)
        return tuple({id(net): net for net in nets}.values())

    def followed_by(
        self,
        M1: NeuralNet,
        M2: NeuralNet,
        S: dict[int, tuple[float, float]],
        rows: IntArray,
        codes: IntArray,
    ) -> State:
        """State after the next iteration, which gave the classes `codes` to the `rows` of U."""
        pseudo, labeled_iter = self.pseudo.copy(), self.labeled_iter.copy()
        pseudo[rows], labeled_iter[rows] = codes, self.t + 1
        return State(self.t + 1, M1, M2, S, pseudo, labeled_iter, self.start, self.best)
