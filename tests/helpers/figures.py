"""Checks of figures: which text they show, and whether it overlaps or is cut off."""

from __future__ import annotations

import itertools
from typing import Any

from sklearn.base import BaseEstimator


class Noted(BaseEstimator):
    """A fitted estimator that has nothing but a history."""

    def __init__(self, entries: Any) -> None:
        self.history_ = entries

    def fit(self, X: Any, y: Any) -> Noted:
        return self


def names_of(ax: Any) -> list[str]:
    """Names in the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def ticks_of(ax: Any) -> list[str]:
    """Labels of the y axis' ticks."""
    return [label.get_text() for label in ax.get_yticklabels()]


def x_label(ax: Any) -> str:
    """Label of the x axis without its line breaks."""
    return " ".join(ax.get_xlabel().split())


def texts_of(figure: Any) -> list[Any]:
    """All texts that are drawn in a figure."""
    from matplotlib.text import Text

    hidden = {id(label) for ax in figure.axes for label in _labels_outside(ax)}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden
    ]


def overlaps(figure: Any) -> list[tuple[str, str]]:
    """Pairs of texts that overlap; a text that is cut off is paired with itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    width, height = figure.bbox.size
    found = [
        (text, text)
        for text, box in boxes
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        if a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1:
            found.append((one, other))
    return found


def _labels_outside(ax: Any) -> list[Any]:
    """Labels of ticks outside the limits, which matplotlib creates but does not draw."""
    labels = []
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        low, high = sorted(limits)
        slack = 1e-9 * (high - low)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low - slack <= tick.get_loc() <= high + slack:
                labels += [tick.label1, tick.label2]
    return labels
