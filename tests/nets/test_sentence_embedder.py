"""`SentenceEmbedder`: frozen embeddings as a transformer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from helpers.optional import pd, pl
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_spt import SentenceEmbedder, TokenIdVectorizer
from sklearn_spt.nets._encoder import Encoder


@pytest.fixture
def embedder(tiny_pooling_encoder):
    return SentenceEmbedder(tiny_pooling_encoder, max_length=24, precision="fp32")


@pytest.fixture
def rows_seen(monkeypatch):
    """Collects the shapes of the batches that an encoder gets."""
    shapes = []
    forward = Encoder.forward

    def spy(self, ids):
        shapes.append(tuple(ids.shape))
        return forward(self, ids)

    monkeypatch.setattr(Encoder, "forward", spy)
    return shapes


# -- embeddings -----------------------------------------------------------------------------------
def test_embeddings_are_the_vectors_of_the_encoder_scaled_to_unit_length(embedder, tiny_texts):
    unit = embedder.fit_transform(tiny_texts)
    assert unit.shape == (24, 16)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0, rtol=1e-6)
    raw = embedder.set_params(normalize=False).fit_transform(tiny_texts)
    encoder = Encoder(embedder.pretrained, "mean").eval()
    ids = TokenIdVectorizer(embedder.pretrained, max_length=24).transform(tiny_texts)
    with torch.no_grad():
        expected = encoder(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(raw, expected, atol=1e-5)
    np.testing.assert_allclose(unit, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)
    cls = embedder.set_params(pooling="cls").transform(tiny_texts)
    assert np.abs(raw - cls).max() > 0.01
    half = embedder.set_params(pooling="mean", precision="bf16", normalize=True).transform(
        tiny_texts
    )
    assert half.dtype == np.float32
    assert (unit * half).sum(axis=1).min() > 0.999


@pytest.fixture
def only_rows_count(monkeypatch):
    """Let `batch_size` alone limit the rows of a batch, whatever their length."""
    limits = "sklearn_spt.nets._batching.inference_limits"
    monkeypatch.setattr(limits, lambda batch_size, device: (batch_size, 0))


@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_batches_do_not_change_the_order(
    embedder, tiny_texts, batch_size, only_rows_count, rows_seen
):
    together = embedder.set_params(batch_size=batch_size).fit_transform(tiny_texts)
    assert max(rows for rows, _ in rows_seen) == min(batch_size, 24)
    alone = np.vstack([embedder.transform([text]) for text in tiny_texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_each_distinct_text_is_embedded_once(embedder, tiny_texts, rows_seen):
    out = embedder.transform(tiny_texts * 3)
    assert sum(rows for rows, _ in rows_seen) == len(set(tiny_texts))
    np.testing.assert_array_equal(out, np.tile(out[:24], (3, 1)))
    rows_seen.clear()
    embedder.transform(["She got a shot", "she got a shot"])
    assert sum(rows for rows, _ in rows_seen) == 1


def test_batches_are_trimmed_and_the_longest_is_first(embedder, tiny_texts, rows_seen, request):
    long = "the flu shot is good " * 8
    embedder.set_params(max_length=60, batch_size=2).transform([*tiny_texts, long] * 2)
    assert rows_seen[0] == (24, 42)  # of 1024 tokens
    request.getfixturevalue("only_rows_count")
    rows_seen.clear()
    embedder.transform([*tiny_texts, long])
    widths = [width for _, width in rows_seen]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == 42
    assert max(widths[1:]) < 20


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pl.Series])
def test_containers_of_texts(embedder, tiny_texts, kind):
    expected = embedder.transform(tiny_texts)
    np.testing.assert_array_equal(embedder.fit_transform(kind(tiny_texts)), expected)
    np.testing.assert_array_equal(embedder.transform(np.array(tiny_texts)[:, None]), expected)


def test_token_ids_give_the_same_result_as_texts(embedder, tiny_texts):
    ids = TokenIdVectorizer(embedder.pretrained, max_length=24).fit_transform(tiny_texts)
    expected = embedder.fit_transform(tiny_texts)
    assert not hasattr(embedder, "n_features_in_")
    np.testing.assert_allclose(embedder.fit_transform(ids), expected, atol=1e-6)
    assert embedder.n_features_in_ == 24
    np.testing.assert_allclose(embedder.transform(ids.astype(float)), expected, atol=1e-6)
    assert not hasattr(embedder.fit(tiny_texts), "n_features_in_")


# -- as a transformer ------------------------------------------------------------------------------
def test_names_of_the_columns(embedder, tiny_texts):
    names = embedder.fit(tiny_texts).get_feature_names_out()
    assert names.tolist() == [f"sentenceembedder{i}" for i in range(16)]
    with pytest.raises(NotFittedError):
        clone(embedder).get_feature_names_out()


def test_clone_and_pickle(embedder, tiny_texts):
    expected = embedder.fit_transform(tiny_texts)
    dumped = pickle.dumps(embedder)
    assert len(dumped) < 2000  # no weights inside
    np.testing.assert_array_equal(pickle.loads(dumped).transform(tiny_texts), expected)
    copy = clone(embedder)
    assert copy.get_params() == embedder.get_params()
    assert not hasattr(copy, "_n_features_out")


def test_in_a_pipeline_and_a_search(embedder, tiny_texts):
    y = np.array(["yes", "no"] * 12)
    model = make_pipeline(embedder, LogisticRegression(C=100.0)).fit(tiny_texts, y)
    assert model.score(tiny_texts, y) == 1.0
    grid = {"sentenceembedder__pooling": ["mean", "cls"]}
    search = GridSearchCV(model, grid, cv=2).fit(tiny_texts, y)
    assert search.best_score_ > 0.5


def test_it_changes_no_global_state_and_shows_a_bar_if_verbose(
    embedder, tiny_texts, global_random_state_unchanged, capfd
):
    threads = torch.get_num_threads()
    embedder.set_params(n_threads=threads + 1).fit_transform(tiny_texts)
    assert torch.get_num_threads() == threads
    assert capfd.readouterr() == ("", "")
    embedder.set_params(verbose=1).fit_transform(tiny_texts)
    out, err = capfd.readouterr()
    assert out == ""
    assert "embedding: 100%" in err
    assert "24/24" in err


# -- errors ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"pooling": "max"}, ValueError, "pooling must be one of 'auto', 'mean', 'cls'; got 'max'"),
        ({"max_length": 65}, ValueError, "max_length must be at most 64"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"n_threads": 0}, ValueError, "n_threads must be at least 1, got 0"),
        ({"verbose": "x"}, ValueError, "verbose must be"),
        ({"verbose": -1}, ValueError, "verbose must be"),
        ({"normalize": "l2"}, TypeError, "normalize must be True or False, got 'l2'"),
        ({"device": "gpu"}, ValueError, "device must be 'auto' or a torch device .*'gpu'"),
        ({"precision": "fp16"}, ValueError, "precision must be one of .*'fp16'"),
        ({"pretrained": "./nowhere"}, ValueError, "'./nowhere' is not a folder"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_bad_parameters(embedder, tiny_texts, params, error, message, method):
    embedder.set_params(**params)
    with pytest.raises(error, match=message):
        getattr(embedder, method)(tiny_texts)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("one text", TypeError, "X is a single str"),
        (["a", None], ValueError, "X holds a missing text in row 1"),
        ([], ValueError, "0 sample"),
        ([[5, 6], [7, 10**6]], ValueError, "row 1, column 1 is 1000000"),
        ([[0, 0], [7, 8]], ValueError, "nothing but padding in row 0"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_bad_documents(embedder, X, error, message, method):
    with pytest.raises(error, match=message):
        getattr(embedder, method)(X)


def test_default_encoder(minilm):
    out = SentenceEmbedder().fit_transform(["good morning", "good evening", "a tax form"])
    assert out.shape == (3, 384)
    assert out[0] @ out[1] > out[0] @ out[2]
