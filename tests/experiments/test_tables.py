"""The paper's tables, with our numbers beside the paper's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.optional import pd
from records import record, row_of

from sklearn_spt import PAPER_SETTINGS
from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._arguments import PAPER_TABLES
from sklearn_spt.experiments._methods import methods
from sklearn_spt.experiments._table import Measure
from sklearn_spt.experiments._tables import make_table
from sklearn_spt.inspection._grouping import grouped


def as_frame(table):
    """A table as a frame with the columns' keys."""
    return pd.DataFrame(table.rows, columns=[column.key for column in table.columns])


def grid(methods=("baseline", "self_pretraining"), seeds=(0, 1, 2), **cell):
    """Records whose F1 grows with the method and the seed."""
    return [
        record(method, seed, 0.4 + 0.1 * i + 0.01 * seed**2, **cell)
        for i, method in enumerate(methods)
        for seed in seeds
    ]


def notes_of(records, kind="main"):
    return make_table(kind, records).notes


# -- the paper's numbers ----------------------------------------------------------------------
def test_the_papers_numbers_are_complete_and_agree():
    main = _paper.main_scores()
    assert len(main) == len(_paper.SYSTEMS) * len(_paper.DATASETS) * 2
    assert len(_paper.ablation_scores()) == 1 + len(_paper.ABLATIONS)
    # the default rows of the small tables repeat the main table
    for kind, name in _paper.VARIED.items():
        default = _paper.varied_scores(kind)[_paper.DEFAULTS[name]]
        assert default == main[(*_paper.ANALYSIS, "self_pretraining")], kind


def test_defaults_and_names_are_those_of_the_methods():
    assert {n: PAPER_SETTINGS[n] for n in _paper.DEFAULTS} == _paper.DEFAULTS
    assert {name: method.label for name, method in methods().items()} == _paper.LABELS


def test_explicit_defaults_are_the_same_as_none():
    cell = {"method": "self_pretraining", "n_unlabeled": 2000}
    for params in ({}, {"step_size": 400}, {"temperature": 3, "alpha": 0.1}):
        assert _paper.parameters({**cell, "params": params}) == _paper.DEFAULTS
    assert "alpha" not in _paper.parameters({**cell, "method": "no_inertia"})
    other = {"method": "baseline", "params": {"lr": 1e-4}, "n_unlabeled": 2000}
    assert _paper.parameters(other) == {"lr": 1e-4}


# -- the main table ---------------------------------------------------------------------------
def test_mean_and_sd_are_those_of_pandas():
    rng = np.random.default_rng(0)
    records = [
        record(method, seed, float(rng.uniform(0.3, 0.8)), dataset=dataset, n_labeled=n)
        for method in ("baseline", "co_decomp", "tfidf_lr")
        for seed in range(4)
        for dataset in ("illness", "psytar")
        for n in (300, 500)
    ]
    flat = pd.DataFrame([{**r["cell"], **r["scores"]} for r in records])
    groups = flat.groupby(["dataset", "n_labeled", "method"])[["f1", "macro_f1"]]
    table = make_table("main", records)
    for (dataset, n, method), row in groups.agg(["mean", "std"]).iterrows():
        found = row_of(table, dataset=dataset, n_labeled=n, method=_paper.LABELS[method])
        for metric in ("f1", "macro_f1"):
            assert found[metric].mean == pytest.approx(row[metric, "mean"])
            assert found[metric].sd == pytest.approx(row[metric, "std"])
            assert found[metric].n == found["n_seeds"] == 4
    table = make_table("main", grid(seeds=(3,)))
    found = row_of(table, dataset="illness", method="Baseline")
    assert found["f1"] == Measure(pytest.approx(0.49), None, 1)
    assert "No sd is given where there are fewer than two seeds." in table.notes


def test_the_papers_number_is_in_the_row_of_the_same_data_set():
    ours = {"dataset": "adr", "n_labeled": 300, "method": "Baseline"}
    table = make_table("main", grid(dataset="adr"))
    assert as_frame(table)["paper_f1"].notna().sum() == 42
    assert row_of(table, **ours)["paper_f1"] == 0.238
    difference = row_of(table, **ours)["difference"]
    assert difference == pytest.approx(np.mean([0.4, 0.41, 0.44]) - 0.238)
    # scores of validation rows are not compared with the paper's
    table = make_table("main", grid(dataset="adr", n_validation=800))
    assert row_of(table, **ours)["difference"] is None
    assert any("800 validation texts" in note for note in table.notes)
    other = row_of(make_table("main", grid()), dataset="illness", method="Baseline")
    assert other["paper_f1"] is other["paper_recall"] is other["difference"] is None


@pytest.mark.parametrize("kind", PAPER_TABLES)
def test_without_records_the_papers_numbers_stand_alone(kind):
    frame = as_frame(make_table(kind, []))
    assert frame["paper_f1"].notna().all()
    assert frame[["f1", "precision", "n_seeds", "difference"]].isna().all(axis=None)


def test_methods_are_in_the_papers_order_without_ablations():
    names = ["zz_own", "self_pretraining", "no_inertia", "baseline", "tfidf_lr", "co_decomp"]
    frame = as_frame(make_table("main", grid(names)))
    shown = frame[frame["dataset"] == "illness"]["method"].tolist()
    rivals = ["TF-IDF + logistic regression", "Baseline", "Co-Decomp"]
    assert shown == [*rivals, "Self-Pretraining", "zz_own"]


def test_wide_layout_puts_the_data_sets_side_by_side():
    table = make_table("main", grid() + grid(dataset="adr", seeds=(0,)), layout="wide")
    found = row_of(table, n_labeled=300, method="Self-Pretraining")
    assert found["illness_f1"].mean == pytest.approx(np.mean([0.5, 0.51, 0.54]))
    assert found["adr_f1"] == Measure(0.5, None, 1)
    assert [found[f"paper_{d}_f1"] for d in _paper.DATASETS] == [0.397, 0.737, 0.766]
    alone = row_of(table, n_labeled=500, method="Co-Decomp")
    assert alone["illness_f1"] is None
    assert alone["paper_product_f1"] == 0.766


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("alpha", {"layout": "wide"}, "layout must be one of 'long'; got 'wide'"),
        ("gamma", {}, "kind must be one of 'main', 'step_size'"),
        ("main", {"against": "baseline"}, "against='baseline' is for the tables 'rivals'"),
    ],
)
def test_options_are_checked(kind, options, message):
    with pytest.raises(ValueError, match=message):
        make_table(kind, [], **options)


# -- the other tables -------------------------------------------------------------------------
@pytest.mark.parametrize("kind", _paper.VARIED)
def test_rows_are_the_values_of_the_paper_and_ours(kind):
    name = _paper.VARIED[kind]
    values = sorted({*_paper.varied_scores(kind), 0.77})
    frame = as_frame(make_table(kind, [record(params={name: value}) for value in values]))
    assert frame[name].astype(float).tolist() == values
    assert frame["f1"].notna().all()
    assert frame["paper_f1"].isna().sum() == 1


def test_step_sizes_are_shares_whether_given_as_such_or_as_counts():
    records = [record(seed=0, params={"step_size": 200}), record(seed=1), record(seed=2)]
    table = make_table("step_size", [*records, record(seed=1, params={"step_size": 0.1})])
    shares = {"0.1": 2, "0.2": 2, "0.4": None}
    assert {share: row_of(table, step_size=share)["n_seeds"] for share in shares} == shares


def test_changes_are_against_the_default_and_differences_for_the_papers_data_set():
    records = [record(f1=0.6), record(f1=0.55, params={"lam": 0.5})]
    # a table varies its own parameter alone
    records += [record(f1=0.9, params={"lam": lam, "alpha": 0.5}) for lam in (0.3, 0.5)]
    found = row_of(make_table("lambda", records), lam="0.5")
    assert found["change"] == pytest.approx(-0.05)
    assert found["paper_change"] == pytest.approx(0.421 - 0.420)
    table = make_table("alpha", [record(f1=0.5, dataset="adr", n_labeled=n) for n in (300, 500)])
    assert row_of(table, n_labeled=300, alpha="0.1")["difference"] is None
    difference = row_of(table, n_labeled=500, alpha="0.1")["difference"]
    assert difference == pytest.approx(0.5 - 0.42)


def test_ablation_has_the_full_method_and_each_part():
    names = ("self_pretraining", *_paper.ABLATIONS)
    frame = as_frame(make_table("ablation", grid(names) + grid(("baseline",))))
    labels = [f"without {part}" for part in _paper.ABLATIONS.values()]
    assert frame["method"].tolist() == ["Self-Pretraining", *labels]
    assert frame["change"].tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert frame["paper_f1"].tolist() == [0.42, 0.339, 0.36, 0.389, 0.42]
    # changes are paired over the seeds that both have
    full = [record(seed=seed, f1=f1) for seed, f1 in enumerate((0.5, 0.6, 0.8))]
    table = make_table("ablation", [*full, record("no_inertia", seed=0, f1=0.5)])
    assert row_of(table, method="without inertial transform")["change"] == 0


# -- which records stand in one mean ----------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("n_unlabeled", (2000, 10_000)),
        ("n_test", (1000, None)),
        ("encoder", ("small", "large")),
        ("normalize", (True, False)),
        ("protocol", (1, 2)),
        ("n_validation", (500, 1000)),
    ],
)
def test_settings_are_not_mixed(key, values):
    records = [record(seed=i, **{key: value}) for i, value in enumerate(values)]
    message = rf"illness, 300 labelled differ in {key} \({values[0]}, .*select.*{key}"
    for kind in ("main", "alpha"):
        with pytest.raises(ValueError, match=message):
            make_table(kind, records)
        assert as_frame(make_table(kind, records, where={key: values[1]}))["n_seeds"].max() == 1


def test_versions_of_a_file_are_not_mixed():
    records = [
        record("baseline", seed, dataset="posts.csv", file={"data_sha256": version, "text": "text"})
        for seed, version in enumerate("ab")
    ]
    message = "different contents or columns of a file and must not stand in one table; keep.*--out"
    for kind, options in (("main", {}), ("rivals", {"against": "baseline"})):
        with pytest.raises(ValueError, match=f"posts.csv, 300 labelled were made on {message}"):
            make_table(kind, records, **options)
    message = "differ in the content or the columns of the file must not be mixed; keep.*--out"
    with pytest.raises(ValueError, match=message):
        grouped(records, "method")
    two = [
        record("baseline", 0, dataset=name, file={"data_sha256": version})
        for name, version in (("a.csv", "a"), ("b.csv", "b"))
    ]
    for by in ("dataset", None):  # two files, which are two data sets
        assert list(grouped(two, by)[1]) == ["a.csv", "b.csv"]


def test_defaults_of_two_releases_are_not_mixed():
    """The cells are alike, but not what they left at its default; older records name none."""

    def ran(seed, params=None, **parameters):
        return {**record(seed=seed, params=params), "parameters": parameters}

    old, new = ran(0, ensemble="last_two"), ran(1, ensemble="with_start")
    message = r"different values of ensemble \('last_two' in seed 0, 'with_start' in seed 1\)"
    for more in ([], [ran(2, another=1)]):
        with pytest.raises(ValueError, match=f"illness, 300 labelled, .*{message}.*--out"):
            make_table("main", [old, new, *more])
    for same in (
        [new, ran(2, ensemble="with_start"), record(seed=0)],
        [ran(0, temperature=3), ran(1, temperature=3.0)],
        [ran(0, step_size=0.2), ran(1, params={"step_size": 400}, step_size=400)],
    ):
        assert make_table("main", same)


def test_other_parameters_are_left_out_used_or_refused():
    plain = make_table("main", grid())
    more = make_table("main", [*grid(), record(f1=0.9, params={"lam": 0.5})])
    assert more.rows == plain.rows
    left_out = "1 record(s) of self_pretraining with other parameters are left out."
    assert set(more.notes) - set(plain.notes) == {f"illness, 300 labelled: {left_out}"}
    only = make_table("main", grid(("baseline",), params={"lr": 1e-5}))
    assert row_of(only, dataset="illness", method="Baseline")["n_seeds"] == 3
    assert "illness, 300 labelled: baseline with the parameters lr=1e-05." in only.notes
    several = [record("baseline", params={"lr": lr}) for lr in (1e-4, 1e-5)]
    with pytest.raises(ValueError, match=r"lr=0\.0001 or lr=1e-05.*--select name=value"):
        make_table("main", several)
    assert make_table("main", several, where={"lr": 1e-5}).rows


def test_a_seed_counts_once():
    with_iterations, without = record(), record(score_iterations=False)
    del without["iterations"]
    table = make_table("main", [without, with_iterations, record(params={"lam": 0.3})])
    assert row_of(table, dataset="illness", method="Self-Pretraining")["n_seeds"] == 1
    with pytest.raises(ValueError, match=r"different scores \(illness, 300 labelled, .*seed 0"):
        make_table("main", [record(f1=0.5), record(f1=0.6)])


def test_selection_takes_lists_and_the_default():
    records = [record(params=p) for p in ({}, {"lam": 0.1}, {"lam": 0.5})]
    frame = as_frame(make_table("lambda", records, where={"lam": ["default", 0.5]}))
    assert frame[frame["f1"].notna()]["lam"].tolist() == ["0.3", "0.5"]
    with pytest.raises(ValueError, match="no record has n_labeled=100; there are 300, 500"):
        make_table("main", grid() + grid(n_labeled=500), where={"n_labeled": 100})
    with pytest.raises(ValueError, match="no cell has 'lamb' to select by; there are dataset"):
        make_table("main", grid(), where={"lamb": 0.1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": None}, "record 1 is not a record of a cell"),
        ({"cell": {"dataset": "illness"}}, "cell of record 1 lacks 'method', 'n_labeled'"),
        ({"status": "running"}, r"record 1 \(illness.*seed 0\): 'status' must be"),
        ({"scores": {"f1": float("nan")}}, "illness.*has no number 'f1' in 'scores': got nan"),
        ({"scores": None}, "no number 'f1' in 'scores': got None"),
    ],
)
def test_broken_records_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        make_table("main", [record("baseline"), {**record(), **change}])


# -- notes ------------------------------------------------------------------------------------
def test_notes_name_failed_and_missing_cells():
    records = [*grid(), record("tri_training", 1, 0.5), record("tri_training", 0, status="failed")]
    table = make_table("main", records)
    assert row_of(table, dataset="illness", method="Tri-training+")["n_seeds"] == 1
    failed = "failed: illness, 300 labelled, tri_training, seed 0 "
    assert failed + "(ValueError: the loss became nan)." in table.notes
    assert "missing: illness, 300 labelled, tri_training, seed 2." in table.notes
    # a cell with a later result has not failed, and a failed one may have another setting
    notes = notes_of([record(status="failed", n_test=None), record()])
    assert not any(note.startswith("failed") for note in notes)


def test_a_failed_cell_with_a_parameter_that_is_no_number_is_named():
    mistyped = record("self_pretraining", 0, status="failed", params={"lam": "abc"})
    table = make_table("main", [*grid(), mistyped])
    assert row_of(table, dataset="illness", method="Self-Pretraining")["n_seeds"] == 3


def test_parameters_that_a_method_sets_itself_are_not_offered():
    for name in ("self_pretraining", "self_pretraining_classifier", "tri_training"):
        offered = methods()[name].parameters
        assert "estimator__lr" in offered
        assert not {"estimator__max_epochs", "estimator__balanced_batches"} & set(offered)


def test_notes_name_cells_in_bf16_unless_all_are():
    def notes(records):
        return [note for note in notes_of(records) if "bf16" in note]

    records = grid()
    assert notes(records) == []
    for item in records:
        item["precision"] = "bf16" if item["cell"]["seed"] else "fp32"
    cells = "baseline, seeds 1, 2; self_pretraining, seeds 1, 2."
    assert notes(records) == [f"computed in bf16: illness, 300 labelled: {cells}"]
    records = [item for item in records if item["cell"]["seed"]]
    # a failed cell was computed in nothing, and words alone need no precision
    records += [record(status="failed"), {**record("tfidf_lr", 1), "precision": None}]
    assert notes(records) == []


def test_notes_name_the_setting_warnings_and_the_f1_of_a_constant_answer():
    warned = {**record(seed=1), "warnings": ["both views are the same"]}
    notes = notes_of([record(seed=0), warned])
    assert any("2,000 unlabelled and 1,000 test texts" in note for note in notes)
    assert "illness, 300 labelled: calling every text positive has an F1 of 0.294." in notes
    assert any("seed 1: both views are the same" in note for note in notes)
    assert "BERT-base" in notes[-1]
    # settings may differ between data sets, and sizes are those that were used
    other = {**record(dataset="psytar"), "split": {"n_unlabeled": 500, "n_test": 1189}}
    notes = notes_of([record(), other])
    assert any("psytar, 300 labelled: 500 unlabelled and 1,189 test" in note for note in notes)
