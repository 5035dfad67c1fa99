"""Properties of all five methods: seeds, weights, labels, input checks, progress."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from helpers.nets import FollowingNet, PaddedMLP, mlp_net
from helpers.sgd import partial_moons
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from sklearn_spt import BertClassifier
from sklearn_spt.baselines import (
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
)

#: Each method with quick settings.
KINDS = {
    "self-training": (ThrottledSelfTrainingClassifier, {"n_iterations": 2}),
    "co-training": (CoDecompositionClassifier, {"views": (None, None), "n_iterations": 2}),
    "tri-training": (TriTrainingClassifier, {"max_iter": 2}),
    "spaced-rep": (SpacedRepetitionClassifier, {"max_iter": 1, "episode_epochs": 4}),
    "mutual learning": (MutualLearningClassifier, {}),
}
every_method = pytest.mark.parametrize("kind", KINDS)


def model(kind, net=None, **params):
    cls, settings = KINDS[kind]
    settings = {"random_state": 0, **settings, **params}
    if kind != "mutual learning":
        settings = {"threshold": 0.55, **settings}
    return cls(mlp_net(lr=0.5, batch_size=16) if net is None else net, **settings)


@pytest.fixture(scope="module")
def moons():
    """200 rows, of which 40 are labelled."""
    return partial_moons(200, 40, 0.2)[:2]


def plain_history(clf):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in clf.history_]


@every_method
def test_random_state_decides(moons, kind, global_random_state_unchanged):
    X, y = moons
    one, two, other = (model(kind, random_state=seed).fit(X, y) for seed in (0, 0, 2))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.transduction_, two.transduction_)
    assert plain_history(one) == plain_history(two)
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() > 1e-6
    legacy = [model(kind, random_state=np.random.RandomState(3)).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(*(clf.predict_proba(X) for clf in legacy))


@every_method
def test_fitted_attributes(moons, kind):
    X, y = moons
    net = mlp_net(lr=0.5, batch_size=16)
    clf = model(kind, net).fit(X, y)
    assert clf.n_features_in_ == 2
    assert clf.n_threads_ == torch.get_num_threads()
    assert clf.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(clf.transduction_[:40], y[:40])
    np.testing.assert_array_equal(clf.labeled_iter_[:40], 0)
    np.testing.assert_array_equal(clf.transduction_[40:] >= 0, clf.labeled_iter_[40:] > 0)
    assert (clf.labeled_iter_[40:] != 0).all()
    assert (clf.labeled_iter_ > 0).any()
    assert clf.labeled_iter_.max() <= clf.n_iter_
    assert not net.initialized_
    assert net.train_split is not None


@every_method
def test_x_unlabeled_joins_the_marked_rows(moons, kind):
    X, y = moons
    whole = model(kind).fit(X, y)
    for n in (40, 101):
        parted = model(kind).fit(X[:n], y[:n], X_unlabeled=X[n:])
        np.testing.assert_array_equal(whole.predict_proba(X), parted.predict_proba(X))
        np.testing.assert_array_equal(whole.transduction_, parted.transduction_)


@every_method
def test_weights_scale_the_labelled_rows(moons, kind):
    X, y = moons
    plain = model(kind).fit(X, y).predict_proba(X)
    even = model(kind).fit(X, y, sample_weight=np.full(200, 3.0)).predict_proba(X)
    np.testing.assert_array_equal(even, plain)
    w = np.linspace(1, 2, 200)
    one = model(kind).fit(X, y, sample_weight=w).predict_proba(X)
    hidden = np.where(y < 0, np.nan, 2 * w)
    two = model(kind).fit(X, y, sample_weight=hidden).predict_proba(X)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    assert np.abs(one - plain).max() > 1e-6


@every_method
@pytest.mark.parametrize(
    ("names", "marker"),
    [(["a", "b", "c"], "?"), (["a", "b", "c"], None), ([1, 5, 7], -1), ([0.0, 1.0, 2.0], -9)],
)
def test_three_classes_with_any_labels_and_marker(kind, names, marker):
    X, truth = make_blobs(150, centers=3, cluster_std=1.5, random_state=1)
    labels = [names[code] if i < 30 else marker for i, code in enumerate(truth)]
    net = FollowingNet(PaddedMLP, lr=0.05, batch_size=8)
    settings = {} if kind == "mutual learning" else {"threshold": 0.4}
    clf = model(kind, net, finetune_epochs=10, unlabeled_marker=marker, **settings).fit(X, labels)
    assert clf.classes_.tolist() == names
    P = clf.predict_proba(X)
    assert P.shape == (150, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert np.mean(clf.predict(X) == np.array(names)[truth]) > 0.85
    assert clf.transduction_[:30].tolist() == labels[:30]
    assert set(clf.transduction_[clf.labeled_iter_ > 0].tolist()) <= set(names)
    assert (clf.transduction_[clf.labeled_iter_ < 0] == np.array(marker)).all()
    assert set(clf.history_[-1]["pseudo_label_counts"]) == set(names)


@pytest.mark.parametrize(
    ("kind", "switched_off"),
    [
        ("self-training", {"threshold": 2.0, "n_iterations": None}),
        ("tri-training", None),
        ("spaced-rep", {"max_iter": 0}),
    ],
)
def test_without_unlabelled_texts_it_is_bert_classifier(
    tiny_encoder, tiny_texts, kind, switched_off
):
    y = np.arange(24) % 2
    net = BertClassifier(tiny_encoder, max_length=16, max_epochs=3)
    expected = clone(net).set_params(random_state=5).fit(tiny_texts, y).predict_proba(tiny_texts)
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = model(kind, net, random_state=5).fit(tiny_texts, y)
    np.testing.assert_array_equal(clf.predict_proba(tiny_texts), expected)
    np.testing.assert_array_equal(clf.transduction_, y)
    assert (clf.n_iter_, clf.termination_condition_) == (0, "no_unlabeled")
    assert len(set(map(id, clf.estimators_))) == 1
    if switched_off is not None:
        off = model(kind, net, random_state=5, **switched_off)
        off.fit([*tiny_texts, "she is sick"], [*y, -1])
        np.testing.assert_array_equal(off.predict_proba(tiny_texts), expected)


@pytest.mark.parametrize(
    ("kind", "params", "why"),
    [
        ("self-training", {"n_iterations": None}, "no_change"),
        ("co-training", {"n_iterations": None}, "no_change"),
        ("tri-training", {}, "no_candidates"),
        ("spaced-rep", {}, "no_change"),
    ],
)
def test_documents_that_are_never_confident_enough_warn(moons, kind, params, why):
    X, y = moons
    match = r"threshold=1\.0 or more: .* Lower threshold\.$"
    with pytest.warns(UserWarning, match=match) as caught:
        clf = model(kind, threshold=1.0, **params).fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    assert clf.termination_condition_ == why
    assert (clf.transduction_[40:] == -1).all()


BAD = [
    ({"finetune_epochs": -1}, ValueError, "finetune_epochs must be at least 0"),
    ({"balanced_batches": 1}, TypeError, "balanced_batches must be True or False"),
    ({"verbose": -1}, ValueError, "verbose must be"),
    ({"random_state": "a"}, ValueError, "random_state must be"),
    ({"unlabeled_marker": [1]}, TypeError, "unlabeled_marker must be"),
    ({"estimator": 3}, TypeError, "estimator must be"),
    ({"threshold": -0.1}, ValueError, r"threshold must lie in \[0, inf\)"),
    ({"threshold": "high"}, TypeError, "threshold must be a number"),
    ({"threshold": float("nan")}, ValueError, "threshold must lie"),
    ({"threshold": float("inf")}, ValueError, "threshold must lie"),
    ({"max_fraction": 0}, ValueError, r"max_fraction must lie in \(0, inf\)"),
    ({"max_iter": -1}, ValueError, "max_iter must be at least 0"),
    ({"max_iter": None}, TypeError, "max_iter must be an integer"),
    ({"n_iterations": 1.5}, TypeError, "n_iterations must be an integer or None"),
    ({"n_iterations": -1}, ValueError, "n_iterations must be at least 0"),
    ({"validation_fraction": 0}, ValueError, r"validation_fraction must lie in \(0, 1\)"),
    ({"validation_fraction": 1.0}, ValueError, r"validation_fraction must lie in \(0, 1\)"),
    ({"pos_label": "spam"}, ValueError, r"pos_label='spam' is none of the classes \[0, 1\]"),
    ({"tol": 1.5}, ValueError, r"tol must lie in \[0, 1\]"),
    ({"n_queues": 0}, ValueError, "n_queues must be at least 1"),
    ({"episode_epochs": 0}, ValueError, "episode_epochs must be at least 1"),
    ({"patience": 0}, ValueError, "patience must be at least 1"),
    ({"episode_patience": 1.5}, TypeError, "episode_patience must be an integer"),
    ({"n_nets": 1}, ValueError, "n_nets must be at least 2, got 1"),
    ({"n_nets": 2.0}, TypeError, "n_nets must be an integer"),
    ({"kl_weight": -0.1}, ValueError, r"kl_weight must lie in \[0, inf\)"),
    ({"kl_weight": float("inf")}, ValueError, "kl_weight must lie"),
    ({"kl_weight": "1"}, TypeError, "kl_weight must be a number"),
]


@pytest.mark.parametrize(
    ("kind", "params", "error", "match"),
    [
        (kind, *bad)
        for bad in BAD
        for kind, (cls, _) in KINDS.items()
        if set(bad[0]) <= set(cls().get_params())
    ],
)
def test_bad_parameters_leave_no_trace(moons, kind, params, error, match):
    clf = model(kind).set_params(**params)
    before = dict(vars(clf))
    with pytest.raises(error, match=match):
        clf.fit(*moons)
    assert vars(clf) == before
    with pytest.raises(NotFittedError):
        clf.predict(moons[0])


@every_method
def test_a_failed_fit_keeps_the_old_model(moons, kind):
    X, y = moons
    clf = model(kind).fit(X, y)
    before = dict(vars(clf))
    for bad_X, bad_y, match in (
        (X, np.where(y < 0, y, 1), "one class only"),
        (X, np.full(200, -1), "no labelled row"),
        (X, y[:100], "inconsistent numbers of samples"),
        (np.full_like(X, np.nan), y, "NaN"),
    ):
        with pytest.raises(ValueError, match=match):
            clf.fit(bad_X, bad_y)
        assert vars(clf) == before


@every_method
def test_nothing_is_printed_without_verbose(moons, capfd, kind):
    X, y = moons
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(kind, mlp_net(verbose=1, lr=0.5)).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")
    model(kind, verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert kind in err


MANY = {"threshold": 0.0, "finetune_epochs": 1, "max_fraction": 2.0}
CHOICE = {"n_iterations": None, "max_iter": 2}


@pytest.mark.filterwarnings("ignore:no unlabelled document:UserWarning")
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("self-training", {}),
        ("self-training", CHOICE),
        ("self-training", MANY | {"n_iterations": 99}),
        ("self-training", {"threshold": 0.97, "finetune_epochs": 20}),
        ("self-training", {"n_iterations": 0}),
        ("co-training", {}),
        ("co-training", CHOICE),
        ("co-training", MANY | {"n_iterations": 99}),
        ("tri-training", MANY | {"max_iter": 3, "tol": 0.0}),
        ("spaced-rep", {}),
        ("spaced-rep", {"threshold": 0.99, "patience": 99}),
        ("spaced-rep", MANY | {"max_iter": 3}),
        ("spaced-rep", {"n_queues": 1, "threshold": 0.0}),
        ("spaced-rep", {"max_iter": 0}),
        ("mutual learning", {}),
        ("mutual learning", {"n_nets": 3}),
    ],
)
def test_progress_reaches_its_total(moons, counted, kind, params):
    model(kind, **params).fit(*moons)
    (bar,) = counted
    if kind == "spaced-rep":  # patience may end an episode before its last epoch
        assert 0 < bar["done"] <= bar["total"]
    else:
        assert 0 < bar["done"] == bar["total"]
