"""The table that says what each parameter brings."""

from __future__ import annotations

import numpy as np
import pytest
from records import record
from scipy.stats import ttest_rel

from sklearn_spt.experiments._formats import render
from sklearn_spt.experiments._tables import make_table

NET = "bert_classifier"


def cells(
    method=NET, params=None, shift=0.0, datasets=("illness", "psytar"), seeds=range(3), **cell
):
    rng = np.random.default_rng(len(str(params)))
    return [
        record(method, seed, 0.5 + shift + rng.uniform(0, 0.1), dataset=d, params=params, **cell)
        for d in datasets
        for seed in seeds
    ]


def f1_of(records):
    return np.array([r["scores"]["f1"] for r in records])


def rows(table):
    keys = [column.key for column in table.columns]
    return {row[1]: dict(zip(keys, row, strict=True)) for row in table.rows}


def test_gains_of_one_data_set_are_paired_with_student_intervals():
    default, other = cells(datasets=["psytar"]), cells(params={"lr": 1e-5}, datasets=["psytar"])
    found = rows(make_table("choices", [*other, *default]))
    assert list(found) == ["lr=1e-05"]
    expected = ttest_rel(f1_of(other), f1_of(default)).confidence_interval(0.95)
    gain = found["lr=1e-05"]["gain"]
    assert (gain.low, gain.high) == pytest.approx((expected.low, expected.high))
    assert found["lr=1e-05"]["f1"] == pytest.approx(f1_of(other).mean())
    assert found["lr=1e-05"]["base_f1"] == pytest.approx(f1_of(default).mean())
    # the scores of these records are linear in F1
    brier = found["lr=1e-05"]["brier"]
    assert (brier.mean, brier.low, brier.high) == pytest.approx(
        (-gain.mean / 10, -gain.high / 10, -gain.low / 10)
    )


def test_data_sets_have_equal_weight_and_only_common_pairs_count():
    default = cells()
    other = cells(params={"lr": 1e-5}, shift=0.1, datasets=["illness"], seeds=range(2))
    other += cells(params={"lr": 1e-5}, shift=0.1, datasets=["psytar"], seeds=range(5))
    row = rows(make_table("choices", default + other))["lr=1e-05"]
    illness, psytar = (
        np.mean(f1_of(ours)[:n] - f1_of(theirs)[:n])
        for ours, theirs, n in ((other[:2], default[:3], 2), (other[2:], default[3:], 3))
    )
    assert row["n_pairs"] == 5
    assert row["gain"].mean == pytest.approx((illness + psytar) / 2)
    # what stands beside it is over the same pairs
    assert row["f1"] - row["base_f1"] == pytest.approx(row["gain"].mean)


def test_no_common_pair_gives_no_gain():
    records = cells(seeds=[0]) + cells(params={"lr": 1e-5}, seeds=[1])
    row = rows(make_table("choices", records))["lr=1e-05"]
    empty = dict.fromkeys(("f1", "base_f1", "gain", "brier"))
    assert {key: row[key] for key in empty} == empty
    assert row["n_pairs"] == 0


def test_methods_with_one_set_have_no_row():
    records = cells() + cells(params={"lr": 1e-5}) + cells("tfidf_lr")
    table = make_table("choices", records)
    assert {row[0] for row in table.rows} == {"BertClassifier"}
    with pytest.raises(ValueError, match="no method was run with two sets of parameters"):
        make_table("choices", cells())
    with pytest.raises(ValueError, match="no method was run"):
        make_table("choices", [])


def test_the_papers_own_values_are_its_defaults():
    """Whether they were written out or not."""
    records = cells("self_pretraining", {"lam": 0.3}) + cells("self_pretraining", {"lam": 0.5})
    assert list(rows(make_table("choices", records))) == ["lam=0.5"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"lr": 1e-5}, {"lr": 1e-4}, r"bert_classifier .*lr=1e-05 and lr=0.0001.*--param"),
        (
            {"lr": 1e-5, "dropout": 0.1},
            {"lr": 1e-5, "dropout": 0},
            r"no finished cell with lr=1e-05 alone.*with that",
        ),
    ],
)
def test_without_cells_of_the_base_there_is_an_error(first, second, message):
    with pytest.raises(ValueError, match=message):
        make_table("choices", cells(params=first) + cells(params=second))


def test_common_parameters_of_all_cells_are_the_base():
    """Whatever is varied while another parameter stays away from its default."""
    records = cells(params={"lr": 1e-5}) + cells(params={"lr": 1e-5, "dropout": 0.2})
    table = make_table("choices", records)
    # the name of a row leaves out what they have in common, the headings say it
    assert list(rows(table)) == ["dropout=0.2"]
    headings = [column.heading for column in table.columns]
    assert headings[4:6] == ["of lr=1e-05", "gain of F1 over lr=1e-05"]
    assert [row[2] for row in table.rows] == ["lr=1e-05"]
    assert "and lr=1e-05 both have" in table.notes[0]
    gain = np.mean(f1_of(records[6:]) - f1_of(records[:6]))
    assert rows(table)["dropout=0.2"]["gain"].mean == pytest.approx(gain)
    # cells without any parameter are compared with, where there are some
    assert list(rows(make_table("choices", [*records, *cells()]))) == [
        "dropout=0.2, lr=1e-05",
        "lr=1e-05",
    ]


def test_each_method_has_its_own_base():
    records = cells(params={"lr": 1e-5}) + cells(params={"lr": 1e-5, "dropout": 0.2})
    records += cells("tfidf_lr") + cells("tfidf_lr", {"C": 2})
    table = make_table("choices", records)
    assert [column.heading for column in table.columns][4] == "of the base"
    assert [row[1:3] for row in table.rows] == [("C=2", "defaults"), ("dropout=0.2", "lr=1e-05")]


def test_equal_numbers_are_the_same_value():
    records = cells(params={"lam": 0}) + cells(params={"lam": 0.0, "dropout": 0.2})
    assert list(rows(make_table("choices", records))) == ["dropout=0.2"]


def test_a_changed_default_is_an_error_even_if_another_set_names_it():
    """Cells that leave a parameter at its default are not compared with those of another one."""
    new, old, named = (
        [{**r, "parameters": {"ensemble": value, "lam": 0.3}} for r in cells(params=params)]
        for params, value in (
            (None, "with_start"),
            ({"lam": 0}, "last_two"),
            ({"ensemble": "last_two"}, "last_two"),
        )
    )
    assert make_table("choices", [*new, *named]).rows
    with pytest.raises(ValueError, match=r"\(lam=0\): .*different values of ensemble"):
        make_table("choices", [*new, *named, *old])


@pytest.mark.parametrize(
    ("key", "of"),
    [("n_unlabeled", ""), ("n_validation", ""), ("encoder", ""), ("n_test", " of illness")],
)
def test_settings_are_not_mixed(key, of):
    records = cells() + cells(params={"lr": 1e-5}, **{key: 7})
    with pytest.raises(ValueError, match=f"the cells{of} differ in {key}.*--select {key}="):
        make_table("choices", records)


def test_older_records_and_failed_cells():
    broken = record(NET, 9, status="failed")
    records = [*cells(), *cells(params={"lr": 1e-5}), broken]
    del records[0]["scores"]["brier"]
    table = make_table("choices", records)
    assert rows(table)["lr=1e-05"]["brier"] is None
    assert any("failed: " in note and "nan" in note for note in table.notes)
    for form in ("markdown", "csv", "latex"):
        assert "lr" in render(table, form)


def test_defaults_of_two_releases_are_not_mixed():
    old, new = (
        [{**r, "parameters": {"lam": 0.3, "ensemble": value}} for r in cells(seeds=[seed])]
        for seed, value in enumerate(("last_two", "with_start"))
    )
    with pytest.raises(ValueError, match=r"bert_classifier \(defaults\): .*values of ensemble"):
        make_table("choices", [*old, *new, *cells(params={"lr": 1e-5})])
    other = [{**r, "parameters": {"lr": 1e-5, "ensemble": "x"}} for r in cells(params={"lr": 1e-5})]
    with pytest.raises(ValueError, match=r"bert_classifier \(lr=1e-05\): .*values of ensemble"):
        make_table("choices", [*old, *other])
    # a set that names the parameter does not excuse the others
    named = cells(params={"ensemble": "last_two"}, seeds=[0, 1])
    named = [{**r, "parameters": {"ensemble": "last_two"}} for r in named]
    with pytest.raises(ValueError, match=r"bert_classifier \(defaults\): .*values of ensemble"):
        make_table("choices", [*old, *new, *named])
    assert make_table("choices", [*new, *named]).rows


def test_notes_name_cells_in_bf16():
    records = cells(datasets=["psytar"]) + cells(params={"lr": 1e-5}, datasets=["psytar"])
    for one in records[1:3]:
        one["precision"] = "bf16"
    notes = make_table("choices", records).notes
    assert "computed in bf16: psytar: bert_classifier (defaults), seeds 1, 2." in notes
