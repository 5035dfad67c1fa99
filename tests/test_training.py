"""Training of nets: draws, callbacks, any skorch net and any kind of numbers."""

import gc
import pickle
import weakref

import joblib
import numpy as np
import pytest
import torch
from helpers import MLP, DropMLP, Net, bert_net, learner, mlp_net, points
from sklearn.model_selection import cross_val_score
from skorch import NeuralNet, NeuralNetClassifier
from skorch.callbacks import Callback, EarlyStopping, EpochScoring
from skorch.helper import SliceDict
from torch import nn
from tqdm.auto import tqdm

from sklearn_spt import _bert
from sklearn_spt._heads import linear_probe as probe
from sklearn_spt._random import seeded
from sklearn_spt._training import Trainer, predict_logits
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

X, Y, CODES = points()
CLASSES = np.array([0, 1])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)).astype(np.float32)
    return X, (X[:, 0] > 0.8).astype(np.intp)


def trainer(net=None, epochs=3):
    return Trainer(net or mlp_net(), CLASSES, epochs, True, 0, tqdm(disable=True))


class Notes(Callback):
    """Collects the rows of all training batches, and the events."""

    def initialize(self):
        self.rows, self.events = [], []
        return self

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.events.append("begin")

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        if training:
            self.rows.append(batch[0].numpy().copy())

    def on_epoch_end(self, net, **kwargs):
        self.events.append("epoch")

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.events.append("end")


# -- the loop --------------------------------------------------------------------------------------
def test_each_epoch_draws_its_rows(data):
    for balanced in (True, False):
        one = trainer(mlp_net(callbacks=[("notes", Notes())]), epochs=2)
        one.balanced = balanced
        net, losses = one.train(*data, np.ones(len(data[1])), 0)
        notes = dict(net.callbacks_)["notes"]
        first, second = np.split(np.concatenate(notes.rows)[:, 0], 2)
        assert len(first) == len(losses) * 15
        assert not np.array_equal(first, second)
        assert np.array_equal(np.sort(first), np.sort(data[0][:, 0])) is not balanced
        assert notes.events == ["begin", "epoch", "epoch", "end"]


def test_training_lowers_the_loss_and_leaves_nothing_behind(data):
    net, losses = trainer(epochs=30).train(*data, np.ones(len(data[1])), 0)
    assert losses[-1] < 0.5 * losses[0]
    assert "learning_rate" not in dict(net.callbacks_)
    assert all(weight.grad is None for weight in net.module_.parameters())
    assert not net.optimizer_.state
    gc.disable()
    try:  # a module is freed without a garbage collection
        predict_logits(net, data[0], 2)
        module = weakref.ref(net.module_)
        del net
        assert module() is None
    finally:
        gc.enable()


def test_early_stopping_ends_a_stage_and_not_the_fit():
    never_better = {"threshold": 10.0, "threshold_mode": "abs", "sink": lambda text: None}
    stop = EarlyStopping("train_loss", patience=2, **never_better)
    params = {"pretrain_epochs": 8, "finetune_epochs": 9}
    clf = learner(mlp_net(callbacks=[stop]), **params).fit(X, Y)
    for entry in clf.history_[1:]:
        assert len(entry["loss"]["stage1"]) < 8
        assert len(entry["loss"]["stage2"]) < 9
    assert clf.n_iter_ == 2


def test_ctrl_c_is_raised(data):
    class Interrupt(Callback):
        def on_batch_end(self, net, **kwargs):
            raise KeyboardInterrupt

    for more in ([], [EarlyStopping("train_loss")]):
        with pytest.raises(KeyboardInterrupt):
            trainer(mlp_net(callbacks=[Interrupt(), *more])).train(*data, np.ones(len(data[1])), 0)


def test_own_callbacks_are_called_and_may_be_disabled():
    X, y, _ = points()
    scoring = EpochScoring(lambda net, X, y: 1.0, name="own", on_train=True)
    clf = learner(mlp_net(callbacks=[scoring]), max_iter=1).fit(X, y)
    assert clf.students_[0].history[:, "own"] == [1.0] * 4
    learner(mlp_net(callbacks="disable"), max_iter=1).fit(X, y)


def test_batches_that_are_dropped():
    dropped = mlp_net(batch_size=20, iterator_train__drop_last=True, callbacks=[("n", Notes())])
    clf = learner(dropped, step_size=1.0).fit(X, Y)
    rows = dict(clf.students_[0].callbacks_)["n"].rows
    assert [len(batch) for batch in rows] == [20] * 6  # three of 62 rows, then one of 28 in turn
    with pytest.raises(ValueError, match=r"yields no batch from 28 rows.*drop_last=False"):
        learner(mlp_net(batch_size=64, iterator_train__drop_last=True)).fit(X, Y)


def test_nets_for_the_same_rows_share_one_probe(tiny_encoder, tiny_texts, monkeypatch):
    net, probes = bert_net(tiny_encoder), []
    monkeypatch.setattr(_bert, "linear_probe", lambda *a, **k: probes.append(1) or probe(*a, **k))
    X, codes, one = net.encode(tiny_texts), np.array([0, 1] * 12), trainer(net)
    data = X, codes, np.ones(24)
    other = X[:12].copy(), 1 - codes[:12], np.ones(12)
    heads = []
    for rows in (data, data, other, data):
        with seeded(0):
            heads.append(one.fresh(*rows).module_.head.weight.detach().numpy().copy())
    assert len(probes) == 3
    np.testing.assert_array_equal(heads[0], heads[1])
    np.testing.assert_array_equal(heads[0], heads[3])
    assert not np.allclose(heads[0], heads[2])


class Lazy(MLP):
    """Draws the weights of its last layer in the first forward."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.last = nn.LazyLinear(2)

    def forward(self, X):
        return self.last(torch.relu(self.first(X)))


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_lazy_layers_of_nets_differ():
    clf = learner(mlp_net(module=Lazy), n_teachers=3, max_iter=0, finetune_epochs=0).fit(X, Y)
    weights = [net.module_.last.weight[0, 0].item() for net in clf.estimators_]
    assert len(set(weights)) == 3


def test_a_trainer_is_a_key_of_joblib():
    """Its hash does not change by training, and depends on what a result depends on."""
    first, second = trainer(), trainer()
    first.train(np.zeros((4, 2), dtype=np.float32), np.array([0, 1, 0, 1]), np.ones(4), 0)
    assert joblib.hash(first) == joblib.hash(second)
    assert joblib.hash(first) != joblib.hash(trainer(mlp_net(lr=0.2)))
    assert joblib.hash(first) != joblib.hash(trainer(epochs=4))
    pickle.loads(pickle.dumps(first))


# -- any net ---------------------------------------------------------------------------------------
class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = MLP()

    def forward(self, left, right):
        return self.mlp(torch.cat([left, right], dim=1))


class Convolution(nn.Module):
    def __init__(self, n_classes=2):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.last = nn.Linear(4 * 16, n_classes)

    def forward(self, x):
        return self.last(torch.relu(self.convolution(x.reshape(-1, 1, 4, 4))).flatten(1))


def test_the_template_is_cloned_and_stays_as_it_is(capfd):
    net = mlp_net(module__n_hidden=5)
    before = repr(net)
    clf = learner(net).fit(X, Y)
    assert not net.initialized_
    assert repr(net) == before
    assert net.train_split is not None
    assert net.criterion is nn.NLLLoss
    assert clf.students_[0].module_.first.out_features == 5
    assert (clf.students_[0].train_split, clf.students_[0].classes) == (None, [0, 1])
    fitted = learner(clf.students_[0]).fit(X, Y)  # a fitted net is used like an unfitted one
    np.testing.assert_array_equal(fitted.predict_proba(X), clf.predict_proba(X))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", [NeuralNet, NeuralNetClassifier, Net])
def test_kinds_of_skorch_nets(kind):
    settings = {"lr": 0.1, "batch_size": 8, "criterion": nn.CrossEntropyLoss}
    clf = learner(kind(MLP, **settings)).fit(X, Y)
    expected = learner().fit(X, Y)
    np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
    assert clf.score(X, CODES) > 0.6


@pytest.mark.parametrize("shape", [(4, 4), (1, 4, 4)])
def test_images(shape):
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    images = rng.normal(size=(60, *shape)) + codes.reshape(-1, *[1] * len(shape))
    net = NeuralNetClassifier(Convolution, lr=0.05, optimizer=torch.optim.Adam, batch_size=8)
    clf = learner(net).fit(images, np.where(np.arange(60) < 16, codes, -1))
    assert clf.predict_proba(images).shape == (60, 2)
    assert clf.score(images, codes) > 0.7


def test_several_inputs_in_a_dict():
    clf = learner().fit(X, Y)
    expected, score = clf.predict_proba(X), clf.score(X, Y)
    net = NeuralNetClassifier(TwoInputs, lr=0.1, batch_size=8)
    for kind in (lambda part: part, lambda part: part.tolist(), lambda part: part.astype(float)):
        parts = {"left": kind(X[:, :1]), "right": kind(X[:, 1:])}
        clf.set_params(estimator=net).fit(parts, Y)
        np.testing.assert_array_equal(clf.predict_proba(parts), expected)
        assert clf.score(parts, Y) == score
        assert not hasattr(clf, "n_features_in_"), "a fit forgets what an earlier one saw"
    labeled = np.flatnonzero(Y >= 0)
    some, others = ({k: np.asarray(v)[rows] for k, v in parts.items()} for rows in
                    (labeled, np.flatnonzero(Y < 0)))  # fmt: skip
    apart = learner(net).fit(some, CODES[labeled], X_unlabeled=others)
    np.testing.assert_array_equal(apart.predict_proba(parts), expected)
    cv = SemiSupervisedStratifiedKFold(2)
    sliced = SliceDict(left=X[:, :1], right=X[:, 1:])
    found = cross_val_score(learner(net), sliced, Y, cv=cv, error_score="raise")
    np.testing.assert_array_equal(found, cross_val_score(learner(), X, Y, cv=cv))


@pytest.mark.parametrize("dtype", ["float64", ">f4", "float16", "int64", "uint8", "bool", "object"])
def test_numbers_of_any_kind(dtype):
    X, y, _ = points()
    X = np.clip(np.rint(X), 0, 1)
    read_only = X.astype(dtype)
    read_only.flags.writeable = False
    clf = learner(max_iter=1).fit(read_only, y)
    expected = learner(max_iter=1).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X.tolist()), expected.predict_proba(X))
    assert clf.n_features_in_ == 2


def test_dropout_follows_the_seed():
    first, second = (learner(mlp_net(DropMLP), max_iter=1).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    np.testing.assert_array_equal(first.predict_proba(X), first.predict_proba(X))
    other = learner(mlp_net(DropMLP), max_iter=1, random_state=1).fit(X, Y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
