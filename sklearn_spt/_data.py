"""Documents: texts, rows of token ids, numbers for torch; and partly labelled data."""

from __future__ import annotations

import math
from collections.abc import MappingView, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skorch.utils import multi_indexing

from sklearn_spt._labels import Codes, FloatArray, is_blank, is_missing

Ids = NDArray[np.int32]


def as_texts(X: Any, name: str = "X", *, allow_empty: bool = True) -> list[str] | None:
    """Return texts as a list of str; None if X holds something else, such as numbers.

    X is a list, a tuple, an array, a Series or a frame with one column. The error names the first
    row that is missing, no str, half of a character, or empty (if that is not allowed).
    """
    if isinstance(X, str | bytes):
        raise TypeError(f"{name} is a single {type(X).__name__}; wrap it in a list: [{name}].")
    if isinstance(X, Set | MappingView):
        raise TypeError(f"{name} is a {type(X).__name__}, whose rows have no order; pass a list.")
    if hasattr(X, "column_names") and not hasattr(X, "iloc"):  # of pyarrow or the package datasets
        raise TypeError(
            f"{name} is a table; pass the column of texts, one of {X.column_names}, as a list."
        )
    if hasattr(X, "input_ids") and not hasattr(X, "iloc"):
        raise TypeError(
            f"{name} is the output of a tokenizer; pass the texts themselves, or its input_ids, "
            "made with padding=True."
        )
    X = X.to_pylist() if hasattr(X, "to_pylist") else X  # a column of pyarrow
    column = X
    if len(getattr(X, "shape", ())) == 2:
        kind = getattr(getattr(X, "dtype", np.dtype(object)), "kind", "")  # of tensors, none
        if not kind or kind not in "OUT" or X.shape[1] == 0:
            return None
        column = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
    elif isinstance(X, dict) or not hasattr(X, "__iter__") or getattr(X, "ndim", 1) != 1:
        return None
    entries = list(column)
    if not entries:
        raise ValueError(f"{name}: Found array with 0 sample(s) while a minimum of 1 is required.")
    if not any(isinstance(entry, str) for entry in entries):
        if column is X and isinstance(entries[0], bytes | dict):
            raise TypeError(
                f"{name} must hold texts, but holds {type(entries[0]).__name__} objects; decode "
                'bytes, and take the text out of a dict, as in [row["text"] for row in X].'
            )
        return None
    if column is not X and X.shape[1] > 1:
        raise ValueError(f"{name} has {X.shape[1]} columns; give the one that holds the texts.")
    for row, entry in enumerate(entries):
        is_text = isinstance(entry, str)
        if not allow_empty and is_blank(entry) if is_text else is_missing(entry):
            empty = [text for text in entries if is_missing(text) or is_blank(str(text))]
            raise ValueError(
                f"{name} holds an empty or missing text in row {row}, and {len(empty)} in all; "
                "drop these rows."
            )
        if not is_text:
            hint = " Or are X and y swapped?" if isinstance(entry, int | float | np.number) else ""
            raise TypeError(
                f"{name} must hold texts, but row {row} is of type {type(entry).__name__}; drop "
                f"it, or turn it into a str.{hint}"
            )
        try:
            entry.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} holds half of a character (a lone surrogate) in row {row}, at position "
                f'{error.start}; drop it: text.encode("utf-8", "ignore").decode().'
            ) from None
    return [str(entry) for entry in entries]


def check_rows_of_ids(X: Any, name: str) -> None:
    """Raise an error for a list that cannot be a matrix of token ids."""
    if hasattr(X, "tocsr") or isinstance(X, dict):
        kind = "sparse matrix" if hasattr(X, "tocsr") else "dict"
        raise TypeError(
            f"{name} is a {kind}, but this net reads texts: pass them as a list, a column of a "
            "frame or an array, without a vectorizer before it."
        )
    if not hasattr(X, "shape") or len(X.shape) == 1:
        if any(not hasattr(row, "__len__") for row in X):
            raise TypeError(f"{name} must hold texts or rows of token ids; are X and y swapped?")
        if any(isinstance(entry, str) for row in X for entry in row):
            raise TypeError(f'{name} holds lists of words; join each: [" ".join(row) for row in X]')
        if len({len(row) for row in X}) > 1:
            raise ValueError(
                f"{name} holds rows of token ids of different lengths; make them with padding=True."
            )


def sequence_lengths(ids: Ids, pad_id: int) -> Codes:
    """Count the tokens of each row, up to the last id that is not padding."""
    present = ids != pad_id
    return np.asarray(ids.shape[1] - present[:, ::-1].argmax(axis=1))


@dataclass(frozen=True)
class PartlyLabeled:
    """Encoded documents, split into labelled and unlabelled ones."""

    X: Any  # of the labelled rows
    y: Codes  # class codes of the labelled rows
    weights: FloatArray  # of the labelled rows, with mean one
    U: Any  # the marked rows of X, then those of X_unlabeled; None without any
    classes: NDArray[Any]
    labeled: NDArray[np.bool_]  # which rows are, of X and then of X_unlabeled
    documents: tuple[Any, Any]  # X and X_unlabeled as they were given

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def L(self) -> tuple[Any, Codes, FloatArray]:
        return self.X, self.y, self.weights

    @property
    def n_unlabeled(self) -> int:
        return int((~self.labeled).sum())

    def part(self, rows: Codes) -> PartlyLabeled:
        """Return the data with some of the labelled rows only."""
        weights = self.weights[rows] / self.weights[rows].mean()
        return replace(self, X=multi_indexing(self.X, rows), y=self.y[rows], weights=weights)


def concatenate(first: Any, second: Any) -> Any:
    """Concatenate the rows of two encoded inputs of the same kind."""
    if isinstance(first, dict):
        return {key: np.concatenate([first[key], second[key]]) for key in first}
    return np.concatenate([first, second])


def class_counts(codes: Codes, classes: NDArray[Any]) -> dict[Any, int]:
    """Count the rows of each class by label, as plain Python objects."""
    counts = np.bincount(codes, minlength=len(classes)).tolist()
    return dict(zip(classes.tolist(), counts, strict=True))


def for_torch(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the byte order of the machine, and floats as float32."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def is_mapping(X: Any) -> bool:
    """Whether X is a mapping of parts; a sparse matrix may be a dict, and is none."""
    return isinstance(X, dict) and not hasattr(X, "tocsr")


def share_of(share: float, n: int, *, up: bool = False) -> int:
    """Return a share of a count as a whole number; a floating-point error does not change it."""
    # 0.07 * 100 is 7.000000000000001, and 0.29 * 100 is 28.999999999999996
    return math.ceil(share * n * (1 - 1e-12)) if up else math.floor(share * n * (1 + 1e-12))
