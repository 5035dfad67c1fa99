"""Seeds, draws and selections. Every function takes its randomness as an argument."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A share of a count is a product of two floats: 0.07 * 100 is 7.000000000000001, and
# 0.29 * 100 is 28.999999999999996. This much, relatively, is taken for rounding.
_ROUNDING = 1e-12


def share_up(share: float, n: int) -> int:
    """Share of a count, rounded up; a product that rounding alone lifts over a whole is not."""
    return math.ceil(share * n * (1 - _ROUNDING))


def share_down(share: float, n: int) -> int:
    """Share of a count, rounded down; a product that rounding alone keeps below a whole is not."""
    return math.floor(share * n * (1 + _ROUNDING))


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


def class_balanced_draws(
    classes: ArrayLike, rng: np.random.Generator, n_draws: int | None = None
) -> NDArray[np.int64]:
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


def shuffled(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
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


def epoch_rows(
    codes: NDArray[np.int64], balanced: bool, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the rows of one epoch: class-balanced with replacement, or all of them shuffled."""
    return class_balanced_draws(codes, rng) if balanced else shuffled(len(codes), rng)


def growing_sample_sizes(
    n_unlabeled: int, step: int, first: int | None = None, max_iter: int | None = None
) -> list[int]:
    """List the sample size of every iteration.

    Parameters
    ----------
    n_unlabeled : int
        Number of unlabelled documents, the size of U.
    step : int
        The paper's k >= 1, by which the sample grows.
    first : int, default=None
        Size of the first sample, at least 1. None means `step`, as in the paper; the authors' code
        has half of it.
    max_iter : int, default=None
        Stop after so many iterations. None means to go on until the sample is all of U.

    Returns
    -------
    sizes : list of int
        Non-decreasing, none above `n_unlabeled`, which is the last one unless `max_iter` cuts in.
        Empty without unlabelled documents.
    """
    first = step if first is None else first
    for name, value, least in (
        ("n_unlabeled", n_unlabeled, 0),
        ("step", step, 1),
        ("first", first, 1),
        ("max_iter", 0 if max_iter is None else max_iter, 0),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}.")
    if n_unlabeled == 0:
        return []
    sizes = [*range(first, n_unlabeled, step), n_unlabeled]
    return sizes[:max_iter]


def resolve_step_size(step_size: object, n_unlabeled: int, name: str = "step_size") -> int:
    """Turn a step size into a number of documents.

    Parameters
    ----------
    step_size : float or int
        A float in (0, 1] is a share of the unlabelled documents, an int >= 1 is a number of them.
    n_unlabeled : int
        Number of unlabelled documents.
    name : str, default="step_size"
        Name of the parameter, for the messages.

    Returns
    -------
    step : int
        At least 1. A share is rounded up. A number is returned as it is, even above `n_unlabeled`.

    Raises
    ------
    TypeError
        If `step_size` is not a number, or a bool.
    ValueError
        If it is not positive, or a float above 1.
    """
    if isinstance(step_size, bool) or not isinstance(step_size, Real):
        raise TypeError(
            f"{name} must be a float in (0, 1] or an int >= 1, got {step_size!r} "
            f"of type {type(step_size).__name__}."
        )
    if isinstance(step_size, Integral):
        if step_size < 1:
            raise ValueError(f"{name} as an int must be at least 1, got {step_size!r}.")
        return int(step_size)
    share = float(step_size)
    if not 0 < share <= 1:
        raise ValueError(
            f"{name} as a float must be a share in (0, 1], got {step_size!r}; "
            "write an int for a number of documents."
        )
    return max(1, share_up(share, n_unlabeled))


def draw_sample(n_unlabeled: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
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


def throttle(
    confidence: ArrayLike, n_train: int, theta: float = 0.9, max_fraction: float = 0.1
) -> NDArray[np.int64]:
    """Select the most confident documents, but never many at once.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probability of the predicted class of each candidate.
    n_train : int
        Size of the current training set, labelled and pseudo-labelled.
    theta : float, default=0.9
        Least confidence, the paper's. Compared in the precision of `confidence`, so that 0.9 in
        float32 reaches 0.9. Above 1 nothing is eligible.
    max_fraction : float, default=0.1
        At most this share of `n_train` is selected, the paper's, rounded down but at least one
        document.

    Returns
    -------
    rows : ndarray of int64
        Selected candidates, the most confident first, ties to the lower row. May be empty.

    Raises
    ------
    ValueError
        If a confidence is not finite, or a size is negative.
    """
    confidence = np.asarray(confidence)
    if confidence.ndim != 1:
        raise ValueError(f"confidence must have shape (n,), got {confidence.shape}.")
    bad = np.flatnonzero(~np.isfinite(confidence))
    if bad.size:
        raise ValueError(f"confidence must be finite, but row {bad[0]} is {confidence[bad[0]]}.")
    for name, value in (("n_train", n_train), ("max_fraction", max_fraction)):
        if not value >= 0:
            raise ValueError(f"{name} must be at least 0, got {value!r}.")
    eligible = np.flatnonzero(confidence >= theta)
    quota = max(1, share_down(max_fraction, n_train))
    best_first = np.argsort(-confidence[eligible], kind="stable")
    return eligible[best_first[:quota]].astype(np.int64, copy=False)
