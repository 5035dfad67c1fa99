"""Saved, loaded and exported classifiers."""

import json
import shutil

import numpy as np
import pytest
import torch
from helpers import bert_net, build_encoder, mlp_net, points
from sklearn.exceptions import NotFittedError
from skorch.callbacks import EarlyStopping

import sklearn_spt
from sklearn_spt import (
    CoDecompositionClassifier,
    SelfPretrainingClassifier,
    SoftSelfTrainingClassifier,
    TriTrainingClassifier,
)
from sklearn_spt._logit_adjustment import logit_adjusted

MARKED = {"unlabeled_marker": None, "random_state": 0}


@pytest.fixture
def fitted(tiny_sentence_encoder, tiny_texts, tiny_y):
    net = bert_net(tiny_sentence_encoder)
    clf = SelfPretrainingClassifier(net, n_teachers=2, logit_adjustment=0.3, **MARKED)
    return clf.fit(tiny_texts, tiny_y)


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


# -- round trips -----------------------------------------------------------------------------------
def test_a_loaded_classifier_is_the_saved_one(
    fitted, saved, tiny_texts, tiny_y, global_random_state_unchanged
):
    loaded = sklearn_spt.load(saved)
    np.testing.assert_array_equal(
        loaded.predict_proba(tiny_texts), fitted.predict_proba(tiny_texts)
    )
    np.testing.assert_array_equal(loaded.transduction_, fitted.transduction_)
    assert loaded.history_ == fitted.history_
    assert repr(loaded) == repr(fitted)
    assert len({id(net) for net in loaded.estimators_}) == len(loaded.estimators_) == 4
    assert loaded.students_[0] is loaded.estimators_[-1]
    again = loaded.fit(tiny_texts, tiny_y).predict_proba(tiny_texts)
    np.testing.assert_array_equal(again, fitted.predict_proba(tiny_texts))


def test_no_encoder_is_needed_later(tmp_path, tiny_texts):
    encoder = build_encoder(tmp_path / "encoder", seed=7)
    net = bert_net(encoder).fit(tiny_texts, ["a", "b"] * 12)
    net.save(tmp_path / "model")
    expected = net.predict_proba(tiny_texts)
    shutil.rmtree(encoder)
    loaded = sklearn_spt.load(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(tiny_texts), expected)
    assert loaded.classes_.tolist() == ["a", "b"]
    loaded.partial_fit(tiny_texts[:4], ["a", "b"] * 2)


@pytest.mark.filterwarnings("ignore:both views of the documents are the same:UserWarning")
@pytest.mark.parametrize("kind", [TriTrainingClassifier, CoDecompositionClassifier])
def test_other_methods(kind, tiny_encoder, tiny_texts, tmp_path):
    y, more = [-9 if i > 11 else 3 * (i % 2) for i in range(24)], {}
    if kind is CoDecompositionClassifier:
        more["keywords"] = ["flu", "shot"]
    net = bert_net(tiny_encoder)
    clf = kind(net, threshold=0.5, max_iter=1, random_state=0, unlabeled_marker=-9, **more)
    clf.fit(tiny_texts, y).save(tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(tiny_texts), clf.predict_proba(tiny_texts))
    assert loaded.classes_.tolist() == [0, 3]


def test_a_linear_classifier_and_adapters(tiny_encoder, tiny_texts, tmp_path):
    X, y, _ = points(3)
    soft = SoftSelfTrainingClassifier().fit(X, y)
    soft.save(tmp_path / "soft")
    loaded = sklearn_spt.load(tmp_path / "soft")
    np.testing.assert_array_equal(loaded.predict_proba(X), soft.predict_proba(X))
    peft = pytest.importorskip("peft")
    adapter = peft.LoraConfig(r=2, target_modules=["query", "value"])
    net = bert_net(tiny_encoder, module__adapter=adapter).fit(tiny_texts, [0, 1] * 12)
    net.save(tmp_path / "lora")
    loaded = sklearn_spt.load(tmp_path / "lora")
    np.testing.assert_array_equal(loaded.predict_proba(tiny_texts), net.predict_proba(tiny_texts))


# -- damage ----------------------------------------------------------------------------------------
def test_damaged_folders_are_refused(saved):
    files = sorted(path for path in saved.rglob("*") if path.is_file())
    rng = np.random.default_rng(0)
    for _ in range(100):
        file = files[rng.integers(len(files))]
        content = file.read_bytes()
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            sklearn_spt.load(saved)
        file.write_bytes(content)
    files[-1].unlink()
    with pytest.raises(ValueError, match="is missing or damaged"):
        sklearn_spt.load(saved)


def test_other_folders_are_refused(saved, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="nothing is missing"):
        sklearn_spt.load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no saved classifier"):
        sklearn_spt.load(tmp_path / "empty")
    monkeypatch.setattr("sklearn_spt.persistence.FORMAT", 99)
    with pytest.raises(ValueError, match="has the format 2, but this version reads 99"):
        sklearn_spt.load(saved)


# -- folders ---------------------------------------------------------------------------------------
def test_folders_appear_whole_or_not_at_all(fitted, saved, tmp_path):
    with pytest.raises(ValueError, match="is in use; set overwrite=True"):
        fitted.save(saved)
    fitted.save(saved, overwrite=True)
    sklearn_spt.load(saved)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="is in use; give another folder"):
        fitted.save(tmp_path / "notes", overwrite=True)
    fitted.on_iteration = print
    with pytest.raises(ValueError, match=r"on_iteration .*cannot be saved.*Use pickle"):
        fitted.save(tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "notes"}


def test_code_is_not_saved(tiny_encoder, tiny_texts, tmp_path):
    X, y, _ = points()
    numbers = SelfPretrainingClassifier(mlp_net(), max_iter=0, random_state=0).fit(X, y)
    stopping = EarlyStopping("train_loss")
    net = bert_net(tiny_encoder, callbacks=[stopping]).fit(tiny_texts, [0, 1] * 12)
    for clf in (numbers, net):
        with pytest.raises(ValueError, match="cannot be saved"):
            clf.save(tmp_path / "model")
    with pytest.raises(NotFittedError, match="call fit first"):
        SelfPretrainingClassifier().save(tmp_path / "model")
    with pytest.raises(ValueError, match="cannot be exported"):
        numbers.export(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# -- export ----------------------------------------------------------------------------------------
def adjusted(fitted, texts):
    P = fitted.students_[0].predict_proba(texts)
    return logit_adjusted(P, fitted.class_shares_, fitted.logit_adjustment_)


def test_export_for_transformers(tiny_encoder, tiny_texts, tiny_y, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    net = bert_net(tiny_encoder, pooling="cls")
    clf = SelfPretrainingClassifier(net, logit_adjustment=0.5, **MARKED).fit(tiny_texts, tiny_y)
    clf.export(tmp_path / "out")
    logging.disable_progress_bar()
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert model.config.id2label == {0: "no", 1: "yes"}
    batch = tokenizer(tiny_texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        P = torch.softmax(model(**batch).logits, dim=1).numpy()
    np.testing.assert_allclose(P, adjusted(clf, tiny_texts), atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_export_for_sentence_transformers(fitted, tiny_texts, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    fitted.export(tmp_path / "out")
    logits = library.SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(tiny_texts)
    P = torch.softmax(torch.from_numpy(logits), dim=1).numpy()
    np.testing.assert_allclose(P, adjusted(fitted, tiny_texts), atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_export_for_onnx(fitted, tiny_texts, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    fitted.export(tmp_path / "out", format="onnx")
    session = runtime.InferenceSession(tmp_path / "out" / "model.onnx")
    for texts in (tiny_texts, tiny_texts[:1]):
        ids = fitted.students_[0].encode(texts).astype(np.int64)
        (P,) = session.run(None, {"input_ids": ids})
        np.testing.assert_allclose(P, adjusted(fitted, texts), atol=1e-5)
    assert json.loads((tmp_path / "out" / "export.json").read_text())["labels"] == ["no", "yes"]


def test_wrong_formats(fitted, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='format must be "huggingface" or "onnx"'):
        fitted.export(tmp_path / "out", format="pickle")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install onnx onnxscript"):
        fitted.export(tmp_path / "out", format="onnx")
