"""Logit adjustment: its formula, the choice of τ, and its effect on the classifier."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.kills import KillAfter, Killed
from helpers.nets import mlp_net
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import norm
from sklearn.datasets import make_classification

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, compare_with_supervised
from sklearn_spt.self_pretraining import _observers
from sklearn_spt.self_pretraining._logit_adjustment import (
    class_shares,
    logit_adjusted,
    matching_tau,
    worthwhile_tau,
)
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer


def probabilities(n, K, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


# -- the formula ---------------------------------------------------------------------------------
def test_shares():
    codes = np.array([0, 2, 2, 0, 2])
    np.testing.assert_array_equal(class_shares(codes, 4), [0.4, 0, 0.6, 0])
    weights = np.array([1.0, 0.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(class_shares(codes, 3, weights), [0.5, 0, 0.5])


@given(K=st.integers(2, 5), tau=st.floats(0, 1), seed=st.integers(0, 9))
def test_it_is_a_shift_of_the_logits(K, tau, seed):
    rng = np.random.default_rng(seed)
    logits, shares = rng.normal(size=(20, K)), rng.dirichlet(np.ones(K))
    P = logit_adjusted(softmax(logits, axis=1), shares, tau)
    np.testing.assert_allclose(P, softmax(logits + tau * np.log(shares), axis=1), rtol=1e-9)


def test_limits():
    P = probabilities(50, 4)
    assert logit_adjusted(P, [0.7, 0.1, 0.1, 0.1], 0.0) is P
    np.testing.assert_allclose(logit_adjusted(P, [0.25] * 4, 0.8), P)
    shares = [0.8, 0.15, 0.05]
    np.testing.assert_allclose(logit_adjusted(np.full((2, 3), 1 / 3), shares, 1.0), [shares] * 2)


# -- the choice of τ -----------------------------------------------------------------------------
def test_worthwhile_tau_is_below_the_best_threshold():
    """The threshold of a binormal classifier with the best F1 is found by trial."""
    share, separation = 0.1, 2.0
    x = np.linspace(-8, 10, 20_001)
    tpr, fpr = norm.sf(x, separation), norm.sf(x)
    f1 = 2 * share * tpr / (share * tpr + (1 - share) * fpr + share)
    # with balanced classes the probability is a half in the middle
    middle = separation / 2
    m = share * norm.sf(middle, separation) + (1 - share) * norm.sf(middle)
    best = separation * (x[f1.argmax()] - middle) / np.log((1 - share) / share)
    found = worthwhile_tau([1 - m, m], [1 - share, share])
    assert 0 < found <= 0.5
    # τ is smaller: its F1 is that of the threshold in the middle
    assert found < best < found + 0.2


@pytest.mark.parametrize(
    ("predicted", "shares", "tau"),
    [
        ([0.8, 0.2], [0.8, 0.2], 0.5),  # no class is predicted too often
        ([0.9, 0.1], [0.8, 0.2], 0.5),
        ([0.75, 0.25], [0.8, 0.2], 0.5),  # the class is easy to recognise
        ([0.5, 0.5], [0.8, 0.2], 0.0),  # random predictions
        ([0.0, 1.0], [0.8, 0.2], 0.0),
        ([0.6, 0.4], [0.5, 0.5], 0.5),  # no class is rare
        (
            [0.6, 0.3, 0.1],
            [0.8, 0.15, 0.05],
            0.4028,
        ),  # computed by hand; 0.7357 for the third class
    ],
)
def test_worthwhile_tau(predicted, shares, tau):
    assert worthwhile_tau(predicted, shares) == pytest.approx(tau, abs=1e-3)


def by_hand(P, shares):
    best, least = None, np.inf
    most = worthwhile_tau(np.bincount(P.argmax(axis=1), minlength=len(shares)) / len(P), shares)
    for step in range(51):
        tau = most * step / 50
        winners = (np.log(P) + tau * np.log(shares)).argmax(axis=1)
        there = np.array([(winners == c).mean() for c in range(len(shares))])
        distance = round(float(abs(there - shares).sum()), 9)
        if distance < least:
            best, least = tau, distance
    return best


@given(K=st.integers(2, 5), seed=st.integers(0, 30))
def test_matching_tau_is_the_best_of_its_candidates(K, seed):
    P = probabilities(200, K, seed)
    shares = np.random.default_rng(seed).dirichlet(np.full(K, 3.0))
    assert matching_tau(P, shares, shares) == pytest.approx(by_hand(P, shares))


@pytest.mark.parametrize("scale", [2.0, 5.0])
def test_matching_tau_gives_two_classes_their_shares(scale):
    """A quarter of the documents is predicted to be positive; a fifth is positive."""
    shares = np.array([0.8, 0.2])
    logits = scale * (np.random.default_rng(0).normal(size=100_000) - 0.6745)
    P = softmax(np.stack([np.zeros_like(logits), logits], axis=1), axis=1)
    # the threshold moves by 0.1671 standard deviations; τ = 1 moves it by log(4)
    expected = min(scale * 0.1671 / np.log(4), 0.5)
    assert matching_tau(P, shares, shares) == pytest.approx(expected, abs=0.02)
    positive = logit_adjusted(P, shares, matching_tau(P, shares, shares)).argmax(axis=1).mean()
    if expected < 0.5:
        assert positive == pytest.approx(0.2, abs=0.003)
    else:  # τ has reached its upper bound
        assert 0.2 < positive < 0.25


@pytest.mark.parametrize("n", [0, 50])
@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.9, 0.1]])
def test_matching_tau_is_0_without_need(n, shares):
    """There are no documents, equal labels, or predictions that are rarer than the labels."""
    assert matching_tau(np.tile([[0.99, 0.01]], (n, 1)), np.array(shares), np.array(shares)) == 0.0


# -- in the classifier ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def skewed():
    """60 labelled rows, a fifth of them positive, and 140 unlabelled ones."""
    X, y = make_classification(
        200,
        n_features=2,
        n_informative=2,
        n_redundant=0,
        n_clusters_per_class=1,
        weights=[0.8],
        flip_y=0.1,
        class_sep=0.8,
        random_state=0,
    )
    y = y.copy()
    y[60:] = -1
    return X.astype(np.float32), y


def tau_of(P, clf):
    return matching_tau(P, clf.class_shares_, clf.class_shares_)


def model(**params):
    settings = {"step_size": 70, "finetune_epochs": 15, "random_state": 0, **params}
    return SelfPretrainingClassifier(mlp_net(), **settings)


def test_only_the_prediction_is_adjusted(skewed):
    """Nets and pseudo-labels are those of a fit without adjustment."""
    X, y = skewed
    clf, plain = model().fit(X, y), model(logit_adjustment=0.0).fit(X, y)
    assert plain.logit_adjustment_ == 0.0
    assert 0 < clf.logit_adjustment_ <= 0.5
    np.testing.assert_array_equal(clf.transduction_, plain.transduction_)
    np.testing.assert_allclose(clf.class_shares_, [0.8, 0.2])
    expected = logit_adjusted(plain.predict_proba(X), clf.class_shares_, clf.logit_adjustment_)
    np.testing.assert_array_equal(clf.predict_proba(X), expected)
    np.testing.assert_array_equal(clf.predict(X), expected.argmax(axis=1))
    P = np.mean([net.predict_proba(X[60:]) for net in clf.estimators_], axis=0)
    assert clf.logit_adjustment_ == tau_of(P, clf)


def test_all_nets_predict_the_same_random_documents(skewed, monkeypatch):
    X, y = skewed
    monkeypatch.setattr(_observers, "MOST_DOCUMENTS", 50)
    asked = []
    probabilities = SelfPretrainingTrainer.probabilities

    def spied(self, net, documents):
        asked.append(documents)
        return probabilities(self, net, documents)

    monkeypatch.setattr(SelfPretrainingTrainer, "probabilities", spied)
    model(on_iteration=lambda iteration: None).fit(X, y)
    assert len(asked) == 3  # the start and two students, each once
    for documents in asked:
        np.testing.assert_array_equal(documents, asked[0])
    (rows,) = np.nonzero((X[60:, None] == asked[0]).all(axis=2).any(axis=1))
    assert len(rows) == 50
    assert rows[-1] > 75  # not the first ones


@pytest.mark.parametrize("n_unlabeled", [49, 50])
def test_auto_needs_enough_documents(skewed, n_unlabeled):
    X, y = skewed
    n = 60 + n_unlabeled
    tau = model(step_size=30).fit(X[:n], y[:n]).logit_adjustment_
    assert (tau > 0) == (n_unlabeled == 50)


def test_a_given_tau(skewed):
    X, y = skewed
    plain = model(logit_adjustment=0, max_iter=1, alpha=0).fit(X, y)
    clf = model(logit_adjustment=0.9, max_iter=1, alpha=0).fit(X, y)
    assert clf.logit_adjustment_ == 0.9
    expected = logit_adjusted(plain.predict_proba(X), clf.class_shares_, 0.9)
    np.testing.assert_array_equal(clf.predict_proba(X), expected)
    start = model(logit_adjustment=0.9, max_iter=0).fit(X, y)
    assert start.logit_adjustment_ == 0.9
    assert model(logit_adjustment=0.9, balanced_batches=False).fit(X, y).logit_adjustment_ == 0.9


@pytest.mark.parametrize("tau", ["auto", 0.0, 0.5])
def test_a_fit_without_iterations_has_no_gain(skewed, tau):
    X, y = skewed
    start = model(max_iter=0, n_starts=5, logit_adjustment=tau)
    found = compare_with_supervised(start, X, y, cv=3, random_state=0)
    assert found.gain == 0.0


def test_weights_change_the_target_but_not_the_shares(skewed):
    X, y = skewed
    weights = np.where(y == 1, 1.5, 1.0)
    clf = model(max_iter=1, alpha=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(clf.class_shares_, [0.8, 0.2])
    P = np.mean([net.predict_proba(X[60:]) for net in clf.estimators_], axis=0)
    assert clf.logit_adjustment_ == matching_tau(P, clf.class_shares_, np.array([48, 18]) / 66)


def test_weights_change_the_prior():
    """All documents are equal: a net can learn only the shares of the classes."""
    X, y = np.ones((400, 2), dtype=np.float32), np.arange(400) % 4 // 3  # a quarter is positive
    weights = np.where(y == 1, 0.5, 1.0)
    settings = {"max_iter": 0, "finetune_epochs": 40, "estimator__lr": 0.05}
    clf = model(logit_adjustment=1.0).set_params(**settings)
    with pytest.warns(UserWarning, match="no unlabelled"):
        P = clf.fit(X, y, sample_weight=weights).predict_proba(X[:1])
    np.testing.assert_allclose(P, [[6 / 7, 1 / 7]], atol=0.02)


@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
def test_scores_of_held_out_documents_are_adjusted(skewed):
    X, y = skewed
    clf, plain = (
        model(validation_fraction=0.3, logit_adjustment=tau).fit(X, y) for tau in (1.0, 0.0)
    )
    scores = [entry["validation_score"] for entry in clf.history_]
    assert scores != [entry["validation_score"] for entry in plain.history_]


def test_on_iteration_sees_adjusted_predictions(skewed):
    """They are those of a fit with as many iterations."""
    X, y = skewed
    seen = []

    def on_iteration(iteration):
        seen.append((iteration.predict_proba(X), iteration.logit_adjustment))
        single = softmax(iteration.students[0].forward(X).numpy().astype(float), axis=1)
        np.testing.assert_allclose(iteration.predict_proba(X, which="students"), single)

    model(on_iteration=on_iteration).fit(X, y)
    for max_iter, (P, tau) in enumerate(seen):
        clf = model(max_iter=max_iter)
        with warnings.catch_warnings(action="ignore"):  # α has no effect in one iteration
            clf.fit(X, y)
        np.testing.assert_array_equal(P, clf.predict_proba(X))
        assert tau == clf.logit_adjustment_ > 0
        found = np.mean([net.predict_proba(X[60:]) for net in clf.estimators_], axis=0)
        assert tau == tau_of(found, clf)


@pytest.mark.filterwarnings("ignore:y holds no unlabelled row")
@pytest.mark.parametrize("case", ["shuffled batches", "no unlabelled rows", "equal numbers"])
def test_auto_is_0_without_need(skewed, case):
    X, y = skewed
    rows, weights = np.arange(200), None
    if case == "no unlabelled rows":
        rows = rows[:60]
    if case == "equal numbers":
        rows = np.r_[np.flatnonzero(y == 0)[:12], np.flatnonzero(y == 1), 60:200]
        weights = np.linspace(0.5, 2, len(rows))
    clf = model(balanced_batches=case != "shuffled batches")
    clf.fit(X[rows], y[rows], sample_weight=weights)
    assert clf.logit_adjustment_ == 0.0
    P = np.mean([net.predict_proba(X) for net in clf.estimators_], axis=0)
    np.testing.assert_allclose(clf.predict_proba(X), P, atol=1e-6)


@pytest.mark.parametrize("value", ["AUTO", -0.1, 1.1, None, True, np.array([0.1, 0.2])])
def test_a_bad_tau(skewed, value):
    X, y = skewed
    clf = model(logit_adjustment=value)
    with pytest.raises((TypeError, ValueError), match=r"logit_adjustment must (be|lie)"):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")


def test_three_classes(tiny_encoder, tiny_texts):
    y = [0, 0, 0, 0, 1, 1, 2] + [-1] * 65
    tiny_texts = [*tiny_texts, *(f"{text} {text}" for text in tiny_texts), *tiny_texts]
    net = BertClassifier(tiny_encoder, max_length=16, batch_size=5)
    clf = SelfPretrainingClassifier(net, step_size=33, random_state=0).fit(tiny_texts, y)
    np.testing.assert_allclose(clf.class_shares_, np.array([4, 2, 1]) / 7)
    P = np.mean([n.predict_proba(tiny_texts) for n in clf.estimators_], axis=0)
    assert clf.logit_adjustment_ == tau_of(P[7:], clf)
    expected = logit_adjusted(P, clf.class_shares_, clf.logit_adjustment_)
    np.testing.assert_allclose(clf.predict_proba(tiny_texts), expected, atol=1e-6)


# -- resumed fits --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the unlabelled documents did not help")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ensemble": "last_two"},
        {"step_size": 1.0, "alpha": 0.0},
        {"validation_fraction": 0.3},
        {"validation_fraction": 0.3, "ensemble": "last_two"},
    ],
)
@pytest.mark.parametrize("killed_after", [None, 0, 1])
def test_a_resumed_fit_fills_the_progress_bar_and_has_the_same_tau(
    skewed, tmp_path, counted, params, killed_after
):
    X, y = skewed
    clf = model(checkpoint_dir=tmp_path, **params)
    if killed_after is not None:
        with pytest.raises(Killed):
            clf.set_params(on_iteration=KillAfter(killed_after)).fit(X, y)
        clf.set_params(on_iteration=None)
    resumed = clf.fit(X, y)
    assert counted[-1]["done"] == counted[-1]["total"]
    plain = model(**params).fit(X, y)
    assert resumed.logit_adjustment_ == plain.logit_adjustment_
    np.testing.assert_array_equal(resumed.predict_proba(X), plain.predict_proba(X))
