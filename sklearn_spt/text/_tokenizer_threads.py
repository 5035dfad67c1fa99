"""Threads that encode texts: those of this package, not those of the tokenizers library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import joblib

from sklearn_spt._runtime import ProcessLock

_PARALLELISM = "TOKENIZERS_PARALLELISM"
_environment_lock = ProcessLock()
_environment_users = 0


def n_threads_for(n_chunks: int) -> int:
    """Return the number of threads for so many chunks of texts."""
    # Process pools set OMP_NUM_THREADS so that their workers share the machine.
    asked = os.environ.get("OMP_NUM_THREADS", "")
    available = int(asked) if asked.isdigit() and int(asked) > 0 else joblib.cpu_count()
    return max(1, min(n_chunks, available))


@contextmanager
def own_threads_off() -> Iterator[None]:
    """Keep the tokenizers library from starting its own threads inside the block."""
    # After it has started threads, it warns at each later fork of the process. The environment
    # variable is its only switch; a value that the user set stays.
    global _environment_users
    with _environment_lock:
        if _environment_users or _PARALLELISM not in os.environ:
            _environment_users += 1
            os.environ[_PARALLELISM] = "false"
            ours = True
        else:
            ours = False
    try:
        yield
    finally:
        if ours:
            with _environment_lock:
                _environment_users -= 1
                if not _environment_users:
                    os.environ.pop(_PARALLELISM, None)
