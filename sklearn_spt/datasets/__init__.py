"""Data sets of short texts: fetched, read from a file, or generated; and their duplicates."""

from __future__ import annotations

from sklearn_spt.datasets._crisislex import fetch_crisislex_t6
from sklearn_spt.datasets._duplicates import duplicate_groups, duplicates_of
from sklearn_spt.datasets._flu_vaccine import load_flu_vaccine
from sklearn_spt.datasets._home import clear_data_home, get_data_home
from sklearn_spt.datasets._illness import fetch_illness
from sklearn_spt.datasets._nepal_earthquake import load_nepal_earthquake
from sklearn_spt.datasets._phm_tuning import fetch_phm_tuning
from sklearn_spt.datasets._psytar import fetch_psytar
from sklearn_spt.datasets._short_texts import make_short_texts
from sklearn_spt.datasets._smm4h_adr import load_smm4h_adr
from sklearn_spt.datasets._texts import load_texts
from sklearn_spt.datasets._tsv import load_tsv

__all__ = [
    "clear_data_home",
    "duplicate_groups",
    "duplicates_of",
    "fetch_crisislex_t6",
    "fetch_illness",
    "fetch_phm_tuning",
    "fetch_psytar",
    "get_data_home",
    "load_flu_vaccine",
    "load_nepal_earthquake",
    "load_smm4h_adr",
    "load_texts",
    "load_tsv",
    "make_short_texts",
]
