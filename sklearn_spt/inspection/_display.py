"""The base classes of the displays that draw on one pair of axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sklearn_spt._validation import check_option
from sklearn_spt.inspection._grouping import SCORE_NAMES, Record
from sklearn_spt.inspection._style import aligned, panels_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class Display(ABC):
    """A display on one pair of axes; a subclass writes `_draw`."""

    ax_: Axes
    figure_: Figure | SubFigure

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

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        (self.ax_,) = panels_for(ax, 1, self)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    @abstractmethod
    def _draw(self, ax: Axes) -> None:
        """Draw on the axes."""


@dataclass(kw_only=True, eq=False, repr=False)
class CurveDisplay(Display):
    """Mean scores with bands, one line for each name; a subclass says what stands on the x axis."""

    scores: Mapping[str, Any]
    score_name: str = "F1"
    legend_title: str | None = None

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        by: str | None = None,
        metric: str = "f1",
        labels: Mapping[Any, str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw records of experiments, with one line for each value of `by`.

        Parameters
        ----------
        records : iterable of dict
            Records of cells, for `LearningCurveDisplay` of one data set. Failed ones are left out,
            by `IterationCurveDisplay` also those without scores per iteration.
        by : str or None, default=None
            Parameter, or part of the cell, that distinguishes the lines, such as ``"step_size"``.
            None is the method for `LearningCurveDisplay`. For `IterationCurveDisplay` it is the
            only thing, apart from the seed, in which the cells differ.
        metric : {"f1", "precision", "recall", "accuracy", "macro_f1"}, default="f1"
            Score on the test rows. Only runs with ``--score-iterations`` record it per iteration.
        labels : dict or None, default=None
            Value of `by` -> name of its line. Lines follow the order of this dict.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        display : object
            The display, drawn.

        Raises
        ------
        ValueError
            If there are no such scores, or the cells differ in more than `by`, the seed and what
            stands on the x axis.
        """
        check_option(metric, "metric", SCORE_NAMES)
        by, groups = cls._grouped(records, by, metric)
        labels = labels or {}
        order = [value for value in labels if value in groups]
        x, scores = {}, {}
        for value in [*order, *(value for value in groups if value not in labels)]:
            name = labels.get(value, str(value))
            x[name], scores[name] = aligned(cls._runs(groups[value], metric))
        display = cls._of(x, scores, score_name=SCORE_NAMES[metric])
        display.legend_title = by.replace("_", " ")
        return display.plot(ax)

    @classmethod
    @abstractmethod
    def _grouped(
        cls, records: Iterable[Record], by: str | None, metric: str
    ) -> tuple[str, dict[Any, list[Record]]]:
        """Return the key that distinguishes the lines, and the records of each line."""

    @classmethod
    @abstractmethod
    def _runs(cls, group: Sequence[Record], metric: str) -> list[dict[int, float]]:
        """Return the scores of each seed by their x values."""

    @classmethod
    @abstractmethod
    def _of(cls, x: dict[str, Any], scores: dict[str, Any], *, score_name: str) -> Self:
        """Create a display; `x` has the x values of each line."""
