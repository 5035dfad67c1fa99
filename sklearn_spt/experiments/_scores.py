"""Scores of predictions on rows whose classes are known. Pure functions."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from sklearn_spt._typing import FloatArray, IntArray

#: Bins of the calibration error, as in Guo et al. (2017).
N_BINS = 15


def class_scores(y: IntArray, predicted: IntArray, n_classes: int) -> dict[str, float]:
    """F1, precision and recall of the positive class (of more than two: macro), and accuracy.

    Parameters
    ----------
    y, predicted : ndarray of int of shape (n,)
        True and predicted codes.
    n_classes : int
        K; of two classes the code 1 is the positive one.

    Returns
    -------
    dict of float
        ``f1``, ``precision``, ``recall``, ``accuracy`` and ``macro_f1``.
    """
    average = "binary" if n_classes == 2 else "macro"
    precision, recall, f1, _ = precision_recall_fscore_support(
        y, predicted, average=average, zero_division=0.0
    )
    macro = f1_score(y, predicted, average="macro", zero_division=0.0)
    return {
        "f1": float(f1),
        "precision": float(precision),
        "recall": float(recall),
        "accuracy": float(accuracy_score(y, predicted)),
        "macro_f1": float(macro),
    }


def probability_scores(y: IntArray, P: FloatArray) -> dict[str, float]:
    """How far probabilities can be read as such.

    Parameters
    ----------
    y : ndarray of int of shape (n,)
        True codes.
    P : ndarray of float of shape (n, n_classes)
        Predicted probabilities.

    Returns
    -------
    dict of float
        ``brier`` and ``ece``, see `brier_score` and `calibration_error`; 0 is best for both.
    """
    return {"brier": brier_score(y, P), "ece": calibration_error(y, P)}


def brier_score(y: IntArray, P: FloatArray) -> float:
    """Half the squared distance of the probabilities from the truth, as a mean over rows.

    In [0, 1]; with two classes it is the mean of (P(y = 1) - y)².

    Parameters
    ----------
    y : ndarray of int of shape (n,)
        True codes.
    P : ndarray of float of shape (n, n_classes)
        Predicted probabilities.

    Returns
    -------
    float
        The score.

    References
    ----------
    .. [1] G. W. Brier, "Verification of forecasts expressed in terms of probability", 1950.
    """
    truth = np.eye(P.shape[1])[y]
    return float(((P - truth) ** 2).sum(axis=1).mean() / 2)


def calibration_error(y: IntArray, P: FloatArray, n_bins: int = N_BINS) -> float:
    """Compute the expected calibration error of the predicted class.

    The rows are put into bins of equal width by the probability of their predicted class. The
    result is the mean over the rows of how far the accuracy of their bin is from its mean
    probability.

    Parameters
    ----------
    y : ndarray of int of shape (n,)
        True codes.
    P : ndarray of float of shape (n, n_classes)
        Predicted probabilities.
    n_bins : int, default=15
        Number of bins over (0, 1].

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML 2017.
    """
    confidence = P.max(axis=1)
    right = P.argmax(axis=1) == y
    # bins are closed at the right
    bins = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    excess = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(excess).sum() / len(y))
