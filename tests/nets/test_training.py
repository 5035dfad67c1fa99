"""Random states, fresh nets, training and logits."""

from __future__ import annotations

import gc
import pickle
import random
import weakref

import numpy as np
import pytest
import torch
from helpers.nets import MLP, NaNMLP, SoftmaxMLP, mlp_net
from sklearn.base import clone
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping
from skorch.dataset import Dataset
from torch import nn

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt._progress import Progress
from sklearn_spt._random import isolated, root_seed
from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.nets._callbacks import ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, one_hot
from sklearn_spt.nets._parts import optimizers
from sklearn_spt.nets._training import (
    check_outputs,
    fresh_net,
    n_steps,
    predict_logits,
    release_optimizer,
    set_loss,
    train,
)

CLASSES = np.array([0, 1])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)).astype(np.float32)
    codes = (X[:, 0] > 0.8).astype(np.int64)
    return X, codes, distillation_targets(one_hot(codes, 2), None)


def run(net, data, epochs=2, balanced=True, on_epoch=None):
    X, codes, targets = data
    with Progress(0, 0, "") as progress:
        return train(
            net,
            X,
            targets,
            codes,
            epochs=epochs,
            schedule=ScheduledLR(lambda step: 1.0).initialize(),
            balanced=balanced,
            rng=np.random.default_rng(0),
            progress=progress,
            on_epoch=on_epoch,
        )


# -- random state ------------------------------------------------------------------------------
def test_isolated_seeds_and_restores_every_generator(global_random_state_unchanged):
    def numbers():
        with isolated(5):
            return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002

    assert numbers() == numbers()
    threads = torch.get_num_threads()
    with pytest.raises(RuntimeError, match=f"^{threads + 1}$"), isolated(1, n_threads=threads + 1):
        raise RuntimeError(torch.get_num_threads())
    assert torch.get_num_threads() == threads


def test_root_seed(global_random_state_unchanged):
    assert root_seed(7) == root_seed(np.int64(7)) == 7
    assert root_seed(np.random.RandomState(0)) == root_seed(np.random.RandomState(0))
    assert root_seed(None) != root_seed(None)
    assert root_seed(None) >= 0


@pytest.mark.parametrize("bad", ["0", 1.5, True, -1])
def test_bad_random_states(bad):
    with pytest.raises(ValueError, match="random_state must"):
        root_seed(bad)


# -- fresh nets --------------------------------------------------------------------------------
def test_fresh_net_changes_only_the_documented_parameters(capfd):
    template = mlp_net(module__n_hidden=5, iterator_train__num_workers=0, max_epochs=99)
    before = template.get_params(deep=False)
    net = fresh_net(template, CLASSES, max_epochs=4)
    after = net.get_params(deep=False)
    changed = {
        key
        for key in after.keys() | before.keys()
        if not key.startswith("_") and repr(before.get(key)) != repr(after.get(key))
    }
    criterion = {"criterion", "criterion__lam", "criterion__temperature"}
    assert changed == criterion | {"train_split", "max_epochs", "classes"}
    assert template.get_params(deep=False).keys() == before.keys()
    assert not template.initialized_
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("keep", [True, False])
def test_set_loss_keeps_the_weights_and_on_request_the_optimizer(data, keep):
    net = fresh_net(mlp_net(optimizer=torch.optim.Adam), CLASSES, 1)
    run(net, data)
    weights = net.module_.first.weight.clone()
    moments = [s["exp_avg"].clone() for s in net.optimizer_.state.values()]
    assert moments
    set_loss(net, lam=1.0, temperature=3.0, max_epochs=7, keep_optimizer=keep)
    assert torch.equal(net.module_.first.weight, weights)
    assert (net.criterion_.lam, net.criterion_.temperature, net.max_epochs) == (1.0, 3.0, 7)
    kept = [s["exp_avg"] for s in net.optimizer_.state.values()]
    assert len(kept) == (len(moments) if keep else 0)
    assert all(torch.equal(a, b) for a, b in zip(moments, kept, strict=keep))


# -- training ----------------------------------------------------------------------------------
class Notes(Callback):
    """Collects the rows of all training batches, and the events of a training run."""

    def initialize(self):
        self.rows, self.events = [], []
        return self

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.events.append("begin")

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        self.rows.append(batch[0].numpy().copy())

    def on_epoch_end(self, net, **kwargs):
        self.events.append("epoch")

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.events.append("end")


@pytest.mark.parametrize("balanced", [True, False])
def test_each_epoch_draws_its_rows(data, balanced):
    net = fresh_net(mlp_net(callbacks=[("notes", Notes())]), CLASSES, 2)
    run(net, data, epochs=2, balanced=balanced)
    seen = np.concatenate(dict(net.callbacks_)["notes"].rows)
    n = len(data[0])
    first, second = seen[:n], seen[n:]
    assert len(second) == n
    assert not np.array_equal(first, second)
    whole = np.array_equal(np.sort(first[:, 0]), np.sort(data[0][:, 0]))
    assert whole is not balanced


def test_training_lowers_the_loss_and_leaves_no_callback(data):
    net = fresh_net(mlp_net(), CLASSES, 30)
    names = [name for name, _ in net.callbacks_]
    losses = run(net, data, epochs=30)
    assert len(losses) == 30
    assert losses[-1] < 0.5 * losses[0]
    assert [name for name, _ in net.callbacks_] == names
    assert net.verbose == 1  # restored


class WholeState(torch.optim.AdamW):
    """Its pickle holds all attributes."""

    def __getstate__(self):
        return self.__dict__.copy()


class Pickles(Callback):
    """Pickles the net in the middle of the training."""

    def on_epoch_end(self, net, **kwargs):
        pickle.dumps(optimizers(net))


@pytest.mark.parametrize("kind", ["net", "joint"])
def test_a_fit_on_the_cpu_asks_no_accelerator(data, monkeypatch, kind):
    """Each of these functions starts CUDA where it is."""
    asked = []
    for place, name in (
        (torch.cuda, "is_available"),
        (torch.cuda, "current_device"),
        (torch.accelerator, "is_available"),
        (torch.accelerator, "current_stream"),
    ):
        monkeypatch.setattr(place, name, lambda *args, name=name: asked.append(name))

    def accelerator(check_available=False):
        if check_available:  # without it, torch names what it was built for
            asked.append("current_accelerator")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", accelerator)
    net = mlp_net(optimizer=WholeState, device="cpu", callbacks=[Pickles()])
    y = np.where(np.arange(30) < 20, data[1], -1)
    clf = (SelfPretrainingClassifier if kind == "net" else MutualLearningClassifier)(net)
    clf.fit(data[0], y).predict(data[0])
    assert asked == []
    (optimizer, *_) = optimizers(clf.estimators_[0]).values()
    assert not any("health_check" in name for name in vars(optimizer))


# -- on_epoch and callbacks --------------------------------------------------------------------
def test_on_epoch_is_called_after_each_epoch_with_the_net(data):
    net = fresh_net(mlp_net(optimizer=torch.optim.Adam), CLASSES, 4)
    seen = []

    def after(given, epoch):
        seen.append((given is net, epoch, len(net.history), net.module_.first.weight.clone()))

    losses = run(net, data, epochs=4, on_epoch=after)
    assert len(losses) == 4
    assert [each[:3] for each in seen] == [(True, epoch, epoch) for epoch in (1, 2, 3, 4)]
    assert not torch.equal(seen[0][3], seen[1][3])
    assert torch.equal(seen[3][3], net.module_.first.weight)
    assert run(net, data, epochs=0, on_epoch=after) == []  # nothing is trained
    assert len(seen) == 4
    assert torch.equal(seen[3][3], net.module_.first.weight)
    assert net.optimizer_.state
    release_optimizer(net)
    assert not net.optimizer_.state


@pytest.mark.parametrize("last", [1, 3, 5])
def test_on_epoch_ends_the_training_by_returning_true(data, last):
    net = fresh_net(mlp_net(callbacks=[("notes", Notes())]), CLASSES, 5)
    losses = run(net, data, epochs=5, on_epoch=lambda net, epoch: epoch == last)
    assert len(losses) == last
    assert dict(net.callbacks_)["notes"].events == ["begin", *["epoch"] * last, "end"]


def test_early_stopping_ends_the_training(data):
    stop = EarlyStopping(monitor="train_loss", patience=2, threshold=10.0, sink=lambda text: None)
    seen = []
    net = fresh_net(mlp_net(callbacks=[stop]), CLASSES, 50)
    losses = run(net, data, epochs=50, on_epoch=lambda net, epoch: seen.append(epoch))
    alone = run(fresh_net(mlp_net(callbacks=[clone(stop)]), CLASSES, 50), data, epochs=50)
    assert seen == list(range(1, len(losses) + 1))  # on_epoch is called for the last epoch too
    assert len(losses) == len(alone) < 10


def test_on_epoch_does_not_change_the_random_stream(data):
    def draw(net, epoch):
        net.module_.eval()
        random.random(), np.random.rand(), torch.rand(3)  # noqa: NPY002

    def with_dropout():
        return nn.Sequential(nn.Dropout(0.3), MLP())

    def trained(on_epoch):
        with isolated(3):
            net = fresh_net(mlp_net(module=with_dropout), CLASSES, 3)
            losses = run(net, data, epochs=3, on_epoch=on_epoch)
        return losses, net.module_[1].first.weight

    (plain, weights), (watched, same) = trained(None), trained(draw)
    assert watched == plain
    assert torch.equal(weights, same)


def test_ctrl_c_is_raised(data):
    class Interrupt(Callback):
        def on_batch_end(self, net, **kwargs):
            raise KeyboardInterrupt

    net = fresh_net(mlp_net(callbacks=[Interrupt()]), CLASSES, 2)
    with pytest.raises(KeyboardInterrupt):
        run(net, data)
    assert "learning_rate" not in dict(net.callbacks_)


def test_callbacks_can_be_disabled(data):
    net = fresh_net(mlp_net(callbacks="disable"), CLASSES, 1)
    assert np.isfinite(run(net, data, epochs=1)).all()


def test_a_diverging_net_raises_an_error(data):
    net = fresh_net(mlp_net(lr=1e30), CLASSES, 5)
    with pytest.raises(ValueError, match=r"training loss became .* lower the learning rate"):
        run(net, data, epochs=5)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 12),
        ({"iterator_train__batch_size": 10}, 9),
        ({"iterator_train__drop_last": True}, 9),
    ],
)
def test_n_steps_follow_the_iterator_of_the_net(data, params, expected):
    X, _, targets = data
    net = fresh_net(mlp_net(batch_size=8, **params), CLASSES, 1)
    assert n_steps(net, X, targets, 3) == expected


def test_an_epoch_without_a_batch_raises_an_error(data):
    net = fresh_net(mlp_net(batch_size=64, iterator_train__drop_last=True), CLASSES, 1)
    with pytest.raises(ValueError, match="yields no batch from 30 rows"):
        n_steps(net, data[0], data[2], 1)


# -- logits ------------------------------------------------------------------------------------
def test_predict_logits_runs_the_module_in_evaluation_mode(data):
    net = fresh_net(mlp_net(), CLASSES, 1)
    expected = net.module_(torch.from_numpy(data[0])).detach().numpy()
    np.testing.assert_allclose(predict_logits(net, data[0], 2), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (mlp_net(module__n_classes=3), r"logits of shape \(n, 2\).*returned shape \(30, 3\)"),
        (mlp_net(NaNMLP), "NaN or infinite logits for 30 of 30 rows"),
    ],
)
def test_bad_logits(data, net, message):
    with pytest.raises(ValueError, match=message):
        predict_logits(fresh_net(net, CLASSES, 1), data[0], 2)


def test_probabilities_instead_of_logits(data):
    with pytest.raises(ValueError, match="SoftmaxMLP returns probabilities"):
        check_outputs(fresh_net(mlp_net(SoftmaxMLP), CLASSES, 1), data[0], 2)
    assert check_outputs(fresh_net(mlp_net(MLP), CLASSES, 1), data[0], 2) is None


class Tempered(NeuralNetClassifier):
    """Keeps on itself, while it predicts, what its step divides by."""

    divisor = 1.0

    def forward_iter(self, X, training=False, device="cpu"):
        self.divisor = 2.0
        yield from super().forward_iter(X, training=training, device=device)

    def evaluation_step(self, batch, training=False):
        return super().evaluation_step(batch, training) / self.divisor


class Triples(Dataset):
    """Adds a third part to each row."""

    def __getitem__(self, i):
        return *super().__getitem__(i), 0


class OfTriples(NeuralNetClassifier):
    def train_step_single(self, batch, **fit_params):
        return super().train_step_single(batch[:2], **fit_params)

    def evaluation_step(self, batch, training=False):
        return super().evaluation_step(batch[:2], training)


class Whole(NeuralNetClassifier):
    """Predicts without batches."""

    def forward(self, X, training=False, device="cpu"):
        return self.module_(torch.as_tensor(X)).detach()


@pytest.mark.parametrize("kind", [Tempered, OfTriples, Whole])
def test_rows_of_nets_with_their_own_methods_are_counted(data, kind):
    settings = {"dataset": Triples} if kind is OfTriples else {}
    net = fresh_net(kind(MLP, batch_size=8, **settings), CLASSES, 1)
    counts = []
    logits = predict_logits(net, data[0], 2, counts.append)
    plain = net.module_(torch.from_numpy(data[0])).detach().numpy()
    np.testing.assert_allclose(logits, plain / (2 if kind is Tempered else 1), rtol=1e-6)
    assert counts == ([30] if kind is Whole else [8, 8, 8, 6])
    assert "divisor" not in vars(net)


def test_what_a_net_needed_is_freed_without_a_garbage_collection(data):
    """Gradients at the end of a training run, and the view of a prediction."""
    net = fresh_net(mlp_net(), CLASSES, 1)
    run(net, data)
    assert all(weight.grad is None for weight in net.module_.parameters())
    gc.disable()
    try:
        predict_logits(net, data[0], 2)
        module = weakref.ref(net.module_)
        del net
        assert module() is None
    finally:
        gc.enable()


def test_no_epoch_is_no_error_for_callbacks(data):
    stopping = EarlyStopping("train_loss", load_best=True)
    net = fresh_net(mlp_net(callbacks=[stopping]), CLASSES, 0)
    assert run(net, data, epochs=0) == []
