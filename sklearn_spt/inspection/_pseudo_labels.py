"""Pseudo-labels over the iterations: counts of each class, and the effect of inertia."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import last_step
from sklearn_spt.inspection._grouping import Record, distinct, finished, grouped
from sklearn_spt.inspection._style import (
    as_runs,
    draw_curves,
    finish,
    line_style,
    offsets,
    panels_for,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class PseudoLabelDisplay:
    """Pseudo-labels of each class over the iterations of a semi-supervised fit.

    The upper panel counts them. The lower panel exists only for Self-Pretraining with inertia. It
    shows the probability (at temperature T) that texts give to their own pseudo-label, as mean
    ± sd over the texts of each class, before and after inertia.

    Parameters
    ----------
    iterations : array-like of shape (n_iterations,)
        Iteration numbers. The supervised start has no pseudo-labels.
    counts : dict of array-like
        Class -> numbers of its pseudo-labels, of shape (n_runs, n_iterations) or (n_iterations,).
    before, after : dict of tuple of array-like or None, default=None
        Class -> (means, variances) of its probabilities before and after inertia, each of the shape
        of the counts. Use NaN where no text has the class.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        The counts of each class.
    errorbars_ : list of matplotlib.container.ErrorbarContainer
        The distributions: for each class before inertia, then after it.
    axes_ : list of matplotlib.axes.Axes
        The panels.
    ax_, figure_ : matplotlib.axes.Axes and matplotlib.figure.Figure
        The first panel and its figure.

    Examples
    --------
    >>> from sklearn_spt.inspection import PseudoLabelDisplay
    >>> display = PseudoLabelDisplay(iterations=[1, 2], counts={"no": [80, 150], "yes": [20, 50]})
    >>> display.plot()  # doctest: +SKIP
    """

    iterations: Any
    counts: Mapping[str, Any]
    before: Mapping[str, tuple[Any, Any]] | None = None
    after: Mapping[str, tuple[Any, Any]] | None = None

    @classmethod
    def from_estimator(cls, clf: Any, *, ax: Any = None) -> PseudoLabelDisplay:
        """Draw the ``history_`` of a fitted classifier.

        Parameters
        ----------
        clf : estimator
            A fitted semi-supervised classifier of this package.
        ax : matplotlib.axes.Axes, sequence of these, or None, default=None
            Where to draw, as in `plot`.

        Returns
        -------
        display : PseudoLabelDisplay

        Raises
        ------
        ValueError
            If there was no iteration.
        """
        clf = last_step(clf)
        check_is_fitted(clf, "history_")
        what = f"history_ of this {type(clf).__name__}"
        return cls._from_histories([clf.history_], {}, what).plot(ax)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        class_names: Mapping[Any, str] | None = None,
        ax: Any = None,
    ) -> PseudoLabelDisplay:
        """Draw the mean over records of experiments that differ in their seed only.

        Parameters
        ----------
        records : iterable of dict
            Records of cells. Failed ones are left out.
        class_names : dict or None, default=None
            Class label (a string, as in JSON) -> its name in the legend; None shows the labels.
        ax : matplotlib.axes.Axes, sequence of these, or None, default=None
            Where to draw; see `plot`.

        Returns
        -------
        display : PseudoLabelDisplay

        Raises
        ------
        ValueError
            If the records differ in more than their seed, or hold no pseudo-labels.
        """
        by, groups = grouped(finished(records, "the pseudo-labels"))
        if len(groups) > 1:
            values = ", ".join(map(str, groups))
            raise ValueError(
                f"the records must differ in their seed only, but differ in {by} ({values}); "
                f"select one, as with --select {by}=value."
            )
        (group,) = groups.values()
        histories = [record.get("history") or [] for record in group]
        what = "the history of these records"
        return cls._from_histories(histories, class_names or {}, what).plot(ax)

    @classmethod
    def _from_histories(
        cls,
        histories: Sequence[Sequence[Mapping[str, Any]]],
        class_names: Mapping[Any, str],
        what: str,
    ) -> PseudoLabelDisplay:
        """Collect the numbers of some histories; `what` names them in an error."""
        runs = [
            {e["iteration"]: e for e in history if e["iteration"] and e.get("pseudo_label_counts")}
            for history in histories
        ]
        points = sorted({t for run in runs for t in run})
        if not points:
            raise ValueError(
                f"{what} holds no pseudo-labels: there was no iteration, or the method creates "
                "none."
            )
        entries = [entry for run in runs for entry in run.values()]
        labels = distinct(label for entry in entries for label in entry["pseudo_label_counts"])

        def collected(key: str, field: str | None = None) -> dict[str, FloatArray]:
            return {
                str(class_names.get(label, label)): np.array(
                    [[_number(run.get(t), key, label, field) for t in points] for run in runs]
                )
                for label in labels
            }

        def distributions(key: str) -> dict[str, tuple[FloatArray, FloatArray]] | None:
            if not any(entry.get("groups_before") for entry in entries):
                return None
            means, variances = collected(key, "mean"), collected(key, "variance")
            return {name: (means[name], variances[name]) for name in means}

        return cls(
            iterations=points,
            counts=collected("pseudo_label_counts"),
            before=distributions("groups_before"),
            after=distributions("groups_after"),
        )

    def plot(self, ax: Any = None) -> PseudoLabelDisplay:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, sequence of these, or None, default=None
            Where to draw, one for each panel; None creates a figure.

        Returns
        -------
        display : PseudoLabelDisplay
        """
        panels = panels_for(ax, 2 if self.before else 1, self)
        self._plot_counts(panels[0])
        self.errorbars_: list[Any] = []
        if self.before:
            self._plot_distributions(panels[1])
        for panel in panels:
            finish(panel, "pseudo-label")
        shared = panels[0].get_shared_x_axes().joined(panels[0], panels[-1])
        for panel in panels[-1:] if shared else panels:
            panel.set_xlabel("iteration")
        self.axes_, self.ax_, self.figure_ = panels, panels[0], panels[0].figure
        return self

    def _plot_counts(self, ax: Axes) -> None:
        """Draw a curve for each class."""
        curves = {name: as_runs(runs, f"counts[{name!r}]") for name, runs in self.counts.items()}
        points = dict.fromkeys(curves, self.iterations)
        self.lines_, _ = draw_curves(ax, points, curves, "texts")
        ax.set_ylim(bottom=0.0)

    def _plot_distributions(self, ax: Axes) -> None:
        """Draw points with error bars for each class, before and after inertia."""
        x = np.asarray(self.iterations, dtype=np.float64)
        groups = {"before": self.before or {}, "after": self.after or {}}
        series = [(name, when) for name in groups["before"] for when in groups]
        for i, ((name, when), offset) in enumerate(
            zip(series, offsets(len(series), 0.6), strict=True)
        ):
            style = line_style(i // 2) | {"linestyle": "none"}
            if when == "before":
                style["markerfacecolor"] = "white"
            means, variances = groups[when][name]
            bars = ax.errorbar(
                x + offset,
                as_runs(means, name).mean(axis=0),
                np.sqrt(as_runs(variances, name).mean(axis=0)),
                label=f"{name}, {when} inertia",
                markersize=5,
                capsize=2.5 if len(x) <= 10 else 0,
                elinewidth=1.1,
                **style,
            )
            self.errorbars_.append(bars)
        ax.set_ylabel("probability of the pseudo-label,\nmean ± sd over the texts")


def _number(entry: Any, key: str, label: Any, field: str | None) -> float:
    """Return a number of a history's entry, or NaN if it is missing."""
    found = ((entry or {}).get(key) or {}).get(label)
    if field is not None and found is not None:
        found = found.get(field)
    return float("nan") if found is None else float(found)
