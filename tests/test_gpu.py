"""Tests on a CUDA device, and of results that must not depend on having one."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers.cuda import set_sync_debug_mode
from helpers.nets import WithoutDropout, bert_net, of_many_lengths
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.nets import _cuda_graphs
from sklearn_spt.nets._kernels import plain

pytestmark = pytest.mark.gpu

Y = np.array(["got", "skipped"] * 12)


@pytest.fixture
def net(tiny_pooling_encoder):
    """A net that learns the tiny texts in a second."""
    return bert_net(tiny_pooling_encoder, max_epochs=10, precision="fp32")


def weights(net):
    return [weight.detach().cpu().clone() for weight in net.module_.parameters()]


# -- fast paths ----------------------------------------------------------------------------------
def test_memory_and_checkpoints_give_the_same_fit(net, tiny_texts, tmp_path):
    y = np.array([1, 0] * 6 + [-1] * 12)
    params = {"step_size": 6, "random_state": 0, "alpha": 0.1}
    expected = SelfPretrainingClassifier(net, **params).fit(tiny_texts, y)
    memory = {"memory": str(tmp_path)}
    for place in (memory, memory, {"checkpoint_dir": tmp_path}):
        again = SelfPretrainingClassifier(net, **params, **place).fit(tiny_texts, y)
        np.testing.assert_allclose(
            again.predict_proba(tiny_texts), expected.predict_proba(tiny_texts), atol=1e-4
        )


def test_graphs_and_eager_steps_give_the_same_fit(net, tiny_texts):
    net.set_params(dropout=0.0, module=WithoutDropout, lr=1e-3, max_epochs=20)
    eager = clone(net).fit(tiny_texts, Y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y)
    np.testing.assert_allclose(
        graphed.predict_proba(tiny_texts), eager.predict_proba(tiny_texts), atol=1e-3
    )


def test_graphs_of_many_widths_share_their_memory(net, tiny_texts, monkeypatch):
    """With so great an epsilon, weights differ only as much as gradients."""
    texts, y = of_many_lengths(tiny_texts, Y)
    net.set_params(dropout=0.0, module=WithoutDropout, lr=0.01, optimizer__eps=1.0)
    net.set_params(max_epochs=8, max_length=60, callbacks__gradient_clip=None)
    kept = []
    make = _cuda_graphs.Slot
    monkeypatch.setattr(_cuda_graphs, "Slot", lambda *args: kept.append(make(*args)) or kept[-1])
    eager = clone(net).fit(texts, y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(texts, y)
    assert len(kept[0].graphs) > 1
    for one, two in zip(weights(eager), weights(graphed), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_a_second_fit_finds_the_graphs_of_the_first(net, tiny_texts):
    net.set_params(cuda_graphs=True)
    first = clone(net).fit(tiny_texts, Y)
    (slot,) = _cuda_graphs._KEPT.values()
    graphs, reserved = dict(slot.graphs), torch.cuda.memory_reserved()
    assert graphs
    second = clone(net).fit(tiny_texts, Y)
    assert next(iter(_cuda_graphs._KEPT.values())) is slot
    assert slot.graphs == graphs
    assert torch.cuda.memory_reserved() <= reserved + 2**21  # the weights of the second net
    np.testing.assert_allclose(
        second.predict_proba(tiny_texts), first.predict_proba(tiny_texts), atol=1e-2
    )


def test_graphs_draw_the_dropout_of_eager_steps(net, tiny_texts):
    """Recording gives back the random numbers that it took."""
    net.set_params(lr=0.01, optimizer__eps=1.0, max_epochs=4)
    eager = clone(net).fit(tiny_texts, Y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y)
    other = clone(net).set_params(random_state=1).fit(tiny_texts, Y)
    far = max((a - b).abs().max() for a, b in zip(weights(eager), weights(other), strict=True))
    near = max((a - b).abs().max() for a, b in zip(weights(eager), weights(graphed), strict=True))
    assert near < 0.01 * far


@pytest.mark.parametrize("path", ["casts", "attention"])
def test_fast_paths_of_cuda_give_the_same_fit(net, tiny_texts, path):
    # other kernels of attention may draw other dropout
    net.set_params(dropout=0.0, module=WithoutDropout, optimizer=torch.optim.SGD, lr=0.01)
    net.set_params(precision="bf16", max_epochs=2)
    fast = clone(net).fit(tiny_texts, Y)
    with plain(path):
        slow = clone(net).fit(tiny_texts, Y)
    for one, two in zip(weights(fast), weights(slow), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-3)


def test_moments_go_on_after_a_fit_on_graphs(net, tiny_texts):
    net.set_params(dropout=0.0, module=WithoutDropout, lr=1e-3)
    eager = clone(net).fit(tiny_texts, Y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y)
    clone(net).set_params(cuda_graphs=True, random_state=3).fit(tiny_texts, Y)  # at its places
    np.testing.assert_allclose(
        graphed.partial_fit(tiny_texts, Y).predict_proba(tiny_texts),
        eager.partial_fit(tiny_texts, Y).predict_proba(tiny_texts),
        atol=1e-3,
    )


def test_graphs_with_dropout_and_bf16_learn(net, tiny_texts):
    net.set_params(cuda_graphs=True, precision="bf16", max_epochs=30).fit(tiny_texts, Y)
    assert net.score(tiny_texts, Y) > 0.9


def test_self_pretraining_on_graphs(net, tiny_texts):
    """Both stages take their λ and T, so that the teacher is followed as in plain steps."""
    y = np.array([1, 0] * 6 + [-1] * 12)
    net.set_params(dropout=0.0, module=WithoutDropout, lr=1e-3)
    params = {"step_size": 6, "finetune_epochs": 10, "random_state": 0, "lam": 0.9}
    eager = SelfPretrainingClassifier(clone(net), **params).fit(tiny_texts, y)
    graphed = SelfPretrainingClassifier(net.set_params(cuda_graphs=True), **params)
    np.testing.assert_allclose(
        graphed.fit(tiny_texts, y).predict_proba(tiny_texts),
        eager.predict_proba(tiny_texts),
        atol=1e-2,
    )


class Reads(WithoutDropout):
    """A module whose step cannot be recorded, because it reads a value."""

    def forward(self, ids):
        return super().forward(ids) * (1.0 + 0 * ids.sum().item())


def test_a_net_trains_after_a_step_that_could_not_be_recorded(net, tiny_texts):
    with pytest.raises(RuntimeError, match=r"could not be recorded.*Use cuda_graphs=False"):
        clone(net).set_params(cuda_graphs=True, module=Reads).fit(tiny_texts, Y)
    assert net.fit(tiny_texts, Y).score(tiny_texts, Y) > 0.9


@pytest.mark.parametrize("graphs", [False, True])
def test_no_step_waits_for_the_device(net, tiny_texts, graphs):
    watched = []

    class Watch(Callback):
        """Raise an error for each wait once all shapes are captured."""

        def on_batch_begin(self, net, training=False, **kwargs):
            # captures wait; they end after six batches of each shape
            if training and len(net.history) > 8:
                set_sync_debug_mode("error")
                watched.append(torch.cuda.get_sync_debug_mode())

        def on_batch_end(self, net, training=False, **kwargs):
            set_sync_debug_mode("default")

    net.set_params(callbacks=[Watch()], cuda_graphs=graphs)
    try:
        net.fit(tiny_texts, Y)
    finally:
        set_sync_debug_mode("default")
    assert watched == [2] * 12  # "error", in the six steps of the last two epochs


# -- device and precision ----------------------------------------------------------------------
def test_auto_takes_cuda(net, tiny_texts):
    net.fit(tiny_texts, Y)
    assert net.get_params()["device"] == "auto"
    assert net.device_ == "cuda"
    assert {weight.device.type for weight in net.module_.parameters()} == {"cuda"}
    assert net.predict_proba(tiny_texts).shape == (24, 2)
    assert net.score(tiny_texts, Y) > 0.9


def test_device_cpu_uses_the_cpu(net, tiny_texts):
    net.set_params(device="cpu", max_epochs=1).fit(tiny_texts, Y)
    assert net.device_ == "cpu"
    assert {weight.device.type for weight in net.module_.parameters()} == {"cpu"}


def test_a_device_with_a_number(net, tiny_texts):
    net.set_params(device="cuda:0", max_epochs=1).fit(tiny_texts, Y)
    assert net.device_ == "cuda:0"
    assert net.predict(tiny_texts).shape == (24,)


def test_auto_precision_depends_on_the_capability(net, tiny_texts):
    net.set_params(precision="auto").fit(tiny_texts, Y)
    ampere = torch.cuda.get_device_capability()[0] >= 8
    assert net.precision_ == ("bf16" if ampere else "fp32")
    assert net.module_.encoder.precision == net.precision_
    assert {weight.dtype for weight in net.module_.parameters()} == {torch.float32}
    assert net.score(tiny_texts, Y) > 0.9


def test_bf16_is_close_to_fp32(net, tiny_texts):
    if torch.cuda.get_device_capability()[0] < 8:
        pytest.skip("no bf16 in hardware")
    exact = net.fit(tiny_texts, Y).predict_proba(tiny_texts)
    net.module_.encoder.precision = "bf16"
    half = net.predict_proba(tiny_texts)
    assert not np.array_equal(half, exact)
    np.testing.assert_allclose(half, exact, atol=0.05)


def test_cpu_and_cuda_give_the_same_probabilities(net, tiny_texts):
    net.fit(tiny_texts, Y)
    on_cuda = net.predict_proba(tiny_texts)
    other = clone(net).set_params(device="cpu", max_epochs=0).fit(tiny_texts, Y)
    other.module_.load_state_dict(
        {name: value.cpu() for name, value in net.module_.state_dict().items()}
    )
    np.testing.assert_allclose(other.predict_proba(tiny_texts), on_cuda, atol=1e-3)


def test_probabilities_do_not_depend_on_the_other_texts(net, tiny_texts):
    net.fit(tiny_texts, Y)
    together = net.predict_proba(tiny_texts)
    alone = np.vstack([net.predict_proba([text]) for text in tiny_texts])
    np.testing.assert_allclose(together, alone, atol=1e-3)


# -- random state --------------------------------------------------------------------------------
def test_a_fit_does_not_change_the_generators_of_cuda(
    net, tiny_texts, global_random_state_unchanged
):
    before = [torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())]
    net.fit(tiny_texts, Y).predict(tiny_texts)
    after = [torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_seed_decides_about_dropout_on_cuda(net, tiny_texts):
    net.set_params(max_epochs=2)
    first = net.fit(tiny_texts, Y).predict_proba(tiny_texts)
    torch.cuda.manual_seed(99)  # draws of other code in between
    second = clone(net).fit(tiny_texts, Y).predict_proba(tiny_texts)
    other = clone(net).set_params(random_state=1).fit(tiny_texts, Y).predict_proba(tiny_texts)
    # sums in the backward kernels of CUDA may differ in the last digits between runs
    assert np.abs(first - second).max() < 0.1 * np.abs(first - other).max()


# -- copies --------------------------------------------------------------------------------------
def test_pickle_on_the_same_machine_stays_on_cuda(net, tiny_texts):
    net.fit(tiny_texts, Y)
    loaded = pickle.loads(pickle.dumps(net))
    assert loaded.get_params()["device"] == "auto"
    assert loaded.device_ == "cuda"
    assert {weight.device.type for weight in loaded.module_.parameters()} == {"cuda"}
    np.testing.assert_allclose(
        loaded.predict_proba(tiny_texts), net.predict_proba(tiny_texts), atol=1e-5
    )


SCRIPT = """
import pickle, sys, warnings
import numpy as np
import torch
from skorch.exceptions import DeviceWarning

warnings.simplefilter("error", DeviceWarning)
assert not torch.cuda.is_available()
with open(sys.argv[1], "rb") as file:
    model, texts = pickle.load(file)
net = getattr(model, "students_", [model])[0]
assert net.get_params()["device"] == "auto"
assert net.device_ == "cpu"
assert {weight.device.type for weight in net.module_.parameters()} == {"cpu"}
np.save(sys.argv[2], model.predict_proba(texts))
"""


def probabilities_without_cuda(model, texts, folder):
    """Pickle the model, load it in a process without CUDA, and predict there."""
    (folder / "script.py").write_text(SCRIPT)
    (folder / "model.pkl").write_bytes(pickle.dumps((model, texts)))
    paths = [path for path in sys.path if path]
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    arguments = [str(folder / name) for name in ("script.py", "model.pkl", "out.npy")]
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return np.load(folder / "out.npy")


def test_a_net_fitted_on_cuda_predicts_without_cuda(net, tiny_texts, tmp_path):
    net.fit(tiny_texts, Y)
    elsewhere = probabilities_without_cuda(net, tiny_texts, tmp_path)
    np.testing.assert_allclose(elsewhere, net.predict_proba(tiny_texts), atol=1e-3)


def test_a_deep_copy_is_independent(net, tiny_texts):
    net.fit(tiny_texts, Y)
    twin = copy.deepcopy(net)
    np.testing.assert_allclose(
        twin.predict_proba(tiny_texts), net.predict_proba(tiny_texts), atol=1e-5
    )
    before = weights(net)
    twin.partial_fit(tiny_texts, Y)
    assert all(torch.equal(a, b) for a, b in zip(weights(net), before, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(weights(twin), before, strict=True))


def test_training_continues_after_unpickling(net, tiny_texts):
    loaded = pickle.loads(pickle.dumps(net.fit(tiny_texts, Y)))
    before = weights(loaded)
    loaded.partial_fit(tiny_texts, Y)
    assert loaded.device_ == "cuda"
    assert not all(torch.equal(a, b) for a, b in zip(weights(loaded), before, strict=True))


# -- searches, the method, embeddings ----------------------------------------------------------
def test_grid_search(net, tiny_texts):
    search = GridSearchCV(net, {"lr": [1e-9, 1e-2]}, cv=2, error_score="raise")
    search.fit(tiny_texts, Y)
    assert search.best_params_ == {"lr": 1e-2}
    assert search.best_estimator_.device_ == "cuda"
    assert search.predict(tiny_texts).shape == (24,)


@pytest.fixture
def fitted(net, tiny_texts):
    y = np.where(np.arange(24) < 8, Y, "?")
    model = SelfPretrainingClassifier(
        net, step_size=0.5, unlabeled_marker="?", finetune_epochs=10, random_state=0
    )
    return model.fit(tiny_texts, y)


def test_self_pretraining_end_to_end(fitted, tiny_texts):
    assert fitted.n_iter_ == 2
    assert [net.device_ for net in fitted.estimators_] == ["cuda"] * 3
    assert set(fitted.transduction_) <= {"got", "skipped"}
    probabilities = fitted.predict_proba(tiny_texts)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    assert fitted.score(tiny_texts, Y) > 0.7
    again = pickle.loads(pickle.dumps(fitted)).predict_proba(tiny_texts)
    np.testing.assert_allclose(again, probabilities, atol=1e-5)


def test_self_pretraining_predicts_without_cuda(fitted, tiny_texts, tmp_path):
    elsewhere = probabilities_without_cuda(fitted, tiny_texts, tmp_path)
    np.testing.assert_allclose(elsewhere, fitted.predict_proba(tiny_texts), atol=1e-3)


def test_embeddings_equal_those_of_the_cpu(tiny_pooling_encoder, tiny_texts):
    embedder = SentenceEmbedder(tiny_pooling_encoder, max_length=24, precision="fp32")
    on_cuda = embedder.fit_transform(tiny_texts)
    on_cpu = embedder.set_params(device="cpu").transform(tiny_texts)
    assert on_cuda.dtype == np.float32
    np.testing.assert_allclose(on_cuda, on_cpu, atol=1e-4)
