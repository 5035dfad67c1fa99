"""Self-Pretraining against an independent implementation, and what the fit leaves behind."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import MLP, bert_net, learner, mlp_net, points
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sklearn_spt
from sklearn_spt import FOUR_STUDENTS, SoftSelfTrainingClassifier, paper_classifier
from sklearn_spt._random import derive_seed
from sklearn_spt._training import epoch_rows

X, Y, CODES = points()


# -- an independent implementation -----------------------------------------------------------------
def logits(net, X):
    with torch.no_grad():
        return net(torch.from_numpy(X)).double().numpy()


def reference(X, y, weights, K, *, lam, alpha, T, k, E1, E2, teachers, students, R=0.1, B=8):
    """Algorithm 1 with separate loops, losses, learning rates and gradient descent.

    It shares the seeds and draws with the package alone, so that both see the same rows.
    """
    X_l, X_u, y = X[y >= 0], X[y < 0], y[y >= 0]
    w = weights[: len(y)] / weights[: len(y)].mean()
    per_epoch = [-(-n // B) for n in range(len(X) + 1)]

    def fresh(path):
        torch.manual_seed(derive_seed(0, *path))
        return MLP(2, K)

    def descend(net, X, codes, loss, rates, rng, epochs):
        rates = iter(rates)
        for _ in range(epochs):
            rows = epoch_rows(codes, True, rng)
            for start in range(0, len(rows), B):
                batch = rows[start : start + B]
                net.zero_grad()
                loss(net(torch.from_numpy(X[batch])), batch).mean().backward()
                rate = next(rates)
                with torch.no_grad():
                    for p in net.parameters():
                        p -= rate * p.grad
        assert next(rates, None) is None

    def cross_entropy(z, targets, T=1.0):
        return -(torch.from_numpy(targets).float() * torch.log_softmax(z / T, dim=1)).sum(1)

    def path(t, i):
        return (t,) if i == 0 else (t, 5, i)

    hard, n_L = w[:, None] * np.eye(K)[y], E2 * per_epoch[len(y)]
    falling = [R * (1 - step / n_L) for step in range(n_L)]
    nets = []
    for i in range(teachers):
        nets.append(fresh(path(0, i)))
        rng = np.random.default_rng(derive_seed(0, *path(0, i)))
        descend(nets[i], X_l, y, lambda z, r: cross_entropy(z, hard[r]), falling, rng, E2)
    first, state, t, size = nets, {}, 0, 0
    while size < len(X_u):
        t, size, before = t + 1, min(size + k, len(X_u)), nets
        rng = np.random.default_rng(derive_seed(0, t, 1))
        rows = rng.choice(len(X_u), size=size, replace=False)
        P, q = (
            np.mean([softmax(logits(net, part) / T, axis=1) for net in nets], axis=0)
            for part in (X_u[rows], X_l)
        )
        group = (P[:, 1] >= 0.5).astype(int) if K == 2 else P.argmax(axis=1)
        moved = P.copy()
        for c in range(K):
            inside = group == c
            if not inside.any():
                continue
            d = P[inside, c]
            mean, variance = d.mean(), d.var() + 1e-6
            if c in state:
                new = alpha * state[c][0] + (1 - alpha) * mean
                new_variance = alpha * state[c][1] + (1 - alpha) * variance
                d = np.clip((d - mean) * np.sqrt(new_variance / variance) + new, 0, 1)
                moved[inside] *= ((1 - d) / (1 - P[inside, c]))[:, None]
                moved[inside, c], mean, variance = d, new, new_variance
            state[c] = mean, variance
        codes = (moved[:, 1] >= 0.5).astype(int) if K == 2 else moved.argmax(axis=1)
        nets = []
        for i in range(students):
            net, rng = fresh(path(t, i)), np.random.default_rng(derive_seed(0, *path(t, i), 2))

            def stage_1(z, r, P=moved):
                return T**2 * cross_entropy(z, P[r], T)

            def stage_2(z, r, q=w[:, None] * q):
                return (1 - lam) * cross_entropy(z, hard[r]) + lam * T**2 * cross_entropy(
                    z, q[r], T
                )

            descend(net, X_u[rows], codes, stage_1, [R] * E1 * per_epoch[size], rng, E1)
            descend(net, X_l, y, stage_2, falling, rng, E2)
            nets.append(net)
    return first, before, nets, rows, codes


@pytest.mark.parametrize(
    ("K", "T", "nets", "settings"),
    [
        (2, 3.0, (1, 1), {"lam": 0.3, "alpha": 0.4}),
        (3, 1.0, (2, 1), {"lam": 0.9, "alpha": 0.1}),
        (4, 2.0, (1, 2), {"lam": 0.0, "alpha": 0.8}),
    ],
)
def test_equals_an_independent_implementation(K, T, nets, settings):
    X, y, _ = points(K)
    order = np.argsort(y < 0, kind="stable")
    X, y, weights = X[order], y[order], np.linspace(0.5, 2, len(y))
    counts = {"n_teachers": nets[0], "n_students": nets[1]}
    clf = learner(temperature=T, step_size=25, pretrain_epochs=2, logit_adjustment=0.0)
    clf.set_params(**settings, **counts).fit(X, y, sample_weight=weights)
    first, before, students, rows, codes = reference(
        X, y, weights, K, T=T, k=25, E1=2, E2=3, teachers=nets[0], students=nets[1], **settings
    )
    assert clf.sample_sizes_ == [25, 50, 62]
    for ours, theirs in zip(clf.estimators_, [*first, *before, *students], strict=True):
        for name, weight in theirs.state_dict().items():
            found = ours.module_.state_dict()[name]
            torch.testing.assert_close(found, weight, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(clf.transduction_[28:][rows], codes)
    P = [softmax(logits(net, X), axis=1) for net in [*first, *before, *students]]
    shares = [1 / len(first)] * len(first) + [1] * (len(before) + len(students))
    expected = np.average(P, axis=0, weights=shares)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-4)


# -- what follows from the algorithm ---------------------------------------------------------------
def weights_of(net):
    return torch.cat([weight.detach().flatten() for weight in net.module_.parameters()])


def test_the_ensemble_changes_no_net():
    names = ("all", "last_two", "last")
    every, last_two, last = (learner(ensemble=e, n_teachers=2).fit(X, Y) for e in names)
    nets = [weights_of(net) for net in every.estimators_]
    assert len(nets) == 2 + 1 + 1
    for net, expected in zip(last_two.estimators_, nets[2:], strict=True):
        assert torch.equal(weights_of(net), expected)
    assert torch.equal(weights_of(last.estimators_[0]), nets[3])
    np.testing.assert_array_equal(every.transduction_, last.transduction_)
    for clf in (every, last_two, last):
        assert clf.students_ == clf.estimators_[-1:]
    one_iteration = learner(ensemble="last_two", n_teachers=2, step_size=1.0).fit(X, Y)
    assert len(one_iteration.estimators_) == 3


def test_random_states():
    first, again = (
        learner(random_state=np.random.RandomState(3)).fit(X, Y).predict_proba(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    for state in (None, np.random.RandomState(3)):  # a generator moves on, as in scikit-learn
        drawn = learner(random_state=state, max_iter=1)
        one, other = (drawn.fit(X, Y).predict_proba(X) for _ in range(2))
        assert not np.array_equal(one, other), state
    net = mlp_net()
    net.random_state = 5  # the net's own seed has no effect
    P = learner().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(learner(net).fit(X, Y).predict_proba(X), P)


# -- fitted attributes -----------------------------------------------------------------------------
def test_history_and_transduction():
    X, y, _ = points(3)
    names = np.array(["a", "b", "c"])
    clf = learner(step_size=25, unlabeled_marker="?", n_students=2, max_iter=2)
    clf.fit(X, np.where(y < 0, "?", names[y]))
    start, first, second = json.loads(json.dumps(clf.history_))
    assert (start["iteration"], start["sample_size"]) == (0, 0)
    assert len(start["loss"]["supervised"]) == 3
    for entry, size in ((first, 25), (second, 50)):
        assert entry["sample_size"] == size == sum(entry["pseudo_label_counts"].values())
        assert set(entry["pseudo_label_counts"]) == {"a", "b", "c"}
        assert (len(entry["loss"]["stage1"]), len(entry["loss"]["stage2"])) == (1, 3)
        assert sum(group["count"] for group in entry["groups"].values()) == size
        assert entry["seconds"] > 0
    assert first["changed"] is None
    assert 0 <= second["changed"] <= 1
    assert pd.DataFrame(clf.history_)["sample_size"].tolist() == [0, 25, 50]
    given = y >= 0
    assert (clf.transduction_[given] == names[y[given]]).all()
    assert ((clf.transduction_ == "?") == (clf.labeled_iter_ == -1)).all()
    assert (clf.labeled_iter_ == 2).sum() == 50
    assert clf.n_iter_ == 2
    counts = pd.Series(clf.transduction_[clf.labeled_iter_ == 2]).value_counts()
    assert counts.to_dict() == {k: v for k, v in second["pseudo_label_counts"].items() if v}
    np.testing.assert_allclose(clf.class_shares_, np.bincount(y[given]) / given.sum())


def test_logit_adjustment():
    X, y, codes = points(2, n=400)
    rare = (codes == 0) | (np.arange(400) % 8 == 1)  # all of class 0, a quarter of class 1
    X, y = X[rare], y[rare]
    plain, seen = learner(logit_adjustment=0.0).fit(X, y), []
    auto = learner(on_iteration=lambda at: seen.append(at.predict_proba(X))).fit(X, y)
    assert (plain.logit_adjustment_, auto.logit_adjustment_ > 0) == (0.0, True)
    assert auto.logit_adjustment_ <= 0.5
    P = plain.predict_proba(X) * auto.class_shares_**auto.logit_adjustment_
    np.testing.assert_allclose(auto.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(auto.predict_proba(X), seen[-1])
    assert auto.predict(X).mean() < plain.predict(X).mean()
    shuffled = learner(balanced_batches=False, max_iter=0).fit(X, y)
    few = learner(max_iter=0).fit(X[:60], y[:60])
    assert (y[:60] < 0).sum() < 50
    assert (shuffled.logit_adjustment_, few.logit_adjustment_) == (0.0, 0.0)


def stop(iteration):
    raise InterruptedError


MANY = "step_size=1 makes 140 iterations; an int is a number of documents and a float is a share"


@pytest.mark.parametrize(
    "case", ["no unlabelled row", "as many rows", f"{MANY} of them: 1.0 makes one"]
)
def test_a_warning_points_to_the_call_of_fit(case):
    X, y, _ = points(2, n=200)
    clf, more = learner(on_iteration=stop), None
    if case == "no unlabelled row":
        X, y = X[y >= 0], y[y >= 0]
    elif case == "as many rows":
        more = X
    else:
        clf.set_params(step_size=1)
    own = f"{Path(sklearn_spt.__file__).parent}_of_mine.py"  # beside the package, not in it
    call = compile("clf.fit(X, y, X_unlabeled=more)", own, "exec")
    with pytest.raises(InterruptedError), pytest.warns(UserWarning, match=case) as caught:
        exec(call, {"clf": clf, "X": X, "y": y, "more": more})
    (one,) = [warning for warning in caught if case in str(warning.message)]
    assert one.filename == own


def test_named_settings():
    clf = learner(**{**FOUR_STUDENTS, "token_deletion": 0.0}).fit(X, Y)
    assert (len(clf.estimators_), clf.n_iter_) == (9, 1)
    assert paper_classifier().estimator.pretrained == "bert-base-uncased"
    clf = paper_classifier(estimator=mlp_net(), random_state=0).fit(X, Y)
    assert (len(clf.estimators_), clf.n_iter_) == (2, 5)
    with pytest.raises(NotFittedError):
        learner().predict(X)


# -- teachers --------------------------------------------------------------------------------------
class LabeledRows(ClassifierMixin, BaseEstimator):
    """Learns from labelled rows only."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        rows = np.flatnonzero(y >= 0)
        self.classes_ = np.unique(y[rows])
        self.model.fit(X[rows], y[rows])
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)


def test_teachers_are_needed_for_unlabeled_rows_alone():
    forest = RandomForestClassifier(5, random_state=0)
    clf = learner(teacher=LabeledRows(forest), max_iter=0).fit(X, Y)
    alone = learner(max_iter=0).fit(X, Y)
    np.testing.assert_array_equal(clf.predict_proba(X), alone.predict_proba(X))
    with pytest.raises(ValueError, match=r"classes \[-1, 0, 1\], .* fit it on the labelled rows"):
        learner(teacher=forest).fit(X, Y)  # it takes -1 for a class


@pytest.mark.parametrize("scaled", [False, True])
def test_rows_of_weight_zero_teach_no_teacher(scaled):
    teacher = SoftSelfTrainingClassifier()
    teacher = make_pipeline(StandardScaler(), teacher) if scaled else teacher
    model = learner(teacher=teacher, step_size=1.0)
    expected = model.fit(X, Y).transduction_[Y < 0]
    known = Y >= 0
    more, labels = np.concatenate([X, X[known]]), np.append(Y, 1 - CODES[known])
    weights = np.append(np.ones(len(X)), np.zeros(known.sum()))
    found = model.fit(more, labels, sample_weight=weights).transduction_[: len(X)][Y < 0]
    assert np.mean(found == expected) > 0.95
    ignored = model.fit(more, labels).transduction_[: len(X)][Y < 0]
    assert np.mean(ignored == expected) < 0.9


def test_whole_numbers_are_floats_to_a_net_that_was_fitted_on_floats():
    class Plain(MLP):
        def forward(self, x):
            return self.last(torch.relu(self.first(x)))

    whole = [[0, 1], [1, 0], [2, 1]] * 2
    clf = learner(mlp_net(Plain)).fit(X, Y, X_unlabeled=whole)
    np.testing.assert_array_equal(clf.predict([[0, 1]]), clf.predict([[0.0, 1.0]]))
    clf.fit(whole, [0, 1, -1] * 2, X_unlabeled=X)
    np.testing.assert_array_equal(clf.predict([[0, 1]]), clf.predict([[0.0, 1.0]]))


def test_the_seed_of_the_ids_is_that_of_the_texts(tiny_encoder, tiny_texts):
    """Token deletion does not depend on the width of the matrix of token ids."""
    from sklearn_spt import TokenIdVectorizer

    y = np.array([1, 0] * 6 + [-1] * 12)
    ids = TokenIdVectorizer(tiny_encoder, max_length=24).transform(tiny_texts)
    model = learner(bert_net(tiny_encoder), token_deletion=0.3, max_iter=1, finetune_epochs=3)
    expected = model.fit(tiny_texts, y).predict_proba(tiny_texts)
    np.testing.assert_allclose(model.fit(ids, y).predict_proba(ids), expected, atol=1e-5)
    plain = learner(bert_net(tiny_encoder), max_iter=1, finetune_epochs=3).fit(tiny_texts, y)
    assert abs(plain.predict_proba(tiny_texts) - expected).max() > 1e-3
