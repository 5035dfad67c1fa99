"""Texts and labels from a file of four columns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn_spt._validation import check_flag, shown
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._tables import lines_of, read_text

_COLUMNS = "id, label, keyword, text"


@with_shared_paragraphs
def load_tsv(
    path: str | os.PathLike[str],
    *,
    positive: Iterable[int | str] | int | str = (3,),
    negative: Iterable[int | str] | int | str = (1,),
    encoding: str = "utf-8",
    return_X_y: bool = False,
) -> Any:
    r"""Read a file in the input format of the paper's program.

    One document a line, in four columns with one TAB between them: id, label, keyword (or domain),
    text. There is no header line. Everything after the third TAB is text, further TABs and
    quotation marks included. Empty lines are skipped.

    Parameters
    ----------
    path : str or path-like
        The file.

    positive : int, str or iterable of them, default=(3,)
        Labels of the positive class. In the data sets of the paper 3 is positive and 1 negative;
        for a file with the labels 0 to 3, pass ``positive=(2, 3), negative=(0, 1)``.

    negative : int, str or iterable of them, default=(1,)
        Labels of the negative class.

    encoding : str, default="utf-8"
        Encoding of the file.

    %(return_X_y)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            1 positive, 0 negative, -1 unlabelled: no label, or the label -1 (unless `positive` or
            `negative` holds it).
        target_names : list of str
            ``["negative", "positive"]``.
        keyword : ndarray of shape (n_samples,), dtype object
            The third column.
        ids : ndarray of shape (n_samples,), dtype object
            The first column, each a str, so that leading zeros are kept.
    %(given_file)s

    Raises
    ------
    ValueError
        A line with fewer than four columns, an unknown label, bytes that are not in the given
        encoding (each with the number of the line), or no line at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_spt.datasets import load_tsv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "posts.tsv")
    ...     _ = path.write_text("1\t3\tflu\tin bed with the flu\n2\t1\tflu\tflu season is near\n")
    ...     load_tsv(path).target
    array([1, 0])
    """
    check_flag(return_X_y, "return_X_y")
    codes = _codes(positive, negative)
    path = Path(path)
    rows = []
    for number, line in enumerate(lines_of(read_text(path, encoding)), start=1):
        if line:
            rows.append(_row(line, codes, f"{path}, line {number}"))
    if not rows:
        raise ValueError(f"{path} holds no document; each line should hold {_COLUMNS}.")
    return as_bunch(
        return_X_y,
        ("ids", "target", "keyword", "data"),
        rows,
        target_names=["negative", "positive"],
        filename=str(path),
    )


def _row(line: str, codes: dict[str, int], place: str) -> tuple[str, int, str, str]:
    fields = line.split("\t", 3)
    if len(fields) < 4:
        raise ValueError(
            f"{place}: {len(fields)} column(s) instead of 4; there should be {_COLUMNS}, with one "
            "TAB between them."
        )
    identifier, label, keyword, text = fields
    code = codes.get(label.strip())
    if code is None:
        known = ", ".join(filter(None, codes))
        raise ValueError(
            f"{place}: unknown label {shown(label)}. Labels are {known} or empty; pass others as "
            "positive= or negative=."
        )
    return identifier, code, keyword, text


def _codes(positive: Any, negative: Any) -> dict[str, int]:
    """Class of each label, as it is spelled in the file."""
    codes = {"": -1, "-1": -1}
    spelled = {}
    for name, labels in (("negative", negative), ("positive", positive)):
        items = [labels] if isinstance(labels, str) or not isinstance(labels, Iterable) else labels
        spelled[name] = [str(label).strip() for label in items]
        if not spelled[name] or "" in spelled[name]:
            raise ValueError(f"{name} must hold one or more labels, none of them empty.")
    both = [label for label in spelled["positive"] if label in spelled["negative"]]
    if both:
        raise ValueError(f"The label {both[0]!r} is in both positive and negative.")
    codes.update(dict.fromkeys(spelled["negative"], 0))
    codes.update(dict.fromkeys(spelled["positive"], 1))
    return codes
