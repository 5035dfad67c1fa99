"""The linear layer of a net: a probe before the training, a refit after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression

from sklearn_spt._labels import Codes, FloatArray
from sklearn_spt._module import before_compile
from sklearn_spt._random import one_blas_thread
from sklearn_spt._soft_self_training import soft_self_training

#: Most rows that the probe is fitted on; initial weights do not need more.
MOST_ROWS = 2000


class Refit(NamedTuple):
    """What a net says of L and U once its linear layer is fitted anew."""

    on_L: FloatArray  # logits
    on_U: FloatArray
    by_labels: FloatArray  # probabilities of U by a layer that is fitted on L alone


def set_head(module: Any, W: FloatArray, b: FloatArray) -> None:
    """Set the linear layer of a module to logits ``F @ W.T + b``."""
    with torch.no_grad():
        for parameter, values in zip(before_compile(module).head.parameters(), (W, b), strict=True):
            parameter.copy_(torch.from_numpy(values))


def rows_of_probe(codes: Codes, weights: FloatArray) -> tuple[Codes, FloatArray]:
    """Return at most `MOST_ROWS` rows, of each class in turn, and their weights."""
    if len(codes) <= MOST_ROWS:
        return np.arange(len(codes)), weights
    rows = np.random.default_rng(0).permutation(np.flatnonzero(weights > 0))
    turn = pd.Series(rows).groupby(codes[rows]).cumcount()
    rows = rows[np.argsort(turn.to_numpy(), kind="stable")[:MOST_ROWS]]
    whole, drawn = np.bincount(codes, weights), np.bincount(codes[rows], weights[rows])
    return rows, weights[rows] * whole[codes[rows]] / drawn[codes[rows]]  # a class keeps its weight


def refitted_head(
    L: FloatArray, codes: Codes, weights: FloatArray, U: FloatArray, n_classes: int, balanced: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fit W and b by soft self-training on vectors of labelled rows, L, and of others, U.

    Returned are also the probabilities of U by a plain regression on L.

    Fine-tuning with few labels moves the vectors of a class together, also those of unlabelled
    rows; the layer that it leaves has hardly moved from its start.
    """
    F = np.vstack([L, U])
    size = np.sqrt((F**2).sum(axis=1).mean())  # one for all rows, so that a layer has it
    if balanced:  # as the batches were
        weights = weights / np.maximum(np.bincount(codes, weights=weights), 1e-12)[codes]
        weights = weights / weights.mean()
    y = np.append(codes, np.full(len(U), -1))
    theta, _ = soft_self_training(F / size, y, weights, n_classes, C=3.0)
    by_labels = soft_self_training(F / size, y, weights, n_classes, C=10.0, max_iter=0)[1]
    return theta[:-1].T / size, theta[-1], by_labels


def linear_probe(
    F: FloatArray, codes: Codes, n_classes: int, weights: FloatArray, *, balanced: bool = True
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
