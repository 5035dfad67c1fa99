"""Pickles hold what predicts, once, and tell under which versions they were written."""

from __future__ import annotations

import copy
import pickle
from importlib.metadata import version

import numpy as np
import pytest
import torch
from helpers.nets import bert_net, mlp_net
from sklearn.datasets import make_moons
from sklearn.exceptions import InconsistentVersionWarning

from sklearn_spt import (
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
    _validation,
)

#: The methods that take numbers.
METHODS = [
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
]


@pytest.fixture
def moons():
    X, y = make_moons(80, noise=0.1, random_state=0)
    y[40:] = -1
    return X.astype(np.float32), y


@pytest.fixture
def bert(tiny_encoder, tiny_texts):
    return bert_net(tiny_encoder).fit(tiny_texts, [1, 0] * 12)


def n_bytes(net):
    """Size of the weights and buffers of a net."""
    module = net.module_
    return sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


@pytest.mark.parametrize("method", METHODS)
def test_a_pickle_holds_each_net_once_and_no_optimiser(moons, method):
    net = mlp_net(module__n_hidden=20_000, optimizer=torch.optim.Adam, lr=1e-3)
    clf = method(net, random_state=0).fit(*moons)
    nets = {id(net): net for net in clf.estimators_}.values()
    assert len(pickle.dumps(clf)) < 1.1 * sum(map(n_bytes, nets))


@pytest.mark.parametrize("copied", [lambda net: pickle.loads(pickle.dumps(net)), copy.deepcopy])
def test_a_bert_classifier_leaves_the_state_of_its_optimiser(bert, tiny_texts, copied):
    y = [1, 0] * 12
    held = len(bert.optimizer_.state)
    loaded = copied(bert)
    assert len(loaded.optimizer_.state) == 0
    assert len(bert.optimizer_.state) == held > 0
    assert loaded.optimizer_.param_groups[0]["lr"] == bert.optimizer_.param_groups[0]["lr"]
    np.testing.assert_array_equal(loaded.predict_proba(tiny_texts), bert.predict_proba(tiny_texts))
    # it goes on as the net itself would with a new optimiser
    bert.optimizer_.state.clear()
    loaded.partial_fit(tiny_texts, y)
    assert len(loaded.optimizer_.state) == held
    bert.partial_fit(tiny_texts, y)
    np.testing.assert_array_equal(loaded.predict_proba(tiny_texts), bert.predict_proba(tiny_texts))


def test_the_optimiser_adds_nothing_to_a_pickle(bert):
    full = len(pickle.dumps(bert))
    assert full < len(pickle.dumps(bert.module_)) + 20_000
    assert len(pickle.dumps(bert.optimizer_)) > 2 * n_bytes(bert)


@pytest.mark.parametrize("library", ["sklearn-spt", "scikit-learn"])
@pytest.mark.parametrize("kind", ["net", "method"])
def test_a_pickle_of_another_version_warns(moons, bert, monkeypatch, library, kind):
    clf = bert if kind == "net" else SelfPretrainingClassifier(mlp_net(), random_state=0)
    stored = pickle.dumps(clf)
    assert not hasattr(pickle.loads(stored), "_versions")
    monkeypatch.setattr(
        _validation, "version", lambda name: "99.0" if name == library else version(name)
    )
    message = rf"{type(clf).__name__} \({library}\) from version {version(library)} when .* 99\.0"
    with pytest.warns(InconsistentVersionWarning, match=message) as warned:
        pickle.loads(stored)
    assert len(warned) == 1


def test_a_pickle_without_a_version_warns(bert):
    state = bert.__getstate__()
    del state["_versions"]
    loaded = object.__new__(type(bert))
    with pytest.warns(InconsistentVersionWarning, match="from version unknown"):
        loaded.__setstate__(state)
