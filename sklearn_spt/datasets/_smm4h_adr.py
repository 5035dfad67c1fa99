"""Tweets that report an adverse drug reaction, from files that the user has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn_spt._validation import check_flag
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._home import ENVIRONMENT, locate_data_home
from sklearn_spt.datasets._tables import Fields, Table, read_fields, spell, with_columns
from sklearn_spt.datasets._tweets import id_in

_SUFFIXES = (".tsv", ".txt", ".csv")
_FOLDS = {"test": ("test", "eval"), "dev": ("valid", "dev"), "train": ("",)}
_HEADER = {"tweet_id", "user_id", "id", "class", "label", "tweet", "text"}
_LABEL_COLUMNS = ("class", "label")
_TEXT_COLUMNS = ("tweet", "text")
_LABELS = {"0": 0, "1": 1, "noadr": 0, "adr": 1, "noade": 0, "ade": 1, "": -1, "-1": -1}

_DESCR = """\
SMM4H: tweets that report an adverse drug reaction
--------------------------------------------------

The classification task of the shared tasks "Social Media Mining for Health": tweets that contain
the name of a drug, of which about 9% report an adverse drug reaction (ADR). It was task 1 of 2019
(25,672 tweets for training, 2,374 of them positive; about 5,000 for the test) and, in English,
task 2 of 2020.

The data are given to those who register with the organisers (https://healthlanguageprocessing.org),
under the terms of Twitter: the texts must not be passed on.

References: D. Weissenbacher et al., "Overview of the Fourth Social Media Mining for Health (SMM4H)
Shared Tasks at ACL 2019", SMM4H 2019; A. Klein et al., "Overview of the Fifth Social Media Mining
for Health Applications (#SMM4H) Shared Tasks at COLING 2020", SMM4H 2020.
"""


@with_shared_paragraphs
def load_smm4h_adr(
    path: str | os.PathLike[str] | None = None,
    *,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load tweets that report an adverse drug reaction, or do not, from your files.

    This is the "adr" data set of the Self-Pretraining paper (20,624 tweets for training, 9%
    positive; 4,992 for the test, 8% positive). It cannot be downloaded from here: its files are
    given to those who register with the organisers of the shared task SMM4H
    (https://healthlanguageprocessing.org).

    Parameters
    ----------
    path : str or path-like, default=None
        A file, or a folder of which the files are read whose names contain ``task2_en`` (2020:
        ``task2_en_training.tsv``, ``task2_en_validation.tsv``); if there are none, ``task1`` (2019:
        for example ``smm4h_task1_tweets_all.txt``); and if there are none either, ``train``,
        ``valid``, ``dev``, ``test`` or ``eval``. They end in ``.tsv``, ``.txt`` or ``.csv`` and lie
        in the folder or in a folder in it. None means ``smm4h_adr`` in the data home.

        The columns are ``tweet_id``, ``user_id`` (not used), ``class`` (or ``label``; 0 or 1, or
        NoADE and ADE) and ``tweet`` (or ``text``). As in 2020, the first line names them, in any
        order; or, as in 2019, there is no such line, and they stand in this order (without
        ``user_id`` or without ``class`` where a line has three columns). A file without classes is
        unlabelled.

    %(load_parameters)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            1 an adverse reaction is reported, 0 none, -1 unlabelled.
        target_names : list of str
            ``["no adverse drug reaction", "adverse drug reaction"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "test" for the files with "test" or "eval" in their names, "dev" for those with "valid"
            or "dev", "train" for all others.
    %(own_files)s
    ValueError
        A column is missing, a label is unknown, or a text is empty; the message names the file,
        the line and the column.
    """
    check_flag(return_X_y, "return_X_y")
    place = locate_data_home(data_home) / "smm4h_adr" if path is None else Path(path)
    files = _files(place)
    rows = []
    for file in files:
        table = _table(file)
        for line, row in table.rows:
            code = table.code(line, row, _LABEL_COLUMNS, _LABELS)
            rows.append((table.text(line, row, _TEXT_COLUMNS), code, _fold(file), id_in(row)))
    return as_bunch(
        return_X_y,
        ("data", "target", "fold", "ids"),
        rows,
        target_names=["no adverse drug reaction", "adverse drug reaction"],
        DESCR=_DESCR,
        filenames=[str(file) for file in files],
    )


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    tables = [
        file
        for file in sorted([*path.glob("*"), *path.glob("*/*")])
        if file.suffix.lower() in _SUFFIXES and file.is_file()
    ]
    for parts in (("task2_en",), ("task1",), ("train", "valid", "dev", "test", "eval")):
        found = [file for file in tables if any(part in file.name.lower() for part in parts)]
        if found:
            return found
    raise FileNotFoundError(
        f"{path} is neither a file nor a folder with the files of the task, such as "
        "task2_en_training.tsv and task2_en_validation.tsv (2020). Register for them at "
        "https://healthlanguageprocessing.org, and pass path= or put them into the folder "
        f"smm4h_adr of the data home ({ENVIRONMENT})."
    )


def _fold(file: Path) -> str:
    name = file.name.lower()
    return next(fold for fold, parts in _FOLDS.items() if any(part in name for part in parts))


def _table(file: Path) -> Table:
    fields = read_fields(
        file, format="csv" if file.suffix.lower() == ".csv" else "tsv", encoding=None
    )
    if not fields:
        raise ValueError(f"{file} is empty.")
    first = [field.strip().lower() for field in fields[0][1]]
    if len(_HEADER.intersection(first)) >= 2:
        table = with_columns(file, first, fields[1:])
    else:
        table = with_columns(file, _columns(file, fields), fields)
    table.check(_TEXT_COLUMNS)
    return table


def _columns(file: Path, fields: Fields) -> list[str]:
    """Name the columns of a file without a header."""
    width = len(fields[0][1])
    if width == 4:
        return ["tweet_id", "user_id", "class", "tweet"]
    if width == 3:
        has_class = all(spell(row[1]).lower() in _LABELS for _, row in fields)
        return ["tweet_id", "class" if has_class else "user_id", "tweet"]
    raise ValueError(
        f"{file}, line 1: {width} column(s), without names. There should be tweet_id, user_id, "
        "class and tweet, with a TAB between them."
    )
