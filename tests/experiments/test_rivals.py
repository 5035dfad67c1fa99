"""The tables that compare methods with what a user would pick instead."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.optional import pd
from records import record, row_of, rows_of
from scipy.stats import ttest_rel

from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._table import Interval
from sklearn_spt.experiments._tables import make_table

METHODS = ("tfidf_lr", "baseline", "self_pretraining")


def records_of(methods=METHODS, datasets=("illness", "psytar"), seeds=range(4)):
    rng = np.random.default_rng(0)
    return [
        record(method, seed, 0.4 + 0.05 * i + rng.uniform(0, 0.1), dataset=dataset)
        for i, method in enumerate(methods)
        for dataset in datasets
        for seed in seeds
    ]


def scores_of(records):
    flat = pd.DataFrame([{**r["cell"], **r["scores"]} for r in records])
    return flat.pivot_table("f1", index=["dataset", "seed"], columns="method")


def row(table, method, **wanted):
    return row_of(table, method=_paper.LABELS[method], **wanted)


@pytest.mark.parametrize("against", METHODS[:2])
def test_gains_of_a_data_set_are_paired_with_student_intervals(against):
    records = records_of()
    scores = scores_of(records).loc["psytar"]
    table = make_table("rivals", records, against=against)
    assert row(table, against, dataset="psytar")["gain"] is None
    for method in {*METHODS} - {against}:
        gain = row(table, method, dataset="psytar")["gain"]
        expected = ttest_rel(scores[method], scores[against]).confidence_interval(0.95)
        assert (gain.low, gain.high) == pytest.approx((expected.low, expected.high))
        assert gain.mean == pytest.approx((scores[method] - scores[against]).mean())
    one_seed = make_table("rivals", [record(method, f1=0.5) for method in METHODS])
    assert row(one_seed, "tfidf_lr")["gain"] == Interval(0.0, None, None)


def test_data_sets_have_equal_weight_whatever_their_number_of_seeds():
    records = records_of(datasets=("illness",)) + records_of(datasets=("psytar",), seeds=range(2))
    scores = scores_of(records)
    gains = scores["self_pretraining"] - scores["baseline"]
    table = make_table("ranks", records)
    for found, values in (
        (row(table, "self_pretraining")["gain"].mean, gains),
        (row(table, "baseline")["f1"], scores["baseline"]),
    ):
        assert found == pytest.approx(values.groupby("dataset").mean().mean())


@pytest.mark.parametrize(
    ("key", "values"),
    [("n_labeled", (300, 500)), ("encoder", ("a", "b")), ("n_validation", (None, 800))],
)
def test_different_settings_are_not_ranked_together(key, values):
    records = [
        record(method, dataset=dataset, **({} if value is None else {key: value}))
        for dataset, value in zip(("illness", "psytar"), values, strict=True)
        for method in METHODS
    ]
    with pytest.raises(ValueError, match=f"the data sets differ in {key}.*--select {key}="):
        make_table("ranks", records)
    assert make_table("rivals", records).rows  # which has a block for each


def test_ranks_are_those_of_pandas():
    records = records_of()
    expected = scores_of(records).rank(axis=1, ascending=False).mean()
    table = make_table("ranks", records)
    assert [row(table, m)["rank"] for m in METHODS] == pytest.approx(expected[[*METHODS]].tolist())
    equal = make_table("ranks", [record(method, f1=0.5) for method in METHODS])
    assert [found["rank"] for found in rows_of(equal)] == [2, 2, 2]


def test_ranks_leave_out_a_seed_that_one_method_lacks():
    records = records_of()[1:]  # without one of tfidf_lr
    table = make_table("ranks", records)
    expected = scores_of(records).dropna().rank(axis=1, ascending=False).mean()
    assert row(table, "baseline")["rank"] == pytest.approx(expected["baseline"])
    assert "the 7 pairs" in table.notes[0]
    # the gain of the others still has all pairs
    assert row(table, "self_pretraining")["n_pairs"] == 8
    assert row(table, "tfidf_lr")["n_pairs"] == 7


@pytest.mark.parametrize("kind", ["main", "rivals", "ranks"])
def test_the_order_of_the_records_does_not_matter(kind):
    records = records_of()
    assert make_table(kind, records) == make_table(kind, records[::-1])


@pytest.mark.parametrize(
    ("kind", "records", "against", "message"),
    [
        *(
            (kind, records, "setfit", f"'setfit' has no finished record; there are {there}")
            for kind in ("rivals", "ranks")
            for records, there in ((records_of(), "tfidf_lr"), ([], "none"))
        ),
        (
            "ranks",
            [record("baseline", 0), record("tfidf_lr", 1)],
            "baseline",
            "no data set and seed has a result of all of",
        ),
    ],
)
def test_records_that_cannot_be_compared(kind, records, against, message):
    with pytest.raises(ValueError, match=message):
        make_table(kind, records, against=against)
