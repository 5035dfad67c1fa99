"""Gains of methods over a reference method: paired differences with intervals, by data set."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_option
from sklearn_spt.inspection._display import Display
from sklearn_spt.inspection._grouping import (
    CALIBRATION,
    SCORE_NAMES,
    Record,
    distinct,
    finished,
    finite,
    grouped,
)
from sklearn_spt.inspection._style import (
    ZERO_LINE,
    count_range,
    draw_points,
    name_rows,
    offsets,
    place_legend,
)
from sklearn_spt.model_selection._intervals import mean_with_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Coverage of intervals over seeds or data sets.
CONFIDENCE = 0.95
#: Share of a row's height over which the methods are spread.
_SPREAD = 0.7
#: Maximum number of characters in a line of the axis label, which fits the width of the axes.
_LABEL_WIDTH = 52


def paired(ours: Sequence[Record], theirs: Sequence[Record], metric: str = "f1") -> list[float]:
    """Differences of a score, sorted by seed, over the seeds that both groups have."""
    first, second = (
        {r["cell"]["seed"]: finite(r, r.get("scores") or {}, metric, "scores") for r in group}
        for group in (ours, theirs)
    )
    return [first[seed] - second[seed] for seed in sorted(set(first) & set(second))]


@dataclass(kw_only=True, eq=False, repr=False)
class GainDisplay(Display):
    """Gain of each method over a reference method: a point and an interval for each data set.

    Use `from_records` to create it. The constructor takes other differences. The intervals of the
    means have a coverage of 95% and use Student's t distribution. A single difference has none.

    Parameters
    ----------
    gains : dict of dict of array-like
        Data set -> method -> differences of shape (n_seeds,).
    against : str
        Name of the reference method.
    score_name : str, default="F1"
        Name of the score in the axis label. The label says change instead of gain if it is
        "Brier score" or "calibration error", of which less is better.

    Attributes
    ----------
    points_ : list of matplotlib.container.ErrorbarContainer
        The points of each method.
    ax_, figure_ : matplotlib.axes.Axes and matplotlib.figure.Figure
        The axes and their figure.

    Examples
    --------
    >>> from sklearn_spt.inspection import GainDisplay
    >>> display = GainDisplay(gains={"tweets": {"new": [0.02, 0.05, 0.03]}}, against="old")
    >>> display.plot()  # doctest: +SKIP
    """

    gains: Mapping[str, Mapping[str, Any]]
    against: str
    score_name: str = "F1"

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        against: str = "baseline",
        metric: str = "f1",
        labels: Mapping[Any, str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw records of experiments, with a row for each data set and number of labelled texts.

        Parameters
        ----------
        records : iterable of dict
            Records of cells. Failed ones are left out.
        against : str, default="baseline"
            Reference method. Differences are over the seeds that both methods have.
        metric : str, default="f1"
            ``"f1"``, ``"precision"``, ``"recall"``, ``"accuracy"`` or ``"macro_f1"``; or one of the
            errors ``"brier"`` and ``"ece"`` (the expected calibration error).
        labels : dict or None, default=None
            Method -> its name in the legend.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; see `plot`.

        Returns
        -------
        display : GainDisplay

        Raises
        ------
        ValueError
            If no data set has `against` and another method with a common seed, or the cells of a
            data set differ in their settings.
        """
        names_of_scores = {**SCORE_NAMES, **CALIBRATION}
        check_option(metric, "metric", names_of_scores)
        names = dict(labels or {})
        if len(set(names.values())) < len(names):
            raise ValueError("labels must give each method a different name.")
        found = finished(records, "the gains")
        blocks: dict[tuple[str, int], list[Record]] = {}
        for record in found:
            cell = record["cell"]
            blocks.setdefault((cell["dataset"], cell["n_labeled"]), []).append(record)
        several_sizes = len({n for _, n in blocks}) > 1
        methods = sorted({record["cell"]["method"] for record in found})
        gains: dict[str, dict[str, list[float]]] = {}
        for (dataset, n), block in blocks.items():
            _, groups = grouped(block, "method")
            theirs = groups.pop(against, [])
            of_block = {
                names.get(method, method): differences
                for method in distinct([*names, *methods])
                if (differences := paired(groups.get(method, []), theirs, metric))
            }
            if of_block:
                gains[f"{dataset}, {n:,} labelled" if several_sizes else dataset] = of_block
        if not gains:
            raise ValueError(
                f"no data set has records of against={against!r} and of another method for the "
                f"same seed; there are records of {', '.join(methods)}."
            )
        return cls(
            gains=gains,
            against=names.get(against, against),
            score_name=names_of_scores[metric],
        ).plot(ax)

    def __post_init__(self) -> None:
        self.gains = {
            name: {method: _checked(values, name, method) for method, values in of_block.items()}
            for name, of_block in self.gains.items()
        }
        if not self.gains:
            raise ValueError("gains must hold at least one data set.")

    def _draw(self, ax: Axes) -> None:
        methods = distinct(method for of_block in self.gains.values() for method in of_block)
        self.points_ = []
        for number, (method, offset) in enumerate(
            zip(methods, offsets(len(methods), _SPREAD), strict=True)
        ):
            points = {
                row + offset: mean_with_interval(of_block[method], CONFIDENCE)
                for row, of_block in enumerate(self.gains.values())
                if method in of_block
            }
            self.points_.append(draw_points(ax, points, number, label=method))
        ax.axvline(0.0, **ZERO_LINE)
        name_rows(ax, list(self.gains), n_ticks=5)
        label = (
            f"change of {self.score_name} (less is better) against {self.against}"
            if self.score_name in CALIBRATION.values()
            else f"gain of {self.score_name} over {self.against}"
        )
        counts = {len(values) for of_block in self.gains.values() for values in of_block.values()}
        if counts != {1}:
            label += f": mean of {count_range(counts)} seeds, {CONFIDENCE:.0%} interval"
        ax.set_xlabel(textwrap.fill(label, _LABEL_WIDTH))
        ax.set_ylabel("data set")
        place_legend(ax)


def _checked(values: Any, name: str, method: str) -> FloatArray:
    """Return the differences of a method as an array of shape (n_seeds,)."""
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise ValueError(
            f"gains[{name!r}][{method!r}] must hold one finite difference for each seed, got "
            f"{values!r}."
        )
    return found
