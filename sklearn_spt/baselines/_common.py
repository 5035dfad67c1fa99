"""What the methods share: parameters, selection, hold-out."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._data import PartlyLabeled, concatenate, share_of
from sklearn_spt._labels import Codes, FloatArray, check_scalar, positive_code, warn_user


@dataclass(eq=False, repr=False)
class BaselineClassifier(BaseSemiSupervisedClassifier):
    """Parameters of all methods in this folder; dataclasses write ``__init__``."""

    estimator: Any = None
    _: KW_ONLY
    finetune_epochs: int = 3
    balanced_batches: bool = True
    unlabeled_marker: Any = -1
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class ThrottledBaseline(BaselineClassifier):
    """Parameters of the methods that add at most a share of confident documents at a time."""

    threshold: float = 0.9
    max_fraction: float = 0.1
    max_iter: int = 20

    def _check_params(self) -> None:
        super()._check_params()
        limits = {"min_val": 0, "include_boundaries": "neither"}
        check_scalar(self.threshold, "threshold", Real, min_val=0)
        check_scalar(self.max_fraction, "max_fraction", Real, **limits)
        check_scalar(self.max_iter, "max_iter", Integral, min_val=0)
        if (share := getattr(self, "validation_fraction", None)) is not None:
            check_scalar(share, "validation_fraction", Real, max_val=1, **limits)


# -- selection -------------------------------------------------------------------------------------
def throttle(rows: Codes, P: FloatArray, n_train: int, model: Any) -> tuple[Codes, Codes]:
    """Return the most confident of some rows, best first, and their predicted classes.

    They are as many as a share of `n_train`, but at least one.
    """
    confidence = P.max(axis=1)
    eligible = np.flatnonzero(confidence >= model.threshold)
    best_first = np.argsort(-confidence[eligible], kind="stable")  # ties go to the lower row
    chosen = eligible[best_first[: max(1, share_of(model.max_fraction, n_train))]]
    return rows[chosen], P[chosen].argmax(axis=1)


def pool_size(t: int, n_unlabeled: int) -> int:
    """Return the size of the pool of iteration t: t tenths of the unlabelled documents."""
    return min(n_unlabeled, t * math.ceil(n_unlabeled / 10))


def training_set(data: PartlyLabeled, rows: Codes, pseudo: Codes) -> tuple[Any, Codes, FloatArray]:
    """Return X, y and weights of the labelled rows, then of unlabelled rows, with weight 1."""
    X = data.X if len(rows) == 0 else concatenate(data.X, multi_indexing(data.U, rows))
    w = np.concatenate([data.weights, np.ones(len(rows))])
    return X, np.concatenate([data.y, pseudo]), w


def warn_nothing_added(threshold: float, which: str = "") -> None:
    """Warn that no document reached a threshold of at most 1."""
    if threshold <= 1:
        warn_user(
            f"no unlabelled document {which}was labelled with a confidence of "
            f"threshold={threshold} or more: the model is trained on the labelled rows only. "
            "Lower threshold."
        )


# -- hold-out --------------------------------------------------------------------------------------
def hold_out(
    data: PartlyLabeled, fraction: float, rng: np.random.Generator
) -> tuple[PartlyLabeled, PartlyLabeled] | None:
    """Split the labelled rows into training and validation; warn and return None if too few.

    Rows of weight zero are not held out.
    """
    counted = np.flatnonzero(data.weights)
    codes, n = data.y[counted], len(counted)
    sizes, n_valid = np.unique(codes, return_counts=True)[1], share_of(fraction, n, up=True)
    if sizes.min() < 2 or min(n_valid, n - n_valid) < len(sizes):
        warn_user(
            f"{n_valid} of {n} labelled rows cannot be held out by class, so one iteration is run. "
            "Label more rows of the rare classes, or change validation_fraction."
        )
        return None
    how = {"test_size": n_valid, "stratify": codes, "random_state": int(rng.integers(2**31))}
    valid = np.sort(train_test_split(counted, **how)[1])
    return data.part(np.setdiff1d(np.arange(len(data.y)), valid)), data.part(valid)


def validation_score(valid: PartlyLabeled, P: FloatArray, pos_label: Any) -> float:
    """Return the F1 of the positive class of two, or the macro-F1 of more."""
    labels = [positive_code(valid.classes, pos_label)] if valid.n_classes == 2 else None
    how = {"average": "macro", "sample_weight": valid.weights, "zero_division": 0.0}
    return float(f1_score(valid.y, P.argmax(axis=1), labels=labels, **how))
