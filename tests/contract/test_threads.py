"""What threads share is never changed by one of them."""

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice, pairwise
from threading import Event, Lock

import numpy as np
import pytest
import torch
from helpers import bert_net, mlp_net, points
from skorch.callbacks import Callback
from threadpoolctl import threadpool_info

from sklearn_spt import (
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
    TokenIdVectorizer,
)
from sklearn_spt._pretrained import load_encoder, quiet
from sklearn_spt._random import derive_seed, seeded, set_torch_state, torch_state
from sklearn_spt.inspection import suggest

pytestmark = pytest.mark.filterwarnings("ignore:.*reach max_length")


@pytest.fixture
def long_texts(tiny_texts):
    return [f"{first} {second}" for first, second in pairwise(tiny_texts)]


def test_nets_of_other_lengths_do_not_meet(tiny_encoder, tiny_texts, long_texts):
    y = [0, 1] * 12
    nets = [bert_net(tiny_encoder, max_length=n, max_epochs=1).fit(tiny_texts, y) for n in (6, 24)]
    soft = SoftSelfTrainingClassifier()
    F = SentenceEmbedder(tiny_encoder).transform(long_texts)

    def fit_another():
        net = bert_net(tiny_encoder, max_length=4, max_epochs=1)
        return net.fit(tiny_texts, y).predict_proba(long_texts)

    tasks = [
        fit_another,
        *(lambda net=net: net.encode(long_texts) for net in nets),
        *(lambda net=net: net.predict_proba(long_texts) for net in nets),
        lambda: SentenceEmbedder(tiny_encoder, max_length=9).transform(long_texts),
        lambda: TokenIdVectorizer(tiny_encoder, max_length=12).fit_transform(long_texts),
        lambda: suggest(nets[0], long_texts, n=3),
        lambda: soft.fit(F, [0, 1, 0, 1, *[-1] * 19]).coef_,
    ]
    expected = [task() for task in tasks]
    numbers = list(islice(cycle(range(len(tasks))), 400))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: tasks[number](), numbers))
    for number, result in zip(numbers, found, strict=True):
        np.testing.assert_allclose(result, expected[number], atol=1e-5)


def test_a_net_that_is_trained_answers_as_before(tiny_encoder, tiny_texts, long_texts):
    class Asks(Callback):
        """Lets another thread predict with the net while it is trained."""

        clf = None

        def __init__(self):
            self.answers = []

        def on_epoch_end(self, net, **kwargs):
            if Asks.clf is not None:
                with ThreadPoolExecutor(1) as pool:
                    self.answers.append(pool.submit(Asks.clf.predict_proba, long_texts).result())

    y, other = [0, 1] * 12, ["b", "c", "a"] * 8
    asks = Asks()
    for train in ("fit", "partial_fit"):
        quiet_net = bert_net(tiny_encoder, max_epochs=2).fit(tiny_texts, y)
        net = bert_net(tiny_encoder, max_epochs=2, callbacks=[asks])
        before = net.fit(tiny_texts, y).predict_proba(long_texts)
        asks.answers.clear()
        Asks.clf = net
        labels = other if train == "fit" else y[::-1]
        getattr(net, train)(tiny_texts, labels)
        Asks.clf = None
        getattr(quiet_net, train)(tiny_texts, labels)
        assert len(asks.answers) == 2
        for answer in asks.answers:
            np.testing.assert_array_equal(answer, before)
        after = net.predict_proba(long_texts)
        assert not np.allclose(after[:, :2], before)
        np.testing.assert_array_equal(after, quiet_net.predict_proba(long_texts))


def test_a_broken_partial_fit_changes_no_weight(tiny_encoder, tiny_texts):
    class Stop(Callback):
        on = False

        def on_epoch_end(self, net, **kwargs):
            if Stop.on:
                raise KeyboardInterrupt

    net = bert_net(tiny_encoder, callbacks=[Stop]).fit(tiny_texts, [0, 1] * 12)
    before, epochs = net.predict_proba(tiny_texts), len(net.history)
    net.lock_ = lock = Lock()  # nets alone are copied: it cannot be
    Stop.on = True
    with pytest.raises(KeyboardInterrupt):
        net.partial_fit(tiny_texts, [1, 0] * 12)
    np.testing.assert_array_equal(net.predict_proba(tiny_texts), before)
    assert len(net.history) == epochs
    assert net.lock_ is lock


def test_a_classifier_of_nets_answers_as_before_while_it_is_fitted():
    X, y, _ = points()
    answers = []

    def ask(iteration):
        if hasattr(clf, "classes_"):
            answers.append(clf.predict_proba(X[:, :2]))

    clf = SelfPretrainingClassifier(mlp_net(), random_state=0, on_iteration=ask)
    clf.fit(X, y)
    before = clf.predict_proba(X)
    clf.fit(X, np.where(y < 0, y, 1 - y))
    assert len(answers) == 6
    for answer in answers:
        np.testing.assert_array_equal(answer, before)


class Slow:
    """A matrix that is read no sooner than something else has happened, or half a second later."""

    ndim = 2

    def __init__(self, X, begun, awaited):
        self.X, self.shape, self.begun, self.awaited = X, X.shape, begun, awaited

    def __len__(self):
        return len(self.X)

    def __array__(self, dtype=None, copy=None):
        self.begun.set()
        self.awaited.wait(0.5)
        return self.X


def test_limits_of_the_process_are_as_before():
    X, y, _ = points()
    first, second, done = Event(), Event(), Event()

    def blas():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with ThreadPoolExecutor(2) as pool:
        if max(before := blas()) < 2:
            pytest.skip("BLAS has one thread")
        # the second fit would begin in the first and end after it
        one = pool.submit(SoftSelfTrainingClassifier().fit, Slow(X, first, second), y)
        first.wait(60)
        two = pool.submit(SoftSelfTrainingClassifier().fit, Slow(X, second, done), y)
        one.result()
        done.set()
        two.result()
        assert blas() == before


def test_loads_in_threads_leave_the_log_as_it_was(tiny_encoder):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()

    def in_quiet(_):
        with quiet():
            load_encoder(tiny_encoder)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(in_quiet, range(400)))
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_what_a_callback_changes_stays():
    X, y, _ = points()

    def change(iteration):
        clf.set_params(verbose=iteration.number)
        clf.note = iteration.number

    clf = SelfPretrainingClassifier(mlp_net(), random_state=0, step_size=1.0, on_iteration=change)
    clf.fit(X, y)
    assert (clf.verbose, clf.note, clf.n_iter_) == (1, 1, 1)


# -- torch's generators ----------------------------------------------------------------------------
def test_a_stream_goes_on():
    with seeded(3):
        torch.rand(4)
        state = torch_state()
        expected = torch.rand(5)
    with seeded(9):
        set_torch_state(state)
        assert torch.equal(torch.rand(5), expected)


@pytest.mark.parametrize("started", [False, True])
def test_cuda_is_not_started(monkeypatch, started):
    """Its generators are saved and restored only where it has started."""
    states, seen = [torch.tensor([8]), torch.tensor([9])], []

    def get(device):
        seen.append(device)
        return states[device if isinstance(device, int) else device.index]

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: started)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_rng_state", get)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    restored = []
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: restored.append(state))
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", restored.extend)
    with seeded(3):
        inside = torch_state()
        set_torch_state([inside[0], states])
    assert len(seen) == 2 * started
    assert inside[1] == (states if started else [])
    assert restored == (states * 2 if started else [])


@pytest.mark.parametrize(
    ("built_for", "n_devices", "locks"),
    [(None, 0, False), ("cuda", 0, False), ("cuda", 1, True), ("mps", 0, True)],
)
def test_without_a_device_no_lock_is_taken(monkeypatch, built_for, n_devices, locks):
    """A fork copies the locks of torch.cuda as they are, also one that another thread holds."""
    device, seeds = built_for and torch.device(built_for), []
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    with seeded(3):
        first = torch.rand(3)
    assert seeds == locks * [derive_seed(3)]
    expected = torch.rand(3, generator=torch.Generator().manual_seed(derive_seed(3)))
    assert locks or torch.equal(first, expected)
