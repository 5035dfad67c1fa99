"""Hold out labelled rows of a fit, to choose an iteration or a setting by their score."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._random import share_up
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt._validation import shown


@dataclass(frozen=True)
class HoldOut:
    """A split of the labelled rows into `train` and `valid`."""

    train: IntArray
    valid: IntArray
    X: Any  # of the rows of `valid`, as y and weights
    y: IntArray
    weights: FloatArray | None
    n_classes: int
    positive: int  # code of the positive class

    def training_part(self, data: SemiSupervisedData) -> SemiSupervisedData:
        """Return the documents without the held-out rows."""
        return replace(
            data,
            X_labeled=multi_indexing(data.X_labeled, self.train),
            y=data.y[self.train],
            weights=weights_of(data.weights, self.train, 0),
        )

    def score(self, P: FloatArray) -> float:
        """Score class probabilities of the rows of `valid`; see `validation_score`."""
        return validation_score(
            self.y, P.argmax(axis=1), self.n_classes, self.positive, self.weights
        )


def hold_out(
    data: SemiSupervisedData,
    fraction: float,
    rng: np.random.Generator,
    *,
    positive: int,
    otherwise: str,
    remedy: str,
) -> HoldOut | None:
    """Hold out a share of the labelled rows with weight, or warn and return None if none is left.

    A step of `_fit` calls it: the warning points at the call of `fit`.
    """
    weights = data.weights
    counted = np.arange(len(data.y)) if weights is None else np.flatnonzero(weights)
    split = validation_split(data.y[counted], fraction, rng)
    if split is None:
        warnings.warn(
            f"no labelled row can be held out for validation: each of the {len(counted)} is the "
            f"only one of its class. {otherwise} {remedy}",
            UserWarning,
            stacklevel=5,
        )
        return None
    valid = counted[split[1]]
    if not split[2]:
        warnings.warn(
            f"with {len(counted)} labelled rows the {len(valid)} of validation_fraction={fraction} "
            f"cannot be held out by class, so they are drawn without regard to class. {remedy}",
            UserWarning,
            stacklevel=5,
        )
    return HoldOut(
        train=np.setdiff1d(np.arange(len(data.y)), valid),
        valid=valid,
        X=multi_indexing(data.X_labeled, valid),
        y=data.y[valid],
        weights=None if weights is None else weights[valid],
        n_classes=data.n_classes,
        positive=positive,
    )


def positive_code(classes: AnyArray, pos_label: Any) -> int:
    """Return the code of the positive class; None is the last class."""
    if pos_label is None:
        return len(classes) - 1
    codes = [code for code, label in enumerate(classes.tolist()) if label == pos_label]
    if not codes:
        raise ValueError(
            f"pos_label={shown(pos_label)} is none of the classes {shown(classes.tolist())}."
        )
    return codes[0]


def weights_of(
    weights: FloatArray | None, rows: IntArray | None, n_added: int
) -> FloatArray | None:
    """Return the weights of labelled rows (None: all) with mean 1, then 1 for each added row."""
    if weights is None:
        return None
    kept = weights if rows is None else weights[rows] / weights[rows].mean()
    return np.concatenate([kept, np.ones(n_added)])


def validation_split(
    codes: IntArray, fraction: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray, bool] | None:
    """Return the sorted rows of both parts and whether by class; None if no row can be spared."""
    n = len(codes)
    counts = np.bincount(codes)
    counts = counts[counts > 0]
    n_valid = share_up(fraction, n)
    seed = int(rng.integers(2**31))
    if counts.min() >= 2 and min(n_valid, n - n_valid) >= len(counts):
        train, valid = train_test_split(
            np.arange(n), test_size=n_valid, stratify=codes, random_state=seed
        )
        if len(np.unique(codes[train])) == len(np.unique(codes[valid])) == len(counts):
            return np.sort(train), np.sort(valid), True
    # One row of each class stays for training. Then one row of each class is held out, the rarest
    # class first, and the other held-out rows are random.
    order = rng.permutation(n)
    _, first = np.unique(codes[order], return_index=True)
    free = np.delete(order, first)
    kinds, second = np.unique(codes[free], return_index=True)
    rarest_first = second[np.argsort(np.bincount(codes)[kinds], kind="stable")]
    free = np.concatenate([free[rarest_first], np.delete(free, second)])
    valid = np.sort(free[: min(n_valid, len(free))])
    if not len(valid):
        return None
    return np.setdiff1d(np.arange(n), valid), valid, False


def validation_score(
    y: IntArray,
    predicted: IntArray,
    n_classes: int,
    positive: int,
    weights: FloatArray | None = None,
) -> float:
    """Return the F1 of the positive class of two, or the macro-F1 of more; 0 if undefined."""
    if n_classes == 2:
        y, predicted, average = y == positive, predicted == positive, "binary"
    else:
        average = "macro"
    return float(f1_score(y, predicted, average=average, sample_weight=weights, zero_division=0.0))
