"""The −1 contract: which rows of y are labelled, class codes, weights."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Codes = NDArray[np.intp]

_PACKAGE = os.path.join(os.path.dirname(__file__), "")
_LABEL = (str, bool, int, float, np.number, np.bool_)
_KNOWN: ContextVar[bool] = ContextVar("_KNOWN", default=False)
#: What -1 becomes in an unsigned dtype.
_WRAPPED = [str(256**size - 1) for size in (1, 2, 4, 8)]
#: Class labels of y that hardly name a class, in lower case.
_NOT_A_CLASS = ("", "?", "na", "n/a", "nan", "null", "none", "unknown", "unlabeled", "unlabelled")


def warn_user(message: str) -> None:
    """Warn with the place of the first line outside of this package."""
    frame: Any = sys._getframe()
    level = 1  # Python 3.12 has skip_file_prefixes
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def check_scalar(value: Any, name: str, kind: Any, **limits: Any) -> None:
    """Check a number as scikit-learn does, whose function lets NaN and booleans pass."""
    from sklearn import utils  # not above: the first checks of the command line do without it

    utils.check_scalar(value, name, kind, **limits)
    if value != value or isinstance(value, bool):
        raise ValueError(f"{name} must be a number, got {value}.")


def check_step_size(value: Any) -> None:
    """Check the growth of the sample, which is "auto", a share or a number of documents."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    top = np.inf if isinstance(value, Integral) else 1
    if value != "auto" and not (number and 0 < value <= top):
        rule = "a share in (0, 1] or a whole number from 1"
        raise ValueError(f"step_size must be {rule}; got {value!r}.")


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or NA, which are one marker."""
    return bool(np.ndim(value) == 0 and pd.isna(value))


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it has white space and signs without width only."""
    return not any(sign.isprintable() and not sign.isspace() for sign in text)


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
        wrapped = np.asarray(marker).item() % 256**labels.dtype.itemsize
        if (labels == wrapped).any():
            raise ValueError(
                f"y holds {int(wrapped)}, which unlabeled_marker={marker!r} becomes in its dtype "
                f"{labels.dtype}. Give y a signed dtype, as by y.astype(int), before you mark rows."
            )
    if labels.dtype.kind in "iuf":
        return labels != marker, labels
    # True equals 1 and is no marker
    kept = [isinstance(label, bool | np.bool_) or label != marker for label in labels.tolist()]
    return np.array(kept, dtype=bool), labels


def as_labels(y: Any) -> NDArray[Any]:
    """Return y as an array; in an array of strings the marker -1 would become "-1"."""
    from sklearn.utils import column_or_1d

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
    given, rows = labels[labeled], np.flatnonzero(labeled).tolist()
    strings, kinds = isinstance(given[0], str), dict.fromkeys(map(type, given))
    for kind in kinds:
        plain = given.dtype.kind in "biufUO" and issubclass(kind, _LABEL)
        if not plain or issubclass(kind, str) != strings:
            at = [type(label) for label in given].index(kind)
            raise ValueError(
                "Unknown label type: y holds labels that cannot be sorted together, or are neither "
                f"strings nor numbers: {given[at]!s:.60} ({kind.__name__}) in row {rows[at]}. Make "
                "all labels strings (str(label), or label.decode() of bytes), or all numbers."
            )
    if given.dtype == object and not (strings and kinds.keys() - {str, np.str_}):
        given = np.array(given.tolist())
    if given.dtype.kind == "f":
        bad = ~np.isfinite(given) | (given != np.floor(given))
        if bad.any():
            value = str(given[bad][0]).replace("inf", "infinity")
            raise ValueError(
                f"Unknown label type: continuous. y contains {value} in row {rows[bad.argmax()]}; "
                "numbers as labels must be finite and whole."
            )
        if is_missing(marker):  # whole numbers that became floats beside NaN
            given = given.astype(np.int64)
    classes = np.unique(given) if known is None else known
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


def positive_code(classes: NDArray[Any], pos_label: Any) -> int:
    """Return the code of the class whose F1 counts; None is the last class."""
    known = classes.tolist()
    if pos_label is not None and pos_label not in known:
        raise ValueError(f"pos_label={pos_label!r} is none of the classes {known}.")
    return len(known) - 1 if pos_label is None else known.index(pos_label)


def form_of(label: str) -> str:
    """Return a label without case, needless white space and zeros, and what has no width."""
    text = "".join(c for c in label if unicodedata.category(c) != "Cf")
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return re.sub(r"^(-?)0*(\d+)(\.0*)?$", r"\1\2", text)


def spelled(label: Any) -> str:
    """Return a label as a file spells it; a 1 beside missing values has become 1.0."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", str(label).strip())


def labels_of_file(labels: list[str], marker: str, known: Iterable[str] = ()) -> list[Any]:
    """Return the labels of a column as classes, with -1 where a row has none.

    `known` holds spellings of classes. Labels that differ from the marker only in form are named.
    """
    marker = spelled(marker)
    given = {label for label in labels if spelled(label) not in ("", "-1", marker)}
    if near := sorted(x for x in given if marker and form_of(x) == form_of(marker)):
        warn_user(f"The labels {near} differ only in form from unlabeled_marker={marker!r}.")
    apart = len({*map(spelled, given)}) < len(given)  # "2" and "2.0", which the fit names
    classes = {x: x if apart or x in known else spelled(x) for x in given}
    return [classes.get(label, -1) for label in labels]


@contextmanager
def known_labels() -> Iterator[None]:
    """Give no warning of labels inside the block: it was given for all of them together."""
    token = _KNOWN.set(True)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def warn_of_labels(classes: NDArray[Any], codes: Codes, marker: Any) -> None:
    """Warn of labels that differ only in form, of classes with a single row, and of a lost -1.

    Class codes are -1 at unlabelled rows.
    """
    if _KNOWN.get():
        return
    counts = dict(zip(classes.tolist(), np.bincount(codes[codes >= 0]).tolist(), strict=False))
    names = pd.Series([x for x in [*counts, marker] if isinstance(x, str)], dtype=object)
    same = []
    for group in (group for _, group in names.groupby(names.map(form_of)) if len(group) > 1):
        rarest = min((x for x in group if x in counts), key=lambda x: counts[x])
        row = np.argmax(codes == classes.tolist().index(rarest))
        forms = {x: counts.get(x, "unlabeled_marker") for x in group}
        same.append(f"{forms}, {rarest!r} first in row {row}")
    rare = [repr(label) for label, n in counts.items() if n == 1]
    text = {str(x).removesuffix(".0"): x for x in counts if (codes >= 0).all()}
    lost = [repr(text[x]) for x in _WRAPPED if x in text and str(int(x) - 1) not in text]
    for message, found in (
        ("y holds labels that differ only in form; write them in one way if they are one", same),
        ("Classes with a single labelled row are hardly learned; label more rows of them", rare),
        ("A class may be -1 in an unsigned dtype; mark rows by unlabeled_marker if it is", lost),
    ):
        if found:
            warn_user(f"{message}: {', '.join(found[:10])}.")


def suspicious_class(classes: NDArray[Any], others: tuple[str, ...] = ()) -> Any:
    """Return a class that looks like a marker of unlabelled rows, or None."""
    forms = (*_NOT_A_CLASS, *others)
    return next((x for x in classes.tolist() if str(x).strip().lower() in forms), None)


def warn_of_equal_numbers(n: int) -> None:
    """Warn of X_unlabeled with as many rows as X."""
    warn_user(
        f"X_unlabeled has as many rows as X ({n}): scikit-learn's cross-validation slices such an "
        "array together with X. Add or drop a row to prevent that."
    )


def check_weights(
    sample_weight: Any, labeled: NDArray[np.bool_], *, scaled: bool = True
) -> FloatArray:
    """Return the weights of the labelled rows, scaled to mean one; None is equal weights."""
    weights = np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(labeled.shape, weights)
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
    from sklearn.utils import _safe_indexing, check_consistent_length

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
