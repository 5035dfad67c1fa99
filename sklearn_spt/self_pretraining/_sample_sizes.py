"""Sizes of the samples of unlabelled documents."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

from sklearn_spt._random import share_up
from sklearn_spt._validation import shown

# More iterations than this are hardly meant: each trains new students.
_MANY = 100


def growing_sample_sizes(
    n_unlabeled: int, step: int, first: int | None = None, max_iter: int | None = None
) -> list[int]:
    """Return the sizes from `first` (default: `step`) in steps to all documents, or `max_iter`."""
    if n_unlabeled == 0:
        return []
    sizes = [*range(step if first is None else first, n_unlabeled, step), n_unlabeled]
    return sizes[:max_iter]


def resolve_step_size(step_size: object, n_unlabeled: int) -> int:
    """Turn a step size into a number of documents: an int as it is, a share rounded up."""
    if isinstance(step_size, bool) or not isinstance(step_size, Real):
        raise TypeError(
            f"step_size must be a float in (0, 1] or an int >= 1, got {shown(step_size)} "
            f"of type {type(step_size).__name__}."
        )
    if isinstance(step_size, Integral):
        if step_size < 1:
            raise ValueError(f"step_size as an int must be at least 1, got {shown(step_size)}.")
        return int(step_size)
    share = float(step_size)
    if not 0 < share <= 1:
        raise ValueError(
            f"step_size as a float must be a share in (0, 1], got {shown(step_size)}; "
            "write an int for a number of documents."
        )
    return max(1, share_up(share, n_unlabeled))


def warn_of_sizes(
    sizes: list[int], step_size: object, max_iter: int | None, alpha: float, n_unlabeled: int
) -> None:
    """Warn of very many iterations, and of inertia that has no effect."""
    message = None
    given = f"step_size={step_size} and {n_unlabeled} unlabelled documents"
    if len(sizes) > _MANY and max_iter is None:
        message = (
            f"{given} make {len(sizes)} iterations; use a greater step_size. An int is a number of "
            "documents and a float is a share of them: with 1.0 there is one iteration."
        )
    elif alpha > 0 and len(sizes) == 1:
        ended = sizes[0] < n_unlabeled
        cause = f"max_iter={max_iter}" if ended else f"step_size={step_size}"
        message = (
            f"alpha={alpha} has no effect: with {cause} and {n_unlabeled} unlabelled documents "
            "there is only one iteration, and inertia needs an earlier one. Use a "
            f"{'greater max_iter' if ended else 'smaller step_size'}, or alpha=0."
        )
    if message is not None:
        warnings.warn(message, UserWarning, stacklevel=5)
