"""Learning rate over the optimiser steps: the paper's figure on the right-trapezoidal schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_integer, last_step
from sklearn_spt.inspection._display import Display
from sklearn_spt.inspection._style import (
    LINES,
    PALETTE,
    finish,
    line_style,
    lines_so_far,
)
from sklearn_spt.nets._schedules import right_trapezoidal, slanted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class LearningRateDisplay(Display):
    """Learning rate at each optimiser step of one student's training.

    Use `from_estimator` or `from_schedule` to create it. The constructor takes the rates of any
    other schedule.

    Parameters
    ----------
    rates : dict of array-like of shape (n_steps,)
        Name of a line -> rate of each step, from step 0.
    n_constant : int or None, default=None
        Number of steps on pseudo-labelled texts. A vertical line marks where the steps on labelled
        texts begin; None or 0 draws no line.
    relative : bool, default=False
        Whether the rates are multiples of the initial rate.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        The schedules, in the order of `rates`.
    boundary_ : matplotlib.lines.Line2D or None
        The vertical line.
    ax_, figure_ : matplotlib.axes.Axes and matplotlib.figure.Figure
        The axes and their figure.

    Examples
    --------
    >>> from sklearn_spt.inspection import LearningRateDisplay
    >>> display = LearningRateDisplay.from_schedule(n_constant=63, n_decay=48)  # doctest: +SKIP
    """

    rates: Mapping[str, Any]
    n_constant: int | None = None
    relative: bool = False

    @classmethod
    def from_estimator(cls, clf: Any, *, ax: Axes | None = None) -> Self:
        """Draw the schedule of the first student that a fit kept.

        The rates are the net's `lr` times the schedule. Groups of weights with another rate keep
        their ratio to it.

        Parameters
        ----------
        clf : SelfPretrainingClassifier
            Fitted. The number of steps is that of ``students_[0]``.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        display : LearningRateDisplay

        Raises
        ------
        ValueError
            If the classifier has no `students_`: only Self-Pretraining trains in stages.
        """
        clf = last_step(clf)
        check_is_fitted(clf)
        if not hasattr(clf, "students_"):
            raise ValueError(
                f"{type(clf).__name__} has no students_, so there are no learning rates to draw; "
                "use LearningRateDisplay.from_schedule."
            )
        net = clf.students_[0]
        lr = float(getattr(net, "lr_", net.lr))
        losses = clf.history_[clf.best_iter_]["loss"]
        per_epoch = [len(epoch["batches"]) for epoch in net.history]
        first = len(losses.get("stage1", ()))
        n_constant, n_decay = sum(per_epoch[:first]), sum(per_epoch[first:])
        schedule = "right-trapezoidal" if "stage2" in losses else "slanted"
        planned = n_decay
        if per_epoch[first:] and {"stage2", "supervised"} & set(losses):
            planned = per_epoch[first] * clf.finetune_epochs  # EarlyStopping may have ended it
        relative = _relative_rates(n_constant, planned)[schedule][: n_constant + n_decay]
        rates = {schedule: lr * relative}
        return cls(rates=rates, n_constant=n_constant).plot(ax)

    @classmethod
    def from_schedule(cls, *, n_constant: int, n_decay: int, ax: Axes | None = None) -> Self:
        """Draw both schedules of the paper for given numbers of steps, relative to their start.

        Parameters
        ----------
        n_constant : int
            Number of steps on pseudo-labelled texts.
        n_decay : int
            Number of steps on labelled texts.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None creates a figure.

        Returns
        -------
        display : LearningRateDisplay
        """
        check_integer(n_constant, "n_constant", low=0)
        check_integer(n_decay, "n_decay", low=0)
        rates = _relative_rates(n_constant, n_decay)
        return cls(rates=rates, n_constant=n_constant, relative=True).plot(ax)

    def _draw(self, ax: Axes) -> None:
        self.lines_ = []
        for name, rates in self.rates.items():
            number = lines_so_far(ax)
            style = line_style(number) | {"marker": "", "linestyle": LINES[number % len(LINES)]}
            values = np.asarray(rates, dtype=np.float64)
            (line,) = ax.plot(np.arange(len(values)), values, label=name, linewidth=1.8, **style)
            self.lines_.append(line)
        self.boundary_ = None
        if self.n_constant:
            self.boundary_ = ax.axvline(
                self.n_constant,
                color=PALETTE[-1],
                linewidth=1.0,
                linestyle=(0, (1, 2)),
                label="labelled texts begin",
            )
        ax.set_ylim(bottom=0.0)
        if not self.relative:
            ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        ax.set_xlabel("optimiser step")
        ax.set_ylabel("learning rate" + (" (multiple of the initial rate)" * self.relative))
        finish(ax)


def _relative_rates(n_constant: int, n_decay: int) -> dict[str, FloatArray]:
    """Rate of each step under both schedules, as a multiple of the initial rate."""
    n = n_constant + n_decay
    return {
        "right-trapezoidal": np.array(
            [right_trapezoidal(step, n_constant, n_decay) for step in range(n)]
        ),
        "slanted": np.array([slanted(step, n) for step in range(n)]),
    }
