"""Spaced-rep: an independent implementation, its choices, limits, records, bad input."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from helpers.nets import mlp_net
from helpers.sgd import assert_same_weights, partial_moons, probabilities, sgd_net
from sklearn.metrics import f1_score

from sklearn_spt import _holdout
from sklearn_spt._holdout import validation_split
from sklearn_spt._random import derive_seed
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt.baselines import SpacedRepetitionClassifier


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 40 are labelled; the truth beside them."""
    return partial_moons(200, 40, 0.2)


QUICK = mlp_net(batch_size=16, lr=0.2)


def model(net=None, **params):
    settings = {"threshold": 0.6, "max_iter": 1, "episode_epochs": 4, "random_state": 0, **params}
    return SpacedRepetitionClassifier(QUICK if net is None else net, **settings)


@pytest.fixture
def scores(monkeypatch):
    """Scripted scores on the held-out rows; the last one is repeated."""
    script: list[float] = []

    def scripted(*args):
        return script.pop(0) if len(script) > 1 else script[0]

    monkeypatch.setattr(_holdout, "validation_score", scripted)
    return script


# -- an independent implementation -------------------------------------------------------------
def reference(X_l, y, X_u, *, threshold, fraction, n, E_max, M_max, patience):
    """The numbered steps, implemented independently: own loops, queues as lists, plain SGD.

    Only the random draws are shared, so that both see the same rows.
    """

    def score(net):
        return f1_score(y[va], probabilities(net, X_l[va]).argmax(axis=1), zero_division=0.0)

    def throttled(members, P, n_train):
        sure = [x for x in members if P[x].max() >= threshold]
        sure.sort(key=lambda x: (-P[x].max(), x))
        return sure[: max(1, int(fraction * n_train))]

    tr, va, _ = validation_split(y, 0.2, np.random.default_rng(derive_seed(0, 0, 1)))
    X_T, y_T, added = X_l[tr], y[tr], {}
    U = list(range(len(X_u)))
    kept = sgd_net(X_T, y_T, 0, epochs=3)
    top = score(kept)
    P = probabilities(kept, X_u)
    d, sizes, stale = None, [], 0
    for m in range(1, M_max + 1):
        provisional = {x: P[x].argmax() for x in U}
        queues = [list(U)] + [[] for _ in range(n - 1)]
        best = {"score": -1.0, "epoch": 0, "net": None}

        def epoch(net, e, provisional=provisional, queues=queues, best=best):
            due = [(i, x) for i in range(n) if e % 2**i == 0 for x in queues[i]]
            now = probabilities(net, X_u).argmax(axis=1)
            for i, x in due:
                queues[i].remove(x)
                agrees = now[x] == provisional[x]
                queues[min(i + 1, n - 1) if agrees else 0].append(x)
            if score(net) > best["score"]:
                best.update(score=score(net), epoch=e, net=copy.deepcopy(net))
            return e - best["epoch"] >= patience

        sgd_net(X_T, y_T, m, epochs=E_max, hook=epoch)
        g = best["net"]
        stale = 0 if best["score"] > top else stale + 1
        if best["score"] > top:
            kept, top = g, best["score"]
        P = probabilities(g, X_u)
        if d is None:
            trials = {}
            for j in range(n):
                A = throttled(queues[j], P, len(y_T))
                if A:
                    codes = np.concatenate([y_T, [P[x].argmax() for x in A]])
                    h = sgd_net(np.concatenate([X_T, X_u[A]]), codes, m, 1 + j, epochs=3)
                    trials[j] = score(h)
            d = max(trials, key=lambda j: (trials[j], j))
        sizes.append([len(queue) for queue in queues])
        source = next(j for j in [*range(d, -1, -1), *range(d + 1, n)] if queues[j])
        A = throttled(queues[source], P, len(y_T))
        if not A:
            break
        added.update({x: P[x].argmax() for x in A})
        X_T = np.concatenate([X_l[tr], X_u[sorted(added)]])
        y_T = np.concatenate([y[tr], [added[x] for x in sorted(added)]])
        U = [x for x in U if x not in A]
        if stale == 2:
            break
    return kept, d, sizes, len(y_T)


def test_equals_an_independent_implementation(moons):
    X, y, _ = moons
    labeled = y >= 0
    settings = {"threshold": 0.6, "patience": 5}
    clf = model(mlp_net(), max_iter=3, episode_epochs=8, **settings).fit(X, y)
    kept, d, sizes, n_train = reference(
        X[labeled], y[labeled], X[~labeled], fraction=0.1, n=6, E_max=8, M_max=3, **settings
    )
    assert clf.queue_sizes_.tolist() == sizes
    assert len({i for row in sizes for i, size in enumerate(row) if size}) >= 3
    assert clf.designated_queue_ == d
    last = clf.history_[-1]
    assert last["n_train"] + last["n_added"] == n_train > 34
    assert_same_weights(clf.estimators_[0], kept)


# -- the records -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"n_queues": 3},
        {"n_queues": 1, "balanced_batches": False, "threshold": 0.5},
    ],
    ids=str,
)
def test_history_is_consistent(moons, params):
    X, y, _ = moons
    clf = model(**{"max_iter": 3, "episode_patience": 9, **params}).fit(X, y)
    start, *episodes = json.loads(json.dumps(clf.history_))
    assert (start["iteration"], start["n_train"], start["pool_size"]) == (0, 32, 0)
    assert len(start["loss"]) == 3
    n_train, left = 32, 160
    for m, record in enumerate(episodes, start=1):
        assert record["iteration"] == m
        assert record["n_train"] == n_train
        assert record["pool_size"] == sum(record["queue_sizes"]) == left  # a partition
        assert record["queue_sizes"] == clf.queue_sizes_[m - 1].tolist()
        assert record["n_added"] == sum(record["pseudo_label_counts"].values())
        assert record["n_added"] <= max(1, int(0.1 * n_train))
        assert 1 <= record["best_epoch"] <= len(record["loss"]) == 4
        assert 0 <= record["validation_score"] <= 1
        assert record["queue_sizes"][record["source_queue"]] > 0
        assert {"episode", "labeling"} <= set(record["seconds"])
        compared = "queue_scores" in record
        assert not compared or params.get("n_queues") != 1
        assert not compared or m == 1
        if compared:
            best = max((score, int(j)) for j, score in record["queue_scores"].items())
            assert record["designated_queue"] == best[1]
        n_train, left = n_train + record["n_added"], left - record["n_added"]
    assert n_train > 32
    assert (clf.labeled_iter_ > 0).sum() == n_train - 32
    scores = [record["validation_score"] for record in clf.history_]
    assert clf.best_iter_ == int(np.argmax(scores))


def test_only_due_documents_are_labelled(moons, monkeypatch):
    X, y, _ = moons
    labelled, in_episode = [], [0.0, 1.0]

    def scripted(self, net, X):
        labelled.append(len(X))
        # the first two calls are those of the start: held-out rows and unlabelled ones
        return np.tile([0.0, 1.0] if len(labelled) <= 2 else in_episode, (len(X), 1))

    monkeypatch.setattr(SupervisedTrainer, "probabilities", scripted)
    # every document is always in agreement with the start, or never
    settings = {"threshold": 1.1, "episode_epochs": 8, "patience": 8}
    clf = model(**settings).fit(X, y)
    assert clf.queue_sizes_.tolist() == [[0, 0, 0, 0, 160, 0]]
    at_1_2_4_8 = [160, 8, 160, 8, 8, 160, 8, 8, 8, 8, 160, 8]
    assert labelled == [8, 160, *at_1_2_4_8, 160]
    labelled.clear()
    in_episode[:] = [1.0, 0.0]
    clf = model(**settings).fit(X, y)
    assert clf.queue_sizes_.tolist() == [[160, 0, 0, 0, 0, 0]]
    assert labelled == [8, 160] + [160, 8] * 8 + [160]


# -- choices -----------------------------------------------------------------------------------
def test_the_best_epoch_is_kept(moons, scores):
    X, y, _ = moons
    # start, then epochs 1 to 6; no queue has anything to give
    scores[:] = [0.1, 0.2, 0.9, 0.5, 0.9, 0.8]
    clf = model(episode_epochs=8, threshold=1.1, patience=3).fit(X, y)
    assert clf.history_[1]["best_epoch"] == 2  # the earlier of two
    assert len(clf.history_[1]["loss"]) == 5
    assert clf.best_iter_ == 1
    kept = clf.estimators_[0].module_.state_dict()
    nets = []

    def keep(net, epoch):
        nets.append(copy.deepcopy(net.module_.state_dict()))
        return False

    train, _, _ = validation_split(y[:40], 0.2, np.random.default_rng(derive_seed(0, 0, 1)))
    trainer = SupervisedTrainer(clf, clf.estimator, clf.classes_, "")
    trainer.train(X[train], y[train], 1, epochs=8, on_epoch=keep)
    assert torch.equal(kept["last.weight"], nets[1]["last.weight"])
    assert not torch.equal(kept["last.weight"], nets[4]["last.weight"])


def test_without_a_better_score_the_start_is_kept_and_the_fit_ends(moons, scores):
    X, y, _ = moons
    scores[:] = [0.5]
    clf = model(max_iter=9, episode_patience=3, n_queues=1, threshold=0.0).fit(X, y)
    assert clf.termination_condition_ == "no_improvement"
    assert clf.n_iter_ == 3
    assert clf.best_iter_ == 0
    assert [record["best_epoch"] for record in clf.history_[1:]] == [1, 1, 1]
    train, _, _ = validation_split(y[:40], 0.2, np.random.default_rng(derive_seed(0, 0, 1)))
    trainer = SupervisedTrainer(clf, clf.estimator, clf.classes_, "")
    start, _ = trainer.train(X[train], y[train], 0)
    np.testing.assert_array_equal(start.forward(X).numpy(), clf.estimators_[0].forward(X).numpy())


def test_equal_scores_designate_the_highest_queue(moons, scores):
    X, y, _ = moons
    scores[:] = [0.5]
    clf = model(threshold=0.0).fit(X, y)
    occupied = np.flatnonzero(clf.queue_sizes_[0])
    assert len(occupied) > 1
    assert clf.history_[1]["queue_scores"] == {str(j): 0.5 for j in occupied}
    assert clf.designated_queue_ == occupied[-1]


def test_an_empty_designated_queue_has_a_substitute(moons, scores):
    X, y, _ = moons
    # four better epochs fill queue 3 and equal scores designate it; then two epochs are too few
    scores[:] = [0.1, 0.2, 0.3, 0.4, 0.5]
    clf = model(max_iter=2, patience=1, threshold=0.0).fit(X, y)
    assert clf.designated_queue_ == clf.history_[1]["source_queue"] == 3
    assert len(clf.history_[2]["loss"]) == 2
    assert clf.queue_sizes_[1, 3] == 0
    assert clf.history_[2]["designated_queue"] == 3
    assert clf.history_[2]["source_queue"] == np.flatnonzero(clf.queue_sizes_[1])[-1]
    assert "queue_scores" not in clf.history_[2]


def test_the_fit_ends_without_confident_documents(moons):
    X, y, _ = moons
    clf = model(threshold=1.01).fit(X, y)
    assert clf.termination_condition_ == "no_change"
    assert clf.n_iter_ == 1
    assert (clf.transduction_[40:] == -1).all()
    assert (clf.labeled_iter_[40:] == -1).all()


def test_the_fit_ends_if_all_documents_are_labelled(moons):
    X, y, _ = moons
    clf = model(threshold=0.0, max_fraction=9.0, n_queues=1, episode_patience=9).fit(X, y)
    assert clf.termination_condition_ == "all_labeled"
    assert clf.n_iter_ == 1
    assert (clf.labeled_iter_[40:] == 1).all()
    assert set(clf.transduction_) == {0, 1}


def test_pos_label_selects_the_class_of_the_f1_score(moons):
    X, y, _ = moons
    scores = {
        pos: model(max_iter=1, pos_label=pos).fit(X, y).history_[0]["validation_score"]
        for pos in (None, 0, 1)
    }
    assert scores[None] == scores[1] != scores[0]


# -- limits ------------------------------------------------------------------------------------
def test_without_episodes_there_is_no_queue(moons):
    X, y, _ = moons
    clf = model(max_iter=0).fit(X, y)
    assert (clf.n_iter_, clf.best_iter_, clf.termination_condition_) == (0, 0, "max_iter")
    assert clf.designated_queue_ is None
    assert clf.queue_sizes_.shape == (0, 6)


def test_a_class_with_one_row_is_never_held_out(moons):
    X, y, _ = moons
    ones = np.flatnonzero(y == 1)
    few = y.copy()
    few[ones[1:]] = -1
    with pytest.warns(UserWarning, match="cannot be held out by class") as record:
        clf = model(max_iter=1).fit(X, few)
    assert [w.filename for w in record] == [__file__]
    assert "validation_score" in clf.history_[1]
    assert clf.history_[1]["n_train"] < (few >= 0).sum()


def test_one_episode_is_run_if_no_row_can_be_held_out(moons):
    X, y, _ = moons
    two = np.where(np.isin(np.arange(200), [np.argmax(y == 0), np.argmax(y == 1)]), y, -1)
    with pytest.warns(UserWarning, match="no labelled row can be held out") as record:
        clf = model(max_iter=9, threshold=0.0, episode_patience=1).fit(X, two)
    assert [w.filename for w in record] == [__file__]
    assert clf.n_iter_ == clf.best_iter_ == 1
    assert clf.termination_condition_ == "max_iter"
    episode = clf.history_[1]
    assert episode["best_epoch"] == len(episode["loss"]) == 4  # the last one
    assert "validation_score" not in episode
    assert clf.designated_queue_ == np.flatnonzero(clf.queue_sizes_[0])[-1]
    rows = np.flatnonzero(clf.labeled_iter_ >= 0)
    assert len(rows) == 3
    trainer = SupervisedTrainer(clf, clf.estimator, clf.classes_, "")
    rows = rows[np.argsort(clf.labeled_iter_[rows], kind="stable")]
    net, _ = trainer.train(X[rows], clf.transduction_[rows].astype(np.int64), 0)
    np.testing.assert_array_equal(net.forward(X), clf.estimators_[0].forward(X))
    assert "refit" in episode["seconds"]


# -- weights -----------------------------------------------------------------------------------
def test_rows_of_weight_zero_do_not_validate(moons):
    X, y, _ = moons
    w = np.ones(len(y))
    w[:10] = 0
    clf = model(validation_fraction=0.4).fit(X, y, sample_weight=w)
    assert clf.history_[1]["n_train"] == 40 - 12  # two fifths of thirty are held out
