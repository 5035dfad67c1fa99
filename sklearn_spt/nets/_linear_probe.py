"""A linear classifier on frozen vectors, as the start of a head. A pure function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from sklearn_spt._typing import FloatArray, IntArray

#: Standard deviation over size of vectors, below which they are taken for equal, and below which
#: they are not scaled up any further.
_LEAST_SPREAD = 1e-6
_COMMON_PART = 0.1


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
    were shifted and scaled to a mean of 0 and a mean variance of 1 (less where they differ by less
    than a tenth of their size): so its strength depends neither on the scale of an encoder's
    vectors nor on the number of rows.

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
        For vectors as they are, not scaled. An absent class, or one whose rows weigh nothing, gets
        no weights and a bias of -log(n + K), which makes it unlikely. None if there is one class
        only, if all vectors are equal, or if one is not finite.
    """
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
    # Where vectors differ little beside what they have in common, dropout on that common part
    # would drown weights that were fitted to the differences.
    scale = float(max(spread, _COMMON_PART * size))
    if balanced:
        row_weights = row_weights / np.bincount(codes, weights=row_weights)[codes]
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


def subsample_by_class(
    codes: IntArray, weights: FloatArray, n: int, rng: np.random.Generator
) -> IntArray:
    """Draw rows without replacement, as many of each class as there are and as fit.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        Classes.
    weights : ndarray of shape (n_rows,)
        Rows without weight are not drawn.
    n : int
        Number of rows to draw, at most.
    rng : numpy.random.Generator
        Draws them.

    Returns
    -------
    ndarray of int
        Row numbers, ascending. A rare class is there with all its rows.
    """
    rows = rng.permutation(np.flatnonzero(weights > 0))
    turn = np.empty(len(rows), dtype=np.int64)  # how many of its class come before a row
    for code in np.unique(codes[rows]):
        of_class = codes[rows] == code
        turn[of_class] = np.arange(of_class.sum())
    return np.sort(rows[np.argsort(turn, kind="stable")][:n])
