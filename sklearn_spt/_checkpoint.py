"""The state of a fit, what it predicts, and its folder, from which a killed fit goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from scipy.special import softmax
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._class_distributions import (
    LEAST_DOCUMENTS,
    MOST_DOCUMENTS,
    class_shares,
    logit_adjusted,
    matching_tau,
    matching_temperature,
)
from sklearn_spt._data import PartlyLabeled
from sklearn_spt._heads import Refit
from sklearn_spt._labels import Codes, FloatArray
from sklearn_spt._random import generator, seeded
from sklearn_spt._sealed import locked, read_sealed, replacing, versions, write_sealed
from sklearn_spt._teachers import split_teachers
from sklearn_spt._training import Trainer, probabilities


@dataclass(frozen=True)
class State:
    """The state after iteration `t`; at t = 0 the students are the first teachers."""

    t: int
    nets: dict[int, list[NeuralNet]]  # by iteration: the students of `t`, after others that predict
    S: dict[int, tuple[float, float]]  # mean and variance of each class, for inertia
    pseudo: Codes  # class code of each row of U, -1 if it was never drawn
    labeled_iter: Codes  # iteration that gave it, or -1
    history: list[dict[str, Any]]
    refits: dict[int, list[Refit]]  # of these nets, if any; a resumed fit makes them again

    @property
    def students(self) -> list[NeuralNet]:
        """The teachers of the next iteration."""
        return self.nets[self.t]

    def kept(self, ensemble: str) -> State:
        """Return the state without nets that will not predict after one more iteration."""
        keep = {"last": (), "last_two": (self.t,), "all": (0, self.t)}[ensemble]
        nets, refits = ({i: v for i, v in d.items() if i in keep} for d in (self.nets, self.refits))
        return replace(self, nets=nets, refits=refits)

    def following(
        self,
        students: list[NeuralNet],
        refits: list[Refit],
        S: dict[int, tuple[float, float]],
        rows: Codes,
        codes: Codes,
        record: dict[str, Any],
    ) -> State:
        """Return the state after one more iteration, which labelled these rows of U."""
        t, pseudo, labeled_iter = self.t + 1, self.pseudo.copy(), self.labeled_iter.copy()
        earlier = pseudo[rows]
        changed = (earlier != codes)[earlier >= 0]
        pseudo[rows], labeled_iter[rows] = codes, t
        share = float(changed.mean()) if len(changed) else None
        record = {"iteration": t, "sample_size": len(rows), "changed": share, **record}
        nets, of_nets = self.nets | {t: students}, self.refits | ({t: refits} if refits else {})
        return State(t, nets, S, pseudo, labeled_iter, [*self.history, record], of_nets)

    def members(self) -> tuple[list[NeuralNet], FloatArray]:
        """Return the nets that predict, and their weights: 1, which the first teachers share."""
        pairs = [(M, 1 if t else 1 / len(nets)) for t, nets in self.nets.items() for M in nets]
        return [M for M, _ in pairs], np.array([weight for _, weight in pairs], dtype=float)

    def predict_proba(self, X: Any, n_classes: int) -> FloatArray:
        """Return the mean of their class probabilities of encoded documents."""
        return self._mean([probabilities(M, X, n_classes) for M in self.members()[0]])

    def predict_unlabeled(self, data: PartlyLabeled, rows: Codes) -> FloatArray:
        """Return the same for some rows of U."""
        if not self.refits:
            return self.predict_proba(multi_indexing(data.U, rows), data.n_classes)
        return self._mean([softmax(refit.on_U[rows], axis=1) for refit in self._all_refits()])

    def choose_tau(self, data: PartlyLabeled, root: int) -> float:
        """Return the τ of logit adjustment by the predicted shares of unlabelled documents."""
        # Weights do not change how often rows are drawn, but they change the target.
        shares = class_shares(data.y, data.n_classes)
        target = class_shares(data.y, data.n_classes, data.weights)
        if np.ptp(shares) == 0 or data.n_unlabeled < LEAST_DOCUMENTS:
            return 0.0  # there is nothing to correct, or too little to tell
        size = min(data.n_unlabeled, MOST_DOCUMENTS)
        rows = generator(root, 0, 4).choice(data.n_unlabeled, size=size, replace=False)
        return matching_tau(self.predict_unlabeled(data, np.sort(rows)), shares, target)

    def choose_temperature(self, data: PartlyLabeled, tau: float) -> float:
        """Return the temperature of predictions, 1 where no linear layer is fitted anew.

        A layer that is fitted to sharpened soft labels is too certain. The mean greatest
        probability of U becomes what regressions on labels alone say, on the same vectors.
        """
        if not self.refits:
            return 1.0
        P = self.predict_unlabeled(data, np.arange(data.n_unlabeled))
        P = logit_adjusted(P, class_shares(data.y, data.n_classes), tau)
        alone = self._mean([refit.by_labels for refit in self._all_refits()])
        return matching_temperature(P, float(alone.max(axis=1).mean()))

    def _all_refits(self) -> list[Refit]:
        return [refit for of_nets in self.refits.values() for refit in of_nets]

    def _mean(self, P: list[FloatArray]) -> FloatArray:
        return np.asarray(np.average(P, axis=0, weights=self.members()[1]))


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


# -- the folder of a fit ---------------------------------------------------------------------------
class Checkpoint:
    """Saves the state after each iteration and finds it again.

    The folder of a fit is named after a hash of all that its result depends on. It holds the
    weights of each net that is still needed, and `state.json`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], model: Any, trainer: Trainer, data: PartlyLabeled
    ) -> None:
        params = model.get_params(deep=False)
        # those that change no result, or that stand in the key as the trainer
        without_effect = "memory", "checkpoint_dir", "on_iteration", "verbose"
        for name in ("estimator", "random_state", *without_effect):
            del params[name]
        machine = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
        # teachers that are no nets read the documents as they were given
        others = split_teachers(model.teacher)[1]
        encoded = {**vars(data), "documents": data.documents if others else None}
        key = joblib.hash((type(model).__qualname__, params, trainer, encoded, machine))
        self.folder = Path(folder).expanduser() / f"{key}-{trainer.root}"
        self.file = self.folder / "state.json"
        self.trainer, self.data = trainer, data
        self._sealed: set[str] = set()  # files of nets that the present state names

    def save(self, state: State) -> None:
        """Write the nets that are new, then the state, then remove the nets that are spent."""
        with locked(self.folder.parent):
            self.folder.mkdir(exist_ok=True)
            files = {
                self.folder / f"{t}-{i}.safetensors": M
                for t, nets in state.nets.items()
                for i, M in enumerate(nets)
            }
            for file, M in files.items():  # an equal fit removes those that it has spent
                if file.name not in self._sealed or not file.exists():
                    with replacing(file) as part:
                        M.save_params(f_params=part, use_safetensors=True)
            content = {
                "t": state.t,
                "nets": [[t, len(nets)] for t, nets in state.nets.items()],
                "S": [[c, *values] for c, values in state.S.items()],
                "pseudo": state.pseudo.tolist(),
                "labeled_iter": state.labeled_iter.tolist(),
                "history": _plain_history(state.history),
            }
            write_sealed(self.file, content, list(files))
            self._sealed = {file.name for file in files}
            for file in self.folder.glob("*.safetensors"):
                if file not in files:
                    file.unlink()

    def load(self) -> State | None:
        """Return the saved state, or None if there is none."""
        with locked(self.folder.parent):
            if not self.file.exists():
                return None
            content = read_sealed(self.file)
            if content["versions"] != versions():
                raise ValueError(
                    f"{self.folder} was written by other versions ({content['versions']}); remove "
                    "it to start again."
                )
            self._sealed = set(content["files"])
            nets = {t: [self._net(t, i) for i in range(n)] for t, n in content["nets"]}
        refits = {t: self.trainer.refit(nets[t], *self.data.L) for t in nets}
        return State(
            content["t"],
            nets,
            {int(c): (m, v) for c, m, v in content["S"]},
            np.array(content["pseudo"], dtype=np.intp),
            np.array(content["labeled_iter"], dtype=np.intp),
            _labeled_history(content["history"], self.data.classes.tolist()),
            {t: of_nets for t, of_nets in refits.items() if of_nets},
        )

    def remove(self) -> None:
        """Remove the state of a complete fit."""
        with locked(self.folder.parent):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _net(self, t: int, number: int) -> NeuralNet:
        with seeded(0):
            M = self.trainer.untrained()
        file = self.folder / f"{t}-{number}.safetensors"
        M.load_params(f_params=file, use_safetensors=True)
        return M


def _plain_history(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace class labels by their position, since JSON has strings as keys only."""
    return [
        {k: list(v.values()) if k == "pseudo_label_counts" else v for k, v in entry.items()}
        for entry in history
    ]


def _labeled_history(history: list[dict[str, Any]], classes: list[Any]) -> list[dict[str, Any]]:
    """Put the class labels back."""
    for entry in history:
        if "pseudo_label_counts" in entry:
            entry["pseudo_label_counts"] = dict(
                zip(classes, entry["pseudo_label_counts"], strict=True)
            )
        if "groups" in entry:
            entry["groups"] = {int(c): group for c, group in entry["groups"].items()}
    return history
