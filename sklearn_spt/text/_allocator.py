"""Memory that is free but that the C library keeps for later is given back to the system."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """Return glibc's function; None where the C library is another."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return trim


def give_back() -> None:
    """Give free pages of all threads back to the system, where the C library is glibc's.

    It does so by itself only at the end of a heap: one small object there keeps all below it, and
    each thread has a heap of its own. A call takes some milliseconds.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
