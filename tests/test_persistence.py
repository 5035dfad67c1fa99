"""Saved classifiers come back equal, damage is refused, exports agree with our probabilities."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pickle
import shutil

import numpy as np
import pytest
import torch
from helpers import bert_net, mlp_net, points
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from skorch.callbacks import EarlyStopping
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertModel,
    RobertaConfig,
    RobertaModel,
)
from transformers.utils import logging

import sklearn_spt
from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SoftSelfTrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TokenIdVectorizer,
    TriTrainingClassifier,
    persistence,
)
from sklearn_spt.baselines import KeywordWindow

# The name of a special token is plain text here, and the last text is longer than a net reads.
TEXTS = ["i got the flu shot", "never [SEP] again!", "they want it " * 30]
HALF = [1, 0] * 6 + [-1] * 12
#: Each method with quick settings.
METHODS = {
    "self-pretraining": (SelfPretrainingClassifier, {"max_iter": 1, "ensemble": "all"}),
    "self-training": (ThrottledSelfTrainingClassifier, {"threshold": 0.5, "n_iterations": 1}),
    "tri-training": (TriTrainingClassifier, {"threshold": 0.5, "max_iter": 1}),
    "mutual learning": (MutualLearningClassifier, {}),
    "spaced repetition": (SpacedRepetitionClassifier, {"threshold": 0.5, "max_iter": 1}),
    "co-training": (
        CoDecompositionClassifier,
        {"views": (None, KeywordWindow("shot", 1)), "threshold": 0.5, "n_iterations": 1},
    ),
}


def method(kind, net, **params):
    cls, settings = METHODS[kind]
    return cls(net, **{"finetune_epochs": 1, "random_state": 0, **settings, **params})


@pytest.fixture
def own_encoder(tiny_encoder, tmp_path):
    """An encoder that a test may remove."""
    return str(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def fitted(own_encoder, tiny_texts):
    return bert_net(own_encoder, max_epochs=1, pooling="mean").fit(tiny_texts, ["a", "b"] * 12)


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def _without_bars():
    """Let transformers load without bars and reports, which tests of output would see."""
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(level)
    logging.enable_progress_bar()


def comparable(value):
    """Return values that == compares: nets as their parameters, arrays with their dtype."""
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return type(value), {name: comparable(param) for name, param in params.items()}
    if isinstance(value, list | tuple):
        return [type(value), *map(comparable, value)]
    return (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else value


def assert_same(loaded, clf, X):
    """Both have equal parameters, attributes and probabilities, bit by bit."""
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
    assert comparable(loaded) == comparable(clf)
    if not isinstance(clf, BertClassifier):
        names = {name for name in vars(clf) if name.endswith("_")}
        assert names == {name for name in vars(loaded) if name.endswith("_")}
        for name in names:
            assert comparable(getattr(loaded, name)) == comparable(getattr(clf, name)), name


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


# -- round trips -----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", METHODS)
def test_methods_are_equal_without_the_encoder(kind, own_encoder, tiny_texts, tmp_path):
    clf = method(kind, bert_net(own_encoder)).fit(tiny_texts, HALF)
    clf.save(tmp_path / "model")
    shutil.rmtree(own_encoder)
    loaded = sklearn_spt.load(str(tmp_path / "model"))
    shutil.rmtree(tmp_path / "model")  # it is not needed either
    assert_same(loaded, clf, tiny_texts)
    assert not hasattr(clone(loaded), "classes_")


def test_every_classifier_of_texts_is_tested():
    names = {name for name in sklearn_spt.__all__ if hasattr(getattr(sklearn_spt, name), "save")}
    assert names == {cls.__name__ for cls, _ in METHODS.values()} | {"BertClassifier"}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_nets_are_equal_and_keep_their_history(pooling, tiny_encoder, tiny_texts, tmp_path):
    clf = bert_net(tiny_encoder, pooling=pooling, lr="auto", max_length="auto", max_epochs=2)
    clf.fit(tiny_texts, [1, 0] * 12).save(tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    assert_same(loaded, clf, tiny_texts)
    assert loaded.lr_ == clf.lr_
    assert loaded.history[:, "train_loss"] == clf.history[:, "train_loss"]


LABELS = {
    "str": (["flu", "no flu"], -1),
    "str and None": (["flu", "a", "ä\n"], None),
    "int": ([2**60, -3, 7], -1),
    "bool": ([True, False], None),
    "float": ([0.1, 2.5], np.nan),
    "objects": (np.array(["x", "y"], dtype=object), -1),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_all_kinds_come_back(kind, tiny_encoder, tiny_texts, tmp_path):
    labels, marker = LABELS[kind]
    y = [labels[row % len(labels)] if row < 12 else marker for row in range(24)]
    net = bert_net(tiny_encoder, max_epochs=0)
    clf = SelfPretrainingClassifier(net, max_iter=1, unlabeled_marker=marker, random_state=0)
    clf.fit(tiny_texts, np.array(y, dtype=object) if kind == "objects" else y)
    clf.save(tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(TEXTS), clf.predict(TEXTS))
    for name in ("classes_", "transduction_"):
        ours, again = getattr(clf, name), getattr(loaded, name)
        assert repr(again.tolist()) == repr(ours.tolist())  # nan is nan
        assert again.dtype == ours.dtype
    counts = clf.history_[1]["pseudo_label_counts"]
    assert loaded.history_[1]["pseudo_label_counts"] == counts
    assert [*map(type, loaded.history_[1]["pseudo_label_counts"])] == [*map(type, counts)]


def test_a_net_that_is_listed_twice_is_stored_once(tiny_encoder, tiny_texts, tmp_path):
    clf = method("self-pretraining", bert_net(tiny_encoder)).fit(tiny_texts, HALF)
    clf.save(tmp_path / "model")
    assert len(files(tmp_path / "model" / "nets")) == len(clf.estimators_)
    assert [path.name for path in (tmp_path / "model" / "encoder").iterdir()] == ["0"]
    loaded = sklearn_spt.load(tmp_path / "model")
    assert [loaded.estimators_.index(net) for net in loaded.students_] == [
        clf.estimators_.index(net) for net in clf.students_
    ]
    loaded.save(tmp_path / "again")
    assert len(files(tmp_path / "again")) == len(files(tmp_path / "model"))
    assert_same(sklearn_spt.load(tmp_path / "again"), clf, TEXTS)
    assert_same(pickle.loads(pickle.dumps(loaded)), clf, TEXTS)


def test_token_ids_are_accepted_as_before(tiny_encoder, tiny_texts, tmp_path):
    ids = TokenIdVectorizer(tiny_encoder, max_length=16).fit_transform(tiny_texts)
    clf = method("self-pretraining", bert_net(tiny_encoder)).fit(ids, HALF)
    clf.save(tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    assert_same(loaded, clf, ids)
    with pytest.raises(ValueError, match="X has 4 features"):
        loaded.predict(ids[:, :4])


def test_two_encoders_are_stored(tiny_encoder, tiny_sentence_encoder, tiny_texts, tmp_path):
    other = bert_net(tiny_sentence_encoder)
    clf = method("co-training", bert_net(tiny_encoder), keyword_estimator=other)
    clf.fit(tiny_texts, HALF).save(tmp_path / "model")
    assert len([*(tmp_path / "model" / "encoder").iterdir()]) == 2
    assert_same(sklearn_spt.load(tmp_path / "model"), clf, TEXTS)


def test_a_teacher_of_this_package_comes_back(tiny_encoder, tiny_texts, tmp_path):
    teacher = ["nets", "embeddings"]
    clf = method("self-pretraining", bert_net(tiny_encoder), teacher=teacher)
    clf.fit(tiny_texts, HALF).set_params(teacher=SoftSelfTrainingClassifier(C=2.0))
    clf.save(tmp_path / "model")
    assert_same(sklearn_spt.load(tmp_path / "model"), clf, TEXTS)


def test_a_new_fit_after_loading(fitted, saved, own_encoder, tiny_texts):
    y, loaded = ["a", "b"] * 12, sklearn_spt.load(saved)
    again = clone(fitted).fit(tiny_texts[:8], y[:8])
    assert_same(sklearn_spt.load(saved).fit(tiny_texts[:8], y[:8]), again, TEXTS)
    shutil.rmtree(own_encoder)
    with pytest.raises(ValueError, match=r"pretrained='.*encoder' cannot be loaded"):
        loaded.fit(tiny_texts, y)
    assert_same(loaded, fitted, TEXTS)
    # training goes on without the encoder, as if nothing had been saved
    continued = loaded.partial_fit(tiny_texts, y)
    assert_same(continued, fitted.partial_fit(tiny_texts, y), TEXTS)


def test_metadata_requests_come_back(tiny_encoder, tiny_texts, tmp_path):
    with config_context(enable_metadata_routing=True):
        net = bert_net(tiny_encoder, max_epochs=0).set_score_request(sample_weight="w")
        clf = method("self-pretraining", net).set_fit_request(X_unlabeled=True)
        clf.fit(tiny_texts, HALF).save(tmp_path / "model")
        loaded = sklearn_spt.load(tmp_path / "model")
        for one in (clf, loaded):
            routing = one.get_metadata_routing()
            assert routing.fit.requests["X_unlabeled"] is True
            assert routing.fit.requests["sample_weight"] is None
        assert loaded.estimator.get_metadata_routing().score.requests["sample_weight"] == "w"


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["value", "query"], "lora_alpha": 3, "rank_pattern": {"value": 1}},
        {"target_modules": "all-linear", "use_rslora": True, "use_dora": True},
    ],
    ids=["some", "all"],
)
def test_lora_adapters_come_back(settings, own_encoder, tiny_texts, tmp_path):
    adapter = pytest.importorskip("peft").LoraConfig(r=2, **settings)
    clf = method("self-pretraining", bert_net(own_encoder, module__adapter=adapter))
    clf.fit(tiny_texts, HALF).save(tmp_path / "model")
    shutil.rmtree(own_encoder)
    loaded = sklearn_spt.load(tmp_path / "model")
    assert_same(loaded, clf, TEXTS)
    ours, again = clf.students_[0].module_, loaded.students_[0].module_
    for (name, weight), other in zip(ours.named_parameters(), again.parameters(), strict=True):
        assert weight.requires_grad == other.requires_grad, name


def test_unusual_encoders_come_back(tiny_encoder, tiny_texts, tmp_path):
    half = shutil.copytree(tiny_encoder, tmp_path / "half")
    config = json.loads((half / "config.json").read_text()) | {"dtype": "float16"}
    (half / "config.json").write_text(json.dumps(config))
    bare = shutil.copytree(tiny_encoder, tmp_path / "bare")
    BertModel.from_pretrained(bare, add_pooling_layer=False).save_pretrained(bare)
    for number, encoder in enumerate((half, bare)):
        net = bert_net(str(encoder), pooling="cls").fit(tiny_texts, [1, 0] * 12)
        net.save(tmp_path / f"model-{number}")
        assert_same(sklearn_spt.load(tmp_path / f"model-{number}"), net, TEXTS)


@pytest.mark.filterwarnings("ignore:Dynamo detected a call:UserWarning")
def test_a_compiled_net_is_saved_and_exported(tiny_encoder, tiny_texts, tmp_path):
    settings = {"compile": True, "compile__backend": "eager", "pooling": "cls"}
    net = bert_net(tiny_encoder, max_epochs=1, **settings).fit(tiny_texts, [1, 0] * 12)
    net.save(tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    assert_same(loaded, net, TEXTS)
    assert loaded.module_._orig_mod is not None
    net.export(tmp_path / "out")
    np.testing.assert_allclose(by_transformers(tmp_path / "out"), net.predict_proba(TEXTS), 1e-4)


def test_nets_of_a_gpu_are_loaded_without_one(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    fitted.device = "cuda:1"
    fitted.save(tmp_path / "model")
    fitted.device = "cpu"
    assert_same(sklearn_spt.load(tmp_path / "model"), fitted, TEXTS)


@pytest.mark.usefixtures("global_random_state_unchanged")
def test_no_output_and_no_draws(fitted, tmp_path, capfd):
    logging.set_verbosity_warning()
    logging.enable_progress_bar()
    fitted.save(tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    loaded.export(tmp_path / "out")
    assert capfd.readouterr() == ("", "")
    assert_same(loaded, fitted, TEXTS)  # the export changed a copy


# -- what cannot be saved --------------------------------------------------------------------------
class Own(BertClassifier):
    """A subclass, whose code no folder holds."""


def first_words(texts):
    return [text.split()[0] for text in texts]


def _callback(net, texts):
    return net.set_params(callbacks=[("stop", EarlyStopping("train_loss"))]).fit(texts, [1, 0] * 12)


def _optimizer(net, texts):
    params = {"optimizer": torch.optim.SGD, "optimizer__fused": None}
    return net.set_params(**params).fit(texts, [1, 0] * 12)


def _function(net, texts):
    return method("self-pretraining", net, on_iteration=first_words, max_iter=0).fit(texts, HALF)


def _teacher(net, texts):
    return method("self-pretraining", net).fit(texts, HALF).set_params(teacher=LogisticRegression())


def _numbers(net, texts):
    X, y, _ = points()
    return method("self-pretraining", mlp_net(verbose=0)).fit(X, y)


def _views(net, texts):
    return method("co-training", net, views=(None, first_words)).fit(texts, HALF)


def _adapter(net, texts):
    peft = pytest.importorskip("peft")
    config = peft.IA3Config(target_modules=["key", "dense"], feedforward_modules=["dense"])
    return net.set_params(module__adapter=config).fit(texts, [1, 0] * 12)


CODE = {
    "subclass": (lambda net, texts: Own(net.pretrained).fit(texts, [1, 0] * 12), "Own"),
    "callback": (_callback, "EarlyStopping"),
    "optimizer": (_optimizer, r"optimizer \(SGD\)"),
    "function": (_function, r"on_iteration \(first_words\)"),
    "teacher": (_teacher, r"teacher \(LogisticRegression\)"),
    "net for numbers": (_numbers, r"\(Net\)"),
    "views": (_views, r"views \(first_words\)"),
    "adapter": (_adapter, r"module__adapter \(IA3Config\)"),
}


@pytest.mark.parametrize("kind", CODE)
def test_code_is_refused(kind, tiny_encoder, tiny_texts, tmp_path):
    make, named = CODE[kind]
    clf = make(bert_net(tiny_encoder, max_epochs=0), tiny_texts)
    with pytest.raises(ValueError, match=rf"{named}.* cannot be saved: .* Use pickle or joblib"):
        clf.save(tmp_path / "a" / "model")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("clf", [BertClassifier(), SelfPretrainingClassifier()])
def test_unfitted_classifiers_are_refused(clf, tmp_path):
    for write in (clf.save, clf.export):
        with pytest.raises(NotFittedError, match="call fit first"):
            write(tmp_path / "model")
    assert [*tmp_path.iterdir()] == []


# -- damage ----------------------------------------------------------------------------------------
def test_changed_bytes_are_refused(saved):
    rng = np.random.default_rng(0)
    for number in range(30):
        path = files(saved)[number % len(files(saved))]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            sklearn_spt.load(saved)
        path.write_bytes(whole)
    sklearn_spt.load(saved)


def test_truncated_missing_and_added_files_are_refused(saved):
    for path in files(saved):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match="damaged"):
            sklearn_spt.load(saved)
        path.unlink()
        with pytest.raises(ValueError, match="missing|holds no saved classifier"):
            sklearn_spt.load(saved)
        path.write_bytes(whole)
    added = saved / "encoder" / "0" / "added_tokens.json"  # would change the tokenizer
    added.write_text('{"flu": 1}')
    with pytest.raises(ValueError, match=r"holds encoder/0/added_tokens.json, which save did not"):
        sklearn_spt.load(saved)
    added.rename(saved / ".DS_Store")
    sklearn_spt.load(saved)


def reseal(folder, old, new):
    """Replace a part of the state, and its checksum too, as somebody else could."""
    body = (folder / "estimator.json").read_text().partition("\n")[2]
    assert old in body
    body = body.replace(old, new)
    checksum = hashlib.sha256(body.encode()).hexdigest()
    (folder / "estimator.json").write_text(f"{checksum}\n{body}")


def test_other_formats_and_classes_are_refused(saved):
    reseal(saved, '"format": "2"', '"format": "3"')
    with pytest.raises(ValueError, match=r"this version reads format 2.*'format': '3'"):
        sklearn_spt.load(saved)
    reseal(saved, '"format": "3"', '"format": "2"')
    reseal(saved, '"class": "BertClassifier"', '"class": "Popen"')
    with pytest.raises(ValueError, match=r"cannot be loaded .*Popen"):
        sklearn_spt.load(saved)


def test_folders_that_save_did_not_write_are_refused(tiny_encoder, tmp_path):
    with pytest.raises(ValueError, match=r"model is missing: give the folder that save wrote"):
        sklearn_spt.load(tmp_path / "model")
    with pytest.raises(ValueError, match="holds no saved classifier"):
        sklearn_spt.load(tiny_encoder)


# -- whole or not at all ---------------------------------------------------------------------------
def test_folders_in_use_are_kept(fitted, saved, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("x")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "estimator.json").write_text("{}")
    (saved / ".git").write_text("x")
    before = {path: path.read_bytes() for path in files(tmp_path)}
    for name in ("own", "json", "model", "own/thesis.txt"):
        for write in (fitted.save, fitted.export):
            with pytest.raises(ValueError, match=r"is in use; give another folder, or set overw"):
                write(tmp_path / name)
            with pytest.raises(ValueError, match="neither save nor export wrote|not of this lib"):
                write(tmp_path / name, overwrite=True)
    assert {path: path.read_bytes() for path in files(tmp_path)} == before


def test_overwrite_replaces_what_save_and_export_wrote(fitted, tiny_encoder, tiny_texts, tmp_path):
    several = method("self-pretraining", bert_net(tiny_encoder)).fit(tiny_texts, HALF)
    several.save(tmp_path / "model")
    fitted.save(tmp_path / "model", overwrite=True)
    fitted.save(tmp_path / "alone")
    names = [path.relative_to(tmp_path / "alone") for path in files(tmp_path / "alone")]
    assert [path.relative_to(tmp_path / "model") for path in files(tmp_path / "model")] == names
    fitted.export(tmp_path / "model", overwrite=True)
    several.save(tmp_path / "model", overwrite=True)
    assert_same(sklearn_spt.load(tmp_path / "model"), several, TEXTS)
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "model", "alone"}


def test_empty_folders_new_parents_and_links_are_used(fitted, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    mask = os.umask(0o027)
    try:
        for name in ("link", "new/parents/model"):
            fitted.save(tmp_path / name)
            assert_same(sklearn_spt.load(tmp_path / name), fitted, TEXTS)
            assert {path.stat().st_mode & 0o777 for path in files(tmp_path / name)} == {0o640}
    finally:
        os.umask(mask)
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("failing", ["save_file", "write_sealed"])
def test_an_error_leaves_the_old_model(failing, fitted, saved, tmp_path, monkeypatch):
    def full(*args):
        raise OSError("disk full")

    monkeypatch.setattr(persistence, failing, full)
    before = {path: path.read_bytes() for path in files(tmp_path)}
    for name in ("model", "other"):
        for write in (fitted.save, fitted.export):
            with pytest.raises(OSError, match="disk full"):
                write(tmp_path / name, overwrite=True)
    assert {path: path.read_bytes() for path in files(tmp_path)} == before
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "model"}


# -- exports ---------------------------------------------------------------------------------------
def softmax(logits):
    return torch.softmax(torch.as_tensor(logits), dim=1).numpy()


def by_transformers(folder, texts=TEXTS):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        return softmax(model(**batch).logits)


def by_sentence_transformers(folder):
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return softmax(model.encode(TEXTS, show_progress_bar=False))


def by_onnxruntime(folder, texts=TEXTS, wider=0):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(texts, padding=True, truncation=True, return_tensors="np")["input_ids"]
    return session.run(None, {"input_ids": np.pad(ids, ((0, 0), (0, wider)))})[0]


def needs_onnx():
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)


def test_bert_is_exported_to_transformers(tiny_encoder, tiny_texts, tmp_path):
    net = bert_net(tiny_encoder, pooling="cls").fit(tiny_texts, ["a", "b"] * 12)
    net.export(tmp_path / "out")
    np.testing.assert_allclose(
        by_transformers(tmp_path / "out"), net.predict_proba(TEXTS), atol=1e-4
    )
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "a", "1": "b"}
    assert config["label2id"] == {"a": 0, "b": 1}
    assert AutoTokenizer.from_pretrained(tmp_path / "out").model_max_length == 24


@pytest.mark.parametrize("kind", ["mean", "cls without pooler"])
def test_other_nets_are_exported_to_sentence_transformers(kind, own_encoder, tiny_texts, tmp_path):
    if kind != "mean":
        bare = BertModel.from_pretrained(own_encoder, add_pooling_layer=False)
        bare.save_pretrained(own_encoder)
    net = bert_net(own_encoder, pooling=kind[:4].strip()).fit(tiny_texts, ["a", "b"] * 12)
    net.export(tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "a", "1": "b"}
    P = by_sentence_transformers(tmp_path / "out")
    np.testing.assert_allclose(P, net.predict_proba(TEXTS), atol=1e-4)


def test_the_first_student_is_exported_with_its_adjustment(tiny_encoder, tiny_texts, tmp_path):
    net = bert_net(tiny_encoder, pooling="cls")
    clf = method("self-pretraining", net, ensemble="last", logit_adjustment=0.7)
    clf.fit(tiny_texts, [1, 0, 0] * 4 + [-1] * 12)
    P = clf.predict_proba(TEXTS)  # of one student
    clf.export(tmp_path / "out")
    np.testing.assert_allclose(by_transformers(tmp_path / "out"), P, atol=1e-4)
    assert np.abs(clf.students_[0].predict_proba(TEXTS) - P).max() > 1e-3
    np.testing.assert_array_equal(clf.predict_proba(TEXTS), P)  # a copy was adjusted


def test_the_first_net_of_another_method_is_exported(tiny_encoder, tiny_texts, tmp_path):
    clf = method("mutual learning", bert_net(tiny_encoder, pooling="cls")).fit(tiny_texts, HALF)
    clf.export(tmp_path / "out")
    P = clf.estimators_[0].predict_proba(TEXTS)
    np.testing.assert_allclose(by_transformers(tmp_path / "out"), P, atol=1e-4)


def test_an_adapter_is_merged(tiny_encoder, tiny_texts, tmp_path):
    lora = pytest.importorskip("peft").LoraConfig(r=2, target_modules=["query"])
    net = bert_net(tiny_encoder, pooling="cls", module__adapter=lora)
    P = net.fit(tiny_texts, ["a", "b"] * 12).predict_proba(TEXTS)
    net.export(tmp_path / "out")
    np.testing.assert_allclose(by_transformers(tmp_path / "out"), P, atol=1e-4)
    np.testing.assert_array_equal(net.predict_proba(TEXTS), P)  # a copy was merged


@pytest.mark.parametrize("pooling", ["cls", "mean"])  # torch traces for three seconds
def test_onnx_takes_any_number_and_width(pooling, tiny_encoder, tiny_texts, tmp_path):
    needs_onnx()
    net = bert_net(tiny_encoder, pooling=pooling).fit(tiny_texts, ["a", "b"] * 12)
    net.export(tmp_path / "out", format="onnx")
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:], ["i"], tiny_texts * 3):
        for wider in (0, 7):
            P = by_onnxruntime(tmp_path / "out", texts, wider)
            np.testing.assert_allclose(P, net.predict_proba(texts), atol=1e-4)
    assert json.loads((tmp_path / "out" / "labels.json").read_text()) == ["a", "b"]


def test_unusable_exports_write_nothing(fitted, tiny_encoder, tiny_texts, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"format must be \"huggingface\" or \"onnx\", got 'pt'"):
        fitted.export(tmp_path / "out", format="pt")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs onnx: pip install onnx onnxscript"):
        fitted.export(tmp_path / "out", format="onnx")
    monkeypatch.undo()
    X, y, _ = points()
    with pytest.raises(ValueError, match=r"Net with MLP cannot be exported, only BertClassifier"):
        method("self-pretraining", mlp_net(verbose=0)).fit(X, y).export(tmp_path / "out")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng(devices=[]):
        config = RobertaConfig(num_hidden_layers=1, vocab_size=99, pad_token_id=0, **sizes)
        RobertaModel(config).save_pretrained(tmp_path / "roberta")
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / "roberta")
    net = bert_net(str(tmp_path / "roberta"), pooling="cls", max_epochs=0)
    with pytest.raises(ValueError, match=r"pooler of roberta fits no stock class; use format="):
        net.fit(tiny_texts, [1, 0] * 12).export(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "roberta"}


@pytest.mark.parametrize("kind", ["saved", "exported"])
def test_the_default_encoder(kind, minilm, tiny_texts, tmp_path):
    net = BertClassifier(minilm, max_epochs=0, precision="fp32", device="cpu", random_state=0)
    net.fit(tiny_texts, [1, 0] * 12)
    if kind == "saved":
        net.save(tmp_path / "model")
        assert_same(sklearn_spt.load(tmp_path / "model"), net, TEXTS)
    else:
        net.export(tmp_path / "out")
        P = by_sentence_transformers(tmp_path / "out")
        np.testing.assert_allclose(P, net.predict_proba(TEXTS), atol=1e-4)
