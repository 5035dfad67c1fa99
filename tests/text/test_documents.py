"""What is neither texts nor a matrix is refused in one sentence, which shows no text."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.nets import bert_net, mlp_net
from scipy.sparse import csr_matrix

from sklearn_spt import SelfPretrainingClassifier, TweetNormalizer
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


@pytest.mark.parametrize("name", ["tokens", "numbers", "dict"])
def test_fit_and_predict_refuse_them(name, tiny_checkpoint, tiny_texts):
    X, error, message = REFUSED[name]
    y = [0, 1] * 6 + [-1] * 12
    net = bert_net(tiny_checkpoint, max_epochs=1)
    clf = SelfPretrainingClassifier(net, step_size=1.0, alpha=0.0, random_state=0)
    with pytest.raises(error, match=message):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")
    clf.fit(tiny_texts, y)
    for fitted in (clf, net.fit(tiny_texts[:12], y[:12])):
        with pytest.raises(error, match=message):
            fitted.predict(X)
    with pytest.raises(error, match="X_unlabeled must"):
        clf.fit(tiny_texts, y, X_unlabeled=X)


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
