"""Keywords: how they are given, their positions, and the words around them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.optional import pd, pl
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

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
    # the parameter holds for the rows without keywords
    assert texts_and_keywords(X, "here")[1] == [*EXPECTED[:2], ("here",)]


def test_keywords_that_can_be_read_once_are_refused():
    window = KeywordWindow(map(str.strip, ["flu ", "shot"]))
    with pytest.raises(TypeError, match="keywords must be a list; got a map, which is read once"):
        window.fit_transform(["My flu."])


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
        (pd.DataFrame({"number": [1.0, 2.0], "text": TEXTS[:2]}), True),  # in the wrong order
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


# -- positions --------------------------------------------------------------------------
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


def test_five_words_on_each_side_are_the_default():
    assert KeywordWindow("w10").transform([WORDS])[0] == " ".join(WORDS.split()[5:16])


@pytest.mark.parametrize("keywords", [None, "absent"])
def test_a_text_without_a_keyword_stays_as_it_is(keywords):
    texts = ["two  blanks stay", "", " "]
    assert KeywordWindow(keywords).transform(texts).tolist() == texts


def test_punctuation_belongs_to_its_word():
    cut = KeywordWindow("flu", 1).transform(["I had the (flu), really I had"])
    assert cut.tolist() == ["the (flu), really"]


def test_a_window_may_be_wider_than_any_text():
    assert KeywordWindow("w5", 10**15).transform([WORDS]).tolist() == [WORDS]


def test_keywords_in_a_second_column_come_first():
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
