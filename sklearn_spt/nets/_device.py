"""Resolve the "auto" of `device` and `precision`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from sklearn_spt._validation import check_option, shown

#: Environment variables that limit oneDNN; the first one that is set counts.
_ISA_VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
#: Values of these variables with which oneDNN has no bf16 matrix products.
_ISA_WITHOUT_BF16 = (
    *("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"),
    *("AVX512_CORE", "AVX512_CORE_VNNI"),
)


def resolve_device(device: str) -> str:
    """Return the device to use; "auto" takes cuda, else mps, else cpu."""
    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        if torch.backends.mps.is_available():
            return "mps"
        return "cpu"
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device must be 'auto' or a torch device such as 'cpu' or 'cuda:0', got "
            f"{shown(device)}."
        ) from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={shown(device)} was asked for, but torch finds no CUDA device; use "
            "device='auto' to use a GPU only if there is one."
        )
    return device


def is_asynchronous(device: str) -> bool:
    """Whether the device computes while the program continues, so that reading a result waits."""
    return torch.device(device).type != "cpu"


@lru_cache(maxsize=1)
def _cpu_has_bf16() -> bool:
    """Whether oneDNN may multiply bf16 matrices in hardware (AMX or AVX-512 BF16)."""
    limits = (os.environ[name] for name in _ISA_VARIABLES if os.environ.get(name))
    if next(limits, "").upper() in _ISA_WITHOUT_BF16:
        return False
    capabilities: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("amx_bf16")) or bool(capabilities.get("avx512_bf16"))


def resolve_precision(precision: str, device: str) -> str:
    """Return "bf16" or "fp32"; "auto" takes bf16 if the hardware of the device supports it.

    "auto" never takes emulated bf16, which is many times slower than fp32.
    """
    check_option(precision, "precision", ("auto", "fp32", "bf16"))
    if precision != "auto":
        return precision
    kind = torch.device(device).type
    if kind == "cuda":
        return "bf16" if torch.cuda.get_device_capability(device)[0] >= 8 else "fp32"
    if kind == "cpu":
        return "bf16" if _cpu_has_bf16() else "fp32"
    return "fp32"
