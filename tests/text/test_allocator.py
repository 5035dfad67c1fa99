"""Free memory goes back to the system where the C library can be asked to, and nowhere else."""

from __future__ import annotations

import ctypes

import pytest

from sklearn_spt.text import _allocator, _encoding
from sklearn_spt.text._encoding import encode_texts


@pytest.fixture(autouse=True)
def forgotten():
    _allocator._malloc_trim.cache_clear()
    yield
    _allocator._malloc_trim.cache_clear()


def test_it_asks_glibc(monkeypatch):
    calls = []

    def trim(pad):
        calls.append(pad)

    library = type("Library", (), {"malloc_trim": trim})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    _allocator.give_back()
    _allocator.give_back()
    assert calls == [0, 0]


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_library_is_left_alone(monkeypatch, error):
    def refuse(name):
        raise error("no such library or function")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    _allocator.give_back()
    assert _allocator._malloc_trim() is None


def test_encoding_many_texts_gives_back_and_is_the_same(tiny_checkpoint, tiny_texts, monkeypatch):
    calls = []
    monkeypatch.setattr(_encoding, "give_back", lambda: calls.append(1))
    expected = encode_texts(tiny_texts, tiny_checkpoint, 32)
    assert not calls
    monkeypatch.setattr(_encoding, "_CHUNK", 3)
    monkeypatch.setattr(_encoding, "_GIVE_BACK", 2)
    found = encode_texts(tiny_texts, tiny_checkpoint, 32)
    assert found.tolist() == expected.tolist()
    assert len(calls) == len(tiny_texts) // 3 // 2
