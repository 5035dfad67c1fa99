"""Random states: seeds that derive from one, and blocks that leave the global generators alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from sklearn_spt._runtime import ProcessLock


def derive_seed(root: int, *path: int) -> int:
    """Derive the seed of one of the many random things in a fit.

    Parameters
    ----------
    root : int
        Seed of the fit, at least 0.
    *path : int
        What the seed is for, for example (iteration, purpose); each at least 0. Seeds of different
        paths are independent, and none depends on how many others were asked for before.

    Returns
    -------
    seed : int
        In [0, 2**31), which numpy, torch and scikit-learn all accept.
    """
    for name, value in (("root", root), *(("path", p) for p in path)):
        if value < 0:
            raise ValueError(f"{name} must hold integers >= 0, got {value!r}.")
    sequence = np.random.SeedSequence(int(root), spawn_key=tuple(int(p) for p in path))
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


def root_seed(random_state: int | np.random.RandomState | None) -> int:
    """One integer from which all seeds of a fit derive.

    None takes fresh entropy from the operating system, not numpy's global generator: a fit
    leaves every global random state as it was.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0]) >> 1
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, int | np.integer):
        raise ValueError(
            "random_state must be None, a non-negative integer or a numpy RandomState, got "
            f"{random_state!r}."
        )
    if random_state < 0:
        raise ValueError(f"random_state must not be negative, got {random_state!r}.")
    return int(random_state)


# The generators of python, numpy and torch, and torch's number of threads, belong to the process.
_LOCK = ProcessLock()


@contextmanager
def exclusive(n_threads: int | None = None) -> Iterator[None]:
    """Let one thread at a time compute, with a number of torch's CPU threads; None leaves it."""
    with _LOCK:
        before = torch.get_num_threads()
        try:
            if n_threads is not None:
                torch.set_num_threads(n_threads)
            yield
        finally:
            if torch.get_num_threads() != before:
                torch.set_num_threads(before)


@contextmanager
def isolated(seed: int = 0, n_threads: int | None = None) -> Iterator[None]:
    """Seed python, numpy and torch inside the block and put everything back after it.

    Threads wait for each other, so that each sees its own random numbers and leaves none behind.

    Parameters
    ----------
    seed : int
        Seed for the three global generators (the CUDA ones included).
    n_threads : int or None
        Number of torch's CPU threads inside the block; None leaves it.
    """
    with exclusive(n_threads):
        python_state = random.getstate()
        numpy_state = np.random.get_state()  # noqa: NPY002 - the global generator is meant
        devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
        try:
            with torch.random.fork_rng(devices=devices):
                random.seed(seed)
                np.random.seed(seed % 2**32)  # noqa: NPY002
                torch.manual_seed(seed)
                yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002


def random_states() -> dict[str, Any]:
    """Return the states of the generators that `isolated` seeds."""
    on_cuda = torch.cuda.is_available()
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 - the global generator is meant
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if on_cuda else [],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Go on drawing from where `random_states` was called; to be used inside `isolated`."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if states["cuda"]:
        torch.cuda.set_rng_state_all(states["cuda"])
