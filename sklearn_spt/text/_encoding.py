"""Encode texts as an int32 matrix of token ids, which all of scikit-learn can handle."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from sklearn_spt._labels import is_missing
from sklearn_spt._typing import TextArray
from sklearn_spt._validation import half_character, shown
from sklearn_spt.text._allocator import give_back
from sklearn_spt.text._locations import DEFAULT_ENCODER
from sklearn_spt.text._pretrained import (
    load_tokenizer,
    max_positions,
    pad_token_id,
    resolve_max_length,
    vocabulary_size,
)
from sklearn_spt.text._tokenizer_threads import n_threads_for, own_threads_off
from sklearn_spt.text._transformer import TextTransformer

_Ids = TypeVar("_Ids", bound=NDArray[np.integer])

# Texts that one thread encodes at a time. The tokenizer's objects take some kilobytes a text.
_CHUNK = 4096
# Number of chunks after which free memory is returned to the system.
_GIVE_BACK = 32


# -- checks of X ---------------------------------------------------------------------------------


def is_text(X: Any) -> bool:
    """Whether `X` is a string, or a container whose first entry that is not missing is one."""
    if isinstance(X, str | bytes):
        return True
    column, _ = _first_column(X)
    if column is None:
        return False
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    if kind in "biufc":
        return False
    for entry in column:
        if not is_missing(entry):
            return isinstance(entry, str | bytes)
    return True  # empty, or missing entries only: `check_texts` has the message


def check_texts(X: Any, name: str = "X") -> list[str]:
    """Return the texts of a list, tuple, array, Series or one-column frame as a list of str."""
    if isinstance(X, str | bytes):
        raise TypeError(
            f"{name} is a single {type(X).__name__}, not a sequence of texts; wrap it in a list: "
            f"[{name}]."
        )
    column, n_columns = _first_column(X)
    if n_columns > 1:
        raise ValueError(f"{name} has {n_columns} columns; give the one that holds the texts.")
    if column is None:
        raise TypeError(
            f"{name} must be a sequence of str (list, array, Series, or a frame with one column), "
            f"got {type(X).__name__}."
        )
    entries = list(column)
    if not entries:
        raise ValueError(f"{name} holds 0 sample(s) while a minimum of 1 is required.")
    for row, entry in enumerate(entries):
        if isinstance(entry, str):
            _check_surrogates(entry, name, row)
            continue
        if is_missing(entry):
            raise ValueError(
                f"{name} holds a missing text in row {row} ({shown(entry)}, "
                f"{type(entry).__name__}); drop the row or replace the text by ''."
            )
        remedy = "row.decode()" if isinstance(entry, bytes) else "str(row)"
        raise TypeError(
            f"{name} must hold texts, but row {row} is of type {type(entry).__name__}; drop it, or "
            f"turn it into a text: {remedy}."
        )
    return [str(entry) for entry in entries]  # numpy.str_ becomes str; a str stays itself


def _check_surrogates(text: str, name: str, row: int) -> None:
    """Refuse half of a character."""
    position = half_character(text)
    if position is not None:
        raise ValueError(
            f"{name} holds half of a character (a lone surrogate) in row {row}, at position "
            f'{position}; drop it: text.encode("utf-8", "ignore").decode().'
        )


def check_token_ids(X: ArrayLike, pretrained: str | os.PathLike[str]) -> NDArray[np.int32]:
    """Return a numeric matrix as int32 token ids of an encoder, or name the first wrong value."""
    # floats that are whole numbers pass, since some meta-estimators turn matrices into floats
    ids = check_array(X, dtype="numeric", ensure_all_finite=False, input_name="X")
    if ids.dtype.kind not in "iuf":
        raise ValueError(f"X must be a matrix of token ids, got the dtype {ids.dtype}.")
    limit, width = max_positions(pretrained), ids.shape[1]
    if width > limit:
        raise ValueError(
            f"X is {width} tokens wide, but the encoder {shown(os.fspath(pretrained))} reads at "
            f"most {limit}; lower max_length of the vectorizer."
        )
    size = vocabulary_size(pretrained)
    checked: NDArray[np.int32] = ids
    in_range = ids.min() >= 0 and ids.max() < size  # False with NaN
    if in_range and ids.dtype != np.int32:
        checked = ids.astype(np.int32)
    if not in_range or (ids.dtype.kind == "f" and not np.array_equal(checked, ids)):
        wrong = ~((ids >= 0) & (ids < size) & (np.floor(ids) == ids))
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"X must hold token ids, whole numbers from 0 to {size - 1}, but row {row}, "
            f"column {column} is {ids[row, column]}. Is X the output of TokenIdVectorizer "
            f"with pretrained={shown(os.fspath(pretrained))}?"
        )
    pad_id = pad_token_id(pretrained)
    doubtful = np.flatnonzero(checked[:, 0] == pad_id)
    empty = doubtful[(checked[doubtful] == pad_id).all(axis=1)]
    if empty.size:
        raise ValueError(f"X holds nothing but padding in row {empty[0]}.")
    return np.ascontiguousarray(checked)


def sequence_lengths(ids: NDArray[np.integer], pad_id: int) -> NDArray[np.intp]:
    """Count the tokens of each row, up to the last id that is not padding."""
    present = ids != pad_id
    lengths = ids.shape[1] - np.argmax(present[:, ::-1], axis=1)
    return np.where(present.any(axis=1), lengths, 0)


def _first_column(X: Any) -> tuple[Iterable[Any] | None, int]:
    """Return the first column of a container and the number of columns, or None and 0."""
    if isinstance(X, np.ndarray):
        if X.ndim == 2 and X.shape[1] > 0:
            return X[:, 0], X.shape[1]
        return (X, 1) if X.ndim == 1 else (None, 0)
    if hasattr(X, "columns") and len(getattr(X, "shape", ())) == 2:
        if X.shape[1] == 0:
            return None, 0
        return (X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]), X.shape[1]
    if isinstance(X, Mapping):  # a SliceDict of skorch has a shape
        return None, 0
    if isinstance(X, Sequence) or len(getattr(X, "shape", ())) == 1:
        return X, 1
    return None, 0


def text_array(X: Any) -> TextArray:
    """Return texts as an array, which can be indexed by rows."""
    texts = check_texts(X)
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return out


# -- encoding ------------------------------------------------------------------------------------


def encode_texts(
    texts: Sequence[str],
    pretrained: str | os.PathLike[str],
    max_length: int | str,
    *,
    full_width: bool = True,
) -> NDArray[np.int32]:
    """Encode texts as token ids, padded at the right to `max_length` or to the longest text."""
    max_length = resolve_max_length(max_length, pretrained)
    # A repeated text is encoded in its first row and copied to the others.
    numbers: dict[str, int] = {}
    inverse = np.fromiter((numbers.setdefault(t, len(numbers)) for t in texts), dtype=np.intp)
    distinct = list(numbers)
    del numbers
    first = np.empty(len(distinct), dtype=np.intp)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]

    tokenizer = load_tokenizer(pretrained, max_length)
    size = vocabulary_size(pretrained)

    def encode_chunk(start: int) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        chunk = distinct[start : start + _CHUNK]
        encoded = [encoding.ids for encoding in tokenizer.encode_batch_fast(chunk)]
        lengths = np.fromiter(map(len, encoded), dtype=np.intp, count=len(chunk))
        flat = np.fromiter(itertools.chain.from_iterable(encoded), np.int32, int(lengths.sum()))
        if flat.size and flat.max() >= size:
            raise ValueError(
                f"The tokenizer of {shown(os.fspath(pretrained))} gives the id {flat.max()}, but "
                f"the encoder knows {size} ids only; they do not belong together."
            )
        return flat, lengths

    starts = range(0, len(distinct), _CHUNK)
    with own_threads_off(), ThreadPoolExecutor(n_threads_for(len(starts))) as pool:
        chunks = list(pool.map(encode_chunk, starts))
    longest = max((int(lengths.max()) for _, lengths in chunks), default=1)
    width = max_length if full_width else longest
    ids = np.empty((len(inverse), width), dtype=np.int32)
    for start in reversed(starts):
        flat, lengths = chunks.pop()  # frees each chunk after its rows are filled
        rows = first[start : start + _CHUNK]
        ids[rows] = pad_token_id(pretrained)
        rows = np.repeat(rows, lengths)
        columns = np.arange(flat.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ids[rows, columns] = flat
        del flat, lengths, rows, columns
        if len(chunks) % _GIVE_BACK == _GIVE_BACK - 1:
            give_back()
    repeated = np.flatnonzero(first[inverse] != np.arange(len(inverse)))
    for start in range(0, len(repeated), _CHUNK):
        rows = repeated[start : start + _CHUNK]
        ids[rows] = ids[first[inverse[rows]]]
    return ids


def with_deletions(ids: _Ids, pad_id: int, share: float, rng: np.random.Generator) -> _Ids:
    """Delete each token with probability `share`, but for the first and the last of a row.

    The others keep their order, and each row is padded to the old width.
    """
    deleted = inner_tokens(ids, pad_id)
    # numbers for these tokens alone, so that the width of the matrix changes nothing
    deleted[deleted] = rng.random(np.count_nonzero(deleted)) < share
    return without_tokens(ids, deleted, pad_id)


def inner_tokens(ids: NDArray[np.integer], pad_id: int) -> NDArray[np.bool_]:
    """Mark the tokens of each row but the first and the last."""
    columns = np.arange(ids.shape[1])
    last = sequence_lengths(ids, pad_id)[:, None] - 1
    inner: NDArray[np.bool_] = (columns > 0) & (columns < last)
    return inner


def without_tokens(ids: _Ids, deleted: NDArray[np.bool_], pad_id: int) -> _Ids:
    """Leave out marked tokens, and pad each row to the old width."""
    kept = ~deleted
    left = np.full_like(ids, pad_id)
    left[np.arange(ids.shape[1]) < kept.sum(axis=1, keepdims=True)] = ids[kept]
    return left


class TokenIdVectorizer(TextTransformer):
    """Turn texts into a matrix of token ids for a pretrained encoder.

    Use it with pipelines and meta-estimators that refuse raw texts. The width of the result does
    not depend on the data. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    pretrained : str or path-like, default="sentence-transformers/all-MiniLM-L6-v2"
        Encoder whose tokenizer is used: a local folder or a name on the Hugging Face hub. Set the
        encoder of the classifier.
    max_length : int or "auto", default="auto"
        Width of the result in tokens, special ones included. Longer texts are cut at the end,
        shorter ones are padded. Lower it to save memory; training time does not change, since each
        batch is trimmed to its longest text. "auto" is 160, as in the paper, or the encoder's
        number of positions if that is less.

    Notes
    -----
    The names of special tokens in a text are plain text: ``[SEP]`` in a tweet is no separator.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via Self-Pretraining",
       WSDM 2021, section 4.

    Examples
    --------
    >>> from sklearn_spt import TokenIdVectorizer
    >>> TokenIdVectorizer(max_length=8).fit_transform(["flu shot done", ""])  # doctest: +SKIP
    array([[  101, 19857,  2915,  2589,   102,     0,     0,     0],
           [  101,   102,     0,     0,     0,     0,     0,     0]], dtype=int32)
    """

    def __init__(
        self,
        pretrained: str | os.PathLike[str] = DEFAULT_ENCODER,
        *,
        max_length: int | str = "auto",
    ) -> None:
        self.pretrained = pretrained
        self.max_length = max_length

    def _check(self, X: Any) -> None:
        encode_texts(check_texts(X)[:1], self.pretrained, self.max_length)

    def transform(self, X: Any) -> NDArray[np.int32]:
        """Encode texts.

        Parameters
        ----------
        X : sequence of str, n entries
            Texts: a list, array, pandas or polars Series, or a frame with one column.

        Returns
        -------
        ndarray of shape (n, max_length), int32
            Token ids, padded at the right.
        """
        return encode_texts(check_texts(X), self.pretrained, self.max_length)

    def _columns(self) -> list[str]:
        return [f"token_{i}" for i in range(resolve_max_length(self.max_length, self.pretrained))]
