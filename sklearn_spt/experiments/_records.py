"""Records: one JSON file a cell, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn_spt.experiments._cells import Cell

#: Rises when the form of a record changes.
SCHEMA = 1


def record_path(folder: Path, cell: Cell) -> Path:
    """Where the record of a cell lies."""
    return folder / cell.file_name


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record so that a reader, or a killed run, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # NaN is no JSON: it must not get into a file that other programs read
    content = json.dumps(record, indent=1, allow_nan=False) + "\n"
    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_record(path: Path) -> dict[str, Any]:
    """Read one record.

    Raises
    ------
    ValueError
        If the file is no record of this schema; the message names it.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); delete it and run its cell again."
        ) from None
    whole = (
        isinstance(record, dict)
        and record.get("schema") == SCHEMA
        and "cell" in record
        and ("scores" if record.get("status") == "done" else "error") in record
    )
    if not whole:
        raise ValueError(f"{path} is no record of schema {SCHEMA}; move it out of this folder.")
    return record


def read_records(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Read all records of some folders, and of the folders in them, in the order of their names.

    Raises
    ------
    FileNotFoundError
        If a folder does not exist, or there is no record at all.
    """
    records = []
    folders = list(folders)
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder}; run the experiments first.")
        records += [
            read_record(path)
            for path in sorted(folder.rglob("*.json"))
            if not path.name.startswith((".", "_"))
        ]
    if not records:
        names = ", ".join(str(folder) for folder in folders)
        raise FileNotFoundError(f"no record in {names}; run the experiments first.")
    return records


def state_of(path: Path) -> str:
    """Say "missing", "done" or "failed" of the record at a path."""
    return str(read_record(path)["status"]) if path.exists() else "missing"
