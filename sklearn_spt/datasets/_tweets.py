"""Tweets of releases that give numbers only: texts fetched by the user, and years."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn_spt.datasets._tables import read_table, read_text, value_of

ID_COLUMNS = ("id_str", "tweet_id", "id")
TEXT_COLUMNS = ("full_text", "text", "tweet", "tweet.full_text", "tweet.text")
DATE_COLUMNS = ("tweet.created_at", "created_at", "date", "year")

# A tweet's number is its time in ms since this one, shifted by 22 bits; since November 2010
_FIRST_MS = 1_288_834_974_657
_FIRST_ID = 29_700_859_247
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def string_in(row: dict[str, Any], columns: Iterable[str]) -> str:
    """Return the first str, or number, that is not empty in some columns of a row, else ""."""
    for column in columns:
        value = value_of(row, column)
        if isinstance(value, str | int) and str(value).strip():
            return str(value)
    return ""


def id_in(row: dict[str, Any]) -> str:
    """Return the number of a row's tweet, without the quotes that some files put around it."""
    return string_in(row, ID_COLUMNS).strip(" '\"")


def tweet_texts(path: Path) -> dict[str, str]:
    """Read texts by the tweets' numbers.

    Formats are those that usual programs write: JSON lines of tweets (``id_str`` or ``id``;
    ``full_text`` or ``text``), one JSON object with a text for each number, or a TSV or CSV with
    the columns ``tweet_id`` (or ``id``) and ``text`` (or ``tweet``). Tweets that are not available
    any more, with an empty text, are left out.
    """
    beginning = read_text(path, None).lstrip()
    if beginning.startswith("{"):
        whole = _one_object(beginning)
        if whole is not None:
            return {number: text for number, text in whole.items() if text.strip()}
        table = read_table(path, format="jsonl", encoding=None)
    else:
        is_csv = ".csv" in path.suffixes
        table = read_table(path, format="csv" if is_csv else "tsv", encoding=None)
    if table.first_of(ID_COLUMNS) is None or table.first_of(TEXT_COLUMNS) is None:
        raise ValueError(
            f"{path} should have a column with the tweets' numbers ({', '.join(ID_COLUMNS)}) and "
            f"one with their texts ({', '.join(TEXT_COLUMNS)}). It has {table.names()}."
        )
    texts = {id_in(row): string_in(row, TEXT_COLUMNS) for _, row in table.rows}
    return {number: text for number, text in texts.items() if number and text}


def _one_object(content: str) -> dict[str, str] | None:
    """Read an object with a text for each number; None if it is anything else."""
    try:
        whole = json.loads(content)
    except json.JSONDecodeError:
        return None
    if not all(key.isdecimal() for key in whole):
        return None
    return {
        key: value if isinstance(value, str) else string_in(value, TEXT_COLUMNS)
        for key, value in whole.items()
        if isinstance(value, str | dict)
    }


def year_of(row: dict[str, Any]) -> int | None:
    """Year of a row's tweet: of its date, or else of its number; None if neither tells."""
    found = _YEAR.findall(string_in(row, DATE_COLUMNS))
    if found:
        return int(found[-1])  # "Mon Apr 27 01:13:45 +0000 2009" has it last
    number = id_in(row)
    if not number.isdecimal() or int(number) <= _FIRST_ID:
        return None
    return datetime.fromtimestamp(((int(number) >> 22) + _FIRST_MS) / 1000, tz=UTC).year
