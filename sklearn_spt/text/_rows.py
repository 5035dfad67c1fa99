"""Some rows of a matrix, by their numbers and without a copy.

A fit draws samples from the unlabelled documents and epochs from the samples. Of a million
documents each copy of their token ids would take hundreds of megabytes, the numbers of the rows
take eight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_spt._typing import AnyArray, IntArray

#: Rows that are looked at in one go where all have to be.
CHUNK = 2**16


class Rows:
    """Rows of a matrix; what is asked of them is copied, the rest is not.

    They can be indexed and turned into an array, and nothing else: whoever compares or computes
    needs that array.

    Parameters
    ----------
    X : ndarray of shape (n_X, ...) or Rows
        The matrix, not to be changed while these rows are in use.
    rows : ndarray of int of shape (n,)
        Which of its rows, in which order; a row may stand several times.
    """

    def __init__(self, X: AnyArray | Rows, rows: IntArray) -> None:
        self.X: AnyArray = X.X if isinstance(X, Rows) else X
        self.rows: IntArray = X.rows[rows] if isinstance(X, Rows) else rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return (len(self.rows), *self.X.shape[1:])

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.X.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of the entries."""
        return self.X.dtype

    def __getitem__(self, which: Any) -> Any:
        first, *others = which if isinstance(which, tuple) else (which,)
        return self.X[(self.rows[first], *others)]

    def __eq__(self, other: object) -> bool:
        raise TypeError("rows of a matrix cannot be compared; np.asarray makes an array of them.")

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        if copy is False:
            raise ValueError("rows of a matrix become an array of their own by a copy only.")
        return np.asarray(self.X[self.rows], dtype=dtype)


def in_chunks(X: AnyArray | Rows) -> list[slice]:
    """Slices that cover the rows of `X`, each small enough to be copied."""
    return [slice(start, start + CHUNK) for start in range(0, len(X), CHUNK)]


def moved_up(X: AnyArray, rows: IntArray) -> AnyArray:
    """Rows of an array in ascending order, in the memory of the array itself.

    Parameters
    ----------
    X : ndarray of shape (n_X, ...)
        Overwritten.
    rows : ndarray of int of shape (n,)
        Distinct and ascending, so that none is overwritten before it has moved.

    Returns
    -------
    ndarray of shape (n, ...)
        A view of the first rows of `X`.
    """
    above = X[: len(rows)]
    for part in in_chunks(rows):
        above[part] = X[rows[part]]
    return above
