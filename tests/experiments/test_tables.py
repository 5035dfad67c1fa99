from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from helpers.optional import pd
from records import record

from sklearn_spt import PAPER_SETTINGS
from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._arguments import PAPER_TABLES
from sklearn_spt.experiments._methods import methods
from sklearn_spt.experiments._table import Measure
from sklearn_spt.experiments._tables import make_table


def as_frame(table):
    """A table as a frame with the columns' keys."""
    return pd.DataFrame(table.rows, columns=[column.key for column in table.columns])


def row_of(table, **wanted):
    """The only row of a table with the given values, as a dict."""
    frame = as_frame(table)
    for key, value in wanted.items():
        frame = frame[frame[key] == value]
    assert len(frame) == 1, frame
    row = frame.iloc[0].to_dict()
    return {k: None if isinstance(v, float) and np.isnan(v) else v for k, v in row.items()}


def grid(methods=("baseline", "self_pretraining"), seeds=(0, 1, 2), **cell):
    """Records whose F1 grows with the method and the seed."""
    return [
        record(method, seed, 0.4 + 0.1 * i + 0.01 * seed**2, **cell)
        for i, method in enumerate(methods)
        for seed in seeds
    ]


class TestPaper:
    def test_the_json_holds_what_the_paper_prints(self):
        found = Counter({kind: len(_paper.paper_tables()[kind]) for kind in PAPER_TABLES})
        expected = {"main": 42, "step_size": 4, "temperature": 5, "lambda": 5, "alpha": 5}
        assert found == {**expected, "ablation": 4}
        assert len(_paper.main_scores()) == 7 * 3 * 2

    def test_some_numbers(self):
        assert _paper.main_scores()["product", 500, "self_pretraining"]["f1"] == 0.787
        assert _paper.main_scores()["adr", 300, "mutual_learning"]["recall"] == 0.012
        assert _paper.varied_scores("step_size")[0.3]["precision"] == 0.386
        assert _paper.varied_scores("lambda")[0.4]["f1"] == 0.438
        assert _paper.ablation_scores()["no_trapezoidal_lr"]["recall"] == 0.770

    def test_defaults_of_the_paper_are_those_of_its_settings(self):
        assert {n: PAPER_SETTINGS[n] for n in _paper.DEFAULTS} == _paper.DEFAULTS

    def test_default_rows_of_the_varied_tables_agree_with_the_main_table(self):
        expected = _paper.main_scores()[(*_paper.ANALYSIS, "self_pretraining")]
        for kind, name in _paper.VARIED.items():
            assert _paper.varied_scores(kind)[_paper.DEFAULTS[name]] == expected, kind

    def test_names_of_the_methods_are_those_of_the_runner(self):
        assert {name: method.label for name, method in methods().items()} == _paper.LABELS

    @pytest.mark.parametrize(
        "params", [{}, {"step_size": 0.2}, {"step_size": 400}, {"temperature": 3, "alpha": 0.1}]
    )
    def test_explicit_defaults_are_the_same_as_none(self, params):
        cell = {"method": "self_pretraining", "params": params, "n_unlabeled": 2000}
        assert _paper.parameters(cell) == _paper.DEFAULTS

    def test_parameters_of_other_methods_are_unchanged(self):
        cell = {"method": "baseline", "params": {"lr": 1e-4}, "n_unlabeled": 2000}
        assert _paper.parameters(cell) == {"lr": 1e-4}
        assert "alpha" not in _paper.parameters({**cell, "method": "no_inertia"})


class TestMain:
    def test_mean_and_sd_are_those_of_pandas(self):
        rng = np.random.default_rng(0)
        records = [
            record(method, seed, float(rng.uniform(0.3, 0.8)), dataset=dataset, n_labeled=n)
            for method in ("baseline", "co_decomp", "tfidf_lr")
            for seed in range(4)
            for dataset in ("illness", "psytar")
            for n in (300, 500)
        ]
        flat = pd.DataFrame([{**r["cell"], **r["scores"]} for r in records])
        expected = flat.groupby(["dataset", "n_labeled", "method"])[["f1", "macro_f1"]].agg(
            ["mean", "std"]
        )
        table = make_table("main", records)
        for key, row in expected.iterrows():
            dataset, n, method = key
            label = _paper.LABELS[method]
            found = row_of(table, dataset=dataset, n_labeled=n, method=label)
            for metric in ("f1", "macro_f1"):
                measure = found[metric]
                assert measure.mean == pytest.approx(row[metric, "mean"])
                assert measure.sd == pytest.approx(row[metric, "std"])
                assert measure.n == found["n_seeds"] == 4

    def test_one_seed_has_no_sd(self):
        table = make_table("main", grid(seeds=(3,)))
        found = row_of(table, dataset="illness", method="Baseline")
        assert found["f1"] == Measure(pytest.approx(0.49), None, 1)
        assert "No sd is given where there are fewer than two seeds." in table.notes

    def test_the_papers_number_is_in_the_row_of_the_same_data_set(self):
        table = make_table("main", grid(dataset="adr"))
        found = row_of(table, dataset="adr", n_labeled=300, method="Baseline")
        assert found["paper_f1"] == 0.238
        assert found["difference"] == pytest.approx(np.mean([0.4, 0.41, 0.44]) - 0.238)

    def test_validation_scores_are_not_compared_with_the_papers(self):
        table = make_table("main", grid(dataset="adr", n_validation=800))
        found = row_of(table, dataset="adr", n_labeled=300, method="Baseline")
        assert found["difference"] is None
        assert any("800 validation texts" in note for note in table.notes)

    def test_no_number_of_the_paper_leaves_the_cell_empty(self):
        found = row_of(make_table("main", grid()), dataset="illness", method="Baseline")
        assert found["f1"] is not None
        assert found["paper_f1"] is found["paper_recall"] is found["difference"] is None

    def test_without_records_the_papers_numbers_stand_alone(self):
        table = make_table("main", [])
        frame = as_frame(table)
        assert len(frame) == 42
        assert frame[["f1", "precision", "n_seeds", "difference"]].isna().all(axis=None)
        assert frame["paper_f1"].sum() == pytest.approx(
            sum(scores["f1"] for scores in _paper.main_scores().values())
        )

    def test_each_number_of_the_paper_appears_once(self):
        frame = as_frame(make_table("main", grid(dataset="adr")))
        assert frame["paper_f1"].notna().sum() == 42

    def test_methods_are_in_the_papers_order_without_ablations(self):
        names = ["zz_own", "self_pretraining", "no_inertia", "baseline", "tfidf_lr", "co_decomp"]
        frame = as_frame(make_table("main", grid(names)))
        shown = frame[frame["dataset"] == "illness"]["method"].tolist()
        rivals = ["TF-IDF + logistic regression", "Baseline", "Co-Decomp"]
        assert shown == [*rivals, "Self-Pretraining", "zz_own"]

    def test_wide_layout_puts_the_data_sets_side_by_side(self):
        records = grid() + grid(dataset="adr", seeds=(0,))
        table = make_table("main", records, layout="wide")
        found = row_of(table, n_labeled=300, method="Self-Pretraining")
        long = row_of(
            make_table("main", records), dataset="illness", n_labeled=300, method="Self-Pretraining"
        )
        assert found["illness_f1"] == long["f1"]
        assert found["adr_f1"] == Measure(0.5, None, 1)
        assert [found[f"paper_{d}_f1"] for d in _paper.DATASETS] == [0.397, 0.737, 0.766]
        alone = row_of(table, n_labeled=500, method="Co-Decomp")
        assert alone["illness_f1"] is None
        assert alone["paper_product_f1"] == 0.766

    def test_layout_and_kind_are_checked(self):
        with pytest.raises(ValueError, match="layout must be one of 'long'; got 'wide'"):
            make_table("alpha", [], layout="wide")
        with pytest.raises(ValueError, match="kind must be one of 'main', 'step_size'"):
            make_table("gamma", [])


class TestOtherTables:
    @pytest.mark.parametrize("kind", ["step_size", "temperature", "lambda", "alpha"])
    def test_rows_are_the_values_of_the_paper_and_ours(self, kind):
        name = _paper.VARIED[kind]
        values = sorted({*_paper.varied_scores(kind), 0.77})
        records = [record(params={name: value}, f1=0.5) for value in values]
        frame = as_frame(make_table(kind, records))
        assert frame[name].astype(float).tolist() == values
        assert frame["f1"].notna().all()
        assert frame["paper_f1"].isna().sum() == 1

    def test_step_sizes_are_shares_whether_given_as_such_or_as_counts(self):
        records = [record(seed=0, params={"step_size": 200}), record(seed=1), record(seed=2)]
        records += [record(seed=1, params={"step_size": 0.1})]
        table = make_table("step_size", records)
        assert row_of(table, step_size="0.1")["n_seeds"] == 2
        assert row_of(table, step_size="0.2")["paper_f1"] == 0.420
        assert row_of(table, step_size="0.4")["n_seeds"] is None

    def test_changes_are_against_the_default(self):
        records = [record(f1=0.6), record(f1=0.55, params={"lam": 0.5})]
        found = row_of(make_table("lambda", records), lam="0.5")
        assert found["change"] == pytest.approx(-0.05)
        assert found["paper_change"] == pytest.approx(0.421 - 0.420)
        assert found["difference"] is None, "another data set than the paper's"

    def test_difference_for_the_papers_data_set_and_number_of_labels(self):
        records = [record(f1=0.5, dataset="adr", n_labeled=n) for n in (300, 500)]
        table = make_table("alpha", records)
        assert row_of(table, n_labeled=300, alpha="0.1")["difference"] is None
        found = row_of(table, n_labeled=500, alpha="0.1")
        assert found["difference"] == pytest.approx(0.5 - 0.42)

    def test_ablation_has_the_full_method_and_each_part(self):
        names = ("self_pretraining", *_paper.ABLATIONS)
        table = make_table("ablation", grid(names) + grid(("baseline",)))
        frame = as_frame(table)
        labels = [f"without {part}" for part in _paper.ABLATIONS.values()]
        assert frame["method"].tolist() == ["Self-Pretraining", *labels]
        assert frame["change"].tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
        assert frame["paper_f1"].tolist() == [0.42, 0.339, 0.36, 0.389, 0.42]

    @pytest.mark.parametrize("kind", [kind for kind in PAPER_TABLES if kind != "main"])
    def test_without_records_the_papers_numbers_stand_alone(self, kind):
        frame = as_frame(make_table(kind, []))
        assert frame["paper_f1"].notna().all()
        assert frame["f1"].isna().all()


class TestSettings:
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
    @pytest.mark.parametrize("kind", ["main", "ablation", "alpha"])
    def test_settings(self, kind, key, values):
        records = [record(seed=i, **{key: value}) for i, value in enumerate(values)]
        message = rf"illness, 300 labelled differ in {key} \({values[0]}, .*select.*{key}"
        with pytest.raises(ValueError, match=message):
            make_table(kind, records)
        found = as_frame(make_table(kind, records, where={key: values[1]}))
        assert found["n_seeds"].max() == 1

    def test_defaults_of_two_releases(self):
        """The cells are alike, but what they did not name was not; older records do not say."""
        old, new = (
            {**record(seed=i), "parameters": {"lam": 0.3, "ensemble": value}}
            for i, value in enumerate(("last_two", "with_start"))
        )
        message = r"different values of ensemble \('last_two' in seed 0, 'with_start' in seed 1\)"
        with pytest.raises(ValueError, match=f"illness, 300 labelled, .*{message}.*--out"):
            make_table("main", [old, new])
        assert make_table("main", [new, {**new, "cell": record(seed=2)["cell"]}, record(seed=0)])
        # the same number, and what a cell sets itself
        for one, other in ((3, 3.0), (400, 400.0)):
            pair = (
                {**record(seed=i), "parameters": {"temperature": value}}
                for i, value in enumerate((one, other))
            )
            assert make_table("main", list(pair))
        counted = {**record(seed=1, params={"step_size": 400}), "parameters": {"step_size": 400}}
        share = {**record(seed=0), "parameters": {"step_size": 0.2}}
        assert make_table("main", [share, counted])
        third = {**record(seed=2), "parameters": {"another": 1}}
        with pytest.raises(ValueError, match="different values of ensemble"):
            make_table("main", [old, new, third])

    def test_settings_may_differ_between_data_sets(self):
        records = grid() + grid(dataset="psytar", n_unlabeled=500, n_test=100)
        table = make_table("main", records)
        assert any("psytar, 300 labelled: 500 unlabelled and 100 test" in n for n in table.notes)

    def test_cells_with_other_parameters_are_left_out_and_counted(self):
        records = [*grid(), record(f1=0.9, params={"lam": 0.5})]
        table = make_table("main", records)
        plain = make_table("main", grid())
        assert table.rows == plain.rows
        assert set(table.notes) - set(plain.notes) == {
            "illness, 300 labelled: 1 record(s) of self_pretraining with other parameters are left "
            "out."
        }

    def test_a_single_set_of_other_parameters_is_used_and_noted(self):
        table = make_table("main", grid(("baseline",), params={"lr": 1e-5}))
        assert row_of(table, dataset="illness", method="Baseline")["n_seeds"] == 3
        assert "illness, 300 labelled: baseline with the parameters lr=1e-05." in table.notes

    def test_several_sets_of_other_parameters_are_an_error(self):
        records = [record("baseline", params={"lr": lr}) for lr in (1e-4, 1e-5)]
        with pytest.raises(ValueError, match=r"lr=0\.0001 or lr=1e-05.*--select name=value"):
            make_table("main", records)
        assert make_table("main", records, where={"lr": 1e-5}).rows

    def test_changes_are_paired_over_the_seeds_that_both_have(self):
        full = [record(seed=seed, f1=f1) for seed, f1 in enumerate((0.5, 0.6, 0.8))]
        table = make_table("ablation", [*full, record("no_inertia", seed=0, f1=0.5)])
        assert row_of(table, method="without inertial transform")["change"] == 0

    def test_notes_repeat_the_warnings_of_cells(self):
        warned = {**record(seed=1), "warnings": ["both views are the same"]}
        notes = make_table("main", [record(seed=0), warned]).notes
        assert any("seed 1: both views are the same" in note for note in notes)

    def test_sizes_are_those_that_were_used(self):
        small = {**record(), "split": {"n_unlabeled": 2000, "n_test": 1189}}
        assert any("1,189 test texts" in note for note in make_table("main", [small]).notes)

    def test_a_failed_cell_of_another_setting_does_not_matter(self):
        broken = {**record(n_test=None), "status": "failed"}
        broken["error"] = {"type": "ValueError", "message": "none", "traceback": ""}
        del broken["scores"]
        assert make_table("main", [record(), broken]).rows

    def test_a_table_varies_its_own_parameter_alone(self):
        records = [
            record(params={"lam": lam, "alpha": a}) for lam in (0.1, 0.3) for a in (0.1, 0.5)
        ]
        found = as_frame(make_table("lambda", records))
        assert found["n_seeds"].max() == 1

    def test_a_seed_counts_once(self):
        with_iterations, without = record(), record(score_iterations=False)
        del without["iterations"]
        table = make_table("main", [without, with_iterations, record(params={"lam": 0.3})])
        assert row_of(table, dataset="illness", method="Self-Pretraining")["n_seeds"] == 1

    def test_two_results_of_one_seed_are_an_error(self):
        with pytest.raises(ValueError, match=r"different scores \(illness, 300 labelled, .*seed 0"):
            make_table("main", [record(f1=0.5), record(f1=0.6)])


class TestNotes:
    def test_notes_name_failed_and_missing_cells(self):
        records = [
            *grid(),
            record("tri_training", 1, 0.5),
            record("tri_training", 0, status="failed"),
        ]
        table = make_table("main", records)
        assert row_of(table, dataset="illness", method="Tri-training+")["n_seeds"] == 1
        failed = "failed: illness, 300 labelled, tri_training, seed 0 "
        assert failed + "(ValueError: the loss became nan)." in table.notes
        assert "missing: illness, 300 labelled, tri_training, seed 2." in table.notes

    def test_notes_name_cells_in_bf16_unless_all_are(self):
        records = grid()
        assert not any("bf16" in note for note in make_table("main", records).notes)
        for item in records:
            item["precision"] = "bf16" if item["cell"]["seed"] else "fp32"
        notes = [note for note in make_table("main", records).notes if "bf16" in note]
        assert notes == [
            "computed in bf16: illness, 300 labelled: "
            "baseline, seeds 1, 2; self_pretraining, seeds 1, 2."
        ]
        records = [item for item in records if item["cell"]["seed"]]
        assert not any("bf16" in note for note in make_table("main", records).notes)
        # a failed cell was computed in nothing, and words alone need no precision
        records += [record(status="failed"), {**record("tfidf_lr", 1), "precision": None}]
        assert not any("bf16" in note for note in make_table("main", records).notes)

    def test_a_cell_with_a_later_result_is_not_failed(self):
        notes = make_table("main", [record(status="failed"), record()]).notes
        assert not any(note.startswith("failed") for note in notes)

    def test_notes_name_the_setting_and_the_f1_of_a_constant_answer(self):
        notes = make_table("main", grid()).notes
        assert any("2,000 unlabelled and 1,000 test texts" in note for note in notes)
        assert "illness, 300 labelled: calling every text positive has an F1 of 0.294." in notes
        assert "BERT-base" in notes[-1]


class TestBrokenRecords:
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
    def test_are_named(self, change, message):
        with pytest.raises(ValueError, match=message):
            make_table("main", [record("baseline"), {**record(), **change}])

    def test_selection_that_leaves_nothing_says_what_there_is(self):
        with pytest.raises(ValueError, match="no record has n_labeled=100; there are 300, 500"):
            make_table("main", grid() + grid(n_labeled=500), where={"n_labeled": 100})
        with pytest.raises(ValueError, match="no cell has 'lamb' to select by; there are dataset"):
            make_table("main", grid(), where={"lamb": 0.1})

    def test_selection_takes_lists_and_the_default(self):
        records = [record(params=p) for p in ({}, {"lam": 0.1}, {"lam": 0.5})]
        frame = as_frame(make_table("lambda", records, where={"lam": ["default", 0.5]}))
        assert frame[frame["f1"].notna()]["lam"].tolist() == ["0.3", "0.5"]
