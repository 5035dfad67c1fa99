"""Exported nets give the logits of ours in the libraries that they are written for."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.nets import mlp_net, tiny_config
from sklearn.exceptions import NotFittedError
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from sklearn_spt import BertClassifier, MutualLearningClassifier, SelfPretrainingClassifier
from sklearn_spt._functional import tempered_softmax
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.persistence._card import model_card
from sklearn_spt.self_pretraining._logit_adjustment import logit_adjusted
from sklearn_spt.text._locations import quiet

# The special token is plain text, and the last text is cut.
TEXTS = ["i got the flu shot", "never [SEP] again!", "they want it " * 30]


def fitted(checkpoint, texts, **params):
    """A net after one epoch, in fp32 as the other libraries compute."""
    settings = {"max_epochs": 1, "random_state": 0, "precision": "fp32", "device": "cpu", **params}
    return BertClassifier(checkpoint, **settings).fit(texts, ["a", "b"] * 12)


def logits_of(net, texts=TEXTS):
    """Our logits."""
    return predict_logits(net, texts, 2)


def sentence_transformer(folder):
    """The folder, loaded by sentence-transformers."""
    library = pytest.importorskip("sentence_transformers")
    with quiet():
        return library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def without_pooler(folder, checkpoint):
    """A copy of a checkpoint whose weights have no pooler."""
    from transformers import BertModel

    with quiet():
        BertModel.from_pretrained(checkpoint, add_pooling_layer=False).save_pretrained(folder)
        AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)
    return str(folder)


def as_roberta(folder, checkpoint):
    """An encoder of another class with a pooler like BERT's."""
    from transformers import RobertaModel

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    config = tiny_config("roberta", vocab_size=len(tokenizer), max_position_embeddings=66)
    with quiet(), torch.random.fork_rng(devices=[]):
        RobertaModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return str(folder)


# ---------------------------------------------------------------------------------------------
# transformers and sentence-transformers
# ---------------------------------------------------------------------------------------------
def test_bert_with_cls_pooling_is_a_model_of_transformers(tiny_encoder, tiny_texts, tmp_path):
    net = fitted(tiny_encoder, tiny_texts, pooling="cls", max_length=24)
    net.export(tmp_path / "out")
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
        classify = pipeline("text-classification", str(tmp_path / "out"), top_k=None, device="cpu")
        found = classify(TEXTS, truncation=True)
    assert type(model).__name__ == "BertForSequenceClassification"
    assert model.config.id2label == {0: "a", 1: "b"}
    assert model.config.label2id == {"a": 0, "b": 1}
    assert model.config.classifier_dropout == 0.1
    batch = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    assert batch["input_ids"].shape[1] == 24
    with torch.no_grad():
        logits = model(**batch).logits.numpy()
    np.testing.assert_allclose(logits, logits_of(net), atol=1e-5)
    P = net.predict_proba(TEXTS)
    for row, expected in zip(found, P, strict=True):
        by_label = {entry["label"]: entry["score"] for entry in row}
        np.testing.assert_allclose([by_label["a"], by_label["b"]], expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["mean", "without pooler", "roberta"])
def test_other_nets_are_models_of_sentence_transformers(kind, tiny_encoder, tiny_texts, tmp_path):
    make = {"without pooler": without_pooler, "roberta": as_roberta}.get(kind)
    checkpoint = tiny_encoder if make is None else make(tmp_path / "enc", tiny_encoder)
    pooling = "mean" if kind == "mean" else "cls"
    net = fitted(checkpoint, tiny_texts, pooling=pooling, max_length=24)
    net.export(tmp_path / "out")
    model = sentence_transformer(tmp_path / "out")
    assert model.max_seq_length == 24
    assert model[0].auto_model.pooler is None
    logits = model.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(logits, logits_of(net), atol=1e-5)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {
        "0": "a",
        "1": "b",
    }


def test_an_adapter_is_added_to_the_exported_weights(tiny_encoder, tiny_texts, tmp_path):
    lora = pytest.importorskip("peft").LoraConfig(r=2, target_modules=["query"])
    net = fitted(tiny_encoder, tiny_texts, pooling="cls", lr=1e-2, module__adapter=lora)
    logits = logits_of(net)
    net.export(tmp_path / "out")
    with quiet():
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
        batch = AutoTokenizer.from_pretrained(tmp_path / "out")(
            TEXTS, padding=True, truncation=True, return_tensors="pt"
        )
    with torch.no_grad():
        np.testing.assert_allclose(model(**batch).logits.numpy(), logits, atol=1e-5)
    np.testing.assert_array_equal(logits_of(net), logits)  # a copy was merged


def test_default_encoder_is_exported(minilm, tiny_texts, tmp_path):
    net = fitted(minilm, tiny_texts, max_epochs=0)
    net.export(tmp_path / "out")
    logits = sentence_transformer(tmp_path / "out").encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(logits, logits_of(net), atol=1e-5)


# ---------------------------------------------------------------------------------------------
# Which net
# ---------------------------------------------------------------------------------------------
def test_last_student_is_exported_with_its_logit_adjustment(tiny_encoder, tiny_texts, tmp_path):
    net = BertClassifier(tiny_encoder, pooling="cls", precision="fp32", device="cpu")
    clf = SelfPretrainingClassifier(
        net, max_iter=1, alpha=0, finetune_epochs=1, logit_adjustment=0.7, random_state=0
    )
    clf.fit(tiny_texts, [1, 0, 0] * 4 + [-1] * 12)
    student = tempered_softmax(logits_of(clf.students_[0]))
    weights = clf.students_[0].module_.head.bias.detach().clone()
    clf.export(tmp_path / "out")
    with quiet():
        classify = pipeline("text-classification", str(tmp_path / "out"), top_k=None, device="cpu")
        found = classify(TEXTS, truncation=True)
    P = [[next(e["score"] for e in row if e["label"] == c) for c in "01"] for row in found]
    expected = logit_adjusted(student, clf.class_shares_, 0.7)
    assert np.abs(expected - student).max() > 0.01
    np.testing.assert_allclose(P, expected, atol=1e-5)
    assert torch.equal(clf.students_[0].module_.head.bias, weights)  # a copy was adjusted


def test_first_net_of_another_method_is_exported(tiny_encoder, tiny_texts, tmp_path):
    net = BertClassifier(tiny_encoder, pooling="mean", precision="fp32", device="cpu")
    clf = MutualLearningClassifier(net, finetune_epochs=1, random_state=0)
    clf.fit(tiny_texts, [1, 0] * 6 + [-1] * 12).export(tmp_path / "out")
    logits = sentence_transformer(tmp_path / "out").encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(logits, logits_of(clf.estimators_[0]), atol=1e-5)


@pytest.mark.usefixtures("global_random_state_unchanged")
def test_export_changes_and_prints_nothing(tiny_encoder, tiny_texts, tmp_path, capfd):
    net = fitted(tiny_encoder, tiny_texts)
    before = net.predict_proba(TEXTS)
    net.export(tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(net.predict_proba(TEXTS), before)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".md", ".safetensors"}


# ---------------------------------------------------------------------------------------------
# ONNX
# ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_onnx_has_equal_probabilities_at_any_shape(pooling, tiny_encoder, tiny_texts, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from tokenizers import Tokenizer

    net = fitted(tiny_encoder, tiny_texts, pooling=pooling, max_length=24)
    net.export(tmp_path / "out", format="onnx")
    session = runtime.InferenceSession(
        str(tmp_path / "out" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    assert json.loads((tmp_path / "out" / "labels.json").read_text()) == ["a", "b"]
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:], ["i"], tiny_texts, tiny_texts * 3):
        ids = np.array([one.ids for one in tokenizer.encode_batch(texts)])
        (P,) = session.run(None, {"input_ids": ids})
        assert P.shape == (len(texts), 2)
        np.testing.assert_allclose(P, net.predict_proba(texts), atol=1e-4)
        (wide,) = session.run(None, {"input_ids": np.pad(ids, ((0, 0), (0, 7)))})
        np.testing.assert_allclose(wide, P, atol=1e-5)


def test_missing_extra_is_named(tiny_encoder, tiny_texts, tmp_path, monkeypatch):
    from sklearn_spt.persistence import _onnx

    net = fitted(tiny_encoder, tiny_texts, max_epochs=0)
    monkeypatch.setattr(_onnx.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-spt\[onnx\]'"):
        net.export(tmp_path / "out", format="onnx")
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------
# The card, and what is refused
# ---------------------------------------------------------------------------------------------
def test_card_says_what_was_trained_and_holds_no_text(tiny_encoder, tiny_texts, tmp_path):
    net = BertClassifier(tiny_encoder, pooling="cls", max_length=24)
    clf = SelfPretrainingClassifier(
        net,
        max_iter=1,
        alpha=0,
        finetune_epochs=1,
        validation_fraction=0.5,
        checkpoint_dir=tmp_path / "private",
        random_state=3,
    )
    clf.fit(tiny_texts, [1, 0] * 8 + [-1] * 8)
    clf.export(tmp_path / "out")
    score = clf.history_[clf.best_iter_]["validation_score"]
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: text-classification\n")
    for part in (
        "A student of a `SelfPretrainingClassifier`, exported by sklearn-spt ",
        "Labelled texts: 16 (8 of `0`, 8 of `1`), of which 50% were held out",
        "Unlabelled texts: 8.",
        f"Score on held-out texts: {score:.3f}, of the 2 nets of the classifier together.",
        "| lam | 0.3 |",
        "| random_state | 3 |",
        "| max_length | 24 |",
        'pipeline("text-classification"',
    ):
        assert part in card
    (loss,) = clf.history_[clf.best_iter_]["loss"]["supervised" if not clf.best_iter_ else "stage1"]
    assert f"[{loss:.4g}" in card
    assert not [text for text in tiny_texts if text in card]
    assert str(tmp_path) not in card
    assert "base_model" not in card  # it is a folder


def test_card_of_a_net_tells_its_losses_in_four_digits(tiny_encoder, tiny_texts, tmp_path):
    net = BertClassifier(tiny_encoder, max_length=24, max_epochs=2, random_state=0)
    net.fit(tiny_texts, [1, 0] * 12).export(tmp_path / "out")
    losses = [round(float(loss), 4) for loss in net.history[:, "train_loss"]]
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"Training loss of each epoch: {losses}.\n" in card


def test_card_of_a_named_encoder_names_it(minilm, tiny_texts, tmp_path):
    fitted(minilm, tiny_texts).export(tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"base_model: {minilm}\n" in card
    assert "library_name: sentence-transformers\n" in card
    assert "Labelled texts: 24 in an epoch." in card
    assert "Score on held-out texts: none was measured during training." in card


def test_card_of_a_pinned_encoder_links_to_it_and_tells_the_revision(tiny_encoder, tiny_texts):
    net = fitted(tiny_encoder, tiny_texts, max_epochs=0)
    net.pretrained = "someone/encoder@v1.0"  # the card reads the name alone
    card = model_card(net, net, ["a", "b"], "transformers")
    assert "\nbase_model: someone/encoder\n" in card
    assert "\n| pretrained | someone/encoder@v1.0 |\n" in card


def test_unusable_calls_write_nothing(tiny_encoder, tiny_texts, tmp_path):
    with pytest.raises(NotFittedError):
        BertClassifier().export(tmp_path / "out")
    clf = SelfPretrainingClassifier(mlp_net(), max_iter=0, finetune_epochs=1)
    clf.fit(np.ones((24, 2), dtype=np.float32), [1, 0] * 6 + [-1] * 12)
    with pytest.raises(ValueError, match="only a BertClassifier"):
        clf.export(tmp_path / "out")
    net = fitted(tiny_encoder, tiny_texts, max_epochs=0)
    with pytest.raises(ValueError, match="format must be one of 'huggingface', 'onnx'"):
        net.export(tmp_path / "out", format="pickle")
    assert not (tmp_path / "out").exists()
    net.export(tmp_path / "out")
    with pytest.raises(ValueError, match="overwrite=True"):
        net.export(tmp_path / "out")
    net.export(tmp_path / "out", overwrite=True)
