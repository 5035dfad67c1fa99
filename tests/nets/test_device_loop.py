"""The training loop for a GPU, run on the CPU, must give the results of skorch's own loop."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.nets import Fails, WithoutDropout, bert_net, of_many_lengths, weights_of
from skorch.callbacks import Callback

from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.nets import _batching as batching
from sklearn_spt.nets import _device_loop as device_loop
from sklearn_spt.nets import _kernels as kernels
from sklearn_spt.nets._batching import WIDTH_MULTIPLE, TokenBatches
from sklearn_spt.nets._kernels import plain

Y = np.array(["got", "skipped"] * 12)


@pytest.fixture
def net(tiny_pooling_encoder):
    return bert_net(tiny_pooling_encoder, max_epochs=3, device="cpu")


@pytest.fixture
def asynchronous(monkeypatch):
    """Treat the CPU as a device that computes while the program continues."""
    for module in (batching, device_loop):
        monkeypatch.setattr(module, "is_asynchronous", lambda device: True)


def assert_same(net, other):
    for one, two in zip(weights_of(net), weights_of(other), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


# -- batches on the device -------------------------------------------------------------------------
def batches_of(ids, y, **params):
    torch.manual_seed(3)
    return list(TokenBatches(SimpleNamespace(X=ids, y=y), batch_size=4, **params))


def ids_of(lengths, width):
    return (np.arange(width) < np.asarray(lengths)[:, None]).astype(np.int32) * 7


@pytest.mark.parametrize("y", [np.arange(22.0).reshape(11, 2), None])
def test_resident_batches_equal_the_plain_ones(monkeypatch, y):
    ids = ids_of([3, 9, 1, 4, 4, 8, 2, 6, 5, 3, 9], 12) * np.arange(1, 12, dtype=np.int32)[:, None]
    expected = batches_of(ids, y)
    monkeypatch.setattr(batching, "is_asynchronous", lambda device: True)
    found = batches_of(ids, y)
    assert [len(x) for x, _ in found] == [len(x) for x, _ in expected]
    for (x, target), (x_plain, target_plain) in zip(found, expected, strict=True):
        torch.testing.assert_close(x, x_plain, rtol=0, atol=0)
        torch.testing.assert_close(target, target_plain, rtol=0, atol=0)


def test_resident_batches_share_one_copy(asynchronous):
    def copies():
        found = batches_of(ids_of([3] * 8, 5), np.zeros(8))
        return len({y.untyped_storage().data_ptr() for _, y in found})

    assert copies() == 1
    with plain("resident"):
        assert copies() == 2
    assert batches_of(np.zeros((0, 5), dtype=np.int32), None) == []


@pytest.mark.parametrize("multiple", [1, 4, 16])
def test_widths_are_multiples_or_the_width_of_the_matrix(multiple):
    ids = ids_of([3, 9, 1, 4, 17, 8, 2, 6, 5, 3, 9, 18], 18)
    for x, _ in batches_of(ids, None, width_multiple=multiple, window=1):
        longest = int((x > 0).sum(dim=1).max())
        assert x.shape[1] % multiple == 0 or x.shape[1] == 18
        assert longest <= x.shape[1] < longest + multiple


# -- losses fetched at the end of an epoch ---------------------------------------------------------
def test_weights_losses_and_probabilities_equal_those_of_skorchs_loop(net, tiny_texts, request):
    expected = copy.deepcopy(net).fit(tiny_texts, Y)
    probabilities = expected.predict_proba(tiny_texts)
    request.getfixturevalue("asynchronous")
    net.fit(tiny_texts, Y)
    assert_same(net, expected)
    np.testing.assert_allclose(net.predict_proba(tiny_texts), probabilities, atol=1e-6)
    for epoch, other in zip(net.history, expected.history, strict=True):
        assert epoch["train_batch_count"] == other["train_batch_count"]
        assert epoch["train_loss"] == pytest.approx(other["train_loss"], abs=1e-7)
        for batch, wanted in zip(epoch["batches"], other["batches"], strict=True):
            assert type(batch["train_loss"]) is float
            assert batch["train_loss"] == pytest.approx(wanted["train_loss"], abs=1e-7)
            assert batch["train_batch_size"] == wanted["train_batch_size"]


class Types(Callback):
    """Collects the type of the loss at the end of each batch."""

    seen: list[type] = []  # noqa: RUF012 - read by the tests after cloning

    def on_batch_end(self, net, **kwargs):
        self.seen.append(type(net.history[-1, "batches", -1, "train_loss"]))


@pytest.mark.parametrize(("way", "kind"), [(nullcontext(), torch.Tensor), (plain("losses"), float)])
def test_no_loss_is_fetched_inside_an_epoch(net, tiny_texts, asynchronous, way, kind):
    Types.seen.clear()
    with way:
        net.set_params(callbacks=[Types()]).fit(tiny_texts, Y)
    assert set(Types.seen) == {kind}


def test_mutual_learning_gives_the_same(net, tiny_texts, request):
    y = np.array([1, 0] * 6 + [-1] * 12)
    model = MutualLearningClassifier(net, finetune_epochs=1, random_state=0)
    expected = model.fit(tiny_texts, y).predict_proba(tiny_texts)
    request.getfixturevalue("asynchronous")
    found = model.fit(tiny_texts, y).predict_proba(tiny_texts)
    np.testing.assert_allclose(found, expected, atol=1e-6)


# -- masks whose values are not read ---------------------------------------------------------------
def test_off_the_cpu_a_mask_that_hides_nothing_is_kept(net, tiny_texts, monkeypatch):
    net.set_params(classes=["got", "skipped"]).initialize()
    seen = []
    original = kernels.sdpa_mask

    def spy(**kwargs):
        seen.append(original(**kwargs))
        return seen[-1]

    monkeypatch.setattr(kernels, "sdpa_mask", spy)
    ids = net.encode(tiny_texts[:1])
    plain = net.forward(ids)
    monkeypatch.setattr(kernels, "is_asynchronous", lambda device: True)
    masked = net.forward(ids)
    assert seen[0] is None
    assert seen[-1].all()
    torch.testing.assert_close(masked, plain, rtol=0, atol=1e-6)


def test_wider_batches_give_the_same_gradients(net, tiny_texts):
    """Widths that are multiples of 16 only add padding."""
    texts, y = of_many_lengths(tiny_texts, Y)
    net.set_params(dropout=0.0, module=WithoutDropout, optimizer=torch.optim.SGD, lr=0.1)
    # in fp32, since in bf16 the rounding of sums depends on the number of tokens
    net.set_params(max_length=60, callbacks__gradient_clip=None, max_epochs=2, precision="fp32")
    before = weights_of(copy.deepcopy(net).set_params(max_epochs=0).fit(texts, y))
    trimmed = copy.deepcopy(net).fit(texts, y)
    rounded = net.set_params(iterator_train__width_multiple=WIDTH_MULTIPLE).fit(texts, y)
    for one, two, start in zip(weights_of(trimmed), weights_of(rounded), before, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
        assert not start.any() or (one != start).any()


def test_after_an_error_the_history_holds_numbers(net, tiny_texts, asynchronous, tmp_path):
    net.set_params(callbacks=[Fails(3)]).fit(tiny_texts, Y)
    with pytest.raises(RuntimeError, match="stop"):
        net.partial_fit(tiny_texts, Y)
    assert type(net.history[-1, "batches", 0, "train_loss"]) is float
    net.save_params(f_history=tmp_path / "history.json")


def test_a_callback_may_overwrite_the_loss(net, tiny_texts, asynchronous):
    class Writes(Callback):
        def on_batch_end(self, net, **kwargs):
            net.history.record_batch("train_loss", 0.5)

    net.set_params(callbacks=[Writes()]).fit(tiny_texts, Y)
    assert set(net.history[:, "batches", :, "train_loss"][0]) == {0.5}


def test_on_the_cpu_graphs_change_nothing(net, tiny_texts):
    expected = copy.deepcopy(net).fit(tiny_texts, Y)
    assert_same(net.set_params(cuda_graphs=True).fit(tiny_texts, Y), expected)
