"""Refuse what is neither texts nor a matrix, in one sentence that shows no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import torch

from sklearn_spt._labels import is_missing
from sklearn_spt._typing import AnyArray
from sklearn_spt._validation import shown


def check_documents(X: Any, name: str = "X") -> None:
    """Raise an error if `X` can be neither texts nor a matrix of token ids."""
    wanted = f"{name} must be a list, array or Series of texts"
    if X is None:
        raise TypeError(f"{wanted}, got None.")
    if hasattr(X, "tocsr"):
        raise TypeError(
            f"{wanted}, got a sparse matrix. This estimator reads the texts themselves; leave out "
            "TfidfVectorizer or CountVectorizer."
        )
    if isinstance(X, Mapping):
        raise TypeError(
            f"{wanted}, got a {type(X).__name__:.60}; pass the entry that holds the texts."
        )
    if isinstance(X, Set):
        raise TypeError(f"{wanted}, got a {type(X).__name__:.60}, which has no order; pass a list.")
    if isinstance(X, Iterator):
        raise TypeError(f"{wanted}, got a {type(X).__name__:.60}; pass list({name}).")
    if getattr(X, "shape", None) == () or not (hasattr(X, "__len__") or hasattr(X, "__array__")):
        raise TypeError(f"{wanted}, got a {type(X).__name__:.60}.")
    if isinstance(X, list | tuple | range) or (isinstance(X, np.ndarray) and X.dtype == object):
        _check_rows(X, name)
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if len(getattr(X, "shape", ())) == 1 and kind in "biufcmMV":
        raise ValueError(
            f"{name} must hold texts, got a column of {str(X.dtype)[:60]}."
            f"{_swapped(name)} Reshape your data to two dimensions if they are token ids."
        )


def check_matrix(X: Any, name: str) -> None:
    """Raise an error where scikit-learn would print what was passed instead of a matrix."""
    array = X if hasattr(X, "ndim") else np.asarray(X)
    if array.ndim < 2:
        raise ValueError(
            f"{name} must have two dimensions or more, got a {type(X).__name__:.60} with "
            f"{array.ndim}. Reshape your data: one feature is X.reshape(-1, 1)."
        )
    if getattr(getattr(array, "dtype", None), "kind", "O") in "cV":
        raise ValueError(
            f"{name} must hold numbers, got {str(array.dtype)[:60]}: Complex data not supported."
        )
    if getattr(getattr(array, "dtype", None), "kind", "O") in "OSU":
        _check_strings(np.asarray(array), name)


def _check_strings(array: AnyArray, name: str) -> None:
    """Raise an error that names the first row with a string that is no number."""
    if array.dtype.kind not in "OSU" or array.ndim < 2:
        return
    for row, entries in enumerate(array):
        for entry in entries.flat:
            if isinstance(entry, str | bytes):
                try:
                    float(entry)
                except ValueError:
                    raise ValueError(
                        f"{name} must hold numbers alone or one column of texts alone, but holds "
                        f"numbers and, in row {row}, a string."
                    ) from None  # the first error shows the string


def check_finite(array: AnyArray, name: str) -> None:
    """Raise an error that names the first row with a NaN or an infinite number."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row, *_ = np.argwhere(~np.isfinite(array))[0]
        what = "NaN" if np.isnan(array[row]).any() else "infinity"
        raise ValueError(
            f"{name} contains {what} in row {row}; drop the row, or fill the gap, for instance by "
            "SimpleImputer."
        )


# -- arrays for a net ------------------------------------------------------------------------------
def for_torch(array: AnyArray) -> AnyArray:
    """Return numbers in the byte order of the machine, and floats of torch's width."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "f" and array.dtype.itemsize != 4:
        array = array.astype(np.float32 if torch.get_default_dtype() == torch.float32 else "d")
    return array


def is_mapping(X: Any) -> bool:
    """Whether X is a mapping of parts; a DOK matrix of scipy is a dict, and none."""
    return isinstance(X, Mapping) and not hasattr(X, "tocsr")


def arrays_of(X: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a mapping; skorch would read rows of a pandas Series by its index."""
    parts = {key: part.to_numpy() if hasattr(part, "to_numpy") else part for key, part in X.items()}
    parts = {k: np.asarray(p) if isinstance(p, list | tuple) else p for k, p in parts.items()}
    return {
        key: for_torch(part) if isinstance(part, np.ndarray) and part.dtype.kind in "biuf" else part
        for key, part in parts.items()
    }


def of_one_kind(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two inputs; where one holds floats and the other integers, both hold floats."""
    if isinstance(first, Mapping):
        pairs = {key: of_one_kind(first[key], second[key]) for key in first}
        return {k: one for k, (one, _) in pairs.items()}, {k: two for k, (_, two) in pairs.items()}
    kinds = {part.dtype.kind for part in (first, second) if isinstance(part, np.ndarray)}
    if "f" in kinds and kinds <= set("biuf"):
        dtype = next(part.dtype for part in (first, second) if part.dtype.kind == "f")
        return first.astype(dtype, copy=False), second.astype(dtype, copy=False)
    return first, second


def concatenated(first: Any, second: Any) -> Any:
    """Concatenate the rows of two encoded inputs of the same kind."""
    if isinstance(first, Mapping):
        return {key: np.concatenate([first[key], second[key]]) for key in first}
    return np.concatenate([first, second])


# -- checks of rows --------------------------------------------------------------------------------
def _check_rows(X: Any, name: str) -> None:
    for row, entry in enumerate(X):
        if isinstance(entry, str | bytes) or is_missing(entry):
            return  # texts: `check_texts` has the message
        if isinstance(entry, list | tuple) and any(isinstance(part, str) for part in entry):
            raise TypeError(
                f"{name} must hold texts, but row {row} is a {type(entry).__name__} of strings; "
                'join its words: " ".join(row).'
            )
        if isinstance(entry, list | tuple):
            _check_widths(X, name)
            return
        if np.ndim(entry) == 0:
            kind = type(entry).__name__[:60]
            if isinstance(entry, int | float | np.number | np.bool_):
                raise ValueError(
                    f"{name} must hold texts, but row {row} is of type {kind}: {shown(entry)}."
                    f"{_swapped(name)}"
                )
            raise TypeError(f"{name} must hold texts, but row {row} is of type {kind}.")
        return


def _check_widths(X: Any, name: str) -> None:
    widths = [len(row) if hasattr(row, "__len__") else -1 for row in X]
    for row, width in enumerate(widths):
        if width != widths[0]:
            raise ValueError(
                f"{name} must be a matrix or texts, but row 0 has {widths[0]} entries and row "
                f"{row} has {max(width, 1)}."
            )


def _swapped(name: str) -> str:
    return " Are X and y swapped?" if name == "X" else ""
