"""The search for λ and α."""

from __future__ import annotations

import json

from records import made_up_corpus, small_cell

from sklearn_spt.experiments._cli import main
from sklearn_spt.experiments._search import search
from sklearn_spt.experiments._split_protocol import draw


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


def test_a_search_with_shared_work_finds_the_same(tiny_long_encoder, tmp_path):
    cell = small_cell(tiny_long_encoder, method="self_pretraining", params={"max_iter": 1})
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


def test_a_search_on_a_cluster_runs_all_seeds_and_cleans_up(arguments, tmp_path, capsys):
    from distributed import LocalCluster

    grid = ["search", *arguments[1:], "--seeds=0,1", "--lam=0.1", "--alpha=0", "--folds=2"]
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        done = main([*grid, "--param=max_iter=1", f"--scheduler={cluster.scheduler_address}"])
    assert done == 0
    assert capsys.readouterr().out.count("best: lam=") == 2
    files = list((tmp_path / "records").iterdir())
    assert len(files) == 2
    assert all(path.suffix == ".json" for path in files)
