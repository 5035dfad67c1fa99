"""Texts and labels for the commands, and the rows that `predict` prints."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sklearn_spt._typing import AnyArray, FloatArray
from sklearn_spt.datasets._parts import table_parts
from sklearn_spt.datasets._tables import Table, format_of, value_of
from sklearn_spt.datasets._texts import label_of, target_of, text_of

#: Spellings of a label that mean "no label", in lower case.
_NO_LABEL = ("", "-1", "nan")
#: Column of the predicted classes, and the begin of those of the probabilities.
_PREDICTION, _PROBABILITY = "prediction", "probability_"


def parts(options: argparse.Namespace, source: str) -> Iterator[tuple[Table, str]]:
    """Yield the parts of a file, each with the name of its column of texts."""
    empty = True
    for part in table_parts(source, format=options.format, header=not options.no_header):
        yield part, column_of(part, options.text, "--text")
        empty = False
    if empty:
        raise ValueError(f"{source} holds no row.")


def column_of(table: Table, given: str, option: str) -> str:
    """Return the name of a column that is given by its name or its position."""
    if table.has(given):
        return given
    if given.isdecimal() and 1 <= int(given) <= len(table.columns):
        return table.columns[int(given) - 1]
    raise ValueError(
        f"{table.path} has no column {given!r} ({option}). Its columns are {table.names()}."
    )


def labels_of(table: Table, column: str) -> list[str | None]:
    """Return the spelled labels of a part, None where there is no label."""
    spelled = [label_of(table, line, row, column) for line, row in table.rows]
    return [None if (label or "").lower() in _NO_LABEL else label for label in spelled]


def training_data(options: argparse.Namespace) -> tuple[AnyArray, AnyArray]:
    """Return all texts and their labels, -1 where there is none."""
    texts: list[str] = []
    labels: list[str | None] = []
    for part, text in parts(options, options.file):
        texts += [text_of(part, line, row, text) for line, row in part.rows]
        labels += labels_of(part, column_of(part, options.label, "--label"))
    if options.unlabeled is not None:
        for part, text in parts(options, options.unlabeled):
            texts += [text_of(part, line, row, text) for line, row in part.rows]
    labels += [None] * (len(texts) - len(labels))
    y, _ = target_of(labels, None, f"{options.file}, column {options.label!r}")
    return np.array(texts, dtype=object), y


def texts_of(table: Table, column: str) -> AnyArray:
    """Return the texts of rows to predict, which may be empty."""
    for line, row in table.rows:
        value = value_of(row, column)
        if not isinstance(value, str):
            what = "no text" if value is None else f"no text, but of type {type(value).__name__}"
            raise ValueError(f"{table.place(line, column)}: {what}. Drop the row or repair it.")
    return np.array([value_of(row, column) for _, row in table.rows], dtype=object)


class PredictionWriter:
    """Prints rows with their predicted class and the probability of each class.

    The format is that of the input: TSV, CSV or JSON lines, and CSV for parquet.
    """

    def __init__(self, options: argparse.Namespace, classes: AnyArray) -> None:
        kind = format_of(Path(options.file), None, options.format)
        self._as_json = kind == "jsonl"
        self._header = not options.no_header or kind not in ("csv", "tsv")
        self._names = [f"{_PROBABILITY}{label}" for label in classes.tolist()]
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        separator = "\t" if kind == "tsv" else ","
        self._csv = csv.writer(sys.stdout, delimiter=separator, lineterminator="\n")

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
                print(json.dumps({**row, **new}, ensure_ascii=False, default=str))
            else:
                given = [row.get(name) for name in table.columns]
                self._csv.writerow([*given, label, *(f"{value:.6f}" for value in p)])
        sys.stdout.flush()
