"""The state of a fit of Self-Pretraining after an iteration, and its public view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skorch import NeuralNet

from sklearn_spt._losses import softmax
from sklearn_spt._training import predict_logits

FloatArray = NDArray[np.float64]


@dataclass
class State:
    """The state after iteration `t`; at t = 0 the students are the supervised teachers."""

    t: int
    students: list[NeuralNet]  # the teachers of the next iteration
    teachers: list[NeuralNet]  # of this iteration, if they predict too
    supervised: list[NeuralNet]  # the first teachers, if they predict too
    S: dict[int, tuple[float, float]]  # mean and variance of each class, for inertia
    pseudo: NDArray[np.intp]  # class code of each row of U, -1 if it was never drawn
    labeled_iter: NDArray[np.intp]  # iteration that gave it, or -1

    def members(self) -> tuple[list[NeuralNet], FloatArray]:
        """Return the nets that predict, each once, and their weights in the mean.

        The weight of each student is 1, and the supervised teachers share 1.
        """
        nets = {id(M): M for M in (*self.supervised, *self.teachers, *self.students)}
        first = {id(M) for M in (self.students if self.t == 0 else self.supervised)}
        weights = [1 / len(first) if key in first else 1.0 for key in nets]
        return list(nets.values()), np.array(weights)

    def predict_proba(self, X: Any, n_classes: int) -> FloatArray:
        """Return the mean of their class probabilities of encoded documents."""
        nets, weights = self.members()
        P = [softmax(predict_logits(M, X, n_classes)) for M in nets]
        return np.asarray(np.average(P, axis=0, weights=weights))


@dataclass(frozen=True)
class Iteration:
    """State of a fit after an iteration: the argument of ``on_iteration``.

    Attributes
    ----------
    number : int
        0 for the first teachers, then 1, 2, ...
    students : list of skorch.NeuralNet
        The nets that were trained in this iteration.
    record : dict
        The entry of ``history_``.
    """

    number: int
    students: list[NeuralNet]
    record: dict[str, Any]
    _predict: Callable[[Any], FloatArray]

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the class probabilities that the classifier would give if the fit ended here.

        Where `refit_head` acts, also the first teachers have learned from unlabelled documents.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        return self._predict(X)
