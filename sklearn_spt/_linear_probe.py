"""A linear classifier on frozen vectors, which gives the initial weights of a linear layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

FloatArray = NDArray[np.float64]

#: Most rows that the probe is fitted on; initial weights do not need more.
MOST_ROWS = 2000


def linear_probe(
    F: FloatArray,
    codes: NDArray[np.intp],
    n_classes: int,
    weights: FloatArray | None = None,
    *,
    balanced: bool = True,
) -> tuple[FloatArray, FloatArray] | None:
    """Fit a logistic regression on vectors F (n, d); logits are ``F @ W.T + b``.

    Shift and scale give the vectors a mean of 0 and a mean variance of 1, and the loss is a mean:
    the regularisation depends neither on the scale of the vectors nor on the number of rows.

    Returns
    -------
    W, b : ndarray of shape (n_classes, d), ndarray of shape (n_classes,)
        None with one class, or with vectors that are all equal or not finite.
    """
    row_weights = np.ones(len(F)) if weights is None else np.asarray(weights, dtype=np.float64)
    used = row_weights > 0
    F, codes, row_weights = F[used], codes[used], row_weights[used]
    n, present = len(codes), np.unique(codes)
    if len(present) < 2 or not np.isfinite(F).all():
        return None
    center, size = F.mean(axis=0), np.sqrt((F**2).mean())
    spread = np.sqrt(F.var(axis=0).mean())
    if spread <= 1e-6 * size:
        return None
    # If vectors differ little compared with their common part, weights fitted to the differences
    # would be large, and dropout on the common part would drown them.
    scale = max(spread, 0.1 * size)
    if balanced:
        row_weights = row_weights / np.bincount(codes, weights=row_weights)[codes]
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit((F - center) / scale, codes, sample_weight=row_weights / row_weights.sum())
    coef, intercept = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn returns one row for two classes, their difference
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    W = np.zeros((n_classes, F.shape[1]))
    b = np.full(n_classes, -np.log(n + n_classes))  # makes a class without rows unlikely
    W[present] = coef / scale
    b[present] = intercept - W[present] @ center
    return W, b


def subsample(
    codes: NDArray[np.intp], weights: FloatArray, n_classes: int
) -> tuple[NDArray[np.intp], FloatArray]:
    """Draw `MOST_ROWS` rows with weight, in turn from each class; return rows and weights.

    The drawn rows of a class get the total weight of all its rows.
    """
    rows = np.random.default_rng(0).permutation(np.flatnonzero(weights > 0))
    turn = np.empty(len(rows), dtype=np.intp)  # number of earlier rows of the same class
    for c in range(n_classes):
        turn[codes[rows] == c] = np.arange((codes[rows] == c).sum())
    rows = np.sort(rows[np.argsort(turn, kind="stable")][:MOST_ROWS])
    whole = np.bincount(codes, weights=weights, minlength=n_classes)
    drawn = np.bincount(codes[rows], weights=weights[rows], minlength=n_classes)
    return rows, weights[rows] * whole[codes[rows]] / drawn[codes[rows]]
