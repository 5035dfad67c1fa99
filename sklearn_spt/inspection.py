"""Displays after scikit-learn's, which need matplotlib, and the report of a fit."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import joblib
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._labels import encode_labels, find_labeled
from sklearn_spt.model_selection import five_nets, last_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# -- displays --------------------------------------------------------------------------------------
class _Display:
    """A display on one pair of axes; a subclass writes `_draw`."""

    _draw: Callable[[Axes], None]

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        display : object
            The display itself.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self


def _draw_lines(ax: Axes, x: Sequence[Any], y: Mapping[Any, Any], y_label: str) -> list[Any]:
    """Draw the mean over the runs for each name, with one standard deviation to each side."""
    lines: list[Any] = []
    for points, (name, values) in zip(x, y.items(), strict=True):
        runs = np.atleast_2d(np.asarray(values, dtype=float))
        mean = runs.mean(axis=0)
        # markers, since colours are lost in print
        marker = "os^Dv"[len(ax.get_legend_handles_labels()[0]) % 5]
        (line,) = ax.plot(points, mean, marker=marker, markersize=5, label=str(name))
        if len(runs) > 1:
            sd = runs.std(axis=0, ddof=1)
            ax.fill_between(points, mean - sd, mean + sd, color=line.get_color(), alpha=0.2, lw=0)
            y_label = f"{y_label.partition(',')[0]}, mean ± sd of {len(runs)} runs"
        lines.append(line)
    ax.set_ylabel(y_label)
    ax.grid(visible=True, color="0.9")
    ax.legend()
    return lines


@dataclass(eq=False, repr=False)
class PseudoLabelDisplay(_Display):
    """Share of each class among the pseudo-labels, by iteration.

    A dashed line is the share of the class among the labelled rows. If the pseudo-labels drift away
    from it, one class may be taking over.

    Parameters
    ----------
    iterations : array-like of shape (n_iterations,)
        Numbers of the iterations.
    shares : dict of array-like of shape (n_iterations,)
        Class -> its shares among the pseudo-labels.
    labeled_shares : dict of float or None, default=None
        Class -> its share among the labelled rows; None draws no dashed lines.

    Attributes
    ----------
    lines_, ax_, figure_ : list of matplotlib.lines.Line2D, matplotlib.axes.Axes, Figure
        The line of each class, and where they are drawn.
    """

    iterations: Any
    shares: Mapping[Any, Any]
    labeled_shares: Mapping[Any, float] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> PseudoLabelDisplay:
        """Draw the pseudo-labels of a fitted classifier, or raise ValueError if it gave none.

        Parameters
        ----------
        estimator : estimator
            A fitted semi-supervised classifier of this package, or a pipeline that ends in one.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        PseudoLabelDisplay
        """
        model = last_step(estimator)
        check_is_fitted(model, "labeled_iter_")
        counts = _pseudo_label_counts(model.history_)
        if counts.empty:
            raise ValueError(f"the fit of this {type(model).__name__} gave no pseudo-labels.")
        given = pd.Series(model.transduction_[model.labeled_iter_ == 0])
        shares = counts.div(counts.sum(axis=1), axis=0).to_dict("list")
        labeled_shares = given.value_counts(normalize=True).to_dict()
        return cls(counts.index.to_numpy(), shares, labeled_shares).plot(ax)

    def _draw(self, ax: Axes) -> None:
        x = [self.iterations] * len(self.shares)
        self.lines_ = _draw_lines(ax, x, self.shares, "Share of the pseudo-labels")
        if self.labeled_shares is not None:
            for line, label in zip(self.lines_, self.shares, strict=True):
                ax.axhline(self.labeled_shares[label], color=line.get_color(), ls="--", lw=1)
            ax.plot([], [], color="0.4", ls="--", lw=1, label="among the labelled rows")
            ax.legend()
        ax.locator_params(axis="x", integer=True)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("Iteration")


def _pseudo_label_counts(history: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the number of pseudo-labels by iteration (rows) and class (columns)."""
    counts = {entry["iteration"]: entry.get("pseudo_label_counts") for entry in history}
    return pd.DataFrame({t: n for t, n in counts.items() if n and sum(n.values())}).T


@dataclass(eq=False, repr=False)
class LearningCurveDisplay(_Display):
    """Score over the number of labelled rows, with and without the unlabelled ones.

    scikit-learn's class of this name removes rows. Here all rows stay, and labels are hidden.

    Parameters
    ----------
    n_labeled : array-like of shape (n_sizes,)
        Numbers of labelled rows, ascending.
    scores : dict of array-like of shape (n_repeats, n_sizes)
        Name of a line -> scores. A line is their mean, with a band of one standard deviation to
        each side.
    score_name : str, default="Score"
        Label of the y axis.

    Attributes
    ----------
    lines_, ax_, figure_ : list of matplotlib.lines.Line2D, matplotlib.axes.Axes, Figure
        The mean of each entry of `scores`, and where they are drawn.
    """

    n_labeled: Any
    scores: Mapping[str, Any]
    score_name: str = "Score"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        supervised: Any = None,
        n_labeled: Sequence[int] = (20, 50, 100, 200),
        test_size: float = 0.25,
        n_repeats: int = 3,
        scoring: str | Callable[..., float] = "f1_macro",
        random_state: int = 0,
        n_jobs: int | None = None,
        ax: Axes | None = None,
    ) -> LearningCurveDisplay:
        """Fit clones with increasing numbers of labels, and draw their scores.

        Each repeat draws a stratified test set from the labelled rows, and from the others, for
        each number, a stratified sample. All other labels are hidden.

        Parameters
        ----------
        estimator : classifier
            A semi-supervised classifier, or a pipeline that ends in one. It is cloned.
        X : documents, n_samples rows
            Anything that scikit-learn can split by rows.
        y : array-like of shape (n_samples,)
            Labels. Rows with the `unlabeled_marker` of the classifier stay unlabelled.
        supervised : classifier or None, default=None
            The classifier without unlabelled rows. None is five nets, as in
            `compare_with_supervised`.
        n_labeled : sequence of int, default=(20, 50, 100, 200)
            Numbers of labelled rows to learn from.
        test_size : float or int, default=0.25
            Share or number of the labelled rows in a test set.
        n_repeats : int, default=3
            Number of times that the rows are drawn.
        scoring : str or callable, default="f1_macro"
            A scorer of scikit-learn. Macro-F1 needs no positive class.
        random_state : int, default=0
            Repeat i draws its rows by ``random_state + i``. The classifiers use their own seeds.
        n_jobs : int or None, default=None
            Number of processes, as in joblib.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        LearningCurveDisplay
        """
        marker = getattr(last_step(estimator), "unlabeled_marker", -1)
        plain = five_nets(estimator) if supervised is None else supervised
        labeled, _, codes = encode_labels(y, _num_samples(X), marker)
        labels, rows, tasks = find_labeled(y, marker)[1], np.flatnonzero(labeled), []
        for seed in range(random_state, random_state + n_repeats):
            split = partial(train_test_split, random_state=seed)
            rest, test = split(rows, test_size=test_size, stratify=codes[rows])
            for n in n_labeled:
                known, _ = split(rest, train_size=n, stratify=codes[rest])
                tasks += [(clf, known, test) for clf in (estimator, plain)]
        only_labeled = not isinstance(last_step(plain), BaseSemiSupervisedClassifier)
        scores = joblib.Parallel(n_jobs=n_jobs)(
            joblib.delayed(_fit_and_score)(
                clf, X, labels, known, test, marker, scoring, only_labeled and clf is plain
            )
            for clf, known, test in tasks
        )
        both = np.moveaxis(np.reshape(scores, (n_repeats, len(n_labeled), 2)), -1, 0)
        names = "with unlabelled rows", "without" + ", five nets" * (supervised is None)
        name = scoring.replace("_", " ").capitalize() if isinstance(scoring, str) else "Score"
        return cls(n_labeled, dict(zip(names, both, strict=True)), name).plot(ax)

    def _draw(self, ax: Axes) -> None:
        x = [self.n_labeled] * len(self.scores)
        self.lines_ = _draw_lines(ax, x, self.scores, self.score_name)
        ax.set_xscale("log")
        ax.set_xticks(self.n_labeled, [f"{n:,}" for n in self.n_labeled])
        ax.minorticks_off()
        ax.set_xlabel("Number of labelled rows")


def _fit_and_score(
    clf: Any, X: Any, y: Any, known: Any, test: Any, marker: Any, scoring: Any, only_labeled: bool
) -> float:
    """Fit a clone on the known labels and the rows of no test; return its score."""
    rows = known if only_labeled else np.setdiff1d(np.arange(len(y)), test)
    partial = np.full(len(y), marker, dtype=object)
    partial[known] = y[known]
    model = clone(clf).fit(_safe_indexing(X, rows), partial[rows].tolist())
    return float(get_scorer(scoring)(model, _safe_indexing(X, test), y[test].tolist()))


# -- the report of a fit ---------------------------------------------------------------------------
_TABLE: dict[str, Any] = {"index": False, "na_rep": "", "float_format": "{:.2f}".format}
_ENDINGS = {
    "all_labeled": "every unlabelled row got a pseudo-label",
    "max_iter": "max_iter was reached",
    "no_unlabeled": "there were no unlabelled rows",
    "no_change": "nothing changed any more",
    "validation": "the number was chosen on held-out rows",
}
_HINT = "Whether the unlabelled rows helped, compare_with_supervised(clf, X, y) can say."
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fit report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root {color-scheme: light dark}
body {font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem}
table {border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: anywhere}
th, td {padding: .2rem .6rem; border-bottom: 1px solid #8885; text-align: left; vertical-align: top}
</style></head><body><h1>Fit report</h1>
"""


@dataclass(frozen=True, eq=False, repr=False)
class FitReport:
    """Report of a fit: sizes, pseudo-labels, how it ended, and unlabelled texts in doubt.

    ``print`` shows it as text, a notebook as tables. It holds texts only if they were given.

    Attributes
    ----------
    facts : dict of str
        What is said of the whole fit.
    history : pandas.DataFrame
        For each iteration the number of pseudo-labels of each class, the share of earlier ones that
        changed, and the seconds.
    doubtful : pandas.DataFrame
        Unlabelled rows in doubt: number of the row, last pseudo-label, predicted class, its
        probability, and the text. Empty without texts.
    """

    facts: Mapping[str, str]
    history: pd.DataFrame
    doubtful: pd.DataFrame

    @classmethod
    def from_estimator(cls, clf: Any, texts: Any = None, *, n_texts: int = 20) -> FitReport:
        """Report the fit of a classifier.

        Parameters
        ----------
        clf : estimator
            A fitted semi-supervised classifier of this package, or a pipeline that ends in one.
        texts : documents or None, default=None
            All rows of the fit, those of X and then those of X_unlabeled; any other number is a
            ValueError. The unlabelled ones are predicted. None shows no text.
        n_texts : int, default=20
            Number of texts in doubt. Up to half of them are rows whose last pseudo-label is no
            longer predicted. The others are the rows closest to a tie of two classes.

        Returns
        -------
        FitReport
        """
        model = last_step(clf)
        check_is_fitted(model, "labeled_iter_")
        iteration, entries = model.labeled_iter_, pd.DataFrame(model.history_)
        given = pd.Series(model.transduction_[iteration == 0]).value_counts().sort_index()
        classes = ", ".join(f"{label}: {n:,}" for label, n in given.items())
        ended, seconds = str(model.termination_condition_), entries["seconds"].sum()
        facts = {
            "classifier": type(model).__name__,
            "labelled rows": f"{given.sum():,} ({classes})",
            "unlabelled rows": f"{(iteration != 0).sum():,}, of which {(iteration > 0).sum():,} "
            "have a pseudo-label",
            "iterations": f"{model.n_iter_}; {_ENDINGS.get(ended, ended.replace('_', ' '))}",
            "nets that predict": str(len(model.estimators_)),
            "time": f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds",
        }
        counts = _pseudo_label_counts(model.history_).reindex(entries["iteration"], fill_value=0)
        history = entries.reindex(columns=["iteration", "changed", "seconds"])
        parts = [history.astype({"changed": float}), counts.reset_index(drop=True)]
        return cls(facts, pd.concat(parts, axis=1), _doubtful(clf, model, texts, n_texts))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page that needs no other file.

        Parameters
        ----------
        path : str or path-like
            The file; an existing one is replaced.
        """
        page = f"{_HEAD}{self._repr_html_()}</body></html>\n"
        Path(path).write_text(page, encoding="utf-8")

    def _repr_html_(self) -> str:
        # no border of the 1990s, and texts in full
        with pd.option_context("display.html.border", 0, "display.max_colwidth", None):
            facts = pd.DataFrame(list(self.facts.items())).to_html(index=False, header=False)
            parts = [facts, "<h2>Iterations</h2>", self.history.to_html(**_TABLE)]
            if len(self.doubtful):
                parts += ["<h2>Texts in doubt</h2>", self.doubtful.to_html(**_TABLE)]
        return "\n".join([*parts, f"<p>{_HINT}</p>"])

    def __str__(self) -> str:
        """Describe the fit as text."""
        width = max(map(len, self.facts)) + 2
        facts = [f"{name:{width}}{fact}" for name, fact in self.facts.items()]
        lines = [textwrap.fill(fact, 100, subsequent_indent=" " * width) for fact in facts]
        lines += ["", self.history.to_string(line_width=100, **_TABLE), ""]
        if len(self.doubtful):
            cut = [t if len(t) <= 50 else f"{t[:49]}…" for t in self.doubtful["text"]]
            aligned = self.doubtful.assign(text=[f"{t:50}" for t in cut])
            lines += ["Texts in doubt", aligned.to_string(justify="left", **_TABLE), ""]
        return re.sub(" +$", "", "\n".join([*lines, _HINT]), flags=re.MULTILINE)


def _doubtful(clf: Any, model: Any, texts: Any, n: int) -> pd.DataFrame:
    """Return the unlabelled rows whose pseudo-label changed, and those closest to a tie."""
    n_rows, rows = len(model.labeled_iter_), np.flatnonzero(model.labeled_iter_ != 0)
    if texts is None or not len(rows):
        return pd.DataFrame()
    if (got := _num_samples(texts)) != n_rows:
        rule = f"the {n_rows} rows of the fit, those of X and then those of X_unlabeled"
        raise ValueError(f"texts must hold {rule}; got {got}.")
    documents = _safe_indexing(texts, rows)
    P = clf.predict_proba(documents)
    drawn, last = model.labeled_iter_[rows] > 0, model.transduction_[rows]
    predicted = model.classes_[P.argmax(axis=1)]
    order = np.argsort(np.diff(np.sort(P, axis=1)[:, -2:]).ravel(), kind="stable")
    changed = order[(drawn & (last != predicted))[order]][: n // 2]
    chosen = np.r_[changed, order[~np.isin(order, changed)]][:n]
    words = np.asarray(documents, dtype=object).reshape(len(rows), -1)[chosen, 0]
    columns = {
        "row": rows[chosen],
        "pseudo-label": np.where(drawn, last.astype(object), "")[chosen],
        "predicted": predicted[chosen],
        "probability": P.max(axis=1)[chosen],
        "text": [" ".join(str(text).split()) for text in words],
    }
    return pd.DataFrame(columns)
