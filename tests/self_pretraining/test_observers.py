"""Observers of a fit: held-out rows, early stopping, and the entries of the history."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.nets import mlp_net
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import f1_score

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt._holdout import HoldOut
from sklearn_spt._random import derive_seed, draw_sample
from sklearn_spt.self_pretraining import _classifier

NO_GAIN = "the unlabelled documents did not help"
pytestmark = pytest.mark.filterwarnings(f"ignore:{NO_GAIN}")


@pytest.fixture
def moons():
    X, y = make_moons(160, noise=0.15, random_state=0)
    partial = y.copy()
    partial[60:] = -1
    return X.astype(np.float32), partial


def model(**params):
    settings = {"step_size": 25, "random_state": 0, "validation_fraction": 0.25, **params}
    return SelfPretrainingClassifier(mlp_net(), **settings)


@pytest.fixture
def held(monkeypatch):
    """The splits of all fits."""
    splits = []
    original = _classifier.hold_out

    def spy(*args, **kwargs):
        splits.append(original(*args, **kwargs))
        return splits[-1]

    monkeypatch.setattr(_classifier, "hold_out", spy)
    return splits


@pytest.fixture
def scripted(monkeypatch):
    """A function that sets the scores of the next fit."""

    def script(*scores):
        given = iter(scores)
        monkeypatch.setattr(HoldOut, "score", lambda self, P: next(given))

    return script


# -- scores --------------------------------------------------------------------------------------
def test_scores_are_those_of_the_held_out_rows(moons, held):
    X, y = moons
    iterations = []
    clf = model(on_iteration=iterations.append).fit(X, y)
    (split,) = held
    assert len(split.valid) == 15
    assert sorted([*split.valid, *split.train]) == list(range(60))
    assert np.bincount(y[split.valid]).min() >= 6  # by class
    for iteration in iterations:
        predicted = iteration.predict_proba(X[split.valid]).argmax(axis=1)
        expected = f1_score(y[split.valid], predicted)
        assert iteration.record["validation_score"] == pytest.approx(expected)
    assert len(clf.history_) == clf.n_iter_ + 1
    assert all("validation" in entry["seconds"] for entry in clf.history_)


def test_held_out_rows_are_not_trained_on(moons, held):
    X, y = moons
    clf = model().fit(X, y)
    (split,) = held
    rest = np.r_[split.train, 60:160]
    plain = model(validation_fraction=None).fit(X[rest], y[rest])
    np.testing.assert_array_equal(clf.transduction_[60:], plain.transduction_[45:])
    assert clf.history_[-1]["loss"] == plain.history_[-1]["loss"]
    assert "validation_score" not in plain.history_[0]
    # the transduction has the given labels of held-out rows, too
    np.testing.assert_array_equal(clf.transduction_[:60], y[:60])
    assert (clf.labeled_iter_[:60] == 0).all()


def test_the_score_of_three_classes_is_macro_f1(held):
    X, y = make_classification(
        160, n_features=6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    y[90:] = -1
    net = mlp_net(module__n_in=6, module__n_classes=3)
    clf = model().set_params(estimator=net)
    clf.fit(X.astype(np.float32), y)
    rows = held[0].valid
    expected = f1_score(y[rows], clf.predict(X[rows].astype(np.float32)), average="macro")
    assert clf.history_[clf.best_iter_]["validation_score"] == pytest.approx(expected)


# -- the best iteration --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ((0.5, 0.6, 0.9, 0.7, 0.8), 2),
        ((0.5, 0.6, 0.7, 0.8, 0.9), 4),
        ((0.1, 0.9, 0.9, 0.9, 0.9), 1),
    ],
)
def test_the_best_iteration_is_kept(moons, scripted, scores, best):
    X, y = moons
    scripted(*scores)
    iterations = []
    clf = model(on_iteration=iterations.append).fit(X, y)
    assert (clf.n_iter_, clf.best_iter_) == (4, best)
    iteration = iterations[best]
    assert clf.students_[0] is iteration.students[0]
    np.testing.assert_array_equal(clf.predict_proba(X), iteration.predict_proba(X))
    assert clf.termination_condition_ == "all_labeled"


def test_a_fit_that_does_not_help_warns(moons, scripted):
    X, y = moons
    scripted(0.8, 0.7, 0.6)
    with pytest.warns(UserWarning, match=r"did not help.*\(0.800\), the last one 0.600; "):
        clf = model(max_iter=2).fit(X, y)
    assert clf.best_iter_ == 0
    assert clf.students_ == [clf.estimators_[0]]


@pytest.mark.filterwarnings(f"error:{NO_GAIN}")
def test_a_fit_that_helps_or_has_no_iteration_does_not_warn(moons, scripted):
    X, y = moons
    scripted(0.8, 0.7, 0.9)
    assert model(max_iter=2).fit(X, y).best_iter_ == 2
    scripted(0.8)
    clf = model(max_iter=0).fit(X, y)
    assert clf.best_iter_ == clf.n_iter_ == 0
    assert clf.history_[0]["validation_score"] == 0.8


# -- limits --------------------------------------------------------------------------------------
def test_rows_that_cannot_be_held_out(moons):
    X, y = moons
    few = y.copy()
    few[np.flatnonzero(y >= 0)[2:]] = -1
    few[0], few[1] = 0, 1
    with pytest.warns(UserWarning, match="no labelled row can be held out"):
        clf = model().fit(X, few)
    assert clf.best_iter_ == clf.n_iter_
    assert "validation_score" not in clf.history_[0]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"validation_fraction": 0.0}, ValueError, "validation_fraction must lie"),
        ({"validation_fraction": 1}, ValueError, "validation_fraction must lie"),
        ({"validation_fraction": "a"}, TypeError, "validation_fraction must be a number"),
    ],
)
def test_bad_parameters(moons, params, error, message):
    with pytest.raises(error, match=message):
        model(**params).fit(*moons)


# -- history -------------------------------------------------------------------------------------
def test_changed_pseudo_labels_are_counted(moons):
    X, y = moons
    labels = []

    def on_iteration(iteration):
        labels.append(iteration.predict_proba(X[60:], "students").argmax(axis=1))

    clf = model(on_iteration=on_iteration, validation_fraction=None, alpha=0.0).fit(X, y)
    changed = [entry.get("changed") for entry in clf.history_]
    assert changed[:2] == [None, None]
    assert all(0 <= share <= 1 for share in changed[2:])
    before = np.full(100, -1)
    for t, size in enumerate(clf.sample_sizes_, start=1):
        rows = draw_sample(100, size, np.random.default_rng(derive_seed(0, t, 1)))
        known = before[rows] >= 0
        if known.any():
            expected = (before[rows] != labels[t - 1][rows])[known].mean()
            assert changed[t] == pytest.approx(expected)
        before[rows] = labels[t - 1][rows]


# -- lines on standard error ---------------------------------------------------------------------
def test_a_line_for_each_iteration(moons, capfd):
    X, y = moons
    names = np.array(["sun", "moon", "?"])[y]
    clf = model(verbose=2, step_size=50, unlabeled_marker="?").fit(X, names)
    out, err = capfd.readouterr()
    assert out == ""
    lines = [line.split("\r")[-1] for line in err.split("\n")]
    start, *rest = [line for line in lines if re.match(r"iteration \d:", line)]
    score = clf.history_[0]["validation_score"]
    loss = clf.history_[0]["loss"]["supervised"][-1]
    assert start.startswith(
        f"iteration 0: supervised loss {loss:.4f}; validation score {score:.3f}; "
    )
    assert len(rest) == clf.n_iter_ == 2
    for line, entry in zip(rest, clf.history_[1:], strict=True):
        n, size = entry["pseudo_label_counts"]["moon"], entry["sample_size"]
        assert f"{size} pseudo-labels (moon {n / size:.1%}, sun {1 - n / size:.1%})" in line
        assert f"stage1 loss {entry['loss']['stage1'][-1]:.4f}; stage2 loss" in line
        assert f"validation score {entry['validation_score']:.3f}" in line
        assert line.endswith(f"{sum(entry['seconds'].values()):.1f} s")
    assert "changed" not in rest[0]  # no pseudo-label was there before
    assert f"{clf.history_[2]['changed']:.1%} changed" in rest[1]
