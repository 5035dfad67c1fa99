"""Pseudo-labels over the iterations: how many of each class, and what inertia did to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_flag, check_option
from sklearn_spt.inspection._grouping import Record, finished, grouped
from sklearn_spt.inspection._style import (
    as_runs,
    draw_curve,
    figure_of,
    line_style,
    panels_for,
    place_legend,
    run_counts,
    tidy,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = ("counts", "distributions")
#: Class -> its values, of shape (n_runs, n_iterations).
ByClass = Mapping[str, Any]


class PseudoLabelDisplay:
    """Pseudo-labels of each class over the iterations of a semi-supervised fit.

    The upper panel counts them. The lower one, which only Self-Pretraining with inertia has, shows
    the class distributions that inertia works on: the probability (at temperature T) that texts
    give to their own pseudo-label, as mean ± sd over the texts of each class, before and after.

    Parameters
    ----------
    iterations : array-like of shape (n_iterations,)
        Their numbers; there are no pseudo-labels at the supervised start.
    counts : dict of array-like
        Class -> pseudo-labels of it, of shape (n_runs, n_iterations) or (n_iterations,).
    before, after : dict of tuple of array-like or None, default=None
        Class -> (means, variances) of its distribution before and after inertia, each of the shape
        of the counts; NaN where no text was given to the class.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        The counts, one line a class.
    errorbars_ : list of matplotlib.container.ErrorbarContainer
        The distributions: for each class that before inertia, then that after it.
    axes_ : list of matplotlib.axes.Axes
        The panels.
    ax_ : matplotlib.axes.Axes
        The first of them.
    figure_ : matplotlib.figure.Figure
        The figure of the axes.

    Examples
    --------
    >>> from sklearn_spt.inspection import PseudoLabelDisplay
    >>> display = PseudoLabelDisplay(iterations=[1, 2], counts={"no": [80, 150], "yes": [20, 50]})
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        iterations: Any,
        counts: ByClass,
        before: Mapping[str, tuple[Any, Any]] | None = None,
        after: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> None:
        self.iterations = iterations
        self.counts = counts
        self.before = before
        self.after = after

    @classmethod
    def from_estimator(
        cls,
        clf: Any,
        *,
        class_names: Mapping[Any, str] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> PseudoLabelDisplay:
        """Draw what a fitted classifier noted down in ``history_``.

        Parameters
        ----------
        clf : estimator
            A fitted semi-supervised classifier of this package.
        class_names : dict or None, default=None
            Class label -> its name in the legend; None shows the labels.
        ax : matplotlib.axes.Axes, sequence of these, or None, default=None
            One for each panel; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : PseudoLabelDisplay
            Drawn.

        Raises
        ------
        ValueError
            If there was no iteration.
        """
        check_is_fitted(clf, "history_")
        kind = type(clf).__name__
        return cls._from_histories([clf.history_], class_names, f"history_ of this {kind}").plot(
            ax, **kwargs
        )

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        class_names: Mapping[Any, str] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> PseudoLabelDisplay:
        """Draw records of one condition: the mean over seeds, and their sd in the upper panel.

        Parameters
        ----------
        records : iterable of dict
            Records of cells that differ in their seed alone. Failed ones are left out.
        class_names : dict or None, default=None
            Class label (as a string, since JSON has no other keys) -> its name in the legend.
        ax : matplotlib.axes.Axes, sequence of these, or None, default=None
            One for each panel; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : PseudoLabelDisplay
            Drawn.

        Raises
        ------
        ValueError
            If the records differ in more than their seed, or hold no pseudo-labels.
        """
        by, groups = grouped(finished(records, "the pseudo-labels"))
        if len(groups) > 1:
            raise ValueError(
                f"one figure shows one condition, but the records differ in {by} "
                f"({', '.join(map(str, groups))}); select one, as with where={{{by!r}: value}} "
                f"(--select {by}=value)."
            )
        (group,) = groups.values()
        histories = [record.get("history") or [] for record in group]
        return cls._from_histories(histories, class_names, "these records' history").plot(
            ax, **kwargs
        )

    @classmethod
    def _from_histories(
        cls,
        histories: Sequence[Sequence[Mapping[str, Any]]],
        class_names: Mapping[Any, str] | None,
        what: str,
    ) -> PseudoLabelDisplay:
        runs = [
            {entry["iteration"]: entry for entry in history if entry.get("pseudo_label_counts")}
            for history in histories
        ]
        points = sorted({t for run in runs for t in run})
        if not points:
            raise ValueError(
                f"{what} holds no pseudo-labels: there was no iteration, or the method gives none."
            )
        labels = list(
            dict.fromkeys(
                label for run in runs for e in run.values() for label in e["pseudo_label_counts"]
            )
        )
        names = {label: str((class_names or {}).get(label, label)) for label in labels}

        def collected(key: str, field: str | None) -> dict[str, FloatArray]:
            return {
                names[label]: np.array(
                    [[_number(run.get(t), key, label, field) for t in points] for run in runs]
                )
                for label in labels
            }

        has_groups = any(entry.get("groups_before") for run in runs for entry in run.values())

        def distributions(key: str) -> dict[str, tuple[FloatArray, FloatArray]] | None:
            means, variances = collected(key, "mean"), collected(key, "variance")
            return {name: (means[name], variances[name]) for name in means} if has_groups else None

        return cls(
            iterations=points,
            counts=collected("pseudo_label_counts", None),
            before=distributions("groups_before"),
            after=distributions("groups_after"),
        )

    def plot(
        self,
        ax: Any = None,
        *,
        kind: str | None = None,
        share: bool = False,
        std_display_style: str | None = "fill_between",
    ) -> PseudoLabelDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, sequence of these, or None, default=None
            One for each panel; None makes a figure.
        kind : {"counts", "distributions"} or None, default=None
            One panel alone; None draws all that there are numbers for.
        share : bool, default=False
            Whether counts are drawn as a share of all pseudo-labels of the iteration.
        std_display_style : {"fill_between", "errorbar"} or None, default="fill_between"
            How the spread of the counts over seeds is shown.

        Returns
        -------
        display : PseudoLabelDisplay
            This object.
        """
        check_flag(share, "share")
        if kind is not None:
            check_option(kind, "kind", PANELS)
        if kind == "distributions" and not self.before:
            raise ValueError(
                "there are no class distributions to draw: the method has no inertia, or ran "
                "without distillation; use kind='counts'."
            )
        kinds = [kind] if kind else list(PANELS if self.before else PANELS[:1])
        panels = panels_for(ax, len(kinds), type(self).__name__)
        self.lines_: list[Any] = []
        self.errorbars_: list[Any] = []
        for panel, one in zip(panels, kinds, strict=True):
            if one == "counts":
                self._plot_counts(panel, share, std_display_style)
            else:
                self._plot_distributions(panel)
            whole_numbers(panel)
            tidy(panel)
            place_legend(panel, "pseudo-label")
        shared = panels[0].get_shared_x_axes().joined(panels[0], panels[-1])
        for panel in panels[-1:] if shared else panels:
            panel.set_xlabel("iteration")
        self.axes_, self.ax_, self.figure_ = panels, panels[0], figure_of(panels[0])
        return self

    def _plot_counts(self, ax: Axes, share: bool, std_display_style: str | None) -> None:
        curves = {name: as_runs(runs, f"counts[{name!r}]") for name, runs in self.counts.items()}
        if share:
            total = np.sum(list(curves.values()), axis=0)
            total[total == 0.0] = np.nan  # no share of nothing
            curves = {name: 100.0 * runs / total for name, runs in curves.items()}
        x = np.asarray(self.iterations, dtype=np.float64)
        for name, runs in curves.items():
            line, _ = draw_curve(ax, x, runs, name, std_display_style=std_display_style)
            self.lines_.append(line)
        ax.set_ylim(bottom=0.0)
        ax.set_ylabel(
            ("share of texts (%)" if share else "texts") + run_counts(curves, std_display_style)
        )

    def _plot_distributions(self, ax: Axes) -> None:
        assert self.before is not None
        assert self.after is not None
        x = np.asarray(self.iterations, dtype=np.float64)
        series = [
            (name, when, groups[name])
            for name in self.before
            for when, groups in (("before", self.before), ("after", self.after))
        ]
        # side by side around each iteration, so that no bar hides another
        offsets = (np.arange(len(series)) - (len(series) - 1) / 2) * 0.6 / len(series)
        for i, ((name, when, (means, variances)), offset) in enumerate(
            zip(series, offsets, strict=True)
        ):
            style = line_style(i // 2) | {"linestyle": "none"}
            if when == "before":
                style["markerfacecolor"] = "white"
            mean = as_runs(means, name).mean(axis=0)
            sd = np.sqrt(as_runs(variances, name).mean(axis=0))
            bars = ax.errorbar(
                x + offset,
                mean,
                sd,
                label=f"{name}, {when} inertia",
                markersize=5,
                capsize=2.5 if len(x) <= 10 else 0,
                elinewidth=1.1,
                **style,
            )
            self.errorbars_.append(bars)
        ax.set_ylabel("probability of the pseudo-label,\nmean ± sd over the texts")


def _number(entry: Any, key: str, label: Any, field: str | None) -> float:
    """Return a number of a history's entry, NaN where there is none."""
    found = ((entry or {}).get(key) or {}).get(label)
    if field is not None and found is not None:
        found = found.get(field)
    return float("nan") if found is None else float(found)
