from __future__ import annotations

import re

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.special
import torch
from helpers.nets import mlp_net
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sklearn_spt.nets._losses import (
    DistillationLoss,
    distillation_loss,
    distillation_targets,
    one_hot,
    soft_cross_entropy,
)

modest = settings(deadline=None, max_examples=50)

Z = [[1.0, -1.0], [0.5, 2.0]]
TEACHER = [[3.0, 0.0], [-1.0, 1.0]]
Y = [0, 1]


def double(values, requires_grad=False):
    return torch.tensor(np.asarray(values), dtype=torch.float64, requires_grad=requires_grad)


def golden_target():
    hard = np.eye(2)[Y]
    soft = scipy.special.softmax(np.array(TEACHER) / 3, axis=1)
    return double(hard), double(soft)


@st.composite
def cases(draw):
    """Logits z and v of a student and a teacher, labels y, as float64 arrays."""
    n, n_classes = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    logits = hnp.arrays(np.float64, (n, n_classes), elements=st.floats(-10, 10))
    y = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    return draw(logits), draw(logits), y


shares = st.floats(0, 1)
temperatures = st.floats(0.2, 10)


class TestGolden:
    @pytest.mark.parametrize(
        ("lam", "loss", "gradient"),
        [
            (0.3, 1.785360, [[-0.073357, 0.073357], [0.081083, -0.081083]]),
            (1.0, 5.568134, [[-0.105453, 0.105453], [0.057446, -0.057446]]),
        ],
    )
    def test_loss_and_gradient(self, lam, loss, gradient):
        z = double(Z, requires_grad=True)
        found = DistillationLoss(lam, 3.0)(z, torch.cat(golden_target(), dim=1))
        found.backward()
        assert_allclose(found.item(), loss, atol=1e-6)
        assert_allclose(z.grad, gradient, atol=1e-6)
        assert repr(DistillationLoss()) == "DistillationLoss(lam=0.3, temperature=3.0)"


class TestSoftCrossEntropy:
    def test_is_finite_for_far_logits_and_certain_targets(self):
        z = torch.tensor([[1e4, -1e4], [-1e4, 1e4]], requires_grad=True)
        loss = soft_cross_entropy(z, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        loss.sum().backward()
        assert_allclose(loss.detach(), [0.0, 2e4])
        assert torch.isfinite(z.grad).all()

    def test_targets_carry_no_gradient(self):
        z, q = double(Z, requires_grad=True), double(np.full((2, 2), 0.5), requires_grad=True)
        soft_cross_entropy(z, q).sum().backward()
        assert q.grad is None
        assert z.grad is not None

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_is_computed_in_float32(self, dtype):
        z = torch.tensor(Z, dtype=dtype)
        loss = soft_cross_entropy(z, golden_target()[1].float(), 3.0)
        assert loss.dtype == torch.float32
        assert_allclose(loss, [0.593664, 0.643699], atol=1e-6)


class TestDistillationLossFunction:
    @modest
    @given(cases(), shares, temperatures)
    def test_gradient_is_the_closed_form(self, case, lam, T):
        z_array, v, y = case
        q, hard = scipy.special.softmax(v / T, axis=1), one_hot(y, v.shape[1])
        z = double(z_array, requires_grad=True)
        distillation_loss(z, double(hard), double(q), lam, T).sum().backward()
        p, p_T = scipy.special.softmax(z_array, axis=1), scipy.special.softmax(z_array / T, axis=1)
        expected = (1 - lam) * (p - hard) + lam * T * (p_T - q)
        assert_allclose(z.grad, expected, atol=1e-10)
        assert_allclose(z.grad.sum(dim=1), 0, atol=1e-10)

    @modest
    @given(cases(), shares)
    def test_at_temperature_one_is_cross_entropy_against_the_mixed_target(self, case, lam):
        z_array, v, y = case
        hard, q = one_hot(y, v.shape[1]), scipy.special.softmax(v, axis=1)
        mixed = (1 - lam) * double(hard) + lam * double(q)
        z1, z2 = double(z_array, requires_grad=True), double(z_array, requires_grad=True)
        loss = distillation_loss(z1, double(hard), double(q), lam, 1.0)
        expected = torch.nn.functional.cross_entropy(z2, mixed, reduction="none")
        loss.sum().backward()
        expected.sum().backward()
        assert_allclose(loss.detach(), expected.detach(), rtol=1e-10, atol=1e-11)
        assert_allclose(z1.grad, z2.grad, atol=1e-11)

    def test_shares_may_be_carried_by_doubled_targets(self):
        """A share that differs between rows loses no digit, because 0.5 * 2 is exact."""
        z, (hard, soft) = double(Z), golden_target()
        lam = double([[0.3], [1.0]])
        loss = distillation_loss(z, 2 * (1 - lam) * hard, 2 * lam * soft, 0.5, 3.0)
        expected = [
            distillation_loss(z[i : i + 1], hard[i : i + 1], soft[i : i + 1], float(lam[i]), 3.0)
            for i in range(2)
        ]
        assert_allclose(loss, torch.cat(expected))


class TestDistillationLoss:
    @modest
    @given(cases(), shares, temperatures)
    def test_is_the_mean_over_the_batch(self, case, lam, T):
        z, v, y = case
        hard, q = np.eye(v.shape[1])[y], scipy.special.softmax(v / T, axis=1)
        loss = DistillationLoss(lam, T)(double(z), torch.cat([double(hard), double(q)], dim=1))
        log_p, log_p_T = scipy.special.log_softmax(z, 1), scipy.special.log_softmax(z / T, 1)
        rows = -(1 - lam) * (hard * log_p).sum(1) - lam * T**2 * (q * log_p_T).sum(1)
        assert_allclose(loss.item(), rows.mean(), rtol=1e-9, atol=1e-11)

    def test_row_weights_scale_rows_but_not_the_mean(self):
        hard, soft = golden_target()
        weight = np.array([2.0, 0.0])
        target = double(distillation_targets(hard.numpy(), soft.numpy(), weight))
        rows = distillation_loss(double(Z), hard, soft, 0.3, 3.0)
        assert_allclose(DistillationLoss()(double(Z), target).item(), rows[0].item(), rtol=1e-6)

    @pytest.mark.parametrize("lam", [0.3, 1.0])
    @pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
    def test_class_indices_give_plain_cross_entropy(self, lam, dtype):
        z, y = torch.tensor(Z), torch.tensor(Y, dtype=dtype)
        expected = torch.nn.functional.cross_entropy(z, torch.tensor(Y))
        assert DistillationLoss(lam)(z, y) == expected

    @pytest.mark.parametrize("shape", [(2, 3), (2, 2), (3, 4), (2,), (2, 4, 1)])
    def test_rejects_targets_of_another_shape(self, shape):
        given = re.escape(str(shape))
        message = rf"target has shape {given}.*logits of shape \(2, 2\) it must have shape \(2, 4\)"
        with pytest.raises(ValueError, match=message):
            DistillationLoss()(double(Z), torch.ones(shape))

    @pytest.mark.parametrize("lam", [-0.1, 1.1, float("nan")])
    @pytest.mark.parametrize("temperature", [0, -3.0, float("nan"), float("inf")])
    def test_rejects_lam_and_temperature(self, lam, temperature):
        with pytest.raises(ValueError, match=r"lam must be in \[0, 1\]"):
            DistillationLoss(lam=lam)
        with pytest.raises(ValueError, match="temperature must be positive and finite"):
            DistillationLoss(temperature=temperature)


def targets(y, soft):
    return distillation_targets(one_hot(y, 2), soft)


class TestInSkorch:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 4)).astype(np.float32)
        y = (X[:, 0] > 0).astype(np.int64)
        soft = scipy.special.softmax(np.column_stack([-X[:, 0], X[:, 0]]), axis=1)
        return X, y, soft

    @pytest.fixture
    def net(self):
        torch.manual_seed(0)
        criterion = {"criterion": DistillationLoss, "criterion__lam": 0.4}
        module = {"module__in_features": 4, "module__out_features": 2, "train_split": None}
        net = mlp_net(torch.nn.Linear, **criterion, **module, max_epochs=15, lr=0.3, verbose=0)
        return net.set_params(criterion__temperature=2.0, classes=[0, 1], batch_size=128)

    def test_learns_and_can_be_scored_on_labels(self, net, problem):
        X, y, soft = problem
        net.fit(X, targets(y, soft))
        assert net.score(X, y) > 0.95
        losses = net.history[:, "train_loss"]
        assert losses[-1] < losses[0]
        P = net.predict_proba(X)
        assert_allclose(P, scipy.special.softmax(net.forward(X).numpy(), axis=1), atol=1e-6)
        assert clone(net).fit(X, y).score(X, y) > 0.95  # plain labels


@modest
@given(hnp.arrays(np.int64, st.integers(0, 20), elements=st.integers(0, 4)))
def test_one_hot_rows_are_rows_of_the_identity(y):
    indicator = one_hot(y, 5)
    assert indicator.dtype == np.float32
    assert_array_equal(indicator, np.eye(5)[y])


def test_targets_hold_hard_and_soft_labels_side_by_side():
    hard, soft = one_hot([1, 0], 2), np.array([[0.25, 0.75], [0.5, 0.5]])
    target = distillation_targets(hard, soft)
    assert target.dtype == np.float32
    assert_array_equal(target, [[0, 1, 0.25, 0.75], [1, 0, 0.5, 0.5]])
    assert_array_equal(distillation_targets(hard, None), [[0, 1, 0, 0], [1, 0, 0, 0]])
    weighted = distillation_targets(hard, soft, weight=np.array([2.0, 0.0]))
    assert_array_equal(weighted, [[0, 2, 0.5, 1.5], [0, 0, 0, 0]])
    assert_array_equal(hard, [[0, 1], [1, 0]])  # the input is not modified
