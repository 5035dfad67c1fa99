"""Forest plot: rows of numbers with their intervals, in panels side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sklearn_spt.inspection._style import (
    ZERO_LINE,
    Point,
    draw_points,
    name_rows,
    panels_for,
    wrapped_name,
)

#: Maximum number of characters in a line of an axis label.
_LABEL_WIDTH = 24


@dataclass(kw_only=True, eq=False, repr=False)
class ForestDisplay:
    """Forest plot: one row for each method or set of parameters, one panel for each quantity.

    Parameters
    ----------
    rows : sequence of str
        Names, from top to bottom.
    panels : dict of sequence
        Axis label of a panel -> one value for each row. A value is a number, ``(mean, low, high)``
        with the ends of an interval, which may be None, or None to leave the row empty.
    zero : sequence of str, default=()
        Labels of the panels with a vertical line at zero. Name those that show differences.

    Attributes
    ----------
    points_ : list of matplotlib.container.ErrorbarContainer
        The points of each panel.
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

    rows: Sequence[str]
    panels: Mapping[str, Sequence[Any]]
    zero: Sequence[str] = ()

    def plot(self, ax: Any = None) -> ForestDisplay:
        """Draw the panels.

        Parameters
        ----------
        ax : array-like of matplotlib.axes.Axes or None, default=None
            Where to draw, one for each panel; None creates a figure.

        Returns
        -------
        display : ForestDisplay

        Raises
        ------
        ValueError
            If there is no row or no panel, or a panel lacks a valid value for a row.
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
            raise ValueError(f"zero names the unknown panel {unknown[0]!r}; panels has {known}.")
        checked = {
            name: [_checked(v, name, row) for v, row in zip(values, self.rows, strict=True)]
            for name, values in self.panels.items()
        }
        self.axes_ = panels_for(ax, len(checked), self, self.rows)
        self.points_ = []
        for panel, (name, values) in zip(self.axes_, checked.items(), strict=True):
            points = {float(row): point for row, point in enumerate(values) if point is not None}
            if name in self.zero:
                panel.axvline(0.0, **ZERO_LINE)
            self.points_.append(draw_points(panel, points, 0))
            # long row names leave room for few ticks
            name_rows(panel, [wrapped_name(row) for row in self.rows], n_ticks=4)
            # panels may share their y axis, so the names are hidden, not removed
            panel.tick_params(axis="y", labelleft=panel is self.axes_[0])
            panel.set_xlabel(textwrap.fill(name, _LABEL_WIDTH), fontsize="small")
        self.figure_ = self.axes_[0].figure
        return self


def _checked(value: Any, panel: str, row: str) -> Point | None:
    """Return a value of a panel as a point, or None for an empty row."""
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
