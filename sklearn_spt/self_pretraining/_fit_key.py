"""A hash of all that a training run depends on.

A training run is a function of the data, the parameters and the seed. Equal hashes from `fit_key`
mean equal results.
"""

from __future__ import annotations

import os
import pickle
from importlib.metadata import version
from typing import Any

import joblib
import torch
from skorch import NeuralNet

from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._kernels import FAST, is_plain
from sklearn_spt.text._pretrained import encoder_state

# Parameters of the net that change no result: a fit does not use the net's own seed.
_WITHOUT_EFFECT = ("verbose", "random_state")

# Each of them computes a part of the result: token ids, draws, linear probes, nets.
_LIBRARIES = (
    *("sklearn-spt", "numpy", "scikit-learn", "scipy", "skorch"),
    *("tokenizers", "torch", "transformers"),
)


def fit_key(net: NeuralNet, **parts: Any) -> str:
    """Hash all that a training run depends on.

    These are the class and parameters of `net`, its pretrained checkpoint, the `parts`, the
    versions of the libraries, the number of threads and the device.
    """
    params = {k: v for k, v in net.get_params(deep=False).items() if k not in _WITHOUT_EFFECT}
    given = params.get("pretrained")
    machine = {
        "threads": torch.get_num_threads(),
        "device": _hardware(params),
        "dtype": str(torch.get_default_dtype()),
        "plain": [is_plain(name) for name in FAST],
        "versions": [*map(version, _LIBRARIES)],
        "checkpoint": encoder_state(given) if isinstance(given, str | os.PathLike) else None,
    }
    try:
        content = (type(net), sorted(params.items()), machine, sorted(parts.items()))
        return str(joblib.hash(_without_tensors(content)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        reason = str(error)  # joblib's begins with all that it hashed
        reason = f"... {reason[-200:]}" if len(reason) > 200 else reason
        raise ValueError(
            "memory and checkpoint_dir need data and an estimator that can be pickled: "
            f"{reason}. Define the module and functions at the top level of a file."
        ) from error


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
