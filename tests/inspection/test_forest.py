"""Forest plots, and the tables of experiments that are drawn as such."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers.figures import overlaps, ticks_of, x_label
from records import record

from sklearn_spt.experiments._plots import draw
from sklearn_spt.experiments._tables import make_table
from sklearn_spt.inspection import ForestDisplay

pytestmark = pytest.mark.usefixtures("closed_figures")

ROWS = ["Baseline", "SetFit", "SelfPretrainingClassifier"]
F1 = {
    "baseline": [0.5, 0.52, 0.6],
    "setfit": [0.6, 0.4, 0.61],
    "self_pretraining": [0.7, 0.65, 0.9],
}


def rivals():
    return [record(m, seed, f1) for m, scores in F1.items() for seed, f1 in enumerate(scores)]


def choices():
    given = {0: None, 1: {"lam": 0.1}, 2: {"temperature": 1.0}}
    return [
        record(seed=seed, f1=0.5 + 0.1 * number + 0.01 * seed * number, params=params)
        for number, params in given.items()
        for seed in range(3)
    ]


def names_shown(axes):
    return [ax.yaxis.get_tick_params()["labelleft"] for ax in axes]


def segments(points):
    """Ends of the intervals that are drawn, by row."""
    return {
        round(float(low[1])): (low[0], high[0])
        for low, high in points.lines[2][0].get_segments()
        if high[0] > low[0]
    }


def test_points_intervals_and_zero_lines():
    values = [None, (0.1, -0.1, 0.3), (0.2, None, None)]
    panels = {"F1": [0.5, 0.6, 0.7], "gain": values}
    _, axes = plt.subplots(1, 2, sharey=True)
    display = ForestDisplay(rows=ROWS, panels=panels, zero=["gain"]).plot(axes)
    f1, gain = display.points_
    assert f1.lines[0].get_xdata() == pytest.approx([0.5, 0.6, 0.7])
    assert segments(f1) == {}
    assert list(gain.lines[0].get_ydata()) == [1, 2]
    assert segments(gain) == {1: pytest.approx((-0.1, 0.3))}
    assert ticks_of(display.axes_[0]) == ROWS
    assert names_shown(display.axes_) == [True, False]
    # the first row is at the top of all panels
    assert [ax.get_ylim() for ax in display.axes_] == [(2.5, -0.5)] * 2
    at_zero = [
        [line for line in ax.lines if list(line.get_xdata()) == [0, 0]] for ax in display.axes_
    ]
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
    table = make_table("ranks", rivals(), against="setfit")
    rows = sorted(
        (dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows),
        key=lambda row: row["rank"],
    )
    figure = draw("ranks", rivals(), against="setfit")
    first, _, last = figure.axes
    assert ticks_of(first) == [row["method"] for row in rows]
    assert x_label(first) == "mean rank of 3 (1 is best)"
    assert first.lines[0].get_xdata() == pytest.approx([row["rank"] for row in rows])
    assert "over SetFit, class-weighted head, 95% interval" in x_label(last)
    (gain,) = last.containers
    expected = {i: row["gain"] for i, row in enumerate(rows) if row["gain"] is not None}
    assert segments(gain) == {i: pytest.approx((x.low, x.high)) for i, x in expected.items()}


def test_choices_name_what_they_are_compared_with():
    both = [
        record("bert_classifier", seed, 0.5 + 0.01 * seed * n, params={"lr": 1e-5, **more})
        for n, more in enumerate(({}, {"dropout": 0.2}))
        for seed in range(3)
    ]
    figure = draw("choices", both)
    assert ticks_of(figure.axes[0]) == ["dropout=0.2"]
    assert x_label(figure.axes[0]).startswith("gain of F1 over lr=1e-05,")
    figure = draw("choices", [*both, *choices()])
    assert "BertClassifier: dropout=0.2: over lr=1e-05" in ticks_of(figure.axes[0])
    assert x_label(figure.axes[0]).startswith("gain of F1 over the base,")


def test_choices_name_the_method_only_where_there_are_several():
    figure = draw("choices", choices())
    assert ticks_of(figure.axes[0]) == ["lam=0.1", "temperature=1"]
    assert x_label(figure.axes[1]) == "change of the Brier score (less is better), 95% interval"
    more = [record("setfit", s, params=p) for s in range(3) for p in (None, {"epochs": 2})]
    names = ticks_of(draw("choices", [*choices(), *more]).axes[0])
    assert names[-2:] == ["Self-Pretraining: lam=0.1", "Self-Pretraining: temperature=1"]
    assert names[0] == "SetFit, class-weighted head: epochs=2"


def test_rows_show_their_number_of_pairs_if_it_differs():
    names = ticks_of(draw("choices", choices()[:-1]).axes[0])
    assert names == ["lam=0.1 (3 pairs)", "temperature=1 (2 pairs)"]


def test_long_names_are_wrapped_and_get_room():
    params = {f"parameter_{i}": 0.125 * i for i in range(8)}
    long = [record(seed=seed, f1=0.6, params=params) for seed in range(3)]
    figure = draw("choices", [*choices(), *long])
    assert overlaps(figure) == []
    assert max(len(line) for name in ticks_of(figure.axes[0]) for line in name.split("\n")) <= 45
    assert figure.get_size_inches()[1] > draw("choices", choices()).get_size_inches()[1] + 1


def test_title_shows_parameters_other_than_the_defaults():
    records = [*rivals(), record("bert_classifier", 0, 0.5, params={"lr": 1e-5})]
    for kind in ("ranks", "gains"):
        title = draw(kind, records).axes[0].get_title(loc="left")
        assert "BertClassifier with lr=1e-05 (illness, 300 labelled)" in " ".join(title.split())
    assert "with" not in draw("ranks", rivals()).axes[0].get_title(loc="left")
