"""Tweets about one's own or somebody else's illness, for five conditions."""

from __future__ import annotations

import os
from typing import Any

from sklearn_spt._validation import check_flag
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._remote import RemoteFile, obtain

PHM_TUNING = RemoteFile(
    title="personal health mention (tuning) data set",
    url=(
        "https://raw.githubusercontent.com/p-karisani/CEPC/"
        "678362995b3646853b670d6f1bfad00f62d2090c/sandoogh/tuning.dataset"
    ),
    sha256="178b81638c4632af4a8a84e0ffd967bfe2f22f138fa0f78e1145749e8a39da50",
    own="phm_tuning/tuning.dataset",
    cached="phm_tuning-67836299.txt",
)

_DESCR = """\
Personal health mentions (the "tuning" data set of CEPC)
--------------------------------------------------------

8,037 tweets that contain the name of one of five conditions. The task is to find the personal
health mentions: tweets that report that somebody has, or has had, the condition.

============  =====  ========  ========
domain         rows  negative  positive
============  =====  ========  ========
cough         1,502     1,158       344
depression    1,612     1,083       529
fever         1,529     1,000       529
heart attack  1,673     1,458       215
stroke        1,721     1,459       262
all           8,037     6,158     1,879
============  =====  ========  ========

No split was released. Split stratified by the target; 23 rows repeat the text of an earlier row,
and such rows should not stand on both sides of a split (see ``duplicates_of``).

Source: https://github.com/p-karisani/CEPC, file sandoogh/tuning.dataset, commit
678362995b3646853b670d6f1bfad00f62d2090c, MIT licence. It was put together from data that other
researchers had published: cite the originals, which the reference lists, as well. The texts were
written by people: do not publish them.

Reference: P. Karisani, "Multiple-Source Domain Adaptation via Coordinated Domain Encoders and
Paired Classifiers", AAAI 2022, arXiv:2201.11870.
"""


@with_shared_paragraphs
def fetch_phm_tuning(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Load tweets, some of which are personal health mentions of one of five conditions.

    8,037 short texts, 23.4% of them positive. The file (1 MB) is looked for in the data home, as
    ``phm_tuning/tuning.dataset``, then among earlier downloads, and is downloaded if it is in
    neither place. Its SHA256 checksum is verified each time.

    Parameters
    ----------
    %(fetch_parameters)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            1 personal health mention, 0 none.
        target_names : list of str
            ``["negative", "positive"]``.
        domain : ndarray of shape (n_samples,), dtype object
            The condition by which the text was found: "cough", "depression", "fever",
            "heart attack" or "stroke".
        ids : ndarray of shape (n_samples,), dtype object
            The number of the row in the file, a str.
    %(one_file)s
    """
    check_flag(return_X_y, "return_X_y")
    path, content = obtain(PHM_TUNING, data_home, download_if_missing=download_if_missing)
    lines = [line.split("\t", 3) for line in content.decode("utf-8").split("\n") if line]
    return as_bunch(
        return_X_y,
        ("ids", "target", "domain", "data"),
        ((number, label == "3", domain, text) for number, label, domain, text in lines),
        target_names=["negative", "positive"],
        DESCR=_DESCR,
        filename=str(path),
        sha256=PHM_TUNING.sha256,
    )
