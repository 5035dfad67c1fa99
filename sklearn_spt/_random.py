"""Seeds and draws. Every random number of a fit derives from one seed and a path of integers.

Paths of Self-Pretraining, with iteration t and the number i >= 1 of a further net:

    (t,), (t, 5, i)         a net, and its draws of labelled rows at t = 0
    (t, 2), (t, 5, i, 2)    the draws of a student's rows
    (t, 1)                  the sample of iteration t
    (0, 4)                  the unlabelled rows that choose τ
    (0, 6, k)               teacher k that is no net, or view k of co-decomposition
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

# What belongs to the process is changed by one thread at a time: torch's generator and the log of
# transformers, and the number of threads of BLAS. A fit holds the first one while a net is trained.
_LOCK, _BLAS_LOCK = threading.RLock(), threading.RLock()


def _after_fork() -> None:
    """Give a forked child free locks, and one thread: those of its parent do not exist there."""
    global _LOCK, _BLAS_LOCK
    _LOCK, _BLAS_LOCK = threading.RLock(), threading.RLock()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def root_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the integer from which all seeds of a fit derive.

    None takes entropy from the operating system, since a fit must not change numpy's generator.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0]) >> 1
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    check_random_state(random_state)
    return int(random_state)


def derive_seed(root: int, *path: int) -> int:
    """Return the seed in [0, 2**31) of one purpose, for example (iteration, number of the net)."""
    sequence = np.random.SeedSequence(root, spawn_key=path)
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


def generator(root: int, *path: int) -> np.random.Generator:
    """Return numpy's generator for one purpose."""
    return np.random.default_rng(derive_seed(root, *path))


def seeded_clone(estimator: Any, root: int, *path: int) -> Any:
    """Return a clone with a seed for each `random_state` that is None, also of nested parts."""
    made, rng = clone(estimator), generator(root, *path)
    for name, value in sorted(made.get_params().items()):
        if value is None and name.split("__")[-1] == "random_state":
            made.set_params(**{name: int(rng.integers(2**31 - 1))})
    return made


@contextmanager
def seeded(root: int, *path: int) -> Iterator[None]:
    """Seed torch for one purpose inside the block, and restore its generators after it."""
    # To read a generator of CUDA would start CUDA, which breaks forks.
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _LOCK, torch.random.fork_rng(devices):
        # On a plain CPU without the lock of torch.cuda: a fork could leave it locked.
        found = torch.accelerator.current_accelerator()
        plain = found is None or (found.type == "cuda" and not torch.cuda.device_count())
        seed = torch.default_generator.manual_seed if plain else torch.manual_seed
        seed(derive_seed(root, *path))
        yield


def process_lock() -> Any:
    """Return the lock of what belongs to the process, to be used by ``with``."""
    return _LOCK


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread: the digits of a product depend on the number of threads.

    Blocks of two threads must not overlap, or the limit of the first stays after both.
    """
    with _BLAS_LOCK, threadpool_limits(1, user_api="blas"):
        yield


def torch_state() -> list[Any]:
    """Return the states of torch's generators, those of CUDA only where it has started."""
    on_cuda = torch.cuda.is_initialized()
    return [torch.get_rng_state(), torch.cuda.get_rng_state_all() if on_cuda else []]


def set_torch_state(state: list[Any]) -> None:
    """Restore what `torch_state` returned; call it inside `seeded`."""
    torch.set_rng_state(state[0])
    if state[1] and torch.cuda.is_initialized():
        torch.cuda.set_rng_state_all(state[1])
