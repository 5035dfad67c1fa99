"""Graphs, replayed by Python on the CPU, must give the results of plain steps."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.cuda import Recorder
from helpers.nets import Fails, WithoutDropout, bert_net, of_many_lengths, weights_of
from sklearn.base import clone
from skorch.callbacks import Callback, GradientNormClipping
from torch import nn

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.nets import _cuda_graphs as cuda_graphs
from sklearn_spt.nets import _device_loop as device_loop
from sklearn_spt.nets._batching import WIDTH_MULTIPLE
from sklearn_spt.nets._cuda_graphs import Slot, Update
from sklearn_spt.nets._losses import DistillationLoss

Y = np.array(["got", "skipped"] * 12)


@pytest.fixture
def net(tiny_pooling_encoder):
    net = bert_net(tiny_pooling_encoder, max_epochs=3, device="cpu")
    return net.set_params(iterator_train__width_multiple=WIDTH_MULTIPLE)


@pytest.fixture
def recorders(monkeypatch):
    """Let nets run replaced graphs on the CPU, after one plain batch of each shape."""
    made = []
    monkeypatch.setattr(device_loop.DeviceLoop, "uses_graphs", lambda self: self.cuda_graphs)
    monkeypatch.setattr(cuda_graphs, "Recorder", lambda device: made.append(Recorder()) or made[-1])
    monkeypatch.setattr(cuda_graphs, "_WORTHWHILE", 1)
    # the kernel of the CPU computes with a double, as it does with a number of Python
    monkeypatch.setattr(cuda_graphs, "_RATE", torch.float64)
    yield made
    cuda_graphs._KEPT.clear()


@pytest.fixture
def at_once(recorders, monkeypatch):
    """Record each shape at its first batch."""
    monkeypatch.setattr(cuda_graphs, "_WORTHWHILE", 0)
    return recorders


def assert_same(net, other):
    for one, two in zip(weights_of(net), weights_of(other), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def ids_of(*rows):
    return torch.tensor(rows)


def test_a_step_runs_twice_and_is_recorded_on_one_stream(monkeypatch):
    """The calls of the recorder itself, with the functions of torch.cuda replaced."""
    calls, current = [], ["main"]

    class Stream:
        def __init__(self, device):
            self.name = f"of {device}"

        def wait_stream(self, other):
            calls.append(f"{self.name} waits for {other.name}")

    class Graph:
        def replay(self):
            return "replayed"

    @contextmanager
    def stream(one):
        before, current[0] = current[0], one.name
        try:
            yield
        finally:
            current[0] = before

    @contextmanager
    def graph(graph, pool, stream):
        current[0] = f"graph in {pool}"
        if len(calls) > 20:
            raise RuntimeError("capture failed")  # torch stays on its stream then
        yield
        current[0] = "main"

    def main_stream(device=None):
        return SimpleNamespace(name=current[0], wait_stream=partial(Stream.wait_stream, main))

    main = SimpleNamespace(name="main")
    for name, value in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "stream": stream,
        "graph": graph,
        "graph_pool_handle": lambda: "pool",
        "current_stream": main_stream,
        "device": lambda device: nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    forked = []
    monkeypatch.setattr(
        torch.random, "fork_rng", lambda devices: forked.append(devices) or nullcontext()
    )
    cuda_graphs._stream.cache_clear()
    try:
        recorder, again = (cuda_graphs.Recorder("cuda:0") for _ in range(2))
        assert recorder.stream is again.stream

        def step():
            calls.append(f"step on {current[0]}")

        assert recorder(step)() == "replayed"
        assert forked == [["cuda:0"]]
        assert calls == [
            *("step on main", "of cuda:0 waits for main"),
            *("step on of cuda:0", "main waits for of cuda:0"),
            "step on graph in pool",
        ]
        calls += [""] * 20
        with pytest.raises(RuntimeError, match="capture failed"):
            recorder(step)
        assert current == ["main"]
    finally:
        cuda_graphs._stream.cache_clear()


def embedding():
    return nn.Sequential(nn.Embedding(9, 2), nn.Flatten())


UPDATE = Update(clipping=((1.0, 2.0),), betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
#: Hard and soft labels of two classes for one text.
TARGETS = torch.tensor([[0.0, 1.0, 0.3, 0.7]])


class Trained:
    """A module with its optimiser and criterion, and steps on a text: plain ones, and graphs."""

    def __init__(self, module):
        self.module = module
        self.optimizer = torch.optim.AdamW(
            module.parameters(), fused=True, lr=0.1, weight_decay=UPDATE.weight_decay
        )
        self.criterion = DistillationLoss(lam=0.3, temperature=2.0)

    def plain(self, text):
        self.optimizer.zero_grad()
        logits = self.module(ids_of([text]))
        loss = self.criterion(logits, TARGETS)
        loss.backward()
        for clipping in UPDATE.clipping:
            nn.utils.clip_grad_norm_(self.module.parameters(), *clipping)
        self.optimizer.step()
        return loss.detach(), logits.detach()

    @contextmanager
    def slot(self, slot=None):
        """Train in a slot inside the block."""
        self.used = Slot(self.module, UPDATE) if slot is None else slot
        with self.used.holding(self.module, self.optimizer):
            yield self.used

    def graph(self, text):
        return self.used.step(self.optimizer, self.criterion, ids_of([text]), TARGETS)


@pytest.fixture
def pair():
    """Two nets with the same weights."""
    module, other = embedding(), embedding()
    other.load_state_dict(module.state_dict())
    return Trained(module), Trained(other)


def assert_equal_values(found, expected):
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def assert_equal_training(one, two):
    """The same weights and moments."""
    assert_equal_values(one.module.parameters(), two.module.parameters())
    states = [list(t.optimizer.state_dict()["state"].values()) for t in (one, two)]
    for mine, other in zip(*states, strict=True):
        assert_equal_values(mine.values(), other.values())


# -- one shape -------------------------------------------------------------------------------------
def test_a_shape_is_recorded_after_some_batches(recorders, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "_WORTHWHILE", 2)
    trained = Trained(embedding())
    with trained.slot():
        assert [trained.graph(n) is None for n in range(4)] == [True, True, False, False]
        other = trained.used.step(trained.optimizer, trained.criterion, ids_of([1, 2]), TARGETS)
    assert other is None
    assert recorders[0].shapes == [(1, 1)]


def test_steps_are_those_of_the_net(at_once, pair):
    """Loss, logits, weights and moments, with plain steps before and between."""
    trained, other = pair
    assert_equal_values(trained.plain(4), other.plain(4))
    with trained.slot():
        for n in (1, 2, 1, 3):
            found = trained.plain(n) if n == 2 else trained.graph(n)
            assert_equal_values(found, other.plain(n))
            assert (n == 2) == any(w.grad is not None for w in trained.module.parameters())
    assert_equal_training(trained, other)
    (state,) = trained.optimizer.state.values()
    assert state["step"] == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.criterion.__setattr__("lam", 0.9),
        lambda t: t.criterion.__setattr__("temperature", 1.0),
        lambda t: t.optimizer.param_groups[0].update(lr=0.3),
        lambda t: t.optimizer.state.clear(),
        lambda t: t.optimizer.load_state_dict(t.optimizer.state_dict()),
    ],
    ids=["lam", "temperature", "lr", "cleared", "loaded"],
)
def test_a_change_between_two_steps_takes_effect(at_once, pair, change):
    trained, other = pair
    with trained.slot():
        for step in (trained.graph, other.plain):
            step(1)
            step(2)
        change(trained)
        change(other)
        assert_equal_values(trained.graph(1), other.plain(1))
        assert_equal_values(trained.graph(1), other.plain(1))
    assert_equal_training(trained, other)


def test_a_recording_changes_nothing(at_once):
    """Not the weights, not the moments, not what the module counts."""
    trained, other = (
        Trained(nn.Sequential(embedding(), nn.BatchNorm1d(2, momentum=0.5))) for _ in range(2)
    )
    other.module.load_state_dict(trained.module.state_dict())
    ids, targets = ids_of([1], [2]), TARGETS.expand(2, 4)
    with trained.slot() as slot:
        slot._hold_moments(trained.optimizer)
        slot._recorded(ids, targets)
        assert all(place.grad is None for place in slot.module.parameters())
    assert_equal_values(trained.module.state_dict().values(), other.module.state_dict().values())
    assert not any(v.any() for state in trained.optimizer.state.values() for v in state.values())


def test_a_replay_does_not_change_earlier_results(at_once):
    trained = Trained(embedding())
    with trained.slot():
        first = trained.graph(1)
        kept = [value.clone() for value in first]
        trained.graph(2)
    assert_equal_values(first, kept)


def test_a_weight_can_be_frozen_and_learn_again(at_once):
    """With the moments that it had, and none before it learns for the first time."""
    trained, other = (
        Trained(nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(2, 2))) for _ in range(2)
    )
    other.module.load_state_dict(trained.module.state_dict())
    with trained.slot():
        for learns in (False, True, True, False, True):
            for each in (trained, other):
                each.module[0].weight.requires_grad_(learns)
            assert_equal_values(trained.graph(1), other.plain(1))
            assert len(trained.optimizer.state) == len(other.optimizer.state)
    assert_equal_training(trained, other)
    assert len(at_once[0].shapes) == 2


def test_weights_that_a_module_does_not_use_stay(at_once):
    class Pooled(nn.Embedding):
        def __init__(self):
            super().__init__(9, 2)
            self.pooler = nn.Linear(2, 2)

        def forward(self, ids):
            return super().forward(ids)[:, 0]

    trained = Trained(Pooled())
    before = trained.module.pooler.weight.detach().clone()
    with trained.slot():
        trained.graph(1)
    assert torch.equal(trained.module.pooler.weight, before)


def test_a_second_net_does_not_begin_with_the_moments_of_the_first(at_once, pair):
    trained, other = pair
    with trained.slot() as slot:
        trained.graph(1)
        trained.optimizer.state.clear()  # as after the last training step of a student
    assert not trained.optimizer.state
    second = Trained(copy.deepcopy(other.module))
    with second.slot(slot):
        assert_equal_values(second.graph(2), other.plain(2))
    assert_equal_training(second, other)


def test_an_error_names_the_module_that_cannot_be_recorded(at_once, pair):
    def fails(run):
        run()
        raise RuntimeError("operation not permitted when stream is capturing")

    trained, other = pair
    message = r"cuda_graphs=True: a step of Sequential could not be recorded for .* shape \(1, 1\)"
    with trained.slot() as slot:
        slot.record = fails
        with pytest.raises(RuntimeError, match=message):
            trained.graph(1)
    assert slot.graphs == {}
    assert_equal_values(trained.module.parameters(), other.module.parameters())


def test_a_lack_of_memory_keeps_its_name(at_once, pair):
    def fails(run):
        raise torch.OutOfMemoryError("CUDA out of memory")

    trained, _ = pair
    with trained.slot() as slot:
        slot.record = fails
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            trained.graph(1)


# -- whole fits ------------------------------------------------------------------------------------
@pytest.mark.parametrize("dropout", [False, True])
def test_a_fit_on_graphs_gives_the_same_weights(net, tiny_texts, recorders, dropout):
    """With dropout too: recording gives back the random numbers that it took."""
    if not dropout:
        net.set_params(module=WithoutDropout)
    expected = clone(net).fit(tiny_texts, Y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y)
    (recorder,) = recorders
    assert recorder.replays == 3 * 6 - len(recorder.shapes)
    assert len(set(recorder.shapes)) == len(recorder.shapes)
    assert_same(graphed, expected)
    assert graphed._slot is None


def test_many_widths_share_a_slot(net, tiny_texts, recorders):
    texts, y = of_many_lengths(tiny_texts, Y, n=48)
    net.set_params(max_length=60)
    expected = clone(net).fit(texts, y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(texts, y)
    assert len({shape[1] for shape in recorders[0].shapes}) > 2
    assert_same(graphed, expected)


def test_students_fits_and_candidates_share_their_graphs(net, tiny_texts, recorders):
    y = np.array([1, 0] * 6 + [-1] * 12)
    params = {"step_size": 6, "random_state": 0, "alpha": 0.1, "finetune_epochs": 1}
    model = SelfPretrainingClassifier(net, **params)
    expected = [
        clone(model).set_params(lam=lam).fit(tiny_texts, y).predict_proba(tiny_texts)
        for lam in (0.2, 0.8)
    ]
    net.set_params(cuda_graphs=True)
    for lam, wanted in zip((0.2, 0.8), expected, strict=True):
        found = SelfPretrainingClassifier(net, lam=lam, **params)
        np.testing.assert_array_equal(found.fit(tiny_texts, y).predict_proba(tiny_texts), wanted)
    (recorder,) = recorders
    assert len(recorder.shapes) == len(set(recorder.shapes))
    assert recorder.replays > 2 * len(recorder.shapes)
    assert not np.array_equal(*expected)


def test_nets_of_another_kind_take_another_slot(net, tiny_texts, recorders, tiny_long_encoder):
    net.set_params(cuda_graphs=True, max_epochs=1)
    changes = [
        {},
        {"lr": 1e-3, "random_state": 5},  # the same kind
        {"dropout": 0.3},
        {"precision": "bf16"},
        {"pooling": "cls"},
        {"pretrained": tiny_long_encoder},
        {"module": WithoutDropout},
        {"module": WithoutDropout},  # a subclass may hold what is not seen
    ]
    made = []
    for change in changes:
        clone(net).set_params(**change).fit(tiny_texts, Y)
        made.append(len(recorders))
    assert made == [1, 1, 2, 3, 4, 5, 6, 7]
    assert cuda_graphs._KEPT == {}


def test_a_net_owns_its_weights_after_its_fit(net, tiny_texts, recorders):
    net.set_params(cuda_graphs=True)
    first = clone(net).fit(tiny_texts, Y)
    kept = weights_of(first)
    clone(net).set_params(random_state=3).fit(tiny_texts, Y)
    for weight, before in zip(weights_of(first), kept, strict=True):
        torch.testing.assert_close(weight, before, rtol=0, atol=0)


def test_a_run_inside_a_run_has_its_own_slot(net, tiny_texts, recorders):
    expected = clone(net).fit(tiny_texts, Y)

    class Trains(Callback):
        def on_epoch_end(self, net, **kwargs):
            other = clone(net).set_params(callbacks=None, random_state=9, max_epochs=1)
            other.fit(tiny_texts, Y)

    found = clone(net).set_params(cuda_graphs=True, callbacks=[Trains()]).fit(tiny_texts, Y)
    assert_same(found, expected)
    assert len(cuda_graphs._KEPT) == 1


def test_a_kept_optimizer_goes_on_with_its_moments(net, tiny_texts, recorders):
    expected = clone(net).fit(tiny_texts, Y).partial_fit(tiny_texts, Y)
    graphed = clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y)
    clone(net).set_params(cuda_graphs=True, random_state=3).fit(tiny_texts, Y)  # at its places
    assert_same(graphed.partial_fit(tiny_texts, Y), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer__weight_decay": 0.5},
        {"optimizer__betas": [0.5, 0.9]},
        {"optimizer__eps": 0.1},
        {"callbacks__gradient_clip__gradient_clip_value": 1e-3},
        {"callbacks__gradient_clip__gradient_clip_norm_type": float("inf")},
        {"callbacks__gradient_clip__gradient_clip_value": None},
        {"callbacks__gradient_clip": None},
    ],
)
def test_other_clipping_and_constants_take_another_slot(net, tiny_texts, recorders, change):
    net.set_params(cuda_graphs=True, max_epochs=2)
    usual = clone(net).fit(tiny_texts, Y)
    own = clone(net).set_params(**change)
    expected = clone(own).set_params(cuda_graphs=False).fit(tiny_texts, Y)
    assert_same(own.fit(tiny_texts, Y), expected)
    assert len(recorders) == 2
    assert not all(map(torch.equal, weights_of(own), weights_of(usual)))


class Sets(Callback):
    """Changes parameters of the net at the end of the first epoch."""

    def __init__(self, params):
        self.params = params

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == 1:
            net.set_params(**self.params)


@pytest.mark.parametrize(
    "params",
    [
        {"optimizer__weight_decay": 0.5},
        {"callbacks__gradient_clip__gradient_clip_value": 1e-3},
        {"criterion__lam": 0.5},
        {"optimizer__betas": (0.5, 0.9)},
        {"lr": 1e-3},
    ],
)
def test_parameters_that_a_callback_sets_take_effect(net, tiny_texts, recorders, params):
    net.set_params(callbacks=[Sets(params)], module=WithoutDropout)
    expected = clone(net).fit(tiny_texts, Y)
    assert_same(clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y), expected)


def scaled(net):
    net.module_.head.weight.data = net.module_.head.weight.data * 0.5


CHANGES = {
    "dropout": lambda net: setattr(net.module_.dropout, "p", 0.0),
    "other memory": scaled,
    "hook": lambda net: net.module_.head.register_forward_hook(lambda m, x, out: 2 * out),
    "hook of a weight": lambda net: net.module_.head.weight.register_hook(lambda g: 2 * g),
    "maximize": lambda net: net.optimizer_.param_groups[0].update(maximize=True),
    "callback": lambda net: net.callbacks_.append(("further", DoublesGradients())),
    "optimizer": lambda net: net.initialize_optimizer(),
}


class Does(Callback):
    """Changes the net at the end of the first epoch."""

    def __init__(self, what):
        self.what = what

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == 1:
            CHANGES[self.what](net)


class DoublesGradients(Callback):
    def on_grad_computed(self, net, named_parameters, **kwargs):
        for _, weight in named_parameters:
            if weight.grad is not None:
                weight.grad.mul_(2)


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_callback_does_to_a_net_takes_effect(net, tiny_texts, recorders, what):
    net.set_params(callbacks=[Does(what)])
    expected = clone(net).fit(tiny_texts, Y)
    assert_same(clone(net).set_params(cuda_graphs=True).fit(tiny_texts, Y), expected)


class UsesGradients(Callback):
    def on_grad_computed(self, net, **kwargs):
        pass


class ClipsOtherwise(GradientNormClipping):
    pass


class OwnCriterion(DistillationLoss):
    pass


class TwoOptimizers(BertClassifier):
    def initialize_optimizer(self, *args, **kwargs):
        super().initialize_optimizer(*args, **kwargs)
        self.second_ = torch.optim.AdamW(self.module_.head.parameters(), fused=True)
        return self


class TrainsHead(BertClassifier):
    def initialize_optimizer(self, *args, **kwargs):
        self.optimizer_ = torch.optim.AdamW(self.module_.head.parameters(), fused=True)
        return self


class Hooked(BertClassifier):
    def initialize_optimizer(self, *args, **kwargs):
        super().initialize_optimizer(*args, **kwargs)
        self.hook()
        return self


class HookBefore(Hooked):
    def hook(self):
        self.optimizer_.register_step_pre_hook(lambda *args: None)


class HookAfter(Hooked):
    def hook(self):
        self.optimizer_.register_step_post_hook(lambda *args: None)


class HookOfModule(Hooked):
    def hook(self):
        self.module_.head.register_forward_hook(lambda *args: None)


class HookOfWeight(Hooked):
    def hook(self):
        self.module_.head.weight.register_hook(lambda gradient: gradient)


class HookOfGradient(Hooked):
    def hook(self):
        self.module_.head.weight.register_post_accumulate_grad_hook(lambda weight: None)


class OfInstance(Hooked):
    def hook(self):
        self.get_loss = self.get_loss


def replacing(name):
    """Return a subclass with a method of its own."""

    def method(self, *args, **kwargs):
        return getattr(super(type(self), self), name)(*args, **kwargs)

    # as by functools.wraps
    method.__module__ = BertClassifier.__module__
    return type("Own", (BertClassifier,), {name: method, "__module__": __name__})


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (None, {"optimizer": torch.optim.SGD}, "its optimizer is SGD and not AdamW"),
        (TwoOptimizers, {}, "it has several optimizers"),
        (TrainsHead, {}, "its optimizer holds other weights than its module"),
        (None, {"optimizer__amsgrad": True}, "its optimizer has amsgrad=True"),
        (None, {"optimizer__maximize": True}, "its optimizer has maximize=True"),
        (None, {"optimizer__fused": False}, "its optimizer has fused=False"),
        (
            None,
            {"optimizer__param_groups": [("head*", {"lr": 0.1})]},
            "its optimizer has several groups of weights",
        ),
        (None, {"criterion": OwnCriterion}, "its criterion is OwnCriterion"),
        (None, {"callbacks": [UsesGradients()]}, "its callback UsesGradients uses gradients"),
        (None, {"callbacks": [ClipsOtherwise(1)]}, "its callback ClipsOtherwise uses gradients"),
        *(
            (kind, {}, "its optimizer, modules or weights have hooks")
            for kind in (HookBefore, HookAfter, HookOfModule, HookOfWeight, HookOfGradient)
        ),
        (OfInstance, {}, "OfInstance replaces get_loss"),
        *((replacing(name), {}, f"Own replaces {name}") for name in device_loop._STEP),
    ],
)
def test_steps_that_a_graph_cannot_take_are_refused(
    net, tiny_texts, recorders, kind, change, reason
):
    own = (kind or BertClassifier)(**net.get_params(deep=False))
    own.set_params(cuda_graphs=True, max_epochs=1, **change)
    with pytest.raises(ValueError, match=rf"at its defaults, but {reason}; use cuda_graphs=False"):
        own.fit(tiny_texts, Y)
    assert recorders == []


# -- what stays in memory --------------------------------------------------------------------------
@pytest.fixture
def no_collection():
    """Free nothing but what no name refers to."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_finished_nets_and_old_graphs_are_freed_without_a_collection(
    net, tiny_texts, recorders, no_collection
):
    net.set_params(cuda_graphs=True, max_epochs=1)
    fitted = clone(net).fit(tiny_texts, Y)
    (slot,) = cuda_graphs._KEPT.values()
    assert slot.graphs
    module = weakref.ref(fitted.module_)
    places = [weakref.ref(slot), weakref.ref(slot.module), weakref.ref(slot.record)]
    places += [weakref.ref(graph) for graph in slot.graphs.values()]
    del fitted, slot
    recorders.clear()
    assert module() is None
    assert all(place() is not None for place in places)
    clone(net).set_params(dropout=0.3).fit(tiny_texts, Y)  # another kind
    assert all(place() is None for place in places)


def test_the_nets_of_a_search_do_not_pile_up(net, tiny_texts, recorders, no_collection):
    net.set_params(cuda_graphs=True, max_epochs=1)
    y = np.array([1, 0] * 6 + [-1] * 12)
    modules = []
    for lam in (0.1, 0.9):
        model = SelfPretrainingClassifier(
            net, step_size=12, finetune_epochs=1, random_state=0, lam=lam, alpha=0.0
        )
        modules += [weakref.ref(one.module_) for one in model.fit(tiny_texts, y).estimators_]
        del model
    assert len(modules) == 4
    assert all(module() is None for module in modules)


# -- errors and copies -----------------------------------------------------------------------------
def test_a_failed_fit_drops_its_graphs(net, tiny_texts, recorders):
    net.set_params(cuda_graphs=True, callbacks=[Fails(1)])
    with pytest.raises(RuntimeError, match="stop"):
        net.fit(tiny_texts, Y)
    assert net._slot is None
    assert cuda_graphs._KEPT == {}


def test_an_error_keeps_the_weights_reached_so_far(net, tiny_texts, recorders):
    net.set_params(cuda_graphs=True, callbacks=[Fails(4)]).fit(tiny_texts, Y)
    before = weights_of(net)
    with pytest.raises(RuntimeError, match="stop"):
        net.partial_fit(tiny_texts, Y)
    assert not all(torch.equal(one, two) for one, two in zip(weights_of(net), before, strict=True))


class Copies(Callback):
    """Copies the net at the end of each epoch."""

    made: list[BertClassifier] = []  # noqa: RUF012 - read by the test after cloning

    def on_epoch_end(self, net, **kwargs):
        assert net._slot is not None
        self.made += [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]


def test_a_net_can_be_copied_during_a_fit(net, tiny_texts, recorders):
    Copies.made.clear()
    other = clone(net).set_params(cuda_graphs=True, random_state=4)
    net.set_params(cuda_graphs=True, callbacks=[Copies()]).fit(tiny_texts, Y)
    assert len(Copies.made) == 6
    assert all(copied._slot is None for copied in Copies.made)
    expected = net.predict_proba(tiny_texts)
    other.fit(tiny_texts, Y)  # at the same places
    np.testing.assert_allclose(Copies.made[-1].predict_proba(tiny_texts), expected, atol=1e-6)


def test_two_forward_passes_in_a_row_do_not_use_graphs(net, tiny_texts, recorders):
    y = np.array([1, 0] * 6 + [-1] * 12)
    net.set_params(cuda_graphs=True)
    MutualLearningClassifier(net, finetune_epochs=1, random_state=0).fit(tiny_texts, y)
    assert recorders == []
