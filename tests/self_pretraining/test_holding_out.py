"""Held-out rows: a fit tracks its students, keeps the best, ends early, says if none helps."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.nets import mlp_net
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import f1_score

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt._holdout import HoldOut
from sklearn_spt.self_pretraining import _classifier as _self_pretraining


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
    """The rows that fits hold out."""
    kept = []
    original = _self_pretraining.hold_out

    def spy(*args, **kwargs):
        kept.append(original(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(_self_pretraining, "hold_out", spy)
    return kept


def scripted(monkeypatch, *scores):
    """Let iterations score what a test wants."""
    given = iter(scores)
    monkeypatch.setattr(HoldOut, "score", lambda self, P: next(given))


class Kept:
    """Keeps what `on_iteration` sees."""

    def __init__(self):
        self.iterations = []

    def __call__(self, iteration):
        """Keep it."""
        self.iterations.append(iteration)


# -- scores --------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
def test_scores_are_those_of_the_held_out_rows(moons, held):
    X, y = moons
    kept = Kept()
    clf = model(on_iteration=kept).fit(X, y)
    (split,) = held
    assert len(split.valid) == 15
    assert sorted([*split.valid, *split.train]) == list(range(60))
    assert np.bincount(y[split.valid]).min() >= 6  # by class
    for iteration in kept.iterations:
        predicted = iteration.predict_proba(X[split.valid]).argmax(axis=1)
        expected = f1_score(y[split.valid], predicted)
        assert iteration.record["validation_score"] == pytest.approx(expected)
    assert len(clf.history_) == clf.n_iter_ + 1
    assert all("validation" in entry["seconds"] for entry in clf.history_)


@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
def test_the_fit_is_that_on_the_other_labelled_rows(moons, held):
    X, y = moons
    clf = model().fit(X, y)
    (split,) = held
    rest = np.r_[split.train, 60:160]
    plain = model(validation_fraction=None).fit(X[rest], y[rest])
    np.testing.assert_array_equal(clf.transduction_[60:], plain.transduction_[45:])
    assert clf.history_[-1]["loss"] == plain.history_[-1]["loss"]
    assert "validation_score" not in plain.history_[0]
    # the given labels of the held-out rows stand in the transduction all the same
    np.testing.assert_array_equal(clf.transduction_[:60], y[:60])
    assert (clf.labeled_iter_[:60] == 0).all()


@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
def test_the_positive_class_and_more_classes(moons, held):
    X, y = moons
    clf = model(pos_label=0).fit(X, y)
    rows = held[0].valid
    expected = f1_score(y[rows], clf.predict(X[rows]), pos_label=0)
    assert clf.history_[clf.best_iter_]["validation_score"] == pytest.approx(expected)
    X, y = make_classification(
        160, n_features=6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    y[90:] = -1
    net = mlp_net(module__n_in=6, module__n_classes=3)
    clf = model().set_params(estimator=net)
    clf.fit(X.astype(np.float32), y)
    rows = held[1].valid
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
def test_the_best_iteration_is_kept(moons, monkeypatch, scores, best):
    X, y = moons
    scripted(monkeypatch, *scores)
    kept = Kept()
    clf = model(on_iteration=kept).fit(X, y)
    assert (clf.n_iter_, clf.best_iter_) == (4, best)
    iteration = kept.iterations[best]
    assert clf.student_ is iteration.student
    assert clf.teacher_ is iteration.teacher
    np.testing.assert_array_equal(clf.predict_proba(X), iteration.predict_proba(X))
    assert clf.termination_condition_ == "all_labeled"


def test_early_stopping(moons, monkeypatch):
    X, y = moons
    scripted(monkeypatch, 0.5, 0.6, 0.55, 0.6, 0.9)
    clf = model(patience=2).fit(X, y)
    assert (clf.n_iter_, clf.best_iter_) == (3, 1)
    assert clf.termination_condition_ == "early_stopping"
    assert clf.sample_sizes_ == [25, 50, 75]
    assert len(clf.history_) == 4
    assert set(clf.labeled_iter_) <= {-1, 0, 1, 2, 3}


def test_a_fit_that_does_not_help_says_so(moons, monkeypatch):
    X, y = moons
    scripted(monkeypatch, 0.8, 0.7, 0.6)
    with pytest.warns(UserWarning, match=r"did not help.*\(0.800\), the last one 0.600; "):
        clf = model(max_iter=2).fit(X, y)
    assert clf.best_iter_ == 0
    assert clf.student_ is clf.teacher_
    scripted(monkeypatch, 0.8, 0.7, 0.9)
    assert model(max_iter=2).fit(X, y).best_iter_ == 2  # and says nothing


def test_a_fit_without_iterations_says_nothing(moons):
    X, y = moons
    clf = model(max_iter=0).fit(X, y)
    assert clf.best_iter_ == clf.n_iter_ == 0
    assert "validation_score" in clf.history_[0]


@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
def test_a_resumed_fit_remembers_the_best(moons, monkeypatch, tmp_path):
    X, y = moons
    plain = model(patience=3).fit(X, y)

    class Kill:
        def __call__(self, iteration):
            if iteration.number == 2:
                raise KeyError

    with pytest.raises(KeyError):
        model(patience=3, checkpoint_dir=tmp_path, on_iteration=Kill()).fit(X, y)
    resumed = model(patience=3, checkpoint_dir=tmp_path).fit(X, y)
    assert resumed.best_iter_ == plain.best_iter_
    np.testing.assert_array_equal(resumed.predict_proba(X), plain.predict_proba(X))


# -- limits --------------------------------------------------------------------------------------
def test_rows_that_cannot_be_held_out(moons):
    X, y = moons
    few = y.copy()
    few[np.flatnonzero(y >= 0)[2:]] = -1
    few[0], few[1] = 0, 1
    with pytest.warns(UserWarning, match="no labelled row can be held out"):
        clf = model(patience=1).fit(X, few)
    assert clf.best_iter_ == clf.n_iter_
    assert "validation_score" not in clf.history_[0]


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"validation_fraction": 0.0}, ValueError, "validation_fraction must lie"),
        ({"validation_fraction": 1}, ValueError, "validation_fraction must lie"),
        ({"validation_fraction": "a"}, TypeError, "validation_fraction must be a number"),
        ({"patience": 0}, ValueError, "patience must be at least 1"),
        ({"validation_fraction": None, "patience": 2}, ValueError, "patience needs held-out"),
        ({"pos_label": 5}, ValueError, "pos_label=5 is none of the classes"),
    ],
)
def test_bad_parameters(moons, params, error, message):
    with pytest.raises(error, match=message):
        model(**params).fit(*moons)


# -- without labels ------------------------------------------------------------------------------
def test_changed_pseudo_labels_are_counted(moons):
    X, y = moons
    labels = {}

    class Labels:
        """Asks each teacher for the labels of the sample that it gave, as they stood."""

        def __call__(self, iteration):
            labels[iteration.number] = iteration.predict_proba(X[60:], "teacher").argmax(axis=1)

    settings = {"validation_fraction": None, "alpha": 0.0}
    clf = model(on_iteration=Labels(), **settings).fit(X, y)
    changed = [entry.get("changed") for entry in clf.history_]
    assert changed[:2] == [None, None]
    assert all(0 <= share <= 1 for share in changed[2:])
    # in the last iteration all rows are drawn; those that had a label got it from some teacher
    from sklearn_spt._random import derive_seed
    from sklearn_spt._sampling import draw_sample

    before = np.full(100, -1)
    for t, size in enumerate(clf.sample_sizes_, start=1):
        rows = draw_sample(100, size, np.random.default_rng(derive_seed(0, t, 1)))
        known = before[rows] >= 0
        if known.any():
            expected = (before[rows] != labels[t][rows])[known].mean()
            assert changed[t] == pytest.approx(expected)
        before[rows] = labels[t][rows]
