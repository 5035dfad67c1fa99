"""Tweets are normalised as the paper's authors did it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_spt.text._encoding import TokenIdVectorizer
from sklearn_spt.text._normalization import TweetNormalizer


def normalized(text, **parameters):
    return TweetNormalizer(**parameters).transform([text])[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I Got My Flu Shot!", "i got my flu shot !"),
        ("sore arm :-) <3 #FluShot2020", "sore arm :-) <3 #flushot2020"),
        ("read http://example.org/a?b=c#d now", "read www now"),
        ("READ HTTPS://EXAMPLE.ORG", "read www"),
        ("see www.example.org/x.", "see www"),
        ("gluedhttps://example.org/x", "glued www"),
        ("two http://a.example http://b.example", "two www www"),
        ("no link: http:// nor www", "no link : http :/ / nor www"),
        ("salt &amp; pepper &lt;3", "salt & pepper <3"),
        ("@Somebody it's   \n done", "@somebody it's done"),
        ("", ""),
        ("   ", ""),
        ("😷 naïve 中", "😷 naïve 中"),
    ],
)
def test_tweets_are_prepared_as_the_authors_did(text, expected):
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"tokenize": False}, "@anna see www a.b@example.org, now!"),
        ({"tokenize": False, "lowercase": False}, "@Anna see www a.b@example.org, NOW!"),
        (
            {"tokenize": False, "url_token": None},
            "@anna see http://x.example a.b@example.org, now!",
        ),
        ({"tokenize": False, "url_token": ""}, "@anna see a.b@example.org, now!"),
        ({"tokenize": False, "url_token": r"\1"}, r"@anna see \1 a.b@example.org, now!"),
        ({"tokenize": False, "user_token": "@user"}, "@user see www a.b@example.org, now!"),
        ({"lowercase": False}, "@Anna see www a.b@example.org , NOW !"),
        ({"user_token": "USER"}, "USER see www a.b@example.org , now !"),
    ],
)
def test_each_step_can_be_changed(parameters, expected):
    text = "@Anna see http://x.example  a.b@example.org, NOW!"
    assert normalized(text, **parameters) == expected


WORDS = st.sampled_from(
    [
        *("Flu", "shot", ":-)", ":D", "<3", "#tag", "@user", "it's", "don't", "HAHA", "😷"),
        *("http://a.example/b?c", "www.a.example", "&amp;", "&lt;", "555-1234", "3.5", "50%"),
        *("...", "!!!", "(ok)", "a/b", "--", "$5", "\n", "\t"),
    ]
)


@given(st.lists(WORDS, max_size=12), st.sampled_from(["", " "]), st.booleans())
def test_normalised_text_does_not_change_again(words, blank, tokenize):
    normalizer = TweetNormalizer(tokenize=tokenize)
    once = normalizer.transform([" ".join(words) + blank])
    assert normalizer.transform(once).tolist() == once.tolist()


def test_text_escaped_twice_loses_one_layer_a_time():
    assert normalized("&amp;amp;") == "& amp ;"
    assert normalized("&amp;lt;3") == "& lt ; 3"


@given(st.text(max_size=60))
def test_any_text_becomes_tokens_between_single_blanks(text):
    result = normalized(text)
    assert result.split() == result.split(" ") or result == ""


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_without_nltk_the_error_says_what_to_install(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.tokenize", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-spt\[tweets\]'"):
        getattr(TweetNormalizer(), method)(["a"])
    assert normalized("A  b", tokenize=False) == "a b"


def test_a_text_that_takes_nltk_too_long_is_named(monkeypatch):
    import nltk.tokenize

    class Slow:
        def tokenize(self, text):
            if text == "slow":
                raise TimeoutError
            return [text]

    monkeypatch.setattr(nltk.tokenize, "TweetTokenizer", Slow)
    with pytest.raises(ValueError, match="takes too long to split the text in row 1 of X, 4 char"):
        TweetNormalizer().transform(["fine", "slow"])


@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
def test_it_precedes_the_vectorizer_with_any_container(tiny_encoder, tiny_texts, container):
    vectorizer = TokenIdVectorizer(tiny_encoder, max_length=12)
    shouted = [text.upper() + " HTTP://A.EXAMPLE" for text in tiny_texts]
    plain = [text + " www" for text in tiny_texts]
    pipeline = make_pipeline(TweetNormalizer(), vectorizer).set_output(transform=container)
    ids = np.asarray(pipeline.fit_transform(shouted))
    np.testing.assert_array_equal(ids, clone(vectorizer).transform(plain))
    assert pipeline.get_feature_names_out()[0] == "token_0"
    assert pipeline[0].get_feature_names_out().tolist() == ["text"]
