"""Rows with named columns from TSV, CSV and JSON lines; errors name the line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from sklearn_spt._validation import check_option, shown

FORMATS = ("tsv", "csv", "jsonl")
_SUFFIXES = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}

# A gzip file of one megabyte can unpack to a thousand.
_MOST_UNPACKED = 2_000_000_000

Fields = list[tuple[int, list[str]]]


class Table(NamedTuple):
    """The columns and rows of a file; each row has its line number, counted from 1.

    A row of JSON lines may lack columns, and its values may be of any type.
    """

    path: Path
    columns: list[str]
    rows: list[tuple[int, dict[str, Any]]]

    def place(self, line: int, column: str) -> str:
        """Say where a value stands."""
        return f"{self.path}, line {line}, column {column!r}"

    def names(self) -> str:
        """List some columns for a message; in a file without a header they would be a text."""
        listed = [repr(name if len(name) <= 30 else name[:27] + "...") for name in self.columns]
        more = len(listed) - 8
        return ", ".join(listed[:8]) + (f", and {more} more" if more > 0 else "")

    def has(self, column: str) -> bool:
        """Whether there is a column; a name with dots may lead into nested JSON objects."""
        return column in self.columns or any(
            value_of(row, column) is not None for _, row in self.rows
        )

    def first_of(self, names: Iterable[str]) -> str | None:
        """Return the first of some names that is a column, or None."""
        return next((name for name in names if self.has(name)), None)


def value_of(row: dict[str, Any], column: str) -> Any:
    """Return the value in a column, which may lead into nested objects; None if there is none."""
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def read_text(path: Path, encoding: str | None) -> str:
    """Content of a file, which may be compressed by gzip, without a byte order mark.

    None as encoding means UTF-8, or Latin-1 where the file is not UTF-8.
    """
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            with gzip.open(io.BytesIO(content)) as unpacked:
                content = unpacked.read(_MOST_UNPACKED + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be unpacked: {error}.") from error
        if len(content) > _MOST_UNPACKED:
            raise ValueError(
                f"{path} unpacks to more than {_MOST_UNPACKED / 1e9:g} GB; unpack it yourself if "
                "it is meant to be so large."
            )
    try:
        text = content.decode(encoding or "utf-8")
    except LookupError:
        raise ValueError(f"encoding must be known to Python, got {shown(encoding)}.") from None
    except UnicodeDecodeError as error:
        if encoding is None:
            return content.decode("latin-1")
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not {encoding}. Pass the "
            "encoding of the file, for example encoding='latin-1'."
        ) from error
    return text.removeprefix("\ufeff")


def read_table(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    format: str | None = None,
    encoding: str | None = "utf-8",
) -> Table:
    """Read a file of which the first line, or each JSON object, names the columns."""
    path = Path(path)
    if format_of(path, sep, format) == "jsonl":
        return _read_objects(path, encoding)
    fields = read_fields(path, sep=sep, format=format, encoding=encoding)
    if not fields:
        raise ValueError(f"{path} is empty; its first line should name the columns.")
    (_, header), *rest = fields
    return with_columns(path, [name.strip() for name in header], rest)


def with_columns(path: Path, columns: list[str], fields: Fields) -> Table:
    """Give names to the columns of a file."""
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise ValueError(f"{path}, line 1: two columns have the name {shown(twice[0])}.")
    return Table(
        path, columns, [(line, dict(zip(columns, row, strict=True))) for line, row in fields]
    )


def format_of(path: Path, sep: str | None, format: str | None) -> str:
    """Format of a file: the given one, or that of its name."""
    if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n'):
        raise ValueError(f"sep must be None or a single character, got {sep!r}.")
    if format is not None:
        check_option(format, "format", FORMATS)
        if sep is not None and format == "jsonl":
            raise ValueError("sep must be None for format='jsonl'.")
        return format
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    if sep is not None:
        return "tsv" if sep == "\t" else "csv"
    known = _SUFFIXES.get(suffix.lower())
    if known is None:
        raise ValueError(
            f"format must be given for {path}: one of {', '.join(map(repr, FORMATS))}. Its name "
            f"ends with none of {', '.join(_SUFFIXES)}."
        )
    return known


def read_fields(
    path: Path, *, sep: str | None = None, format: str | None = None, encoding: str | None = "utf-8"
) -> Fields:
    """Read the lines of a TSV or CSV, as many fields in each as in the first."""
    kind = format_of(path, sep, format)
    sep = sep or ("\t" if kind == "tsv" else ",")
    text = read_text(path, encoding)
    fields = _lines_of_tabs(text) if sep == "\t" else None
    return _csv_fields(path, text, sep) if fields is None else fields


def _lines_of_tabs(text: str) -> Fields | None:
    """Fields of a TSV in which each line is a row, else None.

    Some programs quote the fields of a TSV as in a CSV, others write quotation marks as they are.
    The first kind is recognised by this: where there is a quotation mark, there is a quoted field.
    """
    # str.splitlines would also split at characters that can stand inside a text (U+2028, U+0085)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    fields = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    if len({len(row) for _, row in fields}) > 1:
        return None
    marked = [field for _, row in fields for field in row if '"' in field]
    if not all(_is_quoted(field) for field in marked):
        return fields
    return [(number, [_unquoted(field) for field in row]) for number, row in fields]


def _is_quoted(field: str) -> bool:
    return (
        len(field) >= 2
        and field[0] == field[-1] == '"'
        and '"' not in field[1:-1].replace('""', "")
    )


def _unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"') if '"' in field else field


def _csv_fields(path: Path, text: str, sep: str) -> Fields:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep, strict=True)
    fields: Fields = []
    start = 1
    try:
        for row in reader:
            if row and (len(row) > 1 or row[0].strip()):
                fields.append((start, row))
                if len(row) != len(fields[0][1]):
                    raise ValueError(
                        f"{path}, line {start}: {len(row)} column(s) instead of the "
                        f"{len(fields[0][1])} of the first line. The separator is {sep!r}; a text "
                        "that contains it, or a line break, must be in quotation marks."
                    )
            start = reader.line_num + 1
    except csv.Error as error:
        if "field limit" in str(error):
            raise ValueError(
                f"{path}, line {start}: a text has more than {csv.field_size_limit()} characters, "
                "or its closing quotation mark is missing. Raise csv.field_size_limit if it is so "
                "long."
            ) from error
        raise ValueError(
            f"{path}, line {start}: {error}. A text with quotation marks must be in quotation "
            "marks itself, and they must be doubled inside."
        ) from error
    return fields


def _read_objects(path: Path, encoding: str | None) -> Table:
    columns: dict[str, None] = {}
    rows = []
    for line, content in enumerate(read_text(path, encoding).split("\n"), 1):
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:  # deep nesting; numbers of 5000 digits
            raise ValueError(
                f"{path}, line {line}: no JSON ({error}). Each line should be one JSON object."
            ) from error
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}, line {line}: {type(row).__name__} instead of a JSON object such as "
                '{"text": "...", "label": 1}.'
            )
        rows.append((line, row))
        columns.update(dict.fromkeys(row))
    return Table(path, list(columns), rows)
