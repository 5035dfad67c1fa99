"""Fits on a CUDA device without values: no wait, no tensor elsewhere, and few launches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from conftest import build_encoder
from helpers.cuda import DEVICE, Recorder, fake_cuda, set_sync_debug_mode
from helpers.nets import bert_net
from skorch.callbacks import Callback

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.nets import _cuda_graphs
from sklearn_spt.nets._kernels import plain

TEXTS = ["i got the flu shot today", "no needle"] * 12
Y = np.array([1, 0] * 12)


@pytest.fixture(scope="module")
def six_layers(tmp_path_factory):
    """Folder of an encoder with the layers of the default one, whose number decides launches."""
    return build_encoder(tmp_path_factory.mktemp("six"), layers=6)


class Steps(Callback):
    """Counts the launches of each training step, with the update of the weights."""

    launches = None
    counts: list[int] = []  # noqa: RUF012 - read by the tests after cloning

    def on_batch_begin(self, net, training=False, **kwargs):
        self.before = self.launches.total()

    def on_batch_end(self, net, training=False, **kwargs):
        self.counts.append(self.launches.total() - self.before)


@pytest.fixture
def gpu(monkeypatch, six_layers, tiny_pooling_encoder):
    """Make "cuda:0" a device without values, whose launches `Steps` counts."""
    if torch.cuda.is_available():
        pytest.skip("for machines without a GPU; tests/test_gpu.py is for the others")
    Steps.counts = []
    with fake_cuda(monkeypatch, six_layers, tiny_pooling_encoder) as launches:
        monkeypatch.setattr(Steps, "launches", launches)
        monkeypatch.setattr(_cuda_graphs, "Recorder", lambda device: Recorder(launches))
        yield launches
    _cuda_graphs._KEPT.clear()


def net_of(checkpoint, **params):
    settings = {"callbacks": [Steps()], "max_epochs": 1, "batch_size": 12, **params}
    return bert_net(checkpoint, device=DEVICE, **settings)


def launches_of_a_step(checkpoint, **params):
    """Launches of the second step; in the first one AdamW takes its memory."""
    Steps.counts = []
    net_of(checkpoint, head_init="random", pooling="mean", **params).fit(TEXTS, Y)
    first, second = Steps.counts
    assert first > second
    return second


@pytest.mark.parametrize(("precision", "budget"), [("fp32", 350), ("bf16", 420)])
def test_a_step_stays_within_its_launches(gpu, six_layers, precision, budget):
    assert 300 < launches_of_a_step(six_layers, precision=precision) <= budget


def test_what_casts_and_masks_save(gpu, tiny_pooling_encoder):
    """A layer has 6 weights and 6 biases, with a gradient each; a mask takes three launches."""
    best = launches_of_a_step(tiny_pooling_encoder, precision="bf16")
    with plain("casts"):
        assert launches_of_a_step(tiny_pooling_encoder, precision="bf16") == best + 2 * 24 - 2
    assert gpu.with_cudnn == {False}
    with plain("attention"):
        assert launches_of_a_step(tiny_pooling_encoder, precision="bf16") == best + 2 * 3 - 3
    assert gpu.with_cudnn == {False, True}


def test_a_whole_fit_neither_waits_nor_mixes_devices(gpu, tiny_pooling_encoder):
    y = np.where(np.arange(24) < 8, Y, -1)
    net = net_of(tiny_pooling_encoder, precision="bf16")
    model = SelfPretrainingClassifier(net, step_size=8, finetune_epochs=1, random_state=0)
    model.fit(TEXTS, y)
    assert model.n_iter_ == 2
    assert {w.device.type for w in model.students_[0].module_.parameters()} == {"cuda"}
    assert len(Steps.counts) == 1 + (1 + 1) + (2 + 1)  # the start; stage 1 and 2 of two students
    assert model.predict_proba(TEXTS).shape == (24, 2)


def test_a_fit_on_graphs_neither_waits_nor_mixes_devices(gpu, tiny_pooling_encoder, monkeypatch):
    monkeypatch.setattr(_cuda_graphs, "_WORTHWHILE", 1)
    params = {"cuda_graphs": True, "max_epochs": 2, "precision": "fp32"}
    net_of(tiny_pooling_encoder, **params).fit(TEXTS, Y)
    *_, graphed = Steps.counts
    (slot,) = _cuda_graphs._KEPT.values()
    assert slot.record.replays > 0
    assert graphed == 6  # the rate, ids, targets, the graph, and copies of loss and logits
    assert Steps.counts.count(6) == slot.record.replays - 1  # λ and T are set once
    assert launches_of_a_step(tiny_pooling_encoder, precision="fp32") > 100


def test_self_pretraining_on_graphs_neither_waits_nor_mixes_devices(
    gpu, tiny_pooling_encoder, monkeypatch
):
    monkeypatch.setattr(_cuda_graphs, "_WORTHWHILE", 1)
    net = net_of(tiny_pooling_encoder, precision="bf16", cuda_graphs=True, batch_size=4)
    y = np.where(np.arange(24) < 8, Y, -1)
    params = {"step_size": 8, "finetune_epochs": 2, "random_state": 0}
    SelfPretrainingClassifier(net, **params).fit(TEXTS, y)
    (slot,) = _cuda_graphs._KEPT.values()
    assert slot.record.replays > 2 * len(slot.graphs)
    others = [Steps.counts.count(n) for n in (7, 8)]  # with another λ or T
    assert Steps.counts.count(6) > sum(others)


def test_a_fresh_net_takes_its_weights_from_the_device(gpu, tiny_pooling_encoder):
    def copies():
        before = gpu.copies
        net_of(tiny_pooling_encoder, classes=[0, 1]).initialize()
        return gpu.copies - before

    assert copies() > 2
    assert copies() == 2  # the head, which is drawn on the CPU


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).any()),
        lambda x: x.nonzero(),
        lambda x: x.cpu(),
        lambda x: x[x > 0],
        lambda x: x + torch.ones(3),
    ],
)
def test_what_waits_or_mixes_devices_is_an_error(gpu, waits):
    x = torch.zeros(3, device=DEVICE)
    with pytest.raises(Exception, match=r"waits for the device|aten\.|two devices"):
        waits(x)


def test_the_debug_mode_of_torch_may_warn_at_its_first_call(monkeypatch):
    modes = []

    def first_call(mode):
        modes.append(mode)
        warnings.warn(
            "Synchronization debug mode is a prototype feature and does not yet detect all "
            "synchronizing operations",
            UserWarning,
            stacklevel=2,
        )

    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", first_call)
    set_sync_debug_mode("error")
    assert modes == ["error"]
