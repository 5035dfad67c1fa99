"""Texts and labels from a file with named columns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sklearn_spt._typing import AnyArray
from sklearn_spt._validation import check_flag, shown
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._tables import WHOLE, Table, read_table, spell, value_of

#: Values of a label column that mean "no label".
NO_LABEL = ("", "-1", "nan", "NaN")


@with_shared_paragraphs
def load_texts(
    path: str | os.PathLike[str],
    *,
    text: str = "text",
    label: str | None = "label",
    keyword: str | None = None,
    id: str | None = None,
    positive: Any = None,
    unlabeled: Iterable[int | str] | int | str = NO_LABEL,
    sep: str | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    return_X_y: bool = False,
) -> Any:
    r"""Read texts and labels from a TSV, a CSV, JSON lines or parquet with named columns.

    The first line of a TSV or CSV names the columns; in JSON lines (one object a line) the keys do,
    and ``"tweet.text"`` leads into a nested object. Empty lines are skipped, and a file whose name
    ends in ``.gz`` is unpacked. In a CSV a text with a separator, a line break or a quotation mark
    is in quotation marks; in a TSV quotation marks are read so if each field that has one is
    quoted properly, and are ordinary characters otherwise. Parquet needs the extra ``[parquet]``.

    Parameters
    ----------
    path : str or path-like
        The file.

    text : str, default="text"
        Name of the column with the texts.

    label : str or None, default="label"
        Name of the column with the labels. None: the file has no labels, all rows are unlabelled.

    keyword : str, default=None
        Name of the column with the keyword, domain or search word of each text. None: there is
        none.

    id : str, default=None
        Name of the column with an identifier of each text. None: there is none.

    positive : int, str or iterable of them, default=None
        Labels of the positive class. All other labels are negative then, and the target is 0 or 1.
        None: the classes are the labels, as they are.

    unlabeled : int, str or iterable of them, default=("", "-1", "nan", "NaN")
        Values of the label column that mean "no label". A missing or null value in JSON always
        means that.

    sep : str, default=None
        Separator of the columns, a single character. None means a TAB or a comma, as the format
        says.

    format : {"tsv", "csv", "jsonl", "parquet"}, default=None
        Format of the file. None means that of the name's end: ``.tsv``, ``.tab``, ``.txt``;
        ``.csv``; ``.jsonl``, ``.ndjson``, ``.json``; ``.parquet``.

    encoding : str, default="utf-8"
        Encoding of the file.

    %(return_X_y)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64 or object
            With `positive`, or if all labels are whole numbers: int64. Otherwise object, with
            each label a str. -1 (an int) where there is no label, in any case.
        target_names : list of str
            ``["negative", "positive"]`` with `positive`, else the labels in their order.
        keyword, ids : ndarray of shape (n_samples,), dtype object
            What `keyword` and `id` name, each a str; "" where a value is missing. Present if asked
            for.
    %(given_file)s

    Raises
    ------
    ValueError
        The format is unknown, a column is not there, a row has too few or too many columns, a text
        is empty or no text, a label is a list or an object, `positive` occurs nowhere, or -1 is a
        class. The message names file, line and column.

    See Also
    --------
    load_tsv : The four columns, without a header, of the paper's program.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn_spt.datasets import load_texts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "posts.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write('post,sick\n"in bed, flu",yes\nflu season,no\nflu?,\n')
    ...     dataset = load_texts(path, text="post", label="sick", positive="yes")
    >>> dataset.target
    array([ 1,  0, -1])
    """
    check_flag(return_X_y, "return_X_y")
    names = {"text": text, "label": label, "keyword": keyword, "id": id}
    for parameter, name in names.items():
        if not isinstance(name, str) and (name is not None or parameter == "text"):
            raise TypeError(f"{parameter} must be the name of a column, got {name!r}.")
    no_label = set(_spelled(unlabeled, "unlabeled"))
    table = read_table(path, sep=sep, format=format, encoding=encoding)
    if not table.rows:
        raise ValueError(f"{table.path} holds no row besides the names of the columns.")
    for parameter, name in names.items():
        if name is not None and not table.has(name):
            raise ValueError(_missing(table, parameter, name))
    data = np.array([text_of(table, line, row, text) for line, row in table.rows], dtype=object)
    if label is None:
        labels: list[str | None] = [None] * len(table.rows)
    else:
        labels = [label_of(table, line, row, label) for line, row in table.rows]
        labels = [None if value in no_label else value for value in labels]
    target, target_names = target_of(labels, positive, f"{table.path}, column {label!r}")
    if return_X_y:
        return data, target
    bunch = Bunch(data=data, target=target, target_names=target_names, filename=str(table.path))
    for key, name in (("keyword", keyword), ("ids", id)):
        if name is not None:
            bunch[key] = np.array([_plain(row, name) for _, row in table.rows], dtype=object)
    return bunch


def _missing(table: Table, parameter: str, name: str) -> str:
    message = (
        f"{table.path} has no column {name!r} ({parameter}=). Its columns are {table.names()}."
    )
    if len(table.columns) == 1:
        message += " Is the separator another one? Pass it as sep=."
    if parameter == "label":
        message += " For a file without labels, pass label=None."
    return message


def text_of(table: Table, line: int, row: dict[str, Any], column: str) -> str:
    """Return the text of a row; an empty one is an error."""
    value = value_of(row, column)
    if not isinstance(value, str) or not value.strip():
        empty = value is None or isinstance(value, str)
        what = "an empty text" if empty else f"no text, but of type {type(value).__name__}"
        raise ValueError(f"{table.place(line, column)}: {what}. Drop the row or repair it.")
    return value


def label_of(table: Table, line: int, row: dict[str, Any], column: str) -> str | None:
    """Return the spelled label of a row, or None if it is missing."""
    value = value_of(row, column)
    if isinstance(value, list | dict):
        raise ValueError(
            f"{table.place(line, column)}: a label must be a number or a str, got a "
            f"{type(value).__name__}."
        )
    if value is None or value != value:  # null, or the NaN that some programs write
        return None
    return spell(value)


def _spelled(values: Any, name: str) -> list[str]:
    items = [values] if isinstance(values, str) or not isinstance(values, Iterable) else values
    spelled = []
    for item in items:
        if not isinstance(item, str | int | float | np.generic):
            raise TypeError(f"{name} must hold labels (int or str), got {item!r}.")
        spelled.append(spell(item))
    return spelled


def _plain(row: dict[str, Any], column: str) -> str:
    value = value_of(row, column)
    return "" if value is None else str(value)


def _listed(labels: Iterable[str], most: int = 10, width: int = 30) -> str:
    """List a few labels, cut short: a wrong column may hold texts, which belong in no message."""
    names = sorted(labels)
    shown = [repr(name if len(name) <= width else f"{name[:width]}...") for name in names[:most]]
    return ", ".join(shown) + (f", and {len(names) - most} more" if len(names) > most else "")


def target_of(labels: list[str | None], positive: Any, place: str) -> tuple[AnyArray, list[str]]:
    """Return the target, with -1 for None, and the names of the classes."""
    found = {value for value in labels if value is not None}
    if positive is not None:
        ones = set(_spelled(positive, "positive"))
        absent = sorted(ones - found)
        if absent or not ones:
            raise ValueError(
                f"positive={shown(positive)}: {place} has no such label"
                f"{f' ({shown(absent[0])})' if absent else ''}. Its labels are "
                f"{_listed(found)}."
            )
        codes = [-1 if value is None else int(value in ones) for value in labels]
        return np.array(codes, dtype=np.int64), ["negative", "positive"]
    if "-1" in found:
        raise ValueError(
            f"{place}: -1 is a label, and would be taken for 'unlabelled'. Pass positive=, or "
            "give that class another name."
        )
    if all(WHOLE.fullmatch(value) for value in found):
        numbers = [-1 if value is None else int(value) for value in labels]
        return np.array(numbers, dtype=np.int64), [str(n) for n in sorted(map(int, found))]
    target = np.empty(len(labels), dtype=object)
    target[:] = [-1 if value is None else value for value in labels]
    return target, sorted(found)
