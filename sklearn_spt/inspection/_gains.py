"""Gain of methods over one of them, by data set: paired differences with their intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_option, check_real
from sklearn_spt.inspection._grouping import Record, distinct, finished, finite, grouped
from sklearn_spt.inspection._score_names import CALIBRATION, SCORE_NAMES
from sklearn_spt.inspection._style import (
    axes_for,
    figure_of,
    line_style,
    place_legend,
    row_style,
)
from sklearn_spt.model_selection._intervals import mean_with_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Share of the height of a data set over which its methods are spread.
_SPREAD = 0.7
#: Characters of the axis label: the axes are about as wide.
_LABEL_WIDTH = 52


def paired(ours: Sequence[Record], theirs: Sequence[Record], metric: str = "f1") -> list[float]:
    """Differences of a score over the seeds that both groups of records have, by seed."""
    first, second = (
        {r["cell"]["seed"]: finite(r, r.get("scores") or {}, metric, "scores") for r in group}
        for group in (ours, theirs)
    )
    return [first[seed] - second[seed] for seed in sorted(set(first) & set(second))]


def _checked(values: Any, name: str, method: str) -> FloatArray:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise ValueError(
            f"gains[{name!r}][{method!r}] must hold one finite difference for each seed, got "
            f"{values!r}."
        )
    return found


class GainDisplay:
    """Gain of each method over one of them: a point and an interval for each data set.

    Make it with `from_records`; the constructor takes differences of one's own.

    Parameters
    ----------
    gains : dict of dict of array-like
        Data set -> method -> differences of shape (n_seeds,).
    against : str
        Name of the method that the others are compared with.
    score_name : str, default="F1"
        What the scores are.
    less_is_better : bool, default=False
        Whether they are errors, whose differences are called changes, not gains.

    Attributes
    ----------
    points_ : list of matplotlib.container.ErrorbarContainer
        One for each method.
    ax_ : matplotlib.axes.Axes
        Where it is drawn.
    figure_ : matplotlib.figure.Figure
        The figure of the axes.

    Examples
    --------
    >>> from sklearn_spt.inspection import GainDisplay
    >>> display = GainDisplay(gains={"tweets": {"new": [0.02, 0.05, 0.03]}}, against="old")
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        gains: Mapping[str, Mapping[str, Any]],
        against: str,
        score_name: str = "F1",
        less_is_better: bool = False,
    ) -> None:
        self.gains = gains
        self.against = against
        self.score_name = score_name
        self.less_is_better = less_is_better

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        against: str = "baseline",
        metric: str = "f1",
        labels: Mapping[Any, str] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> GainDisplay:
        """Draw records of experiments, a row for each data set and number of labelled texts.

        Parameters
        ----------
        records : iterable of dict
            Records of cells; failed ones are left out.
        against : str, default="baseline"
            Method that the others are compared with, over the seeds that both have.
        metric : str, default="f1"
            ``"f1"``, ``"precision"``, ``"recall"``, ``"accuracy"`` or ``"macro_f1"``; or, of which
            less is better, ``"brier"`` or ``"ece"`` (the expected calibration error).
        labels : dict or None, default=None
            Method -> its name in the legend.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : GainDisplay
            Drawn.

        Raises
        ------
        ValueError
            If no data set has `against` and another method with a common seed, or cells of
            different settings would be mixed.
        """
        names_of_scores = {**SCORE_NAMES, **CALIBRATION}
        check_option(metric, "metric", names_of_scores)
        found = finished(records, "the gains")
        blocks = distinct((r["cell"]["dataset"], r["cell"]["n_labeled"]) for r in found)
        several = len({n for _, n in blocks}) > 1
        names = dict(labels or {})
        if len(set(names.values())) < len(names):
            raise ValueError("labels must give each method a name of its own.")
        methods = distinct([*names, *sorted({r["cell"]["method"] for r in found})])
        order = {method: place for place, method in enumerate(methods)}
        gains: dict[str, dict[str, list[float]]] = {}
        for dataset, n in blocks:
            here = [
                r for r in found if (r["cell"]["dataset"], r["cell"]["n_labeled"]) == (dataset, n)
            ]
            _, groups = grouped(here, "method")
            theirs = groups.pop(against, [])
            of_block = {
                names.get(method, method): differences
                for method in sorted(groups, key=lambda method: order[method])
                if (differences := paired(groups[method], theirs, metric))
            }
            if of_block:
                gains[f"{dataset}, {n:,} labelled" if several else dataset] = of_block
        if not gains:
            there = ", ".join(distinct(r["cell"]["method"] for r in found))
            raise ValueError(
                f"no data set has records of against={against!r} and of another method for the "
                f"same seed; there are those of {there}."
            )
        display = cls(
            gains=gains,
            against=names.get(against, against),
            score_name=names_of_scores[metric],
            less_is_better=metric in CALIBRATION,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        confidence: float = 0.95,
        marker_kw: Mapping[str, Any] | None = None,
    ) -> GainDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        confidence : float in (0, 1), default=0.95
            Coverage of the intervals of the means, which are Student's. A single difference has
            none.
        marker_kw : dict or None, default=None
            To ``matplotlib.axes.Axes.errorbar``, for all points.

        Returns
        -------
        display : GainDisplay
            This object.
        """
        check_real(confidence, "confidence", low=0, high=1, closed="neither")
        checked = {
            name: {method: _checked(values, name, method) for method, values in of_block.items()}
            for name, of_block in self.gains.items()
        }
        if not checked:
            raise ValueError("gains must hold at least one data set.")
        ax = axes_for(ax, type(self).__name__)
        methods = distinct(method for of_block in self.gains.values() for method in of_block)
        rows = list(self.gains)
        offsets = (np.arange(len(methods)) - (len(methods) - 1) / 2) * _SPREAD / len(methods)
        self.points_ = []
        for number, (method, offset) in enumerate(zip(methods, offsets, strict=True)):
            x, y, down, up = [], [], [], []
            for row, name in enumerate(rows):
                if method not in self.gains[name]:
                    continue
                values = checked[name][method]
                mean, low, high = mean_with_interval(values, confidence)
                x.append(mean)
                y.append(row + offset)
                down.append(0.0 if low is None else mean - low)
                up.append(0.0 if high is None else high - mean)
            style = line_style(number)
            given: dict[str, Any] = {
                "color": style["color"],
                "marker": style["marker"],
                "linestyle": "none",
                "markersize": 5,
                "capsize": 2,
                "elinewidth": 1.2,
                "label": method,
                **(marker_kw or {}),
            }
            self.points_.append(ax.errorbar(x, y, xerr=[down, up], **given))
        ax.axvline(0.0, color="0.4", linewidth=1.0, zorder=0)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        row_style(ax)
        counts = sorted({len(v) for of_block in checked.values() for v in of_block.values()})
        among = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        shown = f": mean of {among} seeds, {100 * confidence:g}% interval"
        change = (
            f"change of {self.score_name} (less is better) against {self.against}"
            if self.less_is_better
            else f"gain of {self.score_name} over {self.against}"
        )
        ax.set_xlabel(textwrap.fill(change if counts == [1] else change + shown, _LABEL_WIDTH))
        ax.set_ylabel("data set")
        place_legend(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        return self
