"""Learning rate over the optimiser steps: the paper's figure on the right-trapezoidal schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_spt._validation import check_integer, check_option, check_real
from sklearn_spt.inspection._grouping import Record, describe, distinct, finished
from sklearn_spt.inspection._style import (
    PALETTE,
    axes_for,
    figure_of,
    line_style,
    lines_so_far,
    place_legend,
    tidy,
    whole_numbers,
)
from sklearn_spt.nets._schedules import n_batches, right_trapezoidal, slanted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEDULES = ("right_trapezoidal", "slanted")
_LABELS = {"right_trapezoidal": "right-trapezoidal", "slanted": "slanted"}


class LearningRateDisplay:
    """Learning rate at each optimiser step of one student's training.

    Make it with `from_estimator`, `from_schedule` or `from_records`.

    Parameters
    ----------
    rates : dict of array-like of shape (n_steps,)
        Name of a line -> rate of each step, from step 0.
    n_constant : int or None, default=None
        Steps on pseudo-labelled texts: where those on labelled texts begin, a vertical line is
        drawn. None or 0 draws none.
    relative : bool, default=False
        Whether the rates are multiples of the initial rate.

    Attributes
    ----------
    lines_ : list of matplotlib.lines.Line2D
        The schedules, in the order of `rates`.
    boundary_ : matplotlib.lines.Line2D or None
        The vertical line.
    ax_ : matplotlib.axes.Axes
        Where it is drawn.
    figure_ : matplotlib.figure.Figure
        The figure of the axes.

    Examples
    --------
    >>> from sklearn_spt.inspection import LearningRateDisplay
    >>> display = LearningRateDisplay.from_schedule(n_constant=63, n_decay=48)  # doctest: +SKIP
    """

    def __init__(
        self, *, rates: Mapping[str, Any], n_constant: int | None = None, relative: bool = False
    ) -> None:
        self.rates = rates
        self.n_constant = n_constant
        self.relative = relative

    @classmethod
    def from_estimator(
        cls, clf: Any, *, ax: Axes | None = None, name: str | None = None, **kwargs: Any
    ) -> LearningRateDisplay:
        """Draw the schedule of the last student of a fit.

        Parameters
        ----------
        clf : SelfPretrainingClassifier
            Fitted. The steps are those that its student really took.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        name : str or None, default=None
            Name of the line; None is the name of the schedule.
        **kwargs
            To `plot`.

        Returns
        -------
        display : LearningRateDisplay
            Drawn. Rates are the net's `lr` times the schedule; groups of weights with a rate of
            their own keep their ratio to it.

        Raises
        ------
        ValueError
            If the classifier has no `student_`: only Self-Pretraining trains in stages.
        """
        check_is_fitted(clf)
        if not hasattr(clf, "student_"):
            raise ValueError(
                f"{type(clf).__name__} has no student_, whose learning rates could be drawn; use "
                "LearningRateDisplay.from_schedule."
            )
        net = clf.student_
        lr = float(getattr(net, "lr_", net.lr))
        losses = clf.history_[-1]["loss"]
        per_epoch = [len(epoch["batches"]) for epoch in net.history]
        first = len(losses.get("stage1", ()))
        n_constant, n_decay = sum(per_epoch[:first]), sum(per_epoch[first:])
        two_stages = "stage2" in losses
        schedule = "right_trapezoidal" if two_stages else "slanted"
        return cls._from_parts(
            [schedule], n_constant, n_decay, lr, names=None if name is None else [name]
        ).plot(ax, **kwargs)

    @classmethod
    def from_schedule(
        cls,
        schedule: str | Callable[[int], float] | Sequence[Any] = SCHEDULES,
        *,
        n_constant: int,
        n_decay: int,
        lr: float | None = None,
        names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> LearningRateDisplay:
        """Draw schedules for given numbers of steps; without more, the two that the paper compares.

        Parameters
        ----------
        schedule : str, callable or sequence of these, default=("right_trapezoidal", "slanted")
            Names of schedules, or functions from the step to the multiple of the initial rate.
        n_constant : int
            Steps on pseudo-labelled texts.
        n_decay : int
            Steps on labelled texts.
        lr : float or None, default=None
            Initial rate; None draws multiples of it.
        names : sequence of str or None, default=None
            Names of the lines.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : LearningRateDisplay
            Drawn.
        """
        check_integer(n_constant, "n_constant", low=0)
        check_integer(n_decay, "n_decay", low=0)
        if lr is not None:
            check_real(lr, "lr", low=0, closed="neither")
        schedules = [schedule] if isinstance(schedule, str) or callable(schedule) else schedule
        return cls._from_parts(list(schedules), n_constant, n_decay, lr, names).plot(ax, **kwargs)

    @classmethod
    def from_records(
        cls,
        records: Iterable[Record],
        *,
        batch_size: int = 32,
        lr: float | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> LearningRateDisplay:
        """Draw both schedules of the paper for the steps of the last iteration of some records.

        Parameters
        ----------
        records : iterable of dict
            Finished records of Self-Pretraining in two stages, all with the same numbers of steps;
            records of other methods are left out.
        batch_size : int, default=32
            Texts per step; the default is that of `BertClassifier`.
        lr : float or None, default=None
            Initial rate; None draws multiples of it.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        **kwargs
            To `plot`.

        Returns
        -------
        display : LearningRateDisplay
            Drawn.

        Raises
        ------
        ValueError
            If no record has two stages, or their numbers of steps differ.
        """
        check_integer(batch_size, "batch_size", low=1)
        found: dict[tuple[int, int], str] = {}
        for record in finished(records, "the schedule"):
            last = (record.get("history") or [{}])[-1]
            losses = last.get("loss")
            if not isinstance(losses, Mapping) or "stage2" not in losses:
                continue
            n_constant = len(losses["stage1"]) * n_batches(last["sample_size"], batch_size)
            n_labeled = record["cell"]["n_labeled"]
            n_decay = len(losses["stage2"]) * n_batches(n_labeled, batch_size)
            found.setdefault((n_constant, n_decay), describe(record["cell"]))
        if not found:
            raise ValueError(
                "no record holds a student that was trained in two stages; use records of "
                "self_pretraining, or LearningRateDisplay.from_schedule."
            )
        if len(found) > 1:
            listed = "; ".join(f"{a} + {b} steps ({cell})" for (a, b), cell in found.items())
            raise ValueError(f"the records differ in their steps: {listed}. Select some of them.")
        ((n_constant, n_decay),) = found
        return cls.from_schedule(n_constant=n_constant, n_decay=n_decay, lr=lr, ax=ax, **kwargs)

    @classmethod
    def _from_parts(
        cls,
        schedules: Sequence[Any],
        n_constant: int,
        n_decay: int,
        lr: float | None,
        names: Sequence[str] | None,
    ) -> LearningRateDisplay:
        functions: list[Callable[[int], float]] = []
        own_names = []
        for one in schedules:
            if callable(one):
                functions.append(one)
                own_names.append(getattr(one, "__name__", "schedule"))
                continue
            check_option(one, "schedule", SCHEDULES)
            own_names.append(_LABELS[one])
            functions.append(
                partial(slanted, n_steps=n_constant + n_decay)
                if one == "slanted"
                else partial(right_trapezoidal, n_constant=n_constant, n_decay=n_decay)
            )
        names = own_names if names is None else list(names)
        if len(names) != len(schedules) or len(distinct(names)) != len(names):
            raise ValueError(
                f"names must hold {len(schedules)} different names, one for each schedule; got "
                f"{names!r}."
            )
        scale = 1.0 if lr is None else lr
        return cls(
            rates={
                name: [scale * function(step) for step in range(n_constant + n_decay)]
                for name, function in zip(names, functions, strict=True)
            },
            n_constant=n_constant,
            relative=lr is None,
        )

    def plot(
        self, ax: Axes | None = None, *, line_kw: Mapping[str, Any] | None = None
    ) -> LearningRateDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.
        line_kw : dict or None, default=None
            To ``matplotlib.axes.Axes.plot``, for all lines.

        Returns
        -------
        display : LearningRateDisplay
            This object.
        """
        ax = axes_for(ax, type(self).__name__)
        self.lines_ = []
        for name, rates in self.rates.items():
            number = lines_so_far(ax)
            dashes = ("-", "--", "-.", ":")[number % 4]
            style = line_style(number) | {"marker": "", "linestyle": dashes, "linewidth": 1.8}
            values = np.asarray(rates, dtype=np.float64)
            steps = np.arange(len(values))
            (line,) = ax.plot(steps, values, **{"label": name, **style, **(line_kw or {})})
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
        whole_numbers(ax)
        tidy(ax)
        ax.set_ylim(bottom=0.0)
        if not self.relative:
            ax.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        ax.set_xlabel("optimiser step")
        ax.set_ylabel("learning rate" + (" (multiple of the initial rate)" * self.relative))
        place_legend(ax)
        self.ax_, self.figure_ = ax, figure_of(ax)
        return self
