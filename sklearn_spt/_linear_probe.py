"""A linear classifier on frozen vectors, as the start of a head. A pure function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class LinearHead(NamedTuple):
    """A linear layer: logits are ``F @ W.T + b``.

    Attributes
    ----------
    W : ndarray of shape (n_classes, d)
        Weights.
    b : ndarray of shape (n_classes,)
        Biases.
    """

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
    """Fit a logistic regression on vectors.

    It minimises the mean cross-entropy plus half the squared norm of its weights, on vectors that
    were shifted and scaled to a mean of 0 and a mean variance of 1: so its strength depends
    neither on the scale of an encoder's vectors nor on the number of rows.

    Parameters
    ----------
    F : ndarray of shape (n, d)
        Vectors.
    codes : ndarray of int of shape (n,)
        Classes; some of the `n_classes` may be absent.
    n_classes : int
        K.
    weights : ndarray of shape (n,) or None, default=None
        Weights of the rows; only proportions count.
    balanced : bool, default=True
        Whether all classes weigh the same together, whatever their number of rows.

    Returns
    -------
    LinearHead or None
        For vectors as they are, not scaled. An absent class gets no weights, and a bias as if it
        had had a share of 1 / (n + K) of the rows. None if there are rows of one class only, or
        if all vectors are equal.
    """
    n = len(codes)
    present = np.unique(codes)
    center = F.mean(axis=0)
    scale = float(np.sqrt(F.var(axis=0).mean()))
    if len(present) < 2 or scale == 0:
        return None
    row_weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if balanced:
        totals = np.bincount(codes, weights=row_weights, minlength=n_classes)
        row_weights = row_weights / np.where(totals > 0, totals, 1.0)[codes]
    row_weights = row_weights / row_weights.sum()
    # C multiplies the sum of the weighted losses, which is a mean here
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit((F - center) / scale, codes, sample_weight=row_weights)
    coef, intercept = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn has one row for two classes, of their difference
        coef = np.vstack([-coef / 2, coef / 2])
        intercept = np.concatenate([-intercept / 2, intercept / 2])
    W = np.zeros((n_classes, F.shape[1]))
    b = np.full(n_classes, -np.log(n + n_classes))
    W[present] = coef / scale
    b[present] = intercept - W[present] @ center
    return LinearHead(W, b)
