"""Running cells: resumption, broken cells, backends, and the command line."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sklearn_spt.datasets import make_short_texts
from sklearn_spt.experiments import _methods, _runner
from sklearn_spt.experiments._cells import Cell
from sklearn_spt.experiments._cli import main
from sklearn_spt.experiments._memory import PeakMemory
from sklearn_spt.experiments._methods import ABLATIONS, PAPER_METHODS, methods
from sklearn_spt.experiments._protocol import cut, draw
from sklearn_spt.experiments._records import read_records
from sklearn_spt.experiments._runner import run_cells
from sklearn_spt.experiments._search import search
from sklearn_spt.experiments._setfit import SetFitClassifier
from sklearn_spt.nets._device import resolve_device, resolve_precision

ROOT = Path(__file__).resolve().parents[2]
SCORES = {"f1", "precision", "recall", "accuracy", "macro_f1", "brier", "ece"}


@pytest.fixture(scope="session")
def posts(tmp_path_factory):
    """A file of made-up texts, with keywords."""
    bunch = make_short_texts(400, random_state=0)
    path = tmp_path_factory.mktemp("posts") / "posts.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "keyword"])
        for text, label in zip(bunch.data, bunch.target, strict=True):
            writer.writerow([text, "yes" if label else "no", "flu"])
    return path


@pytest.fixture
def arguments(posts, tiny_long_checkpoint, tmp_path):
    """The command line of a small grid, but for the methods."""
    return [
        "run",
        f"--data={posts}",
        f"--encoder={tiny_long_checkpoint}",
        "--n-labeled=40",
        "--n-unlabeled=60",
        "--n-test=80",
        "--positive=yes",
        "--keyword-column=keyword",
        f"--out={tmp_path / 'records'}",
        "--n-threads=1",
        "--quiet",
    ]


def outcomes(folder):
    """What must not depend on how a grid was run."""
    return {
        (r["cell"]["method"], r["cell"]["seed"], json.dumps(r["cell"]["params"])): (
            r["status"],
            r["scores"],
            r["split"],
        )
        for r in read_records([folder])
    }


# -- one run ----------------------------------------------------------------------------------
def test_every_method_gives_a_record(arguments, tmp_path):
    params = ["--param=max_iter=1", "--param=spaced_rep.episode_epochs=2"]
    assert main([*arguments, "--method=paper,ablations", "--seeds=0", *params]) == 0
    records = {r["cell"]["method"]: r for r in read_records([tmp_path / "records"])}
    assert set(records) == {*PAPER_METHODS, *ABLATIONS}
    for name, record in records.items():
        assert record["status"] == "done"
        assert set(record["scores"]) == SCORES
        assert record["seconds"]["fit"] > 0
        assert record["peak_memory_bytes"] > 50e6
        assert record["versions"]["torch"]
        assert record["precision"] == resolve_precision("auto", resolve_device("auto"))
        assert ("history" in record) == (name != "baseline")
    # defaults are on record as well as what was set, but nothing that differs between machines
    used = records["self_pretraining"]["parameters"]
    assert (used["lam"], used["estimator__head_init"]) == (0.3, "random")
    assert records["no_inertia"]["parameters"]["alpha"] == 0
    assert records["self_pretraining"]["logit_adjustment"] == 0.0  # the paper's
    assert not {n for n in used if n.endswith(("random_state", "n_threads", "device"))}
    # the labelled sample is the same for all methods
    assert len({r["split"]["sha256_rows"] for r in records.values()}) == 1
    share = records["baseline"]["split"]["test_counts"]["positive"] / 80
    assert records["baseline"]["all_positive_f1"] == pytest.approx(2 * share / (1 + share))


def test_rivals_give_records(arguments, tmp_path):
    rivals = "tfidf_lr,embeddings_lr,sklearn_self_training,baseline_shuffled,bert_ensemble"
    assert main([*arguments, f"--method={rivals}", "--seeds=0"]) == 0
    records = read_records([tmp_path / "records"])
    assert len(records) == 5
    assert all(set(record["scores"]) == SCORES for record in records)
    used = {record["cell"]["method"]: record["precision"] for record in records}
    assert used.pop("tfidf_lr") is None
    assert set(used.values()) == {resolve_precision("auto", resolve_device("auto"))}


def test_setfit_is_a_rival_where_it_is_installed(arguments, tmp_path, monkeypatch, capsys):
    """Without it, the error says what to install before anything is run."""
    monkeypatch.setattr(_methods, "find_spec", lambda name: None)
    assert main([*arguments, "--method=setfit,tfidf_lr", "--seeds=0"]) == 2
    assert "sklearn-spt[benchmarks]" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()
    monkeypatch.setitem(sys.modules, "setfit", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"sklearn-spt\[benchmarks\]"):
        SetFitClassifier("encoder").fit(["one", "two"], [0, 1])


def test_setfit_is_reproducible_and_silent(tiny_long_checkpoint, capfd):
    pytest.importorskip("setfit", reason="the extra [benchmarks] is not installed")
    bunch = made_up()
    X, y = bunch.data[:24], bunch.target[:24]
    fits = [
        SetFitClassifier(tiny_long_checkpoint, max_steps=2, batch_size=4).fit(X, y)
        for _ in range(2)
    ]
    P, again = (model.predict_proba(bunch.data[:10]) for model in fits)
    np.testing.assert_array_equal(P, again)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(fits[0].predict(bunch.data[:10]), P.argmax(axis=1))
    assert capfd.readouterr() == ("", "")


def test_validation_rows_take_the_place_of_the_test_rows(arguments, tmp_path):
    grid = [*arguments, "--method=tfidf_lr", "--seeds=0"]
    assert main([*grid, "--validate=50"]) == 0
    assert main(grid) == 0
    scored = {
        r["cell"].get("n_validation"): r["split"] for r in read_records([tmp_path / "records"])
    }
    assert {n: sum(split["test_counts"].values()) for n, split in scored.items()} == {
        50: 50,
        None: 80,
    }
    assert scored[50]["n_rest"] < scored[None]["n_rest"]


def test_iterations_are_scored_on_request(arguments, tmp_path):
    assert main([*arguments, "--method=self_pretraining", "--seeds=0", "--score-iterations"]) == 0
    (record,) = read_records([tmp_path / "records"])
    assert [row["iteration"] for row in record["iterations"]] == [0, 1, 2, 3, 4, 5]
    assert record["iterations"][-1]["f1"] == record["scores"]["f1"]


def test_parameters_are_an_axis(arguments, tmp_path):
    grid = [*arguments, "--method=self_pretraining", "--seeds=0", "--param=lam=0.1,0.9"]
    assert main([*grid, "--param=max_iter=1"]) == 0
    params = [r["cell"]["params"] for r in read_records([tmp_path / "records"])]
    assert params == [{"lam": 0.1, "max_iter": 1}, {"lam": 0.9, "max_iter": 1}]


# -- resumption -------------------------------------------------------------------------------
def test_a_finished_cell_is_never_run_again(arguments, tmp_path, monkeypatch):
    grid = [*arguments, "--method=baseline", "--seeds=0,1"]
    assert main(grid) == 0
    before = outcomes(tmp_path / "records")

    def refuse(*args):
        raise AssertionError("a cell was run again")

    monkeypatch.setattr(_runner, "run_cell", refuse)
    assert main(grid) == 0
    assert outcomes(tmp_path / "records") == before


def test_a_broken_cell_is_recorded_and_the_others_go_on(arguments, tmp_path, capsys):
    grid = [*arguments, "--method=baseline,self_pretraining", "--seeds=0"]
    grid += ["--param=temperature=0"]
    assert main(grid) == 1
    records = {r["cell"]["method"]: r for r in read_records([tmp_path / "records"])}
    assert records["baseline"]["status"] == "done"
    error = records["self_pretraining"]["error"]
    assert records["self_pretraining"]["status"] == "failed"
    assert error["type"] == "ValueError"
    assert "temperature" in error["message"]
    assert "Traceback" in error["traceback"]
    assert "failed: " in capsys.readouterr().err


def test_a_broken_cell_is_tried_again_on_request_alone(tiny_long_checkpoint, tmp_path, monkeypatch):
    cell = small_cell(tiny_long_checkpoint)
    options = {"corpus_of": lambda cell: cut(made_up(), cell.n_test), "verbose": 0, "n_threads": 1}
    monkeypatch.setattr(_runner, "_fit_and_score", broken)
    assert run_cells([cell], tmp_path, **options) == {"done": 0, "failed": 1, "skipped": 0}
    monkeypatch.undo()
    assert run_cells([cell], tmp_path, **options) == {"done": 0, "failed": 0, "skipped": 1}
    again = run_cells([cell], tmp_path, **options, retry_failed=True)
    assert again == {"done": 1, "failed": 0, "skipped": 0}


def small_cell(encoder, **changes):
    given = {
        "dataset": "made up",
        "method": "baseline",
        "n_labeled": 40,
        "n_unlabeled": 60,
        "n_test": 80,
        "seed": 0,
        "encoder": encoder,
    }
    return Cell(**{**given, **changes})


def made_up():
    return make_short_texts(400, random_state=0)


def made_up_corpus(cell):
    return cut(made_up(), cell.n_test)


def broken(*args):
    raise RuntimeError("out of order")


def test_a_file_is_known_by_its_content_and_its_columns(arguments, posts, tmp_path, capsys):
    """Another meaning of the same name is another cell; another path of the same file is none."""
    grid = [*arguments, "--method=tfidf_lr", "--seeds=0"]
    grid.remove("--quiet")
    assert main(grid) == 0
    moved = tmp_path / "elsewhere" / posts.name
    moved.parent.mkdir()
    moved.write_bytes(posts.read_bytes())
    assert main([*grid, f"--data={moved}"]) == 0
    assert "0 cells done, 0 failed, 1 were there already" in capsys.readouterr().out
    assert main([*grid, "--positive=no"]) == 0
    moved.write_bytes(posts.read_bytes().replace(b"flu", b"cold"))
    assert main([*grid, f"--data={moved}"]) == 0
    records = read_records([tmp_path / "records"])
    assert len(records) == 3
    assert {r["cell"]["dataset"] for r in records} == {"posts.csv"}
    assert len({r["cell"]["file"]["data_sha256"] for r in records}) == 2


def test_more_texts_come_from_an_unlabelled_file(arguments, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("text\n" + "".join(f"post number {i} of many\n" for i in range(300)))
    grid = [*arguments, "--method=self_training", "--seeds=0", "--param=max_iter=0"]
    assert main([*grid, f"--unlabeled-file={more}", "--n-unlabeled=all"]) == 0
    (record,) = read_records([tmp_path / "records"])
    assert record["split"]["n_unlabeled"] > 300
    assert record["split"]["n_test"] == 80


def test_two_labels_of_a_file_need_to_say_which_is_positive(arguments, capsys):
    given = [a for a in arguments if not a.startswith("--positive")]
    assert main([*given, "--method=tfidf_lr"]) == 2
    assert "say which, --positive LABEL" in capsys.readouterr().err


def test_a_parameter_of_the_net_reaches_the_baseline_too(arguments, tmp_path):
    grid = [*arguments, "--method=baseline,self_pretraining", "--seeds=0"]
    assert main([*grid, "--param=estimator__lr=0.001", "--param=max_iter=0"]) == 0
    params = {
        r["cell"]["method"]: r["cell"]["params"] for r in read_records([tmp_path / "records"])
    }
    assert params["baseline"] == {"lr": 0.001}
    assert params["self_pretraining"] == {"estimator__lr": 0.001, "max_iter": 0}


def test_co_decomp_needs_keywords(arguments, tmp_path, capsys):
    without = [a for a in arguments if not a.startswith("--keyword")]
    assert main([*without, "--method=co_decomp", "--seeds=0"]) == 1
    assert "co_decomp needs the keywords" in capsys.readouterr().err


def test_a_record_that_is_no_json_is_a_broken_cell(tiny_long_checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(_runner, "_fit_and_score", lambda *args: {"scores": {"f1": float("nan")}})
    counts = run_cells([small_cell(tiny_long_checkpoint)], tmp_path, made_up_corpus, verbose=0)
    assert counts == {"done": 0, "failed": 1, "skipped": 0}
    (record,) = read_records([tmp_path])
    assert "scores" not in record


def test_a_backend_that_gives_no_results_early_serves_too(arguments, tmp_path):
    grid = [*arguments, "--method=tfidf_lr", "--seeds=0,1,2"]
    assert main([*grid, "--backend=multiprocessing", "--n-jobs=2"]) == 0
    assert len(read_records([tmp_path / "records"])) == 3


def test_records_can_be_read_by_others(arguments, tmp_path):
    assert main([*arguments, "--method=tfidf_lr", "--seeds=0"]) == 0
    (path,) = (tmp_path / "records").glob("*.json")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_table(arguments, tmp_path):
    grid = [*arguments, "--method=baseline,self_pretraining,self_training", "--seeds=0,1"]
    grid += ["--param=max_iter=2"]
    whole = [a.replace("records", "whole") for a in grid]
    assert main(whole) == 0

    folder = tmp_path / "records"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-m", "sklearn_spt.experiments", *grid], env=env, cwd=tmp_path
    )
    try:
        deadline = time.monotonic() + 240
        while not list(folder.glob("*.json")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = len(list(folder.glob("*.json")))
    assert 1 <= found < 6

    assert main(grid) == 0
    assert outcomes(folder) == outcomes(tmp_path / "whole")


# -- backends ---------------------------------------------------------------------------------
@pytest.mark.slow
def test_processes_give_the_same_records(arguments, tmp_path):
    grid = [*arguments, "--method=baseline", "--seeds=0,1"]
    assert main(grid) == 0
    parallel = [a.replace("records", "parallel") for a in grid]
    assert main([*parallel, "--n-jobs=2"]) == 0
    assert outcomes(tmp_path / "parallel") == outcomes(tmp_path / "records")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_dask_cluster_of_two_workers_gives_the_same_records(arguments, tmp_path):
    distributed = pytest.importorskip("distributed")
    grid = [*arguments, "--method=baseline", "--seeds=0,1,2"]
    assert main(grid) == 0
    on_cluster = [a.replace("records", "cluster") for a in grid]
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster:
        assert main([*on_cluster, f"--scheduler={cluster.scheduler_address}"]) == 0
    assert outcomes(tmp_path / "cluster") == outcomes(tmp_path / "records")


# -- the command line -------------------------------------------------------------------------
def test_a_dry_run_lists_cells_and_runs_none(arguments, tmp_path, capsys):
    assert main([*arguments, "--method=baseline", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("missing") for line in lines)
    assert not (tmp_path / "records").exists()


def test_quiet_prints_nothing(arguments, capfd):
    assert main([*arguments, "--method=baseline", "--seeds=0"]) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method=bert"], "no method 'bert'"),
        (["--data=nothing"], "no data set 'nothing'"),
        (["--param=lam"], "name=value"),
        (["--method=baseline", "--param=lam=1"], "belongs to none"),
        (["--n-labeled=5000"], "n_labeled=5000 must be"),
        (["--param=lam=nan"], "no finite number"),
        (["--scheduler=tcp://127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_bad_arguments_are_named(arguments, more, message, capsys, tmp_path):
    if more[0].startswith("--scheduler"):
        import dask

        pytest.importorskip("distributed")
        with dask.config.set({"distributed.comm.timeouts.connect": "300ms"}):
            assert main([*arguments, *more]) == 2
    else:
        assert main([*arguments, *more]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("records/*.json"))


@pytest.mark.parametrize(
    "argument", ["--seeds=a", "--seeds=2-0", "--n-labeled=x", "--data=", "--n-threads=0"]
)
def test_malformed_arguments_are_named(arguments, argument, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, argument])
    assert f"argument {argument.partition('=')[0]}" in capsys.readouterr().err


def test_list_names_data_sets_and_methods(capsys, tmp_path):
    assert main(["list", "--data-home", str(tmp_path), "--params"]) == 0
    out = capsys.readouterr().out
    for name in ("illness", "phm_tuning", "crisislex_t6", "psytar", "adr", "earthquake", "product"):
        assert f"  {name}" in out
    for name, method in methods().items():
        assert name in out
        assert method.label in out
    assert "not here" in out


def test_help_of_every_command(capsys):
    for command in ("run", "table", "plot", "search", "list"):
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        assert f"sklearn_spt.experiments {command}" in capsys.readouterr().out


def test_a_search_over_lam_and_alpha(arguments, tmp_path, capsys):
    search = ["search", *arguments[1:], "--seeds=0", "--lam=0.1,0.9", "--alpha=0,0.5", "--folds=2"]
    assert main([*search, "--param=max_iter=2"]) == 0
    (path,) = (tmp_path / "records").glob("_search-*.json")
    found = json.loads(path.read_text())
    assert len(found["results"]) == 4
    assert found["best"] in found["results"]
    assert found["best"]["f1_mean"] == max(row["f1_mean"] for row in found["results"])
    assert "best: lam=" in capsys.readouterr().out
    assert list(path.parent.iterdir()) == [path]  # what the pairs shared is gone


def test_a_search_with_shared_work_finds_the_same(tiny_long_checkpoint, tmp_path):
    cell = small_cell(tiny_long_checkpoint, method="self_pretraining", params={"max_iter": 1})
    split = draw(made_up_corpus(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
    plain, shared, again = (
        search(cell, split, lams=[0.1, 0.9], alphas=[0], n_folds=2, memory=memory, verbose=0)
        for memory in (None, tmp_path, tmp_path)
    )
    for found in (plain, shared, again):
        for row in found["results"]:
            del row["fit_seconds"]
    assert plain["results"] == shared["results"] == again["results"]
    assert any(tmp_path.rglob("*.pkl"))


def test_a_search_on_a_cluster_leaves_nothing_and_goes_on(arguments, tmp_path, capsys):
    from distributed import LocalCluster

    grid = ["search", *arguments[1:], "--seeds=0,1", "--lam=0.1", "--alpha=0", "--folds=2"]
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        done = main([*grid, "--param=max_iter=1", f"--scheduler={cluster.scheduler_address}"])
    assert done == 0
    assert capsys.readouterr().out.count("best: lam=") == 2
    files = list((tmp_path / "records").iterdir())
    assert len(files) == 2
    assert all(path.suffix == ".json" for path in files)


# -- parts ------------------------------------------------------------------------------------
def test_peak_memory_is_that_of_the_block():
    with PeakMemory() as large:
        block = np.ones(25_000_000)  # 200 MB
    del block
    with PeakMemory() as small:
        pass
    if sys.platform == "linux":
        assert large.peak - small.peak > 150e6
    else:
        assert large.peak >= small.peak > 0
