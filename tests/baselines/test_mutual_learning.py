"""Mutual learning: divergence, independent implementation, joint loop, limits, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.cuda import Generators
from helpers.nets import MLP, WithoutDropout, mlp_net
from helpers.sgd import assert_same_weights, partial_moons
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import rel_entr, softmax
from sklearn.base import clone
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping, GradientNormClipping
from torch import nn

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._random import class_balanced_draws, derive_seed, isolated, shuffled
from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.baselines._joint_training import RandomStream, mutual_kl


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 20 are labelled; the truth beside them."""
    return partial_moons(200, 20, 0.1)


def model(net=None, **params):
    settings = {"finetune_epochs": 4, "random_state": 0, **params}
    return MutualLearningClassifier(mlp_net() if net is None else net, **settings)


def baseline(net, X, y, **params):
    """The supervised net: SupervisedTrainer's path (0,)."""
    settings = {"finetune_epochs": 4, "random_state": 0, "max_iter": 0, **params}
    return SelfPretrainingClassifier(net, **settings).fit(X, y).students_[0]


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.module_.parameters()])


class SameMLP(MLP):
    """Always the same initial weights."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        initialise_from(self, 3)


class DropMLP(MLP):
    def forward(self, x):
        hidden = torch.relu(self.first(x.float()))
        return self.last(nn.functional.dropout(hidden, 0.5, self.training))


class Watched(MLP):
    """Record the copies of the module and their training batches."""

    copies: list[Watched] = []  # noqa: RUF012

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.shown = []
        self.copies.append(self)

    def forward(self, x):
        if self.training:
            self.shown.append(x.numpy().copy())
        return super().forward(x)


@pytest.fixture
def copies():
    Watched.copies.clear()
    yield Watched.copies
    Watched.copies.clear()


def initialise_from(module, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(0, 0.5, generator=generator)


# -- the divergence ----------------------------------------------------------------------------
def logit_arrays(n_matrices):
    number = st.floats(-30, 30, width=32)
    return st.integers(2, 4).flatmap(
        lambda K: st.tuples(*[arrays(np.float64, (5, K), elements=number)] * n_matrices)
    )


@given(logit_arrays(3))
def test_divergence_is_the_mean_of_kullback_and_leibler(logits):
    z, v, w = map(torch.from_numpy, logits)
    p, q, r = (softmax(a, axis=1) for a in logits)
    ours = mutual_kl(z, v).numpy()
    np.testing.assert_allclose(ours, rel_entr(q, p).sum(axis=1), rtol=1e-9, atol=1e-12)
    mean = (rel_entr(q, p) + rel_entr(r, p)).sum(axis=1) / 2
    np.testing.assert_allclose(mutual_kl(z, v, w), mean, rtol=1e-9, atol=1e-12)
    assert (ours >= -1e-12).all()  # (a)


@given(logit_arrays(3))
def test_gradient_is_the_difference_of_probabilities(given):
    z, v, w = (torch.from_numpy(a).requires_grad_() for a in given)
    mutual_kl(z, v).sum().backward()
    p, q, r = (softmax(a, axis=1) for a in given)
    np.testing.assert_allclose(z.grad, p - q, atol=1e-12)  # (b)
    np.testing.assert_allclose(z.grad.sum(dim=1), 0, atol=1e-12)
    assert v.grad is None  # (e)
    z.grad = None
    mutual_kl(z, v, w).sum().backward()
    np.testing.assert_allclose(z.grad, p - (q + r) / 2, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_of_equal_logits_is_exactly_zero(dtype):
    """With rounding in it, AdamW would make whole steps of it."""
    z = torch.randn(64, 5, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 4
    learner = z.clone().requires_grad_()
    mutual_kl(learner, z, z).mean().backward()
    assert (learner.grad == 0).all()


def test_probabilities_of_zero_have_finite_gradients():
    z = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    v = torch.tensor([[-1e4, 1e4, 0.0]])
    kl = mutual_kl(z, v)
    kl.sum().backward()
    assert kl.item() == pytest.approx(2e4)
    np.testing.assert_allclose(z.grad, [[1, -1, 0]])


def test_half_precision_is_raised():
    z, v = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    kl = mutual_kl(z, v)
    assert kl.dtype == torch.float32
    torch.testing.assert_close(kl, mutual_kl(z.float(), v.float()))


# -- random numbers ----------------------------------------------------------------------------
def draw_some():
    return float(torch.rand(1)), torch.randn(2).tolist()


def test_a_random_stream_continues(global_random_state_unchanged):
    with isolated(7):
        whole = [draw_some() for _ in range(4)]
    one, two = RandomStream(7), RandomStream(8)
    parts = []
    for _ in range(4):
        with one:
            parts.append(draw_some())
        with two:
            other = draw_some()
    assert parts == whole
    assert other not in whole


def test_a_random_stream_goes_on_where_cuda_starts_late(monkeypatch, global_random_state_unchanged):
    cuda = Generators(monkeypatch, started=False)
    one, two = RandomStream(7), RandomStream(8)
    with one:
        pass
    assert not cuda.started
    with one:
        cuda.start()
        cuda.generators[:] = [70, 70]  # numbers are drawn
    with two:
        assert cuda.generators == [8, 8]
    with one:
        assert cuda.generators == [70, 70]


# -- an independent implementation -------------------------------------------------------------
def reference(X_l, y, X_u, *, seed, M, epochs, kl_weight, R, B, w=None):
    """Deep Mutual Learning, implemented independently: own loop, own losses, own rates, plain SGD.

    Only the random draws are shared, so that both see the same rows.
    """
    nets = []
    for k in range(M):
        torch.manual_seed(derive_seed(seed, k))
        nets.append(MLP())
    rng, rng_u = (np.random.default_rng(derive_seed(seed, *path)) for path in ((0,), (0, 2)))
    X_l, X_u, y = torch.from_numpy(X_l), torch.from_numpy(X_u), torch.from_numpy(y)
    w = torch.ones(len(y)) if w is None else torch.from_numpy(w).float()

    def cut(rows):
        return [rows[i : i + B] for i in range(0, len(rows), B)]

    def labeled():
        return cut(class_balanced_draws(y.numpy(), rng))

    def unlabeled():
        return cut(shuffled(len(X_u), rng_u))

    def endless():
        while True:
            yield from unlabeled()

    pairs = []
    stream = endless()
    for _ in range(epochs):
        pairs += [(l, next(stream)) for l in labeled()]  # noqa: E741
    for s, (l, u) in enumerate(pairs):  # noqa: E741
        joint = torch.cat([X_l[l], X_u[u]])
        gradients = []
        for net in nets:
            z = net(joint)
            cross_entropy = nn.functional.cross_entropy(z[: len(l)], y[l], reduction="none")
            kl = 0.0
            for peer in (other for other in nets if other is not net):
                with torch.no_grad():
                    q = torch.softmax(peer(joint), dim=1)
                kl = kl + nn.functional.kl_div(torch.log_softmax(z, 1), q, reduction="none").sum(1)
            kl = torch.cat([w[l], torch.ones(len(u))]) * kl / (M - 1)
            loss = (w[l] * cross_entropy).mean() + kl_weight * kl.mean()
            gradients.append(torch.autograd.grad(loss, list(net.parameters())))
        with torch.no_grad():
            for net, of_net in zip(nets, gradients, strict=True):
                for p, g in zip(net.parameters(), of_net, strict=True):
                    p -= R * (1 - s / len(pairs)) * g
    return nets, len(pairs)


@pytest.mark.parametrize("M", [2, 3])
def test_equals_an_independent_implementation(moons, M):
    X, y, _ = moons
    labeled = y >= 0
    w = np.where(labeled, np.linspace(1, 4, len(y)), 1.0)
    clf = model(n_nets=M, kl_weight=0.7, finetune_epochs=9)
    clf.fit(X, y, sample_weight=w)
    nets, n_steps = reference(
        X[labeled],
        y[labeled],
        X[~labeled],
        seed=0,
        M=M,
        epochs=9,
        kl_weight=0.7,
        R=0.1,
        B=8,
        w=w[labeled] / w[labeled].mean(),
    )
    assert n_steps == 9 * 3 > 23  # a second pass over the unlabelled rows has begun
    assert sum(record["n_steps"] for record in clf.history_) == n_steps
    for ours, theirs in zip(clf.estimators_, nets, strict=True):
        assert_same_weights(ours, theirs, atol=1e-6)
    mean = sum(softmax(n(torch.from_numpy(X)).detach().numpy(), axis=1) for n in nets) / M
    np.testing.assert_allclose(clf.predict_proba(X), mean, atol=1e-5)


# -- the supervised net as a limit -------------------------------------------------------------
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("n_nets", [2, 3])
def test_equal_nets_follow_the_supervised_one_exactly(moons, optimizer, n_nets):
    X, y, _ = moons
    net = mlp_net(SameMLP, optimizer=optimizer, lr=0.05)
    clf = model(net, n_nets=n_nets).fit(X, y)
    alone = baseline(net, X, y)
    for each in clf.estimators_:
        assert torch.equal(weights(each), weights(alone))
        assert [b["kl"] for b in each.history[:, "batches", :][-1]] == [0.0] * 3
        losses = each.history[:, "train_loss"]
        assert losses == alone.history[:, "train_loss"]
        assert losses[-1] < losses[0]


class SameBert(WithoutDropout):
    """Always the same head, and no dropout."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        initialise_from(self.head, 3)


def some_unlabeled(texts):
    y = np.arange(len(texts)) % 2
    y[10:] = -1
    return np.array(["got", "skipped", "?"])[y]


@pytest.mark.parametrize(
    ("params", "kl_weight", "followers"),
    [({"module": SameBert}, 1.0, [0, 1]), ({"dropout": 0.3}, 0.0, [0])],
    ids=["equal encoders", "without divergence"],
)
def test_an_encoder_follows_bert_classifier_exactly(
    tiny_encoder, tiny_texts, params, kl_weight, followers
):
    y = some_unlabeled(tiny_texts)
    net = BertClassifier(tiny_encoder, max_length=16, batch_size=4, lr=1e-2, **params)
    clf = MutualLearningClassifier(
        net, kl_weight=kl_weight, unlabeled_marker="?", random_state=5
    ).fit(tiny_texts, y)
    alone = clone(net).set_params(random_state=5).fit(tiny_texts[:10], y[:10])
    equal = [torch.equal(weights(each), weights(alone)) for each in clf.estimators_]
    assert np.flatnonzero(equal).tolist() == followers


def test_without_divergence_the_first_net_is_the_supervised_one(moons):
    """Dropout and the draws of the labelled batches are not shifted by anything beside them."""
    X, y, _ = moons
    net = mlp_net(DropMLP, iterator_train__shuffle=True)
    alone = baseline(net, X, y)
    for n_nets in (2, 3):
        first, *others = model(net, kl_weight=0.0, n_nets=n_nets).fit(X, y).estimators_
        assert torch.equal(weights(first), weights(alone))
        assert all(not torch.equal(weights(other), weights(alone)) for other in others)


def test_no_unlabelled_rows_is_mutual_learning_on_the_labelled_ones(moons):
    X, y, _ = moons
    net = mlp_net(SameMLP)
    with pytest.warns(UserWarning, match="holds no unlabelled row.*n_iter_ is 0"):
        clf = model(net).fit(X[:20], y[:20])
    assert torch.equal(weights(clf.estimators_[0]), weights(baseline(net, X, y)))
    assert clf.n_iter_ == 0
    assert clf.termination_condition_ == "no_unlabeled"
    assert [record["n_steps"] for record in clf.history_] == [0, 3, 3, 3, 3]
    np.testing.assert_array_equal(clf.transduction_, y[:20])
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        differing = model().fit(X[:20], y[:20])
    assert min(differing.history_[1]["loss"]["kl"]) > 0
    alone = baseline(mlp_net(), X, y)
    assert not torch.equal(weights(differing.estimators_[0]), weights(alone))
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        independent = model(kl_weight=0.0).fit(X[:20], y[:20])
    assert torch.equal(weights(independent.estimators_[0]), weights(alone))


def test_no_epochs_is_no_training(moons):
    X, y, _ = moons
    clf = model(finetune_epochs=0).fit(X, y)
    with isolated(derive_seed(0, 1)):
        untrained = MLP()
    assert torch.equal(clf.estimators_[1].module_.first.weight, untrained.first.weight)
    assert len(clf.history_) == 1
    assert set(clf.labeled_iter_) == {0, -1}


# -- symmetry, gradients, callbacks ------------------------------------------------------------
class Norms(Callback):
    log: list[tuple[int, float]] = []  # noqa: RUF012

    def on_grad_computed(self, net, named_parameters, **kwargs):
        squares = [float((p.grad**2).sum()) for _, p in named_parameters]
        self.log.append((id(net), sum(squares) ** 0.5))


def test_the_gradient_of_each_net_is_clipped_by_itself(moons):
    X, y, _ = moons
    Norms.log.clear()
    net = mlp_net(callbacks=[("clip", GradientNormClipping(1e-3)), ("norms", Norms())])
    clf = model(net).fit(X, y)
    assert [each for each, _ in Norms.log] == [id(net) for net in clf.estimators_] * 12
    np.testing.assert_allclose([norm for _, norm in Norms.log], 1e-3, rtol=1e-2)


class Events(Callback):
    """Record all notifications of a net."""

    log: dict[int, list] = {}  # noqa: RUF012


def _noting(event):
    def on_event(self, net, *args, **kwargs):
        told = (event, sorted(kwargs), kwargs.get("training"))
        self.log.setdefault(id(net), []).append(told)

    return on_event


for _event in ("train", "epoch", "batch"):
    for _part in ("begin", "end"):
        setattr(Events, f"on_{_event}_{_part}", _noting(f"on_{_event}_{_part}"))
Events.on_grad_computed = _noting("on_grad_computed")


def test_callbacks_are_notified_as_by_skorch(moons):
    X, y, _ = moons
    Events.log.clear()
    net = mlp_net(callbacks=[Events()])
    alone = baseline(net, X, y)
    clf = model(net).fit(X, y)
    # skorch runs one epoch at a time there, too, inside one train_begin
    expected = Events.log[id(alone)]
    assert len(expected) == 2 + 4 * (2 + 3 * 3)
    for each in clf.estimators_:
        assert Events.log[id(each)] == expected
        assert set(each.history[-1]) >= set(alone.history[-1])
        assert each.history[:, "train_batch_count"] == [3] * 4
        assert each.callbacks_ is not None
        assert not any(name == "learning_rate" for name, _ in each.callbacks_)


def test_early_stopping_of_one_net_ends_the_training_of_all(moons):
    X, y, _ = moons
    stop = EarlyStopping(monitor="train_loss", patience=1, threshold=9.0, sink=lambda text: None)
    clf = model(mlp_net(callbacks=[stop])).fit(X, y)
    assert clf.termination_condition_ == "callback"
    assert 1 <= clf.n_iter_ < 4
    assert [len(net.history) for net in clf.estimators_] == [clf.n_iter_] * 2
    assert len(clf.history_) == clf.n_iter_ + 1


class Impatient(Callback):
    def on_epoch_end(self, net, **kwargs):
        self.press(net)

    def press(self, net):
        raise KeyboardInterrupt


def test_a_keyboard_interrupt_is_raised(moons):
    X, y, _ = moons
    clf = model(mlp_net(callbacks=[Impatient()]))
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert not hasattr(clf, "estimators_")


# -- batches -----------------------------------------------------------------------------------
def rows_of(batches, X):
    """Row numbers of batches."""
    return [np.array([np.flatnonzero((x == X).all(axis=1))[0] for x in batch]) for batch in batches]


def test_all_nets_see_the_same_batches(moons, copies):
    X, y, _ = moons
    model(mlp_net(Watched), n_nets=3, finetune_epochs=16).fit(X, y)
    one, *others = (rows_of(copy.shown, X) for copy in copies)
    for other in others:
        assert len(one) == len(other) == 2 * 16 * 3
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    labeled, unlabeled = one[0::2], one[1::2]
    assert all((batch < 20).all() for batch in labeled)
    assert all((batch >= 20).all() for batch in unlabeled)
    # without replacement: a pass does not begin anew with an epoch
    drawn = np.concatenate(unlabeled)
    assert len(drawn) == 2 * 180 + 16
    for start in (0, 180):
        np.testing.assert_array_equal(np.sort(drawn[start : start + 180]), np.arange(20, 200))
    assert not np.array_equal(drawn[:180], drawn[180:360])


def test_few_unlabelled_rows_are_used_again(moons, copies):
    X, y, _ = moons
    model(mlp_net(Watched)).fit(X[:25], y[:25])
    unlabeled = rows_of(copies[0].shown, X)[1::2]
    assert len(unlabeled) == 12
    assert all(sorted(batch) == list(range(20, 25)) for batch in unlabeled)


# -- fitted attributes -------------------------------------------------------------------------
def test_fitted_attributes(moons):
    X, y, truth = moons
    clf = model(mlp_net(lr=0.5), finetune_epochs=40).fit(X, y)
    assert clf.n_iter_ == 40
    assert clf.termination_condition_ == "all_epochs"
    assert len(clf.estimators_) == 2
    assert not torch.equal(weights(clf.estimators_[0]), weights(clf.estimators_[1]))
    np.testing.assert_array_equal(clf.transduction_[20:], clf.predict(X[20:]))
    np.testing.assert_array_equal(clf.labeled_iter_, [0] * 20 + [40] * 180)
    assert clf.score(X, truth) > 0.8


def test_history_is_complete_and_plain(moons):
    X, y, _ = moons
    start, *epochs = json.loads(json.dumps(model(n_nets=3).fit(X, y).history_))
    assert (start["iteration"], start["n_train"], start["loss"]) == (0, 20, {})
    assert set(start["seconds"]) == {"start"}
    assert [record["iteration"] for record in epochs] == [1, 2, 3, 4]
    for record in epochs:
        assert (record["n_train"], record["n_steps"]) == (20, 3)
        assert {name: len(values) for name, values in record["loss"].items()} == {
            "cross_entropy": 3,
            "kl": 3,
        }
        assert min(record["loss"]["kl"]) > 0
        assert set(record["seconds"]) == {"training"} | ({"labeling"} & set(record["seconds"]))
    assert sum(epochs[-1]["pseudo_label_counts"].values()) == 180
    assert set(epochs[-1]["seconds"]) == {"training", "labeling"}


def test_recorded_losses_are_those_of_the_net(moons):
    X, y, _ = moons
    clf = model(kl_weight=0.5).fit(X, y)
    for k, net in enumerate(clf.estimators_):
        parts = [record["loss"] for record in clf.history_[1:]]
        total = [part["cross_entropy"][k] + 0.5 * part["kl"][k] for part in parts]
        np.testing.assert_allclose(net.history[:, "train_loss"], total, rtol=1e-6)


# -- any net -----------------------------------------------------------------------------------
class TwoInputs(MLP):
    def forward(self, first, second):
        return super().forward(torch.stack([first, second], dim=1))


def test_a_mapping_of_arrays(moons):
    X, y, _ = moons
    parts = {"first": X[:, 0], "second": X[:, 1]}
    clf = model(mlp_net(TwoInputs)).fit(parts, y)
    expected = model().fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(parts), expected.predict_proba(X))


class WithHidden(MLP):
    """Returns a tuple, logits first."""

    def forward(self, x):
        return super().forward(x), x


class FirstOutputNet(NeuralNet):
    def get_loss(self, y_pred, y_true, *args, **kwargs):
        return super().get_loss(y_pred[0], y_true, *args, **kwargs)


def test_a_net_with_more_than_one_output(moons):
    X, y, _ = moons
    net = FirstOutputNet(WithHidden, nn.CrossEntropyLoss, lr=0.1, batch_size=8)
    expected = model().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(model(net).fit(X, y).predict_proba(X), expected)


def test_an_iterator_that_drops_all_rows_is_an_error(moons):
    X, y, _ = moons
    net = mlp_net(iterator_train__drop_last=True)
    with pytest.raises(ValueError, match=r"yields no batch from 5 rows.*drop_last=False"):
        model(net).fit(X[:25], y[:25])


# -- bad input ---------------------------------------------------------------------------------
def test_a_loss_that_is_not_finite_names_the_net(moons):
    X, y, _ = moons
    clf = model(mlp_net(lr=1e30))
    with pytest.raises(ValueError, match=r"became nan in epoch \d of net 1; lower the learning"):
        clf.fit(X, y)
    assert not [name for name in vars(clf) if name.endswith("_")]
