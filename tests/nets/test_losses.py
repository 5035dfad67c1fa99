from __future__ import annotations

import copy
import pickle

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from skorch import NeuralNetClassifier

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
    def test_parts(self):
        hard, soft = golden_target()
        assert_allclose(soft, [[0.731059, 0.268941], [0.339244, 0.660756]], atol=1e-6)
        assert_allclose(soft_cross_entropy(double(Z), hard), [0.126928, 0.201413], atol=1e-6)
        assert_allclose(soft_cross_entropy(double(Z), soft, 3), [0.593664, 0.643699], atol=1e-6)

    def test_fine_tuning_loss_and_gradient(self):
        z = double(Z, requires_grad=True)
        loss = distillation_loss(z, *golden_target(), lam=0.3, temperature=3.0).mean()
        loss.backward()
        assert_allclose(loss.item(), 1.785360, atol=1e-6)
        assert_allclose(z.grad, [[-0.073357, 0.073357], [0.081083, -0.081083]], atol=1e-6)

    def test_pre_training_loss_and_gradient(self):
        z = double(Z, requires_grad=True)
        loss = distillation_loss(z, *golden_target(), lam=1, temperature=3.0).mean()
        loss.backward()
        assert_allclose(loss.item(), 5.568134, atol=1e-6)
        assert_allclose(z.grad, [[-0.105453, 0.105453], [0.057446, -0.057446]], atol=1e-6)

    @pytest.mark.parametrize(("lam", "expected"), [(0.3, 1.785360), (1.0, 5.568134)])
    def test_criterion(self, lam, expected):
        target = torch.cat(golden_target(), dim=1)
        loss = DistillationLoss(lam=lam, temperature=3.0)(double(Z), target)
        assert_allclose(loss.item(), expected, atol=1e-6)

    def test_defaults_are_the_papers(self):
        target = torch.cat(golden_target(), dim=1)
        assert_allclose(DistillationLoss()(double(Z), target).item(), 1.785360, atol=1e-6)


class TestSoftCrossEntropy:
    @modest
    @given(cases(), temperatures)
    def test_matches_scipy(self, case, temperature):
        z, v, _ = case
        q = scipy.special.softmax(v, axis=1)
        expected = -(q * scipy.special.log_softmax(z / temperature, axis=1)).sum(axis=1)
        loss = soft_cross_entropy(double(z), double(q), temperature)
        assert_allclose(loss, expected, rtol=1e-10, atol=1e-12)

    @modest
    @given(cases())
    def test_of_one_hot_targets_is_torch_cross_entropy(self, case):
        z, _, y = case
        expected = torch.nn.functional.cross_entropy(double(z), torch.tensor(y), reduction="none")
        loss = soft_cross_entropy(double(z), double(one_hot(y, z.shape[1])))
        assert_allclose(loss, expected, rtol=1e-10, atol=1e-12)

    def test_scaled_rows_scale_the_loss(self):
        z, q = double(Z), golden_target()[1]
        weight = double([[2.5], [0.0]])
        loss = soft_cross_entropy(z, weight * q)
        assert_allclose(loss, weight[:, 0] * soft_cross_entropy(z, q))

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

    @pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 2), (2, 1)])
    def test_never_broadcasts(self, shape):
        with pytest.raises(ValueError, match=r"must both have shape \(n, K\), got \(2, 2\) and"):
            soft_cross_entropy(double(Z), torch.ones(shape))

    @pytest.mark.parametrize("temperature", [0, -3.0, float("nan"), float("inf")])
    def test_rejects_the_temperature(self, temperature):
        with pytest.raises(ValueError, match="temperature must be positive and finite"):
            soft_cross_entropy(double(Z), double(Z), temperature)


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

    @pytest.mark.parametrize("lam", [0, 0.3, 1])
    @pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
    def test_gradient_by_finite_differences(self, lam, temperature):
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        hard, soft = torch.rand(2, 4, 3, generator=generator, dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda z: distillation_loss(z, hard, soft, lam, temperature), (z,)
        )

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

    @modest
    @given(cases(), temperatures)
    def test_a_student_that_agrees_with_the_teacher_has_no_soft_gradient(self, case, T):
        z_array, _, y = case
        z = double(z_array, requires_grad=True)
        q = scipy.special.softmax(z_array / T, axis=1)
        hard = double(one_hot(y, q.shape[1]))
        distillation_loss(z, hard, double(q), 1.0, T).sum().backward()
        assert_allclose(z.grad, 0, atol=1e-12)

    def test_ends_of_lam(self):
        z, (hard, soft) = double(Z), golden_target()
        assert_array_equal(distillation_loss(z, hard, soft, 0, 3.0), soft_cross_entropy(z, hard))
        assert_array_equal(
            distillation_loss(z, hard, soft, 1, 3.0), 9 * soft_cross_entropy(z, soft, 3.0)
        )

    def test_scaled_gradient_tends_to_the_difference_of_centred_logits(self):
        z_array, v = np.array([[1.0, -2.0, 0.5]]), np.array([[0.3, 0.1, 2.0]])
        T = 1e5
        z, q = double(z_array, requires_grad=True), scipy.special.softmax(v / T, axis=1)
        distillation_loss(z, double(np.eye(3)[:1]), double(q), 1.0, T).sum().backward()
        assert_allclose(z.grad, ((z_array - z_array.mean()) - (v - v.mean())) / 3, atol=1e-4)

    def test_shares_may_be_carried_by_doubled_targets(self):
        """0.5 * 2 is exact, so a share that differs between rows costs no digit."""
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
        target = double(distillation_targets(hard.numpy(), soft.numpy(), weight=[2.0, 0.0]))
        rows = distillation_loss(double(Z), hard, soft, 0.3, 3.0)
        assert_allclose(DistillationLoss()(double(Z), target).item(), rows[0].item(), rtol=1e-6)

    @pytest.mark.parametrize("lam", [0.3, 1.0])
    @pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
    def test_class_indices_give_plain_cross_entropy(self, lam, dtype):
        z, y = torch.tensor(Z), torch.tensor(Y, dtype=dtype)
        expected = torch.nn.functional.cross_entropy(z, torch.tensor(Y))
        assert DistillationLoss(lam)(z, y) == expected

    def test_wrong_width_names_both(self):
        with pytest.raises(
            ValueError, match=r"target has shape \(2, 3\).*logits 2 wide.*shape \(2, 4\)"
        ):
            DistillationLoss()(double(Z), torch.ones(2, 3))

    @pytest.mark.parametrize("shape", [(2, 2), (3, 4), (2,), (2, 4, 1)])
    def test_rejects_other_shapes(self, shape):
        with pytest.raises(ValueError, match=r"must have shape \(2, 4\), \[hard \| soft\]"):
            DistillationLoss()(double(Z), torch.ones(shape))

    @pytest.mark.parametrize("lam", [-0.1, 1.1, float("nan")])
    def test_rejects_lam(self, lam):
        with pytest.raises(ValueError, match=r"lam must be in \[0, 1\]"):
            DistillationLoss(lam=lam)

    @pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
    def test_rejects_the_temperature(self, temperature):
        with pytest.raises(ValueError, match="temperature must be positive"):
            DistillationLoss(temperature=temperature)

    def test_can_be_copied_and_pickled(self):
        loss = DistillationLoss(0.5, 2.0)
        target = torch.cat(golden_target(), dim=1)
        for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
            assert other(double(Z), target) == loss(double(Z), target)
        assert repr(loss) == "DistillationLoss(lam=0.5, temperature=2.0)"


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
        return NeuralNetClassifier(
            torch.nn.Linear,
            module__in_features=4,
            module__out_features=2,
            criterion=DistillationLoss,
            criterion__lam=0.4,
            criterion__temperature=2.0,
            train_split=None,
            classes=[0, 1],
            max_epochs=15,
            lr=0.3,
            verbose=0,
        )

    def test_predict_proba_rows_sum_to_one(self, net, problem):
        X, y, soft = problem
        net.fit(X, distillation_targets(y, soft))
        P = net.predict_proba(X)
        assert (P >= 0).all()
        assert_allclose(P.sum(axis=1), 1, atol=1e-6)
        assert_allclose(P, scipy.special.softmax(net.forward(X).numpy(), axis=1), atol=1e-6)

    def test_learns_and_can_be_scored_on_labels(self, net, problem):
        X, y, soft = problem
        net.fit(X, distillation_targets(y, soft))
        assert net.score(X, y) > 0.95
        losses = net.history[:, "train_loss"]
        assert losses[-1] < losses[0]

    def test_learns_from_plain_labels(self, net, problem):
        X, y, _ = problem
        assert clone(net).fit(X, y).score(X, y) > 0.95

    def test_learns_from_the_teacher_alone(self, net, problem):
        X, _, soft = problem
        net.set_params(criterion__lam=1.0)
        net.fit(X, distillation_targets(None, soft))
        assert (net.predict(X) == soft.argmax(axis=1)).mean() > 0.95

    def test_parameters_of_the_criterion_can_be_set(self, net, problem):
        X, y, soft = problem
        net.set_params(criterion__lam=0.5, criterion__temperature=5.0)
        net.fit(X, distillation_targets(y, soft))
        assert (net.criterion_.lam, net.criterion_.temperature) == (0.5, 5.0)

    def test_bad_parameter_surfaces_at_fit_and_not_before(self, net, problem):
        X, y, soft = problem
        net.set_params(criterion__lam=2)
        with pytest.raises(ValueError, match="lam must be in"):
            net.fit(X, distillation_targets(y, soft))


class TestOneHot:
    @modest
    @given(hnp.arrays(np.int64, st.integers(0, 20), elements=st.integers(0, 4)))
    def test_is_rows_of_the_identity(self, y):
        indicator = one_hot(y, 5)
        assert indicator.dtype == np.float32
        assert_array_equal(indicator, np.eye(5)[y])

    def test_accepts_a_list_and_no_rows(self):
        assert_array_equal(one_hot([1, 0], 2), [[0, 1], [1, 0]])
        assert one_hot([], 3).shape == (0, 3)

    @pytest.mark.parametrize("bad", [-1, 3])
    def test_names_the_row_out_of_range(self, bad):
        with pytest.raises(ValueError, match=f"from 0 to 2, but row 1 is {bad}"):
            one_hot([0, bad], 3)

    @pytest.mark.parametrize("y", [[0.0, 1.0], ["a", "b"], [True, False]])
    def test_rejects_what_is_no_index(self, y):
        with pytest.raises(TypeError, match="y must hold integer class indices"):
            one_hot(y, 2)

    def test_rejects_a_matrix(self):
        with pytest.raises(ValueError, match=r"one class index per row, got shape \(1, 2\)"):
            one_hot([[0, 1]], 2)


class TestDistillationTargets:
    soft = np.array([[0.25, 0.75], [0.5, 0.5]])

    def test_puts_hard_and_soft_side_by_side(self):
        target = distillation_targets([1, 0], self.soft)
        assert target.dtype == np.float32
        assert_array_equal(target, [[0, 1, 0.25, 0.75], [1, 0, 0.5, 0.5]])

    def test_indices_and_one_hot_rows_are_the_same(self):
        assert_array_equal(
            distillation_targets(np.eye(2)[[1, 0]], self.soft),
            distillation_targets([1, 0], self.soft),
        )

    def test_missing_halves_are_zeros(self):
        assert_array_equal(
            distillation_targets(one_hot([1, 0], 2), None), [[0, 1, 0, 0], [1, 0, 0, 0]]
        )
        assert_array_equal(
            distillation_targets(None, self.soft), [[0, 0, 0.25, 0.75], [0, 0, 0.5, 0.5]]
        )

    def test_weights_multiply_both_halves(self):
        target = distillation_targets([1, 0], self.soft, weight=[2.0, 0.0])
        assert_array_equal(target, [[0, 2, 0.5, 1.5], [0, 0, 0, 0]])

    def test_input_is_never_modified(self):
        soft, hard = self.soft.astype(np.float32), one_hot([1, 0], 2)
        distillation_targets(hard, soft, weight=[2.0, 3.0])[:] = -1
        assert_array_equal(soft, self.soft)
        assert_array_equal(hard, [[0, 1], [1, 0]])

    @pytest.mark.parametrize(("hard", "soft"), [([0, 1], None), (None, None)])
    def test_needs_the_number_of_classes(self, hard, soft):
        with pytest.raises(ValueError, match="number of classes is unknown"):
            distillation_targets(hard, soft)

    @pytest.mark.parametrize("hard", [[0], np.eye(3)[:2], np.eye(2)[[0, 1, 0]]])
    def test_rejects_unequal_halves(self, hard):
        with pytest.raises(ValueError, match="hard and soft must have the same rows and classes"):
            distillation_targets(hard, self.soft)

    def test_rejects_soft_labels_in_one_dimension(self):
        with pytest.raises(ValueError, match=r"soft must have shape \(n, K\), got \(2,\)"):
            distillation_targets([0, 1], [0.2, 0.8])

    @pytest.mark.parametrize("weight", [[1.0], [[1.0], [1.0]], 2.0])
    def test_rejects_the_number_of_weights(self, weight):
        with pytest.raises(ValueError, match=r"weight must have shape \(2,\)"):
            distillation_targets([1, 0], self.soft, weight)

    @pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
    def test_names_the_row_of_a_bad_weight(self, bad):
        with pytest.raises(ValueError, match="weight must be finite and at least 0, but row 1 is"):
            distillation_targets([1, 0], self.soft, [1.0, bad])
