"""Arithmetic on probabilities."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_spt._functional import mean_probabilities, predicted_classes, tempered_softmax


def draw_probabilities(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    return scipy.special.softmax(1.5 * rng.normal(size=(n, n_classes)), axis=1)


class TestTemperedSoftmax:
    @given(hnp.arrays(np.float64, (4, 3), elements=st.floats(-50, 50)), st.floats(0.05, 20))
    def test_is_the_softmax_of_the_divided_logits(self, logits, temperature):
        expected = scipy.special.softmax(logits / temperature, axis=1)
        assert_allclose(tempered_softmax(logits, temperature), expected, rtol=1e-9, atol=1e-300)

    @pytest.mark.parametrize("temperature", [1e-300, 1e-3, 1.0, 1e300])
    def test_is_stable(self, temperature):
        p = tempered_softmax([[1e300, 0.0, -1e300], [-800.0, -800.0, -800.0]], temperature)
        assert np.isfinite(p).all()
        assert_allclose(p.sum(axis=1), 1.0)

    def test_limits(self):
        logits = [[2.0, 1.0, -1.0]]
        assert_allclose(tempered_softmax(logits, 1e9), np.full((1, 3), 1 / 3), atol=1e-8)
        assert_array_equal(tempered_softmax(logits, 1e-3), [[1.0, 0.0, 0.0]])

    def test_computes_in_float64(self):
        p = tempered_softmax(np.array([[0.1, 0.7]], dtype=np.float32))
        assert p.dtype == np.float64
        assert abs(p.sum() - 1) < 1e-15

    def test_accepts_no_rows(self):
        assert tempered_softmax(np.empty((0, 3))).shape == (0, 3)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_names_the_row_that_is_not_finite(self, bad):
        with pytest.raises(ValueError, match="logits must be finite, but row 1 is"):
            tempered_softmax([[0.0, 1.0], [0.0, bad]])

    @pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 2, 2)])
    def test_rejects_the_shape(self, shape):
        with pytest.raises(ValueError, match=r"logits must have shape \(n, K\)"):
            tempered_softmax(np.zeros(shape))


class TestPredictedClasses:
    def test_exactly_one_half_is_class_one(self):
        assert_array_equal(
            predicted_classes([[0.5, 0.5], [0.50001, 0.49999], [0.49999, 0.50001]]), [1, 0, 1]
        )

    def test_ties_of_several_classes_go_to_the_lowest(self):
        P = [[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3]]
        assert_array_equal(predicted_classes(P), [0, 1, 0])


class TestMeanProbabilities:
    def test_is_the_mean_of_the_members(self):
        a, b, c = (draw_probabilities(seed, 20, 3) for seed in range(3))
        assert_allclose(mean_probabilities(a, b), (a + b) / 2)
        assert_allclose(mean_probabilities(a, b, c).sum(axis=1), 1)
        assert_allclose(mean_probabilities(a, b, c), np.stack([a, b, c]).mean(axis=0))
        assert_allclose(mean_probabilities(a, b, c, weights=[1, 0.5, 0.5]), (2 * a + b + c) / 4)
