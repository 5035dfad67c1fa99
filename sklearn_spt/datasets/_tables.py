"""Rows with named columns from TSV, CSV, JSON lines and parquet; errors name the line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from sklearn_spt._validation import check_option, shown
from sklearn_spt.datasets._parquet import parquet_rows

FORMATS = ("tsv", "csv", "jsonl", "parquet")
_SUFFIXES = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}

WHOLE = re.compile(r"(-?(?:0|[1-9]\d{0,17}))(?:\.0+)?")  # "1.0" is how pandas writes 1 beside NaN

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
        """Name the place of a value in a message."""
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

    def check(self, *needed: Sequence[str]) -> None:
        """Raise an error if there is no row, or no column with one of the names of each group."""
        if not self.rows:
            raise ValueError(f"{self.path} holds no row besides the names of the columns.")
        for names in needed:
            if not any(map(self.has, names)):
                raise ValueError(
                    f"{self.path} has no column {' or '.join(map(repr, names))}. Its columns are "
                    f"{self.names()}; rename one."
                )

    def code(
        self, line: int, row: dict[str, Any], columns: Sequence[str], codes: dict[str, int]
    ) -> int:
        """Return the class of the label in the first filled column; an unknown one is an error."""
        code = codes.get(spell(string_in(row, columns)).lower())
        if code is None:
            known = ", ".join(map(repr, filter(None, codes)))
            raise ValueError(
                f"{self.place(line, columns[0])}: unknown label; it should be one of {known}."
            )
        return code

    def text(self, line: int, row: dict[str, Any], columns: Sequence[str]) -> str:
        """Return the text in the first filled column; a row without one is an error."""
        text = string_in(row, columns)
        if not text:
            raise ValueError(f"{self.place(line, columns[0])}: an empty text. Drop the row.")
        return text


def spell(value: Any) -> str:
    """Spelling of a label, the same for 1, 1.0, True, "1" and " 1 "."""
    if isinstance(value, bool | np.bool_):
        value = int(value)
    spelled = str(value).strip()
    whole = WHOLE.fullmatch(spelled)
    return whole[1] if whole else spelled


def string_in(row: dict[str, Any], columns: Iterable[str]) -> str:
    """Return the str or number in the first filled column of a row, or ""."""
    for column in columns:
        value = value_of(row, column)
        if isinstance(value, str | int) and str(value).strip():
            return str(value)
    return ""


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


def lines_of(text: str) -> list[str]:
    """Split a text at its line ends."""
    # str.splitlines would also split at characters that can stand inside a text (U+2028, U+0085)
    return [line.removesuffix("\r") for line in text.split("\n")]


def read_table(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    format: str | None = None,
    encoding: str | None = "utf-8",
    header: bool = True,
) -> Table:
    """Read a file of which the first line, each JSON object or the schema names the columns.

    Without a `header` the columns of a TSV or CSV are called "1", "2", ...
    """
    path = Path(path)
    kind = format_of(path, sep, format)
    if kind == "jsonl":
        rows = list(json_objects(path, read_text(path, encoding).split("\n")))
        return Table(path, list(dict.fromkeys(name for _, row in rows for name in row)), rows)
    if kind == "parquet":
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as stream:
            columns, found = parquet_rows(path, cast(BinaryIO, stream), 1000)
            return Table(path, columns, list(found))
    fields = read_fields(path, sep=sep, format=format, encoding=encoding)
    columns, rest = header_of(path, iter(fields), header)
    return with_columns(path, columns, list(rest))


def header_of(
    path: Path, fields: Iterator[tuple[int, list[str]]], header: bool
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns and the rows below them."""
    first = next(fields, None)
    if first is None:
        raise ValueError(f"{path} is empty; its first line should name the columns.")
    if header:
        return distinct(path, [name.strip() for name in first[1]]), fields
    return [str(i) for i, _ in enumerate(first[1], 1)], chain([first], fields)


def with_columns(path: Path, columns: list[str], fields: Fields) -> Table:
    """Give names to the columns of a file."""
    named = [(line, dict(zip(columns, row, strict=True))) for line, row in fields]
    return Table(path, distinct(path, columns), named)


def distinct(path: Path, columns: list[str]) -> list[str]:
    """Return the names of the columns; raise an error if two are the same."""
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise ValueError(f"{path}, line 1: two columns have the name {shown(twice[0])}.")
    return columns


def format_of(path: Path, sep: str | None, format: str | None) -> str:
    """Format of a file: the given one, or that of its name."""
    if sep is not None and (not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n'):
        raise ValueError(f"sep must be None or a single character, got {sep!r}.")
    if format is not None:
        check_option(format, "format", FORMATS)
        if sep is not None and format not in ("tsv", "csv"):
            raise ValueError(f"sep must be None for format={format!r}.")
        return format
    if sep is not None:
        return "tsv" if sep == "\t" else "csv"
    known = named_format(path)
    if known is None:
        raise ValueError(
            f"format must be given for {path}: one of {', '.join(map(repr, FORMATS))}. Its name "
            f"ends with none of {', '.join(_SUFFIXES)}."
        )
    return known


def named_format(path: str | os.PathLike[str]) -> str | None:
    """Format that the end of a name tells, if it does."""
    path = Path(path)
    suffix = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    return _SUFFIXES.get(suffix.lower())


def read_fields(
    path: Path, *, sep: str | None = None, format: str | None = None, encoding: str | None = "utf-8"
) -> Fields:
    """Read the lines of a TSV or CSV, as many fields in each as in the first."""
    kind = format_of(path, sep, format)
    sep = sep or ("\t" if kind == "tsv" else ",")
    text = read_text(path, encoding)
    if sep != "\t":
        return list(csv_fields(path, io.StringIO(text, newline=""), sep))
    fields = list(fields_of_lines(lines_of(text)))
    uneven = first_uneven(fields)
    if uneven is not None or has_line_breaks(path, fields, io.StringIO(text, newline="")):
        return list(csv_fields(path, io.StringIO(text, newline=""), sep, uneven))
    return _without_marks(fields)


def fields_of_lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of the lines of a TSV; blank ones are left out.

    A line of as many tabs as the first one has is a row of empty fields, as in a CSV.
    """
    width = None
    for number, line in enumerate(lines, 1):
        fields = line.split("\t")
        if line.strip() or (width == len(fields) > 1):
            width = len(fields) if width is None else width
            yield number, fields


def first_uneven(fields: Iterable[tuple[int, list[str]]]) -> str | None:
    """Describe the first line with another number of fields than the first; None if all agree."""
    width = None
    for number, row in fields:
        width = len(row) if width is None else width
        if len(row) != width:
            return f"line {number} has {len(row)} column(s) instead of {width}"
    return None


def has_line_breaks(
    path: Path, fields: Iterable[tuple[int, list[str]]], lines: Iterable[str]
) -> bool:
    """Whether a TSV of one column is quoted as a CSV, so that a text may fill several lines.

    `fields` are those of its lines, read without a meaning of quotation marks. With several
    columns, a text of several lines would make the number of columns uneven.
    """
    open_ended = False
    for _, row in fields:
        if len(row) > 1:
            return False
        open_ended = open_ended or ('"' in row[0] and not is_quoted(row[0]))
    if not open_ended:
        return False
    n_marks, found = 0, False

    def counted() -> Iterator[str]:
        nonlocal n_marks
        for line in lines:
            n_marks += line.count('"')
            yield line

    try:
        for _, (text, *_) in csv_fields(path, counted(), "\t"):
            # a CSV has each text with a mark in marks, and doubles those inside
            if n_marks not in (0, 2 * text.count('"') + 2):
                return False
            n_marks, found = 0, found or "\n" in text
    except ValueError:
        return False
    return found


def _without_marks(fields: Fields) -> Fields:
    """Return the fields of a TSV without the quotation marks around them.

    Some programs quote the fields of a TSV as in a CSV, others write quotation marks as they are.
    A file is of the first kind if each field that has a quotation mark is quoted properly.
    """
    marked = [field for _, row in fields for field in row if '"' in field]
    if not all(is_quoted(field) for field in marked):
        return fields
    return [(number, [unquoted(field) for field in row]) for number, row in fields]


def is_quoted(field: str) -> bool:
    """Whether a field is in quotation marks, and those inside are doubled."""
    return (
        len(field) >= 2
        and field[0] == field[-1] == '"'
        and '"' not in field[1:-1].replace('""', "")
    )


def unquoted(field: str) -> str:
    """Return a field without its quotation marks."""
    return field[1:-1].replace('""', '"') if '"' in field else field


def csv_fields(
    path: Path, lines: Iterable[str], sep: str, uneven: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of a CSV, each row with the number of its first line.

    `uneven` says why a TSV is read as a CSV: a line that fits only if a text has line breaks.
    """
    reader = csv.reader(lines, delimiter=sep, strict=True)
    start, width = 1, None
    also = "" if uneven is None else f" Or {uneven}: repair that one."
    try:
        for row in reader:
            # in a file of one column, the line of an empty text is '""'
            if row and (len(row) > 1 or row[0].strip() or (width == 1 and not row[0])):
                width = len(row) if width is None else width
                if len(row) != width:
                    raise ValueError(
                        f"{path}, line {start}: {len(row)} column(s) instead of the {width} of the "
                        f"first line. The separator is {sep!r}; a text that contains it, or a line "
                        f"break, must be in quotation marks.{also}"
                    )
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        if "field limit" in str(error):
            raise ValueError(
                f"{path}, line {start}: a text has more than {csv.field_size_limit()} characters, "
                "or its closing quotation mark is missing. If it is so long, save the file as "
                f"JSON lines.{also}"
            ) from error
        raise ValueError(
            f"{path}, line {start}: {error}. A text with quotation marks must be in quotation "
            f"marks itself, and they must be doubled inside.{also}"
        ) from error


def json_objects(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON lines, each with its line number."""
    for line, content in enumerate(lines, 1):
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
        yield line, row
