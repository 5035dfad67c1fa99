"""The state of a fit after an iteration, and its folder, from which a killed fit goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from skorch import NeuralNet

from sklearn_spt._data import PartlyLabeled
from sklearn_spt._labels import Codes, FloatArray
from sklearn_spt._random import seeded
from sklearn_spt._sealed import locked, read_sealed, replacing, versions, write_sealed
from sklearn_spt._teachers import split_teachers
from sklearn_spt._training import Trainer, probabilities


@dataclass
class State:
    """The state after iteration `t`; at t = 0 the students are the supervised teachers."""

    t: int
    nets: dict[int, list[NeuralNet]]  # by iteration: the students of `t`, after others that predict
    S: dict[int, tuple[float, float]]  # mean and variance of each class, for inertia
    pseudo: Codes  # class code of each row of U, -1 if it was never drawn
    labeled_iter: Codes  # iteration that gave it, or -1

    @property
    def students(self) -> list[NeuralNet]:
        """The teachers of the next iteration."""
        return self.nets[self.t]

    def members(self) -> tuple[list[NeuralNet], FloatArray]:
        """Return the nets that predict, and their weights: 1, which the supervised ones share."""
        pairs = [(M, 1 if t else 1 / len(nets)) for t, nets in self.nets.items() for M in nets]
        return [M for M, _ in pairs], np.array([weight for _, weight in pairs], dtype=float)

    def predict_proba(self, X: Any, n_classes: int) -> FloatArray:
        """Return the mean of their class probabilities of encoded documents."""
        nets, weights = self.members()
        P = [probabilities(M, X, n_classes) for M in nets]
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

    def save(self, state: State, history: list[dict[str, Any]]) -> None:
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
                "history": _plain_history(history),
            }
            write_sealed(self.file, content, list(files))
            self._sealed = {file.name for file in files}
            for file in self.folder.glob("*.safetensors"):
                if file not in files:
                    file.unlink()

    def load(self) -> tuple[State, list[dict[str, Any]]] | None:
        """Return the saved state and history, or None if there is none."""
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
            state = State(
                content["t"],
                {t: [self._net(t, i) for i in range(n)] for t, n in content["nets"]},
                {int(c): (m, v) for c, m, v in content["S"]},
                np.array(content["pseudo"], dtype=np.intp),
                np.array(content["labeled_iter"], dtype=np.intp),
            )
            return state, _labeled_history(content["history"], self.data.classes.tolist())

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
