"""A fit that is cut at any moment goes on, `memory` saves fits, and both change no bit."""

import json
import os
import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import bert_net, build_encoder, mlp_net, points
from sklearn.base import clone
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
from sklearn_spt._checkpoint import Checkpoint
from sklearn_spt._data import PartlyLabeled
from sklearn_spt._sealed import versions
from sklearn_spt._training import Trainer

X, Y, _ = points(3)
PARAMS = {"n_teachers": 2, "n_students": 2, "step_size": 0.25, "alpha": 0.3, "random_state": 0}


def teachers():
    """Return nets and what is no net: without a seed, with a moving one, and fitted before."""
    forests = (RandomForestClassifier(5, random_state=s) for s in (None, np.random.RandomState(1)))
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[Y >= 0], Y[Y >= 0])
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
    return clf.fit(X, Y)


def same(first, second):
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
    P = fit(checkpoint_dir=tmp_path, verbose=1).predict_proba(tiny_texts)
    assert "goes on after iteration 2" in "".join(capfd.readouterr())
    expected = fit().predict_proba(tiny_texts)
    np.testing.assert_array_equal(P, expected)
    for _ in range(2):  # dropout of stage 2 goes on after a stage 1 that is computed or recalled
        P = fit(memory=str(tmp_path / "memory")).predict_proba(tiny_texts)
        np.testing.assert_array_equal(P, expected)


CHANGES = [{"alpha": 0.5}, {"step_size": 0.4}, {"n_students": 1}, {"ensemble": "last"}]
CHANGES += [{"lam": 0.9}, {"random_state": 1}, {"net": mlp_net(lr=0.2)}]


@pytest.mark.parametrize("change", CHANGES)
def test_another_fit_does_not_find_it(tmp_path, change):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(0))
    seen = []
    fitted(tmp_path, on_iteration=lambda it: seen.append(it.number), **change)
    assert seen[0] == 0
    assert len(list(tmp_path.iterdir())) == 1


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


# -- states in the folder --------------------------------------------------------------------------
def test_a_state_belongs_to_this_version_and_to_what_teachers_read(tmp_path):
    assert "sklearn-spt" in versions()
    keys = set()
    for text in ("Flu", "flu"):  # the same token ids of an uncased encoder
        model = SelfPretrainingClassifier(teacher=LogisticRegression())
        data = PartlyLabeled(X, Y, None, None, np.arange(3), Y >= 0, ([text], None))
        keys.add(Checkpoint(tmp_path, model, Trainer(mlp_net(), [], 1, True, 0, None), data).folder)
    assert len(keys) == 2


def test_an_encoder_that_was_trained_on_is_another_one(tmp_path, tiny_texts, monkeypatch):
    """The name of a folder stays; what it holds may not."""
    y, found = [0, 1] * 6 + [-1] * 12, []
    for seed in (0, 1):
        encoder = build_encoder(tmp_path / "encoder", seed=seed)
        clf = SelfPretrainingClassifier(bert_net(encoder), memory=str(tmp_path / "memory"))
        clf.set_params(random_state=0, checkpoint_dir=tmp_path / "fits")
        if seed == 0:
            with pytest.raises(KeyboardInterrupt):
                clone(clf).set_params(on_iteration=Stop(0)).fit(tiny_texts, y)
        found.append(clf.fit(tiny_texts, y).predict_proba(tiny_texts))
    clf.set_params(memory=None, checkpoint_dir=None).fit(tiny_texts, y)
    np.testing.assert_array_equal(found[1], clf.predict_proba(tiny_texts))
    assert abs(found[0] - found[1]).max() > 1e-3


def test_nets_without_a_state_are_not_trusted(tmp_path):
    expected = fitted().predict_proba(X)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(0))
    (folder,) = tmp_path.iterdir()
    (folder / "state.json").unlink()
    net = folder / "0-0.safetensors"
    net.write_bytes(net.read_bytes()[:-9])
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(0))
    (folder / "1-0.safetensors").write_bytes(net.read_bytes()[:-9])  # torn, and in no state
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, on_iteration=Stop(1))
    np.testing.assert_array_equal(fitted(tmp_path).predict_proba(X), expected)


def cut_at(monkeypatch, number):
    """Raise an error before the operation on a file that has this number."""
    count = 0

    def counted(operation):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count == number:
                raise KeyboardInterrupt
            return operation(*args, **kwargs)

        return run

    for place, name in ((Path, "replace"), (Path, "unlink"), (Path, "mkdir")):
        monkeypatch.setattr(place, name, counted(getattr(place, name)))
    return lambda: count


@pytest.mark.parametrize("ensemble", ["last", "all"])
def test_a_fit_that_is_cut_in_a_write_goes_on(tmp_path, monkeypatch, ensemble):
    params = {"ensemble": ensemble, "step_size": 0.5, "n_students": 1}
    expected, number, again = fitted(**params).predict_proba(X), 0, True
    while again:
        number += 1
        folder = tmp_path / str(number)
        with monkeypatch.context() as patch:
            count = cut_at(patch, number)
            try:
                fitted(folder, **params)
            except KeyboardInterrupt:
                pass
            else:
                again = count() >= number
        if again:
            found = fitted(folder, **params).predict_proba(X)
            np.testing.assert_array_equal(found, expected)
            assert list(folder.iterdir()) == []
    assert number > 8  # writes of nets and states, and removals


def test_the_folder_holds_what_is_needed_and_no_more(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path, ensemble="last", n_students=1, on_iteration=Stop(1))
    (folder,) = tmp_path.iterdir()
    assert sorted(file.name for file in folder.iterdir()) == ["1-0.safetensors", "state.json"]
    content = json.loads((folder / "state.json").read_text().partition("\n")[2])
    assert content["t"] == 1
    assert set(content["files"]) == {"1-0.safetensors"}


def test_verbose_callbacks_and_the_place_change_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "one", on_iteration=Stop(1))
    (tmp_path / "one").rename(tmp_path / "two")
    seen = []
    with warnings.catch_warnings(action="ignore"):
        net = mlp_net(verbose=1)
        fitted(tmp_path / "two", net, on_iteration=seen.append, verbose=1)
    assert [iteration.number for iteration in seen] == [2, 3, 4]
    again = pickle.loads(pickle.dumps(seen[0]))
    np.testing.assert_array_equal(again.predict_proba(X), seen[0].predict_proba(X))
