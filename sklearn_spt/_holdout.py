"""Labelled rows that a fit holds out, to choose something by their score."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._sampling import share_up
from sklearn_spt._typing import AnyArray, FloatArray, IntArray


@dataclass(frozen=True)
class HoldOut:
    """A split of the labelled rows.

    Attributes
    ----------
    train, valid : ndarray of int
        Rows of L that are learned from, and those that are held out.
    X : indexable
        Documents of the latter.
    y : ndarray of int of shape (n_valid,)
        Their classes.
    weights : ndarray of shape (n_valid,) or None
        Their weights.
    n_classes, positive : int
        K, and the code of the positive class.
    """

    train: IntArray
    valid: IntArray
    X: Any
    y: IntArray
    weights: FloatArray | None
    n_classes: int
    positive: int

    def score(self, P: FloatArray) -> float:
        """F1 of the positive class of two, or macro-F1 of more, from class probabilities."""
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
    stacklevel: int,
) -> HoldOut | None:
    """Hold out a part of the labelled rows, by class where that is possible; warn where it is not.

    A row of weight zero is as good as none, and is not held out.

    Parameters
    ----------
    data : SemiSupervisedData
        The documents.
    fraction : float in (0, 1)
        Share of the labelled rows.
    rng : numpy.random.Generator
        Source of randomness.
    positive : int
        Code of the positive class.
    otherwise : str
        For the warning: what happens if no row can be held out.
    remedy : str
        For the warnings: what the user can do.
    stacklevel : int
        Of the warnings, as seen from the caller.

    Returns
    -------
    HoldOut or None
        None where every row is needed for training.
    """
    weights = data.weights
    counted = np.arange(len(data.y)) if weights is None else np.flatnonzero(weights)
    split = validation_split(data.y[counted], fraction, rng)
    if split is None:
        warnings.warn(
            f"no labelled row can be held out for validation: each of the {len(counted)} is the "
            f"only one of its class. {otherwise} {remedy}",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
        return None
    valid = counted[split[1]]
    if not split[2]:
        warnings.warn(
            f"with {len(counted)} labelled rows the {len(valid)} of validation_fraction={fraction} "
            f"cannot be held out by class, so they are drawn without regard to class. {remedy}",
            UserWarning,
            stacklevel=stacklevel + 1,
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
    """Code of the positive class, of which None is the greatest.

    Raises
    ------
    ValueError
        If `pos_label` is none of the classes.
    """
    if pos_label is None:
        return len(classes) - 1
    codes = [code for code, label in enumerate(classes.tolist()) if label == pos_label]
    if not codes:
        raise ValueError(f"pos_label={pos_label!r} is none of the classes {classes.tolist()}.")
    return codes[0]


def weights_of(
    weights: FloatArray | None, rows: IntArray | None, n_added: int
) -> FloatArray | None:
    """Weights of some labelled rows, with a mean of 1, then those of pseudo-labelled rows, all 1.

    None stays None; ``rows=None`` is all labelled rows.
    """
    if weights is None:
        return None
    kept = weights if rows is None else weights[rows] / weights[rows].mean()
    return np.concatenate([kept, np.ones(n_added)])


def validation_split(
    codes: IntArray, fraction: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray, bool] | None:
    """Hold out a part of the labelled rows, by class where that is possible.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Class of each labelled row.
    fraction : float in (0, 1)
        Share of the rows to hold out, rounded up.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    (train, valid, stratified) or None
        Sorted rows of the two parts; every class stays in the training part, and every class of
        two rows or more comes into the other, as far as there is room. `stratified` is False where
        classes are not held out in proportion: some class has a single row, or so few that its
        share is no row, or a part has fewer rows than there are classes. None if every row is
        needed for training.
    """
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
    # one row of each class has to stay, and a score needs one of each class, the rarest above all;
    # of the others, any may be held out
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
    """F1 of the positive class of two, or macro-F1 of more.

    Parameters
    ----------
    y, predicted : ndarray of int of shape (n,)
        True and predicted class codes.
    n_classes : int
        Number of classes, K.
    positive : int
        Code of the positive class, used for K = 2.
    weights : ndarray of shape (n,) or None
        How much each row counts; None counts all alike.

    Returns
    -------
    float in [0, 1]
        0 where it is undefined, as nothing was found. Macro-F1 is over the classes that y or the
        predictions hold.
    """
    if n_classes == 2:
        y, predicted, average = y == positive, predicted == positive, "binary"
    else:
        average = "macro"
    return float(f1_score(y, predicted, average=average, sample_weight=weights, zero_division=0.0))
