"""Score per iteration: the paper's figure on the step size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sklearn_spt._validation import check_option
from sklearn_spt.inspection._grouping import Record, describe, finished, finite, grouped
from sklearn_spt.inspection._score_names import SCORE_NAMES
from sklearn_spt.inspection._style import (
    axes_for,
    draw_curves,
    figure_of,
    place_legend,
    run_counts,
    stacked,
    tidy,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class IterationCurveDisplay:
    """Score over the iterations of a semi-supervised fit, one line for each of several settings.

    Make it with `from_estimator` or `from_records`; the constructor takes scores of one's own, such
    as those that an ``on_iteration`` callback has collected.

    Parameters
    ----------
    scores : dict of array-like
        Name of a line -> scores of shape (n_runs, n_iterations) or (n_iterations,). The line is the
        mean over the runs (seeds), where all of them have a score; the spread is their sd.
    iterations : dict of array-like or None, default=None
        Name of a line -> numbers of the iterations, ascending. None counts from 0, the supervised
        start.
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
    >>> from sklearn_spt.inspection import IterationCurveDisplay
    >>> display = IterationCurveDisplay(scores={"0.1": [0.4, 0.5, 0.6], "0.5": [0.4, 0.5]})
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        scores: Mapping[str, Any],
        iterations: Mapping[str, Any] | None = None,
        score_name: str = "F1",
        legend_title: str | None = None,
    ) -> None:
        self.scores = scores
        self.iterations = iterations
        self.score_name = score_name
        self.legend_title = legend_title

    @classmethod
    def from_estimator(
        cls,
        clf: Any,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> IterationCurveDisplay:
        """Draw the validation score that a fitted classifier noted down at each iteration.

        Parameters
        ----------
        clf : estimator
            Fitted; its ``history_`` has ``"validation_score"``, as those of the methods that choose
            their number of iterations on held-out labelled texts.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure. Axes of another display get one more line.
        name : str or None, default=None
            Name of the line; None is the name of the class.
        **kwargs
            To `plot`.

        Returns
        -------
        display : IterationCurveDisplay
            Drawn.

        Raises
        ------
        ValueError
            If no iteration has a validation score. The nets of past iterations are not kept, so
            they cannot be scored afterwards.
        """
        check_is_fitted(clf, "history_")
        kind = type(clf).__name__
        by_iteration = {
            entry["iteration"]: entry["validation_score"]
            for entry in clf.history_
            if entry.get("validation_score") is not None
        }
        if not by_iteration:
            raise ValueError(
                f"history_ of this {kind} holds no 'validation_score', and the students of past "
                "iterations are gone, so that they cannot be scored any more. Where the classifier "
                "has the parameter on_iteration, let it score each iteration on held-out texts "
                "while the fit runs, and give the scores to "
                "IterationCurveDisplay(scores={'name': scores}).plot()."
            )
        name = kind if name is None else name
        numbers = sorted(by_iteration)
        return cls(
            scores={name: [by_iteration[t] for t in numbers]},
            iterations={name: numbers},
            score_name="validation score",
        ).plot(ax, **kwargs)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        by: str | None = None,
        metric: str = "f1",
        labels: Mapping[Any, str] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> IterationCurveDisplay:
        """Draw records of experiments, one line for each value of what they differ in.

        Parameters
        ----------
        records : iterable of dict
            Records of cells. Failed ones, and those without scores per iteration, are left out.
        by : str or None, default=None
            Parameter, or part of the cell, that tells the lines apart, such as ``"step_size"``.
            None takes the only thing in which the cells differ, apart from the seed.
        metric : str, default="f1"
            ``"f1"``, ``"precision"``, ``"recall"``, ``"accuracy"`` or ``"macro_f1"`` on the test
            rows, which records of runs with ``--score-iterations`` have; or ``"validation_score"``
            from the history.
        labels : dict or None, default=None
            Value -> name of its line.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : IterationCurveDisplay
            Drawn.

        Raises
        ------
        ValueError
            If there are no such scores, or the cells differ in more than one thing.
        """
        names = {**SCORE_NAMES, "validation_score": "validation score"}
        check_option(metric, "metric", names)
        part = "history" if metric == "validation_score" else "iterations"
        scored = [
            record
            for record in finished(records, "the scores per iteration")
            if any(entry.get(metric) is not None for entry in record.get(part) or ())
        ]
        if not scored:
            how = (
                "its methods hold no labelled texts out"
                if part == "history"
                else "run the cells with --score-iterations"
            )
            raise ValueError(f"no record holds {metric!r} per iteration; {how}.")
        by, groups = grouped(scored, by)
        scores, iterations = {}, {}
        for value, group in groups.items():
            name = (labels or {}).get(value, str(value))
            runs = [_run(record, part, metric) for record in group]
            points = sorted({t for run in runs for t in run})
            scores[name], iterations[name] = stacked(runs, points), points
        return cls(
            scores=scores,
            iterations=iterations,
            score_name=names[metric],
            legend_title=by.replace("_", " "),
        ).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        std_display_style: str | None = "fill_between",
        line_kw: Mapping[str, Any] | None = None,
    ) -> IterationCurveDisplay:
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
        display : IterationCurveDisplay
            This object.
        """
        ax = axes_for(ax, type(self).__name__)
        curves, self.lines_, self.spreads_ = draw_curves(
            ax,
            self.iterations,
            self.scores,
            std_display_style=std_display_style,
            line_kw=line_kw,
        )
        whole_numbers(ax)
        tidy(ax)
        ax.set_xlabel("iteration (0: supervised start)")
        ax.set_ylabel(self.score_name + run_counts(curves, std_display_style))
        place_legend(ax, self.legend_title)
        self.ax_, self.figure_ = ax, figure_of(ax)
        return self


def _run(record: Record, part: str, metric: str) -> dict[int, float]:
    """Score of each iteration of a record."""
    run: dict[int, float] = {}
    for entry in record[part]:
        if entry.get(metric) is None:
            continue
        if "iteration" not in entry:
            raise ValueError(
                f"the record of {describe(record['cell'])} has an entry of {part!r} without "
                "'iteration'."
            )
        run[int(entry["iteration"])] = finite(record, entry, metric, part)
    return run
