"""Memory that Python does not see: kept by the C library, and by torch's kernels of bf16."""

from __future__ import annotations

import ctypes
import os
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


# In bf16 on a CPU, oneDNN compiles kernels of a quarter of a megabyte for each new number of tokens
# in a batch. It and torch keep 1024 of them each, so a process grew by a gigabyte over many fits.
# With 256 a fit is as fast. Both read these variables before the first kernel.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "256")


def give_back() -> None:
    """Return the free memory of all threads to the system, with glibc only."""
    # glibc itself frees a thread's heap only from its end, and one small object there keeps all
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
