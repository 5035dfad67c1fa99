"""Tests of which code is known, and that the shortcuts run with it and with no other."""

import functools
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from helpers.nets import WithoutDropout, bert_net, of_many_lengths
from sklearn.metrics import f1_score, make_scorer
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, EpochScoring, Freezer, PrintLog
from torch import nn
from torch.utils.data import DataLoader

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt.baselines import MutualLearningClassifier, ThrottledSelfTrainingClassifier
from sklearn_spt.nets._kernels import plain
from sklearn_spt.nets._known_code import is_known, is_known_callback, is_known_net
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._word_table import WordsInUse
from sklearn_spt.text._rows import Rows


def of_the_user(*args, **kwargs):
    """Do nothing."""


class Own(Callback):
    """A callback of the user's."""

    def method(self):
        """Do nothing."""


class OwnLoss(nn.CrossEntropyLoss):
    """A loss of the user's."""


@pytest.mark.parametrize(
    ("code", "known"),
    [
        (print, True),
        (slanted, True),
        (functools.partial(slanted, n_steps=3), True),
        (torch.optim.AdamW, True),
        (nn.CrossEntropyLoss(), True),
        (EarlyStopping().initialize, True),
        (of_the_user, False),
        (functools.partial(of_the_user, 1), False),
        (functools.partial(slanted, of_the_user), False),
        (functools.partial(slanted, n_steps=of_the_user), False),
        (functools.wraps(f1_score)(of_the_user), False),
        (Own, False),
        (Own().method, False),
        (Own().initialize, False),  # a method of skorch's, of an object of the user's
    ],
)
def test_known_code(code, known):
    assert is_known(code) is known


@pytest.mark.parametrize(
    ("callback", "known"),
    [
        (EpochScoring("accuracy", on_train=True), True),
        (EpochScoring(make_scorer(f1_score), on_train=True), True),
        (EpochScoring(of_the_user), False),
        (Freezer(["module.encoder*"]), True),
        (Freezer([of_the_user]), False),
        (EarlyStopping("train_loss"), True),
        (Checkpoint(monitor=of_the_user), False),
        (PrintLog(sink=of_the_user), False),
        (Own(), False),
    ],
)
def test_known_callbacks_before_and_after_they_are_initialised(tiny_checkpoint, callback, known):
    net = bert_net(tiny_checkpoint, classes=[0, 1], callbacks=[("given", callback)], device="cpu")
    assert is_known_callback(callback) is known
    assert is_known_net(net) is False  # who was given any is asked again
    assert is_known_net(net.initialize()) is known


@pytest.mark.parametrize(
    "params",
    [
        {"module": WithoutDropout},
        {"criterion": OwnLoss},
        {"iterator_train": type("Iterator", (DataLoader,), {})},
        {"callbacks": [Own]},
        {"callbacks__print_log": Own()},
    ],
    ids=lambda params: next(iter(params)),
)
def test_a_part_of_the_users_is_not_known(tiny_checkpoint, params):
    net = bert_net(tiny_checkpoint, classes=[0, 1], device="cpu", **params)
    assert not is_known_net(net)
    assert not is_known_net(net.initialize())


def test_plain_nets_are_known(tiny_checkpoint):
    net = bert_net(tiny_checkpoint, classes=[0, 1], device="cpu")
    assert is_known_net(net)
    assert is_known_net(net.initialize())
    assert is_known_net(NeuralNetClassifier(nn.Linear, callbacks="disable"))


@pytest.mark.parametrize("name", ["fit_loop", "get_dataset", "on_batch_end", "train_step", "infer"])
def test_a_net_with_a_method_of_the_users_is_not_known(tiny_checkpoint, name):
    own = type("Net", (BertClassifier,), {"__module__": "users", name: of_the_user})
    assert not is_known_net(own(tiny_checkpoint))
    net = bert_net(tiny_checkpoint)
    setattr(net, name, of_the_user)
    assert not is_known_net(net)


# -- the shortcuts -------------------------------------------------------------------------------
@pytest.fixture
def watched(monkeypatch):
    """What batches were made of, and which tables words were looked up in, in training."""
    seen = {"documents": set(), "tables": set()}
    fit_loop, train_step = BertClassifier.fit_loop, BertClassifier.train_step_single

    def documents(self, X, *args, **kwargs):
        seen["documents"].add(type(X))
        return fit_loop(self, X, *args, **kwargs)

    def tables(self, *args, **kwargs):
        seen["tables"].add(type(self.module_.encoder.model.get_input_embeddings()))
        return train_step(self, *args, **kwargs)

    monkeypatch.setattr(BertClassifier, "fit_loop", documents)
    monkeypatch.setattr(BertClassifier, "train_step_single", tables)
    return seen


def fit(method, net, texts):
    """Fit a method to texts of which a third has no label."""
    y = np.arange(len(texts)) % 2
    if method is None:
        return net.fit(texts, y)
    y[1::3] = -1
    return method(net, random_state=0).fit(texts, y)


@pytest.mark.parametrize(
    "method",
    [
        None,
        functools.partial(SelfPretrainingClassifier, step_size=0.5),
        functools.partial(SelfPretrainingClassifier, step_size=0.5, lr_schedule="slanted"),
        functools.partial(SelfPretrainingClassifier, step_size=0.5, two_stage=False),
        functools.partial(ThrottledSelfTrainingClassifier, n_iterations=1, theta=0.0),
    ],
    ids=["supervised", "self-pretraining", "slanted", "one stage", "self-training"],
)
def test_known_code_takes_the_shortcuts(tiny_checkpoint, tiny_texts, watched, method):
    texts, _ = of_many_lengths(tiny_texts, tiny_texts, 30)
    fit(method, bert_net(tiny_checkpoint, max_epochs=1, device="cpu"), texts)
    assert watched == {"documents": {Rows}, "tables": {WordsInUse}}


def test_nets_that_are_trained_together_share_them(tiny_checkpoint, tiny_texts, monkeypatch):
    taken = []
    select = BertClassifier.select_rows
    monkeypatch.setattr(
        BertClassifier, "select_rows", lambda *args: taken.append(select(*args)) or taken[-1]
    )
    texts, _ = of_many_lengths(tiny_texts, tiny_texts, 30)
    fit(MutualLearningClassifier, bert_net(tiny_checkpoint, device="cpu"), texts)
    assert {type(rows) for rows in taken} == {Rows}


class Substitutes(BertClassifier):
    """Puts another word into each training text, where skorch builds the data set."""

    def get_dataset(self, X, y=None):
        """Replace ids by comparison."""
        word = np.bincount(np.asarray(X).ravel())[5:].argmax() + 5
        return super().get_dataset(np.where(word == X, 4, X), y)


@pytest.mark.parametrize("own", [Substitutes, Own], ids=["method", "callback"])
def test_code_of_the_users_does_not(tiny_checkpoint, tiny_texts, watched, own):
    texts, _ = of_many_lengths(tiny_texts, tiny_texts, 30)
    net = bert_net(tiny_checkpoint, max_epochs=1, device="cpu")
    if own is Own:
        net.set_params(callbacks=[("own", Own())])
    else:
        net = Substitutes(**net.get_params(deep=False))
    found = fit(functools.partial(SelfPretrainingClassifier, step_size=0.5), net, texts)
    assert isinstance(found, BaseSemiSupervisedClassifier)
    assert watched == {"documents": {np.ndarray}, "tables": {nn.Embedding}}


def test_shortcuts_change_no_digit_of_a_fit_that_takes_none(tiny_checkpoint, tiny_texts):
    texts, _ = of_many_lengths(tiny_texts, tiny_texts, 30)
    out = []
    for way in (nullcontext(), plain("rows", "word_table")):
        with way:
            net = Substitutes(tiny_checkpoint, max_length=24, device="cpu", random_state=0)
            out.append(fit(None, net, texts).predict_proba(texts))
    np.testing.assert_array_equal(*out)
