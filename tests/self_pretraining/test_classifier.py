"""The classifier: an independent implementation, limits, fitted attributes, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.nets import MLP, NaNMLP, SoftmaxMLP, mlp_net
from helpers.sgd import partial_moons
from helpers.variants import variant
from joblib import Parallel, delayed
from scipy.special import softmax
from sklearn.exceptions import NotFittedError
from skorch import NeuralNet, NeuralNetClassifier
from skorch.callbacks import LRScheduler
from torch import nn

from sklearn_spt import (
    BertClassifier,
    DistillationLoss,
    RightTrapezoidalLR,
    SelfPretrainingClassifier,
)
from sklearn_spt._random import class_balanced_draws, derive_seed, draw_sample


@pytest.fixture(scope="module")
def moons():
    """200 rows, 20 of them labelled, and the true labels."""
    return partial_moons(200, 20, 0.1)


def model(net=None, **params):
    settings = {"pretrain_epochs": 2, "finetune_epochs": 4, "random_state": 0, **params}
    return variant(mlp_net() if net is None else net, **settings)


# -- an independent implementation -------------------------------------------------------------
def reference(X_l, y, X_u, *, seed, lam, alpha, T, k, E1, E2, R, B):
    """Run Algorithm 1 with separate loops, losses, learning rates and plain SGD.

    It shares only the random draws with the package, so that both see the same rows.
    """
    K = 2
    hard = np.eye(K)[y]

    def fit(module, X, codes, loss, lrs, rng, epochs):
        step = iter(lrs)
        for _ in range(epochs):
            rows = class_balanced_draws(codes, rng)
            for start in range(0, len(rows), B):
                batch = rows[start : start + B]
                module.zero_grad()
                z = module(torch.from_numpy(X[batch]))
                loss(z, batch).mean().backward()
                lr = next(step)
                with torch.no_grad():
                    for p in module.parameters():
                        p -= lr * p.grad
        assert next(step, None) is None

    def fresh(t):
        torch.manual_seed(derive_seed(seed, t))
        return MLP()

    def logits(module, X):
        with torch.no_grad():
            return module(torch.from_numpy(X)).double().numpy()

    def ce(z, target, temperature):
        target = torch.from_numpy(target).float()
        return -(target * torch.log_softmax(z / temperature, dim=1)).sum(1)

    def per_epoch(n):
        return -(-n // B)

    M1 = fresh(0)
    S_0 = E2 * per_epoch(len(y))
    start_rng = np.random.default_rng(derive_seed(seed, 0))
    falling = [R * (1 - s / S_0) for s in range(S_0)]
    fit(M1, X_l, y, lambda z, rows: ce(z, hard[rows], 1), falling, start_rng, E2)
    state, size, t, sizes = {}, k, 0, []
    while True:
        t += 1
        M2 = M1
        size = min(size, len(X_u))
        sizes.append(size)
        rows_C = draw_sample(len(X_u), size, np.random.default_rng(derive_seed(seed, t, 1)))
        C = X_u[rows_C]
        P = softmax(logits(M2, C) / T, axis=1)
        q = softmax(logits(M2, X_l) / T, axis=1)
        group = (P[:, 1] >= 0.5).astype(int)
        moved = P.copy()
        for c in range(K):
            d = P[group == c, c]
            mean, variance = d.mean(), d.var() + 1e-6
            if c in state:
                new_mean = alpha * state[c][0] + (1 - alpha) * mean
                new_variance = alpha * state[c][1] + (1 - alpha) * variance
                d = (d - mean) / np.sqrt(variance) * np.sqrt(new_variance) + new_mean
                d = np.clip(d, 0, 1)
                moved[group == c, c] = d
                moved[group == c, 1 - c] = 1 - d
                state[c] = new_mean, new_variance
            else:
                state[c] = mean, variance
        codes_C = (moved[:, 1] >= 0.5).astype(int)
        M1 = fresh(t)
        rates_C = [R] * E1 * per_epoch(size)
        rng = np.random.default_rng(derive_seed(seed, t, 2))

        def mixed(z, rows, q=q):
            return (1 - lam) * ce(z, hard[rows], 1) + lam * T**2 * ce(z, q[rows], T)

        fit(M1, C, codes_C, lambda z, rows, P=moved: T**2 * ce(z, P[rows], T), rates_C, rng, E1)
        fit(M1, X_l, y, mixed, falling, rng, E2)
        if size >= len(X_u):
            return M1, M2, sizes, moved, rows_C
        size += k


def test_equals_an_independent_implementation(moons):
    X, y, _ = moons
    labeled = y >= 0
    settings = {"lam": 0.3, "alpha": 0.4}
    clf = model(step_size=70, temperature=3.0, ensemble="last_two", **settings).fit(X, y)
    params = {"seed": 0, "T": 3.0, "k": 70, "E1": 2, "E2": 4, "R": 0.1, "B": 8, **settings}
    M1, M2, sizes, moved, rows = reference(X[labeled], y[labeled], X[~labeled], **params)
    assert clf.sample_sizes_ == sizes == [70, 140, 180]
    M_teacher, M_student = clf.estimators_
    assert clf.students_ == [M_student]
    for ours, theirs in ((M_student, M1), (M_teacher, M2)):
        for name, weight in theirs.state_dict().items():
            torch.testing.assert_close(
                ours.module_.state_dict()[name], weight, rtol=1e-4, atol=1e-5
            )
    pseudo = np.empty(len(rows), dtype=int)
    pseudo[rows] = (moved[:, 1] >= 0.5).astype(int)
    np.testing.assert_array_equal(clf.transduction_[~labeled], pseudo)
    with torch.no_grad():
        mean = sum(softmax(m(torch.from_numpy(X)).double().numpy(), axis=1) for m in (M1, M2)) / 2
    np.testing.assert_allclose(clf.predict_proba(X), mean, atol=1e-4)


def test_the_prediction_is_the_mean_of_probabilities(moons):
    X, y, _ = moons
    clf, two = (model(ensemble=which).fit(X, y) for which in ("with_start", "last_two"))
    start = model(max_iter=0).fit(X, y)
    assert start.estimators_ == start.students_
    P = [softmax(net.forward(X).double().numpy(), axis=1) for net in clf.estimators_]
    np.testing.assert_allclose(P[0], start.predict_proba(X), atol=1e-7)
    assert clf.estimators_[2:] == clf.students_
    np.testing.assert_allclose(clf.predict_proba(X), sum(P) / 3, atol=1e-7)
    assert two.estimators_[1:] == two.students_
    np.testing.assert_array_equal(clf.transduction_, two.transduction_)
    np.testing.assert_allclose((P[1] + P[2]) / 2, two.predict_proba(X), atol=1e-7)


# -- fitted attributes -------------------------------------------------------------------------
def test_fitted_attributes(moons):
    X, y, _ = moons
    clf = model().fit(X, y)
    assert clf.sample_sizes_ == [36, 72, 108, 144, 180]
    assert clf.n_iter_ == 5
    assert clf.termination_condition_ == "all_labeled"
    assert clf.n_features_in_ == 2
    assert clf.estimators_[2:] == clf.students_
    assert len({id(net) for net in clf.estimators_}) == 3
    np.testing.assert_array_equal(clf.classes_, [0, 1])
    np.testing.assert_array_equal(clf.transduction_[:20], y[:20])
    assert set(clf.transduction_) == {0, 1}
    np.testing.assert_array_equal(clf.labeled_iter_, [0] * 20 + [5] * 180)
    np.testing.assert_array_equal(clf.students_[0].classes_, [0, 1])
    assert clf.n_threads_ == torch.get_num_threads()


def test_history_is_complete_and_plain(moons):
    X, y, _ = moons
    clf = model(step_size=90).fit(X, y)
    start, first, second = json.loads(json.dumps(clf.history_))
    assert start["iteration"] == start["sample_size"] == 0
    assert len(start["loss"]["supervised"]) == 4
    assert set(start["seconds"]) == {"supervised"}
    for record, size in ((first, 90), (second, 180)):
        assert record["sample_size"] == size
        assert sum(record["pseudo_label_counts"].values()) == size
        assert len(record["loss"]["stage1"]) == 2
        assert len(record["loss"]["stage2"]) == 4
        assert set(record["seconds"]) == {"labeling", "stage1", "stage2"}
        assert sum(g["count"] for g in record["groups_before"].values()) == size
        assert set(record["groups_before"]["0"]) == {"count", "mean", "variance"}
    assert first["groups_before"] == first["groups_after"]  # inertia needs an earlier iteration
    assert second["groups_before"] != second["groups_after"]


def test_rows_never_drawn_keep_the_marker(moons):
    X, y, _ = moons
    clf = model(step_size=50, max_iter=2).fit(X, y)
    assert clf.termination_condition_ == "max_iter"
    never = clf.labeled_iter_ == -1
    assert never.any()
    assert (clf.transduction_[never] == -1).all()
    assert (clf.labeled_iter_ == 2).sum() == 100


@pytest.mark.parametrize(
    ("names", "marker", "kind"),
    [
        (["ham", "spam"], "unknown", "U"),
        (["ham", "spam"], None, "O"),
        (["ham", "spam"], -1, "O"),
        ([3, 7], -1, "i"),
        ([0.0, 1.0], -1, "f"),
        ([0, 1], None, "O"),
        ([False, True], -1, "O"),
    ],
)
def test_any_labels_and_markers(moons, names, marker, kind):
    X, y, _ = moons
    labels = [marker if code < 0 else names[code] for code in y]
    clf = model(step_size=50, max_iter=1, alpha=0.0, unlabeled_marker=marker).fit(X, labels)
    assert clf.classes_.tolist() == names
    assert set(clf.predict(X).tolist()) <= set(names)
    assert clf.transduction_.dtype.kind == kind
    assert clf.transduction_[:20].tolist() == labels[:20]
    assert (clf.transduction_[clf.labeled_iter_ == -1] == np.array(marker)).all()


def test_x_unlabeled_joins_the_marked_rows(moons):
    X, y, _ = moons
    whole = model().fit(X, y)
    parted = model().fit(X[:60], y[:60], X_unlabeled=X[60:])
    np.testing.assert_array_equal(whole.predict_proba(X), parted.predict_proba(X))
    np.testing.assert_array_equal(whole.transduction_, parted.transduction_)
    alone = model().fit(X[:20], y[:20], X_unlabeled=X[20:])
    np.testing.assert_array_equal(whole.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        (np.zeros((3, 5)), ValueError, "X_unlabeled cannot be used: X has 5 features"),
        (np.full((3, 2), np.nan), ValueError, "X_unlabeled.*NaN"),
        ((row for row in range(3)), TypeError, "X_unlabeled must be a list.*got a generator"),
        ({"a": np.zeros((3, 2))}, ValueError, "X_unlabeled is not of the same kind as X"),
        (np.zeros((3, 2, 2)), ValueError, "X_unlabeled is not of the same kind|X_unlabeled cannot"),
    ],
)
def test_bad_x_unlabeled(moons, more, error, match):
    X, y, _ = moons
    clf = model()
    with pytest.raises(error, match=match):
        clf.fit(X, y, X_unlabeled=more)
    assert_unfitted(clf)


# -- limits ------------------------------------------------------------------------------------
def test_no_unlabelled_rows_is_supervised(moons):
    X, y, _ = moons
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = model().fit(X[:20], y[:20])
    assert clf.n_iter_ == 0
    assert clf.sample_sizes_ == []
    assert clf.termination_condition_ == "no_unlabeled"
    assert clf.estimators_ == clf.students_
    zero = model(max_iter=0).fit(X, y)
    assert zero.termination_condition_ == "max_iter"
    np.testing.assert_array_equal(clf.predict_proba(X), zero.predict_proba(X))


def test_first_teacher_is_the_baseline(tiny_encoder, tiny_texts):
    texts = list(tiny_texts) * 4
    y = np.arange(len(texts)) % 2
    net = BertClassifier(tiny_encoder, max_length=16, max_epochs=3)
    baseline = BertClassifier(tiny_encoder, max_length=16, max_epochs=3, random_state=5)
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = SelfPretrainingClassifier(net, random_state=5).fit(texts, y)
    baseline.fit(texts, y)
    np.testing.assert_array_equal(clf.predict_proba(texts), baseline.predict_proba(texts))


# -- parameters --------------------------------------------------------------------------------
def test_weights_of_unlabelled_rows_and_the_scale_of_weights_have_no_effect(moons):
    X, y, _ = moons
    w = np.linspace(1, 2, len(y))
    one = model().fit(X, y, sample_weight=w).predict_proba(X)
    other = model().fit(X, y, sample_weight=np.where(y < 0, np.nan, 2 * w)).predict_proba(X)
    np.testing.assert_allclose(one, other, rtol=1e-5)
    none = model().fit(X, y).predict_proba(X)
    even = model().fit(X, y, sample_weight=np.full(len(y), 3.0)).predict_proba(X)
    np.testing.assert_array_equal(none, even)
    assert np.abs(one - none).max() > 1e-6


def test_fits_in_threads_equal_serial_fits(moons, global_random_state_unchanged):
    X, y, _ = moons

    def proba(seed):
        return model(random_state=seed, max_iter=2).fit(X, y).predict_proba(X)

    serial = [proba(seed) for seed in range(3)]
    threaded = Parallel(n_jobs=3, backend="threading")(delayed(proba)(seed) for seed in range(3))
    np.testing.assert_array_equal(serial, threaded)


def test_silent_without_verbose(moons, capfd):
    X, y, _ = moons
    model(mlp_net(verbose=1)).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_the_template_stays_unfitted(moons):
    X, y, _ = moons
    net = mlp_net()
    model(net).fit(X, y)
    assert not net.initialized_
    assert net.train_split is not None
    assert net.criterion is nn.NLLLoss


# -- bad input ---------------------------------------------------------------------------------
def assert_unfitted(clf):
    fitted = [name for name in vars(clf) if name.endswith("_") and not name.startswith("_")]
    assert fitted == []
    with pytest.raises(NotFittedError):
        clf.predict(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"lam": 1.2}, ValueError, r"lam must lie in \[0, 1\], got 1.2"),
        ({"lam": "0.3"}, TypeError, "lam must be a number"),
        ({"alpha": 2}, ValueError, r"alpha must lie in \[0, 1\]"),
        ({"alpha": float("nan")}, ValueError, "alpha must lie"),
        ({"temperature": 0}, ValueError, r"temperature must lie in \[0.01, 100\]"),
        ({"step_size": 0}, ValueError, "step_size as an int must be at least 1"),
        ({"step_size": 1.5}, ValueError, "step_size as a float must be a share"),
        ({"step_size": True}, TypeError, "step_size"),
        ({"max_iter": -1}, ValueError, "max_iter must be at least 0"),
        ({"max_iter": 1.0}, TypeError, "max_iter must be an integer"),
        ({"pretrain_epochs": -1}, ValueError, "pretrain_epochs must be at least 0"),
        ({"token_deletion": 1.0}, ValueError, r"token_deletion must lie in \[0, 1\), got 1.0"),
        ({"token_deletion": "0.2"}, TypeError, "token_deletion must be a number"),
        (
            {"token_deletion": 0.2, "step_size": 1.0},  # before the warning about alpha
            ValueError,
            "token_deletion=0.2 needs a net that reads token ids, such as BertClassifier, but "
            "estimator is a NeuralNet.*; set token_deletion=0",
        ),
        ({"finetune_epochs": 0.5}, TypeError, "finetune_epochs must be an integer"),
        (
            {"ensemble": "all"},
            ValueError,
            "ensemble must be one of 'last', 'last_two', 'with_start'",
        ),
        ({"on_iteration": 3}, TypeError, "on_iteration must be callable"),
        ({"verbose": "loud"}, ValueError, "verbose must be True, False or"),
        ({"random_state": "a"}, ValueError, "random_state must be"),
        ({"unlabeled_marker": [1]}, TypeError, "unlabeled_marker must be"),
    ],
)
def test_bad_parameters(moons, params, error, match):
    X, y, _ = moons
    clf = model(**params)
    with pytest.raises(error, match=match):
        clf.fit(X, y)
    assert_unfitted(clf)


def reward(*args):
    return torch.tensor(0.0)


@pytest.mark.parametrize(
    ("net", "error", "match"),
    [
        (NeuralNetClassifier, TypeError, "estimator must be .* not its class; got NeuralNetClas"),
        (3, TypeError, "estimator must be None, the name of an encoder, or an unfitted skorch"),
        (mlp_net(criterion=nn.MSELoss), ValueError, "custom criterion, MSELoss"),
        (
            mlp_net(criterion=nn.CrossEntropyLoss, criterion__label_smoothing=0.1),
            ValueError,
            "custom criterion, CrossEntropyLoss with criterion__label_smoothing",
        ),
        (mlp_net(callbacks=[("lr", LRScheduler)]), ValueError, "schedule of its own, LRScheduler"),
        (mlp_net(callbacks=[RightTrapezoidalLR()]), ValueError, "own, RightTrapezoidalLR"),
        (mlp_net(SoftmaxMLP), ValueError, "SoftmaxMLP returns probabilities"),
        (mlp_net(NaNMLP), ValueError, "NaN or infinite logits"),
        (mlp_net(module__n_classes=3), ValueError, r"logits of shape \(n, 2\)"),
        (mlp_net(lr=1e30), ValueError, "training loss became"),
    ],
)
def test_bad_nets(moons, net, error, match):
    X, y, _ = moons
    clf = model(net)
    with pytest.raises(error, match=match):
        clf.fit(X, y)
    assert_unfitted(clf)


def test_plain_criteria_pass(moons):
    X, y, _ = moons
    expected = model(mlp_net()).fit(X, y).predict_proba(X)
    for criterion in (nn.CrossEntropyLoss, DistillationLoss):
        clf = model(mlp_net(criterion=criterion)).fit(X, y)
        np.testing.assert_array_equal(clf.predict_proba(X), expected)
    plain = NeuralNet(MLP, nn.CrossEntropyLoss, lr=0.1, batch_size=8)
    np.testing.assert_array_equal(model(plain).fit(X, y).predict_proba(X), expected)


def test_nested_parameters_need_an_explicit_net():
    for estimator in (None, "some/checkpoint"):
        clf = SelfPretrainingClassifier(estimator)
        with pytest.raises(ValueError, match=r"estimator__lr cannot be set .*BertClassifier\(\)"):
            clf.set_params(estimator__lr=1e-4)
    clf = SelfPretrainingClassifier().set_params(estimator=BertClassifier(), estimator__lr=1e-4)
    assert clf.estimator.lr == 1e-4


def test_an_error_in_on_iteration_leaves_nothing_fitted(moons):
    X, y, _ = moons

    def fail(iteration):
        if iteration.number == 2:
            raise RuntimeError("my own")

    clf = model(on_iteration=fail)
    with pytest.raises(RuntimeError, match="my own"):
        clf.fit(X, y)
    assert_unfitted(clf)
