"""The data sets of the Self-Pretraining paper, from files that you have, and made-up texts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch, check_random_state, check_scalar

__all__ = ["load_flu_vaccine", "load_nepal_earthquake", "load_smm4h_adr", "make_short_texts"]

_ID = ("id_str", "tweet_id", "id")
_TEXT = ("full_text", "text", "tweet_text", "tweet", "tweet.full_text", "tweet.text")
_DATE = ("tweet.created_at", "created_at", "date", "year")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".tsv", ".csv", ".txt")
_HOME = "pass path= or put the files into the folder {} of scikit-learn's data home"


# -- the paper's data sets -------------------------------------------------------------------------
_NEPAL = """\
Nepal earthquake (CrisisNLP): 11,668 tweets sent after the earthquake of 2015 in Nepal, 7,000 train,
1,166 dev and 3,502 test. The task is to find those that are relevant to the disaster (47%). The
numbers of 864,966 unlabelled tweets were released too, without their texts. The terms allow
research on humanitarian computing only, and ask for the contents to be kept confidential.

Reference: F. Alam, S. Joty and M. Imran, "Domain Adaptation with Adversarial Training and Graph
Embeddings", ACL 2018.
"""


def load_nepal_earthquake(
    path: str | os.PathLike[str] | None = None,
    *,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load tweets sent after the 2015 earthquake in Nepal, relevant or not, from your files.

    This is the "earthquake" data set of the Self-Pretraining paper, which trains on the folds
    train and dev and tests on test. Get ``ACL_ICWSM_2018_datasets.zip`` from CrisisNLP
    (https://crisisnlp.qcri.org) and unpack it.

    Parameters
    ----------
    path : str or path-like, default=None
        Folder of ``2015_Nepal_Earthquake_train.tsv``, ``..._dev.tsv`` and ``..._test.tsv``, or one
        that has it as ``nepal`` or ``ACL_ICWSM_2018_datasets/nepal``. The columns are ``tweet_id``,
        ``text``, ``label`` ("relevant" or "not_relevant") and perhaps ``keyword``. Texts that you
        got for the unlabelled numbers are read from ``2015_Nepal_Earthquake_unlabelled`` (or
        ``unlabeled``) with the suffix ``.jsonl``, ``.json``, ``.tsv``, ``.csv`` or ``.txt``, if
        there is such a file. None means ``nepal_earthquake`` in the data home.
    data_home : str or path-like, default=None
        Data home, as in :func:`sklearn.datasets.get_data_home`. Only used if `path` is None.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_samples,), dtype object
            The texts, each a str.
        target : ndarray of shape (n_samples,), dtype int64
            1 relevant, 0 not relevant, -1 unlabelled.
        target_names : list of str
            ``["not_relevant", "relevant"]``.
        fold, ids, keyword : ndarray of shape (n_samples,), dtype object
            "train", "dev", "test" or "unlabelled"; the number of the tweet; its keyword, "" where
            the file has none.
        DESCR : str
            Description, terms and reference.
        filenames : list of str
            The files that were read.

    Raises
    ------
    FileNotFoundError
        A file is missing.
    ValueError
        A column is missing, a label is unknown, or a text is empty; the message says where.
    """
    folder = _place(path, data_home, "nepal_earthquake")
    stem, source = "2015_Nepal_Earthquake", "Get it from https://crisisnlp.qcri.org"
    for inner in ("nepal", "ACL_ICWSM_2018_datasets/nepal"):
        folder = folder / inner if (folder / inner).is_dir() else folder
    files = [folder / f"{stem}_{fold}.tsv" for fold in ("train", "dev", "test")]
    parts = []
    for file in files:
        if not file.is_file():
            where = _HOME.format("nepal_earthquake")
            raise FileNotFoundError(f"{file} is missing. {source}, and {where}.")
        table = _read(file)
        codes = _codes(file, table, ("label", "class"), {"not_relevant": 0, "relevant": 1})
        parts.append(_rows(file, table, codes, fold=file.stem.rpartition("_")[2]))
    more = [folder / f"{stem}_{name}{s}" for name in _UNLABELED for s in _SUFFIXES]
    for file in [file for file in more if file.is_file()][:1]:
        table = _read(file)
        table = table[_column(file, table, _TEXT).str.strip() != ""]
        parts.append(_rows(file, table, -1, fold="unlabelled"))
        files.append(file)
    return _bunch(parts, ["not_relevant", "relevant"], _NEPAL, files, return_X_y)


_UNLABELED = ("unlabelled", "unlabeled")

_FLU = """\
Flu vaccine: tweets about the flu vaccine. Those that are relevant say whether ("yes" or "no") their
author intends to receive it. Tweets up to 2014 are for training, those from 2015 on for the test.
Of those whose texts could still be found, the Self-Pretraining paper used 4,503 (31% positive) and
2,114 (22%). The release has numbers and labels; you fetch the texts.

Reference: X. Huang et al., "Examining Patterns of Influenza Vaccination in Social Media", AAAI
Joint Workshop on Health Intelligence, 2017.
"""
_FLU_LABEL = "flu_vaccine_intent_to_receive"


def load_flu_vaccine(
    path: str | os.PathLike[str] | None = None,
    *,
    texts: str | os.PathLike[str] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load tweets whose authors intend to receive a flu vaccine, or do not, from your files.

    This is the "product" data set of the Self-Pretraining paper. Get ``flu_vaccine.json.gz`` from
    the authors of the reference.

    Parameters
    ----------
    path : str or path-like, default=None
        The file with the labels, or its folder: ``flu_vaccine.json.gz`` (also ``.json``,
        ``.jsonl``), one JSON object a line, with ``id``, ``label`` (an object with
        ``flu_vaccine_intent_to_receive``, "yes" or "no") and perhaps ``tweet`` (an object with
        ``text`` and ``created_at``); or ``flu_vaccine.tsv`` or ``.csv`` with the columns ``id``,
        ``intent``, and perhaps ``text``, ``created_at`` and ``keyword``. None means ``flu_vaccine``
        in the data home.
    texts : str or path-like, default=None
        File with the texts, if the labels come without: JSON lines of tweets, or a table with the
        columns ``tweet_id`` (or ``id``) and ``text``. None means ``flu_vaccine_texts`` with the
        suffix ``.jsonl``, ``.json``, ``.tsv``, ``.csv`` or ``.txt`` beside the labels, if there is
        such a file.
    data_home : str or path-like, default=None
        Data home, as in :func:`sklearn.datasets.get_data_home`. Only used if `path` is None.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As by `load_nepal_earthquake`, with other values and fields:

        target : ndarray of shape (n_samples,), dtype int64
            1 the author intends to receive a vaccine, 0 not.
        target_names : list of str
            ``["no", "yes"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "train" up to 2014, "test" from 2015 on.
        year : ndarray of shape (n_samples,), dtype int64
            Year of the tweet, by its date or else by its number, which contains the time.
        n_dropped : dict of str to int
            Numbers of rows left out: "no intent label" and "no text".

    Raises
    ------
    FileNotFoundError
        A file is missing.
    ValueError
        A column is missing, a label is unknown, a row has no year, or no row has a text.
    """
    place = _place(path, data_home, "flu_vaccine")
    names = [f"flu_vaccine{s}" for s in (*_SUFFIXES, ".json_.gz")]  # the release has .json_.gz
    found = [file for file in (place, *(place / name for name in names)) if file.is_file()]
    if not found:
        where = _HOME.format("flu_vaccine")
        raise FileNotFoundError(f"{place} has no file flu_vaccine.json.gz. Get it, and {where}.")
    files, table = found[:1], _read(found[0])
    labels = (f"label.{_FLU_LABEL}", _FLU_LABEL, "intent", "label")
    codes = _codes(files[0], table, labels, {"no": 0, "yes": 1, "": -1})
    ids = _column(files[0], table, _ID).str.strip(" '\"")
    given = [name for name in _TEXT if name in table]
    words = _column(files[0], table, given) if given else pd.Series("", index=table.index)
    beside = [files[0].parent / f"flu_vaccine_texts{s}" for s in _SUFFIXES]
    for file in [Path(texts)] if texts is not None else [f for f in beside if f.is_file()][:1]:
        more = _read(file)
        by_id = dict(zip(_column(file, more, _ID), _column(file, more, _TEXT), strict=True))
        words = words.where(words != "", ids.map(by_id).fillna(""))
        files.append(file)
    relevant, empty = codes >= 0, words.str.strip() == ""
    dropped = {
        "no intent label": int((~relevant).sum()),
        "no text": int((relevant & empty).sum()),
    }
    table = table.assign(text=words)[relevant & ~empty]
    if table.empty:
        raise ValueError(
            f"{files[0]} gives no row: {dropped}. The release has numbers and labels of the tweets "
            "only: get their texts, and pass the file as texts=."
        )
    years = pd.Series([_year(row) for row in table.to_dict("records")], index=table.index)
    if (years == 0).any():
        line = years.index[years == 0][0]
        raise ValueError(f"{files[0]}, line {line}: neither a date nor the number tells the year.")
    fold = np.where(years < 2015, "train", "test")
    rows = _rows(files[0], table, codes[table.index], fold=fold).assign(year=years)
    return _bunch([rows], ["no", "yes"], _FLU, files, return_X_y, n_dropped=dropped)


def _year(row: dict[str, str]) -> int:
    """Year of a tweet, by its date or its number; 0 if neither has one."""
    date = " ".join(row.get(name, "") for name in _DATE)
    if found := re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", date):
        return int(found[-1])  # "Mon Apr 27 01:13:45 +0000 2009" has it last
    number = next((row[name].strip(" '\"") for name in _ID if row.get(name)), "")
    if not number.isdecimal() or int(number) <= 29_700_859_247:  # the last one before November 2010
        return 0
    # a tweet's number is its time in ms after this one, shifted by 22 bits
    ms = (int(number) >> 22) + 1_288_834_974_657
    return datetime.fromtimestamp(ms / 1000, tz=UTC).year


_SMM4H = """\
SMM4H: tweets that name a drug; about 9% report an adverse drug reaction (ADR). It was task 1 of the
shared tasks "Social Media Mining for Health" of 2019 and, in English, task 2 of 2020. The
organisers give the data to those who register (https://healthlanguageprocessing.org); the texts
must not be passed on.

Reference: D. Weissenbacher et al., "Overview of the Fourth Social Media Mining for Health (SMM4H)
Shared Tasks at ACL 2019".
"""
_ADR = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "noadr": 0, "adr": 1, "noade": 0, "ade": 1}
_ADR |= {"": -1, "-1": -1}


def load_smm4h_adr(
    path: str | os.PathLike[str] | None = None,
    *,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load tweets that report an adverse drug reaction, or do not, from your files.

    This is the "adr" data set of the Self-Pretraining paper (20,624 tweets for training, 9%
    positive; 4,992 for the test, 8% positive). Register with the organisers of the shared task
    SMM4H (https://healthlanguageprocessing.org) to get it.

    Parameters
    ----------
    path : str or path-like, default=None
        A file, or a folder. Read are the files in it, or in its folders, with ``task2_en`` in their
        names (2020); if there are none, those with ``task1`` (2019); else those with ``train``,
        ``valid``, ``dev``, ``test`` or ``eval``. They end in ``.tsv``, ``.txt`` or ``.csv``. The
        columns are ``tweet_id``, ``user_id`` (not used), ``class`` (or ``label``; 0 or 1, or NoADE
        and ADE), ``tweet`` (or ``text``) and perhaps ``keyword``. Without a line that names them,
        they stand in this order, with or without ``user_id`` and ``class``. A file without classes
        is unlabelled. None means ``smm4h_adr`` in the data home.
    data_home : str or path-like, default=None
        Data home, as in :func:`sklearn.datasets.get_data_home`. Only used if `path` is None.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        As by `load_nepal_earthquake`, with other values: `target` is 1 where a reaction is
        reported, 0 where none is, and -1 where the tweet is unlabelled. `fold` is "test" for files
        with "test" or "eval" in their names, "dev" for "valid" or "dev", else "train".

    Raises
    ------
    FileNotFoundError
        No file is there.
    ValueError
        A column is missing, a label is unknown, or a text is empty; the message says where.
    """
    place = _place(path, data_home, "smm4h_adr")
    tables = [f for f in sorted(place.glob("**/*")) if f.suffix.lower() in (".tsv", ".txt", ".csv")]
    files = [place] if place.is_file() else []
    for words in ("task2_en", "task1", "train|valid|dev|test|eval"):
        files = files or [file for file in tables if re.search(words, file.name.lower())]
    if not files:
        where = _HOME.format("smm4h_adr")
        raise FileNotFoundError(f"{place} has no file of the task. Register for it, and {where}.")
    parts = []
    for file in files:
        table = _read(file, named=False)
        labeled = "class" in table or "label" in table
        codes = _codes(file, table, ("class", "label"), _ADR) if labeled else -1
        name = file.name.lower()
        fold = "dev" if "valid" in name or "dev" in name else "train"
        fold = "test" if "test" in name or "eval" in name else fold
        parts.append(_rows(file, table, codes, fold=fold))
    names = ["no adverse drug reaction", "adverse drug reaction"]
    return _bunch(parts, names, _SMM4H, files, return_X_y)


# -- files -----------------------------------------------------------------------------------------
def _place(path: Any, data_home: Any, name: str) -> Path:
    """Return the given path, or the folder in the data home."""
    return Path(get_data_home(data_home), name) if path is None else Path(path).expanduser()


def _read(file: Path, *, named: bool = True) -> pd.DataFrame:
    """Read a file as a table of str, with "" where a value is missing and lines as the index.

    If the file is not `named`, its first line need not name the columns of SMM4H.
    """
    content = file.read_bytes()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    if not text.strip():
        raise ValueError(f"{file} is empty.")
    if ".json" in file.name.lower():
        # as strings, since numbers of tweets need all their digits
        lines = {i: line for i, line in enumerate(text.split("\n"), 1) if line.strip()}
        rows = [json.loads(line, parse_int=str) for line in lines.values()]
        table = pd.json_normalize(rows).set_axis(list(lines))
    else:
        # in a TSV, quotation marks are ordinary characters
        commas = file.suffix.lower() == ".csv"
        how = {"sep": ","} if commas else {"sep": "\t", "quoting": csv.QUOTE_NONE}
        table = pd.read_csv(io.StringIO(text), header=None, dtype=str, na_filter=False, **how)
        table.index += 1
        names = [name.strip().lower() for name in table.iloc[0]]
        if named or len({*_ID, *_TEXT, "class", "label", "user_id"}.intersection(names)) > 1:
            table = table.iloc[1:].set_axis(names, axis=1)
        else:
            table.columns = _names_of_smm4h(file, table)
    if table.empty:
        raise ValueError(f"{file} holds no row.")
    return table.astype(object).where(table.notna(), "").astype(str)


def _names_of_smm4h(file: Path, table: pd.DataFrame) -> list[str]:
    if table.shape[1] == 4:
        return ["tweet_id", "user_id", "class", "tweet"]
    if table.shape[1] == 3:
        has_class = table[1].str.strip().str.lower().isin(_ADR).all()
        return ["tweet_id", "class" if has_class else "user_id", "tweet"]
    raise ValueError(
        f"{file} has {table.shape[1]} column(s) without names; there should be tweet_id, user_id, "
        "class and tweet, with a tab between them."
    )


def _column(file: Path, table: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return the values of the first of these columns that is filled, by row."""
    there = [table[name] for name in names if name in table]
    if not there:
        raise ValueError(
            f"{file} has no column {' or '.join(map(repr, names))}. Its columns are "
            f"{', '.join(map(repr, table.columns[:8]))}; rename one."
        )
    values = there[0]
    for other in there[1:]:
        values = values.where(values.str.strip() != "", other)
    return values


def _codes(
    file: Path, table: pd.DataFrame, names: Sequence[str], codes: dict[str, int]
) -> pd.Series:
    """Return the class of each row; an unknown label is an error."""
    found = _column(file, table, names).str.strip().str.lower().map(codes)
    if found.isna().any():
        known = ", ".join(repr(label) for label in codes if label)
        raise ValueError(
            f"{file}, line {found.index[found.isna()][0]}, column {names[0]!r}: unknown label; it "
            f"should be one of {known}."
        )
    return found.astype(np.int64)


def _rows(file: Path, table: pd.DataFrame, codes: Any, fold: Any) -> pd.DataFrame:
    """Return the fields of the rows; an empty text is an error."""
    texts = _column(file, table, _TEXT)
    if (empty := texts.str.strip() == "").any():
        raise ValueError(f"{file}, line {texts.index[empty][0]}: an empty text; drop the row.")
    ids = _column(file, table, _ID).str.strip(" '\"")
    keyword = table["keyword"] if "keyword" in table else ""
    fields = {"data": texts, "target": codes, "fold": fold, "ids": ids, "keyword": keyword}
    return pd.DataFrame(fields)


def _bunch(
    parts: list[pd.DataFrame],
    target_names: list[str],
    about: str,
    files: list[Path],
    return_X_y: bool,
    **more: Any,
) -> Any:
    """Return the fields of all rows as a Bunch, or data and target alone."""
    table = pd.concat(parts)
    kinds = {"target": np.int64, "year": np.int64}
    fields = {name: table[name].to_numpy(dtype=kinds.get(name, object)) for name in table}
    if return_X_y:
        return fields["data"], fields["target"]
    paths = [str(file) for file in files]
    return Bunch(**fields, target_names=target_names, DESCR=about, filenames=paths, **more)
