"""Score over the number of labelled texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split

from sklearn_spt._typing import AnyArray, IntArray
from sklearn_spt._validation import check_flag, check_integer, check_option
from sklearn_spt.inspection._grouping import Record, finished, finite, grouped
from sklearn_spt.inspection._score_names import SCORE_NAMES
from sklearn_spt.inspection._style import (
    axes_for,
    draw_curves,
    figure_of,
    place_legend,
    run_counts,
    stacked,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LearningCurveDisplay:
    """Score over the number of labelled texts, one line for each method.

    scikit-learn's class of this name takes rows away; here the rows stay and their labels are
    hidden, which is what a semi-supervised classifier meets.

    Parameters
    ----------
    n_labeled : dict of array-like
        Name of a line -> numbers of labelled texts, ascending.
    scores : dict of array-like
        Name of a line -> scores of shape (n_runs, n_sizes) or (n_sizes,). The line is the mean over
        the runs (seeds); the spread is their sd.
    score_name : str, default="F1"
        What the scores are.
    legend_title : str or None, default=None
        What the lines differ in.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        The means, in the order of `scores`.
    spreads_ : list
        The bands or error bars; None for a line of a single run.
    ax_ : matplotlib.axes.Axes
        Where it is drawn.
    figure_ : matplotlib.figure.Figure
        The figure of the axes.

    Examples
    --------
    >>> from sklearn_spt.inspection import LearningCurveDisplay
    >>> display = LearningCurveDisplay(
    ...     n_labeled={"Baseline": [100, 300]}, scores={"Baseline": [[0.5, 0.6], [0.4, 0.6]]}
    ... )
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        n_labeled: Mapping[str, Any],
        scores: Mapping[str, Any],
        score_name: str = "F1",
        legend_title: str | None = None,
    ) -> None:
        self.n_labeled = n_labeled
        self.scores = scores
        self.score_name = score_name
        self.legend_title = legend_title

    @classmethod
    def from_estimator(
        cls,
        clf: Any,
        X: Any,
        y: Any,
        *,
        n_labeled: Sequence[int] = (50, 100, 200, 400),
        supervised: bool = False,
        scoring: str | Callable[..., float] = "f1_macro",
        test_size: float = 0.25,
        n_repeats: int = 3,
        random_state: int = 0,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> LearningCurveDisplay:
        """Fit clones of a classifier on more and more labels, and draw their scores.

        Each repetition sets test rows aside, by class, and of the others hides all labels but those
        of a drawn sample, by class. Two calls with the same `random_state` draw the same rows, so
        that two classifiers can be compared on one pair of axes.

        Parameters
        ----------
        clf : estimator
            A classifier; it is cloned and stays as it is.
        X : indexable of length n
            Documents, or whatever the classifier takes.
        y : array-like of shape (n,)
            Label of each of them; none is missing.
        n_labeled : sequence of int, default=(50, 100, 200, 400)
            Numbers of labelled rows.
        supervised : bool, default=False
            Whether the classifier gets the labelled rows alone. Otherwise the hidden labels are
            its parameter `unlabeled_marker`, or -1 if it has none.
        scoring : str or callable, default="f1_macro"
            A scorer of scikit-learn; macro-F1 needs no positive class.
        test_size : float, default=0.25
            Share of the rows that is set aside.
        n_repeats : int, default=3
            Repetitions, for mean and sd.
        random_state : int, default=0
            Repetition i draws its rows, and sets the classifier's own `random_state` where it has
            one, by ``random_state + i``.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure. Axes of another display get one more line.
        name : str or None, default=None
            Name of the line; None is the name of the class.
        **kwargs
            To `plot`.

        Returns
        -------
        display : LearningCurveDisplay
            Drawn.
        """
        check_flag(supervised, "supervised")
        check_integer(n_repeats, "n_repeats", low=1)
        check_integer(random_state, "random_state", low=0)
        sizes = sorted({int(check_integer(n, "n_labeled", low=2) or 0) for n in n_labeled})
        if not sizes:
            raise ValueError("n_labeled must hold at least one number of labelled rows.")
        scorer = get_scorer(scoring)
        scores = np.empty((n_repeats, len(sizes)))
        for i in range(n_repeats):
            seed = random_state + i
            rows, y_all = np.arange(len(y)), np.asarray(y)
            X_rest, X_test, rest, test = train_test_split(
                X, rows, test_size=test_size, stratify=y_all, random_state=seed
            )
            for j, n in enumerate(sizes):
                if n >= len(rest):
                    raise ValueError(
                        f"n_labeled={n} is too much: {len(rest)} rows are left to learn from; give "
                        "smaller numbers, or a smaller test_size."
                    )
                known, _ = train_test_split(
                    np.arange(len(rest)), train_size=n, stratify=y_all[rest], random_state=seed
                )
                model = clone(clf)
                if "random_state" in model.get_params(deep=False):
                    model.set_params(random_state=seed)
                if supervised:
                    # a split with the same seed picks the same rows of anything that is indexable
                    X_known, _ = train_test_split(
                        X_rest, train_size=n, stratify=y_all[rest], random_state=seed
                    )
                    model.fit(X_known, y_all[rest][known])
                else:
                    model.fit(X_rest, _hidden(y_all[rest], known, model))
                scores[i, j] = scorer(model, X_test, y_all[test])
        name = type(clf).__name__ if name is None else name
        score_name = scoring.replace("_", " ") if isinstance(scoring, str) else "score"
        return cls(
            n_labeled={name: sizes},
            scores={name: scores},
            score_name="macro-F1" if scoring == "f1_macro" else score_name,
        ).plot(ax, **kwargs)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        by: str = "method",
        metric: str = "f1",
        labels: Mapping[Any, str] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> LearningCurveDisplay:
        """Draw records of experiments, one line for each method.

        Parameters
        ----------
        records : iterable of dict
            Records of cells of one data set. Failed ones are left out.
        by : str, default="method"
            Parameter, or part of the cell, that tells the lines apart.
        metric : {"f1", "precision", "recall", "accuracy", "macro_f1"}, default="f1"
            Which score on the test rows.
        labels : dict or None, default=None
            Value -> name of its line; the lines stand in the order of the values here.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : LearningCurveDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the cells differ in something else than method, seed and number of labelled texts.
        """
        check_option(metric, "metric", SCORE_NAMES)
        by, groups = grouped(finished(records, "the learning curve"), by, along=("n_labeled",))
        labels = labels or {}
        order = [value for value in labels if value in groups]
        n_labeled, scores = {}, {}
        for value in [*order, *(value for value in groups if value not in labels)]:
            runs: dict[int, dict[int, float]] = {}
            for record in groups[value]:
                run = runs.setdefault(record["cell"]["seed"], {})
                score = finite(record, record.get("scores") or {}, metric, "scores")
                run[record["cell"]["n_labeled"]] = score
            sizes = sorted({n for run in runs.values() for n in run})
            name = labels.get(value, str(value))
            n_labeled[name], scores[name] = sizes, stacked(list(runs.values()), sizes)
        return cls(
            n_labeled=n_labeled,
            scores=scores,
            score_name=SCORE_NAMES[metric],
            legend_title=by.replace("_", " "),
        ).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        std_display_style: str | None = "fill_between",
        line_kw: Mapping[str, Any] | None = None,
    ) -> LearningCurveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        std_display_style : {"fill_between", "errorbar"} or None, default="fill_between"
            How one sd to each side of the mean is shown.
        line_kw : dict or None, default=None
            To ``matplotlib.axes.Axes.plot``, for all lines.

        Returns
        -------
        display : LearningCurveDisplay
            This object.
        """
        ax = axes_for(ax, type(self).__name__)
        curves, self.lines_, self.spreads_ = draw_curves(
            ax,
            self.n_labeled,
            self.scores,
            std_display_style=std_display_style,
            line_kw=line_kw,
            partial=True,
        )
        _ticks_at_sizes(ax)
        tidy(ax)
        ax.set_xlabel("number of labelled texts")
        ax.set_ylabel(self.score_name + run_counts(curves, std_display_style, partial=True))
        place_legend(ax, self.legend_title)
        self.ax_, self.figure_ = ax, figure_of(ax)
        return self


def _hidden(y: AnyArray, known: IntArray, model: Any) -> AnyArray:
    """Labels with the marker in place of all but the known ones."""
    marker = model.get_params(deep=False).get("unlabeled_marker", -1)
    # numbers may stay numbers; anything else has to be held by reference beside the labels
    numbers = y.dtype.kind in "iuf" and isinstance(marker, int | float) and marker == int(marker)
    partial = np.full(len(y), marker, dtype=None if numbers else object)
    partial[known] = y[known]
    return partial


def _ticks_at_sizes(ax: Axes) -> None:
    """Put ticks at the sizes that there are, as far as their numbers stand clear of each other."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    sizes = np.unique(np.concatenate([np.asarray(line.get_xdata()) for line in ax.lines]))
    logarithmic = bool(sizes[-1] > 8 * sizes[0])
    ax.set_xscale("log" if logarithmic else "linear")
    places = np.log(sizes) if logarithmic else sizes
    kept = [0]
    for i in range(1, len(sizes)):
        if places[i] - places[kept[-1]] >= 0.09 * (places[-1] - places[0]):
            kept.append(i)
    ax.xaxis.set_major_locator(FixedLocator(sizes[kept].tolist()))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
