"""Sentences of drug reviews: which of them report an adverse reaction."""

from __future__ import annotations

import csv
import io
import os
from typing import Any

from sklearn_spt._validation import check_flag
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._remote import RemoteFile, obtain

_SHA256 = {
    "train": "76d266db22c731d1771db46bea846ed10ade5c82d8b6fdd9a968190c7889df6a",
    "dev": "90f01cb2047f72434717e419f18d44f8c668c9d032fe3c7bd6d5027f2995b561",
    "test": "def357d86ec1541e2e3108df7dcb402ec92f7a5fb7d60ac35111bc8a04f386ed",
}

PSYTAR = {
    fold: RemoteFile(
        title=f"{fold} part of PsyTAR",
        url=(
            "https://raw.githubusercontent.com/basaldella/psytarpreprocessor/"
            f"dce7fd9fc91930dd9de0f4793529d5695a10e681/data/binary/{fold}.csv"
        ),
        sha256=sha256,
        own=f"psytar/{fold}.csv",
        cached=f"psytar-dce7fd9f-{fold}.csv",
    )
    for fold, sha256 in _SHA256.items()
}

_DESCR = """\
PsyTAR
------

6,002 sentences of reviews of four psychiatric drugs, written by patients. The task is to find
those which report an adverse drug reaction (ADR).

=====  =====  =====  =====
fold    rows  other    ADR
=====  =====  =====  =====
train  4,201  2,673  1,528
dev      612    390    222
test   1,189    771    418
all    6,002  3,834  2,168
=====  =====  =====  =====

The folds are those of the source below. Four sentences of dev and ten of test occur, letter by
letter, in train. Its file full.csv holds the rows of the three folds in another order. These are
reviews and not tweets.

Besides ADR, five further labels were given to each sentence, and a sentence may have several:
withdrawal symptoms (WD, 438 sentences), drug effectiveness (EF, 1,086), drug ineffectiveness
(INF, 337), sign, symptom or illness (SSI, 789), drug indication (DI, 621).

Source: https://github.com/basaldella/psytarpreprocessor, folder data/binary, commit
dce7fd9fc91930dd9de0f4793529d5695a10e681; name it when you use its folds. The data are under
CC BY 4.0.

Reference: M. Zolnoori et al., "The PsyTAR dataset: From patients generated narratives to a corpus
of adverse drug events and effectiveness of psychiatric medications", Data in Brief 24, 2019.
"""


@with_shared_paragraphs
def fetch_psytar(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Load PsyTAR: sentences of drug reviews, some of which report an adverse drug reaction.

    6,002 sentences, 36.1% of them positive, in the folds that were released. The files (0.5 MB)
    are looked for in the data home, as ``psytar/train.csv``, ``psytar/dev.csv`` and
    ``psytar/test.csv``, then among earlier downloads, and are downloaded if they are in neither
    place. Their SHA256 checksums are verified each time.

    Parameters
    ----------
    %(fetch_parameters)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            1 an adverse drug reaction is reported, 0 none.
        target_names : list of str
            ``["other", "adverse drug reaction"]``.
        fold : ndarray of shape (n_samples,), dtype object
            "train", "dev" or "test", in this order.
        annotations : ndarray of shape (n_samples, 6), dtype int64
            All labels of each sentence, 0 or 1; the first column equals `target`.
        annotation_names : list of str
            ``["ADR", "WD", "EF", "INF", "SSI", "DI"]``, explained in `DESCR`.
    %(several_files)s
    """
    check_flag(return_X_y, "return_X_y")
    rows: list[tuple[str, str, list[int], int]] = []
    files = {}
    for fold, remote in PSYTAR.items():
        path, content = obtain(remote, data_home, download_if_missing=download_if_missing)
        table = csv.reader(io.StringIO(content.decode("utf-8"), newline=""), delimiter="\t")
        _, *names = next(table)
        for text, *labels in table:
            found = list(map(int, labels))
            rows.append((text, fold, found, found[names.index("ADR")]))
        files[str(path)] = remote.sha256
    return as_bunch(
        return_X_y,
        ("data", "fold", "annotations", "target"),
        rows,
        target_names=["other", "adverse drug reaction"],
        annotation_names=names,
        DESCR=_DESCR,
        filenames=list(files),
        sha256=list(files.values()),
    )
