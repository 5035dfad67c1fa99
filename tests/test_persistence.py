"""Saved classifiers come back equal, damage is refused, exports agree with our probabilities."""

import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from helpers import MLP, bert_net, mlp_net, points
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from skorch.callbacks import EarlyStopping
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertModel

import sklearn_spt
from sklearn_spt import BertClassifier, SoftSelfTrainingClassifier
from sklearn_spt.baselines import KeywordWindow

# The name of a special token is plain text here, and the last text is longer than a net reads.
TEXTS = ["i got the flu shot", "never [SEP] again!", "they want it " * 30]
HALF = [1, 0] * 6 + [-1] * 12
BOTH = ["a", "b"] * 12
SPT = "SelfPretrainingClassifier"
VIEWS = (None, KeywordWindow("shot", 1))
ONE_ITERATION = {"threshold": 0.5, "max_iter": 1, "validation_fraction": None}
#: Each method with quick settings.
METHODS = {
    SPT: {"max_iter": 1, "ensemble": "all"},
    "ThrottledSelfTrainingClassifier": ONE_ITERATION,
    "TriTrainingClassifier": {"threshold": 0.5, "max_iter": 1},
    "MutualLearningClassifier": {},
    "SpacedRepetitionClassifier": {"threshold": 0.5, "max_iter": 1},
    "CoDecompositionClassifier": {**ONE_ITERATION, "views": VIEWS},
}


def method(kind, net, **params):
    params = {"finetune_epochs": 1, "random_state": 0, **METHODS[kind], **params}
    return getattr(sklearn_spt, kind)(net, **params)


@pytest.fixture
def own_encoder(tiny_encoder, tmp_path):
    """An encoder that a test may change and remove."""
    return str(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def fitted(own_encoder, tiny_texts):
    return bert_net(own_encoder, max_epochs=1, pooling="mean").fit(tiny_texts, BOTH)


@pytest.fixture
def saved(fitted, tmp_path):
    sklearn_spt.save(fitted, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def several(tiny_encoder, tiny_texts):
    return method(SPT, bert_net(tiny_encoder)).fit(tiny_texts, HALF)


def comparable(value):
    """Return values that == compares: estimators as their parameters, arrays with their dtype."""
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


def contents(folder):
    """Return the bytes of all files by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# -- round trips -----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", METHODS)
def test_methods_are_equal_without_the_encoder(kind, own_encoder, tiny_texts, tmp_path):
    clf = method(kind, bert_net(own_encoder)).fit(tiny_texts, HALF)
    sklearn_spt.save(clf, tmp_path / "model")
    shutil.rmtree(own_encoder)
    loaded = sklearn_spt.load(str(tmp_path / "model"))
    shutil.rmtree(tmp_path / "model")  # it is not needed either
    assert_same(loaded, clf, tiny_texts)
    all_of_texts = {name for name in sklearn_spt.__all__ if name.endswith("Classifier")}
    assert {*METHODS, "BertClassifier", "SoftSelfTrainingClassifier"} == all_of_texts


@pytest.mark.usefixtures("global_random_state_unchanged")
def test_nets_come_back_without_output_and_draws(tiny_encoder, tiny_texts, tmp_path, capfd):
    clf = bert_net(tiny_encoder, pooling="cls", lr="auto", max_length="auto", max_epochs=2)
    sklearn_spt.save(clf.fit(tiny_texts, BOTH), tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    sklearn_spt.export(loaded, tmp_path / "out")
    assert_same(loaded, clf, tiny_texts)
    assert loaded.lr_ == clf.lr_
    assert loaded.history[:, "train_loss"] == clf.history[:, "train_loss"]
    assert capfd.readouterr() == ("", "")


def test_a_linear_classifier_comes_back_alone_and_as_a_parameter(several, tmp_path):
    X, y, _ = points(3)
    soft = SoftSelfTrainingClassifier(C=2.0).fit(X, y)
    sklearn_spt.save(soft, tmp_path / "soft")
    assert_same(sklearn_spt.load(tmp_path / "soft"), soft, X)
    sklearn_spt.save(several.set_params(teacher=["nets", soft]), tmp_path / "model")
    assert_same(sklearn_spt.load(tmp_path / "model").teacher[1], soft, X)


OBJECTS = np.array(["x", "y"], dtype=object)
LABELS = [(["flu", "no"], -1), (["a", "ä\n", "c"], None), ([2**60, -3, 7], -1)]
LABELS += [(["a", "b"], pd.NA), ([True, False], None), ([0.0, 3.0], np.nan), (OBJECTS, None)]


@pytest.mark.parametrize(("labels", "marker"), LABELS)
def test_labels_of_all_kinds_come_back(labels, marker, tiny_encoder, tiny_texts, tmp_path):
    y = [labels[row % len(labels)] if row < 12 else marker for row in range(24)]
    clf = method(SPT, bert_net(tiny_encoder), unlabeled_marker=marker)
    clf.fit(tiny_texts, np.array(y, dtype=object) if labels is OBJECTS else y)
    sklearn_spt.save(clf, tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(TEXTS), clf.predict(TEXTS))
    for name in ("classes_", "transduction_"):
        ours, again = getattr(clf, name), getattr(loaded, name)
        assert repr(again.tolist()) == repr(ours.tolist())  # nan is not equal to itself
        assert again.dtype == ours.dtype
    assert repr(loaded.history_) == repr(clf.history_)


def test_nets_and_encoders_are_stored_once(several, tiny_sentence_encoder, tiny_texts, tmp_path):
    sklearn_spt.save(several, tmp_path / "model")
    kinds = [name.split("/")[:2] for name in contents(tmp_path / "model")]
    assert sum("nets" in kind for kind in kinds) == len(several.estimators_)
    assert {kind[1] for kind in kinds if "encoder" in kind} == {"0"}
    loaded = sklearn_spt.load(tmp_path / "model")
    assert loaded.students_[0] is loaded.estimators_[-1]
    sklearn_spt.save(loaded, tmp_path / "again")
    assert contents(tmp_path / "again").keys() == contents(tmp_path / "model").keys()
    assert_same(sklearn_spt.load(tmp_path / "again"), several, TEXTS)
    # a parameter may hold a fitted net with another encoder
    other = bert_net(tiny_sentence_encoder).fit(tiny_texts, BOTH)
    sklearn_spt.save(several.set_params(teacher=other), tmp_path / "two")
    loaded = sklearn_spt.load(tmp_path / "two")
    assert_same(loaded, several, TEXTS)
    configs = [net.module_.encoder.config for net in (loaded.estimators_[0], loaded.teacher)]
    assert [config.hidden_dropout_prob for config in configs] == [0.0, 0.1]


def test_training_after_loading(fitted, saved, own_encoder, tiny_texts):
    again = clone(fitted).fit(tiny_texts[:8], BOTH[:8])
    assert_same(sklearn_spt.load(saved).fit(tiny_texts[:8], BOTH[:8]), again, TEXTS)
    shutil.rmtree(own_encoder)
    loaded = sklearn_spt.load(saved)
    message = r"The encoder '.*encoder' cannot be loaded: there is no such"
    with pytest.raises(ValueError, match=message):
        loaded.fit(tiny_texts, BOTH)
    assert_same(loaded, fitted, TEXTS)
    # training goes on without the encoder, as if nothing had been saved
    loaded.partial_fit(tiny_texts, BOTH)
    assert_same(loaded, fitted.partial_fit(tiny_texts, BOTH), TEXTS)


def test_metadata_requests_come_back(tiny_encoder, tiny_texts, tmp_path):
    with config_context(enable_metadata_routing=True):
        net = bert_net(tiny_encoder).set_score_request(sample_weight="w")
        clf = method(SPT, net).set_fit_request(X_unlabeled=True).fit(tiny_texts, HALF)
    sklearn_spt.save(clf, tmp_path / "model")
    loaded = sklearn_spt.load(tmp_path / "model")
    asked = BaseEstimator.get_metadata_routing(loaded).fit.requests
    assert asked == {"X_unlabeled": True, "sample_weight": None}
    asked = BaseEstimator.get_metadata_routing(loaded.estimator).score.requests
    assert asked == {"sample_weight": "w"}


def test_compiled_nets_are_saved_and_exported(fitted, tmp_path):
    P, plain = fitted.predict_proba(TEXTS), fitted.module_
    fitted.module_ = torch.compile(plain, backend="eager")  # compiles nothing before it is called
    sklearn_spt.save(fitted, tmp_path / "model")
    sklearn_spt.export(fitted, tmp_path / "out")
    np.testing.assert_array_equal(sklearn_spt.load(tmp_path / "model").predict_proba(TEXTS), P)


def test_nets_of_a_gpu_are_loaded_without_one(several, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # there is no second one
    nets = [several.estimator, *several.estimators_]
    for net in nets:
        net.device = "cuda:1"
    sklearn_spt.save(several, tmp_path / "model")
    for net in nets:
        net.device = "cpu"
    assert_same(sklearn_spt.load(tmp_path / "model"), several, TEXTS)


# -- what cannot be saved --------------------------------------------------------------------------
CODE = {
    "on_iteration (print)": lambda: print,
    "memory (Memory)": lambda: joblib.Memory(None),
    "teacher (LogisticRegression)": lambda: ["nets", LogisticRegression()],
    "estimator (Net)": mlp_net,
    "callbacks (EarlyStopping)": lambda: [("stop", EarlyStopping("train_loss"))],
    "optimizer (SGD)": lambda: torch.optim.SGD,
    "module (MLP)": lambda: MLP,
    "module__adapter (IA3Config)": lambda: pytest.importorskip("peft").IA3Config(),
}


@pytest.mark.parametrize("named", CODE)
def test_code_is_refused(named, several, tmp_path):
    name, value = named.split()[0], CODE[named]()
    setattr(several if hasattr(several, name) else several.students_[0], name, value)
    with pytest.raises(ValueError, match=r" cannot be saved: .* Use pickle or joblib") as error:
        sklearn_spt.save(several, tmp_path / "a" / "model")
    assert str(error.value).startswith(named)
    assert [*tmp_path.iterdir()] == []


def test_other_classes_are_refused(tiny_encoder, tiny_texts, tmp_path):
    own = type("BertClassifier", (BertClassifier,), {})(tiny_encoder, max_epochs=0)  # a subclass
    with pytest.raises(ValueError, match=r"the classifier .* cannot be saved: .* this needs code"):
        sklearn_spt.save(own.fit(tiny_texts, BOTH), tmp_path / "model")
    X, y, _ = points()
    numbers = method(SPT, mlp_net(verbose=0)).fit(X, y)
    with pytest.raises(ValueError, match=r"\(Net\) cannot be saved"):
        sklearn_spt.save(numbers, tmp_path / "model")
    with pytest.raises(ValueError, match="Net cannot be exported, only a BertClassifier"):
        sklearn_spt.export(numbers, tmp_path / "model")
    for clf in (BertClassifier(), method(SPT, None), SoftSelfTrainingClassifier()):
        for write in (sklearn_spt.save, sklearn_spt.export):
            with pytest.raises(NotFittedError, match="call fit first"):
                write(clf, tmp_path / "model")
    assert [*tmp_path.iterdir()] == []


# -- damage ----------------------------------------------------------------------------------------
def test_damaged_missing_and_added_files_are_refused(saved):
    rng = np.random.default_rng(0)
    for name, whole in contents(saved).items():
        changed = [bytearray(whole) for _ in range(30)]
        for content in changed:
            content[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        for content in (*changed, whole[: len(whole) // 2]):
            (saved / name).write_bytes(content)
            with pytest.raises(ValueError, match="damaged"):
                sklearn_spt.load(saved)
        (saved / name).unlink()
        with pytest.raises(ValueError, match=r"missing|holds no saved classifier"):
            sklearn_spt.load(saved)
        (saved / name).write_bytes(whole)
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


def test_other_formats_classes_and_folders_are_refused(saved, tiny_encoder, tmp_path):
    reseal(saved, '"format": "2"', '"format": "3"')
    with pytest.raises(ValueError, match="it has the format 3, but this version reads 2"):
        sklearn_spt.load(saved)
    reseal(saved, '"format": "3"', '"format": "2"')
    reseal(saved, '"class": "BertClassifier"', '"class": "Popen"')
    with pytest.raises(ValueError, match=r"cannot be loaded .*Popen"):
        sklearn_spt.load(saved)
    with pytest.raises(ValueError, match=r"nothing: no such folder; give the folder of a saved"):
        sklearn_spt.load(tmp_path / "nothing")
    (tmp_path / "file.csv").touch()
    message = r"file.csv: is no folder; give the folder of a saved classifier"
    with pytest.raises(ValueError, match=message):
        sklearn_spt.load(tmp_path / "file.csv")
    with pytest.raises(ValueError, match="holds no saved classifier"):
        sklearn_spt.load(tiny_encoder)


# -- whole or not at all ---------------------------------------------------------------------------
def test_folders_in_use_are_kept(fitted, saved, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("x")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "estimator.json").write_text("{}")
    (saved / ".git").write_text("x")
    before = contents(tmp_path)
    for name in ("own", "json", "model", "own/thesis.txt"):
        for write in (sklearn_spt.save, sklearn_spt.export):
            with pytest.raises(ValueError, match="is in use; set overwrite=True, or give another"):
                write(fitted, tmp_path / name)
            with pytest.raises(ValueError, match=r"neither save nor export|not of this library"):
                write(fitted, tmp_path / name, overwrite=True)
    assert contents(tmp_path) == before


def test_overwrite_replaces_what_save_and_export_wrote(fitted, several, tmp_path):
    sklearn_spt.save(several, tmp_path / "model")
    sklearn_spt.save(fitted, tmp_path / "model", overwrite=True)
    sklearn_spt.save(fitted, tmp_path / "alone")
    assert contents(tmp_path / "model").keys() == contents(tmp_path / "alone").keys()
    sklearn_spt.export(fitted, tmp_path / "model", overwrite=True)
    sklearn_spt.save(several, tmp_path / "model", overwrite=True)
    assert_same(sklearn_spt.load(tmp_path / "model"), several, TEXTS)
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "model", "alone"}


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_empty_folders_new_parents_and_links_are_used(fitted, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("link", "new/parents/model"):
        sklearn_spt.save(fitted, tmp_path / name)
        assert_same(sklearn_spt.load(tmp_path / name), fitted, TEXTS)
        modes = {path.stat().st_mode for path in (tmp_path / name / "nets").iterdir()}
        assert modes == {(tmp_path / name / "estimator.json").stat().st_mode}
    assert (tmp_path / "link").is_symlink()


def test_an_error_at_the_end_leaves_the_old_model(fitted, saved, tmp_path, monkeypatch):
    full, before = Mock(side_effect=OSError("disk full")), contents(tmp_path)
    renames = iter([Path.rename, full, Path.rename])  # the old model makes way, and comes back
    monkeypatch.setattr(Path, "rename", lambda *paths: next(renames)(*paths))
    with pytest.raises(OSError, match="disk full"):
        sklearn_spt.save(fitted, saved, overwrite=True)
    assert contents(tmp_path) == before
    monkeypatch.setattr("sklearn_spt._sealed.write_sealed", full)
    for name in ("model", "other"):
        for write in (sklearn_spt.save, sklearn_spt.export):
            with pytest.raises(OSError, match="disk full"):
                write(fitted, tmp_path / name, overwrite=True)
    assert contents(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"encoder", "model"}


# -- exports ---------------------------------------------------------------------------------------
def by_transformers(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        return torch.softmax(model(**batch).logits, dim=1).numpy()


def by_sentence_transformers(folder):
    library = pytest.importorskip("sentence_transformers", minversion="6")
    model = library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    return torch.softmax(model.encode(TEXTS, convert_to_tensor=True), dim=1).numpy()


def assert_agrees(P, clf):
    np.testing.assert_allclose(P, clf.predict_proba(TEXTS), atol=1e-4)


@pytest.mark.parametrize("kind", ["cls", "cls with adapter", "cls without pooler", "mean in fp16"])
def test_exports_and_saved_nets_agree(kind, own_encoder, tiny_texts, tmp_path):
    params, config = {"pooling": kind.split()[0]}, Path(own_encoder, "config.json")
    if kind == "mean in fp16":  # by the file of the encoder; a net is trained in fp32
        config.write_text(config.read_text().replace("float32", "float16"))
    if kind == "cls without pooler":
        bare = BertModel.from_pretrained(own_encoder, add_pooling_layer=False)
        bare.save_pretrained(own_encoder)
    if kind == "cls with adapter":
        how = {"target_modules": "all-linear", "rank_pattern": {"value": 1}, "use_dora": True}
        params["module__adapter"] = pytest.importorskip("peft").LoraConfig(r=2, **how)
    net = bert_net(own_encoder, **params).fit(tiny_texts, BOTH)
    P = net.predict_proba(TEXTS)
    sklearn_spt.export(net, tmp_path / "out")
    np.testing.assert_array_equal(net.predict_proba(TEXTS), P)  # a copy was merged
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "a", "1": "b"}
    stock = kind in ("cls", "cls with adapter")
    read = by_transformers if stock else by_sentence_transformers
    assert AutoTokenizer.from_pretrained(tmp_path / "out").model_max_length == 24
    sklearn_spt.save(net, tmp_path / "model")
    shutil.rmtree(own_encoder)
    assert_same(sklearn_spt.load(tmp_path / "model"), net, TEXTS)
    assert_agrees(read(tmp_path / "out"), net)


def test_which_net_is_exported(tiny_encoder, tiny_texts, tmp_path):
    net = bert_net(tiny_encoder, pooling="cls")
    clf = method(SPT, net, logit_adjustment=0.7).fit(tiny_texts, [1, 0, 0] * 4 + [-1] * 12)
    sklearn_spt.export(clf, tmp_path / "student")
    P = clf.students_[0].predict_proba(TEXTS) * (np.array([8, 4]) / 12) ** 0.7
    P **= 1 / clf.calibration_temperature_
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(by_transformers(tmp_path / "student"), P, atol=1e-4)
    clf = method("MutualLearningClassifier", net).fit(tiny_texts, HALF)
    sklearn_spt.export(clf, tmp_path / "first")
    assert_agrees(by_transformers(tmp_path / "first"), clf.estimators_[0])


@pytest.mark.parametrize(("pooling", "library"), [("cls", "transformers"), ("mean", "sentence-")])
def test_an_exported_folder_has_a_model_card(pooling, library, tiny_encoder, tiny_texts, tmp_path):
    net = bert_net(tiny_encoder, pooling=pooling, max_epochs=0).fit(tiny_texts, BOTH)
    sklearn_spt.export(net, tmp_path / "out")
    _, head, body = (tmp_path / "out" / "README.md").read_text("utf-8").split("---\n")
    assert head.startswith(f"library_name: {library}")
    assert "base_model" not in head, "the encoder is a folder of this machine"
    assert "cut after 24 tokens" in body
    assert body.endswith(f"{json.dumps([str(label) for label in net.classes_])}\n")
    sklearn_spt.export(net, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize(("kind", "atol"), [("onnx", 1e-4), ("onnx-int8", 0.05)])
def test_onnx_takes_any_number_and_width(kind, atol, fitted, tiny_texts, tmp_path, caplog):
    pytest.importorskip("onnxscript")  # torch traces for seconds
    runtime = pytest.importorskip("onnxruntime")
    sklearn_spt.export(fitted, tmp_path / "out", format=kind)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    file = tmp_path / "out" / "model.onnx"
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:], ["i"], tiny_texts * 3):
        ids = tokenizer(texts, padding=True, truncation=True, return_tensors="np")["input_ids"]
        for wider in (0, 7):
            (P,) = session.run(None, {"input_ids": np.pad(ids, ((0, 0), (0, wider)))})
            np.testing.assert_allclose(P, fitted.predict_proba(texts), atol=atol)
    described = json.loads((tmp_path / "out" / "export.json").read_text())
    assert described == {"format": kind, "labels": ["a", "b"]}


def test_unusable_exports_write_nothing(fitted, tiny_encoder, tiny_texts, tmp_path, monkeypatch):
    message = "format must be one of huggingface, onnx, onnx-int8, got 'pt'"
    with pytest.raises(ValueError, match=message):
        sklearn_spt.export(fitted, tmp_path / "out", format="pt")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs onnx: pip install onnx onnxscript"):
        sklearn_spt.export(fitted, tmp_path / "out", format="onnx")
    monkeypatch.undo()
    net = bert_net(tiny_encoder, pooling="cls", max_epochs=0).fit(tiny_texts, BOTH)
    net.module_.encoder.config.model_type = "roberta"
    with pytest.raises(ValueError, match="pooler of roberta fits no stock class; use format="):
        sklearn_spt.export(net, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"encoder"}
