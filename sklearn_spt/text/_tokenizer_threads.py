"""How many threads encode texts: ours, and none of the tokenizers library."""

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
    """Threads by which to encode so many chunks of texts."""
    # OMP_NUM_THREADS is how process pools tell their workers to share the machine.
    asked = os.environ.get("OMP_NUM_THREADS", "")
    available = int(asked) if asked.isdigit() and int(asked) > 0 else joblib.cpu_count()
    return max(1, min(n_chunks, available))


@contextmanager
def own_threads_off() -> Iterator[None]:
    """Keep the tokenizers library from starting its own threads, for the time of a call.

    Up to release 0.22 at least, once it has started them it prints a warning at each later fork
    of the process, for instance in a pool of workers. The variable is its only switch; a value
    that the user chose is left alone.
    """
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
