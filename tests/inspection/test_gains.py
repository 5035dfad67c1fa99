from __future__ import annotations

import numpy as np
import pytest
from helpers.figures import ticks_of, x_label
from records import record

from sklearn_spt.inspection import GainDisplay
from sklearn_spt.model_selection._intervals import mean_with_interval


def test_points_and_intervals_are_those_of_the_paired_differences():
    f1 = {"baseline": [0.5, 0.5, 0.6], "setfit": [0.6, 0.4, 0.6], "tfidf_lr": [0.4, 0.4, 0.4]}
    records = [
        record(method, seed, scores[seed], dataset=dataset)
        for dataset in ("illness", "psytar")
        for method, scores in f1.items()
        for seed in (0, 1, 2)
    ]
    records += [record("setfit", 3, 0.9, dataset="psytar")]  # a seed that baseline lacks
    display = GainDisplay.from_records(records, labels={"tfidf_lr": "TF-IDF"})
    assert list(display.gains) == ["illness", "psytar"]
    assert list(display.gains["psytar"]) == ["TF-IDF", "setfit"]
    assert display.gains["psytar"]["setfit"] == pytest.approx([0.1, -0.1, 0.0])
    of_tfidf = display.points_[0]
    assert of_tfidf.lines[0].get_xdata() == pytest.approx([-4 / 30, -4 / 30])
    ends = of_tfidf.lines[2][0].get_segments()[0][:, 0]
    expected = mean_with_interval(np.array([-0.1, -0.1, -0.2]), 0.95)
    assert tuple(ends) == pytest.approx(expected[1:])
    assert "3 seeds" in x_label(display.ax_)


def test_each_number_of_labels_has_a_row():
    records = [record(m, n_labeled=n) for m in ("baseline", "setfit") for n in (300, 1000)]
    # a method may lack a row
    display = GainDisplay.from_records([*records, record("tfidf_lr", n_labeled=300)])
    assert ticks_of(display.ax_) == ["illness, 300 labelled", "illness, 1,000 labelled"]
    assert [len(points.lines[0].get_xdata()) for points in display.points_] == [2, 1]


def test_labels_of_the_axis():
    single = GainDisplay(gains={"a": {"b": [0.1]}}, against="c").plot()
    assert x_label(single.ax_) == "gain of F1 over c"
    # less of an error is better
    records = [record(m, s, f) for m, f in (("baseline", 0.5), ("setfit", 0.7)) for s in (0, 1)]
    display = GainDisplay.from_records(records, metric="brier")
    label = "change of Brier score (less is better) against baseline: mean of 2 seeds, 95% interval"
    assert x_label(display.ax_) == label
    assert display.gains["illness"]["setfit"] == pytest.approx([-0.02, -0.02])


@pytest.mark.parametrize(
    ("gains", "message"),
    [
        *(
            ({"a": {"b": values}}, r"gains\['a'\]\['b'\] must hold one finite")
            for values in ([], [np.nan], [[0.1, 0.2]])
        ),
        ({}, "at least one data set"),
    ],
)
def test_invalid_differences(gains, message):
    with pytest.raises(ValueError, match=message):
        GainDisplay(gains=gains, against="c")


@pytest.mark.parametrize(
    ("first", "second", "labels", "message"),
    [
        ("baseline", {}, {"setfit": "x", "tfidf_lr": "x"}, "labels must give each method a diff"),
        ("tfidf_lr", {}, None, "records of against='baseline' and of another.*setfit, tfidf_lr"),
        ("baseline", {"n_test": 7}, None, r"n_test .*must not be mixed"),
    ],
)
def test_records_without_gains(first, second, labels, message):
    with pytest.raises(ValueError, match=message):
        GainDisplay.from_records([record(first), record("setfit", **second)], labels=labels)
