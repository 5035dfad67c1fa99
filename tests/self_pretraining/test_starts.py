"""Several supervised starts, which are the first teacher together."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import torch
from helpers.kills import KillAfter, Killed
from helpers.lives import Lives
from helpers.nets import MLP, mlp_net
from scipy.special import softmax
from sklearn.datasets import make_moons
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback

from sklearn_spt import SelfPretrainingClassifier, compare_with_supervised
from sklearn_spt._holdout import HoldOut
from sklearn_spt._supervised import SupervisedTrainer


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 20 are labelled."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    y[20:] = -1
    return X.astype(np.float32), y


def model(**params):
    settings = {"n_starts": 3, "step_size": 60, "logit_adjustment": 0.0, "random_state": 0}
    return SelfPretrainingClassifier(mlp_net(), **{**settings, **params})


def probabilities(net, X, T=1.0):
    return softmax(net.forward(X).double().numpy() / T, axis=1)


@pytest.fixture
def trained(monkeypatch):
    """Paths of the supervised runs, in their order."""
    paths = []
    train = SupervisedTrainer.train

    def noted(self, X, codes, *path, **kwargs):
        paths.append(path)
        return train(self, X, codes, *path, **kwargs)

    monkeypatch.setattr(SupervisedTrainer, "train", noted)
    return paths


def test_they_differ_and_the_first_is_that_of_one(moons):
    X, y = moons
    one, clf = (model(n_starts=n, max_iter=0).fit(X, y) for n in (1, 3))
    P = [probabilities(net, X) for net in clf.estimators_]
    assert len(P) == 3
    np.testing.assert_allclose(P[0], one.predict_proba(X), atol=1e-7)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(P[i] - P[j]).max() > 1e-3
    np.testing.assert_allclose(clf.predict_proba(X), np.mean(P, axis=0), atol=1e-7)
    assert clf.teacher_ is clf.student_ is clf.estimators_[0]
    # more of them do not change those that there are
    more = model(n_starts=4, max_iter=0).fit(X, y)
    np.testing.assert_array_equal(probabilities(more.estimators_[2], X), P[2])


@pytest.mark.parametrize("distillation", [True, False])
def test_they_label_for_the_first_student_by_their_mean(moons, distillation):
    X, y = moons
    starts = model(max_iter=0).fit(X, y).estimators_
    clf = model(step_size=1.0, alpha=0.0, temperature=3.0, distillation=distillation).fit(X, y)
    T = 3.0 if distillation else 1.0
    P = np.mean([probabilities(net, X[20:], T) for net in starts], axis=0)
    np.testing.assert_array_equal(clf.transduction_[20:], P.argmax(axis=1))
    if distillation:
        for c, group in clf.history_[1]["groups_before"].items():
            own = P[P.argmax(axis=1) == c, c]
            assert group["count"] == len(own)
            assert group["mean"] == pytest.approx(own.mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("ensemble", "n_nets"), [("with_start", [3, 4, 5, 5]), ("last_two", [3, 4, 2, 2])]
)
def test_who_predicts_after_each_iteration(moons, ensemble, n_nets):
    X, y = moons
    seen = []

    def look(iteration):
        which = ("student", "teacher", "ensemble")
        seen.append([iteration.predict_proba(X, which=name) for name in which])

    clf = model(ensemble=ensemble, on_iteration=look).fit(X, y)
    fits = [model(ensemble=ensemble, max_iter=t, alpha=0.1) for t in range(4)]
    with pytest.warns(UserWarning, match="alpha=0.1 has no effect"):
        fits = [fit.fit(X, y) for fit in fits]
    assert [len(fit.estimators_) for fit in fits] == n_nets
    for fit, (student, teacher, together) in zip(fits, seen, strict=True):
        np.testing.assert_array_equal(fit.predict_proba(X), together)
        P = [probabilities(net, X) for net in fit.estimators_]
        students = P[:3] if fit.n_iter_ == 0 else P[-1:]
        teachers = P[:3] if fit.n_iter_ < 2 else P[-2:-1]
        np.testing.assert_allclose(student, np.mean(students, axis=0), atol=1e-7)
        np.testing.assert_allclose(teacher, np.mean(teachers, axis=0), atol=1e-7)
    # later iterations have one teacher, the last student
    assert clf.estimators_[-2:] == [clf.teacher_, clf.student_]
    np.testing.assert_allclose(seen[3][1], seen[2][0], atol=1e-7)


def test_the_best_of_them_are_kept_together(moons, monkeypatch):
    X, y = moons
    scores = iter([0.9, 0.5, 0.4, 0.3])
    monkeypatch.setattr(HoldOut, "score", lambda self, P: next(scores))
    with pytest.warns(UserWarning, match="did not help"):
        clf = model(validation_fraction=0.5).fit(X, y)
    assert (clf.n_iter_, clf.best_iter_) == (3, 0)
    assert len(clf.estimators_) == 3
    assert clf.teacher_ is clf.student_ is clf.estimators_[0]


def test_each_is_kept_for_other_fits(moons, trained, tmp_path):
    X, y = moons
    alone = model(max_iter=2).fit(X, y)
    assert trained == [(0,), (0, 5, 1), (0, 5, 2)]
    trained.clear()
    kept = {"max_iter": 2, "memory": str(tmp_path)}
    model(n_starts=2, **kept).fit(X, y)
    clf = model(**kept).fit(X, y)
    again = model(**kept).fit(X, y)
    assert trained == [(0,), (0, 5, 1), (0, 5, 2)]
    for fit in (clf, again):
        np.testing.assert_array_equal(fit.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize("ensemble", ["with_start", "last_two"])
@pytest.mark.parametrize("t", [0, 1, 2])
def test_a_fit_that_was_killed_goes_on(moons, trained, tmp_path, ensemble, t):
    X, y = moons
    params = {"ensemble": ensemble, "checkpoint_dir": str(tmp_path), "logit_adjustment": "auto"}
    whole = model(**{**params, "checkpoint_dir": None}).fit(X, y)
    with pytest.raises(Killed):
        model(**params, on_iteration=KillAfter(t)).fit(X, y)
    trained.clear()
    clf = model(**params, on_iteration=print).fit(X, y)
    assert trained == []
    np.testing.assert_array_equal(clf.predict_proba(X), whole.predict_proba(X))
    assert clf.logit_adjustment_ == whole.logit_adjustment_


class EndsEarly(Callback):
    """Ends the second training run of a fit after its first epoch."""

    runs: ClassVar[list[int]] = []

    def on_train_begin(self, net, **kwargs):
        self.runs.append(0)

    def on_epoch_end(self, net, **kwargs):
        if len(self.runs) == 2:
            raise KeyboardInterrupt


def test_a_start_may_end_early(moons):
    X, y = moons
    EndsEarly.runs.clear()
    whole = model(n_starts=1, max_iter=0).fit(X, y).history_[0]["loss"]["supervised"]
    clf = model(n_starts=2, max_iter=0)
    clf.set_params(estimator__callbacks=[EndsEarly()]).fit(X, y)
    losses = clf.history_[0]["loss"]["supervised"]
    assert losses[1:] == whole[1:]  # of the one that went on
    assert losses[0] != whole[0]


class OwnStart(NeuralNetClassifier):
    """A net that starts its last layer from labels, and notes what it is given for that."""

    given: ClassVar[list[object]] = []

    def start_head(self, X, codes, weights, *, balanced, known=None):
        self.given.append(known)
        return known or object()


def test_the_start_of_the_head_is_found_once(moons):
    X, y = moons
    OwnStart.given.clear()
    net = OwnStart(MLP, lr=0.1, batch_size=8, optimizer=torch.optim.SGD)
    SelfPretrainingClassifier(net, n_starts=3, step_size=60, random_state=0).fit(X, y)
    assert len(OwnStart.given) == 6  # three starts and three students
    assert OwnStart.given[0] is None
    assert len(set(map(id, OwnStart.given[1:]))) == 1


@pytest.mark.parametrize("tau", [0.0, "auto"])
def test_who_predicts_no_longer_is_let_go_before_the_next_is_trained(moons, monkeypatch, tau):
    X, y = moons
    y = np.where((y == 1) & (np.arange(200) < 10), 0, y)  # "auto" has something to choose
    teachers = Lives("teacher", monkeypatch)
    model(ensemble="last_two", logit_adjustment=tau, on_iteration=teachers).fit(X, y)
    # the starts teach student 1, which teaches student 2, which teaches student 3
    assert teachers.before == {1: [True], 2: [False, False], 3: [False, False, False]}


def test_what_learns_nothing_gains_nothing(moons):
    X, y = moons
    found = compare_with_supervised(model(max_iter=0), X, y, cv=2, random_state=0)
    assert found.gain == 0.0


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", None, True])
def test_a_number_that_cannot_be(moons, value):
    X, y = moons
    clf = model(n_starts=value)
    with pytest.raises((TypeError, ValueError), match="n_starts must be"):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")
