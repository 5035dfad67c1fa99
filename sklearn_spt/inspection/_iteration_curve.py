"""Score per iteration: the paper's figure on the step size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sklearn_spt._validation import check_option
from sklearn_spt.inspection._grouping import Record, finished, finite, grouped
from sklearn_spt.inspection._score_names import SCORE_NAMES
from sklearn_spt.inspection._style import aligned, draw_curves, finish, panels_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class IterationCurveDisplay:
    """Score over the iterations of a semi-supervised fit, with one line for each setting.

    Use `from_estimator` or `from_records` to create it. The constructor takes other scores, such
    as those that an ``on_iteration`` callback has collected.

    Parameters
    ----------
    scores : dict of array-like
        Name of a line -> scores of shape (n_runs, n_iterations) or (n_iterations,). A line is the
        mean over the runs (seeds), where all of them have a score.
    iterations : dict of array-like or None, default=None
        Name of a line -> ascending iteration numbers. None counts from 0, the supervised start.
    score_name : str, default="F1"
        Label of the y axis.
    legend_title : str or None, default=None
        Title of the legend.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        The means, in the order of `scores`.
    spreads_ : list
        Bands of one sd to each side; None for a line of a single run.
    ax_, figure_ : matplotlib.axes.Axes and matplotlib.figure.Figure
        The axes and their figure.

    Examples
    --------
    >>> from sklearn_spt.inspection import IterationCurveDisplay
    >>> display = IterationCurveDisplay(scores={"0.1": [0.4, 0.5, 0.6], "0.5": [0.4, 0.5]})
    >>> display.plot()  # doctest: +SKIP
    """

    scores: Mapping[str, Any]
    iterations: Mapping[str, Any] | None = None
    score_name: str = "F1"
    legend_title: str | None = None

    @classmethod
    def from_estimator(
        cls, clf: Any, *, ax: Axes | None = None, name: str | None = None
    ) -> IterationCurveDisplay:
        """Draw the validation score that a fitted classifier recorded at each iteration.

        Parameters
        ----------
        clf : estimator
            Fitted, with ``"validation_score"`` in its ``history_``. Methods that choose their
            number of iterations on held-out labelled texts record it.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure. Pass the axes of another display to add a line.
        name : str or None, default=None
            Name of the line; None is the name of the class.

        Returns
        -------
        display : IterationCurveDisplay

        Raises
        ------
        ValueError
            If no iteration has a validation score.
        """
        check_is_fitted(clf, "history_")
        kind = type(clf).__name__
        score = "validation_score"
        run = {e["iteration"]: e[score] for e in clf.history_ if e.get(score) is not None}
        if not run:
            raise ValueError(
                f"history_ of this {kind} holds no 'validation_score', and past students are not "
                "kept. Score them on held-out texts during the fit, with the parameter "
                "on_iteration, and pass the scores to IterationCurveDisplay(scores=...)."
            )
        name = kind if name is None else name
        iterations, scores = aligned([run])
        return cls(
            scores={name: scores}, iterations={name: iterations}, score_name="validation score"
        ).plot(ax)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        by: str | None = None,
        metric: str = "f1",
        labels: Mapping[Any, str] | None = None,
        ax: Axes | None = None,
    ) -> IterationCurveDisplay:
        """Draw records of experiments, with one line for each value of `by`.

        Parameters
        ----------
        records : iterable of dict
            Records of cells. Failed ones, and those without scores per iteration, are left out.
        by : str or None, default=None
            Parameter, or part of the cell, that distinguishes the lines, such as ``"step_size"``.
            None uses the only one, apart from the seed, in which the cells differ.
        metric : {"f1", "precision", "recall", "accuracy", "macro_f1"}, default="f1"
            Score on the test rows, which runs with ``--score-iterations`` record.
        labels : dict or None, default=None
            Value of `by` -> name of its line.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        display : IterationCurveDisplay

        Raises
        ------
        ValueError
            If there are no such scores, or the cells differ in more than `by` and the seed.
        """
        check_option(metric, "metric", SCORE_NAMES)
        scored = [
            record
            for record in finished(records, "the scores per iteration")
            if any(entry.get(metric) is not None for entry in record.get("iterations") or ())
        ]
        if not scored:
            raise ValueError(
                f"no record holds {metric!r} per iteration: run the cells with --score-iterations."
            )
        by, groups = grouped(scored, by)
        scores, iterations = {}, {}
        for value, group in groups.items():
            name = (labels or {}).get(value, str(value))
            iterations[name], scores[name] = aligned([_run(r, metric) for r in group])
        return cls(
            scores=scores,
            iterations=iterations,
            score_name=SCORE_NAMES[metric],
            legend_title=by.replace("_", " "),
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> IterationCurveDisplay:
        """Draw the lines.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        display : IterationCurveDisplay
        """
        (ax,) = panels_for(ax, 1, self)
        self.lines_, self.spreads_ = draw_curves(ax, self.iterations, self.scores, self.score_name)
        ax.set_xlabel("iteration (0: supervised start)")
        finish(ax, self.legend_title)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _run(record: Record, metric: str) -> dict[int, float]:
    """Score of each iteration of a record."""
    part = "iterations"
    return {
        int(finite(record, entry, "iteration", part)): finite(record, entry, metric, part)
        for entry in record[part]
        if entry.get(metric) is not None
    }
