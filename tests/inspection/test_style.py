"""What holds for every display: text, colours, legends and imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.figures import Noted, overlaps, texts_of
from records import history, record

from sklearn_spt import inspection
from sklearn_spt.inspection._style import PALETTE

MANY = ["TF-IDF + logistic regression", "frozen embeddings + logistic regression", *"abcdefgh"]
DRAWN = {
    "iterations": lambda: inspection.IterationCurveDisplay(
        scores={name: [[0.1, 0.2], [0.3, 0.1]] for name in MANY}, legend_title="method"
    ).plot(),
    "schedule": lambda: inspection.LearningRateDisplay.from_schedule(n_constant=3130, n_decay=480),
    "pseudo-labels": lambda: inspection.PseudoLabelDisplay.from_records(
        [record(seed=s, n_iter=20, n_unlabeled=10**6) for s in (0, 1)]
    ),
    "classes": lambda: inspection.PseudoLabelDisplay.from_estimator(
        Noted(history(("anger", "fear", "none of all these", "joy")))
    ),
    "learning curve": lambda: inspection.LearningCurveDisplay(
        n_labeled={name: [50, 60, 100, 300, 310, 10_000] for name in MANY},
        scores={name: np.ones((2, 6)) for name in MANY},
    ).plot(),
    "two sizes": lambda: inspection.LearningCurveDisplay(
        n_labeled={"a": [300, 301]}, scores={"a": [0.5, 0.6]}
    ).plot(),
    "gains": lambda: inspection.GainDisplay(
        gains={f"data set {i}": {name: [0.1, 0.0] for name in MANY} for i in range(6)},
        against="Baseline",
    ).plot(),
    "forest": lambda: inspection.ForestDisplay(
        rows=[f"SelfPretrainingClassifier {i}" + ", parameter=0.125" * i for i in range(12)],
        panels={
            f"panel {i}, with a label of some length": [(x, x - 1, x + 1) for x in range(12)]
            for i in range(3)
        },
    ).plot(),
}


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_overlaps_or_is_cut_off(name):
    display = DRAWN[name]()
    assert overlaps(display.figure_) == []
    assert len(texts_of(display.figure_)) > 5
    assert display.figure_.axes[-1].get_xlabel()
    assert name == "forest" or all(ax.get_ylabel() for ax in display.figure_.axes)


def test_more_lines_than_colours_still_differ():
    display = inspection.IterationCurveDisplay(
        scores={str(i): [0.1, 0.2] for i in range(20)}
    ).plot()
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in display.lines_}
    assert len(looks) == 20
    assert {line.get_color() for line in display.lines_} == set(PALETTE)


def test_a_figure_without_layout_gets_its_legend_inside():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = inspection.IterationCurveDisplay(scores={"a": [0.1, 0.9]}).plot(ax)
    ax.figure.canvas.draw()
    legend, inside = display.ax_.get_legend().get_window_extent(), ax.get_window_extent()
    assert inside.x0 < legend.x0 < legend.x1 < inside.x1


@pytest.mark.parametrize("name", ["schedule", "pseudo-labels", "forest"])
def test_without_matplotlib_the_error_names_the_extra(name, monkeypatch):
    display = DRAWN[name]()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    owner = type(display).__name__
    with pytest.raises(ImportError, match=rf"{owner} needs matplotlib.*sklearn-spt\[plot\]"):
        display.plot()


def test_importing_the_displays_imports_no_matplotlib():
    # nor torch, which takes seconds and which no plot of records needs
    code = (
        "import sys, sklearn_spt.inspection as i; print({'matplotlib', 'torch'} & {*sys.modules})"
    )
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=path, check=False
    )
    assert done.stdout == "set()\n", done.stderr
