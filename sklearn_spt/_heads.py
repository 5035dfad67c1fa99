"""The linear layer of a net: a probe before the training, a refit after it."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from sklearn_spt._labels import Codes, FloatArray
from sklearn_spt._random import one_blas_thread

# -- the linear probe ----------------------------------------------------------------------------
#: Most rows that the probe is fitted on; initial weights do not need more.
MOST_ROWS = 2000


def linear_probe(
    F: FloatArray,
    codes: Codes,
    n_classes: int,
    weights: FloatArray,
    *,
    balanced: bool = True,
) -> tuple[FloatArray, FloatArray] | None:
    """Fit a logistic regression on vectors F (n, d); return W and b of logits ``F @ W.T + b``.

    None is returned for one class, and for vectors that are all equal or not finite. Shift and
    scale give the vectors a mean of 0 and a mean variance of 1, and the loss is a mean: the
    regularisation depends neither on the scale of the vectors nor on the number of rows.
    """
    used = weights > 0
    F, codes, weights = F[used], codes[used], weights[used]
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
        weights = weights / np.bincount(codes, weights=weights)[codes]
    model = LogisticRegression(C=1.0, max_iter=1000)
    with one_blas_thread():
        model.fit((F - center) / scale, codes, sample_weight=weights / weights.sum())
    coef, intercept = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn returns one row for two classes, their difference
        coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
    W = np.zeros((n_classes, F.shape[1]))
    b = np.full(n_classes, -np.log(n + n_classes))  # makes a class without rows unlikely
    W[present] = coef / scale
    b[present] = intercept - W[present] @ center
    return W, b
