"""Tweets sent after the earthquake in Nepal, from files that the user has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn_spt._validation import check_flag
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._home import ENVIRONMENT, locate_data_home
from sklearn_spt.datasets._tables import read_table
from sklearn_spt.datasets._tweets import id_in, texts_file, tweet_texts

_STEM = "2015_Nepal_Earthquake"
_FOLDERS = (".", "nepal", "ACL_ICWSM_2018_datasets/nepal")
_FOLDS = ("train", "dev", "test")
_TEXT_COLUMNS = ("text", "tweet_text", "tweet")
_LABEL_COLUMNS = ("label", "class")
_LABELS = {"not_relevant": 0, "relevant": 1}
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


@with_shared_paragraphs
def load_nepal_earthquake(
    path: str | os.PathLike[str] | None = None,
    *,
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
        ``2015_Nepal_Earthquake_unlabelled`` (or ``unlabeled``) with the suffix ``.jsonl``,
        ``.json``, ``.tsv``, ``.csv`` or ``.txt``, the first two perhaps with ``.gz``, if there is
        such a file: the texts that you got for the released
        ``2015_Nepal_Earthquake_unlabelled_ids.txt``, as JSON lines of tweets, or as a table with
        the columns ``tweet_id`` and ``text``.

    %(load_parameters)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            1 relevant, 0 not relevant, -1 unlabelled.
        target_names : list of str
            ``["not_relevant", "relevant"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "train", "dev", "test" or "unlabelled".
    %(own_files)s
    ValueError
        A column is missing, a label is unknown, or a text is empty; the message names the file,
        the line and the column.
    """
    check_flag(return_X_y, "return_X_y")
    folder = _folder(locate_data_home(data_home) / "nepal_earthquake" if path is None else path)
    rows: list[tuple[str, int, str, str]] = []
    filenames = []
    for fold in _FOLDS:
        file = folder / f"{_STEM}_{fold}.tsv"
        rows += _labelled(file, fold)
        filenames.append(str(file))
    unlabelled = texts_file(folder, f"{_STEM}_unlabelled", f"{_STEM}_unlabeled")
    if unlabelled is not None:
        texts = tweet_texts(unlabelled)
        rows += [(text, -1, "unlabelled", number) for number, text in texts.items()]
        filenames.append(str(unlabelled))
    return as_bunch(
        return_X_y,
        ("data", "target", "fold", "ids"),
        rows,
        target_names=list(_LABELS),
        DESCR=_DESCR,
        filenames=filenames,
    )


def _folder(path: str | os.PathLike[str]) -> Path:
    """Return the first of the possible folders that has one of the files."""
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
    table.check(_TEXT_COLUMNS, _LABEL_COLUMNS)
    return [
        (
            table.text(line, row, _TEXT_COLUMNS),
            table.code(line, row, _LABEL_COLUMNS, _LABELS),
            fold,
            id_in(row),
        )
        for line, row in table.rows
    ]
