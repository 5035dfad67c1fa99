"""What every figure has to keep: legible text that hides nothing and is cut off nowhere."""

from __future__ import annotations

import itertools
from typing import Any


def texts_of(figure: Any) -> list[Any]:
    """All texts of a figure that are drawn."""
    from matplotlib.text import Text

    hidden = {id(label) for ax in figure.axes for label in _labels_outside(ax)}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden
    ]


def overlaps(figure: Any) -> list[tuple[str, str]]:
    """Pairs of texts of a figure that touch each other; one that is cut off, with itself."""
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
    """Labels of ticks outside the limits, which matplotlib makes but does not draw."""
    labels = []
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        low, high = sorted(limits)
        slack = 1e-9 * (high - low)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low - slack <= tick.get_loc() <= high + slack:
                labels += [tick.label1, tick.label2]
    return labels
