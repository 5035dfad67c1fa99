"""Throttled selection of pseudo-labels: pools of candidates, caps and confidence thresholds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from sklearn_spt._random import share_down
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_integer, check_real


def check_throttling(model: Any) -> None:
    """Raise an error if `threshold`, `max_fraction` or `max_iter` of a classifier is unusable."""
    check_real(model.threshold, "threshold", low=0, closed="left")
    check_real(model.max_fraction, "max_fraction", low=0, closed="neither")
    check_integer(model.max_iter, "max_iter", low=0)


def warn_nothing_added(threshold: float, which: str = "") -> None:
    """Warn, in `_fit`, that no unlabelled document reached a threshold of at most 1."""
    if threshold > 1:
        return
    remedy = " Lower threshold." if threshold > 0 else ""
    warnings.warn(
        f"no unlabelled document {which}was labelled with a confidence of threshold={threshold} "
        f"or more: the model is trained on the labelled rows alone.{remedy}",
        UserWarning,
        stacklevel=4,
    )


def pool_size(t: int, n_unlabeled: int, n_left: int) -> int:
    """Size of the candidate pool at iteration t: t tenths of |U|, at most what is left."""
    return min(n_left, t * math.ceil(n_unlabeled / 10))


def growing_pools(
    left: IntArray, t: int, n_unlabeled: int, rng: np.random.Generator
) -> Iterator[IntArray]:
    """Yield the candidates of iteration t, then what each later iteration would add to them."""
    order, drawn = rng.permutation(left), 0
    while drawn < len(left):
        size = pool_size(t, n_unlabeled, len(left))
        yield order[drawn:size]
        drawn, t = size, t + 1


def throttle(
    confidence: FloatArray, n_train: int, threshold: float, max_fraction: float
) -> IntArray:
    """Rows of the most confident candidates, best first, at most `max_fraction` of `n_train`."""
    eligible = np.flatnonzero(confidence >= threshold)
    quota = max(1, share_down(max_fraction, n_train))
    best_first = np.argsort(-confidence[eligible], kind="stable")  # ties go to the lower row
    return eligible[best_first[:quota]].astype(np.int64, copy=False)
