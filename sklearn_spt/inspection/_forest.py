"""Rows of numbers with their intervals, in panels side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_spt.inspection._style import (
    MARKERS,
    PALETTE,
    figure_of,
    row_panels_for,
    row_style,
    wrapped_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Characters of an axis label, below which two of them stand side by side.
_LABEL_WIDTH = 24
#: A number with the ends of its interval, if it has one.
Point = tuple[float, float | None, float | None]


def _checked(value: Any, panel: str, row: str) -> Point | None:
    """Return a number, or one with its interval, as a point."""
    if value is None:
        return None
    try:
        mean, low, high = (value, None, None) if np.ndim(value) == 0 else value
        ends = [mean if end is None else end for end in (low, high)]
        good = np.isfinite([mean, *ends]).all() and ends[0] <= mean <= ends[1]
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"panels[{panel!r}] must have a finite number for {row!r}, or (mean, low, high) with "
            f"low <= mean <= high, or None; got {value!r}."
        )
    return mean, low, high


class ForestDisplay:
    """Forest plot: a row for each method or set of parameters, a panel for each number.

    Parameters
    ----------
    rows : sequence of str
        Names, from top to bottom.
    panels : dict of sequence
        Label of a panel's axis -> what each row has there: a number, ``(mean, low, high)`` with the
        ends of an interval, which may be None, or None for a row without a number.
    zero : sequence of str, default=()
        Panels with a line at zero: those of differences.

    Attributes
    ----------
    points_ : list of matplotlib.container.ErrorbarContainer
        One for each panel.
    axes_ : list of matplotlib.axes.Axes
        The panels.
    figure_ : matplotlib.figure.Figure
        The figure of the panels.

    Examples
    --------
    >>> from sklearn_spt.inspection import ForestDisplay
    >>> display = ForestDisplay(
    ...     rows=["old", "new"], panels={"F1": [0.6, 0.65], "gain": [None, (0.05, 0.02, 0.08)]}
    ... )
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        rows: Sequence[str],
        panels: Mapping[str, Sequence[Any]],
        zero: Sequence[str] = (),
    ) -> None:
        self.rows = rows
        self.panels = panels
        self.zero = zero

    def plot(self, ax: Any = None) -> ForestDisplay:
        """Draw.

        Parameters
        ----------
        ax : array-like of matplotlib.axes.Axes or None, default=None
            Where to draw, one for each panel; None makes a figure.

        Returns
        -------
        display : ForestDisplay
            This object.

        Raises
        ------
        ValueError
            If there is no row or no panel, or a panel has not one finite value for each row.
        """
        if not len(self.rows) or not len(self.panels):
            raise ValueError("rows and panels must each hold at least one name.")
        for name, values in self.panels.items():
            if len(values) != len(self.rows):
                raise ValueError(
                    f"panels[{name!r}] must have a value for each of the {len(self.rows)} rows, "
                    f"got {len(values)}."
                )
        unknown = [name for name in self.zero if name not in self.panels]
        if unknown:
            known = ", ".join(self.panels)
            raise ValueError(f"zero names the panel {unknown[0]!r}; there are {known}.")
        drawn = {
            name: [_checked(v, name, row) for v, row in zip(values, self.rows, strict=True)]
            for name, values in self.panels.items()
        }
        axes = row_panels_for(ax, len(drawn), self.rows, type(self).__name__)
        self.points_ = [self._panel(a, n, p) for a, (n, p) in zip(axes, drawn.items(), strict=True)]
        names = [wrapped_name(row) for row in self.rows]
        for panel in axes:  # which may share their y axis: names are hidden, not taken away
            panel.set_yticks(range(len(names)), names)
            panel.set_ylim(len(names) - 0.5, -0.5)
            panel.tick_params(axis="y", labelleft=panel is axes[0])
        self.axes_, self.figure_ = axes, figure_of(axes[0])
        return self

    def _panel(self, ax: Axes, name: str, points: Sequence[Point | None]) -> Any:
        """Draw one panel; a row without a number stays empty."""
        there = {row: point for row, point in enumerate(points) if point is not None}
        means = [mean for mean, _, _ in there.values()]
        down = [0.0 if low is None else mean - low for mean, low, _ in there.values()]
        up = [0.0 if high is None else high - mean for mean, _, high in there.values()]
        if name in self.zero:
            ax.axvline(0.0, color="0.4", linewidth=1.0, zorder=0)
        container = ax.errorbar(
            means,
            list(there),
            xerr=[down, up],
            color=PALETTE[0],
            marker=MARKERS[0],
            linestyle="none",
            markersize=5,
            capsize=2,
            elinewidth=1.2,
        )
        row_style(ax)
        ax.locator_params(axis="x", nbins=4)  # more would touch where long names leave little room
        ax.set_xlabel(textwrap.fill(name, _LABEL_WIDTH), fontsize="small")
        return container
