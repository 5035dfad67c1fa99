"""Inertia: the class distributions of the pseudo-labels follow those of the previous iteration."""

from __future__ import annotations

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
from sklearn_spt.self_pretraining import _inertia
from sklearn_spt.self_pretraining._inertia import EPSILON, GroupStatistics, inertial_transform

modest = settings(deadline=None, max_examples=60)


def two_classes(positive):
    p = np.asarray(positive, dtype=float)
    return np.column_stack([1 - p, p])


def draw_probabilities(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    return scipy.special.softmax(1.5 * rng.normal(size=(n, n_classes)), axis=1)


@st.composite
def probability_matrices(draw):
    n_classes = draw(st.integers(2, 5))
    n = draw(st.integers(1, 30))
    logits = draw(hnp.arrays(np.float64, (n, n_classes), elements=st.floats(-8, 8)))
    return scipy.special.softmax(logits, axis=1)


@st.composite
def inertia_cases(draw):
    """Probabilities, and a state for some of the classes."""
    P = draw(probability_matrices())
    known = draw(st.sets(st.integers(0, P.shape[1] - 1)))
    entry = st.tuples(st.floats(0.2, 1.0), st.floats(0.0, 0.2))
    return P, {c: draw(entry) for c in sorted(known)}


alphas = st.floats(0, 1)
rules = st.sampled_from(["linear", "independent"])
state_rules = st.sampled_from(["ema", "raw"])


@pytest.fixture
def no_floor(monkeypatch):
    """Variances without the small number that is added to each."""
    monkeypatch.setattr(_inertia, "EPSILON", 0.0)


def inertia_loop_by_loop(P, state, alpha, variance, new_state):
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
        sigma2 = math.fsum((d - mu) ** 2 for d in ds) / len(ds) + EPSILON
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


# -- statistics of the groups --------------------------------------------------------------------
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_statistics_are_those_of_a_gaussian_fitted_by_scikit_learn(n_classes):
    P = draw_probabilities(0, 400, n_classes)
    statistics = inertial_transform(P, {}, 0.1).before
    assert set(statistics) == set(range(n_classes))
    for c, group in statistics.items():
        d = P[P.argmax(axis=1) == c, c]
        gaussian = GaussianMixture(1).fit(d[:, None])
        assert group.count == len(d)
        assert_allclose(group.mean, gaussian.means_[0, 0], rtol=1e-12)
        assert_allclose(group.variance, gaussian.covariances_[0, 0, 0], rtol=1e-9)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.7])
def test_equal_rows_have_no_variance_but_the_floor(p):
    P = two_classes(np.full(1003, p))
    (group,) = inertial_transform(P, {}, 0.1).before.values()
    assert group == GroupStatistics(1003, max(P[0]), EPSILON)


# -- numbers -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("no_floor")
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
def test_both_variance_rules(variance, expected, new_state):
    P = two_classes([0.55, 0.65, 0.75, 0.85, 0.10, 0.20, 0.30])
    result = inertial_transform(P, {1: (0.8, 0.01), 0: (0.7, 0.02)}, 0.1, variance=variance)
    assert_allclose(result.P[:, 1], expected, atol=1e-6)
    assert_allclose(result.P[:, 0], 1 - result.P[:, 1], atol=1e-15)
    assert set(result.state) == {0, 1}
    for c in (0, 1):
        assert_allclose(result.state[c], new_state[c], atol=1e-6)


@pytest.mark.usefixtures("no_floor")
def test_rows_may_change_their_class_and_are_clipped():
    P = two_classes([0.51, 0.52, 0.53, 0.99, 0.2, 0.3])
    result = inertial_transform(P, {1: (0.51, 0.2)}, 0.5)
    assert_allclose(result.P[:4, 1], [0.356197, 0.373260, 0.390323, 1.0], atol=1e-6)
    assert_array_equal(predicted_classes(result.P[:4]), [0, 0, 0, 1])
    assert_array_equal(result.P[3], [0.0, 1.0])
    # a class that was not in the state stays as it is
    assert_array_equal(result.P[4:], P[4:])
    # the state holds the values before clipping
    mu, sigma2 = np.mean(P[:4, 1]), np.var(P[:4, 1])
    assert_allclose(result.state[1], ((0.51 + mu) / 2, (0.2 + sigma2) / 2))
    # statistics afterwards are those of the same rows
    assert {c: group.count for c, group in result.after.items()} == {0: 2, 1: 4}
    assert_allclose(result.after[1].mean, result.P[:4, 1].mean())
    assert_allclose(result.after[1].variance, result.P[:4, 1].var())
    assert result.after[0] == result.before[0]


@pytest.mark.parametrize(
    ("P", "state", "alpha", "expected"),
    [
        ([[0.4, 0.6]], {1: (0.8, 0.01)}, 0.25, [[0.35, 0.65]]),  # a group of one
        ([[0.2, 0.7, 0.1]] * 3, {1: (0.9, 0.05)}, 0.5, [[0.4 / 3, 0.8, 0.2 / 3]] * 3),
        ([[0.5, 0.5]], {0: (0.9, 0.01), 1: (0.7, 0.01)}, 0.5, [[0.4, 0.6]]),  # it is of class 1
        # the other classes share equally what a certain row has left
        ([[1.0, 0.0, 0.0]] * 2, {0: (0.8, 1e-6)}, 0.5, [[0.9, 0.05, 0.05]] * 2),
        ([[0.0, 1.0]], {1: (0.8, 1e-6)}, 0.5, [[0.1, 0.9]]),
        ([[1 - 4e-17, 3e-17, 1e-17]], {0: (0.8, 1e-6)}, 0.5, [[0.9, 0.075, 0.025]]),
        (np.empty((0, 3)), {1: (0.8, 0.01)}, 0.5, np.empty((0, 3))),
    ],
)
def test_small_groups_and_certain_rows(P, state, alpha, expected):
    result = inertial_transform(np.array(P), state, alpha)
    assert_allclose(result.P, expected, atol=1e-12)
    for c in set(state) - set(result.before):  # a class without rows keeps its entry
        assert result.state[c] == state[c]


# -- properties ----------------------------------------------------------------------------------
@modest
@given(inertia_cases(), alphas, rules, state_rules)
def test_equals_the_steps_written_as_loops(case, alpha, variance, new_state):
    P, state = case
    P_before, state_before = P.copy(), dict(state)
    result = inertial_transform(P, state, alpha, variance=variance, new_state=new_state)
    P_loop, S_loop = inertia_loop_by_loop(P, state, alpha, variance, new_state)
    assert_allclose(result.P, P_loop, atol=1e-9)
    assert set(result.state) == set(S_loop)
    for c, entry in S_loop.items():
        assert_allclose(result.state[c], entry, atol=1e-12)
    assert (result.P >= 0).all()
    assert (result.P <= 1).all()
    assert_allclose(result.P.sum(axis=1), 1, atol=1e-12)
    assert_array_equal(P, P_before)  # the input is not modified
    assert state == state_before


@modest
@given(inertia_cases(), alphas, rules, state_rules)
def test_alpha_zero_and_the_first_iteration_are_exactly_the_identity(
    case, alpha, variance, new_state
):
    P, known = case
    for state, weight in ((known, 0), ({}, alpha)):
        result = inertial_transform(P, state, weight, variance=variance, new_state=new_state)
        assert_array_equal(result.P, P)
        assert result.after == result.before
        raw = {c: (group.mean, group.variance) for c, group in result.before.items()}
        assert result.state == {**state, **raw}


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("variance", ["linear", "independent"])
@pytest.mark.parametrize(("n_classes", "alpha"), [(2, 0.3), (3, 0.3), (4, 0.3), (2, 1.0)])
def test_reaches_the_combined_mean_and_variance_where_nothing_is_clipped(
    n_classes, alpha, variance
):
    P = draw_probabilities(5, 200, n_classes)
    state = {c: (0.65 + 0.1 * (alpha == 1), 0.002) for c in range(n_classes)}
    result = inertial_transform(P, state, alpha, variance=variance)
    assert (result.P > 0).all()
    for c in range(n_classes):
        assert_allclose((result.after[c].mean, result.after[c].variance), result.state[c])
    assert alpha < 1 or result.state == state


@pytest.mark.usefixtures("no_floor")
def test_positive_probability_for_both_groups_gives_the_same():
    """The released code maps the positive probability of the negative group, too."""
    P = draw_probabilities(6, 100, 2)
    mean, variance = 0.72, 0.015
    result = inertial_transform(P, {0: (mean, variance)}, 0.25)
    d = P[P[:, 1] < 0.5, 1]
    mu_hat = 0.25 * (1 - mean) + 0.75 * d.mean()
    sigma_hat = np.sqrt(0.25 * variance + 0.75 * d.var())
    expected = np.clip((d - d.mean()) / d.std() * sigma_hat + mu_hat, 0, 1)
    assert_allclose(result.P[P[:, 1] < 0.5, 1], expected, atol=1e-12)


# -- over iterations -----------------------------------------------------------------------------
@modest
@given(probability_matrices(), alphas, state_rules)
def test_linear_rule_changes_nothing_when_nothing_has_changed(P, alpha, new_state):
    state = inertial_transform(P, {}, alpha, new_state=new_state).state
    for _ in range(3):
        result = inertial_transform(P, state, alpha, new_state=new_state)
        assert_allclose(result.P, P, atol=1e-9)
        state = result.state


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize(
    ("new_state", "ratio"), [("raw", math.sqrt(0.82)), ("ema", math.sqrt(0.81 / 0.99))]
)
def test_independent_rule_narrows_even_when_nothing_has_changed(new_state, ratio):
    P = two_classes([0.7, 0.75, 0.8])
    state: dict[int, tuple[float, float]] = {}
    for _ in range(40):
        result = inertial_transform(P, state, 0.1, variance="independent", new_state=new_state)
        state = result.state
    assert_allclose(np.std(result.P[:, 1]) / np.std(P[:, 1]), ratio, rtol=1e-12)


def test_state_is_an_exponential_moving_average():
    first, later = two_classes([0.9, 0.8]), two_classes([0.7, 0.6, 0.65])
    alpha, mu = 0.5, 0.65
    state = inertial_transform(first, {}, alpha).state
    for t in range(2, 8):
        state = inertial_transform(later, state, alpha).state
        assert_allclose(state[1][0] - mu, alpha ** (t - 1) * (0.85 - mu))
