"""Fit callbacks of scikit-learn, from its release 1.9 on."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import threading

import numpy as np
import pytest
from helpers.nets import bert_net, mlp_net
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_spt import BertClassifier, MutualLearningClassifier, SelfPretrainingClassifier
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold
from sklearn_spt.nets import _fit_tasks
from sklearn_spt.nets._fit_tasks import FitTask


@pytest.fixture
def callback():
    """The module of the callbacks; a scikit-learn without it skips the test."""
    return pytest.importorskip("sklearn.callback")


class Recorder:
    """Notes what it is told, and may ask to stop after some tasks of a name."""

    max_propagation_depth = None

    def __init__(self, stop=("", 0)):
        self.noted, self.stop = [], stop

    def setup(self, estimator, context):
        self.noted.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.noted.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context):
        self.noted.append(("end", context.task_name))
        name, n = self.stop
        return context.task_name == name and self.noted.count(("end", name)) == n

    def teardown(self, estimator, context):
        self.noted.append("teardown")


@pytest.fixture
def moons():
    X, y = make_moons(120, noise=0.15, random_state=0)
    return X.astype(np.float32), np.where(np.arange(120) < 60, y, -1)


def model(**params):
    return SelfPretrainingClassifier(mlp_net(), step_size=20, random_state=0, **params)


def task(name, *inside):
    return [("begin", name), *(note for part in inside for note in part), ("end", name)]


def test_the_tasks_of_a_method(callback, moons):
    recorder = Recorder()
    clf = model().set_callbacks(recorder).fit(*moons)
    assert clf.n_iter_ == 3
    iterations = task("iterations", *[task("iteration")] * 4)
    assert recorder.noted == ["setup", *task("fit", iterations), "teardown"]
    plain = model().fit(*moons)
    np.testing.assert_array_equal(clf.predict_proba(moons[0]), plain.predict_proba(moons[0]))


def test_the_tasks_of_other_methods_and_nets(callback, moons, tiny_encoder, tiny_texts):
    recorder = Recorder()
    other = MutualLearningClassifier(mlp_net(), random_state=0).set_callbacks(recorder)
    other.fit(*moons)
    assert recorder.noted == ["setup", *task("fit"), "teardown"]
    recorder = Recorder()
    net = bert_net(tiny_encoder, max_epochs=2).set_callbacks(recorder)
    net.fit(tiny_texts, [1, 0] * 12)
    assert recorder.noted == ["setup", *task("fit", *[task("epoch")] * 2), "teardown"]
    assert clone(net).get_params(deep=False).keys() == net.get_params(deep=False).keys()


def test_a_fit_that_a_callback_ends_is_adjusted_as_a_shorter_one(callback):
    X, truth = make_moons(400, noise=0.4, random_state=0)
    rare = np.flatnonzero(truth)[:40]
    rows = np.concatenate([np.flatnonzero(truth == 0), rare])
    X, y = X[rows].astype(np.float32), np.where(np.isin(rows, rare), 1, 0)
    y[np.random.default_rng(0).permutation(len(y))[40:]] = -1
    ended, short = model(alpha=0.0), model(alpha=0.0, max_iter=1)
    ended.set_callbacks(Recorder(stop=("iteration", 2))).fit(X, y)
    short.fit(X, y)
    assert short.logit_adjustment_ > 0
    assert ended.logit_adjustment_ == short.logit_adjustment_
    np.testing.assert_array_equal(ended.predict_proba(X), short.predict_proba(X))


def test_a_callback_can_end_a_fit(callback, moons, tiny_encoder, tiny_texts):
    clf = model(alpha=0.0).set_callbacks(Recorder(stop=("iteration", 2))).fit(*moons)
    assert (clf.n_iter_, clf.termination_condition_) == (1, "early_stopping")
    short = model(alpha=0.0, max_iter=1).fit(*moons)
    np.testing.assert_array_equal(clf.predict_proba(moons[0]), short.predict_proba(moons[0]))
    net = bert_net(tiny_encoder, max_epochs=9).set_callbacks(Recorder(stop=("epoch", 2)))
    assert len(net.fit(tiny_texts, [1, 0] * 12).history) == 2


def test_a_failed_fit_ends_its_callbacks(callback, moons):
    def fails(iteration):
        if iteration.number == 1:
            raise RuntimeError("stop")

    recorder = Recorder()
    clf = model(on_iteration=fails).set_callbacks(recorder)
    with pytest.raises(RuntimeError, match="stop"):
        clf.fit(*moons)
    assert recorder.noted[0] == "setup"
    assert recorder.noted[-1] == "teardown"
    assert ("end", "fit") not in recorder.noted
    left = {name for name in vars(clf) if name.startswith("_")}
    assert left == {"_skl_callbacks"}
    assert len(pickle.dumps(clf.set_callbacks().set_params(on_iteration=None))) > 0


@pytest.mark.parametrize("steps", [(), (StandardScaler(),)])
def test_a_search_that_brings_a_callback(callback, moons, steps):
    """It reaches the fits, without a warning that they cannot take it."""
    recorder = Recorder()
    clf = model(alpha=0.0)
    name = "selfpretrainingclassifier__" if steps else ""
    search = GridSearchCV(
        make_pipeline(*steps, clf) if steps else clf,
        {f"{name}lam": [0.1, 0.5]},
        cv=SemiSupervisedStratifiedKFold(2),
        scoring="f1",
    ).set_callbacks(recorder)
    search.fit(*moons)
    assert recorder.noted.count(("begin", "iterations")) == 5
    assert recorder.noted.count("setup") == recorder.noted.count("teardown") == 1


def test_the_bar_of_scikit_learn(callback, moons, capsys):
    pytest.importorskip("rich")
    before = set(threading.enumerate())
    search = GridSearchCV(
        model(), {"lam": [0.1, 0.5]}, cv=SemiSupervisedStratifiedKFold(2), scoring="f1"
    )
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(*moons)
    out = capsys.readouterr().out
    assert "GridSearchCV" in out
    assert "SelfPretrainingClassifier" in out
    after = set(threading.enumerate()) - before
    for thread in after:
        thread.join(timeout=10)  # those of closed connections end a little later
    assert sum(thread.is_alive() for thread in after) <= 1  # scikit-learn keeps one for listening


def test_without_callbacks_nothing_is_told():
    root = FitTask.root(object(), 3)
    assert root.subtask("part").end() is False
    assert root.end() is False


def test_a_net_without_callbacks_stays_as_it_is():
    assert not any(name.startswith("_skl") for name in vars(BertClassifier()))


def test_an_older_scikit_learn_has_no_callbacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = importlib.util.spec_from_file_location("older", _fit_tasks.__file__)
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    estimator = older.FitTaskMixin()
    assert not hasattr(estimator, "set_callbacks")
    with estimator._followed(2):
        assert estimator._task.subtask("part").end() is False
    assert vars(estimator) == {}
