"""The programs of examples/paper: ablations, results, tables, figures."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import mlp_net, points

from sklearn_spt import SelfPretrainingClassifier

PAPER = Path(__file__).parents[1] / "examples" / "paper"


@pytest.fixture
def paper(monkeypatch):
    """The module `run` of examples/paper."""
    monkeypatch.syspath_prepend(str(PAPER))
    import run

    return run


@pytest.fixture
def ablations(paper):
    return sys.modules["ablations"]


def fitted(kind, **params):
    X, y, _ = points()
    clf = kind(mlp_net(), step_size=0.25, alpha=0.4, random_state=0, **params).fit(X, y)
    return clf, clf.predict_proba(X)


NAMES = ["WithoutTwoStages", "WithoutTrapezoidalLR", "WithoutDistillation", "IndependentVariance",
         "RawInertiaState", "KeptOptimizer", "HalfFirstSample"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_ablations_change_one_step(name, ablations):
    clf, P = fitted(getattr(ablations, name))
    plain, expected = fitted(SelfPretrainingClassifier)
    if name == "KeptOptimizer":  # plain SGD has no state
        np.testing.assert_allclose(P, expected)
    else:
        assert not np.allclose(P, expected)
    first, same = clf.history_[0]["loss"], plain.history_[0]["loss"]
    assert first == same, "the first teachers are the same"
    if name == "HalfFirstSample":
        assert clf.sample_sizes_ == [8, 24, 40, 56, 62]
    else:
        assert clf.sample_sizes_ == [16, 32, 48, 62]


def test_without_distillation_targets_are_one_hot(ablations):
    clf, P = fitted(ablations.WithoutDistillation, temperature=3.0)
    _, same = fitted(ablations.WithoutDistillation, temperature=1.0)
    np.testing.assert_array_equal(P, same)
    assert clf.temperature == 3.0
    assert clf.history_[1]["groups"] == {}


def test_results_tables_and_figures(paper, tmp_path, tiny_encoder, tiny_texts, capsys):
    texts = [f"{a} {b}" for a in tiny_texts for b in ("", "now", "again", "@you http://a.b")]
    frame = pd.DataFrame({"text": texts, "label": np.repeat([1, 0] * 12, 4), "keyword": "flu"})
    frame.loc[60:, "label"] = np.nan
    frame.to_csv(tmp_path / "posts.csv", index=False)
    out = tmp_path / "results.jsonl"
    command = ["run", "--data", str(tmp_path / "posts.csv"), "--out", str(out), "--seeds", "1"]
    command += ["--n-labeled", "16", "--n-unlabeled", "30", "--n-test", "20"]
    command += ["--encoder", tiny_encoder, "--methods", "Baseline,Self-Pretraining,Co-Decomp"]
    paper.main([*command, "--tables", "ablation,lambda"])
    results = paper.read(out)
    assert len(results) == 3 + 4 + 5
    assert results["f1"].between(0, 1).all()
    capsys.readouterr()
    out.write_text(out.read_text()[:-40])  # the last line was cut
    paper.main([*command, "--tables", "ablation,lambda"])
    assert len(paper.read(out)) == 12
    assert capsys.readouterr().out.startswith("1/1 ")
    paper.main(["table", str(out)])
    printed = capsys.readouterr().out
    assert "| two-stage learning |" in printed
    paper.main(["figure", str(out), "--out", str(tmp_path / "figures")])
    assert {f.name for f in (tmp_path / "figures").glob("*")} == {"lambda.png", "learning_rate.png"}


def test_the_papers_numbers(paper):
    assert len(paper.PAPER) == 65
    assert set(paper.PAPER["method"]) == set(paper.SYSTEMS)
    best = paper.PAPER.query("table == 'main' and data == 'adr' and n_labeled == 300")
    assert best.set_index("method")["f1"].idxmax() == "Self-Pretraining"
    assert paper.normalized("Hi @me see http://x.y/z") == "hi  see www"
