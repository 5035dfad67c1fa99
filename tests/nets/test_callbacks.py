"""Learning rates at each step, and progress."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from helpers.nets import Rates, mlp_net
from sklearn.base import clone
from skorch.callbacks import BatchScoring, Checkpoint, EarlyStopping, EpochScoring
from skorch.dataset import ValidSplit

from sklearn_spt import BertClassifier, RightTrapezoidalLR, SelfPretrainingClassifier
from sklearn_spt._progress import Progress
from sklearn_spt.nets._callbacks import BatchProgress, ScheduledLR, check_callbacks, steps_per_epoch
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._training import fresh_net, set_loss

N = 20
X = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


def net_with(callback, **params):
    """A net of 5 batches an epoch, and the callback that collects its rates."""
    settings = {"lr": 5e-5, "batch_size": 4, "max_epochs": 1, "train_split": None, "verbose": 0}
    net = mlp_net(callbacks=[("lr", callback), ("rates", Rates())], **{**settings, **params})
    net.initialize()
    return net, dict(net.callbacks_)["rates"]


def column(rates, group=0):
    return [row[group] for row in rates.seen_]


# -- golden numbers --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("callback", "lr", "max_epochs", "expected"),
    [
        (  # the full rate five times, then 4/5, ..., 1/5 of it
            RightTrapezoidalLR(n_constant=4, n_decay=5),
            *(5e-5, 2),
            [5e-5, 5e-5, 5e-5, 5e-5, 5e-5, 4e-5, 3e-5, 2e-5, 1e-5, 0.0],
        ),
        (RightTrapezoidalLR(), 1.0, 1, [1.0, 0.8, 0.6, 0.4, 0.2]),
        (  # n_decay is the rest of the epochs
            RightTrapezoidalLR(n_constant=6),
            *(0.4, 2),
            [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.3, 0.2, 0.1],
        ),
        (RightTrapezoidalLR(n_decay=2), 1.0, 1, [1.0, 0.5, 0.0, 0.0, 0.0]),
        (ScheduledLR(partial(slanted, n_steps=5)), 2.0, 1, [2.0, 1.6, 1.2, 0.8, 0.4]),
    ],
)
def test_rates_of_each_step(callback, lr, max_epochs, expected):
    net, rates = net_with(callback, lr=lr, max_epochs=max_epochs)
    net.partial_fit(X, Y)
    np.testing.assert_allclose(column(rates), expected, rtol=1e-12)
    assert dict(net.callbacks_)["lr"].step_ == len(expected)


# -- parameter groups ------------------------------------------------------------------------------
GROUPS = [("first.*", {"lr": 0.02}), ("last.bias", {"lr": 0.5})]


def test_each_group_is_scaled_by_the_same_factor():
    net, rates = net_with(
        RightTrapezoidalLR(n_constant=1, n_decay=4), lr=0.1, optimizer__param_groups=GROUPS
    )
    net.partial_fit(X, Y)
    factors = [1.0, 1.0, 0.75, 0.5, 0.25]
    np.testing.assert_allclose(
        rates.seen_, [[0.02 * m, 0.5 * m, 0.1 * m] for m in factors], rtol=1e-12
    )


# -- runs ----------------------------------------------------------------------------------------
def test_one_schedule_spans_two_runs_and_a_new_optimizer():
    callback = RightTrapezoidalLR(n_constant=5, n_decay=5)
    template, _ = net_with(callback, lr=0.1, optimizer__param_groups=GROUPS)
    net = fresh_net(template, np.array([0, 1]), max_epochs=1)
    rates = dict(net.callbacks_)["rates"]
    targets = np.eye(2, dtype=np.float32)[Y]
    targets = np.hstack([targets, np.zeros_like(targets)])
    before = net.optimizer_
    net.partial_fit(X, targets)
    set_loss(net, lam=0.3, temperature=3.0, max_epochs=1)
    assert net.optimizer_ is not before
    assert [group["lr"] for group in net.optimizer_.param_groups] == [0.02, 0.5, 0.1]
    net.partial_fit(X, targets)
    factors = [1.0] * 5 + [1.0, 0.8, 0.6, 0.4, 0.2]
    np.testing.assert_allclose(
        rates.seen_, [[0.02 * m, 0.5 * m, 0.1 * m] for m in factors], rtol=1e-12
    )


def test_a_second_fit_starts_at_step_0_with_the_present_rate_and_length():
    callback = RightTrapezoidalLR(n_constant=2)
    net, _ = net_with(callback, lr=0.3)
    for lr, batch_size, expected in (
        *((0.3, 4, [0.3, 0.3, 0.3, 0.2, 0.1]), (0.3, 4, [0.3, 0.3, 0.3, 0.2, 0.1])),
        (1.0, 5, [1.0, 1.0, 1.0, 0.5]),
    ):
        net.set_params(lr=lr, batch_size=batch_size).fit(X, Y)
        np.testing.assert_allclose(column(dict(net.callbacks_)["rates"]), expected, rtol=1e-12)
    other, rates = net_with(callback, lr=0.6)  # another net with the same callback
    other.partial_fit(X, Y)
    np.testing.assert_allclose(column(rates), [0.6, 0.6, 0.6, 0.4, 0.2], rtol=1e-12)


# -- as a scikit-learn object ----------------------------------------------------------------------
def test_parameters_and_clone():
    callback = RightTrapezoidalLR(n_constant=3)
    assert callback.get_params() == {"n_constant": 3, "n_decay": None}
    net, _ = net_with(callback)
    net.partial_fit(X, Y)
    used = dict(net.callbacks_)["lr"]
    assert used.get_params() == {"n_constant": 3, "n_decay": None}
    copy = clone(used)
    assert vars(copy) == {"n_constant": 3, "n_decay": None}
    again = clone(net).initialize()
    again.partial_fit(X, Y)
    assert dict(again.callbacks_)["rates"].seen_ == dict(net.callbacks_)["rates"].seen_
    assert clone(ScheduledLR(abs)).multiplier is abs
    again.set_params(callbacks__lr__n_constant=4, callbacks__lr__n_decay=1, lr=1.0).fit(X, Y)
    assert column(dict(again.callbacks_)["rates"]) == [1.0] * 5


def test_a_net_can_be_pickled_during_its_schedule():
    net, _ = net_with(RightTrapezoidalLR(n_constant=5, n_decay=5), lr=0.1)
    net.partial_fit(X, Y)
    loaded = pickle.loads(pickle.dumps(net))
    loaded.partial_fit(X, Y)
    rates = dict(loaded.callbacks_)["rates"]
    np.testing.assert_allclose(column(rates), [0.1] * 5 + [0.1, 0.08, 0.06, 0.04, 0.02], rtol=1e-12)
    slant = pickle.loads(pickle.dumps(ScheduledLR(partial(slanted, n_steps=4))))
    assert slant.multiplier(1) == 0.75


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_constant": -1}, ValueError, "n_constant must be at least 0, got -1"),
        ({"n_constant": 1.5}, TypeError, "n_constant must be an integer, got 1.5"),
        ({"n_decay": 0}, ValueError, "n_decay must be at least 1, got 0"),
        ({"n_decay": "auto"}, TypeError, "n_decay must be an integer or None, got 'auto'"),
    ],
)
def test_bad_parameters(params, error, message):
    net, _ = net_with(RightTrapezoidalLR(**params))  # parameters are checked in training
    with pytest.raises(error, match=message):
        net.partial_fit(X, Y)


# -- counting ------------------------------------------------------------------------------------
class NoLength(torch.utils.data.IterableDataset):
    """A custom iterator that does not know its number of batches."""

    def __init__(self, dataset, batch_size=4):
        self.dataset, self.batch_size = dataset, batch_size

    def __iter__(self):
        return iter(torch.utils.data.DataLoader(self.dataset, self.batch_size))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 5),
        ({"batch_size": 6}, 4),
        ({"batch_size": 6, "iterator_train__drop_last": True}, 3),
        ({"iterator_train__batch_size": 10}, 2),
        ({"batch_size": -1}, 1),
        ({"iterator_train": NoLength}, 5),
        ({"iterator_train": NoLength, "batch_size": 6}, 4),
        ({"iterator_train": NoLength, "batch_size": -1}, 1),
        ({"train_split": ValidSplit(5, stratified=False)}, 4),
    ],
)
def test_steps_per_epoch_are_the_steps_taken(params, expected):
    net, rates = net_with(RightTrapezoidalLR(n_decay=99), **params)
    assert steps_per_epoch(net, X, Y) == expected
    net.partial_fit(X, Y)
    assert len(rates.seen_) == dict(net.callbacks_)["lr"].step_ == expected


def test_batch_progress_counts_training_texts(capfd):
    done = []
    progress = Progress(0, "", 40)
    progress.advance = done.append
    net = mlp_net(callbacks=[("progress", BatchProgress(progress))], batch_size=6, max_epochs=2)
    net.set_params(train_split=ValidSplit(5, stratified=False), verbose=0).fit(X, Y)
    assert done == [6, 6, 4, 6, 6, 4]
    assert capfd.readouterr() == ("", "")


# -- callbacks that no training can serve ----------------------------------------------------------
@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (EarlyStopping(), r"EarlyStopping\(monitor='valid_loss'\).*use monitor='train_loss'"),
        (("stop", EarlyStopping), r"EarlyStopping\(monitor='valid_loss'\)"),
        (Checkpoint, r"Checkpoint\(monitor='valid_loss_best'\).*use monitor='train_loss_best'"),
        (
            Checkpoint("valid_acc_best"),
            r"Checkpoint\(.*use monitor='train_loss_best'",
        ),
        (EpochScoring("f1"), r"EpochScoring\(on_train=False\).*validation_fraction="),
        (BatchScoring("f1", name="f1"), r"BatchScoring\(on_train=False\)"),
        (
            EpochScoring("f1", on_train=True),
            r"EpochScoring\(scoring='f1'\), which needs hard labels",
        ),
        (EpochScoring(None, on_train=True), r"EpochScoring\(scoring=None\).*function scoring\(net"),
    ],
)
def test_callbacks_that_need_validation_data_or_labels_are_refused(callback, message):
    net = mlp_net(callbacks=[callback])
    with pytest.raises(ValueError, match=f"estimator has the callback {message}"):
        SelfPretrainingClassifier(net).fit(X, Y)
    with pytest.raises(ValueError, match=f"BertClassifier has the callback {message}"):
        BertClassifier(callbacks=[callback]).fit(["a", "b"], [0, 1])


def test_the_parameters_of_a_callback_are_those_that_skorch_takes():
    named = {"callbacks": [("stop", EarlyStopping())], "callbacks__stop__monitor": "train_loss"}
    check_callbacks(mlp_net(**named), "net")
    check_callbacks(mlp_net(callbacks=[Checkpoint(lambda net: True), Checkpoint(None)]), "net")
    wrong = {
        "callbacks": [EarlyStopping("train_loss")],
        "callbacks__EarlyStopping__monitor": "valid_loss",
    }
    with pytest.raises(ValueError, match=r"net has the callback EarlyStopping\(mon"):
        check_callbacks(mlp_net(**wrong), "net")
