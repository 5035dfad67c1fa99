"""The training of teacher and students: losses, learning rates, optimisers."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from helpers.nets import bert_net, mlp_net
from helpers.sgd import partial_moons
from helpers.variants import variant
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, EpochScoring, TensorBoard

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer


@pytest.fixture(scope="module")
def moons():
    """200 rows, 20 of them labelled."""
    return partial_moons(200, 20, 0.1)[:2]


@pytest.fixture
def rates():
    """A callback that collects the learning rates of every step, and its list."""
    found = []

    class Rates(Callback):
        def on_batch_end(self, net, training=False, **kwargs):
            if training:
                found.append([group["lr"] for group in net.optimizer_.param_groups])

    return Rates(), found


def model(net=None, **params):
    settings = {"pretrain_epochs": 2, "finetune_epochs": 4, "random_state": 0, **params}
    return variant(mlp_net() if net is None else net, **settings)


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_tokens_are_deleted_in_stage_1_alone(tiny_encoder, tiny_texts, n_epochs):
    seen = []

    class Noted(BertClassifier):
        def infer(self, x, **fit_params):
            if self.module_.training:
                rows = {tuple(row) for row in sequences(x.tolist())}
                seen.append((self.criterion_.lam, rows))
            return super().infer(x, **fit_params)

    def sequences(rows):
        return [[t for t in row if t != 0] for row in rows]

    y = [i % 2 if i < 12 else -1 for i in range(len(tiny_texts))]
    settings = {"batch_size": 64, "balanced_batches": False, "n_threads": 1}
    net = Noted(tiny_encoder, **settings)
    own = {"step_size": 1.0, "alpha": 0.0, "pretrain_epochs": n_epochs, "finetune_epochs": 1}
    clf = SelfPretrainingClassifier(
        net, token_deletion=0.5, balanced_batches=False, random_state=0, **own
    ).fit(tiny_texts, y)
    whole = {tuple(row) for row in sequences(clf.estimators_[0].encode(tiny_texts).tolist())}
    stage_1 = [rows for lam, rows in seen if lam == 1]
    assert len(stage_1) == n_epochs
    for rows in stage_1:
        assert len(rows - whole) > len(rows) / 2
        assert {row[0] for row in rows} == {row[0] for row in whole}
        assert {row[-1] for row in rows} == {row[-1] for row in whole}
    assert len({frozenset(rows) for rows in stage_1}) == n_epochs  # drawn anew in each epoch
    others = [rows for lam, rows in seen if lam != 1]
    assert len(others) == 2
    assert all(rows <= whole for rows in others)


def test_without_deletion_nothing_is_drawn(tiny_encoder, tiny_texts):
    y = [i % 2 if i < 12 else -1 for i in range(24)]
    found = [
        SelfPretrainingClassifier(bert_net(tiny_encoder), step_size=0.5, random_state=0, **given)
        .fit(tiny_texts, y)
        .predict_proba(tiny_texts)
        for given in ({}, {"token_deletion": 0}, {"token_deletion": 0.3}, {"token_deletion": 0.3})
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.abs(found[2] - found[0]).max() > 1e-4
    np.testing.assert_array_equal(found[2], found[3])


def test_deletions_do_not_depend_on_the_width_of_token_ids(tiny_encoder, tiny_texts):
    y = [i % 2 if i < 12 else -1 for i in range(24)]
    found = []
    for X in (tiny_texts, TokenIdVectorizer(tiny_encoder, max_length=24).transform(tiny_texts)):
        clf = SelfPretrainingClassifier(
            bert_net(tiny_encoder), step_size=0.5, token_deletion=0.3, random_state=0
        )
        found.append(clf.fit(X, y).predict_proba(X))
    np.testing.assert_allclose(*found, atol=1e-6)


def test_lam_zero_ignores_the_teacher(moons):
    """At λ = 0 stage 2 is cross-entropy, whatever the temperature."""
    X, y = moons
    settings = {"lam": 0.0, "alpha": 0.0, "pretrain_epochs": 0}
    hot = model(temperature=9.0, **settings).fit(X, y)
    cold = model(temperature=1.0, **settings).fit(X, y)
    np.testing.assert_allclose(hot.predict_proba(X), cold.predict_proba(X), rtol=1e-6)
    on = model(temperature=9.0, lam=0.5, alpha=0.0, pretrain_epochs=0).fit(X, y)
    assert np.abs(on.predict_proba(X) - cold.predict_proba(X)).max() > 1e-4


def test_the_first_iteration_does_not_depend_on_alpha(moons):
    X, y = moons
    found = []
    for alpha in (0.1, 0.9):
        with pytest.warns(UserWarning, match=f"alpha={alpha} has no effect.*only one iteration"):
            clf = model(alpha=alpha, step_size=90, max_iter=1).fit(X, y)
        found.append(clf.predict_proba(X))
    np.testing.assert_array_equal(*found)


def test_early_stopping_of_the_net_ends_a_stage_but_not_the_fit(moons, rates):
    X, y = moons
    stop = EarlyStopping(monitor="train_loss", patience=1, threshold=9.0, sink=lambda text: None)
    net = mlp_net(callbacks=[stop, rates[0]], lr=0.5, batch_size=10)
    clf = model(net, step_size=180, alpha=0.0, pretrain_epochs=5, finetune_epochs=3).fit(X, y)
    losses = clf.history_[1]["loss"]
    assert len(losses["stage1"]) < 5
    assert len(losses["stage2"]) < 3
    # the rate of stage 2 falls from its start all the same
    steps = 2 * len(losses["stage2"])
    np.testing.assert_allclose(np.ravel(rates[1][-steps:]), 0.5 * (1 - np.arange(steps) / 6))


class Writer:
    """Collects what is logged; like those of real loggers, it cannot be copied."""

    def __init__(self):
        self.logged, self.lock = [], threading.Lock()

    def __deepcopy__(self, memo):
        return self

    def add_scalar(self, tag, scalar_value, global_step):
        self.logged.append((tag, global_step, scalar_value))


def confidence(net, X, y):
    """Mean probability of the predicted classes of the training rows."""
    return float(net.forward(X).softmax(dim=1).max(dim=1).values.mean())


@pytest.mark.parametrize("text", [False, True])
def test_logs_and_scores_run_through_both_stages(moons, tiny_encoder, tiny_texts, text):
    writer = Writer()
    scoring = EpochScoring(confidence, on_train=True, use_caching=False, name="confidence")
    callbacks = [("score", scoring), ("log", TensorBoard(writer, close_after_train=False))]
    if text:
        net = bert_net(tiny_encoder, callbacks=callbacks)
        X, y = tiny_texts, [1, 0] * 6 + [-1] * 12
    else:
        net, (X, y) = mlp_net(callbacks=callbacks), moons
    settings = {"step_size": 1.0, "alpha": 0.0, "pretrain_epochs": 2, "finetune_epochs": 3}
    clf = SelfPretrainingClassifier(net, **settings, random_state=0).fit(X, y)
    for tag, key in (("Loss/train_loss", "train_loss"), ("confidence", "confidence")):
        logged = [(step, value) for name, step, value in writer.logged if name == tag]
        assert [step for step, _ in logged] == [1, 2, 3, 1, 2, 3, 4, 5]  # start; both stages
        assert [value for _, value in logged[3:]] == clf.students_[0].history[:, key]
    losses = clf.history_[1]["loss"]
    assert clf.students_[0].history[:, "train_loss"] == pytest.approx(
        losses["stage1"] + losses["stage2"], rel=1e-6
    )


def test_callbacks_change_no_result(moons):
    X, y = moons
    plain = model(mlp_net()).fit(X, y).predict_proba(X)
    scoring = EpochScoring(confidence, on_train=True, use_caching=False, name="confidence")
    watched = model(mlp_net(callbacks=[scoring, EarlyStopping("train_loss", patience=99)]))
    np.testing.assert_array_equal(watched.fit(X, y).predict_proba(X), plain)


def test_a_checkpoint_compares_losses_of_the_same_stage(moons, tmp_path):
    X, y = moons
    noisy = np.where((y >= 0) & (np.arange(len(y)) % 3 == 0), 1 - y, y)  # a high loss in stage 2
    best = Checkpoint("train_loss_best", dirname=tmp_path, f_history=None, load_best=True)
    net = mlp_net(callbacks=[best], lr=0.5)
    settings = {"step_size": 1.0, "alpha": 0.0, "pretrain_epochs": 5, "finetune_epochs": 1}
    clf = SelfPretrainingClassifier(net, **settings, random_state=0).fit(X, noisy)
    losses = clf.history_[1]["loss"]
    assert losses["stage2"][0] > min(losses["stage1"])
    assert clf.students_[0].history[-1, "train_loss_best"]
    saved = torch.load(tmp_path / "params.pt", weights_only=True)
    for name, weight in clf.students_[0].module_.state_dict().items():
        torch.testing.assert_close(saved[name], weight, rtol=0, atol=0)


def test_parameter_groups_keep_their_proportions(moons, rates):
    groups = [("first*", {"lr": 0.01})]
    net = mlp_net(callbacks=[rates[0]], lr=0.1, optimizer__param_groups=groups)
    model(net).fit(*moons)
    found = np.array(rates[1])
    np.testing.assert_allclose(found[:, 0], 0.1 * found[:, 1])
