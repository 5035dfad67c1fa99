"""Device and precision."""

from __future__ import annotations

import pytest
import torch

from sklearn_spt.nets import _device
from sklearn_spt.nets._device import resolve_device, resolve_precision


@pytest.fixture
def machine(monkeypatch):
    """Pretend to run on a machine with the given accelerators."""
    for name in _device._ISA_VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def pretend(cuda=False, mps=False, capability=(8, 0), **cpu):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: cpu)
        _device._cpu_has_bf16.cache_clear()

    yield pretend
    monkeypatch.undo()
    _device._cpu_has_bf16.cache_clear()


# -- device --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_takes_the_first_of_cuda_mps_cpu(machine, cuda, mps, expected):
    machine(cuda=cuda, mps=mps)
    assert resolve_device("auto") == expected


def test_a_named_device_is_kept(machine):
    machine(cuda=True, mps=True)
    for name in ("cpu", "cuda", "cuda:1", "mps"):
        assert resolve_device(name) == name


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "AUTO", None, 1.5])
def test_unknown_names(machine, name):
    machine()
    with pytest.raises(ValueError, match=r"device must be 'auto' or a torch device .*, got "):
        resolve_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_cuda_without_a_cuda_device(machine, name):
    machine()
    with pytest.raises(ValueError, match=rf"device='{name}' was asked for, but torch finds no"):
        resolve_device(name)


# -- precision -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("device", "capabilities", "expected"),
    [
        ("cpu", {}, "fp32"),
        ("cpu", {"avx512_f": True, "amx_bf16": False, "avx512_bf16": False}, "fp32"),
        ("cpu", {"amx_bf16": True, "avx512_bf16": False}, "bf16"),
        ("cpu", {"amx_bf16": False, "avx512_bf16": True}, "bf16"),
        ("cpu", {"amx_int8": True, "amx_fp16": True}, "fp32"),
        ("mps", {"mps": True, "amx_bf16": True}, "fp32"),
        ("cuda", {"cuda": True, "capability": (7, 5), "amx_bf16": True}, "fp32"),
        ("cuda", {"cuda": True, "capability": (8, 0)}, "bf16"),
        ("cuda:0", {"cuda": True, "capability": (12, 0)}, "bf16"),
    ],
)
def test_auto_takes_bf16_if_the_hardware_supports_it(machine, device, capabilities, expected):
    machine(**capabilities)
    assert resolve_precision("auto", device) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"ONEDNN_MAX_CPU_ISA": "avx2"}, "fp32"),
        ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}, "bf16"),
        ({"ONEDNN_MAX_CPU_ISA": ""}, "bf16"),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE"}, "fp32"),
        ({"ONEDNN_MAX_CPU_ISA": "ALL", "DNNL_MAX_CPU_ISA": "AVX2"}, "bf16"),
        ({"ONEDNN_MAX_CPU_ISA": "", "DNNL_MAX_CPU_ISA": "AVX2"}, "fp32"),
    ],
)
def test_auto_follows_the_limits_of_onednn(machine, monkeypatch, limits, expected):
    for name, value in limits.items():
        monkeypatch.setenv(name, value)
    machine(amx_bf16=True)
    assert resolve_precision("auto", "cpu") == expected


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_named_precision_is_kept(machine, precision, device):
    machine(cuda=True, capability=(7, 0))
    assert resolve_precision(precision, device) == precision


@pytest.mark.parametrize("precision", ["fp16", "float32", None, 32])
def test_unknown_precision(precision):
    with pytest.raises(ValueError, match="precision must be one of 'auto', 'fp32', 'bf16'; got"):
        resolve_precision(precision, "cpu")


def test_the_capabilities_of_the_cpu_are_read_once(machine, monkeypatch):
    machine(amx_bf16=True)
    assert resolve_precision("auto", "cpu") == "bf16"
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert resolve_precision("auto", "cpu") == "bf16"
    _device._cpu_has_bf16.cache_clear()
    assert resolve_precision("auto", "cpu") == "fp32"  # an old torch cannot tell
