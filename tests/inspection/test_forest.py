"""Forest plots, and the tables of experiments that are drawn as such."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.figures import ticks_of, x_label
from records import record, rows_of

from sklearn_spt.experiments._plots import draw
from sklearn_spt.experiments._tables import make_table
from sklearn_spt.inspection import ForestDisplay

ROWS = ["Baseline", "SetFit", "SelfPretrainingClassifier"]
F1 = {
    "baseline": [0.5, 0.52, 0.6],
    "setfit": [0.6, 0.4, 0.61],
    "self_pretraining": [0.7, 0.65, 0.9],
}
RIVALS = [record(m, seed, f1) for m, scores in F1.items() for seed, f1 in enumerate(scores)]


def cells(method="self_pretraining", *sets):
    """Records of three seeds for each set of parameters."""
    return [
        record(method, seed, 0.5 + 0.1 * number + 0.01 * seed * number, params=params)
        for number, params in enumerate(sets)
        for seed in range(3)
    ]


CHOICES = cells("self_pretraining", None, {"lam": 0.1}, {"temperature": 1.0})


def segments(points):
    """Ends of the intervals that are drawn, by row."""
    return {
        round(float(low[1])): (low[0], high[0])
        for low, high in points.lines[2][0].get_segments()
        if high[0] > low[0]
    }


def test_points_intervals_and_zero_lines():
    panels = {"F1": [0.5, 0.6, 0.7], "gain": [None, (0.1, -0.1, 0.3), (0.2, None, None)]}
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2, sharey=True)
    display = ForestDisplay(rows=ROWS, panels=panels, zero=["gain"]).plot(axes)
    f1, gain = display.points_
    assert f1.lines[0].get_xdata() == pytest.approx([0.5, 0.6, 0.7])
    assert segments(f1) == {}
    assert list(gain.lines[0].get_ydata()) == [1, 2]
    assert segments(gain) == {1: pytest.approx((-0.1, 0.3))}
    assert ticks_of(display.axes_[0]) == ROWS
    assert [ax.yaxis.get_tick_params()["labelleft"] for ax in axes] == [True, False]
    # the first row is at the top of all panels
    assert [ax.get_ylim() for ax in axes] == [(2.5, -0.5)] * 2
    at_zero = [[line for line in ax.lines if list(line.get_xdata()) == [0, 0]] for ax in axes]
    assert [len(lines) for lines in at_zero] == [0, 1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": []}, "rows and panels must each hold at least one name"),
        ({"panels": {}}, "rows and panels must each hold at least one name"),
        ({"panels": {"F1": [0.5]}}, r"panels\['F1'\] must have .* of the 2 rows, got 1"),
        ({"panels": {"F1": [0.5, np.inf]}}, r"panels\['F1'\] must have .* 'b'.*got inf"),
        ({"panels": {"F1": [0.5, (0.1, 0.2, 0.3)]}}, r"number for 'b'.*got \(0.1, 0.2, 0.3\)"),
        ({"panels": {"F1": [0.5, (0.1, 0.0)]}}, r"number for 'b'.*got \(0.1, 0.0\)"),
        ({"panels": {"F1": [0.5, "x"]}}, r"number for 'b'.*got 'x'"),
        ({"zero": ["recall"]}, "zero names the unknown panel 'recall'; panels has F1"),
    ],
)
def test_invalid_parameters(changed, message):
    given = {"rows": ["a", "b"], "panels": {"F1": [0.5, 0.6]}, **changed}
    with pytest.raises(ValueError, match=message):
        ForestDisplay(**given).plot()


def test_ranks_are_those_of_the_table_sorted_from_the_best():
    rows = rows_of(make_table("ranks", RIVALS, against="setfit"))
    rows.sort(key=lambda row: row["rank"])
    first, _, last = draw("ranks", RIVALS, against="setfit").axes
    assert ticks_of(first) == [row["method"] for row in rows]
    assert x_label(first) == "mean rank of 3 (1 is best)"
    assert first.lines[0].get_xdata() == pytest.approx([row["rank"] for row in rows])
    assert "over SetFit, class-weighted head, 95% interval" in x_label(last)
    (gain,) = last.containers
    expected = {i: row["gain"] for i, row in enumerate(rows) if row["gain"] is not None}
    assert segments(gain) == {i: pytest.approx((x.low, x.high)) for i, x in expected.items()}


def test_choices_name_what_tells_the_rows_apart():
    gain, brier = draw("choices", CHOICES).axes
    assert ticks_of(gain) == ["lam=0.1", "temperature=1"]
    assert x_label(brier) == "change of the Brier score (less is better), 95% interval"
    names = ticks_of(draw("choices", CHOICES[:-1]).axes[0])
    assert names == ["lam=0.1 (3 pairs)", "temperature=1 (2 pairs)"]
    # the method, where there are several
    names = ticks_of(draw("choices", [*CHOICES, *cells("setfit", None, {"epochs": 2})]).axes[0])
    assert names[1:] == ["Self-Pretraining: lam=0.1", "Self-Pretraining: temperature=1"]
    assert names[0] == "SetFit, class-weighted head: epochs=2"
    # what they are compared with, where this differs
    nets = cells("bert_classifier", {"lr": 1e-5}, {"lr": 1e-5, "dropout": 0.2})
    (gain, _) = draw("choices", nets).axes
    assert ticks_of(gain) == ["dropout=0.2"]
    assert x_label(gain).startswith("gain of F1 over lr=1e-05,")
    (gain, _) = draw("choices", [*nets, *CHOICES]).axes
    assert "BertClassifier: dropout=0.2: over lr=1e-05" in ticks_of(gain)
    assert x_label(gain).startswith("gain of F1 over the base,")


def test_title_shows_parameters_other_than_the_defaults():
    records = [*RIVALS, record("bert_classifier", 0, 0.5, params={"lr": 1e-5})]
    for kind in ("ranks", "gains"):
        title = draw(kind, records).axes[0].get_title(loc="left")
        assert "BertClassifier with lr=1e-05 (illness, 300 labelled)" in " ".join(title.split())
    assert "with" not in draw("ranks", RIVALS).axes[0].get_title(loc="left")
