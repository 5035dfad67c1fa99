"""Tasks of the study of gains, and the texts of a cell. Data come from SKLEARN_SPT_DATA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sklearn_spt.datasets import fetch_psytar
from sklearn_spt.experiments._corpora import read, thinned
from sklearn_spt.experiments._split_protocol import Split, cut, draw

CHOOSING = (
    "illness:cancer",
    "illness:diabetes",
    "illness:cancer@5%",
    "illness:diabetes@9%",
    "phm_tuning",
    "phm_tuning@9%",
    "psytar:ADR",
    "psytar:EF",
    "psytar:WD",
)
CONFIRMING = (
    "illness:alzheimer",
    "illness:parkinson",
    "illness:alzheimer@9%",
    "illness:parkinson@5%",
    "psytar:INF",
    "psytar:SSI",
    "psytar:DI",
    "crisislex_t6:sandy@9%",
)


def bunch_of(task: str) -> Bunch:
    """Texts and labels of a task, for example ``illness:cancer@5%`` or ``psytar:WD``."""
    whole, at, share = task.partition("@")
    name, _, part = whole.partition(":")
    if name == "psytar":
        everything = fetch_psytar(download_if_missing=False)
        column = everything.annotation_names.index(part)
        bunch = Bunch(
            data=everything.data,
            target=everything.annotations[:, column],
            target_names=["0", "1"],
        )
    elif name == "illness" and part:
        everything = read(name, download=False)
        kept = everything.keyword == part
        bunch = Bunch(
            data=everything.data[kept],
            target=everything.target[kept],
            target_names=everything.target_names,
        )
    else:
        bunch = read(whole, download=False)
    return thinned(bunch, share, task) if at else bunch


@dataclass(frozen=True)
class Cell:
    """300 labelled and up to 3,000 unlabelled texts of a task, and 1,000 rows to score.

    Those are validation rows in the tasks for choosing, and test rows in those for confirming.
    Some arms have other numbers of texts.
    """

    task: str
    seed: int
    scratch: Path | None
    n_labeled: int = 300
    n_unlabeled: int = 3000
    #: Whether the labelled texts are drawn by class. If not, all texts stay, and others of them
    #: have labels.
    by_class: bool = True

    def draw(self) -> tuple[Split, Any]:
        """Return the rows, and the true labels of labelled and unlabelled ones."""
        corpus = cut(bunch_of(self.task), 1000, None if self.task in CONFIRMING else 1000)
        sizes = self.n_labeled, min(self.n_unlabeled, len(corpus.rest) - self.n_labeled)
        numbered = replace(corpus, texts=np.arange(len(corpus.texts)))
        rows = draw(numbered, *sizes, self.seed).texts
        split, truth = draw(corpus, *sizes, self.seed), corpus.target[rows]
        if not self.by_class:
            labeled = np.random.default_rng(self.seed).permutation(len(truth)) < self.n_labeled
            split = replace(split, y=np.where(labeled, truth, -1))
        return split, truth
