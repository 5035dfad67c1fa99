"""Scores of predictions and of probabilities."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from sklearn_spt._typing import FloatArray, IntArray

#: Bins of the calibration error, as in Guo et al. (2017).
N_BINS = 15


def class_scores(y: IntArray, predicted: IntArray, n_classes: int) -> dict[str, float]:
    """F1, precision and recall of the positive class (of more than two: macro), and accuracy."""
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
    """Return the Brier score and the calibration error; 0 is best for both."""
    return {"brier": brier_score(y, P), "ece": calibration_error(y, P)}


def brier_score(y: IntArray, P: FloatArray) -> float:
    """Return half the mean squared distance of probabilities and one-hot truth (Brier, 1950).

    With two classes, it is the mean of (P(y = 1) - y)².
    """
    truth = np.eye(P.shape[1])[y]
    return float(((P - truth) ** 2).sum(axis=1).mean() / 2)


def calibration_error(y: IntArray, P: FloatArray, n_bins: int = N_BINS) -> float:
    """Compute the expected calibration error of the predicted class (Guo et al., 2017).

    Rows are put into bins of equal width by the probability of their predicted class. The result is
    the mean over the rows of the distance of accuracy and mean probability in their bin.
    """
    confidence = P.max(axis=1)
    right = P.argmax(axis=1) == y
    # bins are closed at the right
    bins = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    excess = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.abs(excess).sum() / len(y))
