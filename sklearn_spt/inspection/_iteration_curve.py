"""Score per iteration: the paper's figure on the step size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.validation import check_is_fitted

from sklearn_spt._validation import last_step
from sklearn_spt.inspection._display import CurveDisplay
from sklearn_spt.inspection._grouping import Record, finished, finite, grouped, whole_history
from sklearn_spt.inspection._style import aligned, draw_curves, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class IterationCurveDisplay(CurveDisplay):
    """Score over the iterations of a semi-supervised fit, with one line for each setting.

    Use `from_estimator` or `from_records` to create it. The constructor takes other scores, such
    as those that an ``on_iteration`` callback has collected.

    Parameters
    ----------
    scores : dict of array-like
        Name of a line -> scores of shape (n_runs, n_iterations) or (n_iterations,). A line is the
        mean over the runs (seeds), where all of them have a score.
    score_name : str, default="F1"
        Label of the y axis.
    legend_title : str or None, default=None
        Title of the legend.
    iterations : dict of array-like or None, default=None
        Name of a line -> ascending iteration numbers. None counts from 0, the supervised start.

    Attributes
    ----------
    lines_, spreads_ : list
        The means over the iterations, and their bands of one sd to each side, None for a single
        run.
    ax_, figure_ : matplotlib.axes.Axes and matplotlib.figure.Figure
        The axes and their figure.

    Examples
    --------
    >>> from sklearn_spt.inspection import IterationCurveDisplay
    >>> display = IterationCurveDisplay(scores={"0.1": [0.4, 0.5, 0.6], "0.5": [0.4, 0.5]})
    >>> display.plot()  # doctest: +SKIP
    """

    iterations: Mapping[str, Any] | None = None

    @classmethod
    def from_estimator(cls, clf: Any, *, ax: Axes | None = None, name: str | None = None) -> Self:
        """Draw the validation score that a fitted classifier recorded at each iteration.

        Parameters
        ----------
        clf : estimator
            Fitted, with ``"validation_score"`` in its ``history_`` or ``selection_history_``.
            Methods that choose their number of iterations on held-out labelled texts record it.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure. Pass the axes of another display to add a line.
        name : str or None, default=None
            Name of the line; by default, the name of the class.

        Returns
        -------
        display : IterationCurveDisplay

        Raises
        ------
        ValueError
            If no iteration has a validation score.
        """
        clf = last_step(clf)
        check_is_fitted(clf, "history_")
        kind = type(clf).__name__
        score = "validation_score"
        run = {e["iteration"]: e[score] for e in whole_history(clf) if e.get(score) is not None}
        if not run:
            raise ValueError(
                f"history_ of this {kind} holds no 'validation_score', and past students are not "
                "kept. Score them on held-out texts during the fit, with the parameter "
                "on_iteration, and pass the scores to IterationCurveDisplay(scores=...)."
            )
        name = kind if name is None else name
        iterations, scores = aligned([run])
        return cls._of({name: iterations}, {name: scores}, score_name="validation score").plot(ax)

    @classmethod
    def _grouped(
        cls, records: Iterable[Record], by: str | None, metric: str
    ) -> tuple[str, dict[Any, list[Record]]]:
        scored = [
            record
            for record in finished(records, "the scores per iteration")
            if any(entry.get(metric) is not None for entry in record.get("iterations") or ())
        ]
        if not scored:
            raise ValueError(
                f"no record holds {metric!r} per iteration: run the cells with --score-iterations."
            )
        return grouped(scored, by)

    @classmethod
    def _runs(cls, group: Sequence[Record], metric: str) -> list[dict[int, float]]:
        return [
            {
                int(finite(record, entry, "iteration", "iterations")): finite(
                    record, entry, metric, "iterations"
                )
                for entry in record["iterations"]
                if entry.get(metric) is not None
            }
            for record in group
        ]

    @classmethod
    def _of(cls, x: dict[str, Any], scores: dict[str, Any], *, score_name: str) -> Self:
        return cls(iterations=x, scores=scores, score_name=score_name)

    def _draw(self, ax: Axes) -> None:
        self.lines_, self.spreads_ = draw_curves(ax, self.iterations, self.scores, self.score_name)
        ax.set_xlabel("iteration (0: supervised start)")
        finish(ax, self.legend_title)
