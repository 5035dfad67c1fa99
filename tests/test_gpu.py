"""Tests on a CUDA device: searches, precision, compiled nets, seeds, and models that leave it."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers import bert_net
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt._module import uses_bf16
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

pytestmark = pytest.mark.gpu

Y = np.array(["got", "skipped"] * 12)


@pytest.fixture
def net(tiny_sentence_encoder):
    """A net on CUDA that learns the tiny texts in a second."""
    return bert_net(tiny_sentence_encoder, device="cuda", max_epochs=10)


@pytest.fixture
def fitted(net, tiny_texts):
    y = np.where(np.arange(24) < 12, Y, "?")
    params = {"step_size": 0.5, "finetune_epochs": 10, "random_state": 0}
    return SelfPretrainingClassifier(net, unlabeled_marker="?", **params).fit(tiny_texts, y)


def test_cuda_is_the_default(tiny_encoder):
    assert BertClassifier(tiny_encoder).device == "cuda"
    assert SentenceEmbedder(tiny_encoder).device == "cuda"


def test_a_search_over_lam_and_alpha(net, tiny_texts):
    y = np.array([1, 0] * 8 + [-1] * 8)
    clf = SelfPretrainingClassifier(net, step_size=0.5, random_state=0)
    grid = {"lam": [0.0, 0.5], "alpha": [0.0, 0.5]}
    search = GridSearchCV(clf, grid, cv=SemiSupervisedStratifiedKFold(2), error_score="raise")
    search.fit(tiny_texts, y)
    for student in search.best_estimator_.estimators_:
        assert {weight.device.type for weight in student.module_.parameters()} == {"cuda"}
    assert search.predict(tiny_texts).shape == (24,)


def test_self_pretraining(fitted, tiny_texts):
    assert (fitted.n_iter_, len(fitted.estimators_)) == (2, 3)
    P = fitted.predict_proba(tiny_texts)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert fitted.score(tiny_texts, Y) > 0.7


@pytest.mark.parametrize("place", ["memory", "checkpoint_dir"])
def test_folders_give_the_same_fit(fitted, tiny_texts, tmp_path, place):
    y = np.where(np.arange(24) < 12, Y, "?")
    again = clone(fitted).set_params(**{place: str(tmp_path)})
    for _ in range(2):
        P = again.fit(tiny_texts, y).predict_proba(tiny_texts)
        np.testing.assert_allclose(P, fitted.predict_proba(tiny_texts), atol=1e-3)


def test_bf16(net, tiny_texts):
    if torch.cuda.get_device_capability()[0] < 8:
        pytest.skip("no bf16 in hardware")
    assert uses_bf16("auto", torch.device("cuda"))
    half = clone(net).set_params(precision="auto", max_epochs=20).fit(tiny_texts, Y)
    assert {weight.dtype for weight in half.module_.parameters()} == {torch.float32}
    assert half.score(tiny_texts, Y) > 0.9
    exact = net.fit(tiny_texts, Y).predict_proba(tiny_texts)
    net.module_.precision = "bf16"
    P = net.predict_proba(tiny_texts)
    assert not np.array_equal(P, exact)
    np.testing.assert_allclose(P, exact, atol=0.05)


@pytest.mark.filterwarnings("ignore")  # the compiler warns of its own code
def test_compiled_nets_give_the_same(net, tiny_texts):
    net.set_params(max_epochs=2, max_length=16)
    P = clone(net).set_params(module__dropout=0.0).fit(tiny_texts, Y).predict_proba(tiny_texts)
    fast = clone(net).set_params(module__dropout=0.0, compile=True)
    np.testing.assert_allclose(fast.fit(tiny_texts, Y).predict_proba(tiny_texts), P, atol=0.05)
    fast.set_params(compile__mode="reduce-overhead", max_epochs=20).fit(tiny_texts, Y)
    assert fast.score(tiny_texts, Y) > 0.9


def test_seeds(net, tiny_texts, global_random_state_unchanged):
    before = torch.cuda.get_rng_state_all()
    net.set_params(max_epochs=2)
    first, second = (clone(net).fit(tiny_texts, Y).predict_proba(tiny_texts) for _ in range(2))
    other = clone(net).set_params(random_state=1).fit(tiny_texts, Y).predict_proba(tiny_texts)
    # sums in the backward kernels may differ in their last digits from run to run
    assert abs(first - second).max() < 0.1 * abs(first - other).max()
    for state, same in zip(torch.cuda.get_rng_state_all(), before, strict=True):
        assert torch.equal(state, same)


def test_other_texts_change_nothing(net, tiny_texts):
    net.fit(tiny_texts, Y)
    alone = np.vstack([net.predict_proba([text]) for text in tiny_texts])
    np.testing.assert_allclose(net.predict_proba(tiny_texts), alone, atol=1e-3)


SCRIPT = """
import pickle, sys
import numpy as np, torch
assert not torch.cuda.is_available()
with open(sys.argv[1], "rb") as file:
    model, texts = pickle.load(file)
np.save(sys.argv[2], model.predict_proba(texts))
"""


@pytest.mark.parametrize("kind", ["method", "net"])
def test_pickles_predict_without_cuda(kind, fitted, tiny_texts, tmp_path):
    model = fitted if kind == "method" else fitted.students_[0]
    here = pickle.loads(pickle.dumps(model)).predict_proba(tiny_texts)
    np.testing.assert_allclose(here, model.predict_proba(tiny_texts), atol=1e-5)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((model, tiny_texts)))
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    command += [str(tmp_path / name) for name in ("model.pkl", "P.npy")]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": paths}
    subprocess.run(command, env=environment, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "P.npy"), here, atol=1e-3)


def test_embeddings_are_those_of_the_cpu(tiny_sentence_encoder, tiny_texts):
    embedder = SentenceEmbedder(tiny_sentence_encoder, precision="fp32")
    on_cuda = embedder.fit_transform(tiny_texts)
    on_cpu = embedder.set_params(device="cpu").transform(tiny_texts)
    np.testing.assert_allclose(on_cuda, on_cpu, atol=1e-4)
