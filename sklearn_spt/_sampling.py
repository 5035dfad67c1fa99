"""Random draws of rows. Each function takes its generator as an argument."""

from __future__ import annotations

import math

import numpy as np

from sklearn_spt._typing import IntArray

# Relative rounding error of a share of a count: 0.07 * 100 is 7.000000000000001, and
# 0.29 * 100 is 28.999999999999996.
_ROUNDING = 1e-12


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
