"""Tweets sent after the earthquake in Nepal, from files that the user has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn_spt._validation import check_flag, check_option
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._home import ENVIRONMENT, locate_data_home
from sklearn_spt.datasets._tables import read_table
from sklearn_spt.datasets._tweets import id_in, string_in, tweet_texts

_STEM = "2015_Nepal_Earthquake"
_FOLDERS = (".", "nepal", "ACL_ICWSM_2018_datasets/nepal")
_FOLDS = ("train", "dev", "test")
_TEXT_COLUMNS = ("text", "tweet_text", "tweet")
_LABEL_COLUMNS = ("label", "class")
_LABELS = {"not_relevant": 0, "relevant": 1}
_UNLABELLED = tuple(
    f"{_STEM}_{spelling}{suffix}"
    for spelling in ("unlabelled", "unlabeled")
    for suffix in (".tsv", ".csv", ".jsonl", ".jsonl.gz", ".json", ".txt")
)
_SOURCE = "CrisisNLP (https://crisisnlp.qcri.org), file ACL_ICWSM_2018_datasets.zip"

_DESCR = """\
Nepal earthquake (CrisisNLP)
----------------------------

11,668 tweets sent after the earthquake of 2015 in Nepal: 7,000 train, 1,166 dev, 3,502 test. The
task is to find those which are relevant to the disaster ("relevant", 47%). The numbers of 864,966
further tweets without a label were released too, without their texts.

Source: CrisisNLP, https://crisisnlp.qcri.org, file ACL_ICWSM_2018_datasets.zip. Its terms allow
research on humanitarian computing only, ask for the contents to be kept confidential, and for one
of the papers below to be cited.

References: F. Alam, S. Joty and M. Imran, "Domain Adaptation with Adversarial Training and Graph
Embeddings", ACL 2018; F. Alam, S. Joty and M. Imran, "Graph Based Semi-supervised Learning with
Convolution Neural Networks to Classify Crisis Related Tweets", ICWSM 2018.
"""


def load_nepal_earthquake(
    path: str | os.PathLike[str] | None = None,
    *,
    subset: str = "all",
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load tweets sent after the 2015 earthquake in Nepal, relevant or not, from your files.

    This is the "earthquake" data set of the Self-Pretraining paper, which trains on the folds
    train and dev (8,166 tweets) and tests on test (3,502). It cannot be downloaded from here: get
    ``ACL_ICWSM_2018_datasets.zip`` from CrisisNLP (https://crisisnlp.qcri.org), and unpack it.

    Parameters
    ----------
    path : str or path-like, default=None
        The folder with the files, or with the folder ``nepal`` or
        ``ACL_ICWSM_2018_datasets/nepal`` that has them. None means ``nepal_earthquake`` in the
        data home. The files are ``2015_Nepal_Earthquake_train.tsv``, ``..._dev.tsv`` and
        ``..._test.tsv``, with the columns ``tweet_id``, ``text`` and ``label`` ("relevant" or
        "not_relevant"), in UTF-8 or Latin-1. Unlabelled tweets are read from
        ``2015_Nepal_Earthquake_unlabelled`` (or ``unlabeled``) with the suffix ``.tsv``, ``.csv``,
        ``.jsonl``, ``.jsonl.gz``, ``.json`` or ``.txt``, if there is such a file: the texts that
        you got for the released ``2015_Nepal_Earthquake_unlabelled_ids.txt``, as a table with the
        columns ``tweet_id`` and ``text``, as JSON lines of tweets, or as one JSON object with a
        text for each number.

    subset : {"all", "train", "dev", "test", "unlabelled"}, default="all"
        Which part to load. "all" means the three labelled folds, and the unlabelled tweets if
        their texts are there; the column ``fold`` tells them apart.

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
            1 relevant, 0 not relevant, -1 unlabelled.
        target_names : list of str
            ``["not_relevant", "relevant"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "train", "dev", "test" or "unlabelled".
        ids : ndarray of shape (n_samples,), dtype object
            Number of the tweet, a str.
        DESCR : str
            Description, terms and references.
        filenames : list of str
            Paths of the files that were read.
    (data, target) : tuple
        If `return_X_y` is True.

    Raises
    ------
    FileNotFoundError
        A file is missing.
    ValueError
        A column is missing, a label is unknown, or a text is empty; the message names file, line
        and column.
    """
    check_option(subset, "subset", ("all", *_FOLDS, "unlabelled"))
    check_flag(return_X_y, "return_X_y")
    folder = _folder(locate_data_home(data_home) / "nepal_earthquake" if path is None else path)
    rows: list[tuple[str, int, str, str]] = []
    filenames = []
    for fold in _FOLDS:
        if subset in ("all", fold):
            file = folder / f"{_STEM}_{fold}.tsv"
            rows += _labelled(file, fold)
            filenames.append(str(file))
    if subset in ("all", "unlabelled"):
        there = [folder / name for name in _UNLABELLED if (folder / name).is_file()]
        if there:
            texts = tweet_texts(there[0])
            rows += [(text, -1, "unlabelled", number) for number, text in texts.items()]
            filenames.append(str(there[0]))
        elif subset == "unlabelled":
            raise FileNotFoundError(
                f"No texts of unlabelled tweets are in {folder}: none of "
                f"{', '.join(_UNLABELLED)}. The release has their numbers only "
                f"({_STEM}_unlabelled_ids.txt); get the texts for them and save them so."
            )
    data, target, folds, ids = zip(*rows, strict=True)
    return as_bunch(
        return_X_y,
        data=data,
        target=target,
        target_names=list(_LABELS),
        fold=folds,
        ids=ids,
        DESCR=_DESCR,
        filenames=filenames,
    )


def _folder(path: str | os.PathLike[str]) -> Path:
    """Return that of the folders in which the files can be that has one of them."""
    for name in _FOLDERS:
        folder = Path(path, name)
        if any((folder / f"{_STEM}_{fold}.tsv").is_file() for fold in _FOLDS):
            return folder
    raise FileNotFoundError(
        f"{path} has no file {_STEM}_train.tsv, {_STEM}_dev.tsv or {_STEM}_test.tsv, nor has the "
        f"folder {' or '.join(_FOLDERS[1:])} in it. Get them from {_SOURCE}, and pass path= or put "
        f"them into the folder nepal_earthquake of the data home ({ENVIRONMENT})."
    )


def _labelled(file: Path, fold: str) -> list[tuple[str, int, str, str]]:
    if not file.is_file():
        raise FileNotFoundError(f"The file {file} is missing. Get it from {_SOURCE}.")
    table = read_table(file, encoding=None)
    for columns in (_TEXT_COLUMNS, _LABEL_COLUMNS):
        if table.first_of(columns) is None:
            raise ValueError(
                f"{file}, line 1: no column {columns[0]!r}. The first line should name the "
                f"columns tweet_id, text and label, and it has {table.names()}."
            )
    rows = []
    for line, row in table.rows:
        text, label = string_in(row, _TEXT_COLUMNS), string_in(row, _LABEL_COLUMNS)
        code = _LABELS.get(label.strip().lower())
        if code is None:
            raise ValueError(
                f"{table.place(line, 'label')}: unknown label; it should be 'relevant' or "
                "'not_relevant'."
            )
        if not text:
            raise ValueError(f"{table.place(line, 'text')}: an empty text. Drop the row.")
        rows.append((text, code, fold, id_in(row)))
    return rows
