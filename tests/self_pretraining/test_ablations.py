"""The paper's ablations: each differs from the full method where it should, and nowhere else.

Fits are recorded step by step: initial weights, random numbers, batches, targets, weights of the
loss, learning rates. The optimiser does not change the weights. So teachers are equal in all fits,
and records differ only in what the ablation changes itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from helpers.nets import MLP, mlp_net
from helpers.variants import variant
from scipy.special import log_softmax, softmax
from skorch.callbacks import Callback

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._random import derive_seed, draw_sample

K, N_LABELED, SIZES = 3, 12, [20, 40]
E1, E2, R, BATCH = 2, 3, 0.5, 8
LAM, ALPHA, T = 0.3, 0.4, 3.0
STEPS_L = E2 * 2  # 12 rows in batches of 8
STEPS_C = [E1 * 3, E1 * 5]

ABLATIONS = {
    "one stage": {"switch": "one stage"},
    "slanted": {"switch": "slanted"},
    "no distillation": {"switch": "no distillation"},
    "no inertia": {"alpha": 0},
}


class Idle(torch.optim.SGD):
    """Computes gradients, but does not change the weights."""

    def step(self, closure=None):
        return closure()


class Scattered(MLP):
    """Lists its copies, draws a random number in each step, and has large initial weights."""

    copies: list[Scattered] = []  # noqa: RUF012

    def __init__(self):
        super().__init__(n_classes=K)
        with torch.no_grad():
            for p in self.parameters():
                p.normal_()
            self.last.weight -= self.last.weight.mean(dim=1, keepdim=True)  # no class is preferred
        self.initial = torch.cat([p.detach().flatten() for p in self.parameters()]).numpy()
        self.asked = []  # rows it labelled
        self.noise = []  # its random numbers
        self.copies.append(self)

    def forward(self, x):
        if self.training:
            self.noise.append(float(torch.rand(1)))
        else:
            self.asked.append(x.numpy().copy())
        return super().forward(x)


@dataclass
class Step:
    """One training step of one net."""

    X: np.ndarray
    target: np.ndarray
    logits: np.ndarray
    loss: float
    lam: float | None
    temperature: float
    lr: float
    optimizer: torch.optim.Optimizer = field(repr=False)


class Recorder(Callback):
    steps: dict[int, list[Step]] = {}  # noqa: RUF012

    def on_batch_end(self, net, batch, training, loss, y_pred, **kwargs):
        if training:
            step = Step(
                *(part.detach().numpy().copy() for part in (*batch, y_pred)),
                float(loss.detach()),
                net.criterion_.lam,
                net.criterion_.temperature,
                net.optimizer_.param_groups[0]["lr"],
                net.optimizer_,
            )
            self.steps.setdefault(Scattered.copies.index(net.module_), []).append(step)


@dataclass
class Record:
    """A fit, net by net: the supervised start, then the student of each iteration."""

    clf: SelfPretrainingClassifier
    modules: list[Scattered]
    steps: list[list[Step]]

    def series(self, t, name):
        return [getattr(step, name) for step in self.steps[t]]

    def stages(self, t):
        """Steps of student `t` on its sample, and on the labelled rows."""
        n = STEPS_C[t - 1]
        return self.steps[t][:n], self.steps[t][n:]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = np.arange(N_LABELED + SIZES[-1]) % K
    angle = 2 * np.pi * codes / K
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * 2 + rng.normal(size=(len(codes), 2))
    y = np.where(np.arange(len(codes)) < N_LABELED, codes, -1)
    return X.astype(np.float32), y


def record(data, optimizer=Idle, **switch):
    Scattered.copies.clear()
    Recorder.steps.clear()
    net = mlp_net(Scattered, callbacks=[Recorder()], lr=R, batch_size=BATCH, optimizer=optimizer)
    settings = {"lam": LAM, "alpha": ALPHA, "temperature": T, "balanced_batches": False}
    clf = variant(
        net,
        step_size=SIZES[0],
        pretrain_epochs=E1,
        finetune_epochs=E2,
        random_state=0,
        **{**settings, **switch},
    ).fit(*data)
    return Record(clf, list(Scattered.copies), [Recorder.steps[t] for t in range(3)])


@pytest.fixture(scope="module")
def full(data):
    return record(data)


def sample(t, X):
    """Rows of C_t, drawn from the unlabelled ones."""
    rows = draw_sample(SIZES[-1], SIZES[t - 1], np.random.default_rng(derive_seed(0, t, 1)))
    return X[N_LABELED:][rows]


def soft_labels(module, X, temperature):
    """Tempered probabilities of a net."""
    with torch.no_grad():
        hidden = torch.relu(module.first(torch.from_numpy(X)))
        return softmax(module.last(hidden).numpy().astype(float) / temperature, axis=1)


def targets(steps, X):
    """Hard and soft half of the target of each row of X, which is the same in every epoch."""
    found = {}
    for step in steps:
        for x, target in zip(step.X, step.target, strict=True):
            np.testing.assert_array_equal(found.setdefault(x.tobytes(), target), target)
    assert len(found) == len(X)
    found = np.array([found[x.tobytes()] for x in X])
    return found[:, :K], found[:, K:]


def assert_same(one, other, *names):
    """The named parts of two lists of steps are the same."""
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        for name in names:
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


EVERYTHING = ("X", "target", "logits", "loss", "lam", "temperature", "lr")


def assert_same_frame(ablated, full):
    """Start, draws, seeds, sizes and the rows that teachers label are the same."""
    assert_same(ablated.steps[0], full.steps[0], *EVERYTHING)
    assert ablated.modules[0].noise == full.modules[0].noise
    assert len(ablated.modules) == len(full.modules) == 1 + len(SIZES)
    for ours, theirs in zip(ablated.modules, full.modules, strict=True):
        np.testing.assert_array_equal(ours.initial, theirs.initial)
        assert len(ours.asked) == len(theirs.asked)
        for rows, same in zip(ours.asked, theirs.asked, strict=True):
            np.testing.assert_array_equal(rows, same)
        # later numbers depend on the number of epochs; the shortest epoch has 3 batches
        assert ours.noise[:3] == theirs.noise[:3]
    assert ablated.clf.sample_sizes_ == full.clf.sample_sizes_ == SIZES
    assert ablated.clf.n_iter_ == full.clf.n_iter_
    assert ablated.clf.termination_condition_ == full.clf.termination_condition_
    np.testing.assert_array_equal(ablated.clf.labeled_iter_, full.clf.labeled_iter_)
    assert len(ablated.clf.history_) == len(full.clf.history_)
    assert [net.module_ for net in ablated.clf.estimators_] == ablated.modules


def ablation(data, full, name, *changed):
    """The record of an ablation whose steps equal those of the full method, but for `changed`."""
    ablated = record(data, **ABLATIONS[name])
    assert_same_frame(ablated, full)
    for t in (1, 2):
        assert_same(ablated.steps[t], full.steps[t], *(set(EVERYTHING) - set(changed)))
        assert ablated.modules[t].noise == full.modules[t].noise
    return ablated


def n_optimizers(steps):
    return len({id(step.optimizer) for step in steps})


# -- the full method ---------------------------------------------------------------------------
def test_full_method(data, full):
    X, y = data
    L = X[:N_LABELED]
    slope = R * (1 - np.arange(STEPS_L) / STEPS_L)
    np.testing.assert_allclose(full.series(0, "lr"), slope)
    for t in (1, 2):
        teacher = full.modules[t - 1]
        C = sample(t, X)
        stage1, stage2 = full.stages(t)
        assert len(stage2) == STEPS_L
        assert {(step.lam, step.temperature, step.lr) for step in stage1} == {(1.0, T, R)}
        assert {(step.lam, step.temperature) for step in stage2} == {(LAM, T)}
        np.testing.assert_allclose([step.lr for step in stage2], slope)
        (hard_C, P), (hard_L, q) = targets(stage1, C), targets(stage2, L)
        assert (hard_C == 0).all()
        np.testing.assert_array_equal(hard_L, np.eye(K)[y[:N_LABELED]])
        np.testing.assert_allclose(q, soft_labels(teacher, L, T), rtol=1e-5)
        moved = np.abs(P - soft_labels(teacher, C, T)).max()
        assert moved < 1e-6 if t == 1 else moved > 0.01  # inertia needs an earlier iteration
        assert n_optimizers(stage1) == n_optimizers(stage2) == 1
        assert n_optimizers(full.steps[t]) == 2


# -- the ablations -----------------------------------------------------------------------------
def test_slanted_differs_in_the_learning_rate_alone(data, full):
    ablated = ablation(data, full, "slanted", "lr")
    for t in (1, 2):
        steps = STEPS_C[t - 1] + STEPS_L
        line = R * (1 - np.arange(steps) / steps)
        np.testing.assert_allclose(ablated.series(t, "lr"), line)
        assert n_optimizers(ablated.steps[t]) == 2
        assert set(ablated.clf.history_[t]["loss"]) == {"stage1", "stage2"}
        for key in ("groups_before", "groups_after", "loss", "pseudo_label_counts"):
            assert ablated.clf.history_[t][key] == full.clf.history_[t][key]


def test_no_inertia_differs_in_the_pseudo_labels_alone(data, full):
    X, _ = data
    ablated = ablation(data, full, "no inertia", "target", "loss")
    for t in (1, 2):
        assert_same(ablated.stages(t)[1], full.stages(t)[1], *EVERYTHING)
        C = sample(t, X)
        hard, P = targets(ablated.stages(t)[0], C)
        np.testing.assert_allclose(P, soft_labels(full.modules[t - 1], C, T), rtol=1e-5)
        assert (hard == 0).all()
        changed = np.abs(P - targets(full.stages(t)[0], C)[1]).max()
        assert changed == 0 if t == 1 else changed > 0.01
        one, other = ablated.clf.history_[t], full.clf.history_[t]
        assert one["groups_after"] == one["groups_before"] == other["groups_before"]


def test_no_distillation_differs_in_temperature_and_soft_targets_alone(data, full):
    X, _ = data
    L = X[:N_LABELED]
    ablated = ablation(data, full, "no distillation", "target", "loss", "temperature")
    for t in (1, 2):
        assert set(ablated.series(t, "temperature")) == {1.0}
        teacher = full.modules[t - 1]
        for stage, same, rows in zip(
            ablated.stages(t), full.stages(t), (sample(t, X), L), strict=True
        ):
            predicted = soft_labels(teacher, rows, 1.0).argmax(axis=1)  # without inertia
            hard, soft = targets(stage, rows)
            np.testing.assert_array_equal(soft, np.eye(K)[predicted])
            np.testing.assert_array_equal(hard, targets(same, rows)[0])
        assert n_optimizers(ablated.steps[t]) == 2
        assert not {"groups_before", "groups_after"} & set(ablated.clf.history_[t])


def test_one_stage_differs_in_mixing_both_sets_alone(data, full):
    X, y = data
    L = X[:N_LABELED]
    ablated = record(data, **ABLATIONS["one stage"])
    assert_same_frame(ablated, full)
    for t in (1, 2):
        C, steps = sample(t, X), ablated.steps[t]
        per_epoch = -(-(len(C) + len(L)) // BATCH)
        assert len(steps) == E2 * per_epoch  # not E1
        line = R * (1 - np.arange(len(steps)) / len(steps))
        np.testing.assert_allclose(ablated.series(t, "lr"), line)
        assert set(ablated.series(t, "temperature")) == {T}
        assert n_optimizers(steps) == 1
        assert set(ablated.clf.history_[t]["loss"]) == {"one_stage"}
        # every row once an epoch, the two sets mixed
        labeled = {x.tobytes() for x in L}
        for epoch in range(E2):
            part = steps[epoch * per_epoch : (epoch + 1) * per_epoch]
            seen = [x.tobytes() for step in part for x in step.X]
            assert sorted(seen) == sorted(x.tobytes() for x in (*C, *L))
            kinds = [row in labeled for row in seen]
            assert kinds != sorted(kinds)
            assert kinds != sorted(kinds, reverse=True)
        # the sample has the loss of stage 1, with inertia; labelled rows have that of stage 2
        P, q = targets(full.stages(t)[0], C)[1], targets(full.stages(t)[1], L)[1]
        on_C = dict(zip((x.tobytes() for x in C), P, strict=True))
        on_L = dict(zip((x.tobytes() for x in L), zip(y[:N_LABELED], q, strict=True), strict=True))
        for step in steps:
            hot, cold = (log_softmax(step.logits / tau, axis=1) for tau in (T, 1.0))
            losses = []
            for i, x in enumerate(step.X):
                if x.tobytes() in on_C:
                    losses.append(-(T**2) * on_C[x.tobytes()] @ hot[i])
                else:
                    label, soft = on_L[x.tobytes()]
                    losses.append(-(1 - LAM) * cold[i, label] - LAM * T**2 * soft @ hot[i])
            assert step.loss == pytest.approx(np.mean(losses), rel=1e-5)
        for key in ("groups_before", "groups_after", "pseudo_label_counts"):
            assert ablated.clf.history_[t][key] == full.clf.history_[t][key]


# -- balanced draws ----------------------------------------------------------------------------
@pytest.mark.parametrize("switch", [{}, *ABLATIONS.values()], ids=["full", *ABLATIONS])
def test_every_variant_draws_its_classes_equally_often(data, switch):
    """Classes are pseudo-labels in the sample, and labels elsewhere."""
    X, y = data
    skewed = y.copy()
    skewed[:N_LABELED] = [0] * 10 + [1, 2]
    ablated = record((X, skewed), balanced_batches=True, **switch)
    stages = [ablated.steps[0]]
    for t in (1, 2):
        one_stage = switch == ABLATIONS["one stage"]
        stages += [ablated.steps[t]] if one_stage else ablated.stages(t)
    for steps in stages:
        target = np.concatenate([step.target for step in steps])
        hard, soft = target[:, :K], target[:, K:]
        drawn = np.where(hard.any(axis=1), hard.argmax(axis=1), soft.argmax(axis=1))
        present, counts = np.unique(drawn, return_counts=True)
        assert len(present) >= 2
        np.testing.assert_allclose(counts / counts.sum(), 1 / len(present), atol=0.17)


# -- texts -------------------------------------------------------------------------------------
@pytest.mark.parametrize("switch", ABLATIONS.values(), ids=ABLATIONS)
def test_texts_with_every_switch(tiny_encoder, tiny_texts, switch, counted):
    y = np.arange(24) % 2
    y[10:] = -1
    net = BertClassifier(tiny_encoder, max_length=16, batch_size=4)
    settings = {"step_size": 7, "finetune_epochs": 2, "random_state": 0, **switch}
    clf = variant(net, **settings)
    p = clf.fit(tiny_texts, y).predict_proba(tiny_texts)
    assert clf.sample_sizes_ == [7, 14]
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert [bar["done"] for bar in counted] == [bar["total"] for bar in counted]
