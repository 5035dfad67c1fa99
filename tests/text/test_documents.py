"""What is neither texts nor a matrix is refused in one sentence, which shows no text."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from helpers.nets import bert_net, mlp_net
from helpers.optional import pd
from scipy.sparse import csr_matrix
from sklearn.base import clone

from sklearn_spt import (
    SelfPretrainingClassifier,
    SentenceEmbedder,
    ThrottledSelfTrainingClassifier,
    TweetNormalizer,
)
from sklearn_spt.text._documents import check_documents

SECRET = "a private text"
REFUSED = {
    "None": (None, TypeError, "got None"),
    "dict": ({"text": [SECRET]}, TypeError, "got a dict; pass the entry that holds the texts"),
    "set": ({SECRET}, TypeError, "got a set, which has no order; pass a list"),
    "generator": ((t for t in [SECRET]), TypeError, r"got a generator; pass list\(X\)"),
    "sparse": (csr_matrix(np.eye(2)), TypeError, "got a sparse matrix.*leave out Tfidf"),
    "tokens": ([SECRET.split()], TypeError, "row 0 is a list of strings; join its words"),
    "dicts": ([{"text": SECRET}], TypeError, "row 0 is of type dict"),
    "numbers": ([1.5, 2.0], ValueError, "row 0 is of type float: 1.5. Are X and y swapped"),
    "column of numbers": (np.arange(3), ValueError, "got a column of int64. Are X and y swapped"),
    "ragged ids": ([[1, 2], [3]], ValueError, "row 0 has 2 entries and row 1 has 1"),
    "number": (7, TypeError, "must be a list, array or Series of texts, got a int"),
    "one text in an array": (np.array(SECRET), TypeError, "Series of texts, got a ndarray"),
    "range": (range(3), ValueError, "row 0 is of type int: 0. Are X and y swapped"),
    "complex": (np.ones(900) * 1j, ValueError, "got a column of complex128"),
    "long name": (type("Q" * 900, (), {})(), TypeError, "Series of texts, got a QQQ"),
}
AMONG = {  # among texts: `check_texts` has the message
    "an int": (5, TypeError, r"row 3 is of type int; drop it, or turn it into a text: str\(row\)"),
    "bytes": (SECRET.encode(), TypeError, r"row 3 is of type bytes; .* text: row\.decode\(\)"),
    "a list": ([SECRET] * 900, TypeError, "row 3 is of type list"),
    "half an emoji": (SECRET * 900 + "\ud83d", ValueError, "half of a character .* in row 3"),
    "a missing text": (None, ValueError, "a missing text in row 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    X, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as caught:
        check_documents(X)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("X", [["a", "b"], [None, "b"], [[1, 2], [3, 4]], np.eye(2), []])
def test_other_documents_pass(X):
    check_documents(X)


@pytest.fixture(scope="module")
def fitted(tiny_encoder):
    """A net, a method and a baseline that were fitted on four texts."""
    net = bert_net(tiny_encoder, max_epochs=0)
    return [
        net.fit(["flu", "shot"], [0, 1]),
        *(
            kind(clone(net), finetune_epochs=0, random_state=0, **params).fit(
                ["flu", "shot", "fever", "cold"], [0, 1, -1, -1]
            )
            for kind, params in (
                (SelfPretrainingClassifier, {"max_iter": 1, "pretrain_epochs": 0, "alpha": 0.0}),
                (ThrottledSelfTrainingClassifier, {"n_iterations": 1, "threshold": 0.0}),
            )
        ),
    ]


def bad_inputs(texts):
    """Each unusable X with its error."""
    for name, case in REFUSED.items():
        yield name, case
    for name, (entry, *error) in AMONG.items():
        yield name, ([*texts[:3], entry, *texts[4:]], *error)
    yield "other numbers", (np.zeros((8, 2)), TypeError, "X holds no texts, but the classifier was")


@pytest.mark.parametrize("place", [0, 1, 2], ids=["net", "method", "baseline"])
def test_fit_and_predict_refuse_them(place, fitted, tiny_texts):
    texts, y = tiny_texts[:8], [0, 1, 0, 1, -1, -1, -1, -1]
    old = fitted[place]
    expected = old.predict_proba(texts)
    for name, (X, error, message) in bad_inputs(texts):
        with pytest.raises(error, match=message) as predicting:
            old.predict(X)
        caught = [predicting]
        if name != "other numbers":  # a new fit may be on other documents
            new = clone(old)
            with pytest.raises(error, match=message) as fitting:
                new.fit(X, y)
            assert not hasattr(new, "classes_") or place == 0
            caught.append(fitting)
        if place and name not in ("None", "other numbers"):
            with pytest.raises(error, match=r"X_unlabeled (must|holds)") as fitting:
                old.fit(texts, y, X_unlabeled=X)
            caught.append(fitting)
        for error in caught:
            assert "private" not in str(error.value), name
            assert len(str(error.value)) < 500, name
    np.testing.assert_array_equal(old.predict_proba(texts), expected)


@pytest.mark.parametrize("place", [0, 1, 2], ids=["net", "method", "baseline"])
def test_strings_from_tables_are_texts(place, fitted, tiny_texts):
    expected = fitted[place].predict_proba(tiny_texts)
    for kind in ("string", "category", object):
        column = pd.Series(tiny_texts, dtype=kind)
        np.testing.assert_array_equal(fitted[place].predict_proba(column), expected)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([{SECRET: SECRET * 900}] * 4, "X must have two dimensions or more, got a list with 1"),
        ({SECRET}, "X must have two dimensions or more, got a set with 0"),
        (np.ones(900), "got a ndarray with 1. Reshape your data"),
        (np.ones((4, 2)) * 1j, "X must hold numbers, got complex128"),
    ],
)
def test_a_net_of_numbers_shows_nothing_either(X, message):
    numbers, y = np.zeros((4, 2), dtype=np.float32), [0, 1, -1, -1]
    clf = SelfPretrainingClassifier(
        mlp_net(verbose=0), max_iter=1, pretrain_epochs=0, finetune_epochs=0, alpha=0.0
    )
    for call in (lambda: clf.fit(X, y), lambda: clf.fit(numbers, y).predict(X)):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert len(str(error.value)) < 200


@pytest.mark.parametrize("kind", ["list", "array", "frame", "table", "bytes"])
def test_a_string_among_numbers_is_not_shown(kind, fitted, tiny_encoder):
    row = 0 if kind == "table" else 2
    entry = SECRET.encode() if kind == "bytes" else SECRET
    X = [[1.0, 2.0], [3.0, "4.0"], [5.0, entry], [6.0, 7.0]]
    if kind == "table":  # as a file with a column of numbers and one of texts
        X = pd.DataFrame({"number": [1, 2, 3, 4], "text": [SECRET] * 4})
    elif kind != "list":
        X = np.array(X, dtype=object)
        X = pd.DataFrame(X) if kind == "frame" else X
    numbers = SelfPretrainingClassifier(mlp_net(verbose=0))
    for estimator in (*map(clone, fitted), SentenceEmbedder(tiny_encoder), numbers):
        with pytest.raises(ValueError, match=f"^X must hold .* in row {row}, a string.$") as error:
            estimator.fit(X, [0, 1, 0, 1])
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__


LONG_VALUE = "v" * 100_000


@pytest.mark.parametrize("place", [0, 1, 2], ids=["net", "method", "baseline"])
def test_no_message_about_a_parameter_is_long(place, fitted):
    X, y = ["flu", "shot", "fever", "cold"], [0, 1, 0, -1 if place else 1]
    free = {"module", "criterion", "optimizer", "callbacks", "iterator_train", "iterator_valid"}
    for name in sorted({*inspect.signature(type(fitted[place])).parameters} - free - {"kwargs"}):
        for value in (LONG_VALUE, [LONG_VALUE], {LONG_VALUE: 1}):
            clf = clone(fitted[place]).set_params(**{name: value})
            if name == "unlabeled_marker" and value is LONG_VALUE:
                continue  # any text may be a marker
            with pytest.raises((TypeError, ValueError)) as error:
                clf.fit(X, y)
            assert len(str(error.value)) < 500, name


def test_half_an_emoji_is_named():
    with pytest.raises(ValueError, match=r"half of a character .* in row 1, at position 4; drop"):
        TweetNormalizer(tokenize=False).transform(["fine \U0001f637", "flu \ud83d"])


def test_a_net_of_numbers_refuses_texts():
    clf = SelfPretrainingClassifier(mlp_net(), random_state=0)
    with pytest.raises(TypeError, match="X holds texts, but the net NeuralNetClassifier takes num"):
        clf.fit(["a", "b"], [0, 1])


@pytest.mark.parametrize("kind", [">f4", ">f8", np.longdouble, ">i4"])
def test_foreign_number_formats_of_a_net_of_numbers(kind):
    X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32).round(3)
    y = np.r_[[0, 1] * 5, [-1] * 10]
    clf = SelfPretrainingClassifier(mlp_net(), step_size=1.0, alpha=0.0, random_state=0)
    expected = clf.fit(X.astype(kind).astype("=f4"), y).predict_proba(X)
    np.testing.assert_array_equal(clf.fit(X.astype(kind), y).predict_proba(X), expected)


def test_integers_beside_floats_are_floats():
    X, y = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32), [0, 1] * 10
    clf = SelfPretrainingClassifier(mlp_net(), step_size=1.0, alpha=0.0, random_state=0)
    whole = np.round(3 * X)
    expected = clf.fit(X, y, X_unlabeled=whole[:9]).predict_proba(X)
    found = clf.fit(X, y, X_unlabeled=whole[:9].astype(int)).predict_proba(X)
    np.testing.assert_array_equal(found, expected)
    expected = clf.fit(whole, y, X_unlabeled=X[:9]).predict_proba(X)
    found = clf.fit(whole.astype(int), y, X_unlabeled=X[:9]).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_weights_that_are_no_numbers_are_named():
    X, y = np.zeros((4, 2), dtype=np.float32), [0, 1, 0, -1]
    clf = SelfPretrainingClassifier(mlp_net(), random_state=0)
    for weights, message in (
        (["a"] * 4, "sample_weight must hold numbers, got an array of <U1"),
        (np.ones(4) * 1j, "sample_weight must hold numbers, got an array of complex128"),
        ([{}] * 4, "sample_weight must hold a number for each row"),
        (np.ones((4, 2)), "sample_weight: Sample weights must be 1D"),
    ):
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("name", ["memory", "checkpoint_dir"])
def test_an_empty_folder_name_is_refused(name):
    clf = SelfPretrainingClassifier(mlp_net(), random_state=0, **{name: ""})
    with pytest.raises(ValueError, match=f"{name} must not be empty"):
        clf.fit(np.zeros((4, 2), dtype=np.float32), [0, 1, 0, -1])


def test_long_labels_are_cut_in_messages():
    with pytest.raises(ValueError, match="hold one class only") as caught:
        SelfPretrainingClassifier(mlp_net()).fit(np.zeros((2, 2)), ["x" * 100_000] * 2)
    assert len(str(caught.value)) < 300
