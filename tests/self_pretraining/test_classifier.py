"""The method: an independent rewrite, limits, ablations, records, bad input."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch
from helpers.nets import MLP, NaNMLP, SoftmaxMLP, mlp_net
from helpers.variants import variant
from joblib import Parallel, delayed
from scipy.special import log_softmax, softmax
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from skorch import NeuralNet, NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, LRScheduler
from torch import nn

from sklearn_spt import (
    BertClassifier,
    DistillationLoss,
    RightTrapezoidalLR,
    SelfPretrainingClassifier,
)
from sklearn_spt._random import derive_seed
from sklearn_spt._sampling import class_balanced_draws, draw_sample


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 20 are labelled; the truth beside them."""
    X, truth = make_moons(200, noise=0.1, random_state=0)
    y = truth.copy()
    y[20:] = -1
    return X.astype(np.float32), y, truth


def model(net=None, **params):
    settings = {"pretrain_epochs": 2, "finetune_epochs": 4, "random_state": 0, **params}
    return variant(mlp_net() if net is None else net, **settings)


class Rates(Callback):
    """Writes the learning rate of every step to a list that outlives the clones of the net."""

    log: list[float] = []  # noqa: RUF012

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.log.append(net.optimizer_.param_groups[0]["lr"])


@pytest.fixture
def rates():
    Rates.log.clear()
    yield Rates.log
    Rates.log.clear()


# -- the algorithm, written a second time ----------------------------------------------------
def rewritten(X_l, y, X_u, *, seed, lam, alpha, T, k, E1, E2, R, B):
    """Algorithm 1 without this package: own loops, own losses, own learning rates, plain SGD.

    Only the random draws are shared, so that both see the same rows.
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
    fit(
        M1,
        X_l,
        y,
        lambda z, rows: ce(z, hard[rows], 1),
        [R * (1 - s / S_0) for s in range(S_0)],
        start_rng,
        E2,
    )
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
            if len(d) == 0:
                continue
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
        b_C, b_L = E1 * per_epoch(size), E2 * per_epoch(len(y))
        rng = np.random.default_rng(derive_seed(seed, t, 2))
        fit(M1, C, codes_C, lambda z, rows, P=moved: T**2 * ce(z, P[rows], T), [R] * b_C, rng, E1)
        fit(
            M1,
            X_l,
            y,
            lambda z, rows, q=q: (1 - lam) * ce(z, hard[rows], 1) + lam * T**2 * ce(z, q[rows], T),
            [R * (1 - s / b_L) for s in range(b_L)],
            rng,
            E2,
        )
        if size >= len(X_u):
            return M1, M2, sizes, moved, rows_C
        size += k


def test_equals_an_independent_rewrite(moons):
    X, y, _ = moons
    labeled = y >= 0
    settings = {"lam": 0.3, "alpha": 0.4}
    clf = model(step_size=70, temperature=3.0, ensemble="last_two", **settings).fit(X, y)
    M1, M2, sizes, moved, rows = rewritten(
        X[labeled],
        y[labeled],
        X[~labeled],
        seed=0,
        T=3.0,
        k=70,
        E1=2,
        E2=4,
        R=0.1,
        B=8,
        **settings,
    )
    assert clf.sample_sizes_ == sizes == [70, 140, 180]
    for ours, theirs in ((clf.student_, M1), (clf.teacher_, M2)):
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


def test_ensemble_is_the_mean_of_probabilities(moons):
    X, y, _ = moons
    clf = model(ensemble="last_two").fit(X, y)
    assert clf.estimators_ == [clf.teacher_, clf.student_]
    z = [net.forward(X).double().numpy() for net in (clf.teacher_, clf.student_)]
    mean = (softmax(z[0], axis=1) + softmax(z[1], axis=1)) / 2
    np.testing.assert_allclose(clf.predict_proba(X), mean, atol=1e-6)
    of_logits = np.exp(log_softmax((z[0] + z[1]) / 2, axis=1))
    assert np.abs(clf.predict_proba(X) - of_logits).max() > 1e-4


def test_the_supervised_start_predicts_too(moons):
    X, y, _ = moons
    clf, two = (model(ensemble=which).fit(X, y) for which in ("with_start", "last_two"))
    start = model(max_iter=0).fit(X, y)
    assert start.estimators_ == [start.student_] == [start.teacher_]
    P = [softmax(net.forward(X).double().numpy(), axis=1) for net in clf.estimators_]
    np.testing.assert_allclose(P[0], start.predict_proba(X), atol=1e-7)
    assert clf.estimators_[1:] == [clf.teacher_, clf.student_]
    np.testing.assert_allclose(clf.predict_proba(X), sum(P) / 3, atol=1e-7)
    # the nets themselves are the same
    np.testing.assert_array_equal(clf.transduction_, two.transduction_)
    np.testing.assert_allclose((P[1] + P[2]) / 2, two.predict_proba(X), atol=1e-7)


def test_a_first_teacher_that_is_the_start_counts_once(moons):
    X, y, _ = moons
    clf = model(max_iter=1, alpha=0).fit(X, y)
    assert clf.estimators_ == [clf.teacher_, clf.student_]


def test_an_unknown_ensemble(moons):
    X, y, _ = moons
    with pytest.raises(ValueError, match="ensemble must be one of 'with_start', 'last_two'"):
        model(ensemble="all").fit(X, y)


# -- fitted attributes -------------------------------------------------------------------------
def test_fitted_attributes(moons):
    X, y, _ = moons
    clf = model().fit(X, y)
    assert clf.sample_sizes_ == [36, 72, 108, 144, 180]
    assert clf.n_iter_ == 5
    assert clf.termination_condition_ == "all_labeled"
    assert clf.n_features_in_ == 2
    assert clf.estimators_[1:] == [clf.teacher_, clf.student_]
    assert len({id(net) for net in clf.estimators_}) == 3
    np.testing.assert_array_equal(clf.classes_, [0, 1])
    np.testing.assert_array_equal(clf.transduction_[:20], y[:20])
    assert set(clf.transduction_) == {0, 1}
    np.testing.assert_array_equal(clf.labeled_iter_, [0] * 20 + [5] * 180)
    np.testing.assert_array_equal(clf.student_.classes_, [0, 1])
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
    assert first["groups_before"] == first["groups_after"]  # nothing to act on yet
    assert second["groups_before"] != second["groups_after"]


def test_rows_that_were_never_drawn_keep_the_marker(moons):
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


def test_x_unlabeled_as_long_as_x_warns(moons):
    X, y, _ = moons
    with pytest.warns(UserWarning, match="X_unlabeled has as many rows as X"):
        model(max_iter=0).fit(X[:20], y[:20], X_unlabeled=X[20:40])


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        (np.zeros((3, 5)), ValueError, "X_unlabeled cannot be used: X has 5 features"),
        (np.full((3, 2), np.nan), ValueError, "X_unlabeled.*NaN"),
        ((row for row in range(3)), TypeError, "X_unlabeled must be a list.*got generator"),
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
    assert clf.teacher_ is clf.student_
    zero = model(max_iter=0).fit(X, y)
    assert zero.termination_condition_ == "max_iter"
    np.testing.assert_array_equal(clf.predict_proba(X), zero.predict_proba(X))


def test_first_teacher_is_the_baseline(tiny_checkpoint, tiny_texts):
    texts = list(tiny_texts) * 4
    y = np.arange(len(texts)) % 2
    net = BertClassifier(tiny_checkpoint, max_length=16, max_epochs=3)
    baseline = BertClassifier(tiny_checkpoint, max_length=16, max_epochs=3, random_state=5)
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = SelfPretrainingClassifier(net, random_state=5).fit(texts, y)
    baseline.fit(texts, y)
    np.testing.assert_array_equal(clf.predict_proba(texts), baseline.predict_proba(texts))


def test_alpha_zero_is_no_inertia(moons):
    X, y, _ = moons
    clf = model(alpha=0.0).fit(X, y)
    for record in clf.history_[1:]:
        assert record["groups_before"] == record["groups_after"]
    for switch in ("raw state", "independent variance"):
        other = model(alpha=0.0, switch=switch).fit(X, y)
        np.testing.assert_array_equal(clf.predict_proba(X), other.predict_proba(X))


def test_lam_zero_does_not_look_at_the_teacher(moons):
    """At λ = 0 stage 2 is cross-entropy: temperature plays no part in it any more."""
    X, y, _ = moons
    settings = {"lam": 0.0, "alpha": 0.0, "pretrain_epochs": 0}
    hot = model(temperature=9.0, **settings).fit(X, y)
    cold = model(temperature=1.0, **settings).fit(X, y)
    np.testing.assert_allclose(hot.predict_proba(X), cold.predict_proba(X), rtol=1e-6)
    on = model(temperature=9.0, lam=0.5, alpha=0.0, pretrain_epochs=0).fit(X, y)
    assert np.abs(on.predict_proba(X) - cold.predict_proba(X)).max() > 1e-4


def test_at_temperature_one_the_losses_are_cross_entropies(moons):
    """T = 1, λ = 0, no distillation: both stages are plain cross-entropy on hard labels."""
    X, y, _ = moons
    settings = {"lam": 0.0, "alpha": 0.0, "switch": "no distillation"}
    one = model(temperature=1.0, **settings).fit(X, y)
    any_T = model(temperature=5.0, **settings).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), any_T.predict_proba(X))
    record = one.history_[1]
    assert "groups_before" not in record


def test_first_iteration_does_not_depend_on_alpha(moons):
    X, y, _ = moons
    low = model(alpha=0.1, step_size=90, max_iter=1)
    high = model(alpha=0.9, step_size=90, max_iter=1)
    with pytest.warns(UserWarning, match=r"alpha=0.1 has no effect.*only one iteration"):
        low.fit(X, y)
    with pytest.warns(UserWarning, match="alpha=0.9 has no effect"):
        high.fit(X, y)
    np.testing.assert_array_equal(low.predict_proba(X), high.predict_proba(X))


def test_fresh_student_starts_from_its_own_seed(moons):
    X, y, _ = moons
    clf = model(pretrain_epochs=0, finetune_epochs=0, step_size=90).fit(X, y)
    torch_state = torch.get_rng_state()
    torch.manual_seed(derive_seed(0, 2))
    expected = MLP().first.weight
    torch.set_rng_state(torch_state)
    assert torch.equal(clf.student_.module_.first.weight, expected)
    assert not torch.equal(clf.teacher_.module_.first.weight, expected)


# -- ablations ---------------------------------------------------------------------------------
def test_learning_rates_of_a_student(moons, rates):
    X, y, _ = moons
    net = mlp_net(callbacks=[Rates()], lr=0.5, batch_size=10)
    model(net, step_size=180, alpha=0.0, pretrain_epochs=1, finetune_epochs=2).fit(X, y)
    start, student = rates[:4], rates[4:]
    np.testing.assert_allclose(start, [0.5, 0.375, 0.25, 0.125])
    np.testing.assert_allclose(student, [0.5] * 18 + [0.5, 0.375, 0.25, 0.125])


def test_slanted_rate_is_one_line_over_both_stages(moons, rates):
    X, y, _ = moons
    net = mlp_net(callbacks=[Rates()], lr=0.5, batch_size=10)
    model(
        net,
        step_size=180,
        alpha=0.0,
        pretrain_epochs=1,
        finetune_epochs=2,
        switch="slanted",
    ).fit(X, y)
    np.testing.assert_allclose(rates[4:], 0.5 * (1 - np.arange(22) / 22))


def test_one_stage_trains_on_the_union(moons, rates):
    X, y, _ = moons
    net = mlp_net(callbacks=[Rates()], lr=0.5, batch_size=10)
    clf = model(
        net, step_size=180, alpha=0.0, pretrain_epochs=1, finetune_epochs=2, switch="one stage"
    ).fit(X, y)
    np.testing.assert_allclose(rates[4:], 0.5 * (1 - np.arange(40) / 40))
    assert set(clf.history_[1]["loss"]) == {"one_stage"}


SWITCHES = [
    {"switch": "one stage"},
    {"switch": "no distillation"},
    {"switch": "slanted"},
    {"alpha": 0.0},
    {"switch": "independent variance"},
    {"switch": "raw state"},
    {"balanced_batches": False},
    {"switch": "half first sample"},
    {"lam": 1.0},
]


def trained_well(X, y, **switch):
    settings = {"alpha": 0.6, "step_size": 60, "pretrain_epochs": 5, "finetune_epochs": 20}
    return model(mlp_net(lr=0.5), **{**settings, **switch}).fit(X, y)


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_each_switch_changes_the_result_and_still_learns(moons, switch):
    X, y, truth = moons
    full = trained_well(X, y)
    ablated = trained_well(X, y, **switch)
    assert np.abs(full.predict_proba(X) - ablated.predict_proba(X)).max() > 1e-6
    assert full.score(X, truth) > 0.8
    assert ablated.score(X, truth) > 0.8


def test_reset_optimizer_matters_for_an_optimizer_with_memory(moons):
    X, y, _ = moons
    net = mlp_net(optimizer=torch.optim.Adam, lr=0.01)
    kept = model(net, switch="kept optimizer").fit(X, y).predict_proba(X)
    renewed = model(net).fit(X, y).predict_proba(X)
    assert np.abs(kept - renewed).max() > 1e-6


# -- weights -----------------------------------------------------------------------------------
def test_only_proportions_of_weights_count(moons):
    X, y, _ = moons
    w = np.linspace(1, 2, len(y))
    one = model().fit(X, y, sample_weight=w).predict_proba(X)
    two = model().fit(X, y, sample_weight=2 * w).predict_proba(X)
    none = model().fit(X, y).predict_proba(X)
    even = model().fit(X, y, sample_weight=np.full(len(y), 3.0)).predict_proba(X)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    np.testing.assert_array_equal(none, even)
    assert np.abs(one - none).max() > 1e-6


def test_weights_of_unlabelled_rows_are_ignored(moons):
    X, y, _ = moons
    w = np.linspace(1, 2, len(y))
    other = np.where(y < 0, np.nan, w)
    np.testing.assert_array_equal(
        model().fit(X, y, sample_weight=w).predict_proba(X),
        model().fit(X, y, sample_weight=other).predict_proba(X),
    )


def test_weight_zero_hides_a_label(moons):
    X, y, truth = moons
    wrong = y.copy()
    wrong[:6] = 1 - wrong[:6]
    w = np.ones(len(y))
    w[:6] = 0
    assert model().fit(X, wrong, sample_weight=w).score(X, truth) > 0.75


# -- the hook ----------------------------------------------------------------------------------
class Recorder:
    seen: list[tuple] = []  # noqa: RUF012

    def __call__(self, iteration):
        parts = {w: iteration.predict_proba(X_SCORE, which=w) for w in PARTS}
        self.seen.append((iteration.number, iteration.record, parts))


X_SCORE = np.zeros((3, 2), dtype=np.float32)
PARTS = ("ensemble", "student", "teacher")


def test_on_iteration_scores_every_student(moons):
    X, y, _ = moons
    Recorder.seen.clear()
    clf = model(step_size=90, on_iteration=Recorder()).fit(X, y)
    assert [number for number, _, _ in Recorder.seen] == [0, 1, 2]
    assert [record for _, record, _ in Recorder.seen] == clf.history_
    start, first, last = (parts for _, _, parts in Recorder.seen)
    np.testing.assert_array_equal(start["student"], start["teacher"])
    np.testing.assert_array_equal(first["teacher"], start["student"])
    np.testing.assert_array_equal(last["teacher"], first["student"])
    np.testing.assert_array_equal(last["ensemble"], clf.predict_proba(X_SCORE))
    np.testing.assert_allclose(first["ensemble"], (first["teacher"] + first["student"]) / 2)
    together = start["student"] + last["teacher"] + last["student"]
    np.testing.assert_allclose(last["ensemble"], together / 3)
    unhooked = model(step_size=90).fit(X, y)
    np.testing.assert_array_equal(unhooked.predict_proba(X), clf.predict_proba(X))


# -- threads -----------------------------------------------------------------------------------
def test_fits_in_threads_are_those_in_a_row(moons, global_random_state_unchanged):
    X, y, _ = moons

    def proba(seed):
        return model(random_state=seed, max_iter=2).fit(X, y).predict_proba(X)

    serial = [proba(seed) for seed in range(3)]
    threaded = Parallel(n_jobs=3, backend="threading")(delayed(proba)(seed) for seed in range(3))
    np.testing.assert_array_equal(serial, threaded)


# -- quiet and clean ---------------------------------------------------------------------------
def test_silent_without_verbose(moons, capfd):
    X, y, _ = moons
    model(mlp_net(verbose=1)).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_progress_bar_with_verbose(moons, capfd):
    X, y, _ = moons
    model(verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "self-pretraining" in err
    assert "100%" in err


def test_the_template_stays_unfitted(moons):
    X, y, _ = moons
    net = mlp_net()
    model(net).fit(X, y)
    assert not net.initialized_
    assert net.train_split is not None
    assert net.criterion is nn.NLLLoss


def test_refit_forgets(moons):
    X, y, _ = moons
    clf = model().fit(X[:, :2], y)
    once = clf.predict_proba(X)
    np.testing.assert_array_equal(clf.fit(X, y).predict_proba(X), once)


def test_users_early_stopping_ends_stages_not_the_fit(moons):
    X, y, _ = moons
    stop = EarlyStopping(monitor="train_loss", patience=1, threshold=9.0, sink=lambda text: None)
    clf = model(mlp_net(callbacks=[stop])).fit(X, y)
    assert clf.n_iter_ == 5
    assert len(clf.history_[1]["loss"]["stage2"]) < 4


def test_the_rate_falls_in_stage_2_even_if_stage_1_stopped_early(moons, rates):
    X, y, _ = moons
    stop = EarlyStopping(monitor="train_loss", patience=1, threshold=9.0, sink=lambda text: None)
    net = mlp_net(callbacks=[stop, Rates()], lr=0.5, batch_size=10)
    model(net, step_size=180, alpha=0.0, pretrain_epochs=5, finetune_epochs=1).fit(X, y)
    np.testing.assert_allclose(rates[-2:], [0.5, 0.25])
    assert len(rates) < 2 + 5 * 18 + 2


def test_parameter_groups_keep_their_proportions(moons):
    X, y, _ = moons
    seen = []

    class Groups(Callback):
        def on_batch_end(self, net, training=False, **kwargs):
            seen.append([g["lr"] for g in net.optimizer_.param_groups])

    net = mlp_net(callbacks=[Groups()], lr=0.1, optimizer__param_groups=[("first*", {"lr": 0.01})])
    model(net).fit(X, y)
    seen = np.array(seen)
    np.testing.assert_allclose(seen[:, 0], 0.1 * seen[:, 1])


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
        ({"lam": -0.1}, ValueError, r"lam must lie in \[0, 1\]"),
        ({"lam": "0.3"}, TypeError, "lam must be a number"),
        ({"alpha": 2}, ValueError, r"alpha must lie in \[0, 1\]"),
        ({"alpha": float("nan")}, ValueError, "alpha must lie"),
        ({"temperature": 0}, ValueError, r"temperature must lie in \(0, inf\)"),
        ({"temperature": -1.0}, ValueError, "temperature must lie"),
        ({"step_size": 0}, ValueError, "step_size"),
        ({"step_size": -5}, ValueError, "step_size"),
        ({"step_size": 1.5}, ValueError, "step_size"),
        ({"step_size": True}, TypeError, "step_size"),
        ({"max_iter": -1}, ValueError, "max_iter must be at least 0"),
        ({"max_iter": 1.0}, TypeError, "max_iter must be an integer"),
        ({"pretrain_epochs": -1}, ValueError, "pretrain_epochs must be at least 0"),
        ({"finetune_epochs": 0.5}, TypeError, "finetune_epochs must be an integer"),
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
        (mlp_net(callbacks=[LRScheduler()]), ValueError, "schedule of its own, LRScheduler"),
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


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda y: np.full(len(y), -1), "no labelled row"),
        (lambda y: np.where(y < 0, y, 1), "one class only"),
        (lambda y: y[:-1], "X has 200 rows, y has 199"),
        (lambda y: np.column_stack([y, y]), "1d array"),
        (lambda y: np.where(y == 1, 0.5, y), "0.5.* in row"),
        (lambda y: np.where(y < 0, np.nan, y), "missing value .* in row 20"),
        (lambda y: np.where(y < 0, "-1", "a"), "string .*'-1'.* in row 20"),
        (lambda y: None, "requires y to be passed"),
    ],
)
def test_bad_labels(moons, change, match):
    X, y, _ = moons
    clf = model()
    with pytest.raises(ValueError, match=match):
        clf.fit(X, change(y))
    assert_unfitted(clf)


def test_failed_refit_keeps_the_old_model(moons):
    X, y, _ = moons
    clf = model().fit(X, y)
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match="no labelled row"):
        clf.fit(np.zeros((4, 5)), [-1] * 4)
    assert clf.n_features_in_ == 2
    np.testing.assert_array_equal(clf.predict_proba(X), before)


def test_weights_that_cannot_be(moons):
    X, y, _ = moons
    for weights, match in (
        (np.zeros(len(y)), "zero for every labelled row"),
        (np.where(y < 0, 1.0, 0.0), "zero for every labelled row"),
        (np.ones(3), r"expected \(200,\)"),
        (-np.ones(len(y)), "not negative; row 0"),
    ):
        clf = model()
        with pytest.raises(ValueError, match=match):
            clf.fit(X, y, sample_weight=weights)
        assert_unfitted(clf)


def test_nested_parameters_need_an_explicit_net():
    for estimator in (None, "some/checkpoint"):
        clf = SelfPretrainingClassifier(estimator)
        with pytest.raises(ValueError, match=r"estimator__lr cannot be set .*BertClassifier\(\)"):
            clf.set_params(estimator__lr=1e-4)
    clf = SelfPretrainingClassifier().set_params(estimator=BertClassifier(), estimator__lr=1e-4)
    assert clf.estimator.lr == 1e-4


def test_an_error_in_the_hook_leaves_nothing_fitted(moons):
    X, y, _ = moons

    def fail(iteration):
        if iteration.number == 2:
            raise RuntimeError("my own")

    clf = model(on_iteration=fail)
    with pytest.raises(RuntimeError, match="my own"):
        clf.fit(X, y)
    assert_unfitted(clf)


def test_no_warning_in_an_ordinary_fit(moons):
    X, y, _ = moons
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = model().fit(X, y)
    assert clf.n_iter_ == 5
