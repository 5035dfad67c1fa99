"""A display after scikit-learn's, rows to label next, and the report of a fit."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._comparison import last_step
from sklearn_spt._labels import Codes, check_scalar, warn_user
from sklearn_spt._module import BertModule
from sklearn_spt._random import one_blas_thread

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# -- display ---------------------------------------------------------------------------------------
@dataclass(eq=False, repr=False)
class PseudoLabelDisplay:
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
        model = _with_history(estimator)
        counts = _pseudo_label_counts(model.history_)
        if counts.empty:
            raise ValueError(f"the fit of this {type(model).__name__} gave no pseudo-labels.")
        given = pd.Series(model.transduction_[model.labeled_iter_ == 0])
        shares = counts.div(counts.sum(axis=1), axis=0).to_dict("list")
        labeled_shares = given.value_counts(normalize=True).to_dict()
        return cls(counts.index.to_numpy(), shares, labeled_shares).plot(ax)

    def plot(self, ax: Axes | None = None) -> PseudoLabelDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        PseudoLabelDisplay
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, []
        for marker, (label, shares) in zip(cycle("os^Dv"), self.shares.items(), strict=False):
            # markers, since colours are lost in print; a legend leaves out names with "_" first
            name = re.sub("^_", " _", str(label))
            self.lines_ += ax.plot(self.iterations, shares, marker=marker, ms=5, label=name)
            if self.labeled_shares is not None:
                color = self.lines_[-1].get_color()
                ax.axhline(self.labeled_shares[label], color=color, ls="--", lw=1)
        if self.labeled_shares is not None:
            ax.plot([], [], color="0.4", ls="--", lw=1, label="among the labelled rows")
        names = {line.get_label() for line in self.lines_}
        for text in ax.legend().get_texts():
            if (name := text.get_text()) in names:  # and a name with "$" is no formula
                text.set(text=re.sub("^ _", "_", name), parse_math=False)
        ax.grid(visible=True, color="0.9")
        ax.locator_params(axis="x", integer=True)
        ax.set_ylim(bottom=0)
        ax.set(xlabel="Iteration", ylabel="Share of the pseudo-labels")
        return self


def _pseudo_label_counts(history: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the number of pseudo-labels by iteration (rows) and class (columns)."""
    counts = {entry["iteration"]: entry.get("pseudo_label_counts") for entry in history}
    return pd.DataFrame({t: n for t, n in counts.items() if n and sum(n.values())}).T


# -- rows to label next ----------------------------------------------------------------------------
def suggest(clf: Any, X: Any, n: int = 10) -> Codes:
    """Suggest the rows to label next: in doubt, and unlike each other.

    k-means groups the 10 n rows with the smallest margin into n clusters, by the vectors of the net
    or by X. The row closest to each centre is suggested. With five labels per class, five rounds of
    ten such rows gave a mean accuracy of 0.734 on eight tasks, and random rows 0.714
    (``examples/studies/PROTOCOL.md``). If X is small, some of these rows are hardly in doubt. Rows
    that the classifier reads alike are one row.

    Parameters
    ----------
    clf : classifier
        Fitted, with ``predict_proba``.
    X : documents, n_samples rows
        Unlabelled documents, as `clf` takes them.
    n : int, default=10
        Number of rows, at most n_samples.

    Returns
    -------
    ndarray of shape (n,)
        Positions of rows in X, unordered. Fewer than n, with a warning, if fewer are distinct.

    Raises
    ------
    ValueError
        If n is out of its range.

    Examples
    --------
    >>> from sklearn_spt.inspection import suggest
    >>> [texts[row] for row in suggest(clf, texts, n=5)]  # doctest: +SKIP
    """
    check_scalar(n, "n", Integral, min_val=1, max_val=_num_samples(X))
    model = last_step(clf)
    F: Any = clf[:-1].transform(X) if model is not clf and len(clf) > 1 else X
    two = np.sort(model.predict_proba(F), axis=1)[:, -2:]
    net = getattr(model, "estimators_", [model])[0]
    if reads_texts := getattr(net, "module", None) is BertModule:
        ours = isinstance(model, BaseSemiSupervisedClassifier)
        F = model._inputs(F)[0] if ours else net.encode(F)
    F = F.tocsr() if hasattr(F, "tocsr") else np.asarray(F).reshape(len(two), -1)
    distinct: dict[str, int] = {}
    for row in np.argsort(two[:, 1] - two[:, 0], kind="stable"):
        distinct.setdefault(joblib.hash(F[[row]]), row)
        if len(distinct) == 10 * n:
            break
    near = np.array(list(distinct.values()))
    if len(near) < n:
        warn_user(f"X holds fewer distinct rows ({len(near)}) than n={n}.")
    if len(near) <= n:
        return near
    F = net.embed(F[near]) if reads_texts else F[near]
    with one_blas_thread():
        distances = KMeans(n, n_init=3, random_state=0).fit_transform(F)
    chosen: list[int] = []
    for column in distances.T:  # a row may be closest to two centres
        chosen.append(next(i for i in np.argsort(column) if i not in chosen))
    return near[chosen]


def _with_history(clf: Any) -> Any:
    if not hasattr(model := last_step(clf), "labeled_iter_"):
        check_is_fitted(model)
        raise TypeError(
            f"a {type(model).__name__} has no iterations; fit a SelfPretrainingClassifier, or "
            "another classifier that labels the rows in iterations."
        )
    return model


# -- the report of a fit ---------------------------------------------------------------------------
_TABLE: dict[str, Any] = {"index": False, "na_rep": "", "float_format": "{:.2f}".format}
_ENDINGS = {
    "all_labeled": "every unlabelled row got a pseudo-label",
    "max_iter": "max_iter was reached",
    "no_unlabeled": "there were no unlabelled rows",
    "no_change": "nothing changed any more",
    "no_candidates": "the other nets agreed on no more rows",
    "no_improvement": "the score on held-out rows no longer rose",
    "tol": "hardly any label changed",
    "all_epochs": "all epochs were done",
    "callback": "a callback stopped the training",
    "validation": "the number was chosen on held-out rows",
}
_HINT = (
    "Did unlabelled rows help? Ask compare_with_supervised(clf, X, y), or python -m sklearn_spt "
    "compare."
)
_COUNTS = "A column for each class: how many rows had it as pseudo-label."
_DOUBT = "The fit gave the pseudo-label; now the model predicts another class, or is not sure."
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Fit report</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root {color-scheme: light dark}
body {font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem}
table {border-collapse: collapse; display: block; overflow-x: auto}
th, td {padding: .2rem .6rem; border-bottom: 1px solid #8885; text-align: left; vertical-align: top;
  font-variant-numeric: tabular-nums}
th, td:not(:last-child) {white-space: nowrap}
td:last-child {min-width: 9rem; overflow-wrap: break-word}
@media (max-width: 40rem) {th, td {font-size: .8rem; padding: .2rem .3rem}}
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
    _hint: str = _HINT

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
        model = _with_history(clf)
        iteration, entries = model.labeled_iter_, pd.DataFrame(model.history_)
        given = pd.Series(model.transduction_[iteration == 0]).value_counts().sort_index()
        classes = ", ".join(f"{label}: {n:,}" for label, n in given.items())
        ended, seconds = str(model.termination_condition_), entries["seconds"].sum()
        facts = {
            "classifier": type(model).__name__,
            "labelled rows": f"{given.sum():,} ({classes})",
            "unlabelled rows": f"{(iteration != 0).sum():,}, of which {(iteration > 0).sum():,} "
            "have a pseudo-label",
            "iterations": f"{model.n_iter_}; {_ENDINGS.get(ended, ended)}",
            "nets that predict": str(len(model.estimators_)),
            "time": f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds",
        }
        chosen = getattr(model, "chosen_by_auto_", "")
        facts |= {"chosen by auto": chosen} if chosen else {}
        counts = _pseudo_label_counts(model.history_).reindex(entries["iteration"], fill_value=0)
        history = entries.reindex(columns=["iteration", "changed", "seconds"])
        parts = [history.astype({"changed": float}), counts.reset_index(drop=True)]
        hint, doubtful = _HINT if any(iteration) else "", _doubtful(clf, model, texts, n_texts)
        return cls(facts, pd.concat(parts, axis=1), doubtful, hint)

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
        facts = pd.DataFrame(list(self.facts.items()))
        parts = [facts.to_html(index=False, header=False, border=0)]
        tables = ("Iterations", _COUNTS, self.history), ("Texts in doubt", _DOUBT, self.doubtful)
        for title, caption, table in tables:
            if len(table):
                table = table.loc[:, (table.notna() & (table != "")).any()]  # no empty column
                html = table.to_html(border=0, **_TABLE)
                parts += [f"<h2>{title}</h2>", f"<p>{caption}</p>", html]
        return "\n".join([*parts, f"<p>{self._hint}</p>"])

    def __str__(self) -> str:
        """Describe the fit as text."""
        width = max(map(len, self.facts)) + 2
        facts = [f"{name:{width}}{fact}" for name, fact in self.facts.items()]
        lines = [textwrap.fill(fact, 100, subsequent_indent=" " * width) for fact in facts]
        lines += ["", self.history.to_string(line_width=100, **_TABLE), ""]
        if len(self.doubtful):
            cut = [t if len(t) <= 50 else f"{t[:49]}…" for t in self.doubtful["text"]]
            aligned = self.doubtful.assign(text=[f"{t:50}" for t in cut])
            lines += ["Texts in doubt", _DOUBT, aligned.to_string(justify="left", **_TABLE), ""]
        return re.sub(" +$", "", "\n".join([*lines, self._hint]), flags=re.MULTILINE).rstrip()


def _doubtful(clf: Any, model: Any, texts: Any, n: int) -> pd.DataFrame:
    """Return the unlabelled rows whose pseudo-label changed, and those closest to a tie."""
    n_rows, rows = len(model.labeled_iter_), np.flatnonzero(model.labeled_iter_ != 0)
    if texts is None or not len(rows):
        return pd.DataFrame({"row": rows[:0]})
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
