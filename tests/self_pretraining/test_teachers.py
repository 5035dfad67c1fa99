"""Who labels for the students: the last one, or all nets that predict together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.kills import KillAfter, Killed
from helpers.lives import Lives
from helpers.nets import UnevenMLP, mlp_net
from scipy.special import softmax
from sklearn.datasets import make_blobs, make_moons

from sklearn_spt import SelfPretrainingClassifier, _supervised
from sklearn_spt.self_pretraining import _labeling
from sklearn_spt.self_pretraining._trainer import Run

N_LABELED = 20
T = 3.0


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 20 are labelled."""
    X, y = make_moons(200, noise=0.2, random_state=0)
    y[N_LABELED:] = -1
    return X.astype(np.float32), y


def model(**params):
    """Three iterations, of 60, 120 and 180 rows, all taught by the nets that predict."""
    settings = {"teacher": "ensemble", "temperature": T, "step_size": 60, "alpha": 0.0}
    settings.update(logit_adjustment=0.0, random_state=0)
    return SelfPretrainingClassifier(mlp_net(), **{**settings, **params})


def probabilities(nets, X, temperature):
    return np.mean(
        [softmax(net.forward(X).double().numpy() / temperature, axis=1) for net in nets], axis=0
    )


@pytest.fixture
def asked(monkeypatch):
    """What each net was asked to label, by net: rows of X as bytes."""
    found, nets = {}, []
    predict = _labeling.predict_logits

    def noted(M, X, n_classes):
        if all(net is not M for net in nets):
            nets.append(M)  # no other net gets its id
        found.setdefault(id(M), []).extend(row.tobytes() for row in np.asarray(X))
        return predict(M, X, n_classes)

    for module in (_labeling, _supervised):
        monkeypatch.setattr(module, "predict_logits", noted)
    return found


@pytest.fixture
def taught(monkeypatch):
    """What the students of a fit learn on L, by iteration, and whose logits are kept meanwhile."""
    found = {}
    student = Run.student

    def noted(self, t, C, P, q):
        found[t] = q, [known.net for known in self.logits.known]
        return student(self, t, C, P, q)

    monkeypatch.setattr(Run, "student", noted)
    return found


@pytest.mark.parametrize("n_starts", [1, 2])
@pytest.mark.parametrize("ensemble", ["with_start", "last_two"])
@pytest.mark.parametrize("distillation", [True, False])
def test_all_that_predict_after_an_iteration_label_for_the_next(
    moons, taught, ensemble, n_starts, distillation
):
    X, y = moons
    settings = {"ensemble": ensemble, "n_starts": n_starts, "distillation": distillation}
    fits = [model(max_iter=t, **settings).fit(X, y) for t in range(4)]
    asked_at = T if distillation else 1.0
    for t, (before, clf) in enumerate(itertools.pairwise(fits), start=1):
        drawn = clf.labeled_iter_ == t
        P = probabilities(before.estimators_, X[drawn], asked_at)
        np.testing.assert_array_equal(clf.transduction_[drawn], P.argmax(axis=1))
        on_L = probabilities(before.estimators_, X[:N_LABELED], asked_at)
        expected = on_L if distillation else np.eye(2)[on_L.argmax(axis=1)]
        np.testing.assert_allclose(taught[t][0], expected, atol=1e-6)
        if distillation:
            for c, group in clf.history_[t]["groups_before"].items():
                own = P[P.argmax(axis=1) == c, c]
                assert group["count"] == len(own)
                assert group["mean"] == pytest.approx(own.mean(), abs=1e-6)


def test_the_first_student_is_the_same_and_the_second_another(moons):
    X, y = moons
    alone = model(teacher="last_student").fit(X, y)
    clf = model().fit(X, y)
    assert clf.history_[1]["loss"] == alone.history_[1]["loss"]
    assert clf.history_[2]["loss"] != alone.history_[2]["loss"]
    assert clf.sample_sizes_ == alone.sample_sizes_
    # who predicts stays the same: the start, the student before the last, the last
    assert len(clf.estimators_) == 3
    assert clf.estimators_[1:] == [clf.teacher_, clf.student_]


@pytest.mark.parametrize("n_starts", [1, 3])
def test_no_net_is_asked_for_a_document_twice(moons, asked, n_starts):
    X, y = moons
    model(n_starts=n_starts).fit(X, y)
    everything = {row.tobytes() for row in X}
    counts = [len(rows) for rows in asked.values()]
    for rows in asked.values():
        assert len(rows) == len(set(rows))
        assert set(rows) <= everything
    # the starts teach in each iteration, the last of which takes all; so do the first two students
    assert counts == [200] * (n_starts + 2)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_of_four_classes_with_inertia(alpha):
    X, y = make_blobs(200, centers=4, cluster_std=3.0, random_state=0)
    X, y = X.astype(np.float32), np.where(np.arange(200) < 40, y, -1)
    net = mlp_net(module__n_classes=4)
    # inertia begins in the second iteration
    before = model(max_iter=1).set_params(estimator=net).fit(X, y)
    clf = model(max_iter=2, alpha=alpha).set_params(estimator=net).fit(X, y)
    drawn = clf.labeled_iter_ == 2
    P = probabilities(before.estimators_, X[drawn], T)
    codes = P.argmax(axis=1)
    groups = clf.history_[2]["groups_before"]
    assert {c: group["count"] for c, group in groups.items()} == dict(enumerate(np.bincount(codes)))
    for c, group in groups.items():
        assert group["mean"] == pytest.approx(P[codes == c, c].mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("teacher", "ensemble", "kept"),
    [
        ("ensemble", "with_start", [1, 2, 0]),
        ("ensemble", "last_two", [1, 1, 0]),
        ("last_student", "with_start", [0, 0, 0]),
    ],
)
def test_only_what_is_asked_again_is_kept(moons, taught, teacher, ensemble, kept):
    X, y = moons
    model(teacher=teacher, ensemble=ensemble).fit(X, y)
    assert [len(nets) for _, nets in taught.values()] == kept


def test_the_last_student_alone_labels_its_sample(moons, asked):
    X, y = moons
    model(teacher="last_student").fit(X, y)
    assert [len(rows) for rows in asked.values()] == [60 + 20, 120 + 20, 180 + 20]


@pytest.mark.parametrize("ensemble", ["with_start", "last_two"])
@pytest.mark.parametrize("t", [0, 1, 2])
def test_a_fit_that_was_killed_goes_on(moons, asked, tmp_path, ensemble, t):
    X, y = moons
    params = {"ensemble": ensemble, "n_starts": 2}
    whole = model(**params).fit(X, y)
    expected = [len(rows) for rows in asked.values()]
    asked.clear()
    with pytest.raises(Killed):
        model(**params, checkpoint_dir=str(tmp_path), on_iteration=KillAfter(t)).fit(X, y)
    before = sum(map(len, asked.values()))
    asked.clear()
    clf = model(**params, checkpoint_dir=str(tmp_path)).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(clf.transduction_, whole.transduction_)
    # what was labelled before the kill is not labelled again
    assert before + sum(map(len, asked.values())) == sum(expected)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def uneven():
    """A net whose logits depend on the batch, and 800 rows, a fifth positive and 150 labelled."""
    X, y = make_blobs([640, 160], centers=[[0, 0], [2, 2]], random_state=0)
    y[150:] = -1
    return mlp_net(UnevenMLP, batch_size=64), X.astype(np.float32), y


def watch(iteration):
    """Look on: from now on the adjustment is chosen after each iteration."""


@pytest.mark.parametrize("teacher", ["ensemble", "last_student"])
def test_the_adjustment_changes_no_pseudo_label_of_a_fit_that_goes_on(uneven, tmp_path, teacher):
    net, X, y = uneven
    for seed in range(3):
        params = {"teacher": teacher, "step_size": 0.25, "random_state": seed}
        params |= {"finetune_epochs": 15, "logit_adjustment": "auto", "on_iteration": watch}
        whole = model(**params).set_params(estimator=net).fit(X, y)
        params["checkpoint_dir"] = str(tmp_path)
        killed = model(**{**params, "on_iteration": KillAfter(2)}).set_params(estimator=net)
        with pytest.raises(Killed):
            killed.fit(X, y)
        clf = model(**params).set_params(estimator=net).fit(X, y)
        assert clf.logit_adjustment_ == whole.logit_adjustment_ > 0
        np.testing.assert_array_equal(clf.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("teacher", ["ensemble", "last_student"])
def test_who_watches_a_fit_does_not_change_it(uneven, teacher):
    net, X, y = uneven
    for seed in range(3):
        params = {"teacher": teacher, "step_size": 0.25, "random_state": seed}
        params |= {"finetune_epochs": 15, "logit_adjustment": "auto"}
        alone = model(**params).set_params(estimator=net).fit(X, y)
        watched = model(**params, on_iteration=watch)
        watched.set_params(estimator=net).fit(X, y)
        assert watched.logit_adjustment_ == alone.logit_adjustment_ > 0
        np.testing.assert_array_equal(watched.predict_proba(X), alone.predict_proba(X))


def test_what_is_kept_in_memory_does_not_depend_on_it(moons, asked, tmp_path):
    X, y = moons
    kept = {"memory": str(tmp_path), "n_starts": 2}
    model(teacher="last_student", **kept).fit(X, y)
    for _ in range(2):
        alone = model(n_starts=2).fit(X, y)
        asked.clear()
        clf = model(**kept).fit(X, y)
        np.testing.assert_array_equal(clf.predict_proba(X), alone.predict_proba(X))
        # the first labels came from the memory: the starts were asked for the other documents
        assert [len(rows) for rows in asked.values()] == [120, 120, 200, 200]


def test_nets_that_teach_no_longer_are_let_go_before_the_next_is_trained(moons, monkeypatch):
    X, y = moons
    students = Lives("student", monkeypatch)
    model(ensemble="last_two", step_size=45, on_iteration=students).fit(X, y)
    # a student teaches twice, with the one before it and then with the one after it
    assert students.before == {
        1: [True],
        2: [False, True],
        3: [False, False, True],
        4: [False, False, False, True],
    }


@pytest.mark.parametrize("value", ["student", None, 1, "Ensemble"])
def test_a_teacher_that_is_none_is_named(moons, value):
    X, y = moons
    clf = model(teacher=value)
    with pytest.raises(ValueError, match="teacher must be"):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")
