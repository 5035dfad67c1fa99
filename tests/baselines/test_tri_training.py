"""Tri-training: an independent implementation, its stopping rules, limits, records, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.nets import FollowingNet, PaddedMLP, mlp_net
from helpers.sgd import assert_same_weights, partial_moons, probabilities, sgd_net
from sklearn.datasets import make_blobs

from sklearn_spt._random import derive_seed, draw_sample
from sklearn_spt.baselines import TriTrainingClassifier
from sklearn_spt.baselines import _tri_training as module
from sklearn_spt.baselines._voting import bootstrap_rows


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 20 are labelled; the truth beside them."""
    return partial_moons(200, 20, 0.2)


@pytest.fixture(scope="module")
def blobs():
    """150 rows of three classes, of which 15 are labelled."""
    X, truth = make_blobs(150, centers=3, cluster_std=2.5, random_state=1)
    y = truth.copy()
    y[15:] = -1
    return X.astype(np.float32), y, truth


def model(net=None, **params):
    settings = {"threshold": 0.55, "max_iter": 2, "finetune_epochs": 3, "random_state": 0, **params}
    return TriTrainingClassifier(mlp_net() if net is None else net, **settings)


# -- an independent implementation -------------------------------------------------------------
def reference(X_l, y, X_u, *, threshold, fraction, max_iter, epochs):
    """The numbered steps, implemented independently: own loops, sets as dicts, plain SGD.

    Only the random draws are shared, so that both see the same rows.
    """
    N, n_U = len(X_l), len(X_u)

    nets = []
    for i in range(3):
        S = bootstrap_rows(y, np.random.default_rng(derive_seed(0, 0, 0, i)))
        nets.append(sgd_net(X_l[S], y[S], 0, 1 + i, epochs=epochs))
    A = [{}, {}, {}]
    trained = []
    for t in range(1, max_iter + 1):
        P = [probabilities(net, X_u) for net in nets]
        size = min(n_U, t * -(-n_U // 10))
        pool = draw_sample(n_U, size, np.random.default_rng(derive_seed(0, t)))
        new, candidates = [], 0
        for i in range(3):
            j, k = (m for m in range(3) if m != i)
            found = []
            for x in range(n_U):
                one, two, three = P[i][x].argmax(), P[j][x].argmax(), P[k][x].argmax()
                if two == three != one and max(P[j][x].max(), P[k][x].max()) >= threshold:
                    found.append((-(P[j][x].max() + P[k][x].max()) / 2, x, int(two)))
            candidates += len(found)
            found = [each for each in found if each[1] in pool]
            n = len(A[i]) + max(1, int(fraction * (N + len(A[i]))))
            new.append({int(x): label for _, x, label in sorted(found)[:n]})
        if not candidates:
            trained.append([])
            break
        trained.append([i for i in range(3) if new[i] != A[i]])
        for i in trained[-1]:
            rows = sorted(new[i])
            labels = np.array([new[i][x] for x in rows], dtype=np.int64)
            X, codes = np.concatenate([X_l, X_u[rows]]), np.concatenate([y, labels])
            nets[i] = sgd_net(X, codes, t, 1 + i, epochs=epochs)
        A = new
    return nets, A, trained


def test_equals_an_independent_implementation(moons):
    X, y, _ = moons
    labeled = y >= 0
    settings = {"max_iter": 4, "threshold": 0.6}
    clf = model(max_fraction=0.2, tol=0.0, **settings).fit(X, y)
    nets, A, trained = reference(
        X[labeled],
        y[labeled],
        X[~labeled],
        threshold=0.6,
        fraction=0.2,
        max_iter=4,
        epochs=3,
    )
    assert sum(map(len, trained)) >= 4  # something happened
    assert [[f"net_{i + 1}" for i in each] for each in trained] == [
        list(record["loss"]) for record in clf.history_[1:]
    ]
    assert clf.history_[-1]["set_sizes"] == [len(a) for a in A]
    for ours, theirs in zip(clf.estimators_, nets, strict=True):
        assert_same_weights(ours, theirs)
    last = {x: label for a in A for x, label in a.items()}
    codes = clf.transduction_[~labeled]
    assert {x: codes[x] for x in last} == last


# -- the records -------------------------------------------------------------------------------
def test_history_is_consistent(moons):
    X, y, _ = moons
    clf = model(max_iter=8, tol=0.0).fit(X, y)
    start, *rounds = json.loads(json.dumps(clf.history_))
    assert start["set_sizes"] == [0, 0, 0]
    assert start["n_added"] == start["pool_size"] == 0
    assert set(start["loss"]) == {"net_1", "net_2", "net_3"}
    assert all(len(loss) == 3 for loss in start["loss"].values())
    assert len(rounds) == clf.n_iter_ >= 1
    before = start
    for t, record in enumerate(rounds, start=1):
        assert record["iteration"] == t
        assert record["pool_size"] == min(180, 18 * t)
        for size, last in zip(record["set_sizes"], before["set_sizes"], strict=True):
            assert size <= last + max(1, int(0.1 * (20 + last)))
        assert record["n_train"] == 20 + sum(record["set_sizes"])
        assert sum(record["pseudo_label_counts"].values()) == sum(record["set_sizes"])
        assert record["n_added"] <= sum(record["set_sizes"]) <= record["pool_size"]
        assert 0 <= record["label_changes"] <= 1
        assert set(record["seconds"]) == ({"training", "labeling"} if record["loss"] else set())
        before = record
    assert any(record["n_added"] for record in rounds)


# -- how it ends -------------------------------------------------------------------------------
def test_without_candidates_it_ends_at_once_with_the_bootstrap_nets(moons):
    X, y, _ = moons
    clf = model(threshold=1.01).fit(X, y)
    assert clf.termination_condition_ == "no_candidates"
    assert clf.n_iter_ == 1
    assert (clf.labeled_iter_[20:] == -1).all()
    assert (clf.transduction_[20:] == -1).all()
    assert clf.history_[1]["loss"] == {}
    bootstrap = model(max_iter=0).fit(X, y)
    assert bootstrap.termination_condition_ == "max_iter"
    assert bootstrap.n_iter_ == 0
    np.testing.assert_array_equal(clf.predict_proba(X), bootstrap.predict_proba(X))


def test_the_fit_ends_if_all_nets_agree(moons, monkeypatch):
    X, y, _ = moons
    monkeypatch.setattr(module, "bootstrap_rows", lambda codes, rng: np.arange(len(codes)))
    clf = model(mlp_net(lr=0.5), finetune_epochs=60, threshold=0.0, max_iter=20)
    far = np.where(X[:, :1] > 0.5, X + 5, X - 5).astype(np.float32)
    match = r"no unlabelled document on which two nets agree .* threshold=0\.0 or more.*alone\.$"
    with pytest.warns(UserWarning, match=match) as caught:
        clf.fit(far, np.where(y < 0, y, (X[:, 0] > 0.5).astype(int)))
    assert [warning.filename for warning in caught] == [__file__]
    assert clf.termination_condition_ == "no_candidates"
    assert clf.n_iter_ == 1


def test_the_fit_ends_if_no_set_changes_with_a_full_pool(moons, monkeypatch):
    X, y, _ = moons

    def the_same(P, threshold, quotas):
        labels = np.full(P.shape[:2], -1)
        labels[1, 0] = 1
        return labels

    # of a sorted pool of all documents the first is always document 0
    monkeypatch.setattr(module, "draw_sample", lambda n, size, rng: np.arange(size))
    monkeypatch.setattr(module, "disagreement_sets", the_same)
    monkeypatch.setattr(module, "disagreements", lambda P, threshold: np.ones((3, 1), dtype=bool))
    clf = model(max_iter=20, tol=0.0).fit(X, y)
    assert clf.termination_condition_ == "no_change"
    assert clf.n_iter_ == 10
    assert set(clf.history_[1]["loss"]) == {"net_2"}  # the others were not trained again
    assert all(record["loss"] == {} for record in clf.history_[2:])
    assert [record["n_added"] for record in clf.history_] == [0, 1] + [0] * 9
    np.testing.assert_array_equal(clf.labeled_iter_[20:22], [10, -1])


def test_the_fit_ends_if_few_labels_change_with_a_full_pool(moons, monkeypatch):
    X, y, _ = moons
    calls = []

    def another(P, threshold, quotas):
        calls.append(len(calls) % 5)
        labels = np.full(P.shape[:2], -1)
        labels[0, calls[-1]] = 1
        return labels

    monkeypatch.setattr(module, "disagreement_sets", another)
    monkeypatch.setattr(module, "disagreements", lambda P, threshold: np.ones((3, 1), dtype=bool))
    clf = model(max_iter=20, tol=1.0).fit(X, y)
    assert clf.termination_condition_ == "tol"
    assert clf.n_iter_ == 10
    assert clf.history_[-1]["label_changes"] < 1


# -- limits ------------------------------------------------------------------------------------
def test_one_row_per_class_is_enough(moons):
    X, y, _ = moons
    few = np.where(np.isin(np.arange(200), [np.argmax(y == 0), np.argmax(y == 1)]), y, -1)
    clf = model().fit(X, few)
    assert clf.history_[0]["n_train"] == 2
    assert np.isfinite(clf.predict_proba(X)).all()


# -- the vote ----------------------------------------------------------------------------------
def test_predict_is_the_vote_and_the_most_probable_class(blobs):
    X, y, _ = blobs
    net = FollowingNet(PaddedMLP, lr=0.02, batch_size=8)
    clf = model(net, threshold=0.4, max_iter=1).fit(X, y)
    P = np.array([probabilities(net.module_, X) for net in clf.estimators_])
    votes = P.argmax(axis=2)
    expected = P.mean(axis=0)  # where all three differ
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        pair = votes[i] == votes[j]
        expected[pair] = ((P[i] + P[j]) / 2)[pair]
    agreed = (votes[0] == votes[1]) & (votes[0] == votes[2])
    expected[agreed] = P.mean(axis=0)[agreed]
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-6)
    np.testing.assert_array_equal(clf.predict(X), clf.predict_proba(X).argmax(axis=1))
    assert (clf.predict(X) != P.mean(axis=0).argmax(axis=1)).any()  # otherwise nothing is tested


# -- weights -----------------------------------------------------------------------------------
@pytest.fixture
def runs(monkeypatch):
    """What each training run is given: documents, classes, path, weights."""
    seen = []
    train = module.SupervisedTrainer.train

    def spy(self, X, codes, *path, weights=None):
        seen.append((X, codes, path, weights))
        return train(self, X, codes, *path, weights=weights)

    monkeypatch.setattr(module.SupervisedTrainer, "train", spy)
    return seen


def test_every_labelled_row_keeps_its_weight(moons, runs):
    X, y, _ = moons
    w = np.linspace(1, 5, len(y))
    clf = model(threshold=0.5, max_fraction=0.5).fit(X, y, sample_weight=w)
    assert clf.history_[1]["set_sizes"] != [0, 0, 0]
    number = {tuple(row): i for i, row in enumerate(X.tolist())}
    assert len(runs) > 3
    for given, codes, path, weights in runs:
        rows = np.array([number[tuple(row)] for row in given.tolist()])
        own = rows < 20
        assert own[:20].all()  # the labelled ones come first
        assert not own[20:].any()
        np.testing.assert_array_equal(codes[:20], y[rows[:20]])
        np.testing.assert_allclose(weights[:20], w[rows[:20]] / w[rows[:20]].mean())
        np.testing.assert_array_equal(weights[20:], 1)
        assert (len(np.unique(rows[:20])) < 20) == (path[0] == 0)  # a bootstrap sample


def test_rows_of_weight_zero_are_in_no_bootstrap_sample(moons, runs):
    X, y, _ = moons
    w = np.where(np.arange(200) < 8, 0.0, 2.0)
    zero = model(max_iter=0).fit(X, y, sample_weight=w)
    gone = {tuple(row) for row in X[:8].tolist()}
    assert [path for *_, path, _ in runs] == [(0, 1), (0, 2), (0, 3)]
    for given, codes, _, weights in runs:
        assert len(given) == 12
        assert not gone & {tuple(row) for row in given.tolist()}
        assert set(codes) == {0, 1}
        np.testing.assert_allclose(weights, 1)
    without = model(max_iter=0).fit(X[8:], y[8:])
    np.testing.assert_allclose(zero.predict_proba(X), without.predict_proba(X), atol=1e-6)
