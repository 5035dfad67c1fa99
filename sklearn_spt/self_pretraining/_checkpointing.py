"""Results on disk: `memory` for the candidates of a search, checkpoints for a fit that was killed.

A training run is a function of the data, the parameters and the seed. Equal hashes from `fit_key`
mean equal results.
"""

from __future__ import annotations

import numbers
import os
import pickle
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import joblib
import torch
from skorch import NeuralNet

from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._kernels import FAST, is_plain
from sklearn_spt.text._pretrained import encoder_state

T = TypeVar("T")

# Parameters of the net that change no result: a fit does not use the net's own seed.
_WITHOUT_EFFECT = ("verbose", "random_state")


def fit_key(net: NeuralNet, **parts: Any) -> str:
    """Hash all that a training run depends on.

    These are the class and parameters of `net`, its pretrained checkpoint, the `parts`, the
    versions of the libraries, the number of threads and the device.
    """
    params = {k: v for k, v in net.get_params(deep=False).items() if k not in _WITHOUT_EFFECT}
    pretrained = params.get("pretrained")
    machine = {
        "threads": torch.get_num_threads(),
        "device": _hardware(params),
        "dtype": str(torch.get_default_dtype()),
        "plain": [is_plain(name) for name in FAST],
        "versions": [*map(version, ("sklearn-spt", "torch", "skorch", "transformers"))],
        "checkpoint": encoder_state(pretrained) if isinstance(pretrained, str) else None,
    }
    try:
        content = (type(net), sorted(params.items()), machine, sorted(parts.items()))
        return str(joblib.hash(_without_tensors(content)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "memory and checkpoint_dir need data and an estimator that can be pickled: "
            f"{error}. Define the module and functions at the top level of a file."
        ) from error


def check_folder(place: Any, name: str, random_state: Any) -> None:
    """Raise an error if fits cannot be kept in the folder; accept None and a joblib.Memory."""
    if place is None:
        return
    if isinstance(place, str | os.PathLike) and not os.fspath(place):
        raise ValueError(f'{name} must not be empty; "." is the folder that you are in.')
    if name == "checkpoint_dir" and not isinstance(place, str | os.PathLike):
        raise TypeError(
            f"{name} must be a path or None, got {place!r} of type {type(place).__name__}."
        )
    if isinstance(place, str | os.PathLike) and os.path.isfile(place):
        raise ValueError(f"{name} must be a folder, but {os.fspath(place)!r} is a file.")
    if not isinstance(random_state, numbers.Integral):
        raise ValueError(
            f"{name} needs an integer random_state, got {random_state!r}: fits with "
            "other values cannot be repeated."
        )


def _hardware(params: dict[str, Any]) -> list[Any]:
    """Return what decides the last digits: device and precision, with "auto" resolved."""
    given = params.get("device")
    device = "cpu" if given is None else resolve_device(str(given))
    found: list[Any] = [device, torch.backends.cpu.get_cpu_capability()]
    if torch.device(device).type == "cuda":
        found.append(torch.cuda.get_device_name(device))
    if isinstance(params.get("precision"), str):
        found.append(resolve_precision(params["precision"], device))
    return found


def _without_tensors(value: Any) -> Any:
    """Replace tensors by arrays: pickles of tensors differ between processes."""
    if isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), value.detach().cpu().double().numpy()
    if isinstance(value, dict):
        return {k: _without_tensors(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_tensors(v) for v in value]
    return value


def recall(memory: joblib.Memory, name: str, key: str, compute: Callable[[], T]) -> tuple[T, bool]:
    """Return the result of `compute`, and whether `memory` had it already."""
    done: list[bool] = []
    kept = memory.cache(_computed, ignore=["compute", "done"])
    result: T = kept(name, key, compute, done)
    return result, not done


def _computed(name: str, key: str, compute: Callable[[], T], done: list[bool]) -> T:
    done.append(True)
    return compute()


class Checkpoint:
    """The state of a fit after its last whole iteration, in a file whose name holds `key`."""

    def __init__(self, folder: str | os.PathLike[str], key: str) -> None:
        self.path = Path(folder) / f"self-pretraining-{key}.pkl"

    def load(self) -> dict[str, Any] | None:
        """Return the state, or None if there is none; raise ValueError if the file is damaged."""
        try:
            state: dict[str, Any] = joblib.load(self.path)
            if not {"state", "watched"} <= set(state):
                raise ValueError("it is not a checkpoint")
        except FileNotFoundError:
            return None
        except Exception as error:
            raise ValueError(
                f"{self.path} of checkpoint_dir cannot be read ({error}); remove it to start again."
            ) from error
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state; if that is interrupted, the previous state stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".", suffix=".part")
        os.close(handle)
        try:
            joblib.dump(state, name)
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """Remove the file of a complete fit."""
        self.path.unlink(missing_ok=True)
