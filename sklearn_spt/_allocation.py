"""Freed memory kept for the next step, where the C library gives it back to the system too soon.

Each step of training frees blocks of some megabytes and asks for the same ones again. glibc hands
what lies free at the top of its heap, and every block above a threshold, back to the system at
once, and getting them again costs a page fault for every 4 KiB.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sklearn_spt._kernels import is_plain

# Names of mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Bytes inside the block, of both thresholds: the largest int.
_KEEP = 2**31 - 1
#: Bytes after it. glibc's own thresholds grow with what is freed, up to these, and stay there.
_MMAP, _TRIM = 32 * 2**20, 64 * 2**20
#: Settings of the user's own, which are left as they are.
_CHOSEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")

_inside = False


@cache
def _glibc() -> Any:
    """Return the C library, if it is glibc, else None."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _CHOSEN):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - musl has none
        library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
        library.malloc_trim.argtypes = (ctypes.c_size_t,)
    except (OSError, AttributeError):
        return None
    return library


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep what is freed inside the block, and give it back at its end.

    The setting belongs to the process, so that only one thread may be inside, which then may enter
    it again. Nothing is done without glibc, where an environment variable sets the thresholds, or
    inside `sklearn_spt._kernels.plain`.
    """
    global _inside
    library = _glibc()
    if library is None or _inside or is_plain("allocation"):
        yield
        return
    _inside = True
    library.mallopt(_M_MMAP_THRESHOLD, _KEEP)
    library.mallopt(_M_TRIM_THRESHOLD, _KEEP)
    try:
        yield
    finally:
        _inside = False
        library.mallopt(_M_MMAP_THRESHOLD, _MMAP)
        library.mallopt(_M_TRIM_THRESHOLD, _TRIM)
        library.malloc_trim(0)
