"""The method's arithmetic on probabilities: arrays in, arrays out, float64 inside.

The letters follow the paper: ``T`` is the temperature, ``alpha`` the inertia, ``m_c, v_c`` the mean
and variance that class ``c`` carries over from the iteration before, ``mu_c, sigma2_c`` those of
this iteration, and a hat marks the combination of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_spt._typing import FloatArray, IntArray


def tempered_softmax(logits: ArrayLike, temperature: float = 1.0) -> FloatArray:
    """Turn logits into class probabilities, flattened by a temperature.

    Parameters
    ----------
    logits : array-like of shape (n, K)
        Finite logits.
    temperature : float, default=1.0
        T > 0. T = 1 is the usual softmax; the larger T, the closer to uniform.

    Returns
    -------
    probabilities : ndarray of shape (n, K)
        ``exp(z_j / T) / sum_m exp(z_m / T)``, rows summing to 1.

    Raises
    ------
    ValueError
        If the temperature is not a positive number, or a logit is not finite.
    """
    if not 0 < temperature < np.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature!r}.")
    z = as_matrix(logits, "logits")
    # The maximum is subtracted before the division: a small T must not overflow z / T.
    # What overflows there is far below the maximum: its probability is 0.
    with np.errstate(over="ignore"):
        p: FloatArray = np.exp((z - z.max(axis=1, keepdims=True)) / temperature)
    p /= p.sum(axis=1, keepdims=True)
    return p


def predicted_classes(P: ArrayLike) -> IntArray:
    """Return the predicted class of each row.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities.

    Returns
    -------
    classes : ndarray of shape (n,)
        The most probable class, ties to the lowest index. Two classes follow the authors' code
        instead: class 1 if and only if its probability is at least 0.5.
    """
    P = as_matrix(P, "P")
    classes = P[:, 1] >= 0.5 if P.shape[1] == 2 else P.argmax(axis=1)
    return np.asarray(classes, dtype=np.int64)


def mean_probabilities(*probabilities: ArrayLike) -> FloatArray:
    """Average the members of an ensemble.

    Parameters
    ----------
    *probabilities : array-like of shape (n, K)
        One matrix per member, at least one.

    Returns
    -------
    mean : ndarray of shape (n, K)
        Mean over the members, every member with the same weight.
    """
    if not probabilities:
        raise ValueError("mean_probabilities needs the probabilities of at least one member.")
    members = [as_matrix(member, "probabilities") for member in probabilities]
    shapes = sorted({member.shape for member in members})
    if len(shapes) > 1:
        raise ValueError(f"all members must predict the same rows and classes, got {shapes}.")
    return np.asarray(np.sum(members, axis=0) / len(members), dtype=np.float64)


def as_matrix(values: ArrayLike, name: str) -> FloatArray:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError(
            f"{name} must have shape (n, K) with K >= 2 classes, got shape {matrix.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        raise ValueError(f"{name} must be finite, but row {bad[0]} is {matrix[bad[0]].tolist()}.")
    return matrix
