"""Inertia: the class distributions of the pseudo-labels follow those of the previous iteration."""

from __future__ import annotations

import json
import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture

from sklearn_spt._functional import predicted_classes
from sklearn_spt.self_pretraining._inertia import (
    GroupStatistics,
    group_statistics,
    inertial_transform,
)

modest = settings(deadline=None, max_examples=60)


def two_classes(positive):
    p = np.asarray(positive, dtype=float)
    return np.column_stack([1 - p, p])


def draw_probabilities(seed, n, n_classes, spread=1.5):
    rng = np.random.default_rng(seed)
    return scipy.special.softmax(spread * rng.normal(size=(n, n_classes)), axis=1)


@st.composite
def probability_matrices(draw, min_classes=2, max_classes=5):
    n_classes = draw(st.integers(min_classes, max_classes))
    n = draw(st.integers(1, 30))
    logits = draw(hnp.arrays(np.float64, (n, n_classes), elements=st.floats(-8, 8)))
    return scipy.special.softmax(logits, axis=1)


@st.composite
def inertia_cases(draw, max_classes=5):
    """Probabilities, and a state for some of the classes."""
    P = draw(probability_matrices(max_classes=max_classes))
    known = draw(st.sets(st.integers(0, P.shape[1] - 1)))
    entry = st.tuples(st.floats(0.2, 1.0), st.floats(0.0, 0.2))
    return P, {c: draw(entry) for c in sorted(known)}


alphas = st.floats(0, 1)
rules = st.sampled_from(["linear", "independent"])
state_rules = st.sampled_from(["ema", "raw"])
epsilons = st.sampled_from([0.0, 1e-6, 1e-3])


def inertia_loop_by_loop(P, state, alpha, variance, new_state, epsilon):
    """The seven steps of the inertial map once more, in plain Python numbers."""
    rows = [[float(p) for p in row] for row in P]
    n_classes = len(rows[0])
    members: dict[int, list[int]] = {c: [] for c in range(n_classes)}
    for i, row in enumerate(rows):
        if n_classes == 2:
            c = 1 if row[1] >= 0.5 else 0
        else:
            c = max(range(n_classes), key=lambda j: (row[j], -j))
        members[c].append(i)

    out = [list(row) for row in rows]
    S = {c: tuple(entry) for c, entry in state.items()}
    for c in range(n_classes):
        if not members[c]:
            continue
        ds = [rows[i][c] for i in members[c]]
        mu = math.fsum(ds) / len(ds)
        sigma2 = math.fsum((d - mu) ** 2 for d in ds) / len(ds) + epsilon
        if c not in state:
            S[c] = (mu, sigma2)
            continue
        m, v = state[c]
        mu_hat = alpha * m + (1 - alpha) * mu
        if variance == "linear":
            sigma2_hat = alpha * v + (1 - alpha) * sigma2
        else:
            sigma2_hat = alpha**2 * v + (1 - alpha) ** 2 * sigma2
        S[c] = (mu_hat, sigma2_hat) if new_state == "ema" else (mu, sigma2)
        if alpha == 0:
            continue
        for i in members[c]:
            d = rows[i][c]
            d_new = (d - mu) / math.sqrt(sigma2) * math.sqrt(sigma2_hat) + mu_hat
            d_new = min(1.0, max(0.0, d_new))
            rest = math.fsum(rows[i][j] for j in range(n_classes) if j != c)
            for j in range(n_classes):
                if j != c and rest > 0:
                    out[i][j] = rows[i][j] / rest * (1 - d_new)
                elif j != c:
                    out[i][j] = (1 - d_new) / (n_classes - 1)
            out[i][c] = d_new
    return np.array(out), S


class TestGroupStatistics:
    @pytest.mark.parametrize("n_classes", [2, 3, 5])
    def test_matches_a_gaussian_fitted_by_scikit_learn(self, n_classes):
        P = draw_probabilities(0, 400, n_classes)
        statistics = group_statistics(P)
        assert set(statistics) == set(range(n_classes))
        for c, group in statistics.items():
            d = P[P.argmax(axis=1) == c, c]
            gaussian = GaussianMixture(1).fit(d[:, None])
            assert group.count == len(d)
            assert_allclose(group.mean, gaussian.means_[0, 0], rtol=1e-12)
            assert_allclose(group.variance, gaussian.covariances_[0, 0, 0], rtol=1e-9)

    def test_a_class_without_rows_is_absent(self):
        assert set(group_statistics([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])) == {0, 2}
        assert group_statistics(np.empty((0, 2))) == {}

    def test_group_of_one_has_only_the_floor_as_variance(self):
        assert group_statistics([[0.2, 0.8]])[1] == GroupStatistics(1, 0.8, 1e-6)
        assert group_statistics([[0.2, 0.8]], epsilon=0)[1] == GroupStatistics(1, 0.8, 0.0)

    @pytest.mark.parametrize("p", [0.1, 0.3, 0.7])
    def test_equal_rows_have_no_variance_at_all(self, p):
        P = two_classes(np.full(1003, p))
        (group,) = group_statistics(P, epsilon=0).values()
        assert group.variance == 0.0
        assert group.mean == max(P[0])

    def test_goes_through_json_unchanged(self):
        statistics = group_statistics(draw_probabilities(2, 20, 3))
        read = json.loads(json.dumps({c: vars(group) for c, group in statistics.items()}))
        assert {int(c): GroupStatistics(**group) for c, group in read.items()} == statistics

    @pytest.mark.parametrize(
        ("row", "shown"), [([0.7, 0.7], "0.7, 0.7"), ([-0.1, 1.1], "-0.1, 1.1")]
    )
    def test_rejects_what_is_no_probability(self, row, shown):
        with pytest.raises(ValueError, match=rf"P must hold probabilities.*row 1 is \[{shown}\]"):
            group_statistics([[0.5, 0.5], row])

    def test_accepts_float32_rounding(self):
        P = draw_probabilities(3, 200, 50).astype(np.float32)
        assert sum(group.count for group in group_statistics(P).values()) == 200

    @pytest.mark.parametrize("epsilon", [-1e-9, float("nan"), float("inf")])
    def test_rejects_epsilon(self, epsilon):
        with pytest.raises(ValueError, match="epsilon must be finite and at least 0"):
            group_statistics([[0.5, 0.5]], epsilon=epsilon)


class TestInertiaGolden:
    positive = (0.55, 0.65, 0.75, 0.85, 0.10, 0.20, 0.30)
    state = {1: (0.8, 0.01), 0: (0.7, 0.02)}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("variance", "expected", "new_state"),
        [
            (
                "linear",
                [0.561508, 0.660503, 0.759497, 0.858492, 0.100455, 0.21, 0.319545],
                {1: (0.71, 0.01225), 0: (0.79, 0.008)},
            ),
            (
                "independent",
                [0.574335, 0.664778, 0.755222, 0.845665, 0.118348, 0.21, 0.301652],
                {1: (0.71, 0.010225), 0: (0.79, 0.0056)},
            ),
        ],
    )
    def test_both_variance_rules(self, variance, expected, new_state):
        result = inertial_transform(
            two_classes(self.positive), self.state, 0.1, variance=variance, epsilon=0
        )
        assert_allclose(result.P[:, 1], expected, atol=1e-6)
        assert_allclose(result.P[:, 0], 1 - result.P[:, 1], atol=1e-15)
        assert set(result.state) == {0, 1}
        for c in (0, 1):
            assert_allclose(result.state[c], new_state[c], atol=1e-6)

    def test_flip_and_clip(self):
        P = two_classes([0.51, 0.52, 0.53, 0.99])
        result = inertial_transform(P, {1: (0.51, 0.2)}, 0.5, epsilon=0)
        assert_allclose(result.P[:, 1], [0.356197, 0.373260, 0.390323, 1.0], atol=1e-6)
        assert_array_equal(predicted_classes(P), [1, 1, 1, 1])
        assert_array_equal(predicted_classes(result.P), [0, 0, 0, 1])
        assert_array_equal(result.P[3], [0.0, 1.0])

    def test_state_is_taken_before_clipping(self):
        P = two_classes([0.51, 0.52, 0.53, 0.99])
        result = inertial_transform(P, {1: (0.51, 0.2)}, 0.5, epsilon=0)
        mu, sigma2 = np.mean(P[:, 1]), np.var(P[:, 1])
        assert_allclose(result.state[1], ((0.51 + mu) / 2, (0.2 + sigma2) / 2))
        assert result.after[1].variance < result.state[1][1]

    def test_statistics_after_are_of_the_groups_before(self):
        P = two_classes([0.51, 0.52, 0.53, 0.99, 0.2])
        result = inertial_transform(P, {1: (0.51, 0.2)}, 0.5)
        assert result.before == group_statistics(P)
        assert {c: group.count for c, group in result.after.items()} == {0: 1, 1: 4}
        assert_allclose(result.after[1].mean, result.P[:4, 1].mean())
        assert_allclose(result.after[1].variance, result.P[:4, 1].var() + 1e-6)
        assert result.after[0] == result.before[0]


class TestInertiaProperties:
    @modest
    @given(inertia_cases(), alphas, rules, state_rules, st.sampled_from([1e-6, 1e-3]))
    def test_equals_the_steps_written_as_loops(self, case, alpha, variance, new_state, epsilon):
        P, state = case
        result = inertial_transform(
            P, state, alpha, variance=variance, new_state=new_state, epsilon=epsilon
        )
        P_loop, S_loop = inertia_loop_by_loop(P, state, alpha, variance, new_state, epsilon)
        assert_allclose(result.P, P_loop, atol=1e-9)
        assert set(result.state) == set(S_loop)
        for c, entry in S_loop.items():
            assert_allclose(result.state[c], entry, atol=1e-12)

    @pytest.mark.parametrize("n_classes", [2, 3, 7])
    @pytest.mark.parametrize("variance", ["linear", "independent"])
    def test_equals_the_steps_written_as_loops_without_a_floor(self, n_classes, variance):
        P = draw_probabilities(4, 300, n_classes)
        state = {c: (0.6 + 0.03 * c, 0.01 * (c + 1)) for c in range(0, n_classes, 2)}
        result = inertial_transform(P, state, 0.4, variance=variance, epsilon=0)
        P_loop, S_loop = inertia_loop_by_loop(P, state, 0.4, variance, "ema", 0.0)
        assert_allclose(result.P, P_loop, atol=1e-12)
        assert_allclose([result.state[c] for c in S_loop], list(S_loop.values()), atol=1e-14)

    @modest
    @given(inertia_cases(), alphas, rules, state_rules, epsilons)
    def test_gives_probabilities(self, case, alpha, variance, new_state, epsilon):
        P, state = case
        result = inertial_transform(
            P, state, alpha, variance=variance, new_state=new_state, epsilon=epsilon
        )
        assert (result.P >= 0).all()
        assert (result.P <= 1).all()
        assert_allclose(result.P.sum(axis=1), 1, atol=1e-12)

    @modest
    @given(inertia_cases(), rules, state_rules, epsilons)
    def test_alpha_zero_is_exactly_the_identity(self, case, variance, new_state, epsilon):
        P, state = case
        result = inertial_transform(
            P, state, 0, variance=variance, new_state=new_state, epsilon=epsilon
        )
        assert_array_equal(result.P, P)
        assert result.after == result.before == group_statistics(P, epsilon=epsilon)
        raw = {c: (group.mean, group.variance) for c, group in result.before.items()}
        assert result.state == {**state, **raw}

    @modest
    @given(probability_matrices(), alphas, rules, state_rules, epsilons)
    def test_first_iteration_is_exactly_the_identity(self, P, alpha, variance, new_state, epsilon):
        result = inertial_transform(
            P, {}, alpha, variance=variance, new_state=new_state, epsilon=epsilon
        )
        assert_array_equal(result.P, P)
        assert result.state == {
            c: (group.mean, group.variance) for c, group in result.before.items()
        }

    @modest
    @given(inertia_cases(), alphas, rules)
    def test_input_is_never_modified(self, case, alpha, variance):
        P, state = case
        P_before, state_before = P.copy(), dict(state)
        result = inertial_transform(P, state, alpha, variance=variance)
        result.P[:] = -1
        result.state[0] = (-1.0, -1.0)
        assert_array_equal(P, P_before)
        assert state == state_before

    @modest
    @given(inertia_cases(), alphas, rules, epsilons)
    def test_order_within_a_group_is_preserved(self, case, alpha, variance, epsilon):
        P, state = case
        groups = predicted_classes(P)
        P_tilde = inertial_transform(P, state, alpha, variance=variance, epsilon=epsilon).P
        for c in np.unique(groups):
            order = np.argsort(P[groups == c, c], kind="stable")
            assert (np.diff(P_tilde[groups == c, c][order]) >= -1e-12).all()

    @modest
    @given(inertia_cases(), alphas, rules)
    def test_other_classes_keep_their_proportions(self, case, alpha, variance):
        P, state = case
        P_tilde = inertial_transform(P, state, alpha, variance=variance).P
        for p, p_tilde, c in zip(P, P_tilde, predicted_classes(P), strict=True):
            others, others_tilde = np.delete(p, c), np.delete(p_tilde, c)
            assert_allclose(others_tilde * others.sum(), others * others_tilde.sum(), atol=1e-12)

    @pytest.mark.parametrize("variance", ["linear", "independent"])
    @pytest.mark.parametrize("n_classes", [2, 3, 4])
    def test_reaches_the_combined_mean_and_variance_where_nothing_is_clipped(
        self, n_classes, variance
    ):
        P = draw_probabilities(5, 200, n_classes)
        state = {c: (0.65, 0.002) for c in range(n_classes)}
        result = inertial_transform(P, state, 0.3, variance=variance, epsilon=0)
        assert (result.P > 0).all()
        for c in range(n_classes):
            assert_allclose((result.after[c].mean, result.after[c].variance), result.state[c])

    @modest
    @given(inertia_cases(max_classes=2), alphas, rules, state_rules)
    def test_flipped_columns_give_flipped_output(self, case, alpha, variance, new_state):
        P, state = case
        # Exactly one half is class 1 on either side, the one thing that does not flip.
        P[np.abs(P[:, 1] - 0.5) < 1e-6] = [0.4, 0.6]
        result = inertial_transform(P, state, alpha, variance=variance, new_state=new_state)
        flipped = inertial_transform(
            P[:, ::-1],
            {1 - c: entry for c, entry in state.items()},
            alpha,
            variance=variance,
            new_state=new_state,
        )
        assert_allclose(flipped.P[:, ::-1], result.P, atol=1e-9)
        assert_allclose(
            [flipped.state[1 - c] for c in result.state], list(result.state.values()), atol=1e-12
        )

    @pytest.mark.parametrize("seed", range(5))
    def test_order_of_rows_and_of_classes_does_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        P = draw_probabilities(seed, 60, 4)
        state = {0: (0.5, 0.01), 2: (0.8, 0.03), 3: (0.6, 0.0)}
        result = inertial_transform(P, state, 0.4)
        rows, columns = rng.permutation(60), rng.permutation(4)
        moved = inertial_transform(
            P[rows][:, columns],
            {int(np.flatnonzero(columns == c)[0]): entry for c, entry in state.items()},
            0.4,
        )
        assert_allclose(moved.P, result.P[rows][:, columns], atol=1e-12)

    def test_positive_probability_for_both_groups_gives_the_same(self):
        """The released code maps the positive probability of the negative group, too."""
        P = draw_probabilities(6, 100, 2)
        mean, variance = 0.72, 0.015
        result = inertial_transform(P, {0: (mean, variance)}, 0.25, epsilon=0)
        d = P[P[:, 1] < 0.5, 1]
        mu_hat = 0.25 * (1 - mean) + 0.75 * d.mean()
        sigma_hat = np.sqrt(0.25 * variance + 0.75 * d.var())
        expected = np.clip((d - d.mean()) / d.std() * sigma_hat + mu_hat, 0, 1)
        assert_allclose(result.P[P[:, 1] < 0.5, 1], expected, atol=1e-12)

    @modest
    @given(probability_matrices(), alphas, state_rules)
    def test_linear_rule_changes_nothing_when_nothing_has_changed(self, P, alpha, new_state):
        state = inertial_transform(P, {}, alpha, new_state=new_state).state
        for _ in range(3):
            result = inertial_transform(P, state, alpha, new_state=new_state)
            assert_allclose(result.P, P, atol=1e-9)
            state = result.state

    @pytest.mark.parametrize(
        ("new_state", "ratio"), [("raw", math.sqrt(0.82)), ("ema", math.sqrt(0.81 / 0.99))]
    )
    def test_independent_rule_narrows_even_when_nothing_has_changed(self, new_state, ratio):
        P = two_classes([0.7, 0.75, 0.8])
        state: dict[int, tuple[float, float]] = {}
        for _ in range(40):
            result = inertial_transform(
                P, state, 0.1, variance="independent", new_state=new_state, epsilon=0
            )
            state = result.state
        assert_allclose(np.std(result.P[:, 1]) / np.std(P[:, 1]), ratio, rtol=1e-12)

    def test_state_is_an_exponential_moving_average(self):
        first, later = two_classes([0.9, 0.8]), two_classes([0.7, 0.6, 0.65])
        alpha, mu = 0.5, 0.65
        state = inertial_transform(first, {}, alpha).state
        for t in range(2, 8):
            state = inertial_transform(later, state, alpha).state
            assert_allclose(state[1][0] - mu, alpha ** (t - 1) * (0.85 - mu))

    def test_alpha_one_keeps_the_old_distribution(self):
        P = draw_probabilities(8, 100, 2)
        state = {0: (0.7, 0.001), 1: (0.8, 0.002)}
        result = inertial_transform(P, state, 1.0, epsilon=0)
        assert result.state == state
        for c in (0, 1):
            assert_allclose((result.after[c].mean, result.after[c].variance), state[c])


class TestInertiaEdgeCases:
    @pytest.mark.parametrize("epsilon", [0.0, 1e-6])
    def test_group_of_one_is_pulled_to_the_combined_mean(self, epsilon):
        result = inertial_transform([[0.4, 0.6]], {1: (0.8, 0.01)}, 0.25, epsilon=epsilon)
        assert_allclose(result.P, [[0.35, 0.65]], atol=1e-15)
        assert result.after[1] == GroupStatistics(1, result.P[0, 1], epsilon)

    @pytest.mark.parametrize("epsilon", [0.0, 1e-6])
    @pytest.mark.parametrize("n", [2, 3, 1003])
    def test_group_without_variance_goes_to_the_combined_mean(self, n, epsilon):
        P = np.tile([0.2, 0.7, 0.1], (n, 1))
        result = inertial_transform(P, {1: (0.9, 0.05)}, 0.5, epsilon=epsilon)
        assert_allclose(result.P, np.tile([0.4 / 3, 0.8, 0.2 / 3], (n, 1)), atol=1e-14)

    def test_tiny_variance_without_a_floor(self):
        result = inertial_transform(
            two_classes([0.75, 0.75 + 2**-50]), {1: (0.7, 0.04)}, 1.0, epsilon=0
        )
        assert_allclose(result.P[:, 1], [0.5, 0.9], atol=1e-12)

    def test_old_variance_of_zero(self):
        result = inertial_transform(two_classes([0.6, 0.8]), {1: (0.9, 0.0)}, 1.0, epsilon=0)
        assert_allclose(result.P[:, 1], [0.9, 0.9], atol=1e-15)

    def test_class_without_rows_keeps_its_entry(self):
        state = {0: (0.7, 0.02), 1: (0.8, 0.01)}
        result = inertial_transform(two_classes([0.6, 0.9]), state, 0.5)
        assert result.state[0] == (0.7, 0.02)
        assert set(result.before) == set(result.after) == {1}

    def test_class_seen_for_the_first_time_stays_as_it_is(self):
        P = two_classes([0.6, 0.9, 0.3, 0.2])
        result = inertial_transform(P, {1: (0.8, 0.01)}, 0.5)
        assert_array_equal(result.P[2:], P[2:])
        assert not np.allclose(result.P[:2], P[:2])
        assert result.state[0] == (result.before[0].mean, result.before[0].variance)

    def test_certain_rows_share_what_is_left_equally(self):
        P = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
        result = inertial_transform(P, {0: (0.8, 1e-6)}, 0.5)
        assert_allclose(result.P, [[0.9, 0.05, 0.05]] * 2, atol=1e-12)

    @pytest.mark.parametrize("row", [[0.0, 1.0], [1.0, 0.0]])
    def test_certain_rows_of_two_classes(self, row):
        result = inertial_transform([row], {0: (0.8, 1e-6), 1: (0.8, 1e-6)}, 0.5)
        assert_allclose(result.P[0], np.where(row, 0.9, 0.1), atol=1e-12)

    def test_row_becomes_certain_and_others_zero(self):
        P = [[0.9, 0.06, 0.04], [0.5, 0.3, 0.2]]
        result = inertial_transform(P, {0: (1.0, 0.2)}, 0.5)
        assert_array_equal(result.P[0], [1.0, 0.0, 0.0])

    def test_almost_certain_rows_keep_proportions(self):
        P = [[1 - 4e-17, 3e-17, 1e-17]]
        result = inertial_transform(P, {0: (0.8, 1e-6)}, 0.5)
        assert_allclose(result.P, [[0.9, 0.075, 0.025]])

    def test_exactly_one_half_belongs_to_class_one(self):
        result = inertial_transform([[0.5, 0.5]], {0: (0.9, 0.01), 1: (0.7, 0.01)}, 0.5)
        assert_allclose(result.P, [[0.4, 0.6]], atol=1e-15)
        assert set(result.before) == {1}

    def test_no_rows(self):
        result = inertial_transform(np.empty((0, 3)), {1: (0.8, 0.01)}, 0.5)
        assert result.P.shape == (0, 3)
        assert result.state == {1: (0.8, 0.01)}
        assert result.before == result.after == {}

    def test_everything_but_the_matrix_goes_through_json(self):
        P = draw_probabilities(9, 30, 3).astype(np.float32)
        result = inertial_transform(P, {np.int64(1): (np.float64(0.8), np.float32(0.01))}, 0.5)
        plain = {
            "state": {str(c): entry for c, entry in result.state.items()},
            "before": {str(c): vars(group) for c, group in result.before.items()},
            "after": {str(c): vars(group) for c, group in result.after.items()},
        }
        read = json.loads(json.dumps(plain))
        state = {int(c): tuple(entry) for c, entry in read["state"].items()}
        assert state == result.state
        assert all(type(c) is int for c in result.state)
        assert read["after"] == plain["after"]

    @pytest.mark.parametrize("alpha", [-0.01, 1.01, float("nan")])
    def test_rejects_alpha(self, alpha):
        with pytest.raises(ValueError, match=r"alpha must be in \[0, 1\], got"):
            inertial_transform([[0.5, 0.5]], {}, alpha)

    def test_rejects_unknown_rules(self):
        with pytest.raises(
            ValueError, match=r"variance must be 'linear' or 'independent'.*'cubic'"
        ):
            inertial_transform([[0.5, 0.5]], {}, 0.1, variance="cubic")
        with pytest.raises(ValueError, match="new_state must be 'ema' or 'raw', got 'old'"):
            inertial_transform([[0.5, 0.5]], {}, 0.1, new_state="old")

    @pytest.mark.parametrize("key", [2, -1, "0"])
    def test_rejects_a_state_of_another_problem(self, key):
        with pytest.raises(ValueError, match=f"state has an entry for class {key!r}"):
            inertial_transform([[0.5, 0.5]], {key: (0.5, 0.1)}, 0.1)

    @pytest.mark.parametrize("entry", [(0.5, -0.1), (np.nan, 0.1), (0.5, np.inf)])
    def test_rejects_a_broken_entry(self, entry):
        with pytest.raises(ValueError, match="state of class 1 must be a finite mean"):
            inertial_transform([[0.5, 0.5]], {1: entry}, 0.1)

    def test_rejects_logits(self):
        with pytest.raises(ValueError, match="Apply tempered_softmax to logits first"):
            inertial_transform([[2.0, -1.0]], {}, 0.1)
