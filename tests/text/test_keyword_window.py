"""Keywords: how they are given, where they stand, the words around them, the states at them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array
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
from sklearn_spt.text._checkpoints import vocabulary_size
from sklearn_spt.text._encoding import encode_texts
from sklearn_spt.text._keyword_window import (
    KeywordWindow,
    first_occurrence,
    holds_texts,
    parsed_keywords,
    texts_and_keywords,
)

TEXTS = ["my sister got the flu today", "no shot, no fun", "nothing here"]


# -- how keywords are given --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ()),
        ("", ()),
        (float("nan"), ()),
        ("flu", ("flu",)),
        (" flu , flu shot,", ("flu", "flu shot")),
        (["flu", " shot"], ("flu", "shot")),
        (np.array(["flu", "shot"]), ("flu", "shot")),
        (pl.Series(["flu"]), ("flu",)),
        ((), ()),
    ],
)
def test_parsed_keywords(given, expected):
    assert parsed_keywords(given, "keywords") == expected


@pytest.mark.parametrize("given", [3, ["flu", 3], b"flu", [None]])
def test_bad_keywords_are_named(given):
    with pytest.raises(TypeError, match="keywords must"):
        KeywordWindow(given).fit(TEXTS)


OWN = ["flu", ["shot", "fun"], None]
EXPECTED = [("flu",), ("shot", "fun"), ()]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"text": TEXTS, "keywords": OWN}),
        pl.DataFrame({"text": TEXTS, "keywords": [["flu"], ["shot", "fun"], None]}),
        np.array(list(zip(TEXTS, OWN, strict=True)), dtype=object),
        np.array(list(zip(TEXTS, ["flu", "shot,fun", ""], strict=True))),
        [[text, own] for text, own in zip(TEXTS, OWN, strict=True)],
        tuple(zip(TEXTS, OWN, strict=True)),
    ],
    ids=["pandas", "polars", "objects", "strings", "lists", "tuples"],
)
def test_keywords_in_a_second_column(X):
    assert texts_and_keywords(X) == (TEXTS, EXPECTED)
    # a parameter is for the rows that have none
    assert texts_and_keywords(X, "here")[1] == [*EXPECTED[:2], ("here",)]


def test_keywords_of_every_text():
    assert texts_and_keywords(TEXTS, ["flu"]) == (TEXTS, [("flu",)] * 3)
    assert texts_and_keywords(pd.DataFrame({"text": TEXTS}))[1] == [()] * 3


def test_a_bad_cell_is_named():
    X = np.array([["a text", "flu"], ["a text", 7]], dtype=object)
    with pytest.raises(TypeError, match="keyword column of X, row 1, must be a str"):
        KeywordWindow().transform(X)


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ("one text", TypeError, "single str"),
        ([["a", "b", "c"]], TypeError, "row 0 is of type list"),
        (np.array([["a", "b", "c"]], dtype=object), ValueError, "3 columns"),
        (np.zeros((3, 2)), TypeError, "the first column of X must hold the texts.* no str"),
        (np.array([[["a"], "a text"]] * 2, dtype=object), TypeError, "the first column of X must"),
        (pd.DataFrame({"k": [["a"]], "t": ["a text"]}), TypeError, "the first column of X must"),
        ([[["a"], "a text"]] * 2, TypeError, "the first column of X must hold the texts"),
        ([["a text", "a"], [None, "a"]], ValueError, "missing text in row 1"),
        ([("a text", "a"), (7, "a")], TypeError, "row 1 is of type int"),
        ([], ValueError, "0 sample"),
        (["a", None], ValueError, "missing text in row 1"),
    ],
)
def test_bad_documents_are_named(X, error, match):
    with pytest.raises(error, match=match):
        KeywordWindow("a").fit(X)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (TEXTS, True),
        ([[text, "a"] for text in TEXTS], True),
        (pd.DataFrame({"number": [1.0, 2.0], "text": TEXTS[:2]}), True),  # the wrong way round
        (pl.DataFrame({"number": [1.0, 2.0], "text": TEXTS[:2]}), True),
        (np.zeros((3, 2)), False),
        (np.zeros((3, 2), dtype=object), False),
        ([[0.0, 1.0]] * 3, False),
        (pd.DataFrame({"a": [0.0], "b": [1.0]}), False),
        (csr_array(np.eye(2)), False),
        (coo_array(np.eye(2)), False),
        (torch.zeros(3, 2), False),
        ({"a": np.zeros(3)}, False),
    ],
    ids=str,
)
def test_what_holds_texts(X, expected):
    assert holds_texts(X) is expected


# -- where they stand --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "keyword", "expected"),
    [
        ("the flu and the flu", "flu", (4, 7)),
        ("The FLU's here", "flu", (4, 7)),
        ("got my #Flu-shot", "flu", (8, 11)),
        ("a flu \n shot", "flu shot", (2, 12)),
        ("influence of the flushot", "flu", None),
        ("reflu flu", "flu", (6, 9)),
        ("c++ or c", "c++", (0, 3)),
        ("", "flu", None),
        ("Straße", "straße", (0, 6)),
    ],
)
def test_first_occurrence(text, keyword, expected):
    assert first_occurrence(text, keyword) == expected


# -- the window --------------------------------------------------------------------------------
WORDS = " ".join(f"w{i}" for i in range(20))


@pytest.mark.parametrize(
    ("keywords", "window", "expected"),
    [
        ("w10", 2, "w8 w9 w10 w11 w12"),
        ("w10", 0, "w10"),
        ("w10 w11", 1, "w9 w10 w11 w12"),
        ("w1", 2, "w0 w1 w2 w3"),
        ("w19", 1, "w18 w19"),
        (["w3", "w16"], 1, "w2 w3 w4 w15 w16 w17"),
        (["w4", "w3"], 1, "w2 w3 w4 w5"),
        (["w3", "absent"], 1, "w2 w3 w4"),
    ],
)
def test_the_words_around_a_keyword(keywords, window, expected):
    cut = KeywordWindow(keywords, window).fit_transform([WORDS])
    assert cut.tolist() == [expected]
    assert cut.dtype == object


def test_five_words_are_the_default():
    assert len(KeywordWindow("w10").transform([WORDS])[0].split()) == 11


@pytest.mark.parametrize("keywords", [None, "absent"])
def test_a_text_without_a_keyword_stays_as_it_is(keywords):
    texts = ["two  blanks stay", "", " "]
    assert KeywordWindow(keywords).transform(texts).tolist() == texts


def test_punctuation_belongs_to_its_word():
    cut = KeywordWindow("flu", 1).transform(["I had the (flu), really I had"])
    assert cut.tolist() == ["the (flu), really"]


def test_documents_may_bring_their_own_keywords():
    X = np.array([[WORDS, "w1"], [WORDS, "w10"], [WORDS, None]], dtype=object)
    assert KeywordWindow("w5", 0).transform(X).tolist() == ["w1", "w10", "w5"]


@given(st.lists(st.sampled_from(["flu", "a", "b", "c"]), max_size=30), st.integers(0, 9))
def test_a_window_is_part_of_the_text_around_the_first_place(words, window):
    cut = KeywordWindow("flu", window).transform([" ".join(words)])[0].split()
    if "flu" in words:
        first = words.index("flu")
        assert cut == words[max(first - window, 0) : first + window + 1]
    else:
        assert cut == words


def test_bad_window_is_named():
    with pytest.raises(ValueError, match="window must be at least 0"):
        KeywordWindow("a", -1).fit(TEXTS)
    with pytest.raises(TypeError, match="window must be an integer"):
        KeywordWindow("a", 1.5).transform(TEXTS)


def test_transform_needs_no_fit_and_clone_keeps_parameters():
    window = clone(KeywordWindow(["flu"], window=1))
    assert window.get_params() == {"keywords": ["flu"], "window": 1}
    assert window.transform(TEXTS)[0] == "the flu today"
    assert window.get_feature_names_out().tolist() == ["text"]


# -- marks -------------------------------------------------------------------------------------
def test_a_keyword_at_word_4_with_two_pieces_has_one_mark(tiny_checkpoint):
    text = "she got the flu shots today"  # [CLS] she got the flu shot ##s today [SEP]
    marks = keyword_marks([text], [("shots",)], tiny_checkpoint, 16)
    # word 4, its first piece, shifted by one for [CLS]
    assert np.flatnonzero(marks[0]).tolist() == [5]
    assert marks.shape == (1, 16)


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
def test_marks(tiny_checkpoint, text, keywords, expected):
    marks = keyword_marks([text], [keywords], tiny_checkpoint, 8)
    assert np.flatnonzero(marks[0]).tolist() == expected


def test_marked_ids_hold_both(tiny_checkpoint, tiny_texts):
    size = vocabulary_size(tiny_checkpoint)
    keywords = [("shot", "vaccine")] * len(tiny_texts)
    raised = marked_ids(tiny_texts, keywords, tiny_checkpoint, 24)
    assert raised.dtype == np.int32
    np.testing.assert_array_equal(raised % size, encode_texts(tiny_texts, tiny_checkpoint, 24))
    marks = keyword_marks(tiny_texts, keywords, tiny_checkpoint, 24)
    np.testing.assert_array_equal(raised >= size, marks)
    assert 0 < marks.sum() < len(tiny_texts)


# -- the states at keywords --------------------------------------------------------------------
@pytest.fixture
def module(tiny_checkpoint):
    torch.manual_seed(0)
    return KeywordStateModule(tiny_checkpoint, 3, "auto", 0.1, "fp32").eval()


@pytest.fixture(autouse=True)
def _own_generator():
    with torch.random.fork_rng(devices=[]):
        yield


def test_the_module_classifies_the_mean_state_at_the_marks(module, tiny_checkpoint):
    texts = ["she got the flu shots today", "flu !", "i got a vaccine"]
    keywords = [("flu", "shots"), ("flu",), ("absent",)]
    raised = torch.from_numpy(marked_ids(texts, keywords, tiny_checkpoint, 12))
    encoder = Encoder(tiny_checkpoint, pooling="mean").eval()
    ids = torch.from_numpy(encode_texts(texts, tiny_checkpoint, 12)).long()
    with torch.no_grad():
        states = encoder.model(ids, attention_mask=(ids != 0).long()).last_hidden_state
        vectors = torch.stack([(states[0, 4] + states[0, 5]) / 2, states[1, 1], states[2, 0]])
        torch.testing.assert_close(module(raised), module.head(vectors))
        # a narrower batch changes nothing
        torch.testing.assert_close(module(raised[1:2, :5]), module(raised)[1:2])


def test_no_weight_of_the_module_is_without_a_gradient(module, tiny_checkpoint):
    raised = torch.from_numpy(marked_ids(["got flu"], [("flu",)], tiny_checkpoint, 8))
    module(raised).sum().backward()
    assert [name for name, weight in module.named_parameters() if weight.grad is None] == []


def test_the_net_keeps_the_parameters(tiny_checkpoint):
    net = BertClassifier(tiny_checkpoint, lr=3e-4, max_length=12, dropout=0.2, batch_size=7)
    of_keywords = keyword_state_net(net)
    assert isinstance(of_keywords, KeywordStateClassifier)
    changed = {"module": KeywordStateModule}
    assert clone(of_keywords).get_params(deep=False) == {**net.get_params(deep=False), **changed}


@pytest.mark.parametrize("module", [torch.nn.Linear, KeywordStateModule])
def test_a_module_of_ones_own_is_refused(tiny_checkpoint, module):
    with pytest.raises(ValueError, match="needs a BertClassifier with its default module"):
        keyword_state_net(BertClassifier(tiny_checkpoint, module=module))


def test_marks_need_texts(tiny_checkpoint):
    view = KeywordMarks(tiny_checkpoint, 12, "flu")
    assert view(["the flu"]).shape == (1, 12)
    with pytest.raises(ValueError, match="'state' needs texts"):
        view(np.zeros((3, 4)))
