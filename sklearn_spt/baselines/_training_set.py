"""Training sets: labelled documents and unlabelled ones with pseudo-labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._holdout import weights_of
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt.text._documents import concatenated


def training_set(
    data: SemiSupervisedData,
    added: IntArray,
    pseudo: IntArray,
    labeled: IntArray | None = None,
) -> tuple[Any, IntArray, FloatArray | None]:
    """Return X, y and weights of labelled rows (None: all), then of the unlabelled rows `added`."""
    X, y = data.X_labeled, data.y
    if labeled is not None:
        X, y = multi_indexing(X, labeled), y[labeled]
    if len(added):
        X = concatenated(X, multi_indexing(data.X_unlabeled, added))
    return X, np.concatenate([y, pseudo]), weights_of(data.weights, labeled, len(added))
