"""Data sets of short texts: fetched, read from a file, or generated."""

from __future__ import annotations

from ._home import clear_data_home, get_data_home
from ._illness import fetch_illness
from ._short_texts import make_short_texts
from ._tsv import load_tsv

__all__ = [
    "clear_data_home",
    "fetch_illness",
    "get_data_home",
    "load_tsv",
    "make_short_texts",
]
