"""A LoRA of peft comes back from a folder, or is refused with the setting that is not kept."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from helpers.methods import half_labeled
from helpers.nets import bert_net
from sklearn.base import clone

import sklearn_spt
from sklearn_spt import SelfPretrainingClassifier

QUERY = {"r": 2, "target_modules": ["query"]}


@pytest.fixture
def peft():
    return pytest.importorskip("peft")


@pytest.fixture
def own_encoder(tiny_encoder, tmp_path):
    """An encoder that a test may remove."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["value", "query"], "lora_alpha": 3, "lora_dropout": 0.1},
        {"target_modules": "all-linear", "use_rslora": True},
        {"target_modules": ["dense"], "use_dora": True},
    ],
    ids=["plain", "rslora", "dora"],
)
def test_adapters_come_back(peft, settings, own_encoder, tiny_texts, tmp_path):
    adapter = peft.LoraConfig(r=2, **settings)
    net = bert_net(str(own_encoder), module__adapter=adapter)
    clf = SelfPretrainingClassifier(net, max_iter=1, alpha=0, finetune_epochs=2, random_state=0)
    P = clf.fit(tiny_texts, half_labeled(24)).predict_proba(tiny_texts)
    clf.save(tmp_path / "model")
    again = clone(clf).fit(tiny_texts, half_labeled(24))  # saving changed nothing
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), P)
    shutil.rmtree(own_encoder)
    loaded = sklearn_spt.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(tiny_texts), P)
    assert loaded.estimator.get_params()["module__adapter"] == adapter
    for one in loaded.estimators_:
        assert one.get_params()["module__adapter"] == adapter
        assert {n for n, w in one.module_.named_parameters() if w.requires_grad} == {
            n for n, w in clf.students_[0].module_.named_parameters() if w.requires_grad
        }


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"task_type": "SEQ_CLS"}, "task_type"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"modules_to_save": ["dense"], "bias": "all"}, "modules_to_save, bias"),
    ],
    ids=["task", "init", "two"],
)
def test_other_settings_are_refused(peft, other, named, tiny_encoder, tiny_texts, tmp_path):
    net = bert_net(tiny_encoder, max_epochs=0, module__adapter=peft.LoraConfig(**QUERY, **other))
    net.fit(tiny_texts, [1, 0] * 12)
    with pytest.raises(ValueError, match=r"module__adapter \(LoraConfig\) cannot be .*pickle") as e:
        net.save(tmp_path / "model")
    assert set(named.split(", ")) == set(
        str(e.value).partition("with ")[2].partition(":")[0].split(", ")
    )
    assert not (tmp_path / "model").exists()


def test_other_adapters_are_refused(peft, tiny_encoder, tiny_texts, tmp_path):
    config = peft.IA3Config(target_modules=["key", "dense"], feedforward_modules=["dense"])
    net = bert_net(tiny_encoder, module__adapter=config).fit(tiny_texts, [1, 0] * 12)
    with pytest.raises(ValueError, match=r"module__adapter \(IA3Config\) cannot be saved"):
        net.save(tmp_path / "model")
