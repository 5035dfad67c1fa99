"""Pure functions of probabilities, in float64, and of class labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._typing import AnyArray, FloatArray, IntArray


def tempered_softmax(logits: ArrayLike, temperature: float = 1.0) -> FloatArray:
    """Return the softmax of logits of shape (n, K), divided by a temperature T > 0."""
    z = as_matrix(logits, "logits")
    # The maximum is subtracted before the division, so that a small T does not overflow z / T.
    # A logit that still overflows is far below the maximum: its probability is 0.
    with np.errstate(over="ignore"):
        p: FloatArray = np.exp((z - z.max(axis=1, keepdims=True)) / temperature)
    p /= p.sum(axis=1, keepdims=True)
    return p


def predicted_classes(P: ArrayLike) -> IntArray:
    """Return the most probable class of each row, the lowest of equals.

    Of two classes, class 1 is predicted if its probability is at least 0.5, as in the authors'
    code.
    """
    P = as_matrix(P, "P")
    classes = P[:, 1] >= 0.5 if P.shape[1] == 2 else P.argmax(axis=1)
    return np.asarray(classes, dtype=np.int64)


def mean_probabilities(*probabilities: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return the mean of the probabilities of an ensemble's members, weighted if asked for."""
    members = [as_matrix(member, "probabilities") for member in probabilities]
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return np.asarray(np.average(members, axis=0, weights=weights), dtype=np.float64)


def as_matrix(values: ArrayLike, name: str) -> FloatArray:
    """Return finite values of shape (n, K) as float64, or raise an error that names the row."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError(
            f"{name} must have shape (n, K) with K >= 2 classes, got shape {matrix.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        raise ValueError(f"{name} must be finite, but row {bad[0]} is {matrix[bad[0]].tolist()}.")
    return matrix


def plain_label(label: Any) -> Any:
    """Return a class label as a plain Python object, which can be written as JSON."""
    plain = label.item() if isinstance(label, np.generic) else label
    return plain if isinstance(plain, str | int | float) else str(label)


def class_counts(codes: IntArray, classes: AnyArray) -> dict[Any, int]:
    """Count the rows of each class by label."""
    counts = np.bincount(codes, minlength=len(classes)).tolist()
    return {plain_label(c): n for c, n in zip(classes, counts, strict=True)}
