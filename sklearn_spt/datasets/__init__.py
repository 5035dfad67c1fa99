"""Data sets of short texts: fetched, read from a file, or generated."""

from __future__ import annotations

from sklearn_spt.datasets._home import clear_data_home, get_data_home
from sklearn_spt.datasets._illness import fetch_illness
from sklearn_spt.datasets._short_texts import make_short_texts
from sklearn_spt.datasets._tsv import load_tsv

__all__ = [
    "clear_data_home",
    "fetch_illness",
    "get_data_home",
    "load_tsv",
    "make_short_texts",
]
