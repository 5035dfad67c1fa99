"""Records: one JSON file for each cell, or one packed file of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn_spt.datasets._remote import write_whole

#: Rises when the form of a record changes.
SCHEMA = 1


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as a whole: a killed run leaves no partial file, and NaN is an error."""
    write_whole(path, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of one cell; ValueError names a file without a whole record."""
    return _parsed(path.read_bytes(), f"{path}", "remove it and run its cell again")


def _parsed(content: bytes, where: str, advice: str) -> dict[str, Any]:
    try:
        record = json.loads(content.decode("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} is damaged ({error}); {advice}.") from None
    if (
        not isinstance(record, dict)
        or record.get("schema") != SCHEMA
        or "cell" not in record
        or ("scores" if record.get("status") == "done" else "error") not in record
    ):
        raise ValueError(f"{where} is not a record of schema {SCHEMA}; {advice}.")
    return record


def pack_records(folder: Path, file: Path) -> int:
    """Join the records of a folder into one file of JSON lines; return their number.

    Lines are in the order of the cells' file names.
    """
    records = read_records([folder])
    lines = [json.dumps(record, allow_nan=False) + "\n" for record in records]
    write_whole(file, "".join(lines).encode())
    return len(lines)


def read_packed(file: Path) -> list[dict[str, Any]]:
    """Read a file of `pack_records`; ValueError names a line that is not a record."""
    with file.open("rb") as lines:
        return [
            _parsed(line, f"{file}, line {number},", "pack the folder again")
            for number, line in enumerate(lines, start=1)
        ]


def read_records(places: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the records of folders and of packed files, in the order of the file names."""
    records: list[dict[str, Any]] = []
    places = list(places)
    for place in places:
        if place.is_file():
            records += read_packed(place)
            continue
        if not place.is_dir():
            raise FileNotFoundError(
                f"there is no folder or file {place}; run the experiments first."
            )
        records += [
            read_record(path)
            for path in sorted(place.rglob("*.json"))
            if not any(part.startswith((".", "_")) for part in path.relative_to(place).parts)
        ]
    if not records:
        names = ", ".join(map(str, places))
        raise FileNotFoundError(f"no record in {names}; run the experiments first.")
    return records


def state_of(path: Path) -> str:
    """Return "missing", "done" or "failed" for the record at a path."""
    return str(read_record(path)["status"]) if path.exists() else "missing"
