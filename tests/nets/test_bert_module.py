"""Which weights are trained: all, all but the word embeddings, or an adapter of peft."""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
import torch
from helpers.kills import KillAfter, Killed
from helpers.methods import half_labeled
from helpers.nets import bert_net
from sklearn.base import clone

from sklearn_spt import SelfPretrainingClassifier, load
from sklearn_spt.nets._bert_module import BertModule

LABELS = [1, 0] * 12
WORDS = "encoder.model.embeddings.word_embeddings.weight"


def changed_weights(net, initial):
    """Names of the weights of a fitted net that differ from those of a net without a step."""
    weights = net.module_.state_dict()
    assert weights.keys() == initial.keys()
    return {name for name in weights if not torch.equal(weights[name], initial[name])}


@pytest.fixture
def peft():
    return pytest.importorskip("peft")


@pytest.fixture
def lora(peft):
    return peft.LoraConfig(r=2, lora_alpha=6, target_modules=["query", "value"])


def trained(name):
    """Whether a weight belongs to the adapter or to the linear layer."""
    return "lora_" in name or name.startswith("head.")


def assert_only_the_adapter_was_trained(net, initial):
    """Compare a fitted net with the weights of one without a training step."""
    changed = changed_weights(net, initial)
    assert changed == {name for name in initial if trained(name)}
    assert sum("lora_A" in name for name in changed) == 4  # query and value of two layers


def untrained(net, texts):
    """Weights of a fresh net."""
    fresh = clone(net).set_params(max_epochs=0, head_init="random")
    return fresh.fit(texts, LABELS).module_.state_dict()


@pytest.mark.parametrize("trained_words", [True, False])
def test_word_embeddings_may_stay_as_they_are(tiny_encoder, tiny_texts, tmp_path, trained_words):
    net = bert_net(tiny_encoder, module__train_word_embeddings=trained_words)
    initial = untrained(net, tiny_texts)
    clf = SelfPretrainingClassifier(net, step_size=0.5, finetune_epochs=2, random_state=0)
    clf.fit(tiny_texts, half_labeled(24))
    fitted = clone(net).fit(tiny_texts, LABELS)
    for one in (fitted, *clf.estimators_):
        expected = set(initial) if trained_words else set(initial) - {WORDS}
        assert changed_weights(one, initial) == expected
    moments = sum("exp_avg" in state for state in fitted.optimizer_.state.values())
    assert moments == len(list(fitted.module_.parameters())) - (not trained_words)
    fitted.save(tmp_path / "net")
    for again in (pickle.loads(pickle.dumps(fitted)), load(tmp_path / "net")):
        again.partial_fit(tiny_texts, LABELS)
        assert torch.equal(again.module_.state_dict()[WORDS], initial[WORDS]) is not trained_words


def test_the_switch_is_a_boolean(tiny_encoder, tiny_texts):
    net = bert_net(tiny_encoder, module__train_word_embeddings="no")
    with pytest.raises(TypeError, match="module__train_word_embeddings must be True or False"):
        net.fit(tiny_texts, LABELS)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_only_the_adapter_and_the_head_are_trained(tiny_encoder, tiny_texts, lora, pooling):
    net = bert_net(tiny_encoder, pooling=pooling, module__adapter=lora)
    given = copy.deepcopy(lora)
    net.fit(tiny_texts, LABELS)
    assert_only_the_adapter_was_trained(net, untrained(net, tiny_texts))
    assert {n for n, w in net.module_.named_parameters() if w.requires_grad} == {
        n for n, _ in net.module_.named_parameters() if trained(n)
    }
    assert lora == given  # a fit changes no parameter
    assert net.get_params()["module__adapter"] is lora


def test_the_adapter_adds_its_product_to_the_weights(tiny_encoder, tiny_texts, lora):
    net = bert_net(tiny_encoder, precision="fp32", module__adapter=lora).fit(tiny_texts, LABELS)
    weights = {
        name.replace("base_model.model.", "").replace("base_layer.", ""): weight.clone()
        for name, weight in net.module_.state_dict().items()
    }
    for name in [name for name in weights if "lora_A" in name]:
        A, B = weights[name], weights[name.replace("lora_A", "lora_B")]
        weights[name.replace("lora_A.default.", "")] += lora.lora_alpha / lora.r * B @ A
    plain = BertModule(tiny_encoder, n_classes=2).eval()
    plain.load_state_dict({name: w for name, w in weights.items() if "lora_" not in name})
    ids = net.encode(tiny_texts)
    with torch.no_grad():
        expected = plain(torch.from_numpy(ids))
    torch.testing.assert_close(net.forward(ids), expected, atol=1e-5, rtol=1e-5)


def test_the_linear_probe_is_that_of_the_pretrained_encoder(tiny_encoder, tiny_texts, lora):
    plain = bert_net(tiny_encoder, max_epochs=0).fit(tiny_texts, LABELS)
    adapted = bert_net(tiny_encoder, max_epochs=0, module__adapter=lora).fit(tiny_texts, LABELS)
    assert torch.equal(adapted.module_.head.weight, plain.module_.head.weight)


def test_self_pretraining_trains_adapters(tiny_encoder, tiny_texts, lora, tmp_path):
    net = bert_net(tiny_encoder, module__adapter=lora)
    clf = SelfPretrainingClassifier(net, max_iter=2, finetune_epochs=2, random_state=0)
    clf.fit(tiny_texts, half_labeled(24))
    P = clf.predict_proba(tiny_texts)
    assert np.isfinite(P).all()
    initial = untrained(net, tiny_texts)
    for one in clf.estimators_:  # each with draws of its own for its adapter
        assert_only_the_adapter_was_trained(one, initial)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), P)
    # a clone, killed after an iteration and resumed
    killed = clone(clf).set_params(checkpoint_dir=tmp_path, on_iteration=KillAfter(1))
    with pytest.raises(Killed):
        killed.fit(tiny_texts, half_labeled(24))
    resumed = clone(killed).set_params(on_iteration=None).fit(tiny_texts, half_labeled(24))
    np.testing.assert_array_equal(resumed.predict_proba(tiny_texts), P)


def test_memory_changes_no_result_of_an_adapter_that_is_drawn(
    tiny_encoder, tiny_texts, peft, tmp_path
):
    drawn = peft.LoraConfig(r=2, target_modules=["query", "value"], init_lora_weights=False)
    net = bert_net(tiny_encoder, module__adapter=drawn)
    clf = SelfPretrainingClassifier(
        net, step_size=0.5, finetune_epochs=1, memory=tmp_path, random_state=0
    )
    first, again = (
        clone(clf).fit(tiny_texts, half_labeled(24)).predict_proba(tiny_texts) for _ in range(2)
    )
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("kind", ["text", "prompt"])
def test_only_adapters_of_layers_are_taken(tiny_encoder, tiny_texts, peft, kind):
    given = "lora" if kind == "text" else peft.PrefixTuningConfig(num_virtual_tokens=2)
    name = type(given).__name__
    with pytest.raises(TypeError, match=rf"module__adapter must be .*LoraConfig\(\), got {name}\."):
        bert_net(tiny_encoder, module__adapter=given).fit(tiny_texts, LABELS)


def test_the_extra_is_named_where_it_is_missing(tiny_encoder, tiny_texts, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"module__adapter needs .*'sklearn-spt\[peft\]'"):
        bert_net(tiny_encoder, module__adapter="any").fit(tiny_texts, LABELS)


def test_a_configuration_for_another_task_is_trained_too(tiny_encoder, tiny_texts, peft):
    config = peft.LoraConfig(
        r=2, target_modules=["query", "value"], task_type="SEQ_CLS", inference_mode=True
    )
    net = bert_net(tiny_encoder, module__adapter=config).fit(tiny_texts, LABELS)
    assert_only_the_adapter_was_trained(net, untrained(net, tiny_texts))
