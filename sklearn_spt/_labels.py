"""Checks of labels and weights: which rows are unlabelled, and the class codes of the others."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from decimal import Decimal
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from sklearn_spt._typing import AnyArray, BoolArray, FloatArray, IntArray
from sklearn_spt._validation import shown


def is_missing(value: Any) -> bool:
    """Whether `value` is None, NaN, NaT or NA; all of them are the same marker."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    # pandas.NA and pandas.NaT, without an import of pandas
    return type(value).__name__ in ("NAType", "NaTType")


# numpy scalars that can stand in a numeric array
_NUMPY_NUMBERS = {np.dtype(code).type for code in "bhilqBHILQefd?"}


def label_column(y: Any) -> AnyArray:
    """Return `y` as a 1-D array."""
    if hasattr(y, "to_numpy"):  # pandas and polars
        values = y.to_numpy()
    elif hasattr(y, "__array__"):  # numpy and torch
        values = np.asarray(y)
    else:
        if isinstance(y, Mapping | Set | str | bytes) or not isinstance(y, Iterable):
            raise ValueError(
                f"y should be a 1d array, got {shown(y)} of type {type(y).__name__} instead."
            )
        values = _from_sequence(list(y))
    values = np.asarray(values)
    if values.ndim != 1:
        # as in scikit-learn, shape (n, 1) warns and more columns are an error
        values = column_or_1d(values, warn=True)
    if values.dtype == object:
        kinds = {type(value) for value in values}
        mixed = len(kinds) > 1 and kinds & {bool, np.bool_}  # True beside -1 is not a number
        if kinds and not mixed and kinds <= {int, float, bool} | _NUMPY_NUMBERS:
            exact = [v for v in values if isinstance(v, numbers.Integral) and abs(int(v)) > 2**53]
            if not exact or all(isinstance(v, numbers.Integral) for v in values):
                return np.asarray(values.tolist())
    return values


def _from_sequence(items: list[Any]) -> AnyArray:
    """Return an object array, since in an array of strings the marker -1 would become "-1"."""
    if any(isinstance(item, list | tuple | np.ndarray) for item in items):
        return np.asarray(items)
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def unlabeled_mask(y: Any, unlabeled_marker: Any = -1) -> tuple[BoolArray, AnyArray]:
    """Return which rows of `y` are unlabelled, and `y` as a 1-D array."""
    labels = label_column(y)
    if labels.dtype.kind in "fmM":
        missing = np.isnan(labels)
    elif labels.dtype == object:
        missing = np.fromiter((is_missing(v) for v in labels), bool, len(labels))
    else:
        missing = np.zeros(len(labels), dtype=bool)
    if is_missing(unlabeled_marker):
        _reject_nan_as_text(labels)
        return missing, labels
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(
            f"y contains a missing value (NaN or None) in row {row}, and {int(missing.sum())} in "
            f"all, but unlabelled rows are marked with unlabeled_marker={shown(unlabeled_marker)}. "
            "Label these rows, replace the value by the marker, or set unlabeled_marker=None."
        )
    if isinstance(unlabeled_marker, str):
        if labels.dtype.kind in "US":
            return labels == unlabeled_marker, labels
        return np.fromiter((v == unlabeled_marker for v in labels), bool, len(labels)), labels
    if isinstance(unlabeled_marker, bool) or not isinstance(unlabeled_marker, numbers.Real):
        raise TypeError(
            "unlabeled_marker must be a number, a string or a missing value (None, NaN), got "
            f"{shown(unlabeled_marker)} of type {type(unlabeled_marker).__name__}."
        )
    _reject_marker_as_text(labels, unlabeled_marker)
    if labels.dtype.kind in "USb":  # False is not the marker 0
        return np.zeros(len(labels), dtype=bool), labels
    if labels.dtype == object:
        mask = np.fromiter(
            (
                isinstance(v, numbers.Real) and not isinstance(v, bool) and v == unlabeled_marker
                for v in labels
            ),
            bool,
            len(labels),
        )
        return mask, labels
    return labels == unlabeled_marker, labels


def _reject_marker_as_text(labels: AnyArray, marker: Any) -> None:
    """Refuse the string "-1" among the labels while the marker is the number -1."""
    if labels.dtype.kind not in "USO":
        return
    spelled = {str(marker), f"{float(marker):g}", f"{float(marker):.1f}"}
    for row, value in enumerate(labels):
        if (
            isinstance(value, str | bytes)
            and (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()
            in spelled
        ):
            raise ValueError(
                f"y holds the string {shown(value)} in row {row}, while unlabelled rows are marked "
                f"with the number {shown(marker)}. Convert the marker to a number (numpy turns "
                "['a', -1] into strings: use a list or dtype=object), or pass "
                f"unlabeled_marker={str(marker)!r}."
            )


def _reject_nan_as_text(labels: AnyArray) -> None:
    """Refuse the string "nan" in an array of strings while a missing value is the marker."""
    if labels.dtype.kind == "U" and (labels == "nan").any():
        row = int(np.flatnonzero(labels == "nan")[0])
        raise ValueError(
            f"y holds the string 'nan' in row {row}, while missing values mark unlabelled "
            "rows: numpy turns ['a', nan] into strings. Use a list or dtype=object, or pass "
            "unlabeled_marker='nan'."
        )


def check_labels(
    y: Any, n_samples: int, unlabeled_marker: Any = -1, known: AnyArray | None = None
) -> tuple[BoolArray, AnyArray, IntArray]:
    """Return which rows of `y` are labelled, the sorted classes, and the class codes of all rows.

    Unlabelled rows have the code -1. If the classes are `known`, y need not hold all of them.
    """
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Mark unlabelled "
            "rows in y, or pass them as X_unlabeled."
        )
    marked, labels = unlabeled_mask(y, unlabeled_marker)
    if len(labels) != n_samples:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: X has "
            f"{n_samples} rows, y has {len(labels)}."
        )
    labeled = ~marked
    if not labeled.any():
        raise ValueError(
            f"y has no labelled row: all {n_samples} rows carry the marker of unlabelled rows, "
            f"{shown(unlabeled_marker)}. At least one row of each of two classes must be labelled."
        )
    given = labels[labeled]
    if given.dtype.kind in "SO":
        for row, label in zip(np.flatnonzero(labeled).tolist(), given.tolist(), strict=True):
            if isinstance(label, bytes):  # scikit-learn before 1.7 takes them, with a warning
                raise TypeError(
                    f"y holds bytes, {shown(label)} in row {row}. Decode them to strings."
                )
    codes = np.full(n_samples, -1, dtype=np.int64)
    if known is not None:
        code_of = {label: code for code, label in enumerate(known.tolist())}
        for row, label in zip(np.flatnonzero(labeled).tolist(), given.tolist(), strict=True):
            if label not in code_of:
                raise ValueError(
                    f"y holds {shown(label)} in row {row}, which is none of {known.tolist()}."
                )
            codes[row] = code_of[label]
        return labeled, known, codes
    if given.dtype == object:
        given = _plain(given, np.flatnonzero(labeled))
    if given.dtype.kind == "f":
        if not np.isfinite(given).all():
            row = int(np.flatnonzero(labeled)[np.flatnonzero(~np.isfinite(given))[0]])
            raise ValueError(f"y contains infinity in row {row}; labels must be finite.")
        fractions = given != np.floor(given)
        if fractions.any():
            row = int(np.flatnonzero(labeled)[np.flatnonzero(fractions)[0]])
            raise ValueError(
                f"Unknown label type: y holds {shown(labels[row])} in row {row}; a classifier "
                "needs class labels, not continuous values. Maybe you are trying to fit a "
                "classifier on a regression target."
            )
        if is_missing(unlabeled_marker) and (np.abs(given.astype(float)) < 2**53).all():
            given = given.astype(np.int64)  # whole numbers that were floats because of NaN
    if given.dtype != object:  # `_plain` has checked objects
        check_classification_targets(given)
    classes, inverse = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"The labelled rows of y hold one class only, {shown(classes[0])}; the classifier "
            f"needs at least two classes. {_remedy(marked, unlabeled_marker)}"
        )
    codes[labeled] = inverse
    return labeled, classes, codes


def _remedy(marked: BoolArray, marker: Any) -> str:
    if not marked.any():
        return "Label some rows of another class."
    return (
        f"{int(marked.sum())} rows carry the marker of unlabelled rows, {shown(marker)}. If that "
        "is a class, choose another unlabeled_marker, for instance None; else label some rows of "
        "another class."
    )


#: What people write into y at unlabelled rows, in lower case: what hardly names a class, and more.
_NO_CLASSES = ("", "?", "na", "n/a", "nan", "null", "<na>")
_USUAL_MARKERS = (*_NO_CLASSES, "-1", "none", "unknown")


def likely_marker(classes: AnyArray, spellings: tuple[str, ...] = _USUAL_MARKERS) -> Any:
    """Return the class that looks like a marker of unlabelled rows, or None."""
    for label in classes.tolist():
        spelled = (f"{label:g}" if isinstance(label, float) else str(label)).strip().lower()
        if spelled in spellings or (spelled.startswith("unl") and "unknown" in spellings):
            return label
    return None


def warn_of_markers(marker: Any, classes: AnyArray, n_unlabeled: int) -> None:
    """Warn that a semi-supervised fit is a supervised one, or of a class like a second marker."""
    likely = likely_marker(classes, _NO_CLASSES if n_unlabeled else _USUAL_MARKERS)
    named = ", ".join(map(shown, classes[:10])) + (", ..." if len(classes) > 10 else "")
    hint = f" If {shown(likely)} means that there is no label, replace it by {shown(marker)}."
    message = f"The classes are {named}."
    if n_unlabeled == 0:
        hint = f" Is {shown(likely)} the marker? Set unlabeled_marker={shown(likely)}."
        message = (
            f"y holds no unlabelled row (marker {shown(marker)}) and X_unlabeled is empty: the "
            f"model is trained on the labelled rows alone, n_iter_ is 0. {message}"
        )
    if n_unlabeled == 0 or likely is not None:
        warnings.warn(message + ("" if likely is None else hint), UserWarning, stacklevel=3)


def _plain(given: AnyArray, rows: IntArray) -> AnyArray:
    """Return labels in an object array as an array of their own kind, or check that they sort."""
    kinds = {type(value) for value in given}
    if all(issubclass(kind, str) for kind in kinds):
        return given.astype(str)
    if all(issubclass(kind, numbers.Real | np.bool_) for kind in kinds):
        return np.asarray(given.tolist())
    for row, value in zip(rows, given, strict=True):
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"Unknown label type: row {row} of y is a {type(value).__name__}, which cannot be "
                "hashed. Make all labels strings, or all numbers."
            ) from None
        try:
            value < given[0]  # noqa: B015 - whether it can be compared is all that counts
        except TypeError:
            raise ValueError(
                "Unknown label type: y mixes labels that cannot be sorted together, "
                f"{type(given[0]).__name__} and {type(value).__name__} (row {row}). Make all "
                "labels strings, or all numbers."
            ) from None
    return given


def labeled_part(X: Any, y: Any, sample_weight: Any, marker: Any) -> tuple[Any, AnyArray, Any, int]:
    """Return the labelled rows of X, y and weights, and the number of rows left out."""
    marked, labels = unlabeled_mask(y, marker)
    rows = np.flatnonzero(~marked)
    if not len(rows):
        raise ValueError(
            f"y has no labelled row to score: all {len(labels)} rows carry the marker of "
            f"unlabelled rows, {shown(marker)}. In cross-validation, use "
            "SemiSupervisedStratifiedKFold, which tests labelled rows only."
        )
    if len(rows) == len(labels):
        return X, labels, sample_weight, 0
    if isinstance(X, Mapping):
        X = {name: _safe_indexing(part, rows) for name, part in X.items()}
    else:
        X = _safe_indexing(X, rows)
    if np.ndim(sample_weight) == 1:
        sample_weight = np.asarray(sample_weight)[rows]
    # without a marker, an array of objects may hold numbers alone
    return X, label_column(labels[rows]), sample_weight, len(labels) - len(rows)


def check_weights(sample_weight: Any, n_samples: int, labeled: BoolArray) -> FloatArray | None:
    """Return the weights of the labelled rows, scaled to mean one, or None."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n_samples, float(sample_weight))
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "biufO":
        raise ValueError(f"sample_weight must hold numbers, got an array of {weights.dtype}.")
    try:
        weights = weights.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight must hold a number for each row.") from None
    if weights.ndim != 1:
        raise ValueError(
            f"sample_weight: Sample weights must be 1D array or scalar, got shape {weights.shape}."
        )
    if len(weights) != n_samples:
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(n_samples,)}: one weight for "
            "each row of X, unlabelled rows included (theirs are ignored)."
        )
    used = weights[labeled]
    bad = ~np.isfinite(used) | (used < 0)
    if bad.any():
        row = int(np.flatnonzero(labeled)[np.flatnonzero(bad)[0]])
        raise ValueError(
            f"sample_weight must be finite and not negative; row {row} has {float(weights[row])!r}."
        )
    if not used.any():
        raise ValueError(
            "sample_weight is zero for every labelled row; at least one must be positive."
        )
    used = used / used.max()  # the sum of huge weights would overflow
    return np.asarray(used / used.mean())


class LabelsMixin:
    """`predict` and `score` of classifiers whose y may mark rows as unlabelled."""

    classes_: Any
    unlabeled_marker: Any
    predict_proba: Callable[[Any], FloatArray]

    def predict(self, X: Any) -> AnyArray:
        """Most probable class of each document.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels as in y.
        """
        codes = self.predict_proba(X).argmax(axis=1)  # first, since it checks that a fit was done
        return np.asarray(self.classes_)[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.
        y : array-like of shape (n_samples,)
            Labels. Rows that carry `unlabeled_marker` are left out, with a warning.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        ValueError
            If no row is labelled.
        """
        X, labels, weights, left_out = labeled_part(X, y, sample_weight, self.unlabeled_marker)
        if left_out:
            warnings.warn(
                f"score leaves out {left_out} of {left_out + len(labels)} rows, which y marks as "
                f"unlabelled with {shown(self.unlabeled_marker)}.",
                UserWarning,
                stacklevel=2,
            )
        predicted = self.predict(X)
        if labels.dtype == object and not isinstance(labels[0], str):  # dates
            _, codes = np.unique(np.concatenate([labels, predicted]), return_inverse=True)
            labels, predicted = np.split(codes, [len(labels)])
        return float(accuracy_score(labels, predicted, sample_weight=weights))
