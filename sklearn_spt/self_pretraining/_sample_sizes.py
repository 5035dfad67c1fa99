"""Sizes of the samples of unlabelled documents."""

from __future__ import annotations

from numbers import Integral, Real

from sklearn_spt._sampling import share_up
from sklearn_spt._validation import shown


def growing_sample_sizes(
    n_unlabeled: int, step: int, first: int | None = None, max_iter: int | None = None
) -> list[int]:
    """Return the sample size of each iteration: it starts at `first` and grows by `step`.

    `first` is `step` by default. The last sample holds all documents, unless `max_iter` is reached.
    """
    first = step if first is None else first
    for name, value, least in (
        ("n_unlabeled", n_unlabeled, 0),
        ("step", step, 1),
        ("first", first, 1),
        ("max_iter", 0 if max_iter is None else max_iter, 0),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {shown(value)}.")
    if n_unlabeled == 0:
        return []
    sizes = [*range(first, n_unlabeled, step), n_unlabeled]
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
