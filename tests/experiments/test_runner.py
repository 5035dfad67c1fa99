"""Running cells: records, resumption, failed cells and backends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from records import made_up_corpus, small_cell

from sklearn_spt.experiments import _runner
from sklearn_spt.experiments._cli import main
from sklearn_spt.experiments._methods import GROUPS
from sklearn_spt.experiments._records import read_records
from sklearn_spt.experiments._runner import run_cells
from sklearn_spt.nets._device import resolve_device, resolve_precision

ROOT = Path(__file__).resolve().parents[2]
SCORES = {"f1", "precision", "recall", "accuracy", "macro_f1", "brier", "ece"}


def outcomes(folder):
    """What must not depend on how a grid was run."""
    return {
        (r["cell"]["method"], r["cell"]["seed"]): (r["status"], r["scores"], r["split"])
        for r in read_records([folder])
    }


def by_method(folder):
    return {r["cell"]["method"]: r for r in read_records([folder])}


# -- one run ----------------------------------------------------------------------------------
def test_every_method_gives_a_record(arguments, tmp_path):
    more = ["--param=max_iter=1", "--param=spaced_rep.episode_epochs=2", "--score-iterations"]
    assert main([*arguments, "--method=paper,ablations", "--seeds=0", *more]) == 0
    records = by_method(tmp_path / "records")
    assert set(records) == {*GROUPS["paper"], *GROUPS["ablations"]}
    for name, record in records.items():
        assert record["status"] == "done"
        assert set(record["scores"]) == SCORES
        assert record["seconds"]["fit"] > 0
        assert record["peak_memory_bytes"] > 50e6
        assert record["versions"]["torch"]
        assert record["precision"] == resolve_precision("auto", resolve_device("auto"))
        assert ("history" in record) == (name != "baseline")
    scored = records["self_pretraining"]["iterations"]
    assert [row["iteration"] for row in scored] == [0, 1]
    assert scored[-1]["f1"] == records["self_pretraining"]["scores"]["f1"]
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


def test_rivals_give_records_and_print_nothing(arguments, tmp_path, capfd):
    rivals = "tfidf_lr,embeddings_lr,sklearn_self_training,baseline_shuffled,bert_ensemble"
    assert main([*arguments, f"--method={rivals}", "--seeds=0"]) == 0
    assert capfd.readouterr() == ("", "")
    records = by_method(tmp_path / "records")
    assert all(set(record["scores"]) == SCORES for record in records.values())
    used = {name: record["precision"] for name, record in records.items()}
    assert len(used) == 5
    assert used.pop("tfidf_lr") is None
    assert set(used.values()) == {resolve_precision("auto", resolve_device("auto"))}


def test_validation_rows_take_the_place_of_the_test_rows(arguments, tmp_path):
    grid = [*arguments, "--method=tfidf_lr", "--seeds=0"]
    assert main([*grid, "--validate=50"]) == 0
    assert main(grid) == 0
    records = read_records([tmp_path / "records"])
    splits = {r["cell"].get("n_validation"): r["split"] for r in records}
    sizes = {n: sum(split["test_counts"].values()) for n, split in splits.items()}
    assert sizes == {50: 50, None: 80}
    assert splits[50]["n_rest"] < splits[None]["n_rest"]


# -- resumption -------------------------------------------------------------------------------
def test_a_failed_cell_is_recorded_and_the_others_run(arguments, tmp_path, capsys):
    grid = [*arguments, "--method=baseline,self_pretraining", "--seeds=0"]
    grid += ["--param=temperature=0"]
    assert main(grid) == 1
    assert "failed: " in capsys.readouterr().err
    records = by_method(tmp_path / "records")
    assert records["baseline"]["status"] == "done"
    assert records["self_pretraining"]["status"] == "failed"
    error = records["self_pretraining"]["error"]
    assert error["type"] == "ValueError"
    assert "temperature" in error["message"]
    assert "Traceback" in error["traceback"]
    # it is not run again without --retry-failed, and still fails the command
    assert main(grid) == 1
    assert "cells that failed before were not run again" in capsys.readouterr().err


def test_a_failed_cell_runs_again_only_on_request(tiny_long_encoder, tmp_path, monkeypatch):
    cell = small_cell(tiny_long_encoder)
    options = {"corpus_of": made_up_corpus, "verbose": 0}
    # a NaN score fails a cell too
    monkeypatch.setattr(_runner, "_fit_and_score", lambda *args: {"scores": {"f1": float("nan")}})
    assert run_cells([cell], tmp_path, **options) == {"done": 0, "failed": 1, "skipped": 0}
    assert "scores" not in read_records([tmp_path])[0]
    monkeypatch.undo()
    assert run_cells([cell], tmp_path, **options) == {"done": 0, "failed": 0, "skipped": 1}
    again = run_cells([cell], tmp_path, **options, retry_failed=True)
    assert again == {"done": 1, "failed": 0, "skipped": 0}


def test_a_parameter_of_the_net_reaches_the_baseline_too(arguments, tmp_path):
    grid = [*arguments, "--method=baseline,self_pretraining", "--seeds=0"]
    assert main([*grid, "--param=estimator__lr=0.001", "--param=max_iter=0"]) == 0
    records = by_method(tmp_path / "records")
    assert records["baseline"]["cell"]["params"] == {"lr": 0.001}
    params = {"estimator__lr": 0.001, "max_iter": 0}
    assert records["self_pretraining"]["cell"]["params"] == params


def test_co_decomp_needs_keywords(arguments, tmp_path, capsys):
    without = [a for a in arguments if not a.startswith("--keyword")]
    assert main([*without, "--method=co_decomp", "--seeds=0"]) == 1
    assert "co_decomp needs the keywords" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_records(arguments, tmp_path):
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
@pytest.fixture(params=["processes", "a dask cluster"])
def parallel(request):
    """Arguments that run two cells at a time."""
    if request.param == "processes":
        yield "--n-jobs=2"
        return
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield f"--scheduler={cluster.scheduler_address}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_cells_at_a_time_give_the_same_records(arguments, tmp_path, parallel):
    grid = [*arguments, "--method=baseline", "--seeds=0,1,2"]
    assert main(grid) == 0
    assert main([*(a.replace("records", "parallel") for a in grid), parallel]) == 0
    assert outcomes(tmp_path / "parallel") == outcomes(tmp_path / "records")
