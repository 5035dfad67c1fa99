"""Work that need not be done twice: parts that fits have in common, and a fit that was killed.

Both rest on one thing: every training run is a function of the data, the parameters and the seed.
`fit_key` names these by one hash; the same hash means the same result, to the last digit.
"""

from __future__ import annotations

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

import sklearn_spt
from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._kernels import FAST, is_plain
from sklearn_spt.text._checkpoints import checkpoint_state

T = TypeVar("T")

# What a net prints, and the seed that a semi-supervised fit does not use, change no result.
_NO_MATTER = ("verbose", "random_state")


def fit_key(net: NeuralNet, **parts: Any) -> str:
    """Hash everything on which a training run depends.

    Parameters
    ----------
    net : skorch.NeuralNet
        Unfitted; its class, parameters and, where it has one, pretrained checkpoint count.
    **parts : object
        Data, parameters and seeds: anything that can be pickled.

    Returns
    -------
    str
        The hash. The versions of the libraries, the number of threads and the device are in it
        too.

    Raises
    ------
    ValueError
        If something cannot be pickled.
    """
    params = {k: v for k, v in net.get_params(deep=False).items() if k not in _NO_MATTER}
    pretrained = params.get("pretrained")
    machine = {
        "threads": torch.get_num_threads(),
        "device": _hardware(params),
        "dtype": str(torch.get_default_dtype()),
        "plain": [is_plain(name) for name in FAST],
        "versions": [sklearn_spt.__version__, *map(version, ("torch", "skorch", "transformers"))],
        "checkpoint": checkpoint_state(pretrained) if isinstance(pretrained, str) else None,
    }
    try:
        content = (type(net), sorted(params.items()), machine, sorted(parts.items()))
        return str(joblib.hash(_without_tensors(content)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "memory and checkpoint_dir need data and an estimator that can be pickled: "
            f"{error}. Define the module and functions in a file of their own, at its top level."
        ) from error


def _hardware(params: dict[str, Any]) -> list[Any]:
    """Return what decides how a net computes, and what "auto" becomes on this machine."""
    given = params.get("device")
    device = "cpu" if given is None else resolve_device(str(given))
    found: list[Any] = [device, torch.backends.cpu.get_cpu_capability()]
    if torch.device(device).type == "cuda":
        found.append(torch.cuda.get_device_name(device))
    if isinstance(params.get("precision"), str):
        found.append(resolve_precision(params["precision"], device))
    return found


def _without_tensors(value: Any) -> Any:
    """Put arrays in the place of tensors, whose pickles differ from process to process."""
    if isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), value.detach().cpu().double().numpy()
    if isinstance(value, dict):
        return {k: _without_tensors(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_tensors(v) for v in value]
    return value


# -- parts that fits have in common --------------------------------------------------------------
def recall(memory: joblib.Memory, name: str, key: str, compute: Callable[[], T]) -> tuple[T, bool]:
    """Return what `compute` returns, or returned for the same key before.

    Parameters
    ----------
    memory : joblib.Memory
        Where results are kept; one without a location keeps nothing.
    name : str
        What is computed.
    key : str
        On what it depends, see `fit_key`.
    compute : callable without arguments
        Does the work.

    Returns
    -------
    result : object
        Of `compute`, a fresh copy if it was kept.
    known : bool
        Whether it was kept.
    """
    if memory.store_backend is None:
        return compute(), False
    done: list[bool] = []
    kept = memory.cache(_computed, ignore=["compute", "done"])
    result: T = kept(name, key, compute, done)
    return result, not done


def _computed(name: str, key: str, compute: Callable[[], T], done: list[bool]) -> T:
    done.append(True)
    return compute()


# -- a fit that was killed -----------------------------------------------------------------------
class Checkpoint:
    """State of a fit after its last whole iteration, in one file.

    Parameters
    ----------
    folder : str or path-like
        Is made if need be. Many fits can share one: the key is in the name of the file.
    key : str
        See `fit_key`.
    """

    def __init__(self, folder: str | os.PathLike[str], key: str) -> None:
        self.path = Path(folder) / f"self-pretraining-{key}.pkl"

    def load(self) -> dict[str, Any] | None:
        """Return the state, or None if there is none.

        Raises
        ------
        ValueError
            If the file is damaged.
        """
        try:
            state: dict[str, Any] = joblib.load(self.path)
            if not {"state", "history", "logits"} <= set(state):
                raise ValueError("it holds something else")
        except FileNotFoundError:
            return None
        except Exception as error:
            raise ValueError(
                f"{self.path} of checkpoint_dir cannot be read ({error}); remove it to begin anew."
            ) from error
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Write the state; a kill in the middle leaves the one before."""
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
        """Forget the state: the fit is complete."""
        self.path.unlink(missing_ok=True)
