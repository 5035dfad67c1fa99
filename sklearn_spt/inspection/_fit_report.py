"""A report of one fit: what was labelled, learned and how long it took."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_spt._functional import plain_label
from sklearn_spt._progress import iteration_line
from sklearn_spt._typing import AnyArray, FloatArray
from sklearn_spt._validation import check_integer, last_step, n_rows
from sklearn_spt.inspection._grouping import whole_history
from sklearn_spt.inspection._report_page import body, document
from sklearn_spt.text._encoding import check_texts, is_text

if TYPE_CHECKING:
    from sklearn_spt._base import BaseSemiSupervisedClassifier

_HINT = (
    "A fit cannot say whether the unlabelled rows helped. compare_with_supervised(clf, X, y), or "
    "python -m sklearn_spt compare, can: it predicts each labelled row out of fold, with and "
    "without the unlabelled rows."
)


@dataclass(frozen=True)
class Doubt:
    """A row of which the classifier is not sure, or whose nets do not agree."""

    row: int
    text: str
    #: Last pseudo-label; None if the row was never drawn.
    pseudo_label: Any
    #: Predicted class of each net, in the order of ``estimators_``.
    by_net: list[Any]
    predicted: Any
    probability: float


@dataclass(frozen=True, repr=False)
class FitReport:
    """Report of a fit as an HTML page or as text.

    Use `from_estimator` to create it. ``print`` shows the text, a notebook the page, and `save`
    writes it. The page needs no other file and no JavaScript, and shows texts only if they are
    given.

    Attributes
    ----------
    name : str
        The classifier with its parameters.
    facts : dict of str
        What is said about the whole fit.
    classes : list
        Class labels.
    entries : list of dict
        The entries of ``history_``.
    helped : str
        What the fit says about the use of the unlabelled rows, and what would say more.
    disputed, least_sure : list of Doubt
        Unlabelled rows on which the nets that predict disagree, and those on which they agree; the
        least sure ones, in this order. Empty without texts.

    Examples
    --------
    >>> from sklearn_spt import SelfPretrainingClassifier
    >>> from sklearn_spt.datasets import make_short_texts
    >>> from sklearn_spt.inspection import FitReport
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = SelfPretrainingClassifier(random_state=0)
    >>> clf.fit(bunch.data, bunch.target_partial)  # doctest: +SKIP
    >>> FitReport.from_estimator(clf).save("report.html")  # doctest: +SKIP
    """

    name: str
    facts: dict[str, str]
    classes: list[Any]
    entries: Sequence[Mapping[str, Any]]
    helped: str
    disputed: list[Doubt]
    least_sure: list[Doubt]

    @classmethod
    def from_estimator(cls, clf: Any, *, texts: Any = None, n_texts: int = 10) -> FitReport:
        """Report the fit of a classifier.

        Parameters
        ----------
        clf : estimator
            A fitted semi-supervised classifier of this package, or a pipeline that ends in one.
        texts : list, array or Series of str, default=None
            The rows of the fit: those of X, then those of X_unlabeled. The report then shows some
            of the unlabelled ones, which the classifier predicts for that. None shows no text.
        n_texts : int, default=10
            Most texts in each of the two lists.

        Returns
        -------
        report : FitReport

        Raises
        ------
        TypeError
            If `clf` is no such classifier, or `texts` holds no texts.
        ValueError
            If there are not as many texts as rows in the fit.
        sklearn.exceptions.NotFittedError
            If `clf` is not fitted.
        """
        model = last_step(clf)
        from sklearn_spt._base import BaseSemiSupervisedClassifier  # imports torch

        if not isinstance(model, BaseSemiSupervisedClassifier):
            raise TypeError(
                "clf must be a semi-supervised classifier of this package, or a pipeline that ends "
                f"in one, got {type(model).__name__}."
            )
        check_is_fitted(model, "history_")
        check_integer(n_texts, "n_texts", low=1)
        disputed: list[Doubt] = []
        least_sure: list[Doubt] = []
        if texts is not None:
            disputed, least_sure = _doubts(clf, model, texts, n_texts)
        return cls(
            name=" ".join(repr(model).split()),
            facts=_facts(model),
            classes=[plain_label(label) for label in model.classes_],
            entries=model.history_,
            helped=_helped(whole_history(model)),
            disputed=disputed,
            least_sure=least_sure,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HTML page.

        Parameters
        ----------
        path : str or path-like
            The file, whose folder must exist. An existing file is replaced.
        """
        Path(path).write_text(document(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        return body(self)

    def __repr__(self) -> str:
        """Name the classifier."""
        return f"<FitReport of {self.name}>"

    def __str__(self) -> str:
        """Describe the fit in some lines."""
        width = max(map(len, self.facts))
        lines = [self.name, *(f"{key:{width}}  {value}" for key, value in self.facts.items()), ""]
        lines += [iteration_line(entry) for entry in self.entries]
        lines += ["", self.helped]
        for title, rows in self.lists():
            lines += ["", title]
            lines += [
                f"  row {d.row}: {d.predicted} ({d.probability:.2f}), nets "
                f"{', '.join(map(str, d.by_net))}: {d.text}"
                for d in rows
            ]
        return "\n".join(lines)

    def lists(self) -> list[tuple[str, list[Doubt]]]:
        """Return the lists of texts that are not empty, with their titles."""
        both = [
            ("Unlabelled rows on which the nets disagree", self.disputed),
            ("Unlabelled rows on which they agree, but are least sure", self.least_sure),
        ]
        return [(title, rows) for title, rows in both if rows]


def _facts(model: BaseSemiSupervisedClassifier) -> dict[str, str]:
    """Collect what is said about the whole fit."""
    labeled = model.labeled_iter_ == 0
    given = model.transduction_[labeled].tolist()
    counts = (f"{label}: {given.count(label):,}" for label in model.classes_.tolist())
    drawn = int((model.labeled_iter_ > 0).sum())
    facts = {
        "labelled rows": f"{len(given):,} ({', '.join(counts)})",
        "unlabelled rows": f"{(~labeled).sum():,}, of which {drawn:,} got a pseudo-label",
        "iterations": f"{model.n_iter_} (ended by {model.termination_condition_})",
        "nets that predict": str(len(model.estimators_)),
        "time": f"{sum(sum(e['seconds'].values()) for e in whole_history(model)):,.1f} s",
    }
    if getattr(model, "best_iter_", model.n_iter_) != model.n_iter_:
        facts["kept iteration"] = str(model.best_iter_)
    if getattr(model, "logit_adjustment_", 0.0):
        facts["logit adjustment"] = f"{model.logit_adjustment_:.2f}"
    return facts


def _helped(history: Sequence[Mapping[str, Any]]) -> str:
    """Say what held-out rows tell, and how to learn more."""
    scores = [e["validation_score"] for e in history if e.get("validation_score") is not None]
    if len(scores) < 2:
        return _HINT
    best = max(scores[1:])
    outcome = "more than" if best > scores[0] else "no more than"
    return (
        f"On the held-out rows the best iteration scores {best:.3f}, {outcome} the supervised "
        f"start with {scores[0]:.3f}. They are few, and the best of several scores is too high. "
        f"{_HINT}"
    )


def _doubts(
    clf: Any, model: BaseSemiSupervisedClassifier, texts: Any, n_texts: int
) -> tuple[list[Doubt], list[Doubt]]:
    """Choose the least sure unlabelled rows on which the nets disagree, and on which they agree."""
    if not is_text(texts):
        raise TypeError(f"texts must hold the texts of the fit, got {type(texts).__name__}.")
    n = len(model.labeled_iter_)
    if n_rows(texts, "texts") != n:
        raise ValueError(
            f"texts must hold the {n} rows of the fit, those of X and then those of X_unlabeled; "
            f"got {n_rows(texts, 'texts')}."
        )
    documents = check_texts(texts, "texts")
    rows = np.flatnonzero(model.labeled_iter_ != 0)
    if not len(rows):
        return [], []
    X: Any = [documents[i] for i in rows]
    if isinstance(clf, Pipeline) and len(clf.steps) > 1:
        X = clf[:-1].transform(X)
    nets: list[FloatArray] = model._probabilities_by_net(X)
    P = model._combine(nets)
    votes: AnyArray = np.array([p.argmax(axis=1) for p in nets])
    sure = P.max(axis=1)
    split = (votes != votes[0]).any(axis=0)

    def doubt(i: int) -> Doubt:
        row = int(rows[i])
        drawn = model.labeled_iter_[row] > 0
        return Doubt(
            row,
            " ".join(documents[row].split()),
            plain_label(model.transduction_[row]) if drawn else None,
            [plain_label(model.classes_[code]) for code in votes[:, i]],
            plain_label(model.classes_[P[i].argmax()]),
            float(sure[i]),
        )

    order = np.argsort(sure, kind="stable")
    both = (order[split[order]], order[~split[order]])
    disputed, least_sure = ([doubt(i) for i in part[:n_texts]] for part in both)
    return disputed, least_sure
