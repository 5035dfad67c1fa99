"""The programs of examples: ablations, results, tables, figures, speed, form of the gallery."""

import argparse
import json
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import bert_net, mlp_net, points

import sklearn_spt
from sklearn_spt import SelfPretrainingClassifier

EXAMPLES = Path(__file__).parents[1] / "examples"


def fitted(kind, net=None, **params):
    X, y, _ = points()
    settings = {"step_size": 0.25, "alpha": 0.4, "random_state": 0, **params}
    clf = kind(net or mlp_net(), **settings).fit(X, y)
    return clf, clf.predict_proba(X)


# -- ablations -------------------------------------------------------------------------------------
NAMES = ["WithoutTwoStages", "WithoutTrapezoidalLR", "WithoutDistillation", "IndependentVariance",
         "RawInertiaState", "KeptOptimizer", "HalfFirstSample"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_ablations_change_one_step(name, paper):
    net = mlp_net(optimizer=torch.optim.Adam, lr=0.01)  # an optimiser that has a state
    clf, P = fitted(getattr(paper.ablations, name), net)
    plain, expected = fitted(SelfPretrainingClassifier, net)
    assert not np.allclose(P, expected, atol=1e-6)
    assert clf.history_[0]["loss"] == plain.history_[0]["loss"], "the first teachers are the same"
    if name != "HalfFirstSample":
        assert clf.sample_sizes_ == plain.sample_sizes_ == [16, 32, 48, 62]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(points()[0]), P)


@pytest.mark.filterwarnings("ignore:alpha:UserWarning")
@pytest.mark.parametrize(
    ("name", "params"),
    [("IndependentVariance", {"max_iter": 1}), ("RawInertiaState", {"max_iter": 1}),
     ("KeptOptimizer", {})],  # the optimizer of the net has no state
)  # fmt: skip
def test_where_another_reading_changes_nothing(name, params, paper):
    expected = fitted(SelfPretrainingClassifier, **params)[1]
    np.testing.assert_array_equal(fitted(getattr(paper.ablations, name), **params)[1], expected)


def test_two_stages_become_one_over_all_documents(paper):
    loss = fitted(paper.ablations.WithoutTwoStages, finetune_epochs=2)[0].history_[1]["loss"]
    assert {stage: len(epochs) for stage, epochs in loss.items()} == {"one_stage": 2}


def test_one_learning_rate_falls_over_both_stages(paper):
    schedule = paper.ablations.WithoutTrapezoidalLR()._schedule(3, 6)
    assert (schedule.n_constant, schedule.n_decay) == (0, 9)


def test_without_distillation_targets_are_one_hot(paper, monkeypatch):
    seen = []
    train = SelfPretrainingClassifier._train_student

    def watched(self, trainer, data, t, number, C, P, q):
        seen.extend([P, q])
        return train(self, trainer, data, t, number, C, P, q)

    monkeypatch.setattr(paper.ablations.WithoutDistillation, "_train_student", watched)
    clf, P = fitted(paper.ablations.WithoutDistillation, temperature=3.0)
    for targets in seen:
        assert set(np.unique(targets)) == {0.0, 1.0}
        np.testing.assert_array_equal(targets.sum(axis=1), 1)
    assert clf.temperature == 3.0
    assert clf.history_[1]["groups"] == {}
    np.testing.assert_array_equal(
        P, fitted(paper.ablations.WithoutDistillation, temperature=1.0)[1]
    )


@pytest.mark.filterwarnings("ignore:alpha:UserWarning")
@pytest.mark.parametrize(
    ("params", "sizes"),
    [
        ({}, [8, 24, 40, 56, 62]),
        ({"step_size": 1.0}, [31, 62]),
        ({"max_iter": 1}, [8]),
        ({"max_iter": 0}, []),
    ],
)
def test_half_of_the_first_sample(params, sizes, paper):
    assert fitted(paper.ablations.HalfFirstSample, **params)[0].sample_sizes_ == sizes


# -- the paper's results ---------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:no unlabelled document was labelled")
def test_results(paper, command, tmp_path):
    methods = "Self-Pretraining", "without two-stage learning", "Co-Decomp"  # it needs keywords
    command += ["--methods", ",".join(methods), "--score-iterations"]
    paper.main([*command, "--seeds", "0", "--n-labeled", "12"])
    results = paper.read(tmp_path / "results.jsonl")
    assert results["method"].tolist() == [*methods]
    assert results[["f1", "precision", "recall"]].stack().between(0, 1).all()
    assert results["iterations"].dropna().map(len).tolist() == [6, 6]
    assert results["data"].unique() == ["posts"]


def test_tables_and_figures(paper, tmp_path, capsys):
    wanted = {"data": ["posts"], "seeds": [0, 1, 2], "n_labeled": [300, 500], "n_unlabeled": 10_000}
    wanted |= {"encoder": "some-encoder", "methods": "paper,ablations", "vary": "lam"}
    rows = paper.wanted(argparse.Namespace(**wanted))
    assert len(rows) == 3 * 2 * (7 + 4 + 4)
    scores = {"f1": 0.5, "precision": 0.25, "recall": 0.75, "seconds": 1.0, "iterations": [0.5] * 6}
    for row in rows:
        paper.append(tmp_path / "made_up.jsonl", row | scores | {"f1": 0.5 + row["seed"] / 10})
    paper.main(["table", str(tmp_path / "made_up.jsonl")])
    printed = capsys.readouterr().out
    assert printed.count("| Tri-training+ | 0.600 ± 0.100 | 0.250 ± 0.000 | 0.750 ±") == 2
    assert "0.339 | 0.373 | 0.333 | 3 |" in printed, "the paper's numbers stand beside ours"
    by_value = printed.index("lam=0.1"), printed.index("lam=0.3"), printed.index("lam=0.5")
    assert sorted(by_value) == list(by_value)
    paper.main(["figure", str(tmp_path / "made_up.jsonl"), "--out", str(tmp_path / "figures")])
    names = {file.stem for file in (tmp_path / "figures").glob("*.png")}
    assert names == {"learning_rate", "posts_labels", "posts_lam", "posts_iterations"}


def test_a_run_goes_on_where_it_was(paper, command, tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    command += ["--methods", "Baseline"]
    paper.main(command)
    before = out.read_text()
    out.write_text(before[:-40])  # the last line was cut
    capsys.readouterr()
    paper.main(command)
    assert capsys.readouterr().out.startswith("1/1 ")
    old = pd.DataFrame(map(json.loads, before.splitlines())).drop(columns="seconds")
    pd.testing.assert_frame_equal(paper.read(out).drop(columns="seconds"), old)
    paper.main(command)
    assert capsys.readouterr().out == "", "nothing is left to compute"
    assert len(paper.read(out)) == 4


def test_a_result_that_fails_stops_no_other(paper, command, tmp_path, monkeypatch):
    original = paper.classifier

    def broken(method, *args):
        if method == "Self-training":
            raise ValueError("no such luck")
        return original(method, *args)

    monkeypatch.setattr(paper, "classifier", broken)
    with pytest.raises(SystemExit, match="4 results could not be computed"):
        paper.main([*command, "--methods", "Self-training,Baseline"])
    assert set(paper.read(tmp_path / "results.jsonl")["method"]) == {"Baseline"}


def test_rows_are_drawn_as_the_protocol_says(paper, command):
    rest, test = paper.load(command[2], n_test=20)
    assert len(test) == 20
    assert test["label"].mean() == 0.5
    assert not set(rest["text"]) & set(test["text"]), "no text to learn from repeats a test text"
    labeled, unlabeled = paper.draw(rest, 12, 30, seed=0)
    assert labeled["label"].value_counts().tolist() == [6, 6]
    assert not set(labeled.index) & set(unlabeled.index)
    assert (unlabeled["label"] == -1).all()
    assert labeled.equals(paper.draw(rest, 12, 10, seed=0)[0])
    assert not labeled.equals(paper.draw(rest, 12, 30, seed=1)[0])


def test_the_papers_settings_are_those_of_each_result(paper):
    clf = paper.classifier("Self-Pretraining", "lam=0.4", "some-encoder", 1)
    expected = paper.paper_classifier(estimator=clf.estimator, lam=0.4, random_state=1)
    assert clf.get_params(deep=False) == expected.get_params(deep=False)
    assert clf.estimator.head_init == "random"
    assert paper.classifier("without inertial transform", "", "some-encoder", 1).alpha == 0
    assert paper.classifier("Self-Pretraining (defaults)", "", "e", 1).temperature == 1


def test_unusable_requests_are_named(paper, command, tmp_path):
    with pytest.raises(SystemExit, match="no method"):
        paper.main([*command, "--methods", "Tritraining"])
    file = tmp_path / "posts.csv"
    pd.read_csv(file).drop(columns="keyword").to_csv(file, index=False)
    with pytest.raises(SystemExit, match="Co-Decomp needs keywords"):
        paper.main([*command, "--methods", "paper"])


def test_the_papers_numbers(paper):
    assert len(paper.PAPER) == 61
    assert set(paper.PAPER["method"]) == set(paper.SYSTEMS) | set(paper.ABLATIONS)
    rows = {f"{name}={value}" for name, (_, values) in paper.VARIED.items() for value in values}
    assert set(paper.PAPER["param"]) == rows | {""}
    best = paper.PAPER.query("data == 'adr' and n_labeled == 300").set_index("method")["f1"]
    assert best.idxmax() == "Self-Pretraining"
    assert paper.normalized("Hi @Me, see http://x.y/z") == "hi @ me , see www"


# -- the other programs ----------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:.*the encoder:UserWarning")  # its vocabulary is tiny
def test_speed(monkeypatch, tiny_encoder, capsys):
    pytest.importorskip("accelerate")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import speed

    options = ["--encoder", tiny_encoder, "--n-texts", "16", "--max-length", "24", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["speed.py", *options, "--batch-size", "4"])
    with torch.random.fork_rng(devices=[]):
        speed.main()
    printed = capsys.readouterr().out
    assert printed.index("| textbook") < printed.index("| trainer") < printed.index("| sklearn_spt")
    assert "| 1.0 | 1.0 |" in printed


def test_the_page_on_several_labels(tiny_encoder, tiny_texts, tmp_path, monkeypatch):
    page = (EXAMPLES.parent / "docs" / "guide" / "several_labels.md").read_text("utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S))
    code = code.replace("Classifier(random", f"Classifier({tiny_encoder!r}, random")
    code = code.replace("SentenceEmbedder()", f"SentenceEmbedder({tiny_encoder!r})")
    frame = pd.DataFrame({"text": tiny_texts, "delivery": [1, 0] * 12, "payment": [0, 0, 1] * 8})
    frame.loc[12:, "delivery"] = frame.loc[:5, "payment"] = None  # not the same rows
    frame.to_csv(tmp_path / "tags.csv", index=False)
    monkeypatch.chdir(tmp_path)
    exec(code, made := {})
    assert made["found"].shape == (24, 2)
    assert set(np.unique(made["found"])) <= {0, 1}
    assert [P.shape for P in made["P"]] == [(24, 2), (24, 2)]
    for clf, column in zip(made["clf"].estimators_, ("delivery", "payment"), strict=True):
        np.testing.assert_array_equal(clf.labeled_iter_ == 0, frame[column].notna())
    assert made["fast"].predict(made["E"]).shape == (24, 2)


def test_the_server_answers_and_takes_a_new_model(monkeypatch, tiny_encoder, tiny_texts, tmp_path):
    pytest.importorskip("httpx2")
    testing = pytest.importorskip("starlette.testclient")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("MODEL", str(tmp_path / "model"))
    import server

    old, new = (
        bert_net(tiny_encoder, max_epochs=epochs).fit(tiny_texts, ["yes", "no"] * 12)
        for epochs in (1, 2)
    )
    sklearn_spt.save(old, tmp_path / "model")
    client = testing.TestClient(server.application())
    for model in (old, new):
        found = client.post("/", json=tiny_texts).json()
        assert found["labels"] == model.predict(tiny_texts).tolist()
        P = model.predict_proba(tiny_texts).max(axis=1)
        np.testing.assert_allclose(found["probabilities"], P, atol=1e-6)
        sklearn_spt.save(new, tmp_path / "model", overwrite=True)
        assert client.post("/reload").status_code == 200
    for wrong, error in ((["i"] * 51, "1 to 50"), ("i", "a list"), (["i", 3], "row 1 is of type")):
        answer = client.post("/", json=wrong)
        assert answer.status_code == 422
        assert error in answer.json()["error"]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("[0-9]*.py")), ids=lambda file: file.stem)
def test_each_page_of_the_gallery_has_one_picture(file):
    assert sum("plt.show()" in one for one in file.read_text("utf-8").splitlines()) == 1
