"""Training the words in use gives what training the whole word table gives."""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback, Checkpoint, EpochScoring
from torch import nn

from sklearn_spt import BertClassifier
from sklearn_spt.nets import _token_net
from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._kernels import plain
from sklearn_spt.nets._word_table import WordsInUse, only_words

N_WORDS, D = 50, 6


class Model(nn.Module):
    """A word table, its mean, and a layer, with the two methods of a transformers model."""

    def __init__(self, **table):
        super().__init__()
        self.words = nn.Embedding(N_WORDS, D, **table)
        self.out = nn.Linear(D, 2)

    def get_input_embeddings(self):
        """The word table."""
        return self.words

    def set_input_embeddings(self, table):
        """Another word table."""
        self.words = table

    def forward(self, ids):
        """Logits."""
        return self.out(self.words(ids).mean(dim=1))


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.0, fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
}


@pytest.fixture
def ids():
    """Batches over a few words; the padding is among them."""
    return np.random.default_rng(0).choice([0, 3, 4, 9, 20, 49], size=(12, 5, 7))


def model_of(**table):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Model(padding_idx=0, **table)


def steps(model, optimizer, batches):
    for batch in batches:
        optimizer.zero_grad()
        logits = model(torch.from_numpy(batch))
        nn.functional.cross_entropy(logits, torch.arange(len(batch)) % 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def assert_same(one, other):
    for (name, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6, msg=name)


class Still(Callback):
    """Turns the encoder's own dropout off."""

    def on_train_begin(self, net, **kwargs):
        """Set every probability to zero."""
        for module in net.module_.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0


def of(*optimizers):
    """What `only_words` asks for."""
    return lambda: list(optimizers)


# -- the same result -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_ends_at_the_same_weights_and_moments(name, ids):
    whole, small = model_of(), model_of()
    on_whole, on_small = (OPTIMIZERS[name](m.parameters()) for m in (whole, small))
    steps(whole, on_whole, ids)
    with only_words(small, lambda: [on_small], ids):
        assert isinstance(small.words, WordsInUse)
        assert small.words.weight.shape == (6, D)
        steps(small, on_small, ids)
    assert type(small.words) is nn.Embedding
    assert_same(whole, small)
    expected = on_whole.state.get(whole.words.weight, {})
    found = on_small.state.get(small.words.weight, {})
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        torch.testing.assert_close(torch.as_tensor(found[key]), torch.as_tensor(value))


def test_rows_with_moments_from_before_go_on_moving(ids):
    """A second run over other words: Adam still moves those of the first."""
    other = np.random.default_rng(1).choice([0, 5, 6, 9], size=(8, 5, 7))
    whole, small = model_of(), model_of()
    on_whole, on_small = (OPTIMIZERS["adamw"](m.parameters()) for m in (whole, small))
    for batches in (ids, other):
        steps(whole, on_whole, batches)
        with only_words(small, lambda: [on_small], batches):
            steps(small, on_small, batches)
    assert_same(whole, small)


def test_a_word_that_is_not_used_does_not_move(ids):
    model = model_of()
    before = model.words.weight.detach().clone()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    with only_words(model, lambda: [optimizer], ids):
        steps(model, optimizer, ids)
    moved = (model.words.weight != before).any(dim=1).nonzero().squeeze(1).tolist()
    assert moved == [3, 4, 9, 20, 49]  # 0 is the padding


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_net_ends_where_it_ends_without(tiny_checkpoint, tiny_texts, precision, trusting):
    texts, y = tiny_texts, np.arange(len(tiny_texts)) % 2
    settings = {
        "random_state": 0,
        "device": "cpu",
        "precision": precision,
        "dropout": 0.0,
        "max_length": 32,
        "max_epochs": 2,
        "lr": 1e-3,
    }
    nets = []
    for mode in (plain("word_table"), nullcontext()):
        with mode:
            net = BertClassifier(tiny_checkpoint, callbacks=[("still", Still())], **settings)
            nets.append(net.fit(texts, y))
    weights = [net.module_.encoder.model.get_input_embeddings().weight for net in nets]
    tolerance = 1e-5 if precision == "fp32" else 2e-3
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=tolerance)


# -- where it would not be the same --------------------------------------------------------------
class Own(torch.optim.AdamW):
    """Might do anything."""


@pytest.mark.parametrize(
    ("table", "optimizer"),
    [
        ({}, lambda p: torch.optim.AdamW(p, weight_decay=0.01)),
        ({}, lambda p: Own(p, weight_decay=0.0)),
        ({}, torch.optim.Adadelta),
        ({}, lambda p: torch.optim.SGD(list(p)[1:], lr=0.1)),  # of the layer alone
        ({"max_norm": 1.0}, OPTIMIZERS["sgd"]),
        ({"scale_grad_by_freq": True}, OPTIMIZERS["sgd"]),
    ],
)
def test_elsewhere_the_whole_table_is_trained(table, optimizer, ids):
    model = model_of(**table)
    with only_words(model, of(optimizer(model.parameters())), ids):
        assert type(model.words) is nn.Embedding


def test_a_frozen_table_and_the_plain_twin_keep_the_table(ids):
    model = model_of()
    with plain(), only_words(model, of(OPTIMIZERS["sgd"](model.parameters())), ids):
        assert type(model.words) is nn.Embedding
    model.words.weight.requires_grad_(False)
    with only_words(model, of(OPTIMIZERS["sgd"](model.parameters())), ids):
        assert type(model.words) is nn.Embedding


# -- what others see in the middle of training ---------------------------------------------------
def test_other_documents_can_be_looked_at_in_between(ids):
    model, twin = model_of(), model_of()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    steps(twin, OPTIMIZERS["sgd"](twin.parameters()), ids)
    everything = torch.arange(N_WORDS).reshape(10, 5)
    with only_words(model, lambda: [optimizer], ids):
        steps(model, optimizer, ids)
        model.eval()
        torch.testing.assert_close(model(everything), twin.eval()(everything))
        copied = pickle.loads(pickle.dumps(model))
        torch.testing.assert_close(copied(everything), twin(everything))
        model.train()
    assert model.words.training


def test_a_checkpoint_in_between_holds_the_whole_table(ids):
    model, later = model_of(), model_of()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    with only_words(model, lambda: [optimizer], ids):
        steps(model, optimizer, ids)
        kept = copy.deepcopy(model.state_dict())
        steps(model, optimizer, ids)
        model.load_state_dict(kept)
    later.load_state_dict(kept)
    assert_same(model, later)


def test_an_error_in_between_leaves_the_weights_reached_so_far(ids):
    model, twin = model_of(), model_of()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    steps(twin, OPTIMIZERS["adamw"](twin.parameters()), ids)

    def interrupted():
        with only_words(model, lambda: [optimizer], ids):
            steps(model, optimizer, ids)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert_same(model, twin)


def test_a_loss_of_the_users_sees_the_whole_table(tiny_checkpoint, tiny_texts):
    """It may decay all words, as this one does."""

    class Decaying(BertClassifier):
        def get_loss(self, *args, **kwargs):
            words = self.module_.encoder.model.get_input_embeddings().weight
            return super().get_loss(*args, **kwargs) + 0.1 * words.square().sum()

    y = np.arange(len(tiny_texts)) % 2
    net = Decaying(tiny_checkpoint, random_state=0, device="cpu", lr=1e-3, max_length=32)
    before = BertModule(tiny_checkpoint, 2).encoder.model.get_input_embeddings().weight.detach()
    after = net.fit(tiny_texts, y).module_.encoder.model.get_input_embeddings().weight
    moved = (after.detach() != before).any(dim=1)
    assert moved.sum() == (before != 0).any(dim=1).sum()


def test_a_function_of_the_users_sees_the_whole_table(tiny_checkpoint, tiny_texts):
    """In a callback of skorch's, and in a method of the net that skorch calls."""
    seen = []

    def score(net, X, y):
        seen.append(type(net.module_.encoder.model.get_input_embeddings()))
        return 0.0

    class Shrinking(BertClassifier):
        def on_batch_end(self, *args, **kwargs):
            super().on_batch_end(*args, **kwargs)
            seen.append(type(self.module_.encoder.model.get_input_embeddings()))

    y = np.arange(len(tiny_texts)) % 2
    settings = {"random_state": 0, "device": "cpu", "max_length": 32, "max_epochs": 1}
    scoring = ("scored", EpochScoring(score, on_train=True))
    BertClassifier(tiny_checkpoint, callbacks=[scoring], **settings).fit(tiny_texts, y)
    assert seen.pop() is nn.Embedding
    assert not seen
    Shrinking(tiny_checkpoint, **settings).fit(tiny_texts, y)
    assert set(seen) == {nn.Embedding}


def test_a_callback_of_the_users_sees_the_whole_table(tiny_checkpoint, tiny_texts):
    """It may remember weights by name, as this running mean does, also from fit to fit."""

    class Mean(Callback):
        kept = None

        def on_train_begin(self, net, **kwargs):
            self.follow(net)

        def on_batch_end(self, net, **kwargs):
            self.follow(net)

        def follow(self, net):
            weights = {k: w.detach().clone() for k, w in net.module_.named_parameters()}
            kept = Mean.kept or weights
            Mean.kept = {k: 0.9 * kept[k] + 0.1 * w for k, w in weights.items()}

    y = np.arange(len(tiny_texts)) % 2
    net = BertClassifier(tiny_checkpoint, device="cpu", callbacks=[Mean()], max_length=32)
    net.fit(tiny_texts, y).partial_fit(tiny_texts[:2], y[:2])
    for name, weight in net.module_.named_parameters():
        assert Mean.kept[name].shape == weight.shape


# -- what callbacks and modules may do in the middle ---------------------------------------------
@pytest.fixture
def trusting(monkeypatch):
    """Take all code for known: some of skorch's callbacks do such things as those below."""
    monkeypatch.setattr(_token_net, "is_known_net", lambda net: True)


def twice(make, first, second, **params):
    """Train twice, as in `partial_fit`, with the words in use and with the whole table."""
    out = []
    for mode in (plain(), nullcontext()):
        with mode:
            net = make(**params)
            net.fit(*first)
            net.partial_fit(*second)
        out.append(net.module_.encoder.model.get_input_embeddings())
    assert [type(table) for table in out] == [nn.Embedding] * 2
    return [table.weight.detach() for table in out]


@pytest.fixture
def make(tiny_checkpoint, trusting):
    def build(callbacks=(), **params):
        return BertClassifier(
            tiny_checkpoint,
            callbacks=[("still", Still()), *callbacks],
            **{
                "random_state": 0,
                "device": "cpu",
                "precision": "fp32",
                "dropout": 0.0,
                "max_length": 32,
                "max_epochs": 2,
                "lr": 1e-3,
                **params,
            },
        )

    return build


@pytest.fixture
def parts(tiny_texts):
    y = np.arange(len(tiny_texts)) % 2
    return (tiny_texts[:2], y[:2]), (tiny_texts, y)


def assert_same_weights(weights):
    torch.testing.assert_close(*weights, rtol=0, atol=1e-5)


def test_a_checkpoint_of_skorch_is_loaded_at_the_end(make, parts, tmp_path):
    def build(**params):
        best = Checkpoint(monitor="train_loss_best", dirname=str(tmp_path), load_best=True)
        return make(callbacks=[("best", best)], **params)

    assert_same_weights(twice(build, *parts))


class Rebuild(Callback):
    """Lets skorch build a new optimiser in the middle."""

    def on_epoch_end(self, net, **kwargs):
        """Change the loss."""
        net.set_params(criterion__temperature=2.0)


class Freeze(Callback):
    """Freezes the word table after an epoch."""

    def on_epoch_end(self, net, **kwargs):
        """Whichever table there is."""
        net.module_.encoder.model.get_input_embeddings().weight.requires_grad_(False)


class Peek(Callback):
    """Looks at other documents in training mode."""

    def on_epoch_end(self, net, **kwargs):
        """All words of the vocabulary."""
        ids = np.arange(5, 35, dtype=np.int32)[None]
        with torch.no_grad():
            net.forward(ids, training=True)


@pytest.mark.parametrize("callback", [Rebuild, Freeze, Peek])
def test_callbacks_in_the_middle(make, parts, callback):
    def build(**params):
        return make(callbacks=[("callback", callback())], **params)

    assert_same_weights(twice(build, *parts))


class WordDropout(BertModule):
    """Puts another word in the place of some in training."""

    def forward(self, ids):
        """Every third token becomes a word that no document has."""
        if self.training:
            ids = ids.clone()
            ids[:, 2::3] = 40
        return super().forward(ids)


def test_a_module_that_replaces_words_trains_the_new_ones_too(make, parts):
    weights = twice(make, *parts, module=WordDropout)
    assert_same_weights(weights)


class Copy(Callback):
    """Keeps copies of the net as it is in the middle."""

    def on_epoch_end(self, net, **kwargs):
        """By deepcopy and by pickle."""
        self.copies_ = [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]


def test_copies_from_the_middle_can_be_trained_on(make, parts):
    (texts, y), (others, labels) = parts
    keeper = Copy()
    weights = []
    for mode in (plain(), nullcontext()):
        with mode:
            net = make(callbacks=[("copy", keeper)], max_epochs=1).fit(texts, y)
            copies = dict(net.callbacks_)["copy"].copies_
            for one in copies:
                one.callbacks_ = [c for c in one.callbacks_ if c[0] != "copy"]
                np.testing.assert_allclose(one.predict_proba(others), net.predict_proba(others))
                one.partial_fit(others, labels)
                table = one.module_.encoder.model.get_input_embeddings()
                assert type(table) is nn.Embedding
                weights.append(table.weight.detach())
    assert_same_weights((weights[0], weights[2]))
    assert_same_weights((weights[1], weights[3]))
