"""The protocol of a comparison: it chooses the test, the labelled and the unlabelled rows.

The test part of a data set is the same for all methods and seeds. Rows that repeat a test row (the
same text, a retweet or nearly the same text) are dropped from all other parts. A seed then draws
the labelled texts by class, and the unlabelled texts from the rest; their labels are hidden.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import Bunch

from sklearn_spt._functional import class_counts
from sklearn_spt._typing import IntArray, TextArray
from sklearn_spt.datasets import duplicates_of

#: Seed that draws the test part if none was released. The seed of a cell does not change it.
TEST_SEED = 0


@dataclass(frozen=True)
class Corpus:
    """A data set whose rows are either `test` rows or the `rest`, from which a method may learn."""

    texts: TextArray
    #: Keyword of each text, "" without one.
    keywords: TextArray
    #: Class of each text, -1 if unknown.
    target: IntArray
    #: The last of two classes is the positive one.
    target_names: list[str]
    test: IntArray
    rest: IntArray
    #: Number of rows that repeat a test row, by kind.
    dropped: dict[str, int]


@dataclass(frozen=True)
class Split:
    """The rows of one seed: labelled texts, then unlabelled ones (y is -1), and the test rows."""

    texts: TextArray
    keywords: TextArray
    y: IntArray
    texts_test: TextArray
    keywords_test: TextArray
    y_test: IntArray
    #: Sizes, shares and a checksum of the rows, for the record.
    facts: dict[str, Any]


def cut(bunch: Bunch, n_test: int | None, n_validation: int | None = None) -> Corpus:
    """Set a test part aside and drop the rows that repeat it.

    `n_test` rows are drawn by class; None takes the whole released test part. `n_validation` rows
    of the rest take the place of the test part, which is then not used at all.
    """
    corpus = _cut(bunch, n_test)
    if n_validation is None:
        return corpus
    rest = corpus.rest
    inner = Bunch(
        data=corpus.texts[rest],
        target=corpus.target[rest],
        target_names=corpus.target_names,
        keyword=corpus.keywords[rest],
    )
    inside = _cut(inner, n_validation, "validation")
    return replace(inside, dropped=dict(Counter(corpus.dropped) + Counter(inside.dropped)))


def _cut(bunch: Bunch, n_test: int | None, part: str = "test") -> Corpus:
    texts, target = bunch.data, np.asarray(bunch.target)
    released = bunch.get("test")
    labeled = np.flatnonzero(target >= 0)
    candidates = labeled if released is None else np.flatnonzero(released & (target >= 0))
    if n_test is None and released is None:
        raise ValueError(
            "this data set has no released test part; give a number of rows (--n-test)."
        )
    _check_classes(target[labeled], bunch.target_names, "the data", least=3)
    if n_test is not None and n_test < len(bunch.target_names):
        raise ValueError(
            f"n_{part}={n_test} is less than {len(bunch.target_names)}, the number of classes."
        )
    if n_test is not None and n_test < len(candidates):
        test, _ = train_test_split(
            candidates, train_size=n_test, stratify=target[candidates], random_state=TEST_SEED
        )
    elif released is None:
        raise ValueError(
            f"n_{part}={n_test} leaves nothing of {len(candidates)} rows to learn from."
        )
    else:
        test = candidates
    test = np.sort(test)
    _check_classes(target[test], bunch.target_names, f"the {part} part of {len(test)} rows")
    outside = np.ones(len(texts), dtype=bool)
    outside[test if released is None else np.flatnonzero(released)] = False
    rest = np.flatnonzero(outside)
    kinds = duplicates_of(texts[rest], texts[test])
    dropped = {str(kind): n for kind, n in sorted(Counter(kinds.tolist()).items()) if kind}
    keywords = bunch.get("keyword", np.full(len(texts), "", dtype=object))
    return Corpus(
        texts=texts,
        keywords=keywords,
        target=target,
        target_names=list(bunch.target_names),
        test=test,
        rest=rest[kinds == ""],
        dropped=dropped,
    )


def draw(corpus: Corpus, n_labeled: int, n_unlabeled: int | None, seed: int) -> Split:
    """Draw the labelled texts of a seed by class, then its unlabelled texts; None takes all.

    The labelled texts do not depend on `n_unlabeled`.
    """
    y = corpus.target
    known = corpus.rest[y[corpus.rest] >= 0]
    names = np.array(corpus.target_names)
    n_classes = len(names)
    if not n_classes <= n_labeled < len(known):
        raise ValueError(
            f"n_labeled={n_labeled} must be from {n_classes}, the number of classes, to "
            f"{len(known) - 1}: there are {len(known)} labelled rows to learn from."
        )
    labeled, _ = train_test_split(known, train_size=n_labeled, stratify=y[known], random_state=seed)
    _check_classes(y[labeled], corpus.target_names, f"n_labeled={n_labeled}, drawn by class,")
    left = np.setdiff1d(corpus.rest, labeled)
    unlabeled = np.random.default_rng(seed).permutation(left)
    if n_unlabeled is not None:
        if n_unlabeled > len(left):
            raise ValueError(
                f"n_unlabeled={n_unlabeled}, but {len(left)} rows are left; ask for fewer, or for "
                "all of them."
            )
        unlabeled = unlabeled[:n_unlabeled]
    rows = np.concatenate([labeled, unlabeled])
    marked = np.concatenate([y[labeled], np.full(len(unlabeled), -1, dtype=np.int64)])
    ids = b"|".join(part.astype("<i8").tobytes() for part in (labeled, unlabeled, corpus.test))
    return Split(
        texts=corpus.texts[rows],
        keywords=corpus.keywords[rows],
        y=marked,
        texts_test=corpus.texts[corpus.test],
        keywords_test=corpus.keywords[corpus.test],
        y_test=y[corpus.test],
        facts={
            "n_labeled": len(labeled),
            "n_unlabeled": len(unlabeled),
            "n_test": len(corpus.test),
            "n_rest": len(corpus.rest),
            "dropped": corpus.dropped,
            "labeled_counts": class_counts(y[labeled], names),
            "test_counts": class_counts(y[corpus.test], names),
            "sha256_rows": hashlib.sha256(ids).hexdigest(),
        },
    )


def _check_classes(codes: IntArray, names: list[str], what: str, least: int = 1) -> None:
    """Raise an error if a class has too few rows in a part to be learned or scored."""
    counts = np.bincount(codes, minlength=len(names))
    if len(names) < 2:
        raise ValueError(f"the data has a single class, {names}; two or more are needed.")
    rare = int(counts.argmin())
    if counts[rare] < least:
        raise ValueError(
            f"{what} has {counts[rare]} rows of the class {names[rare]!r}, and needs {least} or "
            "more; take more rows, or merge rare classes."
        )
