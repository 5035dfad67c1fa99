"""Return memory that the C library has freed but keeps for later to the operating system."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """Return glibc's ``malloc_trim``, or None with another C library."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return trim


def give_back() -> None:
    """Return the free memory of all threads to the system, with glibc only."""
    # on its own, glibc shrinks each thread's heap at the end only, and one small object there keeps
    # the whole heap
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
