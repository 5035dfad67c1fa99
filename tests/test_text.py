"""`TokenIdVectorizer` and `SentenceEmbedder` in the company of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import bert_net
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    TokenIdVectorizer,
)
from sklearn_spt._pretrained import load_encoder


@pytest.fixture
def embedder(tiny_sentence_encoder):
    return SentenceEmbedder(tiny_sentence_encoder, device="cpu", precision="fp32")


@pytest.mark.filterwarnings("ignore:.*is cut there:UserWarning")
def test_the_width_depends_on_the_encoder_alone(tiny_encoder, tiny_texts):
    for max_length, width in (("auto", 64), (12, 12)):
        vectorizer = TokenIdVectorizer(tiny_encoder, max_length=max_length)
        for part in (tiny_texts, tiny_texts[:1], [tiny_texts[0] * 30]):
            assert vectorizer.transform(part).shape == (len(part), width)
        assert vectorizer.fit(tiny_texts).get_feature_names_out()[-1] == (
            f"tokenidvectorizer{width - 1}"
        )
    for bad in (2, 65, 0):
        with pytest.raises(ValueError, match=rf"max_length must be in \[3, 64\] .* got {bad}"):
            TokenIdVectorizer(tiny_encoder, max_length=bad).transform(tiny_texts)
    with pytest.raises(TypeError, match="X must hold texts"):
        TokenIdVectorizer(tiny_encoder).fit(np.ones((2, 3)))


@pytest.mark.filterwarnings("ignore:.*is cut there:UserWarning")
def test_frames_in_and_out(tiny_encoder, tiny_texts):
    frame = pd.DataFrame({"text": tiny_texts}, index=range(24, 0, -1))
    vectorizer = TokenIdVectorizer(tiny_encoder, max_length=8)
    expected = vectorizer.fit_transform(tiny_texts)
    found = vectorizer.set_output(transform="pandas").fit_transform(frame)
    np.testing.assert_array_equal(found, expected)
    assert found.index.tolist() == frame.index.tolist()
    for transformer in (vectorizer, SentenceEmbedder(tiny_encoder)):  # nothing is learned
        unfitted = clone(transformer).set_output(transform="pandas")
        found = unfitted.transform(frame)
        assert found.columns.tolist() == unfitted.fit(frame).get_feature_names_out().tolist()
        assert len(found) == 24


def test_a_pipeline_is_the_classifier_alone(tiny_encoder, tiny_texts):
    y = [0, 1] * 12
    pipeline = make_pipeline(TokenIdVectorizer(tiny_encoder, max_length=24), bert_net(tiny_encoder))
    P = pipeline.fit(tiny_texts, y).predict_proba(tiny_texts)
    alone = bert_net(tiny_encoder).fit(tiny_texts, y)
    np.testing.assert_allclose(P, alone.predict_proba(tiny_texts), atol=1e-4)
    assert pipeline[-1].n_features_in_ == 24
    with pytest.raises(ValueError, match="X has 9 features, but BertClassifier is expecting 24"):
        pipeline[-1].predict(np.ones((2, 9)))
    pipeline[-1].fit(tiny_texts, y)
    assert not hasattr(pipeline[-1], "n_features_in_")


def test_embeddings_depend_on_their_text_alone(embedder, tiny_texts):
    F = embedder.transform(tiny_texts)  # nothing is learned: no fit is needed
    assert (F.shape, F.dtype) == ((24, 16), np.float32)
    np.testing.assert_allclose(np.linalg.norm(F, axis=1), 1, atol=1e-5)
    order = np.random.default_rng(0).permutation(24)
    mixed = embedder.transform([tiny_texts[i] for i in order])
    np.testing.assert_allclose(mixed, F[order], atol=1e-5)
    alone = np.vstack([embedder.transform([text]) for text in tiny_texts])
    np.testing.assert_allclose(alone, F, atol=1e-5)
    repeated = embedder.transform([tiny_texts[0], *tiny_texts, tiny_texts[0]])
    assert np.array_equal(repeated[0], repeated[1])
    assert np.array_equal(repeated[0], repeated[-1])
    assert embedder.transform([""]).shape == (1, 16)  # only its special tokens


def test_options_of_the_embedder(embedder, tiny_texts, capfd):
    plain = clone(embedder).set_params(normalize=False).transform(tiny_texts)
    expected = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(embedder.transform(tiny_texts), expected, atol=1e-6)
    first = clone(embedder).set_params(pooling="cls").transform(tiny_texts)
    assert abs(first - expected).max() > 0.01
    rounded = clone(embedder).set_params(precision="bf16").transform(tiny_texts)
    np.testing.assert_allclose(rounded, expected, atol=0.1)
    assert capfd.readouterr() == ("", "")
    clone(embedder).set_params(verbose=1).transform(tiny_texts)
    assert "embedding: 100%" in capfd.readouterr().err


def test_a_baseline_without_fine_tuning(embedder, tiny_texts, global_random_state_unchanged):
    y = [0, 1] * 12
    model = make_pipeline(embedder, LogisticRegression(C=100)).fit(tiny_texts, y)
    assert model.score(tiny_texts, y) > 0.8
    assert embedder.get_feature_names_out().tolist()[-1] == "sentenceembedder15"
    ids = TokenIdVectorizer(embedder.pretrained, max_length=20).transform(tiny_texts)
    np.testing.assert_allclose(embedder.fit(ids).transform(ids), embedder.transform(ids), atol=0)
    with pytest.raises(ValueError, match="X has 5 features, but SentenceEmbedder is expecting 20"):
        embedder.transform(np.ones((2, 5)))


def test_frames_out_of_a_pipeline(tiny_encoder, tiny_texts):
    y = [0, 1] * 6 + [-1] * 12
    ids = TokenIdVectorizer(tiny_encoder, max_length=24).set_output(transform="pandas")
    assert ids.fit_transform(tiny_texts).shape == (24, 24)
    pipe = make_pipeline(ids, SelfPretrainingClassifier(bert_net(tiny_encoder), random_state=0))
    assert pipe.fit(tiny_texts, y).predict(tiny_texts).shape == (24,)


def test_the_embedder_draws_nothing(embedder, tiny_texts):
    """A fit in another thread draws from torch's generator, which belongs to the process."""
    embedder.transform(tiny_texts)  # reads the encoder
    before = torch.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.random, "fork_rng", None)
        embedder.transform(tiny_texts)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_embedder_leaves_the_shared_encoder_as_it_is(embedder, tiny_texts):
    model = load_encoder(embedder.pretrained).model
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    embedder.transform(tiny_texts)
    net = BertClassifier(embedder.pretrained, lr=0.1, max_epochs=1, random_state=0, device="cpu")
    net.fit(tiny_texts, [0, 1] * 12)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name])
    assert any(isinstance(layer, torch.nn.Dropout) for layer in model.modules())


def test_an_embedder_is_fitted_on_each_kind_of_documents(tiny_encoder, tiny_texts):
    ids = TokenIdVectorizer(tiny_encoder).fit_transform(tiny_texts)
    embedder = SentenceEmbedder(tiny_encoder).fit(ids)
    assert embedder.n_features_in_ == ids.shape[1]
    embedder.fit(text for text in tiny_texts)  # read once
    assert not hasattr(embedder, "n_features_in_")
