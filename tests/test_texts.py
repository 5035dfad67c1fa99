"""Texts, tokenizers and pretrained encoders."""

import copy
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import TINY_VOCABULARY, bert_net, build_encoder
from numpy.testing import assert_allclose
from safetensors.torch import load_file, save_file
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

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


@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, pd.Series, lambda x: pd.DataFrame({"t": x}),
             lambda x: np.array(x, dtype=object)[:, None]]
)  # fmt: skip
def test_containers_of_texts(kind):
    assert as_texts(kind(["a", "b c"])) == ["a", "b c"]


@pytest.mark.parametrize(
    "X", [np.ones((2, 3)), [[1, 2], [3, 4]], {"a": [1]}, pd.DataFrame({"a": [1]})]
)
def test_numbers_are_no_texts(X):
    assert as_texts(X) is None


def test_token_ids(tiny_encoder):
    ids = TokenIdVectorizer(tiny_encoder, max_length=10).fit_transform(["She got shots!", "no"])
    words = ["[CLS]", "she", "got", "shot", "##s", "!", "[SEP]"]
    assert ids.dtype == np.int32
    assert ids.tolist() == [
        [ID[word] for word in words] + [0] * 3,
        [ID["[CLS]"], ID["no"], ID["[SEP]"]] + [0] * 7,
    ]
    cut = TokenIdVectorizer(tiny_encoder, max_length=4).transform(["she got shots !"])
    assert cut.tolist() == [[ID[word] for word in ("[CLS]", "she", "got", "[SEP]")]]


def test_names_of_special_tokens_are_plain_text(tiny_encoder):
    ids = TokenIdVectorizer(tiny_encoder).transform(["a [SEP] a"])[0]
    assert (ids == ID["[SEP]"]).sum() == 1
    assert ids[:6].tolist() == [ID[w] for w in ("[CLS]", "a", "[", "sep", "]", "a")]


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


def test_pooling_and_positions(tiny_encoder, tiny_sentence_encoder):
    assert load_encoder(tiny_encoder).pooling == "cls"
    encoder = load_encoder(tiny_sentence_encoder)
    assert (encoder.pooling, encoder.pad_id, encoder.max_positions) == ("mean", 0, 64)
    assert load_encoder(tiny_sentence_encoder) is encoder


def test_an_encoder_that_is_saved_again_is_read_again(tmp_path):
    build_encoder(tmp_path, seed=0)
    before = load_encoder(tmp_path).model.embeddings.word_embeddings.weight.clone()
    build_encoder(tmp_path, seed=5)
    after = load_encoder(tmp_path).model.embeddings.word_embeddings.weight
    assert not torch.equal(before, after)


def test_incomplete_encoders_are_refused(tiny_encoder, tmp_path):
    for name, change, message in [
        ("no weights", lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
        ("no tokenizer", _remove_tokenizer, "cannot be loaded|no tokenizer with a vocabulary"),
        ("half the weights", _drop_layer, "the weights are incomplete, encoder.layer.1"),
        ("damaged", lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "cannot be loaded"),
    ]:
        folder = tmp_path / name
        shutil.copytree(tiny_encoder, folder)
        change(folder)
        with pytest.raises(ValueError, match=message):
            load_encoder(folder)


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


def _remove_tokenizer(folder):
    for file in folder.glob("*token*"):
        file.unlink()


def _drop_layer(folder):
    weights = load_file(folder / "model.safetensors")
    kept = {k: v for k, v in weights.items() if not k.startswith("encoder.layer.1")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def test_an_encoder_without_pooler_gets_no_random_one(tiny_encoder, tmp_path):
    shutil.copytree(tiny_encoder, tmp_path / "e")
    weights = load_file(tmp_path / "e" / "model.safetensors")
    kept = {k: v for k, v in weights.items() if not k.startswith("pooler")}
    save_file(kept, tmp_path / "e" / "model.safetensors", metadata={"format": "pt"})
    assert load_encoder(tmp_path / "e").model.pooler is None


def test_the_default_encoder_is_the_installed_one(minilm, capfd):
    embedder = SentenceEmbedder(minilm)
    F = embedder.fit_transform(["a dog", "a puppy", "tax law", "a dog"])
    assert F.shape == (4, 384)
    assert F.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(F, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(F[0], F[3])
    assert F[0] @ F[1] > F[0] @ F[2]
    assert capfd.readouterr() == ("", "")
    assert embedder.get_feature_names_out()[0] == "sentenceembedder0"


def test_embeddings_are_means_of_states(tiny_sentence_encoder, global_random_state_unchanged):
    from transformers import AutoModel

    text = "she got shots today"
    ids = TokenIdVectorizer(tiny_sentence_encoder).transform([text])[:, :7]
    model = AutoModel.from_pretrained(tiny_sentence_encoder)
    with torch.no_grad():
        expected = model(torch.from_numpy(ids).long()).last_hidden_state.mean(dim=1).numpy()
    embedder = SentenceEmbedder(tiny_sentence_encoder, normalize=False, precision="fp32")
    for X in ([text, "no"], TokenIdVectorizer(tiny_sentence_encoder).transform([text, "no"])):
        np.testing.assert_allclose(embedder.fit(X).transform(X)[:1], expected, atol=1e-5)


def test_roberta_like_positions(tmp_path, tiny_encoder):
    shutil.copytree(tiny_encoder, tmp_path / "e")
    file = tmp_path / "e" / "tokenizer_config.json"
    settings = json.loads(file.read_text()) | {"model_max_length": 63}
    file.write_text(json.dumps(settings))
    assert load_encoder(tmp_path / "e").max_positions == 63


def test_a_tokenizer_that_closes_a_text_with_padding(tiny_encoder, tiny_texts, tmp_path):
    """As that of some causal encoders: the last token of a text is not told from padding."""
    shutil.copytree(tiny_encoder, tmp_path / "encoder")
    backend = AutoTokenizer.from_pretrained(tiny_encoder).backend_tokenizer
    backend.post_processor = TemplateProcessing("$A [PAD]", special_tokens=[("[PAD]", 0)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": 64}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    tokenizer.save_pretrained(tmp_path / "encoder")
    encoder = load_encoder(tmp_path / "encoder")
    assert (encoder.opening, encoder.closing) == ([], [])
    net = bert_net(str(tmp_path / "encoder"), max_epochs=1).fit(tiny_texts, [0, 1] * 12)
    ids = TokenIdVectorizer(tmp_path / "encoder", max_length=24).transform(tiny_texts)
    assert_allclose(net.predict_proba(ids), net.predict_proba(tiny_texts), atol=1e-5)
    with pytest.raises(ValueError, match="X holds a text without a token in row 1, and 1 in all"):
        net.fit(["a shot", "\u0301"], [0, 1])


def test_an_encoder_from_an_older_pickle(tiny_encoder):
    encoder = copy.copy(load_encoder(tiny_encoder))
    state = {k: v for k, v in vars(encoder).items() if k not in ("opening", "closing")}
    encoder.__setstate__(state)
    assert (encoder.opening, encoder.closing) == ([ID["[CLS]"]], [ID["[SEP]"]])
    assert encoder.tokenize(["a a a a"], 4).tolist() == [
        [ID[w] for w in ("[CLS]", "a", "a", "[SEP]")]
    ]
