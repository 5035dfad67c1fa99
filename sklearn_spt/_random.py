"""Derived seeds, blocks that restore the global random states, and random draws of rows."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from sklearn_spt._runtime import ProcessLock
from sklearn_spt._typing import IntArray
from sklearn_spt._validation import shown

# Relative rounding error of a share of a count: 0.07 * 100 is 7.000000000000001, and
# 0.29 * 100 is 28.999999999999996.
_ROUNDING = 1e-12


def derive_seed(root: int, *path: int) -> int:
    """Return the seed in [0, 2**31) of one purpose, for example (iteration, number of the net).

    Seeds of different paths are independent, and no seed depends on the order of the calls.
    """
    sequence = np.random.SeedSequence(int(root), spawn_key=tuple(int(p) for p in path))
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


def root_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the integer from which all seeds of a fit derive.

    None takes entropy from the operating system, since a fit must not change numpy's generator.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0]) >> 1
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, int | np.integer):
        raise ValueError(
            "random_state must be None, a non-negative integer or a numpy RandomState, got "
            f"{shown(random_state)}."
        )
    if random_state < 0:
        raise ValueError(f"random_state must not be negative, got {shown(random_state)}.")
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
    """Seed Python, numpy and torch inside the block and restore their states after it.

    `n_threads` sets torch's CPU threads inside the block. Other threads wait for the block to end.
    """
    with exclusive(n_threads):
        python_state = random.getstate()
        numpy_state = np.random.get_state()  # noqa: NPY002 - the global generator is meant
        # To read a generator of CUDA would start CUDA, which a fit on the CPU does not need and
        # which breaks forks. Where it has not started, torch keeps the seed until it does.
        started = torch.cuda.is_initialized()
        cuda_seed = torch.initial_seed()
        try:
            with torch.random.fork_rng(range(torch.cuda.device_count()) if started else ()):
                random.seed(seed)
                np.random.seed(seed % 2**32)  # noqa: NPY002
                torch.manual_seed(seed)
                yield
        finally:
            if not started:  # torch keeps this seed, too; to ask whether CUDA is there starts it
                torch.cuda.manual_seed_all(cuda_seed)
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002


def random_states() -> dict[str, Any]:
    """Return the states of the generators that `isolated` seeds."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 - the global generator is meant
        **torch_states(),
    }


def torch_states() -> dict[str, Any]:
    """Return the states of torch's generators; those of CUDA only where it has started."""
    on_cuda = torch.cuda.is_initialized()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if on_cuda else [],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Restore what `random_states` returned; call it inside `isolated`."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    set_torch_states(states)


def set_torch_states(states: dict[str, Any]) -> None:
    """Restore what `torch_states` returned."""
    torch.set_rng_state(states["torch"])
    if states["cuda"] and torch.cuda.is_initialized():  # as after loading a net that is there
        torch.cuda.set_rng_state_all(states["cuda"])


# -- draws; each function takes its generator as an argument -----------------------------------
def share_up(share: float, n: int) -> int:
    """Return a share of a count, rounded up; a floating-point error does not round up."""
    return math.ceil(share * n * (1 - _ROUNDING))


def share_down(share: float, n: int) -> int:
    """Return a share of a count, rounded down; a floating-point error does not round down."""
    return math.floor(share * n * (1 + _ROUNDING))


def class_balanced_draws(codes: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw as many rows as there are, with replacement, so that each class is equally likely.

    Row i has the probability ``1 / (K * n_c)``, where c is its class, n_c the number of rows of
    that class, and K the number of classes present.
    """
    if len(codes) == 0:
        return np.empty(0, dtype=np.int64)
    # Drawing a class and then one of its rows costs O(1). Small integers sort in linear time.
    narrow = codes.astype(np.min_scalar_type(int(codes.max())))
    by_class = np.argsort(narrow, kind="stable")
    sizes = np.bincount(narrow)
    first = np.cumsum(sizes) - sizes
    present = np.flatnonzero(sizes)
    c = present[rng.integers(len(present), size=len(codes))]
    rows = by_class[first[c] + rng.integers(sizes[c])]
    return np.asarray(rows, dtype=np.int64)


def shuffled(n: int, rng: np.random.Generator) -> IntArray:
    """Return the rows 0, ..., n - 1 in random order."""
    return rng.permutation(n).astype(np.int64, copy=False)


def epoch_rows(codes: IntArray, balanced: bool, rng: np.random.Generator) -> IntArray:
    """Draw the rows of one epoch: class-balanced with replacement, or all of them shuffled."""
    return class_balanced_draws(codes, rng) if balanced else shuffled(len(codes), rng)


def draw_sample(n_unlabeled: int, size: int, rng: np.random.Generator) -> IntArray:
    """Draw distinct unlabelled documents, uniformly and in random order."""
    return rng.choice(n_unlabeled, size=size, replace=False).astype(np.int64, copy=False)
