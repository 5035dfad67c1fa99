"""Texts, pretrained encoders, `TokenIdVectorizer` and `SentenceEmbedder`."""

import copy
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import TINY_VOCABULARY, bert_net, build_encoder
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from tokenizers.processors import TemplateProcessing
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    TokenIdVectorizer,
)
from sklearn_spt._batches import delete_tokens
from sklearn_spt._data import as_texts, sequence_lengths
from sklearn_spt._pretrained import load_encoder

ID = {word: number for number, word in enumerate(TINY_VOCABULARY)}


@pytest.fixture
def embedder(tiny_sentence_encoder):
    return SentenceEmbedder(tiny_sentence_encoder, device="cpu", precision="fp32")


@pytest.mark.filterwarnings("ignore:.*is cut there:UserWarning")
def test_the_width_depends_on_the_encoder_alone(tiny_encoder, tiny_texts):
    for max_length, width in (("auto", 64), (12, 12)):
        vectorizer = TokenIdVectorizer(tiny_encoder, max_length=max_length)
        for part in (tiny_texts, tiny_texts[:1], [tiny_texts[0] * 30]):
            assert vectorizer.transform(part).shape == (len(part), width)
        names = vectorizer.fit(tiny_texts).get_feature_names_out()
        assert names[-1] == f"tokenidvectorizer{width - 1}"
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
    pipe = make_pipeline(vectorizer, SelfPretrainingClassifier(bert_net(tiny_encoder)))
    assert pipe.fit(frame, [0, 1] * 6 + [-1] * 12).predict(frame).shape == (24,)


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
    order = np.random.default_rng(0).permutation(24)
    mixed = embedder.transform([tiny_texts[i] for i in order])
    np.testing.assert_allclose(mixed, F[order], atol=1e-5)
    alone = np.vstack([embedder.transform([text]) for text in tiny_texts])
    np.testing.assert_allclose(alone, F, atol=1e-5)
    repeated = embedder.transform([tiny_texts[0], *tiny_texts, tiny_texts[0]])
    assert np.array_equal(repeated[0], repeated[1])
    assert np.array_equal(repeated[0], repeated[-1])
    assert embedder.transform([""]).shape == (1, 16)  # only its special tokens


def test_the_default_encoder_is_the_installed_one(minilm, capfd):
    F = SentenceEmbedder(minilm).fit_transform(["a dog", "a puppy", "tax law"])
    assert F.shape == (3, 384)
    assert F[0] @ F[1] > F[0] @ F[2]
    assert capfd.readouterr() == ("", "")


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
    F = embedder.transform(tiny_texts)
    np.testing.assert_allclose(embedder.fit(ids).transform(ids), F, atol=1e-6)
    with pytest.raises(ValueError, match="X has 5 features, but SentenceEmbedder is expecting 20"):
        embedder.transform(np.ones((2, 5)))
    embedder.fit(text for text in tiny_texts)  # read once
    assert not hasattr(embedder, "n_features_in_")


def test_the_embedder_draws_nothing(embedder, tiny_texts, monkeypatch):
    """A fit in another thread draws from torch's generator, which belongs to the process."""
    embedder.transform(tiny_texts)  # reads the encoder
    before = torch.get_rng_state()
    monkeypatch.setattr(torch.random, "fork_rng", None)
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


# -- texts, tokens and encoders --------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, pd.Series, lambda x: pd.DataFrame({"t": x}),
             lambda x: np.array(x, dtype=object)[:, None]]
)  # fmt: skip
def test_containers_of_texts(kind):
    assert as_texts(kind(["a", "b c"])) == ["a", "b c"]


def test_more_texts_than_the_tokenizer_reads_at_once(tiny_encoder, tiny_texts):
    vectorizer = TokenIdVectorizer(tiny_encoder, max_length=8)
    ids, few = vectorizer.transform(tiny_texts * 200 + ["a"]), vectorizer.transform(tiny_texts)
    np.testing.assert_array_equal(ids[:-1], np.tile(few, (200, 1)))
    assert ids[-1].tolist() == [ID["[CLS]"], ID["a"], ID["[SEP]"], *[ID["[PAD]"]] * 5]


def test_token_ids(tiny_encoder):
    texts = "She got shots!", "no", "a [SEP] a"  # names of special tokens are plain text
    ids = TokenIdVectorizer(tiny_encoder, max_length=10).fit_transform(texts)
    words = "she got shot ##s !", "no", "a [ sep ] a"
    rows = [[ID[word] for word in f"[CLS] {of_text} [SEP]".split()] for of_text in words]
    assert ids.dtype == np.int32
    assert ids.tolist() == [row + [0] * (10 - len(row)) for row in rows]
    cut = TokenIdVectorizer(tiny_encoder, max_length=4).transform(["she got shots !"])
    assert cut.tolist() == [[ID[word] for word in ("[CLS]", "she", "got", "[SEP]")]]


def test_deletion_keeps_ends_and_order():
    ids = np.array([[2, 11, 12, 13, 14, 3, 0, 0], [2, 21, 3, 0, 0, 0, 0, 0]], dtype=np.int32)
    rng = np.random.default_rng(0)
    for share in (0.0, 0.5, 0.99):
        out = delete_tokens(ids, 0, share, rng)
        assert out.shape == ids.shape
        for before, after in zip(ids, out, strict=True):
            kept = after[: sequence_lengths(after[None], 0)[0]].tolist()
            assert kept[0] == 2
            assert kept[-1] == 3
            assert kept == [token for token in before.tolist() if token in kept and token]
    many = np.tile(np.arange(2, 102, dtype=np.int32), (200, 1))
    left = sequence_lengths(delete_tokens(many, 0, 0.2, rng), 0) - 2
    assert abs(left.mean() / 98 - 0.8) < 0.02


def test_an_encoder_is_read_once_until_it_is_saved_again(tmp_path):
    build_encoder(tmp_path, seed=0)
    assert load_encoder(tmp_path) is load_encoder(tmp_path)
    before = load_encoder(tmp_path).model.embeddings.word_embeddings.weight.clone()
    build_encoder(tmp_path, seed=5)
    after = load_encoder(tmp_path).model.embeddings.word_embeddings.weight
    assert not torch.equal(before, after)


INCOMPLETE = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
    "no tokenizer": (
        lambda f: [file.unlink() for file in f.glob("*token*")],
        "cannot be loaded|no tokenizer with a vocabulary",
    ),
    "half the weights": (
        lambda f: _drop(f, "encoder.layer.1"),
        "the weights are incomplete, encoder.layer.1",
    ),
    "damaged": (lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "cannot be loaded"),
}


@pytest.fixture
def own(tiny_encoder, tmp_path):
    """An encoder that a test may change."""
    return shutil.copytree(tiny_encoder, tmp_path / "e")


@pytest.mark.parametrize("what", INCOMPLETE)
def test_incomplete_encoders_are_refused(what, own):
    change, message = INCOMPLETE[what]
    change(own)
    with pytest.raises(ValueError, match=message):
        load_encoder(own)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("./nowhere", "there is no such folder"),
        ("a/b/c", "there is no such folder"),
        ("no/such", "it is no folder, not in the cache of the hub, and HF_HUB_OFFLINE=1 is set"),
    ],
)
def test_an_encoder_that_is_nowhere(name, reason):
    expected = re.escape(f"The encoder {name!r} cannot be loaded: {reason}. Give a folder")
    for clf in (BertClassifier(name), SelfPretrainingClassifier(name)):
        with pytest.raises(ValueError, match=expected):
            clf.fit(["a", "b"], [0, 1])


def _drop(folder, prefix):
    weights = load_file(folder / "model.safetensors")
    kept = {k: v for k, v in weights.items() if not k.startswith(prefix)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def test_an_encoder_without_pooler_gets_no_random_one(own):
    _drop(own, "pooler")
    assert load_encoder(own).model.pooler is None


def test_embeddings_are_means_of_states(tiny_sentence_encoder, global_random_state_unchanged):
    text = "she got shots today"
    ids = TokenIdVectorizer(tiny_sentence_encoder).transform([text])[:, :7]
    model = AutoModel.from_pretrained(tiny_sentence_encoder)
    with torch.no_grad():
        expected = model(torch.from_numpy(ids).long()).last_hidden_state.mean(dim=1).numpy()
    embedder = SentenceEmbedder(tiny_sentence_encoder, normalize=False, precision="fp32")
    for X in ([text, "no"], TokenIdVectorizer(tiny_sentence_encoder).transform([text, "no"])):
        np.testing.assert_allclose(embedder.fit(X).transform(X)[:1], expected, atol=1e-5)


def test_roberta_like_positions(own):
    file = own / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 63}))
    assert load_encoder(own).max_positions == 63


def test_a_tokenizer_that_closes_a_text_with_padding(own, tiny_texts):
    """As that of some causal encoders: the last token of a text is not told from padding."""
    backend = AutoTokenizer.from_pretrained(own).backend_tokenizer
    backend.post_processor = TemplateProcessing("$A [PAD]", special_tokens=[("[PAD]", 0)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": 64}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    tokenizer.save_pretrained(own)
    assert (load_encoder(own).opening, load_encoder(own).closing) == ([], [])
    net = bert_net(str(own), max_epochs=1).fit(tiny_texts, [0, 1] * 12)
    ids = TokenIdVectorizer(own, max_length=24).transform(tiny_texts)
    np.testing.assert_allclose(net.predict_proba(ids), net.predict_proba(tiny_texts), atol=1e-5)
    with pytest.raises(ValueError, match="X holds a text without a token in row 1, and 1 in all"):
        net.fit(["a shot", "\u0301"], [0, 1])


def test_an_encoder_from_an_older_pickle(tiny_encoder):
    encoder = copy.copy(load_encoder(tiny_encoder))
    state = {k: v for k, v in vars(encoder).items() if k not in ("opening", "closing")}
    encoder.__setstate__(state)
    assert (encoder.opening, encoder.closing) == ([ID["[CLS]"]], [ID["[SEP]"]])
    assert encoder.tokenize(["a a a a"], 4)[0, [0, -1]].tolist() == [ID["[CLS]"], ID["[SEP]"]]
