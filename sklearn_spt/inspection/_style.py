"""What the displays share: axes, colours, legends, and a curve with its spread."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Colours of Okabe and Ito, which colour-blind readers tell apart; without the pale yellow.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")
#: Characters of a line of a row's name.
_NAME_WIDTH = 45


def require_matplotlib(owner: str) -> None:
    """Raise an error that says how to get matplotlib, if it is not there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{owner} needs matplotlib; install it with: pip install 'sklearn-spt[plot]'"
        ) from error


def axes_for(ax: Axes | None, owner: str) -> Axes:
    """Return the given axes, or the axes of a new figure."""
    return panels_for(None if ax is None else [ax], 1, owner)[0]


def panels_for(axes: Any, n: int, owner: str) -> list[Axes]:
    """Return `n` given axes, or those of a new figure, one above the other."""
    require_matplotlib(owner)
    if axes is not None:
        given = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(given) != n:
            raise ValueError(f"{owner} draws {n} panel(s), but ax holds {len(given)} axes.")
        return given
    import matplotlib.pyplot as plt

    _, made = plt.subplots(
        n, 1, figsize=figure_size(n), layout="constrained", sharex=True, squeeze=False
    )
    return list(made[:, 0])


def row_panels_for(axes: Any, n: int, rows: Sequence[str], owner: str) -> list[Axes]:
    """Return `n` given axes, or those of a new figure, side by side, with room for the rows."""
    require_matplotlib(owner)
    if axes is not None:
        return panels_for(axes, n, owner)
    import matplotlib.pyplot as plt

    size = row_figure_size(n, rows)
    _, made = plt.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
    return list(made[0])


def row_figure_size(n_panels: int, rows: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches of panels side by side, whose rows are named to their left."""
    most_lines = max(wrapped_name(row).count("\n") + 1 for row in rows)
    return 3.5 + 2.5 * n_panels, 1.2 + (0.14 + 0.18 * most_lines) * len(rows)


def wrapped_name(row: str) -> str:
    """Break the name of a row into lines that leave room for the panels."""
    return textwrap.fill(row, _NAME_WIDTH)


def row_style(ax: Axes) -> None:
    """Let rows be found by their names, and keep the numbers below them apart."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def figure_size(n_panels: int = 1) -> tuple[float, float]:
    """Width and height in inches: room for the legend beside the axes."""
    return 7.5, 1.0 + 3.0 * n_panels


def figure_of(ax: Axes) -> Figure:
    """Figure that the axes stand in."""
    return ax.figure  # type: ignore[return-value]


def line_style(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line: told apart also in grey print."""
    turn = number // len(PALETTE)
    return {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKERS[(number + turn) % len(MARKERS)],
        "linestyle": LINES[turn % len(LINES)],
    }


def lines_so_far(ax: Axes) -> int:
    """Lines with a name that the axes have: the next one gets the next style."""
    return len(ax.get_legend_handles_labels()[1])


def place_legend(ax: Axes, title: str | None = None) -> None:
    """Name the lines beside the axes, where a legend can hide nothing.

    A figure whose layout makes no room for it gets the legend inside the axes.
    """
    if not lines_so_far(ax):
        return
    if figure_of(ax).get_layout_engine() is None:
        ax.legend(title=title, loc="best", fontsize="small")
        return
    legend = ax.legend(
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize="small",
        alignment="left",
    )
    legend.set_in_layout(True)


def tidy(ax: Axes) -> None:
    """Take away what carries no number."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)


def whole_numbers(ax: Axes) -> None:
    """Let the ticks of the x axis be whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))


def mean_and_sd(runs: FloatArray, *, partial: bool = False) -> tuple[FloatArray, FloatArray]:
    """Mean and sd (n - 1) of each column; the sd of a single run is NaN.

    Where a run has no value, both are NaN: along a curve over iterations, a mean over those runs
    only that got so far would jump where one of them ends. With `partial` they are over the runs
    that have one.
    """
    there = ~np.isnan(runs)
    n = there.sum(axis=0)
    none = np.full(n.shape, np.nan)
    mean = np.divide(np.where(there, runs, 0.0).sum(axis=0), n, out=none.copy(), where=n > 0)
    squares = (np.where(there, runs - mean, 0.0) ** 2).sum(axis=0)
    sd = np.sqrt(np.divide(squares, n - 1, out=none, where=n > 1))
    if not partial:
        mean[n < len(runs)] = sd[n < len(runs)] = np.nan
    return mean, sd


def as_runs(values: Any, name: str) -> FloatArray:
    """Return scores as a float array of shape (n_runs, n_points); one run may be a plain list."""
    runs = np.asarray(values, dtype=np.float64)
    runs = runs[np.newaxis] if runs.ndim == 1 else runs
    if runs.ndim != 2 or not runs.size:
        raise ValueError(f"{name} must have the shape (n_runs, n_points), got {runs.shape}.")
    return runs


def stacked(runs: Sequence[Mapping[Any, float]], points: Sequence[Any]) -> FloatArray:
    """Put runs into the rows of an array, by point; NaN where a run lacks a point."""
    return np.array([[run.get(point, np.nan) for point in points] for run in runs])


def run_counts(
    curves: Mapping[str, FloatArray], std_display_style: str | None, *, partial: bool = False
) -> str:
    """Say over how many seeds the means are, for a label; "" for single runs."""
    counts = sorted({len(runs) for runs in curves.values()})
    if partial:
        at = np.concatenate([(~np.isnan(runs)).sum(axis=0) for runs in curves.values()])
        counts = sorted(set(at[at > 0].tolist()))
    if counts == [1]:
        return ""
    among = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    spread = " ± sd" if std_display_style else ""
    return f", mean{spread} of {among} seeds"


def draw_curve(
    ax: Axes,
    x: FloatArray,
    runs: FloatArray,
    name: str,
    *,
    std_display_style: str | None,
    line_kw: Mapping[str, Any] | None = None,
    partial: bool = False,
) -> tuple[Any, Any]:
    """Draw the mean of some runs, and one sd to each side; return the line and the spread.

    See `mean_and_sd` for `partial`.
    """
    if std_display_style is not None:
        check_option(std_display_style, "std_display_style", ("fill_between", "errorbar"))
    mean, sd = mean_and_sd(runs, partial=partial)
    style: dict[str, Any] = {"label": name, "markersize": 4.5, "linewidth": 1.6}
    style |= {**line_style(lines_so_far(ax)), **(line_kw or {})}
    (line,) = ax.plot(x, mean, **style)
    shown = np.isfinite(sd)
    spread: Any = None
    if shown.any() and std_display_style == "fill_between":
        band: dict[str, Any] = {"color": line.get_color(), "alpha": 0.15, "linewidth": 0}
        spread = ax.fill_between(x[shown], (mean - sd)[shown], (mean + sd)[shown], **band)
    elif shown.any() and std_display_style == "errorbar":
        bars: dict[str, Any] = {
            "color": line.get_color(),
            "capsize": 3,
            "elinewidth": 1.0,
            "fmt": "none",
        }
        spread = ax.errorbar(x[shown], mean[shown], sd[shown], **bars)
    return line, spread


def draw_curves(
    ax: Axes,
    points: Mapping[str, Any] | None,
    scores: Mapping[str, Any],
    **kwargs: Any,
) -> tuple[dict[str, FloatArray], list[Any], list[Any]]:
    """Draw one curve a name, see `draw_curve`; return the runs, the lines and the spreads.

    ``points=None`` counts the points of each curve from 0.
    """
    curves = {name: as_runs(runs, f"scores[{name!r}]") for name, runs in scores.items()}
    lines, spreads = [], []
    for name, runs in curves.items():
        x = np.arange(runs.shape[1]) if points is None else points[name]
        line, spread = draw_curve(ax, np.asarray(x, dtype=np.float64), runs, name, **kwargs)
        lines.append(line)
        spreads.append(spread)
    return curves, lines, spreads
