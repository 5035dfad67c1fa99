"""A linear classifier on frozen vectors, which gives the initial weights of a linear layer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from sklearn_spt._typing import FloatArray, IntArray

#: Vectors whose standard deviation is less than this share of their size count as equal.
_LEAST_SPREAD = 1e-6
#: Vectors are not scaled up further if their standard deviation is less than this share.
_COMMON_PART = 0.1


class LinearHead(NamedTuple):
    """A linear layer with logits ``F @ W.T + b``; `W` has shape (n_classes, d)."""

    W: FloatArray
    b: FloatArray


def linear_probe(
    F: FloatArray,
    codes: IntArray,
    n_classes: int,
    *,
    weights: FloatArray | None = None,
    balanced: bool = True,
) -> LinearHead | None:
    """Fit a logistic regression on `F`; None with one class, equal vectors or one not finite."""
    # Shift and scale give the vectors a mean of 0 and a mean variance of 1, and the loss is a mean.
    # So the regularisation depends neither on the scale of the vectors nor on the number of rows.
    row_weights = np.ones(len(F)) if weights is None else np.asarray(weights, dtype=np.float64)
    used = row_weights > 0
    F, codes, row_weights = F[used], codes[used], row_weights[used]
    n, present = len(codes), np.unique(codes)
    if len(present) < 2 or not np.isfinite(F).all():
        return None
    center = F.mean(axis=0)
    spread, size = np.sqrt(F.var(axis=0).mean()), np.sqrt((F**2).mean())
    if spread <= _LEAST_SPREAD * size:
        return None
    # If vectors differ little compared with their common part, weights fitted to the differences
    # would be large, and dropout on the common part would drown them.
    scale = float(max(spread, _COMMON_PART * size))
    if balanced:
        row_weights = row_weights / np.bincount(codes, weights=row_weights)[codes]
    row_weights = row_weights / row_weights.sum()
    # C multiplies the sum of the weighted losses; the weights sum to 1, so that it is a mean
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit((F - center) / scale, codes, sample_weight=row_weights)
    coef, intercept = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn returns one row for two classes, their difference
        coef = np.vstack([-coef / 2, coef / 2])
        intercept = np.concatenate([-intercept / 2, intercept / 2])
    W = np.zeros((n_classes, F.shape[1]))
    b = np.full(n_classes, -np.log(n + n_classes))  # makes a class without rows unlikely
    W[present] = coef / scale
    b[present] = intercept - W[present] @ center
    return LinearHead(W, b)


def subsample_by_class(
    codes: IntArray, weights: FloatArray, n: int, rng: np.random.Generator
) -> IntArray:
    """Draw at most `n` rows with weight, in turn from each class, without replacement."""
    rows = rng.permutation(np.flatnonzero(weights > 0))
    turn = np.empty(len(rows), dtype=np.int64)  # number of earlier rows of the same class
    for code in np.unique(codes[rows]):
        of_class = codes[rows] == code
        turn[of_class] = np.arange(of_class.sum())
    return np.sort(rows[np.argsort(turn, kind="stable")][:n])
