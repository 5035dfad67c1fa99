"""Seeds, draws and selections. Every function takes its randomness as an argument."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._typing import IntArray

# A share of a count is a product of two floats: 0.07 * 100 is 7.000000000000001, and
# 0.29 * 100 is 28.999999999999996. This much, relatively, is taken for rounding.
_ROUNDING = 1e-12


def share_up(share: float, n: int) -> int:
    """Share of a count, rounded up; a product that rounding alone lifts over a whole is not."""
    return math.ceil(share * n * (1 - _ROUNDING))


def share_down(share: float, n: int) -> int:
    """Share of a count, rounded down; a product that rounding alone keeps below a whole is not."""
    return math.floor(share * n * (1 + _ROUNDING))


def class_balanced_draws(
    classes: ArrayLike, rng: np.random.Generator, n_draws: int | None = None
) -> IntArray:
    """Draw rows for one epoch in which every class is equally frequent on average.

    Parameters
    ----------
    classes : array-like of shape (n,)
        Class index >= 0 of each row. For soft labels, that of the largest one.
    rng : numpy.random.Generator
        Source of randomness.
    n_draws : int, default=None
        Number of draws. None means n, one epoch.

    Returns
    -------
    rows : ndarray of shape (n_draws,), int64
        Drawn with replacement. Row i comes with probability ``1 / (K' * n_c)``, where c is its
        class, n_c the number of rows of that class, and K' the number of classes present.

    Raises
    ------
    TypeError
        If `classes` does not hold integers.
    ValueError
        If a class index is negative, or there is no row to draw from.
    """
    classes = np.asarray(classes)
    if classes.ndim != 1:
        raise ValueError(f"classes must hold one class index per row, got shape {classes.shape}.")
    if n_draws is None:
        n_draws = len(classes)
    if n_draws < 0:
        raise ValueError(f"n_draws must not be negative, got {n_draws!r}.")
    if n_draws == 0:
        return np.empty(0, dtype=np.int64)
    if len(classes) == 0:
        raise ValueError(f"cannot draw {n_draws} rows from none: classes is empty.")
    if classes.dtype.kind not in "iu":
        raise TypeError(f"classes must hold integer class indices, got dtype {classes.dtype}.")
    if classes.min() < 0:
        row = int(classes.argmin())
        raise ValueError(f"classes must be at least 0, but row {row} is {classes[row]}.")
    # Two steps, a class and then one of its members, have the same distribution as one draw with
    # n probabilities, and cost O(1) a draw. Small integers are sorted in linear time.
    narrow = classes.astype(np.min_scalar_type(int(classes.max())))
    by_class = np.argsort(narrow, kind="stable")
    sizes = np.bincount(narrow)  # older numpy counts no uint64
    first = np.cumsum(sizes) - sizes
    present = np.flatnonzero(sizes)
    c = present[rng.integers(len(present), size=n_draws)]
    rows = by_class[first[c] + rng.integers(sizes[c])]
    return np.asarray(rows, dtype=np.int64)


def shuffled(n: int, rng: np.random.Generator) -> IntArray:
    """Return all rows once, in random order.

    Parameters
    ----------
    n : int
        Number of rows.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    rows : ndarray of shape (n,), int64
        A permutation of 0, ..., n - 1.
    """
    return rng.permutation(n).astype(np.int64, copy=False)


def epoch_rows(codes: IntArray, balanced: bool, rng: np.random.Generator) -> IntArray:
    """Draw the rows of one epoch: class-balanced with replacement, or all of them shuffled."""
    return class_balanced_draws(codes, rng) if balanced else shuffled(len(codes), rng)


def draw_sample(n_unlabeled: int, size: int, rng: np.random.Generator) -> IntArray:
    """Draw unlabelled documents, uniformly and without replacement.

    Parameters
    ----------
    n_unlabeled : int
        Number of unlabelled documents.
    size : int
        Number to draw, from 0 to `n_unlabeled`.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    rows : ndarray of shape (size,), int64
        Distinct rows in random order.
    """
    if not 0 <= size <= n_unlabeled:
        raise ValueError(
            f"size must be from 0 to the {n_unlabeled} unlabelled documents, got {size!r}."
        )
    return rng.choice(n_unlabeled, size=size, replace=False).astype(np.int64, copy=False)
