"""Arms of the study of gains that fit a classifier as a user does."""

from __future__ import annotations

from typing import Any

import numpy as np
from _gain_report import N_STARTS
from _gain_tasks import Cell

from sklearn_spt import PAPER_SETTINGS, BertClassifier, SelfPretrainingClassifier
from sklearn_spt.experiments._methods import methods


def fitted(clf: Any, cell: Cell, *, all_labels: bool = False) -> tuple[Any, list[str]]:
    """Fit a classifier; return it and the texts to score."""
    split, truth = cell.draw()
    clf.set_params(random_state=cell.seed)
    clf.fit(list(split.texts), truth if all_labels else split.y)
    return clf, list(split.texts_test)


def predicted(name: str, clf: Any, cell: Cell, *, all_labels: bool = False) -> dict[str, Any]:
    clf, V = fitted(clf, cell, all_labels=all_labels)
    return {name: clf.predict_proba(V)}


def defaults(cell: Cell) -> dict[str, Any]:
    return predicted("defaults", SelfPretrainingClassifier(BertClassifier(n_threads=1)), cell)


def defaults_with_fewer(cell: Cell) -> dict[str, Any]:
    """The defaults under a name that says how many unlabelled texts there are."""
    return {f"{name}, {cell.n_unlabeled} texts": P for name, P in defaults(cell).items()}


def from_five_starts() -> SelfPretrainingClassifier:
    net = BertClassifier(n_threads=1)
    return SelfPretrainingClassifier(net, n_starts=N_STARTS, step_size=1 / 3)


def five_starts(cell: Cell) -> dict[str, Any]:
    """A chain of three iterations whose first teachers are five starts."""
    clf, V = fitted(from_five_starts(), cell)
    P = clf._probabilities_by_net(V)
    starts, students = np.mean(P[:N_STARTS], axis=0), P[N_STARTS:]
    return {
        "five starts, then two students": np.mean(P, axis=0),
        "the two students": np.mean(students, axis=0),
        "the two students, and the starts as one": np.mean([starts, *students], axis=0),
    }


def confirm(cell: Cell) -> dict[str, Any]:
    """The same as a user gets it, and its starts: the five nets that it is compared with."""
    clf, V = fitted(from_five_starts(), cell)
    starts = clf._probabilities_by_net(V)[:N_STARTS]
    return {f"start{i}": P for i, P in enumerate(starts)} | {"five starts": clf.predict_proba(V)}


def rival(name: str, method: str, cell: Cell, **params: Any) -> dict[str, Any]:
    """A method of the comparison with rivals, over the same net."""
    of = methods()[method]
    clf = of.build(BertClassifier(n_threads=1), cell.seed).set_params(**params)
    split, _ = cell.draw()
    rows = np.flatnonzero((split.y >= 0) | of.semi_supervised)
    clf.fit([split.texts[i] for i in rows], split.y[rows])
    return {name: clf.predict_proba(list(split.texts_test))}


def self_training(cell: Cell) -> dict[str, Any]:
    """scikit-learn's self-training in three rounds."""
    return rival("self-training", "sklearn_self_training", cell)


def ten_rounds(cell: Cell) -> dict[str, Any]:
    """scikit-learn's self-training in ten rounds, its default."""
    params = {"selftrainingclassifier__max_iter": 10}
    return rival("self-training, ten rounds", "sklearn_self_training", cell, **params)


def setfit(cell: Cell) -> dict[str, Any]:
    """SetFit with a class-weighted head; it sees the labelled texts only."""
    return rival("SetFit", "setfit", cell)


def paper(cell: Cell) -> dict[str, Any]:
    """The paper's settings, in three iterations."""
    clf = SelfPretrainingClassifier(**PAPER_SETTINGS)
    clf.set_params(step_size=1 / 3, estimator__n_threads=1)
    return predicted("paper's settings, k = 1/3", clf, cell)


def ceiling(cell: Cell) -> dict[str, Any]:
    """One net on the true labels of all texts."""
    return predicted("ceiling", BertClassifier(n_threads=1), cell, all_labels=True)
