"""The state of a fit as numbers and text, from which the fit continues after a kill.

Of a net only weights and buffers are kept, once for each net and without the optimiser. The rest
of it is built again: a net of iteration t is a function of the template and of t.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from skorch import NeuralNet
from skorch.history import History
from skorch.utils import multi_indexing

from sklearn_spt._random import isolated
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.self_pretraining._state import State
from sklearn_spt.self_pretraining._state_folder import StateFolder
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer

# Names of the tensors of a net begin with this, and its probe is called so.
_NET = "net{}."
_PROBE = "probe{}"
# The parameters that the last stage of a net sets.
_LOSS = {
    "lam": "criterion__lam",
    "temperature": "criterion__temperature",
    "max_epochs": "max_epochs",
}
# Documents by whose logits a rebuilt net is known.
_PROBES = 8


class Checkpoint:
    """The state of a fit after its last whole iteration; enter the object to use it."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        key: str,
        trainer: SelfPretrainingTrainer,
        *,
        rule: str,
    ) -> None:
        self.folder = StateFolder(folder, key)
        self.trainer = trainer
        self.rule = rule

    def __enter__(self) -> Checkpoint:
        self.folder.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.folder.__exit__(*error)

    def load(self) -> tuple[State, State | None, dict[str, Any]] | None:
        """Return what `save` got last, or None; a ValueError tells of a damaged file."""
        kept = self.folder.load()
        if kept is None:
            return None
        nets: dict[int, list[NeuralNet]] = {}
        best = None if kept["best"] is None else self._state(kept["best"], nets)
        return self._state(kept["last"], nets), best, kept["watched"]

    def save(self, state: State, best: State | None, watched: dict[str, Any]) -> None:
        """Keep the state after an iteration, the best state, and what observers hold."""
        if not self.folder.usable:
            return
        arrays = {"pseudo": state.pseudo, "labeled_iter": state.labeled_iter}
        tensors = {name: torch.tensor(values) for name, values in arrays.items()}
        nets = []
        for number, net in enumerate(state.students):
            own = _weights(net)
            tensors |= {_NET.format(number) + n: w.cpu().contiguous() for n, w in own.items()}
            tensors[_PROBE.format(number)] = self._probe(net)
            params = net.get_params(deep=False)
            loss = {name: params[key] for name, key in _LOSS.items()}
            nets.append({"loss": loss, "history": net.history.to_list()})
        about = {"S": state.S, "nets": nets}
        others = self._numbers(state.t) | (set() if best is None else self._numbers(best.t))
        kept = {"last": state.t, "best": None if best is None else best.t, "watched": watched}
        self.folder.save(state.t, tensors, about, kept, others)
        if state.t == 0 and self.folder.usable:
            try:
                # a net that cannot be rebuilt is an error now, not after a kill
                deque(self._nets(0), maxlen=0)
            except ValueError:
                self.folder.remove()
                raise

    def remove(self) -> None:
        """Remove the state of a complete fit."""
        self.folder.remove()

    def _state(self, t: int, nets: dict[int, list[NeuralNet]]) -> State:
        """Return the state after iteration `t`; `nets` holds the nets that were rebuilt already."""
        for number in self._numbers(t) - set(nets):
            nets[number] = list(self._nets(number))
        tensors, about = self.folder.read(t)
        S = {c: (mean, variance) for c, (mean, variance) in about["S"].items()}
        pseudo, labeled_iter = (tensors[name].numpy() for name in ("pseudo", "labeled_iter"))
        start = nets[0] if self.rule == "with_start" else []
        teachers = nets[t - 1] if t > 0 and self.rule != "last" else []
        return State(t, nets[t], teachers, S, pseudo, labeled_iter, start, self.rule)

    def _numbers(self, t: int) -> set[int]:
        """Return the iterations whose students are the nets of the state after iteration `t`."""
        if self.rule == "last":
            return {t}
        return {t, max(t - 1, 0), *([0] if self.rule == "with_start" else [])}

    def _nets(self, t: int) -> Iterator[NeuralNet]:
        """Rebuild the students of iteration `t`, one after the other."""
        tensors, about = self.folder.read(t)
        for number, kept in enumerate(about["nets"]):
            yield self._net(t, number, tensors, kept)

    def _net(
        self, t: int, number: int, tensors: dict[str, torch.Tensor], about: dict[str, Any]
    ) -> NeuralNet:
        net = self.trainer.rebuilt(t, number, about["loss"])
        net.history = History(about["history"])
        prefix = _NET.format(number)
        kept = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        own = _weights(net)
        if {k: (v.shape, v.dtype) for k, v in own.items()} != {
            k: (v.shape, v.dtype) for k, v in kept.items()
        }:
            raise self._cannot_rebuild(t, "has other weights and buffers")
        for name, values in own.items():
            if 0 not in values.stride():  # an expanded buffer, which cannot be written to
                values.copy_(kept[name])
        if not torch.equal(self._probe(net), tensors[_PROBE.format(number)]):
            raise self._cannot_rebuild(t, "predicts otherwise")
        return net

    def _probe(self, net: NeuralNet) -> torch.Tensor:
        data = self.trainer.data
        rows = np.arange(min(len(data.y), _PROBES))
        with isolated():
            logits = predict_logits(net, multi_indexing(data.X_labeled, rows), data.n_classes)
        return torch.from_numpy(logits)

    def _cannot_rebuild(self, t: int, why: str) -> ValueError:
        return ValueError(
            "checkpoint_dir cannot keep this net: rebuilt from its weights and buffers, the net of "
            f"iteration {t} in {self.folder.path} {why}. Register what training changes in the "
            "module as a parameter or a buffer, or leave checkpoint_dir out."
        )


def _weights(net: NeuralNet) -> dict[str, torch.Tensor]:
    """Return all parameters and buffers of a net, each once; they share memory with the net."""
    found: dict[str, torch.Tensor] = {}
    for kind in [*net._modules, *net._criteria]:
        module = getattr(net, f"{kind}_")
        for name, value in [*module.named_parameters(), *module.named_buffers()]:
            found[f"{kind}.{name}"] = value.detach()
    return found
