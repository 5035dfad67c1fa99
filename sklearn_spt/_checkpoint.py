"""The state of a fit in a folder, so that the same fit continues after a kill."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from skorch import NeuralNet

from sklearn_spt._base import PartlyLabeled
from sklearn_spt._folders import read_sealed, versions, write_sealed
from sklearn_spt._random import seeded
from sklearn_spt._state import State
from sklearn_spt._training import Trainer

# Parameters that change no result, or that stand in the key as the net and the root seed.
_WITHOUT_EFFECT = ("estimator", "memory", "checkpoint_dir", "on_iteration", "random_state")


class Checkpoint:
    """Saves the state after each iteration and finds it again.

    The folder of a fit is named after a hash of all that its result depends on. It holds the
    weights of each net that is still needed, and `state.json`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], model: Any, trainer: Trainer, data: PartlyLabeled
    ) -> None:
        params = model.get_params(deep=False)
        for name in (*_WITHOUT_EFFECT, "verbose"):
            del params[name]
        net = trainer.net.get_params(deep=False)
        for name in ("verbose", "random_state"):
            net.pop(name, None)
        kinds = type(model).__qualname__, type(trainer.net).__qualname__
        machine = torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()
        encoded = {**vars(data), "documents": None}
        key = joblib.hash((kinds, params, sorted(net.items(), key=str), encoded, machine))
        self.folder = Path(folder).expanduser() / f"{key}-{trainer.root}"
        self.file = self.folder / "state.json"
        self.trainer, self.data = trainer, data

    def save(self, state: State, history: list[dict[str, Any]]) -> None:
        """Write the nets that are new, then the state, then remove the nets that are spent."""
        self.folder.mkdir(parents=True, exist_ok=True)
        nets = (
            {(0, i): M for i, M in enumerate(state.supervised)}
            | {(state.t - 1, i): M for i, M in enumerate(state.teachers)}
            | {(state.t, i): M for i, M in enumerate(state.students)}
        )
        files = {self.folder / f"{t}-{i}.safetensors": M for (t, i), M in nets.items()}
        for file, M in files.items():
            if not file.exists():
                part = file.with_suffix(".part")
                M.save_params(f_params=part, use_safetensors=True)
                part.replace(file)
        content = {
            "t": state.t,
            "nets": [len(state.students), len(state.teachers), len(state.supervised)],
            "S": [[c, *values] for c, values in state.S.items()],
            "pseudo": state.pseudo.tolist(),
            "labeled_iter": state.labeled_iter.tolist(),
            "history": _plain_history(history),
        }
        write_sealed(self.file, content, list(files))
        for file in self.folder.glob("*.safetensors"):
            if file not in files:
                file.unlink()

    def load(self) -> tuple[State, list[dict[str, Any]]] | None:
        """Return the saved state and history, or None if there is none.

        Raises
        ------
        ValueError
            If a file is damaged, or other versions of the libraries wrote it.
        """
        if not self.file.exists():
            return None
        content = read_sealed(self.file)
        if content["versions"] != versions():
            raise ValueError(
                f"{self.folder} was written by other versions ({content['versions']}); remove it "
                "to start again."
            )
        t, counts = content["t"], content["nets"]
        nets: dict[tuple[int, int], NeuralNet] = {}

        def found(iteration: int, n: int) -> list[NeuralNet]:
            for i in range(n):
                if (iteration, i) not in nets:
                    nets[iteration, i] = self._net(iteration, i)
            return [nets[iteration, i] for i in range(n)]

        S = {int(c): (m, v) for c, m, v in content["S"]}
        state = State(
            t,
            found(t, counts[0]),
            found(t - 1, counts[1]),
            found(0, counts[2]),
            S,
            np.array(content["pseudo"], dtype=np.intp),
            np.array(content["labeled_iter"], dtype=np.intp),
        )
        return state, _labeled_history(content["history"], self.data.classes.tolist())

    def remove(self) -> None:
        """Remove the state of a complete fit."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _net(self, t: int, number: int) -> NeuralNet:
        with seeded(0):
            M = self.trainer.untrained(self.trainer.net)
        file = self.folder / f"{t}-{number}.safetensors"
        M.load_params(f_params=file, use_safetensors=True)
        return M


def _plain_history(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace class labels by their position, since JSON has strings as keys alone."""
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
