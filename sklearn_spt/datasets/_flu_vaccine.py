"""Tweets about the flu vaccine, from files that the user has."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from sklearn_spt._validation import check_flag
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._home import ENVIRONMENT, locate_data_home
from sklearn_spt.datasets._tables import read_table, string_in
from sklearn_spt.datasets._tweets import (
    ID_COLUMNS,
    TEXT_COLUMNS,
    id_in,
    texts_file,
    tweet_texts,
    year_of,
)

_FIRST_TEST_YEAR = 2015
_FILES = tuple(
    f"flu_vaccine{suffix}"
    # the release is also found as .json_.gz
    for suffix in (".json.gz", ".json_.gz", ".json", ".jsonl.gz", ".jsonl", ".tsv", ".csv")
)
_INTENT_COLUMNS = (
    "label.flu_vaccine_intent_to_receive",
    "flu_vaccine_intent_to_receive",
    "intent",
    "label",
)
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


@with_shared_paragraphs
def load_flu_vaccine(
    path: str | os.PathLike[str] | None = None,
    *,
    texts: str | os.PathLike[str] | None = None,
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
        File with the texts, where that with the labels has none: JSON lines of tweets, or a TSV or
        CSV with the columns ``tweet_id`` (or ``id``) and ``text``. None means ``flu_vaccine_texts``
        with the suffix ``.jsonl``, ``.json``, ``.tsv``, ``.csv`` or ``.txt``, the first two perhaps
        with ``.gz``, beside the file with the labels, if there is one.

    %(load_parameters)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            1 the author shows the intent to receive a vaccine, 0 not.
        target_names : list of str
            ``["no", "yes"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "train" up to 2014, "test" from 2015 on.
        year : ndarray of shape (n_samples,), dtype int64
            Year of the tweet: of its date, or, where there is none, of its number, which contains
            the time.
        n_dropped : dict of str to int
            How many rows of the file were left out: "no intent label" (the tweet is not relevant)
            and "no text" (the tweet is not available any more).
    %(own_files)s
    ValueError
        A column is missing, a label is unknown, no row has a text, or a tweet has neither a date
        nor a number that tells its year; the message names file, line and column.
    """
    check_flag(return_X_y, "return_X_y")
    labels_file = _labels_file(
        locate_data_home(data_home) / "flu_vaccine" if path is None else Path(path)
    )
    own_texts = (
        texts_file(labels_file.parent, "flu_vaccine_texts") if texts is None else Path(texts)
    )
    fetched = {} if own_texts is None else tweet_texts(own_texts)
    is_json = any(suffix.startswith((".json", ".ndjson")) for suffix in labels_file.suffixes)
    table = read_table(labels_file, format="jsonl" if is_json else None)
    table.check(ID_COLUMNS, _INTENT_COLUMNS)
    rows = []
    dropped = Counter({"no intent label": 0, "no text": 0})
    for line, row in table.rows:
        code = table.code(line, row, _INTENT_COLUMNS, {**_LABELS, "": -1})
        number = id_in(row)
        text = string_in(row, TEXT_COLUMNS) or fetched.get(number, "")
        if code < 0:
            dropped["no intent label"] += 1
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
            rows.append((text, code, fold, year, number))
    if not rows:
        why = ", ".join(f"{count} have {reason}" for reason, count in dropped.items())
        raise ValueError(
            f"{labels_file} gives no row: {why}. The release has numbers and labels of the tweets "
            "only: get their texts, and pass the file as texts=."
        )
    return as_bunch(
        return_X_y,
        ("data", "target", "fold", "year", "ids"),
        rows,
        target_names=list(_LABELS),
        n_dropped=dict(dropped),
        DESCR=_DESCR,
        filenames=[str(labels_file)] + ([] if own_texts is None else [str(own_texts)]),
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
