"""Several supervised starts, and several students of an iteration."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from helpers.kills import KillAfter, Killed, assert_same, fitted, model, numbers
from helpers.nets import bert_net, mlp_net
from helpers.variants import VARIANTS, variant
from safetensors.numpy import load_file
from scipy.special import softmax

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer

COMMITTEE = {"n_starts": 3, "n_students": 2, "ensemble": "last"}
RULES = ["last", "last_two", "with_start"]


@pytest.fixture
def data():
    return numbers()


def probabilities(net, X):
    return softmax(net.forward(X).double().numpy(), axis=1)


@pytest.mark.parametrize(("rule", "n_nets"), [("last", 2), ("last_two", 4), ("with_start", 7)])
def test_which_nets_predict(data, rule, n_nets):
    X, y = data
    clf = model(**COMMITTEE | {"ensemble": rule, "logit_adjustment": 0.0}).fit(X, y)
    assert len(clf.estimators_) == n_nets
    assert clf.estimators_[-2:] == clf.students_
    P = [probabilities(net, X) for net in clf.estimators_]
    assert all(np.abs(one - P[0]).max() > 1e-4 for one in P[1:])  # no two nets are the same
    members = {"last": P, "last_two": P, "with_start": [np.mean(P[:3], axis=0), *P[3:]]}
    expected = np.mean(members[rule], axis=0)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("rule", "max_iter", "weights"),
    [
        ("last", 0, [1 / 3] * 3),
        ("last", 1, [1, 1]),
        ("last_two", 0, [1 / 3] * 3),
        ("last_two", 1, [1 / 3, 1 / 3, 1 / 3, 1, 1]),  # the starts are the teachers, and count once
        ("last_two", 2, [1, 1, 1, 1]),
        ("with_start", 0, [1 / 3] * 3),
        ("with_start", 1, [1 / 3, 1 / 3, 1 / 3, 1, 1]),
        ("with_start", 2, [1 / 3, 1 / 3, 1 / 3, 1, 1, 1, 1]),
    ],
)
def test_students_weigh_1_and_the_starts_share_1(data, rule, max_iter, weights):
    clf = model(**COMMITTEE | {"ensemble": rule, "max_iter": max_iter, "alpha": 0}).fit(*data)
    np.testing.assert_allclose(clf.estimator_weights_, weights)


def test_single_nets_have_the_same_weight(data):
    assert model().fit(*data).estimator_weights_.tolist() == [1, 1, 1]


@pytest.mark.parametrize("held_out", [None, 0.3])
def test_what_a_callback_sees_is_what_predicts(data, held_out):
    X, y = data
    seen = []
    clf = model(**COMMITTEE | {"ensemble": "with_start", "validation_fraction": held_out})
    clf.set_params(on_iteration=lambda one: seen.append(one.predict_proba(X))).fit(X, y)
    np.testing.assert_allclose(seen[clf.best_iter_], clf.predict_proba(X), atol=1e-12)


def test_without_iterations_the_starts_predict(data):
    X, y = data
    clf = model(n_starts=3, max_iter=0, ensemble="last", logit_adjustment=0.0).fit(X, y)
    assert clf.students_ == clf.estimators_
    assert len(clf.estimators_) == 3
    one = model(max_iter=0, logit_adjustment=0.0).fit(X, y)
    P = [probabilities(net, X) for net in clf.estimators_]
    np.testing.assert_allclose(P[0], one.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(clf.predict_proba(X), np.mean(P, axis=0), atol=1e-7)


def test_students_learn_from_the_mean_of_all_teachers(data, monkeypatch):
    X, y = data
    taught, seen = [], []
    original = SelfPretrainingTrainer.train_student

    def spy(self, t, number, C, P, q):
        taught.append((t, number, C, P, q))
        return original(self, t, number, C, P, q)

    monkeypatch.setattr(SelfPretrainingTrainer, "train_student", spy)
    params = {**COMMITTEE, "temperature": 1.0, "alpha": 0.0}
    model(on_iteration=seen.append, **params).fit(X, y)
    assert [(t, number) for t, number, *_ in taught[:4]] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    for t, _, C, P, q in taught:
        teachers = seen[t - 1].students
        assert len(teachers) == (3 if t == 1 else 2)
        for rows, labels in ((C, P), (X[y >= 0], q)):
            expected = np.mean([probabilities(net, rows) for net in teachers], axis=0)
            np.testing.assert_allclose(labels, expected, atol=1e-6)


def test_the_first_student_does_not_depend_on_the_number_of_students(data):
    one, two = (model(**COMMITTEE | {"n_students": n, "max_iter": 1, "alpha": 0.0}) for n in (1, 2))
    first, both = (clf.fit(*data).students_ for clf in (one, two))
    P = [probabilities(net, data[0]) for net in (first[0], both[0])]
    np.testing.assert_array_equal(*P)


def test_the_history_has_mean_losses(data):
    clf = model(**COMMITTEE).fit(*data)
    stages = [list(entry["loss"]) for entry in clf.history_]
    assert stages == [["supervised"], *[["stage1", "stage2"]] * clf.n_iter_]
    losses = [net.history[:, "train_loss"] for net in clf.students_]
    last = clf.history_[-1]["loss"]
    assert last["stage1"] + last["stage2"] == pytest.approx(np.mean(losses, axis=0), rel=1e-5)


@pytest.mark.parametrize(
    ("rule", "others"),
    [
        ("last", [0, 1, 0, 1, 0, 1]),
        ("last_two", [3, 4, 2, 3, 2, 3]),
        ("with_start", [3, 4, 5, 6, 5, 6]),
    ],
)
def test_nets_that_do_not_predict_are_freed_before_the_next_training(
    data, monkeypatch, rule, others
):
    nets, alive = [], []
    first, student = (
        getattr(SelfPretrainingTrainer, name) for name in ("supervised_start", "train_student")
    )

    def spy_on_starts(self):
        found = first(self)
        nets.extend(map(weakref.ref, found[0]))
        return found

    def spy_on_student(self, *args):
        alive.append(sum(net() is not None for net in nets))
        found = student(self, *args)
        nets.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(SelfPretrainingTrainer, "supervised_start", spy_on_starts)
    monkeypatch.setattr(SelfPretrainingTrainer, "train_student", spy_on_student)
    model(**COMMITTEE | {"ensemble": rule, "max_iter": 3}).fit(*data)
    assert alive == others


# -- memory, checkpoints, saved models ------------------------------------------------------------
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("t", [0, 1, 2])
def test_a_killed_fit_is_resumed(data, tmp_path, rule, t):
    params = COMMITTEE | {"ensemble": rule}
    plain, batches = fitted(data, **params)
    clf = model(checkpoint_dir=tmp_path, on_iteration=KillAfter(t), **params)
    with pytest.raises(Killed):
        clf.fit(*data)
    resumed, rest = fitted(data, checkpoint_dir=tmp_path, **params)
    assert_same(plain, resumed, data[0])
    assert rest < batches
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rule", "kept"),
    [("last", {3: 2}), ("last_two", {2: 2, 3: 2}), ("with_start", {0: 3, 2: 2, 3: 2})],
)
def test_a_state_holds_the_nets_that_predict(data, tmp_path, rule, kept):
    params = COMMITTEE | {"ensemble": rule}
    with pytest.raises(Killed):
        model(checkpoint_dir=tmp_path, on_iteration=KillAfter(3), **params).fit(*data)
    found = {
        int(file.stem): len({name.split(".")[0] for name in load_file(file) if "." in name})
        for file in tmp_path.rglob("*.safetensors")
    }
    assert found == kept


def test_memory_changes_no_result(data, tmp_path):
    plain, batches = fitted(data, **COMMITTEE)
    first, as_many = fitted(data, memory=str(tmp_path), **COMMITTEE)
    again, fewer = fitted(data, memory=str(tmp_path), **COMMITTEE)
    assert as_many == batches
    assert fewer == batches - 3 * 12 - 2 * 4  # the starts, and stage 1 of the first students
    assert_same(plain, first, data[0])
    assert_same(plain, again, data[0])
    # another number of starts gives other labels, and one more student shares the first two
    other = COMMITTEE | {"n_starts": 2, "n_students": 3}
    assert_same(fitted(data, **other)[0], fitted(data, memory=str(tmp_path), **other)[0], data[0])


def test_a_committee_of_berts_comes_back_from_disk(tiny_encoder, tiny_texts, tmp_path):
    from sklearn_spt import load

    y = np.array([1, 0] * 4 + [-1] * 16)
    net = bert_net(tiny_encoder)
    settings = COMMITTEE | {"ensemble": "with_start"}
    clf = SelfPretrainingClassifier(net, step_size=0.5, **settings, random_state=0)
    clf.fit(tiny_texts, y).save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), clf.predict_proba(tiny_texts))
    assert len(list((tmp_path / "model" / "nets").iterdir())) == 7


@pytest.mark.parametrize("switch", [None, *VARIANTS])
def test_the_bar_is_full_at_the_end(data, monkeypatch, switch):
    from sklearn_spt._progress import Progress

    counts = {"expect": 0, "advance": 0}
    for name in counts:
        original = getattr(Progress, name)

        def spy(self, n, name=name, original=original):
            counts[name] += n
            return original(self, n)

        monkeypatch.setattr(Progress, name, spy)
    variant(mlp_net(module__n_in=20), switch, **COMMITTEE, random_state=0).fit(*data)
    assert counts["expect"] == counts["advance"] > 0
