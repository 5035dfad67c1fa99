"""Tweets about the flu vaccine, from files that the user has."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from sklearn_spt._validation import check_flag, check_option
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._home import ENVIRONMENT, locate_data_home
from sklearn_spt.datasets._tables import Table, read_table
from sklearn_spt.datasets._tweets import (
    ID_COLUMNS,
    TEXT_COLUMNS,
    id_in,
    string_in,
    tweet_texts,
    year_of,
)

_FIRST_TEST_YEAR = 2015
_FILES = (
    "flu_vaccine.json.gz",
    "flu_vaccine.json_.gz",  # the name under which it is also found
    "flu_vaccine.json",
    "flu_vaccine.jsonl.gz",
    "flu_vaccine.jsonl",
    "flu_vaccine.tsv",
    "flu_vaccine.csv",
)
_TEXT_FILES = tuple(
    f"flu_vaccine_texts{suffix}"
    for suffix in (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".tsv", ".csv", ".txt")
)
_INTENT = "flu_vaccine_intent_to_receive"
_INTENT_COLUMNS = (f"label.{_INTENT}", _INTENT, "intent", "label")
_LABELS = {"no": 0, "yes": 1}

_DESCR = """\
Flu vaccine
-----------

Tweets about the flu vaccine. Those that are relevant have an answer ("yes" or "no") to the
question whether their author shows the intent to receive it; the task is to tell which. Tweets up
to 2014 are for training, those of 2015 and later for the test: the world changes in between, and so
does the share of positives. Of those whose texts its authors could still get, the Self-Pretraining
paper used 4,503 (31% positive) and 2,114 (22%).

The release has numbers and labels of the tweets; the texts have to be fetched by the user.

Reference: X. Huang, M. C. Smith, M. J. Paul, D. Ryzhkov, S. C. Quinn, D. A. Broniatowski and
M. Dredze, "Examining Patterns of Influenza Vaccination in Social Media", AAAI Joint Workshop on
Health Intelligence (W3PHIAI), 2017.
"""


def load_flu_vaccine(
    path: str | os.PathLike[str] | None = None,
    *,
    texts: str | os.PathLike[str] | None = None,
    subset: str = "all",
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load tweets that intend to receive a flu vaccine, or do not, from your files.

    This is the "product" data set of the Self-Pretraining paper: tweets up to 2014 for training
    (4,503, 31% positive), of 2015 and later for the test (2,114, 22% positive). It cannot be
    downloaded from here: get ``flu_vaccine.json.gz`` from the authors of the reference.

    Parameters
    ----------
    path : str or path-like, default=None
        The file with the labels, or the folder that has it as ``flu_vaccine.json.gz``,
        ``flu_vaccine.json``, ``flu_vaccine.jsonl`` or ``flu_vaccine.jsonl.gz`` (a JSON object a
        line: ``id``, ``label`` with ``flu_vaccine_intent_to_receive``, "yes" or "no", and perhaps
        ``tweet`` with ``text`` and ``created_at``), or as ``flu_vaccine.tsv`` or
        ``flu_vaccine.csv`` (columns ``tweet_id`` or ``id``, ``flu_vaccine_intent_to_receive`` or
        ``intent``, and perhaps ``text`` and ``created_at``). None means ``flu_vaccine`` in the data
        home.

    texts : str or path-like, default=None
        File with the texts, where that with the labels has none: JSON lines of tweets, one JSON
        object with a text for each number, or a TSV or CSV with the columns ``tweet_id`` (or
        ``id``) and ``text``. None means ``flu_vaccine_texts`` with the suffix ``.jsonl``,
        ``.json``, ``.tsv``, ``.csv``, ``.txt``, ``.jsonl.gz`` or ``.json.gz``, beside the file with
        the labels, if there is one.

    subset : {"all", "train", "test"}, default="all"
        Which part to load. "all" means both; the column ``fold`` tells them apart.

    data_home : str or path-like, default=None
        Folder of the data sets; see :func:`get_data_home`. Only used if `path` is None.

    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_samples,), dtype object
            The texts, each a str.
        target : ndarray of shape (n_samples,), dtype int64
            1 the author shows the intent to receive a vaccine, 0 not.
        target_names : list of str
            ``["no", "yes"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "train" up to 2014, "test" from 2015 on.
        year : ndarray of shape (n_samples,), dtype int64
            Year of the tweet: of its date, or, where there is none, of its number, which contains
            the time.
        ids : ndarray of shape (n_samples,), dtype object
            Number of the tweet, a str.
        n_dropped : dict of str to int
            How many rows of the file were left out: "no intent label" (the tweet is not relevant)
            and "no text" (the tweet is not available any more).
        DESCR : str
            Description and reference.
        filenames : list of str
            Paths of the files that were read.
    (data, target) : tuple
        If `return_X_y` is True.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        A column is missing, a label is unknown, no row has a text, or a tweet has neither a date
        nor a number that tells its year; the message names file, line and column.
    """
    check_option(subset, "subset", ("all", "train", "test"))
    check_flag(return_X_y, "return_X_y")
    labels_file = _labels_file(
        locate_data_home(data_home) / "flu_vaccine" if path is None else Path(path)
    )
    texts_file = _texts_file(labels_file.parent) if texts is None else Path(texts)
    fetched = {} if texts_file is None else tweet_texts(texts_file)
    table = _table(labels_file)
    rows = []
    dropped = Counter({"no intent label": 0, "no text": 0})
    for line, row in table.rows:
        label = string_in(row, _INTENT_COLUMNS).strip().lower()
        number = id_in(row)
        text = string_in(row, TEXT_COLUMNS) or fetched.get(number, "")
        if not label:
            dropped["no intent label"] += 1
        elif label not in _LABELS:
            raise ValueError(
                f"{table.place(line, _INTENT)}: unknown label {label!r}; it should be 'yes', 'no' "
                "or empty."
            )
        elif not text:
            dropped["no text"] += 1
        else:
            year = year_of(row)
            if year is None:
                raise ValueError(
                    f"{table.place(line, 'created_at')}: neither a date nor a tweet number "
                    "(column 'id') tells the year."
                )
            fold = "train" if year < _FIRST_TEST_YEAR else "test"
            if subset in ("all", fold):
                rows.append((text, _LABELS[label], fold, year, number))
    if not rows:
        raise ValueError(_nothing(labels_file, texts_file, subset, dropped))
    data, target, folds, years, ids = zip(*rows, strict=True)
    return as_bunch(
        return_X_y,
        data=data,
        target=target,
        target_names=list(_LABELS),
        fold=folds,
        year=years,
        ids=ids,
        n_dropped=dict(dropped),
        DESCR=_DESCR,
        filenames=[str(labels_file)] + ([] if texts_file is None else [str(texts_file)]),
    )


def _labels_file(path: Path) -> Path:
    if path.is_file():
        return path
    for name in _FILES:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(
        f"{path} is neither a file nor a folder with one of {', '.join(_FILES)}. Get it from "
        "the authors of Huang et al. (2017), and pass path= or put it into the folder "
        f"flu_vaccine of the data home ({ENVIRONMENT})."
    )


def _texts_file(folder: Path) -> Path | None:
    return next((folder / name for name in _TEXT_FILES if (folder / name).is_file()), None)


def _table(file: Path) -> Table:
    is_json = any(suffix.startswith((".json", ".ndjson")) for suffix in file.suffixes)
    table = read_table(file, format="jsonl" if is_json else None)
    if not table.rows:
        raise ValueError(f"{file} holds no row.")
    for what, columns in (("numbers", ID_COLUMNS), ("intent labels", _INTENT_COLUMNS)):
        if table.first_of(columns) is None:
            raise ValueError(
                f"{file} has no column with the {what} of the tweets, none of "
                f"{', '.join(columns)}. It has {table.names()}."
            )
    return table


def _nothing(labels: Path, texts: Path | None, subset: str, dropped: Counter[str]) -> str:
    message = f"{labels} gives no row for subset={subset!r}: " + ", ".join(
        f"{count} have {reason}" for reason, count in dropped.items()
    )
    if dropped["no text"]:
        message += (
            ". It has numbers and labels of the tweets only: get their texts, and pass the file "
            "as texts="
            if texts is None
            else f". {texts} has no text for those numbers"
        )
    return message + "."
