"""Marks of keywords in token ids, and the net that classifies the states at them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from sklearn_spt import BertClassifier
from sklearn_spt.baselines._keyword_net import (
    KeywordMarks,
    KeywordStateClassifier,
    KeywordStateModule,
    keyword_marks,
    keyword_state_net,
    marked_ids,
)
from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.text._encoding import encode_texts
from sklearn_spt.text._pretrained import vocabulary_size


# -- marks -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "keywords", "expected"),
    [
        ("flu and flu", ("flu",), [1]),  # the first occurrence
        ("FLU shots", ("flu", "shots"), [1, 2]),
        ("i got a flu shot", ("flu shot",), [4]),
        ("i got #flu", ("flu",), [4]),  # behind the piece of the hash
        ("i got flu", ("vaccine",), []),
        ("i got flu", (), []),
        ("unknowable flu", ("unknowable",), [1]),  # an unknown piece
        ("i got the vaccine in the arm at home today", ("today",), []),  # cut off
    ],
)
def test_marks(tiny_encoder, text, keywords, expected):
    marks = keyword_marks([text], [keywords], tiny_encoder, 8)
    assert np.flatnonzero(marks[0]).tolist() == expected


def test_marked_ids_hold_both(tiny_encoder, tiny_texts):
    size = vocabulary_size(tiny_encoder)
    keywords = [("shot", "vaccine")] * len(tiny_texts)
    raised = marked_ids(tiny_texts, keywords, tiny_encoder, 24)
    assert raised.dtype == np.int32
    np.testing.assert_array_equal(raised % size, encode_texts(tiny_texts, tiny_encoder, 24))
    marks = keyword_marks(tiny_texts, keywords, tiny_encoder, 24)
    np.testing.assert_array_equal(raised >= size, marks)
    assert 0 < marks.sum() < len(tiny_texts)


# -- the states at keywords --------------------------------------------------------------------
@pytest.fixture
def module(tiny_encoder):
    torch.manual_seed(0)
    return KeywordStateModule(tiny_encoder, 3, "auto", 0.1, "fp32").eval()


@pytest.fixture(autouse=True)
def _own_generator():
    with torch.random.fork_rng(devices=[]):
        yield


def test_the_module_classifies_the_mean_state_at_the_marks(module, tiny_encoder):
    texts = ["she got the flu shots today", "flu !", "i got a vaccine"]
    keywords = [("flu", "shots"), ("flu",), ("absent",)]
    raised = torch.from_numpy(marked_ids(texts, keywords, tiny_encoder, 12))
    encoder = Encoder(tiny_encoder, pooling="mean").eval()
    ids = torch.from_numpy(encode_texts(texts, tiny_encoder, 12)).long()
    with torch.no_grad():
        states = encoder.model(ids, attention_mask=(ids != 0).long()).last_hidden_state
        vectors = torch.stack([(states[0, 4] + states[0, 5]) / 2, states[1, 1], states[2, 0]])
        torch.testing.assert_close(module(raised), module.head(vectors))
        # a narrower batch changes nothing
        torch.testing.assert_close(module(raised[1:2, :5]), module(raised)[1:2])


def test_no_weight_of_the_module_is_without_a_gradient(module, tiny_encoder):
    raised = torch.from_numpy(marked_ids(["got flu"], [("flu",)], tiny_encoder, 8))
    module(raised).sum().backward()
    assert [name for name, weight in module.named_parameters() if weight.grad is None] == []


def test_the_net_keeps_the_parameters(tiny_encoder):
    net = BertClassifier(tiny_encoder, lr=3e-4, max_length=12, dropout=0.2, batch_size=7)
    of_keywords = keyword_state_net(net)
    assert isinstance(of_keywords, KeywordStateClassifier)
    changed = {"module": KeywordStateModule}
    assert clone(of_keywords).get_params(deep=False) == {**net.get_params(deep=False), **changed}


def test_the_net_keeps_the_word_embeddings_if_they_are_not_trained(tiny_encoder):
    net = BertClassifier(tiny_encoder, module__train_word_embeddings=False, classes=[0, 1])
    module = keyword_state_net(net).initialize().module_
    fixed = [name for name, weight in module.named_parameters() if not weight.requires_grad]
    assert fixed == ["encoder.model.embeddings.word_embeddings.weight"]


@pytest.mark.parametrize("module", [torch.nn.Linear, KeywordStateModule])
def test_a_custom_module_is_refused(tiny_encoder, module):
    with pytest.raises(ValueError, match="needs a BertClassifier with its default module"):
        keyword_state_net(BertClassifier(tiny_encoder, module=module))


def test_marks_need_texts(tiny_encoder):
    view = KeywordMarks(tiny_encoder, 12, "flu")
    assert view(["the flu"]).shape == (1, 12)
    with pytest.raises(ValueError, match="'state' needs texts"):
        view(np.zeros((3, 4)))
