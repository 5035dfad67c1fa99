"""Score over the number of labelled texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split

from sklearn_spt._labels import unlabeled_mask
from sklearn_spt._progress import Progress
from sklearn_spt._typing import AnyArray, IntArray
from sklearn_spt._validation import check_flag, check_integer, check_verbose, last_step, shown
from sklearn_spt.inspection._display import CurveDisplay
from sklearn_spt.inspection._grouping import Record, finished, finite, grouped
from sklearn_spt.inspection._style import draw_curves, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class LearningCurveDisplay(CurveDisplay):
    """Score over the number of labelled texts, with one line for each method.

    scikit-learn's class of this name removes rows. Here, all rows stay and labels are hidden.

    Parameters
    ----------
    scores : dict of array-like
        Name of a line -> scores of shape (n_runs, n_sizes) or (n_sizes,). A line is the mean over
        the runs (seeds) that have a score.
    score_name : str, default="F1"
        Label of the y axis.
    legend_title : str or None, default=None
        Title of the legend.
    n_labeled : dict of array-like
        Name of a line -> ascending numbers of labelled texts.

    Attributes
    ----------
    lines_, spreads_ : list
        The means over the numbers of texts, and their bands of one sd to each side, None for a
        single run.
    ax_, figure_ : matplotlib.axes.Axes and matplotlib.figure.Figure
        The axes and their figure.

    Examples
    --------
    >>> from sklearn_spt.inspection import LearningCurveDisplay
    >>> display = LearningCurveDisplay(
    ...     n_labeled={"Baseline": [100, 300]}, scores={"Baseline": [[0.5, 0.6], [0.4, 0.6]]}
    ... )
    >>> display.plot()  # doctest: +SKIP
    """

    n_labeled: Mapping[str, Any]

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
        verbose: int = 0,
        random_state: int = 0,
        ax: Axes | None = None,
        name: str | None = None,
    ) -> Self:
        """Fit clones of a classifier with increasing numbers of labels, and draw their scores.

        Each repetition draws a stratified test set. Of the other rows, it keeps the labels of a
        stratified sample and hides the rest. Calls with the same `random_state` draw the same
        rows, so two classifiers can be compared on the same axes.

        Parameters
        ----------
        clf : estimator
            A classifier. It is cloned and does not change.
        X : indexable of length n
            Documents, or other input of the classifier.
        y : array-like of shape (n,)
            Labels of all rows.
        n_labeled : sequence of int, default=(50, 100, 200, 400)
            Numbers of labelled rows.
        supervised : bool, default=False
            Whether the classifier gets the labelled rows only. Otherwise hidden labels are replaced
            by its parameter `unlabeled_marker`, or by -1 if it has none.
        scoring : str or callable, default="f1_macro"
            A scorer of scikit-learn. Macro-F1 needs no positive class.
        test_size : float, default=0.25
            Share of the test rows.
        n_repeats : int, default=3
            Repetitions, for mean and sd.
        verbose : int, default=0
            1 shows a progress bar of the fits.
        random_state : int, default=0
            Repetition i uses ``random_state + i`` to draw its rows, and as the `random_state` of
            the classifier if it has this parameter.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure. Pass the axes of another display to add a line.
        name : str or None, default=None
            Name of the line; None is the name of the class.

        Returns
        -------
        display : LearningCurveDisplay
        """
        check_flag(supervised, "supervised")
        check_integer(n_repeats, "n_repeats", low=1)
        check_integer(random_state, "random_state", low=0)
        sizes = sorted({int(check_integer(n, "n_labeled", low=2) or 0) for n in n_labeled})
        if not sizes:
            raise ValueError("n_labeled must hold at least one number of labelled rows.")
        scorer = get_scorer(scoring)
        labels = np.asarray(y)
        marker = _marker(clf)
        if not supervised and unlabeled_mask(labels, marker)[0].any():
            raise ValueError(
                f"y must hold the labels of all rows, but holds {shown(marker)}, the marker of "
                "unlabelled rows. If it is a class, set unlabeled_marker to another value."
            )
        scores = np.empty((n_repeats, len(sizes)))
        n_fits = n_repeats * len(sizes)
        with Progress(check_verbose(verbose), "learning curve", n_fits, unit="fit") as progress:
            for i in range(n_repeats):
                seed = random_state + i
                X_rest, X_test, y_rest, y_test = train_test_split(
                    X, labels, test_size=test_size, stratify=labels, random_state=seed
                )
                rows = np.arange(len(y_rest))
                for j, n in enumerate(sizes):
                    if n >= len(rows):
                        raise ValueError(
                            f"n_labeled={n} is too large: {len(rows)} rows are left to train; use "
                            "smaller numbers, or a smaller test_size."
                        )
                    X_known, _, known, _ = train_test_split(
                        X_rest, rows, train_size=n, stratify=y_rest, random_state=seed
                    )
                    model = clone(clf)
                    if "random_state" in last_step(model).get_params(deep=False):
                        last_step(model).set_params(random_state=seed)
                    if supervised:
                        model.fit(X_known, y_rest[known])
                    else:
                        model.fit(X_rest, _hidden(y_rest, known, model))
                    scores[i, j] = scorer(model, X_test, y_test)
                    progress.advance(1)
        name = type(last_step(clf)).__name__ if name is None else name
        score_name = scoring.replace("_", " ") if isinstance(scoring, str) else "score"
        score_name = "macro-F1" if scoring == "f1_macro" else score_name
        return cls._of({name: sizes}, {name: scores}, score_name=score_name).plot(ax)

    @classmethod
    def _grouped(
        cls, records: Iterable[Record], by: str | None, metric: str
    ) -> tuple[str, dict[Any, list[Record]]]:
        found = finished(records, "the learning curve")
        return grouped(found, by or "method", along=("n_labeled",))

    @classmethod
    def _runs(cls, group: Sequence[Record], metric: str) -> list[dict[int, float]]:
        runs: dict[int, dict[int, float]] = {}
        for record in group:
            score = finite(record, record.get("scores") or {}, metric, "scores")
            runs.setdefault(record["cell"]["seed"], {})[record["cell"]["n_labeled"]] = score
        return list(runs.values())

    @classmethod
    def _of(cls, x: dict[str, Any], scores: dict[str, Any], *, score_name: str) -> Self:
        return cls(n_labeled=x, scores=scores, score_name=score_name)

    def _draw(self, ax: Axes) -> None:
        self.lines_, self.spreads_ = draw_curves(
            ax, self.n_labeled, self.scores, self.score_name, partial=True
        )
        ax.set_xlabel("number of labelled texts")
        finish(ax, self.legend_title)
        _ticks_at_sizes(ax)


def _marker(model: Any) -> Any:
    return last_step(model).get_params(deep=False).get("unlabeled_marker", -1)


def _hidden(y: AnyArray, known: IntArray, model: Any) -> AnyArray:
    """Replace all labels but the known ones by the marker."""
    marker = _marker(model)
    # numeric labels keep a numeric dtype if the marker is a whole number
    whole = isinstance(marker, int | float) and float(marker).is_integer()
    numeric = whole and y.dtype.kind in "iuf"
    partial = np.full(len(y), marker, dtype=None if numeric else object)
    partial[known] = y[known]
    return partial


def _ticks_at_sizes(ax: Axes) -> None:
    """Put ticks at the sizes, except where their labels would touch."""
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
