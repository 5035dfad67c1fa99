"""What the displays share: axes, colours, legends, curves with bands, points with intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_spt._typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The Okabe-Ito colours, which are safe for colour-blind readers, without the pale yellow.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
#: Look of the vertical line at zero, behind the points.
ZERO_LINE: dict[str, Any] = {"color": "0.4", "linewidth": 1.0, "zorder": 0}
#: Maximum number of characters in a line of a row's name.
_NAME_WIDTH = 45
#: A mean and the ends of its interval, which are None if there is no interval.
Point = tuple[float, float | None, float | None]


def require_matplotlib(owner: str) -> None:
    """Raise an error that says how to install matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{owner} needs matplotlib; install it with: pip install 'sklearn-spt[plot]'"
        ) from error


def panels_for(axes: Any, n: int, display: object, rows: Sequence[str] | None = None) -> list[Axes]:
    """Return the `n` given axes, or those of a new figure.

    New axes are stacked vertically, or placed side by side if the names of their `rows` are given.
    """
    owner = type(display).__name__
    require_matplotlib(owner)
    if axes is not None:
        given = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(given) != n:
            raise ValueError(f"{owner} draws {n} panel(s), but ax holds {len(given)} axes.")
        return given
    import matplotlib.pyplot as plt

    shape = (n, 1) if rows is None else (1, n)
    size = figure_size(n) if rows is None else row_figure_size(n, rows)
    _, made = plt.subplots(
        *shape, figsize=size, layout="constrained", sharex=rows is None, squeeze=False
    )
    return list(made.ravel())


def figure_size(n_panels: int) -> tuple[float, float]:
    """Width and height in inches of stacked panels with a legend to their right."""
    return 7.5, 1.0 + 3.0 * n_panels


def row_figure_size(n_panels: int, rows: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches of panels side by side, with the names of the rows to the left."""
    most_lines = max(wrapped_name(row).count("\n") + 1 for row in rows)
    return 3.5 + 2.5 * n_panels, 1.2 + (0.14 + 0.18 * most_lines) * len(rows)


def wrapped_name(row: str) -> str:
    """Break the name of a row into lines."""
    return textwrap.fill(row, _NAME_WIDTH)


def line_style(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line; lines also differ in greyscale print."""
    turn = number // len(PALETTE)
    return {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKERS[(number + turn) % len(MARKERS)],
        "linestyle": LINES[turn % len(LINES)],
    }


def lines_so_far(ax: Axes) -> int:
    """Return the number of named lines on the axes, which sets the style of the next line."""
    return len(ax.get_legend_handles_labels()[1])


def place_legend(ax: Axes, title: str | None = None) -> None:
    """Place the legend to the right of the axes, or inside them if the figure has no layout."""
    if not lines_so_far(ax):
        return
    if ax.figure.get_layout_engine() is None:
        ax.legend(title=title, loc="best", fontsize="small")
        return
    ax.legend(
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        alignment="left",
    )


def finish(ax: Axes, legend_title: str | None = None) -> None:
    """Set ticks at whole numbers, remove two borders, draw a grid and place the legend."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    place_legend(ax, legend_title)


def as_runs(values: Any, name: str) -> FloatArray:
    """Return values as a float array of shape (n_runs, n_points); a single run may be 1-d."""
    runs = np.asarray(values, dtype=np.float64)
    runs = runs[np.newaxis] if runs.ndim == 1 else runs
    if runs.ndim != 2 or not runs.size:
        raise ValueError(f"{name} must have the shape (n_runs, n_points), got {runs.shape}.")
    return runs


def aligned(runs: Sequence[Mapping[int, float]]) -> tuple[list[int], FloatArray]:
    """Return the sorted points of all runs and one row of values for each run.

    A value is NaN where a run lacks the point.
    """
    points = sorted({point for run in runs for point in run})
    return points, np.array([[run.get(point, np.nan) for point in points] for run in runs])


def mean_and_sd(runs: FloatArray, *, partial: bool) -> tuple[FloatArray, FloatArray]:
    """Mean and sd (n - 1) of each column; the sd of a single value is NaN.

    With `partial`, each column is averaged over the runs that have a value there. Otherwise both
    are NaN where a run has no value: a curve over iterations would jump where a run ends.
    """
    valid = ~np.isnan(runs)
    n = valid.sum(axis=0)
    nans = np.full(n.shape, np.nan)
    mean = np.divide(np.where(valid, runs, 0.0).sum(axis=0), n, out=nans.copy(), where=n > 0)
    squares = (np.where(valid, runs - mean, 0.0) ** 2).sum(axis=0)
    sd = np.sqrt(np.divide(squares, n - 1, out=nans, where=n > 1))
    if not partial:
        mean[n < len(runs)] = sd[n < len(runs)] = np.nan
    return mean, sd


def count_range(counts: Collection[int]) -> str:
    """Write one count, or the smallest and largest of several."""
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def draw_curves(
    ax: Axes,
    points: Mapping[str, Any] | None,
    scores: Mapping[str, Any],
    score_name: str,
    *,
    partial: bool = False,
) -> tuple[list[Any], list[Any]]:
    """Draw a curve for each name and label the y axis; return the lines and the spreads.

    A curve is the mean over the runs, with one sd to each side; `mean_and_sd` explains `partial`.
    With ``points=None``, the points of each curve are counted from 0.
    """
    curves = {name: as_runs(runs, f"scores[{name!r}]") for name, runs in scores.items()}
    lines, spreads = [], []
    counts: set[int] = set()
    for name, runs in curves.items():
        x = np.asarray(
            np.arange(runs.shape[1]) if points is None else points[name], dtype=np.float64
        )
        mean, sd = mean_and_sd(runs, partial=partial)
        style = line_style(lines_so_far(ax))
        (line,) = ax.plot(x, mean, label=name, markersize=4.5, linewidth=1.6, **style)
        shown = np.isfinite(sd)
        spread: Any = None
        if shown.any():
            low, high = (mean - sd)[shown], (mean + sd)[shown]
            spread = ax.fill_between(
                x[shown], low, high, color=style["color"], alpha=0.15, linewidth=0
            )
        lines.append(line)
        spreads.append(spread)
        at = (~np.isnan(runs)).sum(axis=0)
        counts.update(at[at > 0].tolist() if partial else [len(runs)])
    if counts - {1}:
        score_name += f", mean ± sd of {count_range(counts)} seeds"
    ax.set_ylabel(score_name)
    return lines, spreads


def draw_points(ax: Axes, points: Mapping[float, Point], number: int, **kwargs: Any) -> Any:
    """Draw points with their intervals, by height, in the n-th style."""
    means = [mean for mean, _, _ in points.values()]
    down = [0.0 if low is None else mean - low for mean, low, _ in points.values()]
    up = [0.0 if high is None else high - mean for mean, _, high in points.values()]
    return ax.errorbar(
        means,
        list(points),
        xerr=[down, up],
        markersize=5,
        capsize=2,
        elinewidth=1.2,
        **line_style(number) | {"linestyle": "none"},
        **kwargs,
    )


def name_rows(ax: Axes, names: Sequence[str], n_ticks: int) -> None:
    """Name the rows from top to bottom, and limit the number of ticks below them."""
    from matplotlib.ticker import MaxNLocator

    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=n_ticks))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def offsets(n: int, spread: float) -> FloatArray:
    """Offsets of `n` points side by side around a common place, so that none hides another."""
    return (np.arange(n) - (n - 1) / 2) * spread / n
