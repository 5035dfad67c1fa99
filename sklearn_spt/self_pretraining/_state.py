"""Where a fit stands after an iteration: for the next one, for a checkpoint, for the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skorch import NeuralNet

from sklearn_spt._functional import mean_probabilities, tempered_softmax
from sklearn_spt._random import isolated
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_option
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.self_pretraining._logit_adjustment import logit_adjusted

Nets = tuple[NeuralNet, ...]


@dataclass(frozen=True)
class Iteration:
    """What ``on_iteration`` is called with after each iteration.

    Attributes
    ----------
    number : int
        0 is the supervised start, then 1, 2, ...
    student : skorch.NeuralNet
        The net trained in this iteration; of several supervised starts the first.
    teacher : skorch.NeuralNet
        The student before, which labelled for it, alone or with others; of several supervised
        starts the first, and the student itself at the start.
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
    _nets: dict[str, Nets]
    _model: Any
    _shares: FloatArray

    def predict_proba(self, X: Any, which: str = "ensemble") -> FloatArray:
        """Probabilities of the "student", the "teacher", or the "ensemble".

        The last is what the fitted classifier would return if the fit ended here; it alone is
        adjusted by `logit_adjustment`. The teacher is the student before, also where others
        labelled with it. Several supervised starts are one student, or teacher: the mean of their
        probabilities.
        """
        check_option(which, "which", ("ensemble", "student", "teacher"))
        with isolated():
            encoded = self._model._encode(self.student, X, reset=False)
            K = len(self._shares)
            found = [predict_logits(net, encoded, K) for net in self._nets[which]]
            P = mean_probabilities(*map(tempered_softmax, found))
        return logit_adjusted(P, self._shares, self.logit_adjustment) if which == "ensemble" else P


@dataclass(frozen=True)
class Best:
    """The nets that did best on rows that were held out, and after which iteration."""

    t: int
    score: float
    M1: Nets
    M2: Nets
    ensemble: Nets
    tau: float


@dataclass(frozen=True)
class State:
    """Where a fit stands after iteration `t`: all that the next one needs.

    M1 are the nets that were trained in it, which teach next, and M2 those of the iteration before,
    which taught in it: one net each, but for the supervised starts. Others may teach with them.
    """

    t: int
    M1: Nets
    M2: Nets
    S: dict[int, tuple[float, float]]
    pseudo: IntArray
    labeled_iter: IntArray
    starts: Nets = ()  # the supervised starts, if they are to predict with the others
    best: Best | None = None
    tau: float = 0.0  # of the logit adjustment

    @property
    def ensemble(self) -> Nets:
        """What predicts if the fit ends here, each net once."""
        nets = (*self.starts, *self.M2, *self.M1)
        return tuple({id(net): net for net in nets}.values())

    def followed_by(
        self,
        student: NeuralNet,
        S: dict[int, tuple[float, float]],
        rows: IntArray,
        codes: IntArray,
    ) -> State:
        """State after the next iteration, which gave the classes `codes` to the `rows` of U."""
        pseudo, labeled_iter = self.pseudo.copy(), self.labeled_iter.copy()
        pseudo[rows], labeled_iter[rows] = codes, self.t + 1
        nets = ((student,), self.M1)  # step 3: the last student has taught
        return State(self.t + 1, *nets, S, pseudo, labeled_iter, self.starts, self.best)


def n_predicting(t: int, n_starts: int, with_starts: bool) -> int:
    """Count the nets of `State.ensemble` after iteration `t`, which a progress bar needs before."""
    teachers = n_starts if t <= 1 else 1
    return (n_starts if with_starts and t > 1 else 0) + teachers + (1 if t > 0 else 0)
