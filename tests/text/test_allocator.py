"""Free memory is returned to the system with glibc, and not with other C libraries."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from sklearn_spt.text import _allocator, _encoding
from sklearn_spt.text._encoding import encode_texts


@pytest.fixture(autouse=True)
def empty_cache():
    _allocator._malloc_trim.cache_clear()
    yield
    _allocator._malloc_trim.cache_clear()


def test_it_calls_malloc_trim(monkeypatch):
    calls = []

    def trim(pad):
        calls.append(pad)

    library = type("Library", (), {"malloc_trim": trim})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    _allocator.give_back()
    _allocator.give_back()
    assert calls == [0, 0]


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_it_does_nothing_with_another_library(monkeypatch, error):
    def refuse(name):
        raise error("no such library or function")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    _allocator.give_back()
    assert _allocator._malloc_trim() is None


def test_encoding_many_texts_returns_memory_and_gives_the_same_ids(
    tiny_encoder, tiny_texts, monkeypatch
):
    calls = []
    monkeypatch.setattr(_encoding, "give_back", lambda: calls.append(1))
    expected = encode_texts(tiny_texts, tiny_encoder, 32)
    assert not calls
    monkeypatch.setattr(_encoding, "_CHUNK", 3)
    monkeypatch.setattr(_encoding, "_GIVE_BACK", 2)
    found = encode_texts(tiny_texts, tiny_encoder, 32)
    assert found.tolist() == expected.tolist()
    assert len(calls) == len(tiny_texts) // 3 // 2


def test_caches_of_kernels_are_bounded_unless_the_user_bounds_them():
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    env = {name: value for name, value in os.environ.items() if name not in names}
    program = f"""
import os
import sklearn_spt.datasets
assert not any(name in os.environ for name in {names!r}[1:])
from sklearn_spt import BertClassifier
print(*(os.environ[name] for name in {names!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, names[0]: "7", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["7", "256"]
