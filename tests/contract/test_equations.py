"""The mathematics against independent oracles and the golden numbers of the specification."""

import numpy as np
import pytest
import torch
from helpers import mlp_net, points
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax
from skorch.callbacks import Callback

from sklearn_spt import DistillationLoss, RightTrapezoidalLR
from sklearn_spt._class_distributions import (
    class_shares,
    inertia,
    largest_tau,
    logit_adjusted,
    matching_tau,
    matching_temperature,
    tempered,
)
from sklearn_spt._losses import distillation_targets, predicted_codes

logits_of_rows = arrays(float, (5, 3), elements=st.floats(-8, 8))


def rows_that_sum_to_one(z):
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)


# -- loss ------------------------------------------------------------------------------------------
def test_golden_loss_and_gradient():
    z = torch.tensor([[1.0, -1.0], [0.5, 2.0]], requires_grad=True)
    q = softmax(np.array([[3.0, 0.0], [-1.0, 1.0]]) / 3.0, axis=1)
    np.testing.assert_allclose(q, [[0.731059, 0.268941], [0.339244, 0.660756]], atol=1e-6)
    loss = DistillationLoss(0.3, 3.0)(z, torch.from_numpy(distillation_targets(np.eye(2), q)))
    loss.backward()
    assert loss.item() == pytest.approx(1.785360, abs=1e-5)
    expected = [[-0.073357, 0.073357], [0.081083, -0.081083]]
    np.testing.assert_allclose(z.grad, expected, atol=1e-5)
    stage_1 = DistillationLoss(1.0, 3.0)(z, torch.from_numpy(distillation_targets(0 * q, q)))
    assert stage_1.item() == pytest.approx(5.568134, abs=1e-5)


@given(logits_of_rows, logits_of_rows, st.floats(0, 1), st.floats(0.5, 5))
def test_gradient_of_the_loss(z, v, lam, T):
    """(1 - λ)(softmax(z) - y) + λ T (softmax_T(z) - q), divided by the number of rows."""
    y, q = np.eye(3)[[0, 1, 2, 0, 1]], rows_that_sum_to_one(v / T)
    tensor = torch.tensor(z, requires_grad=True)
    targets = torch.tensor(np.hstack([y, q]))
    DistillationLoss(lam, T)(tensor, targets).backward()
    hard, soft = rows_that_sum_to_one(z) - y, rows_that_sum_to_one(z / T) - q
    np.testing.assert_allclose(tensor.grad, ((1 - lam) * hard + lam * T * soft) / 5, atol=1e-9)


def test_loss_on_labels_and_wrong_targets():
    z = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    expected = torch.nn.functional.cross_entropy(z, torch.tensor([0, 1]))
    assert DistillationLoss()(z, torch.tensor([0, 1])) == expected
    weighted = distillation_targets(np.eye(2), None, np.array([2.0, 0.0]))
    first = torch.nn.functional.cross_entropy(z[:1], torch.tensor([0]))
    found = DistillationLoss(0.0)(z, torch.from_numpy(weighted))
    assert found.item() == pytest.approx(first.item())
    with pytest.raises(ValueError, match=r"it must have shape \(2, 4\)"):
        DistillationLoss()(z, torch.ones(2, 2))
    with pytest.raises(ValueError, match="lam must be in"):
        DistillationLoss(lam=2)
    with pytest.raises(ValueError, match="temperature must be positive"):
        DistillationLoss(temperature=0)


# -- learning rate ---------------------------------------------------------------------------------
class Rates(Callback):
    def initialize(self):
        self.seen_ = []
        return self

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.seen_.append(net.optimizer_.param_groups[0]["lr"])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (RightTrapezoidalLR(4, 5), [1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2]),
        (RightTrapezoidalLR(), [1 - i / 9 for i in range(9)]),
        (RightTrapezoidalLR(2, 3), [1, 1, 1, 2 / 3, 1 / 3, 0, 0, 0, 0]),
    ],
)
def test_the_schedule_in_any_net(schedule, expected):
    X, _, y = points(n=24)
    callbacks = [("lr", schedule), ("rates", Rates())]
    settings = {"criterion": torch.nn.CrossEntropyLoss, "classes": [0, 1], "train_split": None}
    net = mlp_net(callbacks=callbacks, max_epochs=3, verbose=0, **settings).fit(X, y)
    np.testing.assert_allclose(dict(net.callbacks_)["rates"].seen_, np.multiply(expected, 0.1))


def test_the_schedule_counts_the_rows_of_training_in_each_run():
    X, _, y = points(n=40)
    rates = Rates()
    callbacks = [("lr", RightTrapezoidalLR()), ("rates", rates)]
    settings = {"criterion": torch.nn.CrossEntropyLoss, "classes": [0, 1]}
    net = mlp_net(callbacks=callbacks, max_epochs=3, verbose=0, **settings).fit(X, y)
    net.partial_fit(X, y)  # 32 of 40 rows in batches of 8, three times
    seen = dict(net.callbacks_)["rates"].seen_
    np.testing.assert_allclose(seen, np.tile([0.1 * (1 - i / 12) for i in range(12)], 2))


# -- inertia ---------------------------------------------------------------------------------------
def positive(p):
    return np.column_stack([1 - np.array(p), p])


def test_golden_inertia(monkeypatch):
    monkeypatch.setattr("sklearn_spt._class_distributions.EPSILON", 0.0)
    P, S = positive([0.55, 0.65, 0.75, 0.85, 0.1, 0.2, 0.3]), {1: (0.8, 0.01), 0: (0.7, 0.02)}
    moved, new, _ = inertia(P, S, 0.1)
    expected = [0.561508, 0.660503, 0.759497, 0.858492, 0.100455, 0.21, 0.319545]
    np.testing.assert_allclose(moved[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose([*new[1], *new[0]], [0.71, 0.01225, 0.79, 0.008])
    moved, new, _ = inertia(P, S, 0.1, squared=True)
    expected = [0.574335, 0.664778, 0.755222, 0.845665, 0.118348, 0.21, 0.301652]
    np.testing.assert_allclose(moved[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose([*new[1], *new[0]], [0.71, 0.010225, 0.79, 0.0056])
    moved, _, _ = inertia(positive([0.51, 0.52, 0.53, 0.99]), {1: (0.51, 0.2)}, 0.5)
    np.testing.assert_allclose(moved[:, 1], [0.356197, 0.37326, 0.390323, 1.0], atol=1e-6)


@given(logits_of_rows, st.floats(0, 1), st.tuples(st.floats(0.4, 1), st.floats(1e-4, 0.1)))
def test_inertia_keeps_probabilities(z, alpha, old):
    P = rows_that_sum_to_one(z)
    moved, new, groups = inertia(P, {0: old, 2: old}, alpha)
    np.testing.assert_allclose(moved.sum(axis=1), 1)
    assert (moved >= 0).all()
    assert (moved <= 1).all()
    codes = predicted_codes(P)
    assert sum(group["count"] for group in groups.values()) == 5
    assert set(new) == set(codes.tolist()) | {0, 2}
    np.testing.assert_array_equal(moved[codes == 1], P[codes == 1])
    unmoved, _, _ = inertia(P, {0: old}, 0.0)
    np.testing.assert_array_equal(unmoved, P)


# -- logit adjustment ------------------------------------------------------------------------------
@given(logits_of_rows, st.floats(0, 1))
def test_logit_adjustment(z, tau):
    P, shares = rows_that_sum_to_one(z), np.array([0.7, 0.2, 0.1])
    expected = softmax(np.log(P) + tau * np.log(shares), axis=1)
    np.testing.assert_allclose(logit_adjusted(P, shares, tau), expected, atol=1e-9)


def test_matching_temperature():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.2, 0.2, 0.2], size=500)
    T = matching_temperature(P, 0.6)
    np.testing.assert_allclose(tempered(P, T).max(axis=1).mean(), 0.6, atol=1e-6)
    np.testing.assert_array_equal(tempered(P, T).argmax(axis=1), P.argmax(axis=1))
    np.testing.assert_allclose(tempered(P, T), softmax(np.log(P) / T, axis=1), atol=1e-9)
    assert matching_temperature(P, 0.99) == 1, "nothing becomes more certain"
    assert matching_temperature(P, 0.3) == 20


def test_matching_tau_meets_the_target():
    rng = np.random.default_rng(0)
    shares = np.array([0.85, 0.15])
    P = positive(rng.beta(2, 3, size=2000))
    tau = matching_tau(P, shares, shares)
    found = [logit_adjusted(P, shares, t).argmax(axis=1) for t in (0, tau)]
    before, after = (abs(class_shares(codes, 2)[1] - 0.15) for codes in found)
    assert 0 < tau <= largest_tau(class_shares(P.argmax(axis=1), 2), shares) <= 0.5
    assert after < before
    assert largest_tau(np.array([0.9, 0.1]), shares) == 0.5  # nothing rare is predicted too often
    assert largest_tau(np.array([0.0, 1.0]), np.array([0.5, 0.5])) == 0.5
