"""The training loop for a GPU, run on the CPU, must give the results of skorch's own loop."""

from __future__ import annotations

import copy
import gc
import pickle
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.nets import Fails, WithoutDropout, bert_net, of_many_lengths, weights_of
from skorch.callbacks import Callback
from torch import nn

from sklearn_spt import BertClassifier
from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.nets import _batching as batching
from sklearn_spt.nets import _device_loop as device_loop
from sklearn_spt.nets import _kernels as kernels
from sklearn_spt.nets._batching import TokenBatches
from sklearn_spt.nets._cuda_graphs import WIDTH_MULTIPLE, GraphedModule
from sklearn_spt.nets._kernels import plain

Y = np.array(["got", "skipped"] * 12)


@pytest.fixture
def net(tiny_pooling_checkpoint):
    return bert_net(tiny_pooling_checkpoint, max_epochs=3, device="cpu")


@pytest.fixture
def asynchronous(monkeypatch):
    """Treat the CPU as a device that computes while the program continues."""
    for module in (batching, device_loop):
        monkeypatch.setattr(module, "is_asynchronous", lambda device: True)


class _Replayed(torch.autograd.Function):
    """Return memory that the next call overwrites, with the gradient of its content."""

    @staticmethod
    def forward(ctx, computed, memory):
        return memory.copy_(computed).detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Captures:
    """Replaces the capture of CUDA graphs: each shape has its own memory."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.calls = 0

    def __call__(self, module, example, pool):
        assert pool is (self.shapes or None)  # the pool of the first capture
        # nodes of an earlier step must not be alive, because a capture creates them anew
        tensors = [found for found in gc.get_objects() if type(found) is torch.Tensor]
        assert all(tensor.grad_fn is None for tensor in tensors)
        self.shapes.append(tuple(example.shape))
        memory = torch.empty(len(example), 2)

        def replay(ids):
            assert ids.shape == example.shape
            self.calls += 1
            return _Replayed.apply(module(ids), memory)

        return replay, self.shapes


@pytest.fixture
def captures(monkeypatch):
    """Let nets use replaced graphs on the CPU."""
    found = Captures()
    monkeypatch.setattr(device_loop.DeviceLoop, "uses_graphs", lambda self: self.cuda_graphs)
    monkeypatch.setattr(
        device_loop, "GraphedModule", lambda module: GraphedModule(module, found, after=1)
    )
    return found


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


# -- graphs ----------------------------------------------------------------------------------------
def test_a_shape_is_captured_after_some_batches():
    captures = Captures()
    module = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.LazyLinear(2))
    short, long = torch.ones(3, 4, dtype=torch.long), torch.ones(2, 4, dtype=torch.long)
    graphed = GraphedModule(module, captures, after=2)
    for _ in range(2):
        torch.testing.assert_close(graphed(short), module(short))
    assert captures.shapes == []
    for _ in range(3):
        torch.testing.assert_close(graphed(short), module(short))
        graphed(long)
    assert captures.shapes == [(3, 4), (2, 4)]
    assert captures.calls == 3 + 1


def test_a_replay_does_not_change_earlier_results():
    module = nn.Sequential(nn.Embedding(9, 2), nn.Flatten())
    graphed = GraphedModule(module, Captures(), after=0)
    first = graphed(torch.tensor([[1]]))
    kept = first.detach().clone()
    graphed(torch.tensor([[2]]))
    torch.testing.assert_close(first, kept, rtol=0, atol=0)
    first.sum().backward()
    np.testing.assert_array_equal(module[0].weight.grad.sum(dim=1)[:3], [0, 2, 0])


def test_a_fit_on_graphs_gives_the_same_weights(net, tiny_texts, captures):
    net.set_params(iterator_train__width_multiple=WIDTH_MULTIPLE)
    expected = copy.deepcopy(net).fit(tiny_texts, Y)
    assert captures.calls == 0
    net.set_params(cuda_graphs=True).fit(tiny_texts, Y)
    assert captures.calls == 3 * 6 - len(captures.shapes)
    assert len(set(captures.shapes)) == len(captures.shapes)
    assert_same(net, expected)
    assert net._graphs is None


def test_a_failed_fit_drops_its_graphs(net, tiny_texts, captures):
    net.set_params(cuda_graphs=True, callbacks=[Fails()])
    with pytest.raises(RuntimeError, match="stop"):
        net.fit(tiny_texts, Y)
    assert net._graphs is None


class Copies(Callback):
    """Copies the net at the end of each epoch."""

    made: list[BertClassifier] = []  # noqa: RUF012 - read by the test after cloning

    def on_epoch_end(self, net, **kwargs):
        assert net._graphs is not None
        self.made += [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]


def test_a_net_can_be_copied_during_a_fit(net, tiny_texts, captures):
    Copies.made.clear()
    net.set_params(cuda_graphs=True, callbacks=[Copies()]).fit(tiny_texts, Y)
    assert len(Copies.made) == 6
    assert all(copied._graphs is None for copied in Copies.made)
    np.testing.assert_allclose(
        Copies.made[-1].predict_proba(tiny_texts), net.predict_proba(tiny_texts), atol=1e-6
    )


def test_two_forward_passes_in_a_row_do_not_use_graphs(net, tiny_texts, captures):
    y = np.array([1, 0] * 6 + [-1] * 12)
    net.set_params(cuda_graphs=True)
    MutualLearningClassifier(net, finetune_epochs=1, random_state=0).fit(tiny_texts, y)
    assert captures.shapes == []


def test_a_weight_that_was_frozen_gets_a_gradient_again():
    module = nn.Sequential(nn.Embedding(9, 2), nn.Flatten())
    captures = Captures()
    graphed = GraphedModule(module, captures, after=0)
    ids = torch.tensor([[1]])
    module[0].weight.requires_grad_(False)
    assert not graphed(ids).requires_grad
    module[0].weight.requires_grad_(True)
    graphed(ids).sum().backward()
    assert module[0].weight.grad is not None
    assert len(captures.shapes) == 2


def test_an_error_names_the_module_that_cannot_be_captured():
    def capture(*args):
        raise RuntimeError("operation not permitted when stream is capturing")

    graphed = GraphedModule(nn.Embedding(9, 2), capture, after=0)
    message = r"cuda_graphs=True: Embedding could not be captured for a batch of shape \(1, 3\)"
    with pytest.raises(RuntimeError, match=message):
        graphed(torch.ones(1, 3, dtype=torch.long))
    assert graphed.graphs == {}


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


def test_graphs_refuse_gradients_of_an_earlier_step():
    """The next replay may overwrite their memory."""
    module = nn.Sequential(nn.Embedding(9, 2), nn.Flatten())
    graphed = GraphedModule(module, Captures(), after=0)
    graphed(torch.tensor([[1]])).sum().backward()
    with pytest.raises(RuntimeError, match=r"begin without gradients.*cuda_graphs=False"):
        graphed(torch.tensor([[1]]))
    module.zero_grad()
    graphed(torch.tensor([[1]])).sum().backward()


def test_on_the_cpu_graphs_change_nothing(net, tiny_texts):
    expected = copy.deepcopy(net).fit(tiny_texts, Y)
    assert_same(net.set_params(cuda_graphs=True).fit(tiny_texts, Y), expected)
