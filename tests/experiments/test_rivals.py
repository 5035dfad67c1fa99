"""The tables that compare methods with what a user would pick instead."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.optional import pd
from records import record
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


def rows(table):
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, row, strict=True)) for row in table.rows]


def row_of(table, method, **wanted):
    (row,) = [
        row
        for row in rows(table)
        if row["method"] == _paper.LABELS[method] and all(row[k] == v for k, v in wanted.items())
    ]
    return row


@pytest.mark.parametrize("against", METHODS)
def test_gains_of_a_data_set_are_paired_with_student_intervals(against):
    records = records_of()
    scores = scores_of(records).loc["psytar"]
    table = make_table("rivals", records, against=against)
    for method in METHODS:
        gain = row_of(table, method, dataset="psytar")["gain"]
        if method == against:
            assert gain is None
            continue
        expected = ttest_rel(scores[method], scores[against]).confidence_interval(0.95)
        assert (gain.low, gain.high) == pytest.approx((expected.low, expected.high))
        assert gain.mean == pytest.approx((scores[method] - scores[against]).mean())


def test_gains_over_all_data_sets_give_them_equal_weight():
    records = records_of(datasets=("illness",)) + records_of(datasets=("psytar",), seeds=range(2))
    scores = scores_of(records)
    gains = scores["self_pretraining"] - scores["baseline"]
    gain = row_of(make_table("ranks", records), "self_pretraining")["gain"]
    assert gain.mean == pytest.approx(
        (gains.loc["illness"].mean() + gains.loc["psytar"].mean()) / 2
    )


def test_data_sets_that_lie_far_apart_do_not_widen_the_interval():
    records = [
        record(method, seed, 0.5 + gain * (method == "setfit") + 1e-3 * seed, dataset=dataset)
        for dataset, gain in (("illness", -0.1), ("psytar", 0.3))
        for method in ("baseline", "setfit")
        for seed in range(3)
    ]
    gain = row_of(make_table("ranks", records), "setfit")["gain"]
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.1, 0.1, 0.1))


def test_a_single_seed_of_one_data_set_gives_no_interval():
    records = records_of(datasets=("illness",)) + records_of(datasets=("psytar",), seeds=[0])
    gain = row_of(make_table("ranks", records), "tfidf_lr")["gain"]
    assert gain.low is gain.high is None


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
    for method in METHODS:
        assert row_of(table, method)["rank"] == pytest.approx(expected[method])
    assert sum(row["rank"] for row in rows(table)) == pytest.approx(1 + 2 + 3)


def test_equal_scores_share_a_rank():
    table = make_table("ranks", [record(method, f1=0.5) for method in METHODS])
    assert [row["rank"] for row in rows(table)] == [2, 2, 2]


def test_data_sets_have_equal_weight_whatever_their_number_of_seeds():
    records = records_of(datasets=("illness",)) + records_of(datasets=("psytar",), seeds=[0])
    scores = scores_of(records)["baseline"]
    expected = (scores.loc["illness"].mean() + scores.loc["psytar"].mean()) / 2
    assert row_of(make_table("ranks", records), "baseline")["f1"] == pytest.approx(expected)


def test_ranks_leave_out_a_seed_that_one_method_lacks():
    records = records_of()
    dropped = records.pop(0)  # of tfidf_lr
    key = (dropped["cell"]["dataset"], dropped["cell"]["seed"])
    scores = scores_of(records)
    table = make_table("ranks", records)
    expected = scores.dropna().rank(axis=1, ascending=False).mean()
    assert row_of(table, "baseline")["rank"] == pytest.approx(expected["baseline"])
    assert "the 7 pairs" in table.notes[0]
    # the gain of the others still has all pairs
    assert row_of(table, "self_pretraining")["n_pairs"] == 8
    assert row_of(table, "tfidf_lr")["n_pairs"] == 7
    assert key not in scores.dropna().index


def test_one_seed_has_no_interval():
    gain = row_of(make_table("rivals", [record(m, f1=0.5) for m in METHODS]), "tfidf_lr")["gain"]
    assert gain == Interval(0.0, None, None)


def test_older_records_have_no_scores_of_probabilities():
    records = records_of(datasets=("illness",))
    for one in records:
        if one["cell"]["method"] == "baseline":
            del one["scores"]["brier"], one["scores"]["ece"]
    del records[-1]["scores"]["brier"]  # one seed of self_pretraining
    table = make_table("rivals", records)
    assert row_of(table, "baseline")["brier"] is None
    assert row_of(table, "self_pretraining")["brier"] is None
    assert row_of(table, "self_pretraining")["ece"] is not None
    found = row_of(table, "tfidf_lr")["ece"]
    expected = [r["scores"]["ece"] for r in records if r["cell"]["method"] == "tfidf_lr"]
    assert found.mean == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("kind", ["main", "rivals", "ranks"])
def test_the_order_of_the_records_does_not_matter(kind):
    records = records_of()
    assert make_table(kind, records) == make_table(kind, records[::-1])


@pytest.mark.parametrize("kind", ["rivals", "ranks"])
def test_a_missing_reference_method_is_an_error(kind):
    with pytest.raises(
        ValueError, match="against='setfit' has no finished record; there are tfidf_lr"
    ):
        make_table(kind, records_of(), against="setfit")
    with pytest.raises(ValueError, match=r"against='baseline' has no finished record.*none"):
        make_table(kind, [])


def test_no_data_set_with_all_methods_is_an_error():
    records = [record("baseline", 0), record("tfidf_lr", 1)]
    with pytest.raises(ValueError, match="no data set and seed has a result of all of"):
        make_table("ranks", records)


def test_against_is_for_these_tables_only():
    with pytest.raises(ValueError, match="against='baseline' is for the tables 'rivals'"):
        make_table("main", records_of(), against="baseline")
