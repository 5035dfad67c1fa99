"""Training with hard labels: seeds by path, weights, callbacks after each epoch."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.nets import MLP, SoftmaxMLP, mlp_net
from scipy.special import softmax
from skorch.callbacks import Callback

from sklearn_spt import BertClassifier
from sklearn_spt import _supervised as module
from sklearn_spt._supervised import SupervisedTrainer, timed

CLASSES = np.array([0, 1])


@pytest.fixture
def data():
    X = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    return X, (X[:, 0] > 0.5).astype(np.int64)


def trainer(net=None, **params):
    settings = {"finetune_epochs": 3, "balanced_batches": True, "random_state": 0, "verbose": 0}
    model = SimpleNamespace(**settings | params)
    return SupervisedTrainer(model, mlp_net() if net is None else net, CLASSES, "test")


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.module_.parameters()])


def test_a_run_is_a_function_of_the_random_state_and_its_path(data, global_random_state_unchanged):
    one, same, other, third = (
        weights(trainer(random_state=state).train(*data, *path)[0])
        for state, path in [(0, (1, 2)), (0, (1, 2)), (0, (1, 3)), (1, (1, 2))]
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, third)
    draws = [trainer(random_state=s).rng(*p).random() for s, p in [(0, (1,)), (0, (1,)), (0, (2,))]]
    assert draws[0] == draws[1] != draws[2]


def test_path_zero_is_the_supervised_classifier(tiny_encoder, tiny_texts):
    y = np.arange(24) % 2
    net = BertClassifier(tiny_encoder, max_length=16, max_epochs=2, random_state=4)
    run = trainer(net, random_state=4, finetune_epochs=2)
    X = net.encode(tiny_texts)
    ours, losses = run.train(X, y, 0)
    alone = net.fit(tiny_texts, y)
    np.testing.assert_array_equal(run.probabilities(ours, X), alone.predict_proba(tiny_texts))
    assert len(losses) == 2


@pytest.mark.parametrize("balanced", [True, False])
def test_the_learning_rate_falls_to_zero_over_the_epochs(data, balanced):
    class Rates(Callback):
        seen: list = []  # noqa: RUF012

        def on_grad_computed(self, net, **kwargs):
            self.seen.append(net.optimizer_.param_groups[0]["lr"])

    run = trainer(mlp_net(callbacks=[("rates", Rates())]), balanced_batches=balanced)
    net, losses = run.train(*data, 1, epochs=5)
    assert len(losses) == 5
    np.testing.assert_allclose(Rates.seen, 0.1 * (1 - np.arange(20) / 20))
    assert net.optimizer_.param_groups[0]["lr"] == 0.1


def test_sample_weights_scale_the_loss_of_their_rows(data):
    X, y = data
    w = np.where(np.arange(30) < 10, 3.0, 0.0)
    plain, weighted = (trainer().train(X, y, 1, weights=given)[0] for given in (None, w))
    assert not torch.equal(weights(plain), weights(weighted))
    flipped = np.where(np.arange(30) < 10, y, 1 - y)  # rows of weight zero have no effect
    settings = {"balanced_batches": False}
    one, two = (trainer(**settings).train(X, codes, 1, weights=w)[0] for codes in (y, flipped))
    assert torch.equal(weights(one), weights(two))


def test_another_net_may_be_given(data):
    run = trainer()
    own = mlp_net(module__n_hidden=5)
    net, _ = run.train(*data, 1, net=own)
    assert net.module_.first.out_features == 5
    assert not own.initialized_
    assert run.train(*data, 1)[0].module_.first.out_features == 16


def test_outputs_are_checked_once_for_each_net(data, monkeypatch):
    checked = []
    monkeypatch.setattr(module, "check_outputs", lambda net, X, K: checked.append((net, len(X), K)))
    run, own = trainer(), mlp_net()
    for net in (None, None, own, own):
        run.train(*data, 1, net=net)
    assert [each[1:] for each in checked] == [(1, 2)] * 2
    monkeypatch.undo()
    with pytest.raises(ValueError, match="SoftmaxMLP returns probabilities"):
        trainer(mlp_net(SoftmaxMLP)).train(*data, 1)


def test_a_callback_after_each_epoch_does_not_change_the_training(data):
    seen = []
    run = trainer(mlp_net(module=MLP))

    def watch(net, epoch):
        random.random(), np.random.rand(), torch.rand(3)  # noqa: NPY002
        seen.append((epoch, run.probabilities(net, data[0])))
        return epoch == 4

    net, losses = run.train(*data, 1, epochs=6, on_epoch=watch)
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4]
    assert len(losses) == 4
    np.testing.assert_array_equal(seen[-1][1], run.probabilities(net, data[0]))
    # the rate falls over six epochs, whether all are run or not
    whole, more = run.train(*data, 1, epochs=6)
    assert more[:4] == losses
    assert not torch.equal(weights(whole), weights(net))
    short, _ = run.train(*data, 1, epochs=4)
    assert not torch.equal(weights(short), weights(net))
    unwatched, _ = run.train(*data, 1, epochs=6, on_epoch=lambda net, epoch: epoch == 4)
    assert torch.equal(weights(unwatched), weights(net))


def test_probabilities_are_the_softmax_of_the_logits(data, monkeypatch):
    run = trainer()
    net, _ = run.train(*data, 1)
    done = []
    monkeypatch.setattr(run.progress, "advance", done.append)
    with torch.no_grad():
        z = net.module_(torch.from_numpy(data[0])).double().numpy()
    np.testing.assert_allclose(run.probabilities(net, data[0]), softmax(z, axis=1), atol=1e-7)
    assert done == [8, 8, 8, 6]


def test_the_optimizer_is_released(data):
    net, _ = trainer(mlp_net(optimizer=torch.optim.Adam)).train(*data, 1)
    assert not net.optimizer_.state


def test_seconds_are_added_up(monkeypatch):
    clock = iter([1.0, 3.0, 10.0, 10.5, 20.0, 21.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    seconds: dict[str, float] = {}
    for name in ("training", "training", "labeling"):
        with timed(seconds, name):
            pass
    assert seconds == {"training": 2.5, "labeling": 1.0}
