"""The table that says what each parameter brings."""

from __future__ import annotations

import numpy as np
import pytest
from records import record, row_of, rows_of
from scipy.stats import ttest_rel

from sklearn_spt.experiments._tables import make_table

LR = {"lr": 1e-5}


def cells(
    method="bert_classifier",
    params=None,
    shift=0.0,
    datasets=("illness", "psytar"),
    seeds=range(3),
    parameters=None,
    **cell,
):
    rng = np.random.default_rng(len(str(params)))
    more = {} if parameters is None else {"parameters": parameters}
    return [
        record(method, s, 0.5 + shift + rng.uniform(0, 0.1), dataset=d, params=params, **cell)
        | more
        for d in datasets
        for s in seeds
    ]


def choices(records):
    return make_table("choices", records)


def f1_of(records):
    return np.array([r["scores"]["f1"] for r in records])


def names_of(records):
    return [row["parameters"] for row in rows_of(choices(records))]


def test_gains_of_one_data_set_are_paired_with_student_intervals():
    default, other = cells(datasets=["psytar"]), cells(params=LR, datasets=["psytar"])
    found = row_of(choices([*other, *default]), parameters="lr=1e-05")
    expected = ttest_rel(f1_of(other), f1_of(default)).confidence_interval(0.95)
    gain, brier = found["gain"], found["brier"]
    assert (gain.low, gain.high) == pytest.approx((expected.low, expected.high))
    assert found["f1"] == pytest.approx(f1_of(other).mean())
    assert found["base_f1"] == pytest.approx(f1_of(default).mean())
    # the scores of these records are linear in F1
    assert (brier.mean, brier.low, brier.high) == pytest.approx(
        (-gain.mean / 10, -gain.high / 10, -gain.low / 10)
    )


def test_data_sets_have_equal_weight_and_only_common_pairs_count():
    default = cells()
    illness = cells(params=LR, shift=0.1, datasets=["illness"], seeds=range(2))
    psytar = cells(params=LR, shift=0.1, datasets=["psytar"], seeds=range(5))
    row = row_of(choices(default + illness + psytar), parameters="lr=1e-05")
    means = (
        np.mean(f1_of(illness) - f1_of(default[:2])),
        np.mean(f1_of(psytar[:3]) - f1_of(default[3:])),
    )
    assert row["n_pairs"] == 5
    assert row["gain"].mean == pytest.approx(np.mean(means))
    # the means beside it are over the same pairs
    assert row["f1"] - row["base_f1"] == pytest.approx(row["gain"].mean)


def test_no_common_pair_gives_no_gain():
    row = row_of(choices(cells(seeds=[0]) + cells(params=LR, seeds=[1])), parameters="lr=1e-05")
    assert [row[key] for key in ("f1", "base_f1", "gain", "brier")] == [None] * 4
    assert row["n_pairs"] == 0


def test_methods_with_one_set_have_no_row():
    table = choices(cells() + cells(params=LR) + cells("tfidf_lr"))
    assert {row["method"] for row in rows_of(table)} == {"BertClassifier"}
    for records in (cells(), []):
        with pytest.raises(ValueError, match="no method was run with two sets of parameters"):
            choices(records)


def test_values_that_mean_the_same():
    """The paper's own values are its defaults, whether they were written out or not."""
    spt = "self_pretraining"
    assert names_of(cells(spt, {"lam": 0.3}) + cells(spt, {"lam": 0.5})) == ["lam=0.5"]
    zero = cells(params={"lam": 0}) + cells(params={"lam": 0.0, "dropout": 0.2})
    assert names_of(zero) == ["dropout=0.2"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (LR, {"lr": 1e-4}, r"bert_classifier .*lr=1e-05 and lr=0.0001.*--param"),
        (
            {**LR, "dropout": 0.1},
            {**LR, "dropout": 0},
            r"no finished cell with lr=1e-05 alone.*with that",
        ),
    ],
)
def test_without_cells_of_the_base_there_is_an_error(first, second, message):
    with pytest.raises(ValueError, match=message):
        choices(cells(params=first) + cells(params=second))


def test_common_parameters_of_all_cells_are_the_base():
    records = cells(params=LR) + cells(params={**LR, "dropout": 0.2})
    table = choices(records)
    # the name of a row leaves out what they have in common, the headings say it
    row = row_of(table, parameters="dropout=0.2", base="lr=1e-05")
    assert row["gain"].mean == pytest.approx(np.mean(f1_of(records[6:]) - f1_of(records[:6])))
    headings = [column.heading for column in table.columns]
    assert headings[4:6] == ["of lr=1e-05", "gain of F1 over lr=1e-05"]
    assert "and lr=1e-05 both have" in table.notes[0]
    # cells without any parameter are compared with, where there are some
    assert names_of([*records, *cells()]) == ["dropout=0.2, lr=1e-05", "lr=1e-05"]
    # each method has its own base
    table = choices([*records, *cells("tfidf_lr"), *cells("tfidf_lr", {"C": 2})])
    assert table.columns[4].heading == "of the base"
    bases = [(row["parameters"], row["base"]) for row in rows_of(table)]
    assert bases == [("C=2", "defaults"), ("dropout=0.2", "lr=1e-05")]


def test_defaults_of_two_releases_are_not_mixed():
    old, new = {"lam": 0.3, "ensemble": "last_two"}, {"lam": 0.3, "ensemble": "with_start"}
    both = [*cells(seeds=[0], parameters=old), *cells(seeds=[1], parameters=new)]
    named = cells(params={"ensemble": "last_two"}, parameters=old)
    with_lam, with_lr = cells(params={"lam": 0}, parameters=old), cells(params=LR, parameters=new)
    assert choices([*cells(parameters=new), *named]).rows
    for records, name in (
        ([*both, *cells(params=LR)], "defaults"),
        ([*both, *named], "defaults"),  # a set that names the parameter does not excuse the others
        ([*cells(seeds=[0], parameters=old), *with_lr], "lr=1e-05"),
        ([*cells(parameters=new), *named, *with_lam], "lam=0"),
    ):
        with pytest.raises(ValueError, match=rf"\({name}\): .*different values of ensemble"):
            choices(records)


@pytest.mark.parametrize(
    ("key", "of"),
    [("n_unlabeled", ""), ("n_validation", ""), ("encoder", ""), ("n_test", " of illness")],
)
def test_settings_are_not_mixed(key, of):
    with pytest.raises(ValueError, match=f"the cells{of} differ in {key}.*--select {key}="):
        choices(cells() + cells(params=LR, **{key: 7}))


def test_notes_name_failed_cells_and_those_in_bf16():
    records = cells(datasets=["psytar"]) + cells(params=LR, datasets=["psytar"])
    for one in records[1:3]:
        one["precision"] = "bf16"
    notes = choices([*records, record("bert_classifier", 9, status="failed")]).notes
    assert any("failed: " in note and "nan" in note for note in notes)
    assert "computed in bf16: psytar: bert_classifier (defaults), seeds 1, 2." in notes
