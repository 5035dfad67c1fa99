"""The −1 contract: which rows of y are labelled, class codes, weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import utils
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

FloatArray = NDArray[np.float64]
Codes = NDArray[np.intp]

#: What a class label may be.
_LABEL = (str, bool, int, float, np.bool_, np.integer, np.floating)
#: Class labels of y that hardly name a class, in lower case.
_NOT_A_CLASS = ("", "?", "na", "n/a", "nan", "null", "none", "unknown", "unlabeled", "unlabelled")


def check_scalar(value: Any, name: str, kind: Any, **limits: Any) -> None:
    """Check a number as scikit-learn does, whose function lets NaN and booleans pass."""
    utils.check_scalar(value, name, kind, **limits)
    if value != value or isinstance(value, bool):
        raise ValueError(f"{name} must be a number, got {value}.")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or NA, which are one marker."""
    return bool(np.ndim(value) == 0 and pd.isna(value))


def find_labeled(y: Any, marker: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which rows of y are labelled, and y as an array of shape (n_rows,)."""
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Mark unlabelled "
            "rows in y, or pass them as X_unlabeled."
        )
    labels = as_labels(y)
    missing, none = np.asarray(pd.isna(labels)), is_missing(marker)
    if missing.any() and not none:
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"y contains a missing value (NaN or None) in row {row}, and {int(missing.sum())} in "
            f"all, but unlabelled rows are marked with unlabeled_marker={marker!r}. Label these "
            "rows, replace the value by the marker, or set unlabeled_marker=None."
        )
    if isinstance(marker, str):
        return np.array([label != marker for label in labels], dtype=bool), labels
    if isinstance(marker, bool) or not (none or isinstance(marker, int | float | np.number)):
        raise TypeError(
            "unlabeled_marker must be a number, a string or a missing value (None, NaN), got "
            f"{marker!r}."
        )
    spellings = ("nan",) if none else (str(marker), f"{marker:.1f}", f"{marker:g}")
    for row, label in enumerate(labels if labels.dtype.kind in "OUT" else ()):
        if isinstance(label, str) and label.strip() in spellings:
            raise ValueError(
                f"y holds the string {str(label)!r} in row {row}, while unlabelled rows are marked "
                f"with unlabeled_marker={marker!r}: numpy turns ['a', {marker}] into strings. Use "
                f"a list or dtype=object, or pass unlabeled_marker={str(label)!r}."
            )
    if none:
        return ~missing, labels
    if labels.dtype.kind == "u" and marker < 0:
        wrapped = labels == np.asarray(marker).item() % 256**labels.dtype.itemsize
        if wrapped.any():
            raise ValueError(
                f"y holds {labels[wrapped][0]} in row {int(wrapped.argmax())}: its dtype "
                f"{labels.dtype} cannot hold unlabeled_marker={marker!r}, which became this "
                "number. Give y a signed dtype, as by y.astype(int), before rows are marked."
            )
    if labels.dtype.kind in "iuf":
        return labels != marker, labels
    # True equals 1 and is no marker
    kept = [isinstance(label, bool | np.bool_) or label != marker for label in labels.tolist()]
    return np.array(kept, dtype=bool), labels


def as_labels(y: Any) -> NDArray[Any]:
    """Return y as an array; in an array of strings the marker -1 would become "-1"."""
    if hasattr(y, "to_pylist"):  # pyarrow
        y = y.to_pylist()
    elif hasattr(y, "to_numpy"):  # pandas, polars
        y = y.to_numpy()
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1:
        y = y.tolist()  # its entries may be lists
    if isinstance(y, list | tuple) and all(np.ndim(label) == 0 for label in y):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
    else:
        try:
            labels = column_or_1d(y, warn=True)
        except ValueError as error:
            if not isinstance(y, list | tuple | np.ndarray) and not hasattr(y, "columns"):
                raise
            raise ValueError(
                f"y must hold one class label for each row ({error}). Where rows have several "
                "labels, fit a classifier for each of them (MultiOutputClassifier); of "
                "probabilities, take the most probable class."
            ) from error
    if labels.dtype.kind == "T":  # strings of variable width
        labels = labels.astype(object)
    if labels.dtype == object:
        kinds = {type(label) for label in labels}
        if all(issubclass(kind, int | float | np.number) and kind is not bool for kind in kinds):
            labels = np.array(labels.tolist())
    return labels


def encode_labels(
    y: Any, n_rows: int, marker: Any = -1, known: NDArray[Any] | None = None
) -> tuple[NDArray[np.bool_], NDArray[Any], Codes]:
    """Return which rows are labelled, the sorted classes, and class codes with -1 at the others.

    `known` holds all classes; y need not hold each of them then.
    """
    labeled, labels = find_labeled(y, marker)
    if len(labels) != n_rows:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: X has "
            f"{n_rows} rows, y has {len(labels)}."
        )
    if not labeled.any():
        raise ValueError(
            f"y has no labelled row: all {n_rows} rows carry the marker of unlabelled rows, "
            f"{marker!r}. At least one row of each of two classes must be labelled."
        )
    given = labels[labeled]
    for number, label in zip(np.flatnonzero(labeled).tolist(), given, strict=True):
        if not isinstance(label, _LABEL) or isinstance(label, np.timedelta64):
            how = "label.decode()" if isinstance(label, bytes) else "str(label)"
            raise ValueError(
                f"Unknown label type: y holds a label of type {type(label).__name__} in row "
                f"{number}, {label!s:.80}. Labels must be strings, numbers or booleans: make "
                f"strings of them ({how})."
            )
    if given.dtype == object:
        strings = {isinstance(label, str) for label in given}
        if strings == {True}:
            given = np.array([str.__str__(label) for label in given])  # an Enum may be a str
        elif strings == {False}:
            given = np.array(given.tolist())
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        row = int(np.flatnonzero(labeled)[np.isinf(given).argmax()])
        raise ValueError(f"y contains infinity in row {row}; labels must be finite.")
    if given.dtype.kind == "f" and is_missing(marker) and (given == np.floor(given)).all():
        given = given.astype(np.int64)  # whole numbers that became floats beside NaN
    try:
        found = np.unique(given)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes is greater")
            check_classification_targets(given)
        classes = found if known is None else known
    except TypeError:
        names = sorted({type(label).__name__ for label in given})
        raise ValueError(
            f"Unknown label type: y holds labels that cannot be sorted together ({names}). Make "
            "all labels strings, or all numbers."
        ) from None
    if len(classes) < 2:
        hint = f" Are the {int((~labeled).sum())} rows with {marker!r} a class?"
        raise ValueError(
            f"The labelled rows of y hold one class only, {classes.tolist()[0]!r}; the classifier "
            "needs at least two classes. Label some rows of another one."
            + ("" if labeled.all() else hint)
        )
    codes = np.full(n_rows, -1, dtype=np.intp)
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    codes[labeled] = [code_of.get(label, -1) for label in given.tolist()]
    unknown = labeled & (codes < 0)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise ValueError(
            f"y holds {labels[row : row + 1].tolist()[0]!r} in row {row}, which is none of "
            f"{classes.tolist()}."
        )
    return labeled, classes, codes


def suspicious_class(classes: NDArray[Any], others: tuple[str, ...] = ()) -> Any:
    """Return a class that looks like a marker of unlabelled rows, or None."""
    for label in classes.tolist():
        if str(label).strip().lower() in (*_NOT_A_CLASS, *others):
            return label
    return None


def warn_of_equal_numbers(n: int, stacklevel: int) -> None:
    """Warn of X_unlabeled with as many rows as X."""
    warnings.warn(
        f"X_unlabeled has as many rows as X ({n}): scikit-learn's cross-validation slices such an "
        "array together with X. Add or drop a row to prevent that.",
        stacklevel=stacklevel,
    )


def check_weights(
    sample_weight: Any, labeled: NDArray[np.bool_], *, scaled: bool = True
) -> FloatArray:
    """Return the weights of the labelled rows, scaled to mean one; None is equal weights."""
    sample_weight = 1.0 if sample_weight is None else sample_weight
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(len(labeled), float(weights))
    if weights.shape != labeled.shape:
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {labeled.shape}: one weight for "
            "each row of X, unlabelled rows included (theirs are ignored)."
        )
    bad = labeled & ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"sample_weight must be finite and not negative; row {row} has {weights[row]}."
        )
    used = weights[labeled]
    if not used.any():
        raise ValueError(
            "sample_weight is zero for every labelled row; at least one must be positive."
        )
    if not scaled:
        return used
    used = used / used.max()  # the sum of huge weights would overflow
    return np.asarray(used / used.mean())


def labeled_rows(X: Any, y: Any, sample_weight: Any, marker: Any) -> tuple[Any, Any, Any]:
    """Return the labelled rows of X, y and weights, for scores."""
    labeled, labels = find_labeled(y, marker)
    if not labeled.any():
        raise ValueError(
            f"y has no labelled row to score: all {len(labels)} rows carry the marker of "
            f"unlabelled rows, {marker!r}. In cross-validation use SemiSupervisedStratifiedKFold, "
            "which tests labelled rows only."
        )
    check_consistent_length(*(X.values() if isinstance(X, dict) else [X]), labels)
    rows = np.flatnonzero(labeled)
    if isinstance(X, dict):
        X = {name: _safe_indexing(part, rows) for name, part in X.items()}
    elif len(rows) < len(labels):
        X = _safe_indexing(X, rows)
    if np.ndim(sample_weight) == 1:
        sample_weight = np.asarray(sample_weight)[rows]
    # a list, so that what was an array of objects becomes one of numbers or strings
    return X, as_labels(labels[rows].tolist()), sample_weight


def decode_labels(codes: Codes, classes: NDArray[Any], marker: Any) -> NDArray[Any]:
    """Return labels by class code, with the marker where the code is -1."""
    labels = classes[codes]
    unlabeled = codes < 0
    if unlabeled.any():
        marker = None if is_missing(marker) else marker
        kinds = labels.dtype.kind, np.asarray(marker).dtype.kind
        same = kinds == ("U", "U") or set(kinds) <= set("iuf")
        labels = labels.astype(np.result_type(labels, np.asarray(marker)) if same else object)
        labels[unlabeled] = marker
    return labels
