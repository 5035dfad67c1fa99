"""Rows of a parquet file, which the optional package pyarrow reads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO


def parquet_rows(
    path: Path, stream: BinaryIO, size: int
) -> tuple[list[str], Iterator[tuple[int, dict[str, Any]]]]:
    """Return the names of the columns, and the rows with their numbers, read `size` at a time."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"{path} is a parquet file, which needs pyarrow: pip install 'sklearn-spt[parquet]'."
        ) from error
    try:
        file = ParquetFile(stream)
    except (ArrowException, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is no parquet file that can be read ({error}).") from error

    batches = file.iter_batches(batch_size=size)
    rows = chain.from_iterable(batch.to_pylist() for batch in batches)
    return list(file.schema_arrow.names), enumerate(rows, 1)
