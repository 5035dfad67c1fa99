"""Texts and labels for the commands, and the rows that `predict` prints."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sklearn_spt._typing import AnyArray, FloatArray
from sklearn_spt._validation import half_character
from sklearn_spt.datasets._parts import table_parts
from sklearn_spt.datasets._tables import Table, format_of, named_format, spell, value_of
from sklearn_spt.datasets._texts import NO_LABEL, label_of, target_of, text_of

#: Ends of names that do not settle the format.
_VAGUE = re.compile(r"\.(txt|json)(\.gz)?$", re.IGNORECASE)
#: Column of the predicted classes, and the begin of those of the probabilities.
_PREDICTION, _PROBABILITY = "prediction", "probability_"


def parts(
    options: argparse.Namespace, source: str, *, labeled: bool = False
) -> Iterator[tuple[Table, str, str | None]]:
    """Yield the parts of a file, each with the names of its columns of texts and of labels.

    A position counts in the first part. In JSON lines, a part may lack the labels, but not all.
    """
    text = label = part = None
    for part in table_parts(source, format=_format(options, source), header=not options.no_header):
        first = text is None
        if text is None and (text := _column(part, options.text)) is None:
            _no_column(part, options.text, "--text")
        if labeled and label is None and (first or part.has(options.label)):
            label = _column(part, options.label)
            if label is None and not _is_json(options, source):
                _no_column(part, options.label, "--label")
        yield part, text, label
    if part is None:
        raise ValueError(f"{source} holds no row.")
    if labeled and label is None:
        _no_column(part, options.label, "--label")


def _format(options: argparse.Namespace, source: str) -> str | None:
    """Return the format that --format gives a file.

    It is that of all files, or of the one whose name does not say it.
    """
    others = {options.file, options.unlabeled} - {None, source}
    if _says_its_format(source) and not all(map(_says_its_format, others)):
        return None
    return str(options.format) if options.format else None


def _says_its_format(source: str) -> bool:
    return named_format(source) is not None and not _VAGUE.search(source)


def _is_json(options: argparse.Namespace, source: str) -> bool:
    return format_of(Path(source), None, _format(options, source)) == "jsonl"


def _column(table: Table, given: str) -> str | None:
    """Return the name of a column that is given by its name or its position."""
    if table.has(given):
        return given
    if given.isdecimal() and 1 <= int(given) <= len(table.columns):
        return table.columns[int(given) - 1]
    return None


def _no_column(table: Table, given: str, option: str) -> NoReturn:
    raise ValueError(
        f"{table.path} has no column {given!r} ({option}). Its columns are {table.names()}."
    )


def labels_of(table: Table, column: str | None, marker: str | None) -> list[str | None]:
    """Return the spelled labels of a part, None where there is no label or the marker."""
    if column is None:
        return [None] * len(table.rows)
    spelled = [
        _whole(table, line, column, label_of(table, line, row, column) or "")
        for line, row in table.rows
    ]
    marker = None if marker is None else spell(marker)
    return [None if label == marker or label.lower() in NO_LABEL else label for label in spelled]


def training_data(options: argparse.Namespace) -> tuple[AnyArray, AnyArray]:
    """Return all texts and their labels, -1 where there is none."""
    texts: list[str] = []
    labels: list[str | None] = []
    for part, text, label in parts(options, options.file, labeled=True):
        texts += _training_texts(part, text)
        labels += labels_of(part, label, options.unlabeled_marker)
    if options.unlabeled is not None:
        for part, text, _ in parts(options, options.unlabeled):
            texts += _training_texts(part, text)
    labels += [None] * (len(texts) - len(labels))
    y, _ = target_of(labels, None, f"{options.file}, column {options.label!r}")
    return np.array(texts, dtype=object), y


def _training_texts(table: Table, column: str) -> list[str]:
    """Return the texts of rows to learn from, which are not empty."""
    return [
        _whole(table, line, column, text_of(table, line, row, column)) for line, row in table.rows
    ]


def texts_of(table: Table, column: str) -> AnyArray:
    """Return the texts of rows to predict, which may be empty."""
    texts = np.empty(len(table.rows), dtype=object)
    for i, (line, row) in enumerate(table.rows):
        value = value_of(row, column)
        if not isinstance(value, str):
            what = "no text" if value is None else f"no text, but of type {type(value).__name__}"
            raise ValueError(f"{table.place(line, column)}: {what}. Drop the row or repair it.")
        texts[i] = _whole(table, line, column, value)
    return texts


def _whole(table: Table, line: int, column: str, text: str) -> str:
    """Return a text or label; an error if it holds half of a character, as JSON can spell it."""
    position = half_character(text)
    if position is not None:
        raise ValueError(
            f"{table.place(line, column)}: half of a character, {text[position]!r} at position "
            f"{position}. Drop the row or repair it."
        )
    return text


class _Lines:
    """Prints the lines of a CSV with a line feed as their end."""

    def write(self, line: str) -> None:
        sys.stdout.write(line.removesuffix("\r\n") + "\n")


def _json_line(row: dict[str, Any]) -> str:
    line = json.dumps(row, ensure_ascii=False, default=str)
    # half of a character can be spelled in JSON alone
    return line if half_character(line) is None else json.dumps(row, default=str)


class PredictionWriter:
    """Prints rows with their predicted class and the probability of each class.

    The format is that of the input: TSV, CSV or JSON lines, and CSV for parquet.
    """

    def __init__(self, options: argparse.Namespace, classes: AnyArray) -> None:
        kind = format_of(Path(options.file), None, _format(options, options.file))
        self._as_json = kind == "jsonl"
        self._header = not options.no_header or kind not in ("csv", "tsv")
        self._names = [f"{_PROBABILITY}{label}" for label in classes.tolist()]
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(newline="\n")
        separator = "\t" if kind == "tsv" else ","
        # csv quotes the characters of the line terminator: a text may hold both of these
        self._csv = csv.writer(_Lines(), delimiter=separator, lineterminator="\r\n")

    def write(self, table: Table, labels: AnyArray, P: FloatArray) -> None:
        """Print the rows of a part."""
        added = [_PREDICTION, *self._names]
        taken = [name for name in added if name in table.columns]
        if taken:
            raise ValueError(f"{table.path} has a column {taken[0]!r} already; rename it.")
        if self._header and not self._as_json:
            self._csv.writerow([*table.columns, *added])
            self._header = False
        for (_, row), label, p in zip(table.rows, labels.tolist(), P.tolist(), strict=True):
            if self._as_json:
                new = dict(zip(added, [label, *(round(value, 6) for value in p)], strict=True))
                print(_json_line({**row, **new}))
            else:
                given = [row.get(name) for name in table.columns]
                self._csv.writerow([*given, label, *(f"{value:.6f}" for value in p)])
        sys.stdout.flush()
