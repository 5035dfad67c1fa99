"""A fit goes on after a kill, `memory` saves fits, and both change no bit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import bert_net, mlp_net, points
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import sklearn_spt._stages as stages
import sklearn_spt._training as training
from sklearn_spt import SelfPretrainingClassifier

PARAMS = {"n_teachers": 2, "n_students": 2, "step_size": 0.25, "alpha": 0.3, "random_state": 0}


def teachers():
    """Return nets and what is no net: without a seed, with a moving one, and fitted before."""
    forests = (RandomForestClassifier(5, random_state=s) for s in (None, np.random.RandomState(1)))
    X, y, _ = points(3)
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[y >= 0], y[y >= 0])
    return [*map(SelfTrainingClassifier, forests), FrozenEstimator(linear), "nets"]


class Stop:
    """Ends a fit after some iterations."""

    def __init__(self, after):
        self.after = after

    def __call__(self, iteration):
        if iteration.number == self.after:
            raise KeyboardInterrupt


def fitted(folder=None, net=None, **params):
    clf = SelfPretrainingClassifier(net or mlp_net(), checkpoint_dir=folder, **PARAMS | params)
    return clf.fit(*points(3)[:2])


def same(first, second):
    X = points(3)[0]
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(first.labeled_iter_, second.labeled_iter_)
    for one, other in zip(first.history_, second.history_, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


@pytest.mark.parametrize(
    "params",
    [*({"ensemble": name} for name in ("last", "last_two", "all")), {"teacher": teachers()}],
    ids=["last", "last_two", "all", "teachers"],
)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_fit_goes_on(tmp_path, params, after):
    expected = fitted(**params)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(after), **params)
    assert list(tmp_path.rglob("state.json"))
    seen = []
    resumed = fitted(tmp_path, on_iteration=lambda i: seen.append(i.number), **params)
    same(resumed, expected)
    assert seen == list(range(after + 1, 5))
    assert not list(tmp_path.rglob("*.*")), "a complete fit removes its state"


@pytest.mark.parametrize("taught", [False, True])
def test_a_fit_goes_on_after_sigkill(tmp_path, taught):
    teacher = teachers() if taught else None
    code = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]\n"
        "from contract import test_resume as t\n"
        "kill = lambda i: i.number == 2 and os.kill(os.getpid(), signal.SIGKILL)\n"
        f"t.fitted(sys.argv[1], on_iteration=kill, teacher=t.teachers() if {taught} else None)"
    )
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-W", "ignore", "-c", code, tmp_path, tests, tests.parent]
    run = subprocess.run(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False)
    assert run.returncode == -signal.SIGKILL
    seen = []
    resumed = fitted(tmp_path, teacher=teacher, on_iteration=lambda i: seen.append(i.number))
    same(resumed, fitted(teacher=teacher))
    assert seen == [3, 4]


@pytest.mark.parametrize("framed", [False, True])
def test_texts_go_on(tmp_path, tiny_sentence_encoder, tiny_texts, tiny_y, capfd, framed):
    X, teacher = tiny_texts, None
    if framed:
        X = pd.DataFrame({"text": tiny_texts})
        words = ColumnTransformer([("words", TfidfVectorizer(), "text")])
        forest = SelfTrainingClassifier(RandomForestClassifier(5))
        teacher = [make_pipeline(words, forest), "embeddings", "nets"]

    def fit(**params):
        net = bert_net(tiny_sentence_encoder, dropout=0.1)
        clf = SelfPretrainingClassifier(net, unlabeled_marker=None, **PARAMS | params)
        return clf.set_params(teacher=teacher).fit(X, tiny_y)

    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint_dir=tmp_path, on_iteration=Stop(2))
    resumed = fit(checkpoint_dir=tmp_path, verbose=1)
    assert "goes on after iteration 2" in "".join(capfd.readouterr())
    np.testing.assert_array_equal(
        resumed.predict_proba(tiny_texts), fit().predict_proba(tiny_texts)
    )


def test_another_fit_starts_anew(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(2))
    for change in ({"lam": 0.5}, {"random_state": 1}, {"net": mlp_net(lr=0.2)}):
        seen = []
        fitted(tmp_path, on_iteration=lambda i, seen=seen: seen.append(i.number), **change)
        assert seen[0] == 0


@pytest.mark.parametrize("kind", ["state.json", "*.safetensors"])
def test_damaged_states_are_refused(tmp_path, kind):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(2))
    file = next(iter(sorted(tmp_path.rglob(kind))))
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(len(content), size=25):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged.*Remove the folder"):
            fitted(tmp_path)
    file.write_bytes(content[:-3])
    with pytest.raises(ValueError, match="damaged"):
        fitted(tmp_path)
    file.write_bytes(content)
    same(fitted(tmp_path), fitted())


def test_states_of_other_versions_are_refused(tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(1))
    monkeypatch.setattr("sklearn_spt._checkpoint.versions", lambda: {"torch": "9"})
    with pytest.raises(ValueError, match="written by other versions"):
        fitted(tmp_path)


@pytest.mark.parametrize("taught", [False, True])
def test_memory_saves_fits(tmp_path, monkeypatch, taught):
    calls, teacher = [], teachers() if taught else None
    train = training.train
    for module in (training, stages):
        monkeypatch.setattr(module, "train", lambda *a, **k: calls.append(0) or train(*a, **k))
    expected = {lam: fitted(lam=lam, teacher=teacher) for lam in (0.1, 0.9)}
    n = len(calls)
    first = fitted(memory=str(tmp_path), lam=0.1, teacher=teacher)
    assert len(calls) == n + n // 2
    again = fitted(memory=str(tmp_path), lam=0.9, teacher=teacher)
    assert len(calls) == n + n - 4, "two teachers and stage 1 of two students are recalled"
    same(first, expected[0.1])
    same(again, expected[0.9])


def test_history_is_plain_data():
    history = fitted().history_
    json.dumps(history)
    assert [entry["sample_size"] for entry in history] == [0, 16, 32, 48, 62]
    assert set(history[1]) == {
        *("iteration", "sample_size", "groups", "changed", "pseudo_label_counts", "loss"),
        "seconds",
    }
