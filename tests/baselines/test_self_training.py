"""Self-training: independent implementation, training sets, limits, records."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.nets import mlp_net
from helpers.sgd import assert_same_weights, partial_moons, probabilities, sgd_net
from sklearn.datasets import make_blobs

from sklearn_spt._random import derive_seed
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt.baselines import ThrottledSelfTrainingClassifier


@pytest.fixture(scope="module")
def moons():
    """120 rows, of which 30 are labelled; the truth beside them."""
    return partial_moons(120, 30, 0.1)


def model(net=None, **params):
    settings = {"threshold": 0.7, "n_iterations": 4, "finetune_epochs": 5, "random_state": 0}
    net = mlp_net(lr=1.0, batch_size=16) if net is None else net
    return ThrottledSelfTrainingClassifier(net, **settings | params)


# -- an independent implementation -------------------------------------------------------------
def reference(X_l, y, X_u, *, threshold, n):
    """Self-training, implemented independently: own loops, own selection, own rates, plain SGD.

    Only the seeds are shared, so that both draw the same rows and weights.
    """

    def fit(X, y, t):
        return sgd_net(X, y, t, epochs=5, R=1.0, B=16)

    f, left, added = fit(X_l, y, 0), list(range(len(X_u))), {}
    for t in range(1, n + 1):
        order = np.random.default_rng(derive_seed(0, t, 1)).permutation(np.array(left))
        most, step = max(1, int(0.1 * len(y))), -(-len(X_u) // 10)
        for size in range(t * step, len(left) + step, step):
            pool = np.sort(order[:size])
            p = probabilities(f, X_u[pool])
            conf = p.max(axis=1)
            ranked = sorted(np.flatnonzero(conf >= threshold), key=lambda i: (-conf[i], pool[i]))
            chosen = ranked[:most]
            if chosen:
                break
        else:
            return f, added
        for i in chosen:
            added[int(pool[i])] = int(p[i].argmax()), t
            left.remove(int(pool[i]))
        rows = pool[chosen]
        X_l, y = np.r_[X_l, X_u[rows]], np.r_[y, p[chosen].argmax(axis=1)]
        f = fit(X_l, y, t)
    return f, added


@pytest.mark.parametrize("threshold", [0.6, 0.85])
def test_equals_an_independent_implementation(moons, threshold):
    X, y, _ = moons
    clf = model(threshold=threshold).fit(X, y)
    f, added = reference(X[:30], y[:30], X[30:], threshold=threshold, n=4)
    assert_same_weights(clf.estimators_[0], f)
    assert len(added) >= 4
    for row in range(90):
        code, t = added.get(row, (-1, -1))
        assert (clf.transduction_[30 + row], clf.labeled_iter_[30 + row]) == (code, t)


# -- the training sets -------------------------------------------------------------------------
def test_a_pool_without_a_confident_document_grows(moons):
    X, y, _ = moons
    confidence = model(n_iterations=0, random_state=1).fit(X, y).predict_proba(X[30:]).max(axis=1)
    most_confident = int(confidence.argmax())
    order = np.random.default_rng(derive_seed(1, 1, 1)).permutation(90)
    place = int(np.flatnonzero(order == most_confident)[0])
    assert place >= 9  # not in the first tenth
    clf = model(threshold=confidence.max(), n_iterations=1, random_state=1).fit(X, y)
    assert clf.history_[1]["pool_size"] == 9 * (place // 9 + 1)
    assert clf.history_[1]["n_added"] == 1
    assert clf.labeled_iter_[30 + most_confident] == 1


def test_all_documents_may_be_added(moons):
    X, y, _ = moons
    clf = model(threshold=0.0, n_iterations=99, finetune_epochs=1, max_fraction=0.5).fit(X, y)
    assert clf.termination_condition_ == "all_labeled"
    assert (clf.labeled_iter_[30:] >= 1).all()
    assert clf.history_[-1]["n_train"] == 120
    assert clf.n_iter_ == len(clf.history_) - 1 == clf.labeled_iter_.max()


# -- limits ------------------------------------------------------------------------------------
def supervised(X, y, random_state=0):
    clf = model(random_state=random_state)
    trainer = SupervisedTrainer(clf, clf.estimator, np.unique(y), "")
    net, _ = trainer.train(X, y, 0)
    return net


@pytest.mark.parametrize("params", [{"n_iterations": 0}, {"threshold": 1.1}, {"max_iter": 0}])
def test_training_is_supervised_if_switched_off(moons, params):
    X, y, _ = moons
    clf = model(**{"n_iterations": None, **params}).fit(X, y)
    assert torch.equal(clf.estimators_[0].forward(X), supervised(X[:30], y[:30]).forward(X))
    assert (clf.transduction_[30:] == -1).all()


# -- choice ------------------------------------------------------------------------------------
def test_the_number_is_chosen(moons):
    X, y, _ = moons
    clf = model(n_iterations=None, max_iter=3).fit(X, y)
    scores = [record["validation_score"] for record in clf.selection_history_]
    assert clf.n_iter_ == int(np.argmax(scores))
    assert clf.selection_history_[0]["n_train"] == 24
    assert clf.history_[0]["n_train"] == 30
    given = model(n_iterations=clf.n_iter_).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), given.predict_proba(X))


def test_it_is_not_worse_than_supervised_on_clusters():
    X, truth = make_blobs(300, centers=[[-2, 0], [2, 0], [0, 3]], cluster_std=0.9, random_state=1)
    X = X.astype(np.float32)
    y = np.full(300, -1)
    few = np.concatenate([np.flatnonzero(truth == c)[:4] for c in range(3)])
    y[few] = truth[few]
    net = mlp_net(module__n_classes=3, lr=0.5, batch_size=16)
    clf = model(net, threshold=0.5, n_iterations=8).fit(X, y)
    alone = model(net, n_iterations=0).fit(X, y)
    assert clf.score(X, truth) > max(0.85, alone.score(X, truth) - 0.02)


# -- the contract ------------------------------------------------------------------------------
def test_history_is_complete_and_plain(moons):
    X, y, _ = moons
    clf = model(n_iterations=None, max_iter=2).fit(X, y)
    records = json.loads(json.dumps(clf.selection_history_))
    assert [record["iteration"] for record in records] == [0, 1, 2]
    for record in records:
        assert set(record) == {
            *("iteration", "n_train", "pool_size", "n_added", "pseudo_label_counts", "loss"),
            *("seconds", "validation_score"),
        }
        assert len(record["loss"]) == 5
        assert sum(record["pseudo_label_counts"].values()) == record["n_added"]
    assert set(records[0]["seconds"]) == {"training", "validation"}
    assert set(records[1]["seconds"]) == {"labeling", "training", "validation"}
    assert all("validation_score" not in record for record in clf.history_)
