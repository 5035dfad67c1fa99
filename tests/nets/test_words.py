"""Training of the word embeddings in use gives the bits of training all of them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback, Freezer, GradientNormClipping
from skorch.dataset import Dataset
from torch import nn

from sklearn_spt import BertClassifier, SpacedRepetitionClassifier
from sklearn_spt.nets import _token_net, _words
from sklearn_spt.nets._batching import TokenBatches
from sklearn_spt.nets._kernels import plain
from sklearn_spt.nets._losses import DistillationLoss
from sklearn_spt.nets._words import WordsInUse, words_in_use

IDS = np.array([[2, 5, 0], [2, 7, 5]], dtype=np.int32)


class Model(nn.Module):
    """Word embeddings of ten words and a linear layer, with the interface of transformers."""

    def __init__(self, **params):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(10, params.pop("width", 16), padding_idx=0, **params)
        self.last = nn.Linear(self.words.embedding_dim, 1)

    def get_input_embeddings(self):
        return self.words

    def set_input_embeddings(self, words):
        self.words = words

    def forward(self, ids):
        return self.last(self.words(ids)).sum()


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Let `Model` count as a known architecture."""
    inner = _words.may_be_packed
    monkeypatch.setattr(_words, "may_be_packed", lambda m: isinstance(m, Model) or inner(m))


def steps(model, optimizer, n=3):
    for _ in range(n):
        optimizer.zero_grad()
        model(torch.from_numpy(IDS).long()).backward()
        optimizer.step()


def test_weights_and_moments_are_those_of_the_whole_embedding():
    whole, model = Model(), Model()
    expected = torch.optim.AdamW(whole.parameters(), weight_decay=0.0)
    steps(whole, expected, n=5)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    embedding = model.words
    with words_in_use(model, optimizer, IDS):
        assert model.words.weight.shape == (4, 16)  # words 2, 5, 7 and padding
        steps(model, optimizer)
    assert model.words is embedding
    steps(model, optimizer, n=2)  # the whole embedding goes on with the same moments
    for name, value in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    found = optimizer.state_dict()["state"]
    for i, moments in expected.state_dict()["state"].items():
        assert all(torch.equal(found[i][name], moments[name]) for name in moments)


def test_everybody_sees_the_whole_embedding_in_between():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    before = model.words.weight.detach().clone()
    with words_in_use(model, optimizer, IDS):
        steps(model, optimizer)
        rows = model.words.weight.detach().clone()
        expected = before.index_copy(0, torch.tensor([0, 2, 5, 7]), rows)
        assert torch.equal(model.eval().words(torch.arange(10)), expected)
        assert torch.equal(model.state_dict()["words.weight"], expected)
        model.train()
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert type(copied.words) is nn.Embedding
            assert torch.equal(copied.words.weight, expected)


def test_an_error_puts_the_embedding_back():
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    embedding = model.words
    with pytest.raises(KeyboardInterrupt), words_in_use(model, optimizer, IDS):  # noqa: PT012
        steps(model, optimizer)
        raise KeyboardInterrupt
    assert model.words is embedding
    assert any(weight is embedding.weight for weight in optimizer.param_groups[0]["params"])
    assert not optimizer._optimizer_step_post_hooks


def frozen(model):
    model.words.weight.requires_grad_(False)
    return torch.optim.AdamW(model.parameters(), weight_decay=0.0)


def begun(model):
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    steps(model, optimizer, n=1)
    return optimizer


def hooked(model):
    model.words.weight.register_hook(torch.zeros_like)
    return plain_adam(model)


def accumulated(model):
    model.words.weight.register_post_accumulate_grad_hook(lambda weight: weight.grad.zero_())
    return plain_adam(model)


def watched(model):
    optimizer = plain_adam(model)
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


def plain_adam(model):
    return torch.optim.AdamW(model.parameters(), weight_decay=0.0)


class Words(nn.Embedding):
    """May do anything."""


def replaced(model):
    model.words = Words(10, 16)
    return plain_adam(model)


@pytest.mark.parametrize(
    ("params", "optimizer"),
    [
        ({}, lambda model: torch.optim.AdamW(model.parameters(), weight_decay=0.1)),
        ({"width": 12}, plain_adam),
        ({"sparse": True}, plain_adam),
        ({}, hooked),
        ({}, accumulated),
        ({}, watched),
        ({}, replaced),
        ({}, lambda model: torch.optim.Adam(model.parameters())),
        ({}, lambda model: torch.optim.AdamW(model.last.parameters(), weight_decay=0.0)),
        ({}, frozen),
        ({}, begun),
        ({"max_norm": 1.0}, plain_adam),
        ({"scale_grad_by_freq": True}, plain_adam),
    ],
    ids=[
        *("decay", "width", "sparse", "hook", "accumulated", "watched", "subclass", "Adam"),
        *("not trained", "frozen", "begun", "max_norm", "by frequency"),
    ],
)
def test_other_cases_keep_the_whole_embedding(params, optimizer):
    model = Model(**params)
    chosen = optimizer(model)
    embedding = model.words
    with words_in_use(model, chosen, IDS):
        assert model.words is embedding


def test_other_architectures_keep_the_whole_embedding(monkeypatch):
    monkeypatch.setattr(_words, "may_be_packed", lambda model: False)
    model = Model()
    with words_in_use(model, plain_adam(model), IDS):
        assert type(model.words) is nn.Embedding


def test_padding_gets_no_gradient_and_other_words_do():
    ids = np.array([[9, 3]], dtype=np.int32)  # without padding
    model = Model()
    before = model.words.weight.detach().clone()
    optimizer = plain_adam(model)
    with words_in_use(model, optimizer, ids):
        model(torch.tensor([[9, 3, 0]])).backward()
        optimizer.step()
    changed = (model.words.weight != before).any(dim=1)
    assert changed.nonzero().squeeze(1).tolist() == [3, 9]


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_is_kept(training):
    model = Model()
    with words_in_use(model, plain_adam(model), IDS):
        assert model.words.training
        model.train(training)
    assert model.words.training == training


@pytest.fixture
def seen(monkeypatch):
    """The embeddings that training runs had, one for each run."""
    kinds = []
    inner = _token_net.DeviceLoop.fit_loop

    def fit_loop(net, *args, **kwargs):
        kinds.append(type(net.module_.encoder.model.get_input_embeddings()))
        return inner(net, *args, **kwargs)

    monkeypatch.setattr(_token_net.DeviceLoop, "fit_loop", fit_loop, raising=False)
    return kinds


SETTINGS = {"max_length": 16, "max_epochs": 2, "batch_size": 5, "random_state": 0}


def test_a_fit_has_the_same_bits(tiny_encoder, tiny_texts, seen):
    net = BertClassifier(tiny_encoder, **SETTINGS, device="cpu").fit(tiny_texts[:6], [1, 0] * 3)
    assert seen == [WordsInUse] * 2
    with plain("words"):
        same = BertClassifier(tiny_encoder, **SETTINGS, device="cpu")
        same.fit(tiny_texts[:6], [1, 0] * 3)
    assert seen[2:] == [nn.Embedding] * 2
    for _ in range(2):
        expected = same.module_.state_dict()
        found = net.module_.state_dict()
        assert list(found) == list(expected)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert net.predict_proba(tiny_texts).tolist() == same.predict_proba(tiny_texts).tolist()
        for each in (net, same):  # on words that the first fit has not seen
            each.partial_fit(tiny_texts, [1, 0] * 12)


class Noise(GradientNormClipping):
    """Code of a user under the name of one of our callbacks."""


class Penalty(DistillationLoss):
    """May look at all weights."""


class Subclass(BertClassifier):
    """May do anything."""


class Batches(TokenBatches):
    """May replace words."""


class Rows(Dataset):
    """May replace words."""


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (Subclass, {}),
        (BertClassifier, {"iterator_train": Batches}),
        (BertClassifier, {"dataset": Rows}),
        (BertClassifier, {"callbacks": [Callback()]}),
        (BertClassifier, {"callbacks__gradient_clip": Noise(1.0)}),
        (BertClassifier, {"callbacks__print_log": Freezer("*word_embeddings*", at=2)}),
        (BertClassifier, {"criterion": Penalty}),
    ],
    ids=["subclass", "iterator", "dataset", "callback", "clipping", "log", "criterion"],
)
def test_code_of_users_sees_the_whole_embedding(tiny_encoder, tiny_texts, seen, kind, params):
    kind(tiny_encoder, **SETTINGS, device="cpu", **params).fit(tiny_texts, [1, 0] * 12)
    assert seen == [nn.Embedding] * 2


class Module(_token_net.BertModule):
    """May do anything."""


def test_other_modules_and_fit_callbacks_see_the_whole_embedding(tiny_encoder, tiny_texts, seen):
    y = [1, 0] * 12
    BertClassifier(tiny_encoder, **SETTINGS, device="cpu", module=Module).fit(tiny_texts, y)
    net = BertClassifier(tiny_encoder, **SETTINGS, device="cpu")
    net._skl_callbacks = []  # set_callbacks sets it in scikit-learn 1.9
    net.fit(tiny_texts, y)
    assert seen == [nn.Embedding] * 2 + [WordsInUse] * 2
    net._skl_callbacks = [object()]
    with net.training_run(net.encode(tiny_texts)):
        assert type(net.module_.encoder.model.get_input_embeddings()) is nn.Embedding


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_copy_that_is_made_during_training_trains_its_embeddings(
    tiny_encoder, tiny_texts, monkeypatch, copied
):
    copies = []
    inner = WordsInUse.write

    def write(self, *args):
        inner(self, *args)
        if not copies:
            copies.append(None)
            copies[0] = copied(net)

    monkeypatch.setattr(WordsInUse, "write", write)
    net = BertClassifier(tiny_encoder, **SETTINGS, device="cpu")
    net.fit(tiny_texts, [1, 0] * 12)
    (found,) = copies
    embedding = found.module_.encoder.model.get_input_embeddings()
    assert type(embedding) is nn.Embedding
    before = embedding.weight.detach().clone()
    found.partial_fit(tiny_texts, [1, 0] * 12)
    assert not torch.equal(embedding.weight, before)


def test_the_best_epoch_of_an_episode_can_be_kept(tiny_encoder, tiny_texts, seen):
    y = [1, 0] * 8 + [-1] * 8
    net = BertClassifier(tiny_encoder, max_length=16, batch_size=5, device="cpu")
    model = SpacedRepetitionClassifier(
        net, max_iter=2, episode_epochs=4, threshold=0, random_state=0
    )
    found = model.fit(tiny_texts, y).predict_proba(tiny_texts)
    assert set(seen) == {WordsInUse}
    with plain("words"):
        assert model.fit(tiny_texts, y).predict_proba(tiny_texts).tolist() == found.tolist()
