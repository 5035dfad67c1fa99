"""A file or standard input in parts, so that memory does not grow with the number of rows."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from sklearn_spt.datasets._parquet import parquet_rows
from sklearn_spt.datasets._tables import (
    Table,
    csv_fields,
    fields_of_lines,
    first_uneven,
    format_of,
    has_line_breaks,
    header_of,
    is_quoted,
    json_objects,
    unquoted,
)

#: Stands for standard input in the place of a path.
STANDARD_INPUT = "-"


def table_parts(
    source: str | os.PathLike[str],
    *,
    format: str | None = None,
    header: bool = True,
    size: int = 1000,
) -> Iterator[Table]:
    """Yield tables of at most `size` rows; together they hold what `read_table` returns.

    A TSV or parquet file from standard input goes to a temporary file first: it can only be read
    once its end is known.
    """
    on_stdin = source == STANDARD_INPUT
    path = Path("standard input" if on_stdin else source)
    kind = format_of(path, None, format)
    with _opened(path, on_stdin, copied=kind in ("tsv", "parquet")) as stream:
        columns: list[str] = []
        rows: Iterator[tuple[int, dict[str, Any]]]
        if kind == "jsonl":
            rows = json_objects(path, _lines(path, stream))
        elif kind == "parquet":
            columns, rows = parquet_rows(path, stream, size)
        else:
            fields = _fields(path, stream, kind)
            columns, fields = header_of(path, fields, header)
            rows = ((line, dict(zip(columns, row, strict=True))) for line, row in fields)
        while part := list(islice(rows, size)):
            names = columns or list(dict.fromkeys(name for _, row in part for name in row))
            yield Table(path, names, part)


@contextmanager
def _opened(path: Path, on_stdin: bool, *, copied: bool) -> Iterator[BinaryIO]:
    """Open a file, unpacked, or standard input; with `copied`, the stream can be read twice."""
    if on_stdin and copied:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            yield copy
    elif on_stdin:
        yield sys.stdin.buffer
    elif path.suffix.lower() == ".gz":
        with gzip.open(path) as unpacked:
            yield cast(BinaryIO, unpacked)
    else:
        with open(path, "rb") as file:
            yield file


def _lines(path: Path, stream: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines, decoded and without a byte order mark."""
    number = 0
    try:
        for number, line in enumerate(stream, 1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: byte {error.object[error.start]:#04x} is not utf-8. Save the "
            "file as UTF-8."
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}.") from error


def _fields(path: Path, stream: BinaryIO, kind: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row, read as `read_fields` reads them."""
    if kind == "csv":
        return csv_fields(path, _split(_lines(path, stream)), ",")
    uneven = first_uneven(_tabs(path, stream))
    stream.seek(0)
    several_lines = uneven is None and _has_line_breaks(path, stream)
    if uneven is not None or several_lines:
        return csv_fields(path, _split(_lines(path, stream)), "\t", uneven)
    quoted = all(is_quoted(f) for _, row in _tabs(path, stream) for f in row if '"' in f)
    stream.seek(0)
    rows = _tabs(path, stream)
    return ((n, [unquoted(field) for field in row]) for n, row in rows) if quoted else rows


def _has_line_breaks(path: Path, stream: BinaryIO) -> bool:
    def again() -> Iterator[str]:
        stream.seek(0)
        yield from _split(_lines(path, stream))

    found = has_line_breaks(path, _tabs(path, stream), again())
    stream.seek(0)
    return found


def _split(lines: Iterable[str]) -> Iterator[str]:
    """Split lines at carriage returns too, as the csv module expects."""
    for line in lines:
        yield from io.StringIO(line, newline="")


def _tabs(path: Path, stream: Iterable[bytes]) -> Iterator[tuple[int, list[str]]]:
    ended = (line.removesuffix("\n").removesuffix("\r") for line in _lines(path, stream))
    return fields_of_lines(ended)
