"""The contract that all transformers of texts share."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from sklearn_spt import KeywordWindow, TokenIdVectorizer, TweetNormalizer

TEXTS = ["She got the FLU shot", "", "no"]
KINDS = ["vectorizer", "normalizer", "window"]


@pytest.fixture
def transformer(request, tiny_encoder):
    return {
        "vectorizer": TokenIdVectorizer(tiny_encoder, max_length=12),
        "normalizer": TweetNormalizer(user_token="@user"),
        "window": KeywordWindow(["flu"], window=1),
    }[request.param]


@pytest.mark.parametrize("transformer", KINDS, indirect=True)
def test_nothing_is_learned_and_the_input_does_not_change(transformer):
    X = np.array(TEXTS, dtype=object)
    expected = transformer.transform(X)  # before any fit
    state = dict(vars(transformer))
    assert transformer.fit(["other"], y=[1]) is transformer
    assert vars(transformer) == state
    np.testing.assert_array_equal(transformer.transform(X), expected)
    assert X.tolist() == TEXTS


@pytest.mark.parametrize("transformer", KINDS, indirect=True)
@pytest.mark.parametrize("copied", [clone, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_give_the_same_result(transformer, copied):
    twin = copied(transformer.fit(TEXTS))
    assert twin.get_params() == transformer.get_params()
    np.testing.assert_array_equal(twin.transform(TEXTS), transformer.transform(TEXTS))
    assert len(pickle.dumps(transformer)) < 1000


@pytest.mark.parametrize("transformer", KINDS, indirect=True)
def test_tags_tell_scikit_learn_what_goes_in(transformer):
    tags = get_tags(transformer)
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array
    assert not tags.requires_fit


@pytest.mark.parametrize("transformer", ["normalizer", "window"], indirect=True)
def test_one_column_comes_out(transformer):
    assert transformer.get_feature_names_out().tolist() == ["text"]


@pytest.mark.parametrize("method", ["fit", "transform", "fit_transform"])
@pytest.mark.parametrize(
    ("transformer", "parameters", "error", "message"),
    [
        ("vectorizer", {"max_length": 65}, ValueError, "max_length must be at most 64"),
        ("vectorizer", {"max_length": 2}, ValueError, "max_length must be at least 3"),
        ("vectorizer", {"pretrained": 3}, TypeError, "pretrained must be a local folder or"),
        ("normalizer", {"lowercase": "yes"}, TypeError, "lowercase must be True or False"),
        ("normalizer", {"tokenize": 1}, TypeError, "tokenize must be True or False"),
        ("normalizer", {"url_token": 3}, TypeError, "url_token must be a str or None, got 3"),
        ("normalizer", {"user_token": b"u"}, TypeError, "user_token must be a str or None"),
        ("window", {"window": -1}, ValueError, "window must be at least 0"),
        ("window", {"window": 1.5}, TypeError, "window must be an integer"),
    ],
    indirect=["transformer"],
)
def test_bad_parameters_are_named(transformer, method, parameters, error, message):
    transformer.set_params(**parameters)
    with pytest.raises(error, match=message):
        getattr(transformer, method)(TEXTS)


@pytest.mark.parametrize("method", ["fit", "transform", "fit_transform"])
@pytest.mark.parametrize("transformer", KINDS, indirect=True)
@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("one text", TypeError, "wrap it in a list"),
        (["a", None], ValueError, "missing text in row 1"),
        ([], ValueError, r"0 sample\(s\)"),
        (np.zeros((2, 3)), ValueError, "X has 3 columns"),
    ],
)
def test_bad_texts_are_named(transformer, method, X, error, message):
    with pytest.raises(error, match=message):
        getattr(transformer, method)(X)
