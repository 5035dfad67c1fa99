"""Tweets of releases that give numbers only: texts fetched by the user, and years."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn_spt.datasets._tables import read_table, read_text, string_in

ID_COLUMNS = ("id_str", "tweet_id", "id")
TEXT_COLUMNS = ("full_text", "text", "tweet", "tweet.full_text", "tweet.text")
DATE_COLUMNS = ("tweet.created_at", "created_at", "date", "year")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".tsv", ".csv", ".txt")

# Since November 2010, a tweet's number is its time in ms after this one, shifted by 22 bits
_FIRST_MS = 1_288_834_974_657
_FIRST_ID = 29_700_859_247
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def id_in(row: dict[str, Any]) -> str:
    """Return the number of a row's tweet, without the quotes that some files put around it."""
    return string_in(row, ID_COLUMNS).strip(" '\"")


def texts_file(folder: Path, *stems: str) -> Path | None:
    """Return the file with the texts that the user has fetched, or None if there is none."""
    names = [f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def tweet_texts(path: Path) -> dict[str, str]:
    """Read texts by the tweets' numbers, from JSON lines or a table; empty ones are left out."""
    if read_text(path, None).lstrip().startswith("{"):
        kind = "jsonl"
    else:
        kind = "csv" if ".csv" in path.suffixes else "tsv"
    table = read_table(path, format=kind, encoding=None)
    table.check(ID_COLUMNS, TEXT_COLUMNS)
    texts = {id_in(row): string_in(row, TEXT_COLUMNS) for _, row in table.rows}
    return {number: text for number, text in texts.items() if number and text}


def year_of(row: dict[str, Any]) -> int | None:
    """Year of a row's tweet, from its date or else its number; None if neither has a year."""
    found = _YEAR.findall(string_in(row, DATE_COLUMNS))
    if found:
        return int(found[-1])  # "Mon Apr 27 01:13:45 +0000 2009" has it last
    number = id_in(row)
    if not number.isdecimal() or int(number) <= _FIRST_ID:
        return None
    return datetime.fromtimestamp(((int(number) >> 22) + _FIRST_MS) / 1000, tz=UTC).year
