"""Save and load: equal objects without the encoder, and one clear error for all else."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pickle
import re
import shutil
from decimal import Decimal

import numpy as np
import pytest
import sklearn
import torch
from helpers.methods import METHODS, half_labeled
from helpers.nets import mlp_net
from helpers.processes import run_python
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from skorch.callbacks import EarlyStopping
from skorch.exceptions import DeviceWarning

import sklearn_spt
from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    SelfPretrainingClassifier,
    TokenIdVectorizer,
    TriTrainingClassifier,
)
from sklearn_spt.persistence._fitted_state import _MODULES, ROUTED, Reader
from sklearn_spt.text import _locations


@pytest.fixture
def own_checkpoint(tiny_encoder, tmp_path):
    """An encoder that a test may remove."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


@pytest.fixture
def net(own_checkpoint):
    """An unfitted net over this encoder."""
    return BertClassifier(str(own_checkpoint), max_epochs=1, random_state=0, device="cpu")


@pytest.fixture
def fitted(net, tiny_texts):
    """The fitted net."""
    return net.fit(tiny_texts, [1, 0] * 12)


@pytest.fixture
def saved(fitted, tmp_path):
    """The folder of the fitted net."""
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def plain(value):
    """Nets and estimators as their parameters, so that == compares what is left."""
    if hasattr(value, "get_params"):
        return type(value), value.get_params(deep=False)
    if isinstance(value, list | tuple):
        return type(value), [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


# ---------------------------------------------------------------------------------------------
# Round trips
# ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_equal_after_a_round_trip_without_the_encoder(
    method, net, own_checkpoint, tiny_texts, tmp_path
):
    texts = [f"{text} now i need a doctor at home" for text in tiny_texts]  # longer than a window
    clf = METHODS[method](net).fit(texts, half_labeled(24))
    expected, labels = clf.predict_proba(texts), clf.predict(texts)
    score = clf.score(texts, [1, 0] * 12)
    clf.save(tmp_path / "model")
    shutil.rmtree(own_checkpoint)
    again = sklearn_spt.load(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")  # it is not needed either
    np.testing.assert_array_equal(again.predict_proba(texts), expected)
    np.testing.assert_array_equal(again.predict(texts), labels)
    assert again.score(texts, [1, 0] * 12) == score
    assert type(again) is type(clf)
    public = {name for name in vars(clf) if name.endswith("_")}
    assert {name for name in vars(again) if name.endswith("_")} == public
    for name in public:
        assert plain(getattr(again, name)) == plain(getattr(clf, name)), name
        if isinstance(getattr(clf, name), np.ndarray):
            assert getattr(again, name).dtype == getattr(clf, name).dtype
    ours, theirs = clf.get_params(), again.get_params()
    assert ours.keys() == theirs.keys()
    assert {k: plain(v) for k, v in theirs.items() if k != "estimator"} == {
        k: plain(v) for k, v in ours.items() if k != "estimator"
    }
    assert repr(again) == repr(clf)
    assert not hasattr(clone(again), "classes_")


def test_every_public_classifier_can_be_saved():
    public = {name for name in sklearn_spt.__all__ if name.endswith("Classifier")}
    assert public <= _MODULES.keys()
    for name in public:
        assert getattr(sklearn_spt, name).__module__ == _MODULES[name]


def test_weights_are_stored_once_for_each_net(net, tiny_texts, tmp_path):
    clf = SelfPretrainingClassifier(net, max_iter=1, alpha=0, random_state=0)
    clf.fit(tiny_texts, half_labeled(24))
    assert clf.estimators_[1:] == clf.students_
    clf.save(tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model" / "nets").iterdir()) == ["0", "1"]
    again = sklearn_spt.load(tmp_path / "model")
    assert again.estimators_[1] is again.students_[0]


def test_tri_training_without_unlabeled_rows_keeps_one_net(net, tiny_texts, tmp_path):
    with pytest.warns(UserWarning, match="no unlabelled"):
        clf = TriTrainingClassifier(net, finetune_epochs=1).fit(tiny_texts, [1, 0] * 12)
    clf.save(tmp_path / "model")
    again = sklearn_spt.load(tmp_path / "model")
    assert len({id(one) for one in again.estimators_}) == 1
    assert len(again.estimators_) == 3


def test_net_keeps_history_parameters_and_resolved_values(fitted, saved, own_checkpoint):
    again = sklearn_spt.load(saved)
    assert again.history == fitted.history
    assert again.history[:, "train_loss"] == fitted.history[:, "train_loss"]
    assert again.pretrained == str(own_checkpoint)
    for name in ("device_", "precision_", "lr_", "n_threads_"):
        assert getattr(again, name) == getattr(fitted, name)
    ours, theirs = fitted.get_params(deep=False), again.get_params(deep=False)
    assert theirs == ours


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_net_of_either_pooling_is_equal(pooling, tiny_encoder, tiny_texts, tmp_path):
    clf = BertClassifier(tiny_encoder, pooling=pooling, max_epochs=1, random_state=0)
    clf.fit(tiny_texts, [1, 0] * 12).save(tmp_path / "model")
    again = sklearn_spt.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), clf.predict_proba(tiny_texts))
    assert again.pooling == pooling


def test_token_ids_are_accepted_as_before(tiny_encoder, tiny_texts, tmp_path):
    ids = TokenIdVectorizer(tiny_encoder, max_length=16).fit_transform(tiny_texts)
    clf = BertClassifier(tiny_encoder, max_epochs=1, random_state=0).fit(ids, [1, 0] * 12)
    clf.save(tmp_path / "model")
    again = sklearn_spt.load(tmp_path / "model")
    assert again.n_features_in_ == 16
    np.testing.assert_array_equal(again.predict_proba(ids), clf.predict_proba(ids))
    with pytest.raises(ValueError, match="X has 4 features"):
        again.predict(ids[:, :4])


def test_default_encoder_is_not_looked_for(minilm, tiny_texts, tmp_path, monkeypatch):
    clf = BertClassifier(minilm, max_epochs=0, random_state=0).fit(tiny_texts, [1, 0] * 12)
    clf.save(tmp_path / "model")
    expected = clf.predict_proba(tiny_texts)

    def looked_for(name=None):
        raise AssertionError("the encoder is looked for")

    monkeypatch.setattr(_locations, "_bundle_folder", looked_for)
    monkeypatch.setattr(_locations, "_hub_snapshot", looked_for)
    again = sklearn_spt.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), expected)
    assert again.pretrained == minilm


def test_metadata_requests_come_back(net, tiny_texts, tmp_path):
    with sklearn.config_context(enable_metadata_routing=True):
        net.set_partial_fit_request(sample_weight="weights")
        clf = SelfPretrainingClassifier(net, max_iter=0, finetune_epochs=1)
        clf.set_fit_request(X_unlabeled=True, sample_weight=False)
        clf.set_score_request(sample_weight="weights")
    clf.fit(tiny_texts, half_labeled(24)).save(tmp_path / "model")
    again = sklearn_spt.load(tmp_path / "model")
    for one in (again, clone(again)):
        found = one.get_metadata_routing()
        assert found.fit.requests == {"X_unlabeled": True, "sample_weight": False}
        assert found.score.requests == {"sample_weight": "weights"}
    for one in (again.estimator, again.estimators_[0]):
        asked = str(one.get_metadata_routing())  # its kind differs between versions of skorch
        found = re.search(r"'partial_fit': {([^}]*)}", asked).group(1)
        assert "'sample_weight': 'weights'" in found
    plain = SelfPretrainingClassifier().get_metadata_routing()
    assert plain.fit.requests == {"X_unlabeled": None, "sample_weight": None}


def test_a_folder_without_requests_is_read(tmp_path):
    content = {"class": "BertClassifier", "params": {"lr": 0.5}}
    assert Reader(tmp_path, []).built("estimator", content).lr == 0.5


def test_every_method_with_metadata_is_saved():
    asking = {
        name.removeprefix("set_").removesuffix("_request")
        for kind in _MODULES
        for name in dir(getattr(sklearn_spt, kind))
        if name.startswith("set_") and name.endswith("_request")
    }
    assert asking == set(ROUTED)


DAYS = [datetime.date(2020, 1, 1), datetime.date(2021, 2, 3)]
LABELS = {
    "str": ["no", "yes"],
    "int": [3, 7],
    "float": [1.0, 2.0],
    "bool": [False, True],
    "int8": np.array([3, 7], dtype=np.int8),
    "uint64": np.array([3, 2**63 + 1], dtype=np.uint64),
    "float32": np.array([1, 2], dtype=np.float32),
    "numpy str": np.array(["ja", "né"]),
    "datetime64": np.array(["2020-01-01", "2021-02-03"], dtype="datetime64[D]"),
    "dates": DAYS,
    "moments": [
        datetime.datetime(2020, 1, 1, 2, tzinfo=datetime.UTC) + i * datetime.timedelta(1)
        for i in (0, 1)
    ],
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("method", ["net", "ensemble"])
def test_labels_of_every_kind_come_back(kind, method, net, tiny_texts, tmp_path):
    labels = LABELS[kind]
    y = labels[[1, 0] * 12] if isinstance(labels, np.ndarray) else [labels[1], labels[0]] * 12
    clf = net if method == "net" else SelfPretrainingClassifier(net, max_iter=0)
    if method == "net":
        clf.fit(tiny_texts, y)
    else:
        clf.set_params(unlabeled_marker=None, finetune_epochs=1).fit(
            tiny_texts, y, X_unlabeled=["i", "you"]
        )
    clf.save(tmp_path / "model")
    again = sklearn_spt.load(tmp_path / "model")
    assert again.classes_.dtype == clf.classes_.dtype
    assert again.classes_.tolist() == clf.classes_.tolist()
    assert list(map(type, again.classes_)) == list(map(type, clf.classes_))
    assert again.predict(tiny_texts).tolist() == clf.predict(tiny_texts).tolist()


def test_new_fit_starts_from_the_encoder(fitted, saved, tiny_texts):
    again = sklearn_spt.load(saved).fit(tiny_texts, [1, 0] * 12)
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), fitted.predict_proba(tiny_texts))


def test_new_fit_without_the_encoder_names_it_and_changes_nothing(
    saved, own_checkpoint, tiny_texts
):
    again = sklearn_spt.load(saved)
    expected = again.predict_proba(tiny_texts)
    shutil.rmtree(own_checkpoint)
    with pytest.raises(ValueError, match="encoder"):
        again.fit(tiny_texts, [1, 0] * 12)
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), expected)


def test_training_continues_without_the_encoder(saved, own_checkpoint, tiny_texts):
    again = sklearn_spt.load(saved)
    shutil.rmtree(own_checkpoint)
    before = again.predict_proba(tiny_texts)
    again.partial_fit(tiny_texts, [1, 0] * 12)
    assert len(again.history) == 2
    assert np.abs(again.predict_proba(tiny_texts) - before).max() > 0


def test_loaded_model_can_be_saved_and_pickled(saved, own_checkpoint, tiny_texts, tmp_path):
    first = sklearn_spt.load(saved)
    shutil.rmtree(own_checkpoint)
    first.save(tmp_path / "second")
    shutil.rmtree(saved)
    expected = first.predict_proba(tiny_texts)
    for again in (sklearn_spt.load(tmp_path / "second"), pickle.loads(pickle.dumps(first))):
        np.testing.assert_array_equal(again.predict_proba(tiny_texts), expected)


def test_other_process_loads_equal_probabilities(fitted, saved, own_checkpoint, tiny_texts):
    expected = fitted.predict_proba(tiny_texts)
    shutil.rmtree(own_checkpoint)
    code = (
        "import json, sys, torch, sklearn_spt\n"
        "torch.set_num_threads(int(sys.argv[3]))\n"
        "P = sklearn_spt.load(sys.argv[1]).predict_proba(json.loads(sys.argv[2]))\n"
        "print(json.dumps(P.tolist()))"
    )
    threads = str(torch.get_num_threads())
    printed = run_python(code, str(saved), json.dumps(tiny_texts), threads)
    assert json.loads(printed) == expected.tolist()


@pytest.mark.usefixtures("global_random_state_unchanged")
def test_neither_output_nor_draws(fitted, tmp_path, capfd):
    fitted.save(tmp_path / "model")
    sklearn_spt.load(tmp_path / "model")
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------------------------------------
# What cannot be saved
# ---------------------------------------------------------------------------------------------
def test_unfitted_classifiers_are_refused(tmp_path):
    for clf in (BertClassifier(), SelfPretrainingClassifier()):
        with pytest.raises(NotFittedError):
            clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def _custom_net(net, texts):
    y = half_labeled(24)
    return SelfPretrainingClassifier(mlp_net(), max_iter=0, finetune_epochs=1).fit(
        np.ones((24, 2), dtype=np.float32), y
    )


class OwnClassifier(BertClassifier):
    """A subclass, whose code no folder holds."""


def _subclass(net, texts):
    return OwnClassifier(**net.get_params(deep=False)).fit(texts, [1, 0] * 12)


def _callback(net, texts):
    stopping = EarlyStopping("train_loss")
    return net.set_params(callbacks=[stopping]).fit(texts, [1, 0] * 12)


def _function(net, texts):
    return SelfPretrainingClassifier(net, max_iter=0, on_iteration=print).fit(
        texts, half_labeled(24)
    )


def _first_words(texts):
    return [text.split()[0] for text in texts]


def _views(net, texts):
    return CoDecompositionClassifier(
        net, views=(None, _first_words), n_iterations=0, finetune_epochs=1
    ).fit(texts, half_labeled(24))


def _exotic_label(net, texts):
    return net.fit(texts, np.array([Decimal(1), Decimal(0)] * 12, dtype=object))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            _custom_net,
            r"estimators_\[0\] \(NeuralNetClassifier\)|estimator \(NeuralNetClassifier\)",
        ),
        (_subclass, r"the classifier \(OwnClassifier\)"),
        (_callback, r"callbacks\[0\] \(EarlyStopping\)"),
        (_function, r"on_iteration \(builtin_function_or_method\)"),
        (_views, r"views\[1\] \(function\)"),
        (_exotic_label, r"classes_inferred_\[0\] \(Decimal\)"),
    ],
)
def test_code_and_exotic_values_are_refused_with_the_remedy(
    make, named, net, tiny_texts, tmp_path, recwarn
):
    clf = make(net, tiny_texts)
    with pytest.raises(ValueError, match=rf"({named}) cannot be saved.*Use pickle or joblib"):
        clf.save(tmp_path / "out" / "model")
    assert list((tmp_path / "out").iterdir()) == []


# ---------------------------------------------------------------------------------------------
# Folders that are not as they were written
# ---------------------------------------------------------------------------------------------
def test_folder_holds_no_pickle_and_no_optimizer(saved):
    files = [path for path in saved.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".safetensors"}
    n_bytes = sum(path.stat().st_size for path in files if path.suffix == ".safetensors")
    n_weights = sum(w.numel() for w in sklearn_spt.load(saved).module_.parameters())
    assert n_bytes < 4 * n_weights + 10_000


def test_flipped_bits_are_found(saved):
    rng = np.random.default_rng(0)
    for path in sorted(p for p in saved.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        every = path.name == "manifest.json"
        for place in range(len(whole)) if every else rng.integers(len(whole), size=3):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"model cannot be loaded: its"):
                sklearn_spt.load(saved)
        path.write_bytes(whole)
    sklearn_spt.load(saved)


def test_missing_and_additional_files_are_found(saved):
    for path in sorted(p for p in saved.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        path.unlink()
        with pytest.raises(ValueError, match=rf"{saved} cannot be loaded: .*{path.name}"):
            sklearn_spt.load(saved)
        path.write_bytes(whole)
    (saved / ".DS_Store").touch()  # of a file manager
    sklearn_spt.load(saved)
    (saved / "nets" / "0" / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"adapter_config\.json does not belong to it"):
        sklearn_spt.load(saved)


def test_foreign_folders_are_refused(tmp_path, tiny_encoder):
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"name": "an app"}')
    for folder in (tmp_path / "missing", tmp_path / "file", tmp_path / "other", tiny_encoder):
        with pytest.raises(ValueError, match=rf"{folder} cannot be loaded"):
            sklearn_spt.load(folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_model_of_a_gpu_loads_without_one(fitted, saved, tiny_texts):
    expected = fitted.predict_proba(tiny_texts)
    edited(saved, '"device": "cpu"', '"device": "cuda:0"')
    with pytest.warns(DeviceWarning, match="not available|no CUDA devices"):
        again = sklearn_spt.load(saved)
    assert again.device == again.device_ == "cpu"
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), expected)


def edited(folder, old, new):
    """Replace a part of the JSON, and seal the folder again."""
    file = folder / "estimator.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    resealed(folder, files={"estimator.json": digest})


def resealed(folder, **changes):
    """Write a manifest that is consistent in itself."""
    from sklearn_spt.persistence._folder import _rendered

    content = json.loads((folder / "manifest.json").read_bytes())
    del content["checksum"]
    for name, value in changes.items():
        content[name] = {**content[name], **value} if isinstance(value, dict) else value
    (folder / "manifest.json").write_bytes(_rendered(content))


def test_newer_format_says_so(saved):
    resealed(saved, format_version=2)
    with pytest.raises(ValueError, match=r"format 2 is newer than 1.*upgrade sklearn_spt"):
        sklearn_spt.load(saved)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "nets/0/../../../x", "nets\\0\\x"])
def test_names_that_leave_the_folder_are_refused(saved, name):
    resealed(saved, files={name: "0" * 64})
    with pytest.raises(ValueError, match=r"names .* which is no file of a model"):
        sklearn_spt.load(saved)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"class": "BertClassifier"', '"class": "Popen"', "Popen"),
        ('"net": 0', '"system": 0', "unknown kind of value 'system'"),
        ('"net": 0', '"net": 7', "out of range"),
        ('"balanced_batches"', '"balanced"', "balanced"),
    ],
)
def test_other_content_is_one_error(saved, old, new, message):
    edited(saved, old, new)
    with pytest.raises(ValueError, match=rf"{saved} was written by sklearn-spt .*{message}"):
        sklearn_spt.load(saved)


# ---------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------
def test_folder_in_use_is_kept(fitted, saved, tmp_path):
    before = (saved / "manifest.json").read_bytes()
    with pytest.raises(ValueError, match=r"exists and is not empty.*overwrite=True"):
        fitted.save(saved)
    assert (saved / "manifest.json").read_bytes() == before
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ValueError, match="is a file"):
        fitted.save(file, overwrite=True)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("write", ["save", "export"])
def test_a_folder_inside_a_model_is_refused(fitted, saved, write):
    for inside in (saved / "v2", saved / "nets" / "0" / "v2"):
        with pytest.raises(ValueError, match=r"lies in the folder of a model, .*elsewhere"):
            getattr(fitted, write)(inside)
    sklearn_spt.load(saved)


def test_overwrite_replaces_a_model_and_nothing_else(fitted, saved, tiny_texts, tmp_path):
    fitted.partial_fit(tiny_texts, [1, 0] * 12)
    fitted.save(saved, overwrite=True)
    again = sklearn_spt.load(saved)
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), fitted.predict_proba(tiny_texts))
    for thesis in (saved / "thesis.tex", saved / "nets" / "0" / "thesis.tex"):
        thesis.write_text("years of work")
        with pytest.raises(ValueError, match=r"holds (nets/0/)?thesis\.tex, which is not part"):
            fitted.save(saved, overwrite=True)
        assert thesis.read_text() == "years of work"
        thesis.unlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["encoder", "model"]


def test_overwrite_replaces_more_nets_by_fewer(fitted, net, tiny_texts, tmp_path):
    clf = SelfPretrainingClassifier(net, max_iter=1, alpha=0, finetune_epochs=1)
    clf.fit(tiny_texts, half_labeled(24)).save(tmp_path / "model")
    fitted.save(tmp_path / "model", overwrite=True)
    assert isinstance(sklearn_spt.load(tmp_path / "model"), BertClassifier)
    assert [p.name for p in (tmp_path / "model" / "nets").iterdir()] == ["0"]


def test_overwrite_replaces_a_model_with_other_files(fitted, net, tiny_texts, tmp_path):
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=2, target_modules=["query"])
    adapted = clone(net).set_params(module__adapter=lora).fit(tiny_texts, [1, 0] * 12)
    adapted.save(tmp_path / "model")
    hidden = tmp_path / "model" / ".git"
    hidden.mkdir()
    with pytest.raises(ValueError, match=r"holds \.git, which is not part"):
        fitted.save(tmp_path / "model", overwrite=True)
    hidden.rmdir()
    fitted.save(tmp_path / "model", overwrite=True)
    expected = fitted.predict_proba(tiny_texts)
    found = sklearn_spt.load(tmp_path / "model").predict_proba(tiny_texts)
    np.testing.assert_array_equal(found, expected)
    adapted.save(tmp_path / "model", overwrite=True)
    weights = tmp_path / "model" / "nets" / "0" / "adapter.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"holds nets/0/adapter\.safetensors, which is not part"):
        fitted.save(tmp_path / "model", overwrite=True)


def test_empty_folder_and_new_parents_are_used(fitted, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b"):
        fitted.save(folder)
        assert sklearn_spt.load(folder).classes_.tolist() == [0, 1]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_whoever_may_read_the_folder_may_read_its_weights(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    fitted.export(tmp_path / "export")
    found = [path for name in ("model", "export") for path in (tmp_path / name).rglob("*")]
    files = [path for path in found if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".safetensors"}
    allowed = (tmp_path / "model").stat().st_mode & 0o666
    assert {path.stat().st_mode & 0o777 for path in files} == {allowed}


def test_interrupted_save_leaves_the_old_model(fitted, saved, tiny_texts, monkeypatch):
    from sklearn_spt.persistence import _saving

    expected = sklearn_spt.load(saved).predict_proba(tiny_texts)

    def interrupted(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(_saving, "seal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.save(saved, overwrite=True)
    assert sorted(p.name for p in saved.parent.iterdir()) == ["encoder", "model"]
    np.testing.assert_array_equal(sklearn_spt.load(saved).predict_proba(tiny_texts), expected)
