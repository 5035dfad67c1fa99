"""Tweets that mention a diagnosis."""

from __future__ import annotations

import os
from typing import Any

from sklearn_spt._validation import check_flag, check_option
from sklearn_spt.datasets._bunch import as_bunch
from sklearn_spt.datasets._docstrings import with_shared_paragraphs
from sklearn_spt.datasets._remote import RemoteFile, obtain

ILLNESS = RemoteFile(
    title="Illness data set",
    url=(
        "https://raw.githubusercontent.com/p-karisani/illness-dataset/"
        "171c29474623836352b164279ec8a635e4ee5a90/data.txt"
    ),
    sha256="814d7c1994598e03b5765b863bae9737371c937c1fcb0d15c2152bfdc8642a2d",
    own="illness/data.txt",
    cached="illness-171c2947.txt",
)

_DESCR = """\
Illness data set
----------------

22,660 tweets of 2018 and 2019 that contain the name of one of four diseases. The task is to find
those which mention a person who was diagnosed with it.

==========  ======  ========  ========
domain        rows  negative  positive
==========  ======  ========  ========
alzheimer    4,023     3,380       643
parkinson    6,216     5,221       995
cancer       6,006     4,780     1,226
diabetes     6,415     5,339     1,076
all         22,660    18,720     3,940
==========  ======  ========  ========

The file holds four labels: 0 and 1 are negative, 2 and 3 are positive (1,416, 17,304, 3,135 and
805 rows). Its authors' notes do not say what tells 0 from 1, and 2 from 3.

No split was released. Split stratified by the target, and mind the duplicates (96 texts occur more
than once, many more nearly so): they should not stand on both sides of a split.

Source: https://github.com/p-karisani/illness-dataset, file data.txt, commit
171c29474623836352b164279ec8a635e4ee5a90, MIT licence. The texts were written by people: do not
publish them.

Reference: P. Karisani, N. Karisani and L. Xiong, "Multi-View Active Learning for Short Text
Classification in User-Generated Data", Findings of EMNLP 2022, arXiv:2112.02611.
"""

_TARGET_NAMES = {
    "binary": ["negative", "positive"],
    "four_class": ["negative (0)", "negative (1)", "positive (2)", "positive (3)"],
}


@with_shared_paragraphs
def fetch_illness(
    *,
    task: str = "binary",
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Load the Illness data set: tweets, some of which mention a person's diagnosis.

    22,660 short texts, 17.4% of them positive. The file (4 MB) is looked for in the data home,
    as ``illness/data.txt``, then among earlier downloads, and is downloaded if it is in neither
    place. Its SHA256 checksum is verified each time.

    Parameters
    ----------
    task : {"binary", "four_class"}, default="binary"
        "binary": whether a diagnosed person is mentioned (labels 2 and 3 of the file).
        "four_class": the labels as they are in the file.

    %(fetch_parameters)s

    %(returns)s
        target : ndarray of shape (n_samples,), dtype int64
            The classes.
        target_names : list of str
            Name of each class.
        domain : ndarray of shape (n_samples,), dtype object
            The disease by which the text was found: "alzheimer", "parkinson", "cancer" or
            "diabetes".
    %(one_file)s
    """
    check_option(task, "task", _TARGET_NAMES)
    check_flag(return_X_y, "return_X_y")
    path, content = obtain(ILLNESS, data_home, download_if_missing=download_if_missing)
    lines = [line.split("\t", 2) for line in content.decode("utf-8").split("\n") if line]
    return as_bunch(
        return_X_y,
        ("data", "target", "domain"),
        (
            (text, int(label) >= 2 if task == "binary" else int(label), domain)
            for domain, label, text in lines
        ),
        target_names=_TARGET_NAMES[task],
        DESCR=_DESCR,
        filename=str(path),
        sha256=ILLNESS.sha256,
    )
