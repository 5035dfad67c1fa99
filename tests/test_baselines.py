"""The five methods that the paper compares: contract, properties, independent implementations."""

from __future__ import annotations

import copy
import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import MLP, DropMLP, bert_net, mlp_net, points
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback, EarlyStopping, GradientNormClipping

from sklearn_spt._random import derive_seed
from sklearn_spt._training import Trainer, epoch_rows
from sklearn_spt.baselines import (
    CoDecompositionClassifier,
    KeywordWindow,
    MutualLearningClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
    _common,
    _self_training,
    _spaced_repetition,
    _tri_training,
)

#: Holds nothing out and runs `max_iter` iterations; CHOICE is the default.
NO_CHOICE, CHOICE = {"validation_fraction": None}, {"validation_fraction": 0.2}
#: Each method with quick settings.
KINDS = {
    "self-training": (ThrottledSelfTrainingClassifier, {**NO_CHOICE, "max_iter": 2}),
    "co-training": (CoDecompositionClassifier, {**NO_CHOICE, "max_iter": 2, "views": (None, None)}),
    "tri-training": (TriTrainingClassifier, {"max_iter": 2}),
    "spaced repetition": (SpacedRepetitionClassifier, {"max_iter": 1, "episode_epochs": 4}),
    "mutual learning": (MutualLearningClassifier, {}),
}
THROTTLED = [kind for kind in KINDS if kind != "mutual learning"]


def model(kind, net=None, **params):
    cls, settings = KINDS[kind]
    settings = {"random_state": 0, **settings, **params}
    if kind in THROTTLED:
        settings = {"threshold": 0.55, **settings}
    return cls(mlp_net() if net is None else net, **settings)


@pytest.fixture(scope="module")
def data():
    """90 points of two classes, of which 28 are labelled."""
    return points()[:2]


# -- plain torch, for independent implementations ----------------------------------------------
def assert_same_weights(ours, theirs):
    for p, q in zip(ours.module_.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


LOG, NORMS = [], []


class Log(Callback):
    """Collect the norms of gradients, and the weights after each epoch."""

    def on_grad_computed(self, net, named_parameters, **kwargs):
        NORMS.append((id(net), sum(float((p.grad**2).sum()) for _, p in named_parameters) ** 0.5))

    def on_epoch_end(self, net, **kwargs):
        LOG.append(copy.deepcopy(net.module_.state_dict()))


# -- the contract ------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_fitted_attributes(data, kind):
    X, y = data
    net = mlp_net()
    clf = model(kind, net).fit(X, y)
    np.testing.assert_array_equal(clf.labeled_iter_ == 0, y >= 0)
    np.testing.assert_array_equal(clf.transduction_ >= 0, clf.labeled_iter_ >= 0)
    assert 0 < clf.labeled_iter_.max() <= clf.n_iter_
    assert not net.initialized_
    for t, entry in enumerate(json.loads(json.dumps(clf.history_))):
        assert entry["iteration"] == t
        assert isinstance(entry["seconds"], float)
        assert {"n_train", "loss"} <= entry.keys()


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("self-training", {"threshold": 2.0, **CHOICE}),
        ("self-training", {"max_iter": 0, **CHOICE}),
        ("co-training", {"max_iter": 0}),
        ("spaced repetition", {"max_iter": 0}),
        ("tri-training", None),
    ],
)
def test_with_nothing_to_add_it_is_bert_classifier(tiny_encoder, tiny_texts, kind, params):
    y = np.arange(24) % 2
    net = bert_net(tiny_encoder)
    alone = clone(net).set_params(random_state=5).fit(tiny_texts, y).predict_proba(tiny_texts)
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = model(kind, net, random_state=5).fit(tiny_texts, y)
    assert (clf.n_iter_, clf.termination_condition_) == (0, "no_unlabeled")
    fits = [clf]
    if params is not None:
        fits.append(model(kind, net, random_state=5, **params))
        fits[1].fit([*tiny_texts, "she is sick"], [*y, -1])
    for each in fits:
        first = softmax(each.estimators_[0].forward(net.encode(tiny_texts)), axis=1)
        np.testing.assert_allclose(first, alone, atol=1e-4)
        if kind != "co-training":
            np.testing.assert_allclose(each.predict_proba(tiny_texts), alone, atol=1e-4)


@pytest.mark.parametrize("kind", THROTTLED)
def test_documents_that_are_never_confident_warn(data, kind):
    with pytest.warns(UserWarning, match=r"threshold=1\.0 or more: .* Lower threshold") as caught:
        clf = model(kind, threshold=1.0).fit(*data)
    assert [warning.filename for warning in caught] == [__file__]
    assert clf.termination_condition_ in ("no_change", "no_candidates")
    assert (clf.transduction_[data[1] < 0] == -1).all()


BAD = [
    ({"threshold": -0.1}, ValueError, "threshold == -0.1, must be >= 0"),
    ({"threshold": "high"}, TypeError, "threshold must be an instance of float"),
    ({"max_fraction": 0}, ValueError, "max_fraction == 0, must be > 0"),
    ({"pos_label": "spam"}, ValueError, r"pos_label='spam' is none of the classes \[0, 1\]"),
    ({"tol": 1.5}, ValueError, r"tol == 1\.5, must be <= 1"),
    ({"validation_fraction": "some"}, TypeError, "validation_fraction must be an instance of"),
    ({"validation_fraction": 1.0}, ValueError, "validation_fraction == 1.0, must be < 1"),
    ({"n_queues": 2, **NO_CHOICE}, TypeError, "validation_fraction must be a share: held-out"),
    ({"n_queues": 0}, ValueError, "n_queues == 0, must be >= 1"),
    ({"episode_patience": 1.5}, TypeError, "episode_patience must be an instance of int"),
    ({"n_nets": 1}, ValueError, "n_nets == 1, must be >= 2"),
    ({"views": KeywordWindow()}, TypeError, "views must be None or a pair"),
    ({"views": (None, KeywordWindow)}, TypeError, "class"),
    ({"keywords": 7, "views": None}, TypeError, "keywords must be a str, a list of str or None"),
    ({"keywords": ["a"]}, ValueError, "keywords has no effect with views"),
    ({"views": (lambda X: X[:5], None)}, ValueError, "views of X have different numbers of rows"),
    ({"views": (None, lambda X: X * np.nan)}, ValueError, "keyword view of X contains NaN"),
]
BAD_FITS = [(kind, *bad) for bad in BAD for kind in KINDS if {*bad[0]} <= {*vars(model(kind))}]


@pytest.mark.parametrize(("kind", "params", "error", "match"), BAD_FITS)
def test_bad_parameters_leave_no_trace(data, kind, params, error, match):
    clf = model(kind).set_params(**params)
    before = dict(vars(clf))
    with pytest.raises(error, match=match):
        clf.fit(*data)
    assert vars(clf) == before
    with pytest.raises(NotFittedError):
        clf.predict(data[0])


# -- throttled selection -----------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["self-training", "co-training"])
def test_confident_documents_join_for_good(data, kind):
    X, y = data
    runs = [model(kind, max_iter=n, max_fraction=0.3).fit(X, y) for n in range(5)]
    for before, after in pairwise(runs):
        assert after.n_iter_ == before.n_iter_ + 1
        assert (after.termination_condition_, after.selection_history_) == ("max_iter", [])
        new = after.labeled_iter_ == after.n_iter_
        old = before.labeled_iter_ >= 0
        assert new.any()
        assert not (new & old).any()
        np.testing.assert_array_equal(after.transduction_[old], before.transduction_[old])
        np.testing.assert_array_equal(after.labeled_iter_[old], before.labeled_iter_[old])
        P = [softmax(net.forward(X[new]).numpy(), axis=1) for net in before.estimators_]
        given = after.transduction_[new]
        sure = [(p.max(axis=1) >= 0.55 - 1e-6) & (p.argmax(axis=1) == given) for p in P]
        assert np.any(sure, axis=0).all()  # by at least one of the nets
    entries = runs[-1].history_
    for t, (before, after) in enumerate(pairwise(entries), start=1):
        assert after["pool_size"] == min(7 * t, 62 - sum(e["n_added"] for e in entries[:t]))
        assert sum(after["pseudo_label_counts"].values()) == after["n_added"]
        sizes = before["n_train"], after["n_train"]
        if kind == "self-training":
            assert sizes[1] - sizes[0] == after["n_added"] <= max(1, int(0.3 * sizes[0]))
        else:
            for view, size in sizes[0].items():
                assert size <= sizes[1][view] <= size + max(1, int(0.3 * size))


def test_the_most_confident_of_a_pool_are_taken():
    clf = model("self-training", threshold=0.6, max_fraction=0.2)
    p = np.array([0.7, 0.59, 0.9, 0.1, 0.7, 0.65])
    P = np.column_stack([1 - p, p])
    for n_train, best in ((15, [2, 3, 0]), (1, [2]), (99, [2, 3, 0, 4, 5])):
        rows, codes = _common.throttle(10 * np.arange(6), P, n_train, clf)
        assert rows.tolist() == [10 * row for row in best]  # of equals the lower row
        assert codes.tolist() == [int(p[row] > 0.5) for row in best]


def test_all_documents_labelled_ends_the_fit(data):
    clf = model("self-training", threshold=0.0, max_fraction=9.0, max_iter=99).fit(*data)
    assert clf.termination_condition_ == "all_labeled"
    assert (clf.labeled_iter_ >= 0).all()


# -- choice of the number of iterations --------------------------------------------------------
@pytest.fixture
def scores(monkeypatch):
    """Scripted validation scores; the last one is repeated."""
    script = []

    def scripted(valid, P, pos_label):
        return script.pop(0) if len(script) > 1 else script[0]

    for module in (_self_training, _spaced_repetition):
        monkeypatch.setattr(module, "validation_score", scripted)
    return script


@pytest.mark.parametrize(
    ("script", "best", "tried"),
    [([0.5, 0.6, 0.9, 0.7], 2, 4), ([0.9, 0.6, 0.9], 0, 4), ([0.5, 1.0, 1.0], 1, 2), ([0.0], 0, 4)],
)
@pytest.mark.parametrize("kind", ["self-training", "co-training"])
def test_the_smallest_number_with_the_best_score(data, scores, kind, script, best, tried):
    scores[:] = script
    clf = model(kind, threshold=0.0, max_iter=3, **CHOICE).fit(*data)
    assert (clf.n_iter_, clf.termination_condition_) == (best, "validation")
    assert len(clf.selection_history_) == tried
    # a fifth of 28 rows is held out; the final fit has all of them
    n_train = [h[0]["n_train"] for h in (clf.selection_history_, clf.history_)]
    both = n_train if kind == "self-training" else [n["keyword"] for n in n_train]
    assert both == [22, 28]
    assert clf.history_[0].keys() == clf.selection_history_[0].keys() - {"validation_score"}


@pytest.mark.parametrize(("pos_label", "score"), [(None, 2 / 3), (1, 2 / 3), (0, 6 / 7)])
def test_the_score_is_the_f1_of_one_class(pos_label, score):
    clf = model("self-training")
    valid = clf._validate(mlp_net(), np.zeros((5, 2)), [0, 0, 0, 1, 1], None, None)
    found = _common.validation_score(valid, np.eye(2)[[0, 0, 0, 0, 1]], pos_label)
    assert found == pytest.approx(score)


@pytest.mark.parametrize("kind", ["self-training", "co-training", "spaced repetition"])
def test_one_iteration_without_rows_to_hold_out(data, kind):
    X, y = data
    few = np.where(np.isin(np.arange(90), [np.argmax(y == 0), np.argmax(y == 1)]), y, -1)
    settings = {"threshold": 0.0, "max_iter": 5, **CHOICE}
    with (
        pytest.warns(UserWarning, match="single labelled row"),
        pytest.warns(UserWarning, match="1 of 2 labelled rows cannot be held out") as caught,
    ):
        clf = model(kind, **settings).fit(X, few)
    assert [warning.filename for warning in caught] == [__file__, __file__]
    assert (clf.n_iter_, clf.termination_condition_) == (1, "max_iter")
    assert (clf.labeled_iter_ == 1).any()
    assert "validation_score" not in clf.history_[-1]


def test_rows_of_weight_zero_are_not_held_out(data):
    X, y = data
    w = np.where(np.arange(90) % 3 == 0, 0.0, 2.0)
    clf = model("self-training", max_iter=1, **CHOICE).fit(X, y, sample_weight=w)
    counted = int((w[y >= 0] > 0).sum())
    assert clf.selection_history_[0]["n_train"] == 28 - int(np.ceil(0.2 * counted))


# -- co-training -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("p_s", "p_k", "n_train", "for_s", "for_k"),
    [
        # each net teaches the other what it selected
        ([0.95, 0.5, 0.6, 0.1], [0.5, 0.2, 0.9, 0.4], (20, 20), {2: 1, 1: 0}, {0: 1, 3: 0}),
        # document 0 has two labels and is skipped
        ([0.95, 0.5, 0.9], [0.05, 0.5, 0.9], (20, 20), {2: 1}, {2: 1}),
        # the cap is that of the set that receives
        ([0.99, 0.98, 0.97], [0.99, 0.98, 0.97], (10, 20), {0: 1}, {0: 1, 1: 1}),
        # with nothing but conflicts in the cap, others are selected
        ([0.99, 0.8, 0.5, 0.95], [0.01, 0.5, 0.1, 0.02], (10, 10), {2: 0}, {1: 1}),
        ([0.99, 0.98], [0.01, 0.02], (10, 10), {}, {}),
    ],
)
def test_the_selection_for_each_view(p_s, p_k, n_train, for_s, for_k):
    P = [np.column_stack([1 - np.array(p), p]) for p in (p_s, p_k)]
    clf = model("co-training", threshold=0.7)
    new = clf._new(np.arange(len(p_s)), P, list(n_train))
    assert [dict(zip(*map(list, pair), strict=True)) for pair in new] == [for_s, for_k]


def test_views_may_be_transformers(data):
    X, y = data
    scaler = StandardScaler()
    clf = model("co-training", views=(scaler, lambda X: X[:, ::-1])).fit(X, y)
    assert not hasattr(scaler, "mean_")
    np.testing.assert_allclose(clf.views_[0].mean_, X.mean(axis=0), rtol=1e-5)
    parts = clf.views_[0].transform(X), X[:, ::-1].copy()
    P = [softmax(net.forward(x), 1) for net, x in zip(clf.estimators_, parts, strict=True)]
    np.testing.assert_allclose(clf.predict_proba(X), np.mean(P, axis=0), atol=1e-5)


@pytest.mark.parametrize("container", [dict, pd.DataFrame])
def test_views_may_select_columns_of_a_frame_or_keys_of_a_dict(data, container):
    X, y = data
    parts = container({"a": X[:, 0], "b": X[:, 1]})
    views = tuple(lambda D, k=k: np.asarray(D[k])[:, None] for k in "ab")
    net = mlp_net(module__n_in=1)
    columns = tuple(lambda X, i=i: X[:, [i]] for i in range(2))
    same = model("co-training", net, views=columns).fit(X, y)
    clf = model("co-training", net, views=views).fit(parts, y)
    np.testing.assert_array_equal(clf.predict_proba(parts), same.predict_proba(X))


def of_texts(encoder, **params):
    settings = {"threshold": 0.5, "max_iter": 1, "unlabeled_marker": None, "random_state": 0}
    return CoDecompositionClassifier(bert_net(encoder), **NO_CHOICE | settings | params)


CONTAINERS = {
    "list": list,
    "frame": lambda rows: pd.DataFrame(rows, columns=["text", "keywords"]),
    "array": lambda rows: np.array([[text, "shot"] for text, _ in rows], dtype=object),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_keywords_may_come_with_the_documents(tiny_encoder, tiny_texts, tiny_y, container):
    texts = [f"{text} in for a the my your this that it" for text in tiny_texts]
    pairs = [(text, ["shot"] if i % 2 else "shot") for i, text in enumerate(texts)]
    common = of_texts(tiny_encoder, keywords="shot").fit(texts, tiny_y)
    assert common.views_[0] is None
    assert common.views_[1].get_params() == {"keywords": "shot", "window": 5}
    expected = common.predict_proba(texts)
    X = container(pairs)
    clf = of_texts(tiny_encoder).fit(X, tiny_y)
    np.testing.assert_array_equal(clf.predict_proba(X), expected)
    few = clf.predict_proba(container(pairs[:5]))
    np.testing.assert_allclose(few, expected[:5], atol=1e-5)
    parted = of_texts(tiny_encoder)
    parted.fit(container(pairs[:15]), tiny_y[:15], X_unlabeled=container(pairs[15:]))
    np.testing.assert_allclose(parted.predict_proba(X), expected, atol=1e-5)
    assert not hasattr(clf, "n_features_in_")


def test_long_texts_warn_with_views_too(tiny_encoder, tiny_texts, tiny_y):
    texts = [f"{text} shot" for text in tiny_texts]
    clf = of_texts(tiny_encoder, keywords="shot").set_params(estimator__max_length=4)
    with pytest.warns(UserWarning, match="of the texts reach max_length=4 tokens") as caught:
        clf.fit(texts, tiny_y)
    assert {warning.filename for warning in caught} == {__file__}


def test_equal_views_warn(tiny_encoder, tiny_texts, tiny_y, data):
    with pytest.warns(UserWarning, match="both views of the documents are the same") as caught:
        of_texts(tiny_encoder, keywords="absent").fit(tiny_texts, tiny_y)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="both views"):
        clf = model("co-training", views=None).fit(*data)
    same = model("co-training").fit(*data)
    np.testing.assert_array_equal(clf.predict_proba(data[0]), same.predict_proba(data[0]))


@pytest.mark.filterwarnings("ignore:both views:UserWarning")
@pytest.mark.parametrize(
    ("X", "X_unlabeled", "error", "match"),
    [
        ([("a shot", "shot"), (" ", "shot")], None, ValueError, "empty or missing text in row 1"),
        ([(["shot"], "a shot")] * 2, None, TypeError, "first column of X must hold the texts"),
        ([("a shot", 7)] * 2, None, TypeError, "keywords of X, row 0, must be a str"),
        (["a shot"] * 2, np.zeros((3, 4)), TypeError, "X and X_unlabeled must both hold texts"),
        (["a shot"] * 2, [" "], ValueError, "X_unlabeled holds an empty or missing text in row 0"),
    ],
)
def test_bad_documents_of_two_views(tiny_encoder, X, X_unlabeled, error, match):
    clf = of_texts(tiny_encoder, keywords="a", views=None)
    with pytest.raises(error, match=match):
        clf.fit(X, ["yes", "no"], X_unlabeled)
    assert not hasattr(clf, "views_")


# -- KeywordWindow -----------------------------------------------------------------------------
COUNTED = " ".join(f"w{i}" for i in range(20))


@pytest.mark.parametrize(
    ("keywords", "window", "text", "expected"),
    [
        ("w10 w11", 1, COUNTED, "w9 w10 w11 w12"),
        (["w3", " w16"], 1, COUNTED, "w2 w3 w4 w15 w16 w17"),
        ("w5", 10**12, COUNTED, COUNTED),
        ("absent", 1, "two  blanks stay", "two  blanks stay"),
        ("flu", 1, "I had the (Flu), really I had the flu", "the (Flu), really"),
        ("flu", 0, "got my #FLU-shot", "#FLU-shot"),
        ("flu shot", 0, "a flu \n shot", "flu shot"),
        ("flu", 0, "influence of the flushot", "influence of the flushot"),
        ("c++", 0, "c++ or c", "c++"),
    ],
)
def test_the_words_around_a_keyword(keywords, window, text, expected):
    cut = KeywordWindow(keywords, window).fit_transform([text])
    assert (cut.tolist(), cut.dtype) == ([expected], object)


def test_keywords_in_a_second_column_come_first():
    X = pd.DataFrame({"text": [COUNTED] * 3, "keywords": ["w1", ["w10", "w11"], None]})
    assert KeywordWindow("w5", 0).transform(X).tolist() == ["w1", "w10 w11", "w5"]


@pytest.mark.parametrize("keywords", [3, ["flu", 3], b"flu", map(str, "ab")])
def test_bad_keywords_are_named(keywords):
    with pytest.raises(TypeError, match="keywords must be a str, a list of str or None"):
        KeywordWindow(keywords).fit(["a text"])
    with pytest.raises(TypeError, match="X must hold texts"):
        KeywordWindow().transform(np.zeros((3, 4)))


# -- tri-training ------------------------------------------------------------------------------
def three_nets(K, n, seed):
    rng = np.random.default_rng(seed)
    return softmax(2 * rng.normal(size=(3, n, K)), axis=2)


@given(st.integers(2, 4), st.integers(0, 999))
def test_disagreement_sets(K, seed):
    P = three_nets(K, 40, seed)
    votes = P.argmax(axis=2)
    everything = _tri_training.disagreement_sets(P, 0.0, [40] * 3)
    n_kinds = np.array([len(set(column)) for column in votes.T])
    two_agree = (n_kinds == 2).sum()
    assert (everything >= 0).sum() == two_agree
    assert ((everything >= 0).sum(axis=0) <= 1).all()  # disjoint
    assert not (everything == votes).any()
    order = [2, 0, 1]
    mixed = _tri_training.disagreement_sets(P[order], 0.0, [40] * 3)
    np.testing.assert_array_equal(mixed, everything[order])
    few = _tri_training.disagreement_sets(P, 0.6, [3, 0, 40])
    assert ((few >= 0).sum(axis=1) <= [3, 0, 40]).all()
    confidence = P.max(axis=2)
    for i, row in zip(*np.nonzero(few >= 0), strict=True):
        assert max(confidence[j, row] for j in range(3) if j != i) >= 0.6
    same = np.stack([P[0]] * 3)
    assert (_tri_training.disagreement_sets(same, 0.0, [40] * 3) < 0).all()


@given(st.integers(2, 4), st.integers(0, 999))
def test_the_vote_and_the_probabilities_agree(K, seed):
    P = three_nets(K, 40, seed)
    vote = _tri_training.majority_vote(P)
    combined = TriTrainingClassifier()._combine(list(P))
    np.testing.assert_allclose(combined.sum(axis=1), 1)
    np.testing.assert_array_equal(combined.argmax(axis=1), vote)
    for column, winner, mean in zip(P.argmax(axis=2).T, vote, P.mean(axis=0), strict=True):
        counts = np.bincount(column, minlength=K)
        assert winner == (counts.argmax() if counts.max() > 1 else mean.argmax())


def test_the_history_of_tri_training(data):
    clf = model("tri-training", max_iter=4, tol=0.0, max_fraction=0.2).fit(*data)
    assert list(clf.history_[0]["loss"]) == ["net_1", "net_2", "net_3"]
    for t, (last, entry) in enumerate(pairwise(clf.history_), start=1):
        assert entry["pool_size"] == min(62, 7 * t)
        assert entry["n_train"] == 28 + sum(entry["set_sizes"])
        assert sum(entry["pseudo_label_counts"].values()) == sum(entry["set_sizes"])
        for size, before in zip(entry["set_sizes"], last["set_sizes"], strict=True):
            assert size <= before + max(1, int(0.2 * (28 + before)))
    # the nets that agree on a document of the first iteration give it its label
    one = model("tri-training", max_iter=1, max_fraction=0.2).fit(*data)
    bootstrap = model("tri-training", max_iter=0).fit(*data).estimators_
    new = one.labeled_iter_ == 1
    votes = np.array([net.forward(data[0][new]).argmax(axis=1).numpy() for net in bootstrap])
    assert new.any()
    assert ((votes == one.transduction_[new]).sum(axis=0) == 2).all()


# -- mutual learning ---------------------------------------------------------------------------
def mutual_reference(X_l, y, X_u, n_nets, epochs, kl_weight, w):
    """Deep Mutual Learning: own loop, own losses, plain descent."""
    nets = []
    with torch.random.fork_rng(devices=[]):
        for k in range(n_nets):
            torch.manual_seed(derive_seed(0, k))
            nets.append(MLP())
    rng, rng_u = (np.random.default_rng(derive_seed(0, *path)) for path in ((0,), (0, 2)))
    X_l, X_u, target, w = map(torch.from_numpy, (X_l, X_u, y, w.astype(np.float32)))

    def passes():
        while True:
            rows = rng_u.permutation(len(X_u))
            yield from (rows[i : i + 8] for i in range(0, len(rows), 8))

    stream, pairs = passes(), []
    for _ in range(epochs):
        rows = epoch_rows(y, True, rng)
        pairs += [(rows[i : i + 8], next(stream)) for i in range(0, len(rows), 8)]
    for s, (l, u) in enumerate(pairs):  # noqa: E741
        both, gradients = torch.cat([X_l[l], X_u[u]]), []
        for net in nets:
            log_p = torch.log_softmax(net(both), 1)
            loss = -(w[l] * log_p[range(len(l)), target[l]]).mean()
            for peer in nets:
                q = torch.softmax(peer(both).detach(), 1)
                kl = (q * (q.log() - log_p)).sum(1) * torch.cat([w[l], torch.ones(len(u))])
                loss = loss + (peer is not net) * kl_weight * kl.mean() / (n_nets - 1)
            gradients.append(torch.autograd.grad(loss, list(net.parameters())))
        with torch.no_grad():
            for net, of_net in zip(nets, gradients, strict=True):
                for p, g in zip(net.parameters(), of_net, strict=True):
                    p -= 0.1 * (1 - s / len(pairs)) * g
    return nets, len(pairs)


@pytest.mark.parametrize("n_nets", [2, 3])
def test_mutual_learning_equals_an_independent_implementation(data, n_nets):
    X, y = data
    w = np.linspace(1, 4, 90)
    params = {"n_nets": n_nets, "kl_weight": 0.7, "finetune_epochs": 4}
    clf = model("mutual learning", **params).fit(X, y, sample_weight=w)
    w = w[y >= 0] / w[y >= 0].mean()
    nets, n_steps = mutual_reference(X[y >= 0], y[y >= 0], X[y < 0], n_nets, 4, 0.7, w)
    assert sum(entry["n_steps"] for entry in clf.history_) == n_steps
    for ours, theirs in zip(clf.estimators_, nets, strict=True):
        assert_same_weights(ours, theirs)
    np.testing.assert_array_equal(clf.transduction_[y < 0], clf.predict(X[y < 0]))
    assert [len(entry["loss"]["kl"]) for entry in clf.history_[1:]] == [n_nets] * 4


@pytest.mark.parametrize("n_nets", [2, 3])
def test_without_divergence_the_first_net_is_the_supervised_one(data, n_nets):
    X, y = data
    net = mlp_net(DropMLP, iterator_train__shuffle=True, optimizer=torch.optim.AdamW, lr=0.05)
    alone = model("self-training", net, max_iter=0).fit(X, y).estimators_[0]
    clf = model("mutual learning", net, kl_weight=0.0, n_nets=n_nets).fit(X, y)
    first, *others = clf.estimators_
    assert_same_weights(first, alone.module_)
    for other in others:
        assert not torch.equal(other.forward(X), alone.forward(X))


def test_the_gradient_of_each_net_is_clipped_by_itself(data):
    NORMS.clear()
    net = mlp_net(callbacks=[("clip", GradientNormClipping(1e-3)), ("log", Log())])
    clf = model("mutual learning", net).fit(*data)
    assert [each for each, _ in NORMS] == [id(net) for net in clf.estimators_] * 12
    np.testing.assert_allclose([norm for _, norm in NORMS], 1e-3, rtol=1e-2)


def test_early_stopping_ends_mutual_learning(data):
    stop = EarlyStopping(monitor="train_loss", patience=1, threshold=9.0, sink=lambda text: None)
    clf = model("mutual learning", mlp_net(callbacks=[stop]), finetune_epochs=5).fit(*data)
    assert clf.termination_condition_ == "callback"
    assert 1 <= clf.n_iter_ < 5
    assert (clf.labeled_iter_[data[1] < 0] == clf.n_iter_).all()


def test_mutual_learning_on_labelled_rows_alone(data):
    X, y = data
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = model("mutual learning").fit(X[y >= 0], y[y >= 0])
    assert (clf.n_iter_, clf.termination_condition_) == (0, "no_unlabeled")
    assert len(clf.history_) == 4
    assert min(clf.history_[1]["loss"]["kl"]) > 0
    untrained = model("mutual learning", finetune_epochs=0).fit(X, y)
    assert len(untrained.history_) == 1
    assert set(untrained.labeled_iter_) == {0, -1}


# -- spaced repetition -------------------------------------------------------------------------
@pytest.mark.parametrize("n_epochs", [1, 2, 3, 4, 7, 8, 15, 16, 20])
def test_queues_of_documents_that_are_always_or_never_correct(data, monkeypatch, n_epochs):
    labeled, then = [], [0.0, 1.0]

    def scripted(self, net, X):
        labeled.append(len(X))
        # the first two calls are those of the supervised net
        return np.tile([0.0, 1.0] if len(labeled) <= 2 else then, (len(X), 1))

    monkeypatch.setattr(Trainer, "probabilities", scripted)
    params = {"threshold": 1.1, "episode_epochs": n_epochs, "patience": 99}
    clf = model("spaced repetition", **params).fit(*data)
    highest = min(5, 1 + int(np.log2(n_epochs)))
    assert clf.queue_sizes_.tolist() == [[62 * (j == highest) for j in range(6)]]
    assert labeled.count(62) == highest + 2  # reviewed in epochs 1, 2, 4, 8, 16
    labeled.clear()
    then[:] = [1.0, 0.0]
    clf = model("spaced repetition", **params).fit(*data)
    assert clf.queue_sizes_.tolist() == [[62, 0, 0, 0, 0, 0]]
    assert labeled.count(62) == n_epochs + 2


@pytest.mark.parametrize("params", [{}, {"n_queues": 3}, {"n_queues": 1}], ids=str)
def test_the_history_of_episodes(data, params):
    clf = model("spaced repetition", **{"max_iter": 3, "episode_patience": 9, **params}).fit(*data)
    start, *episodes = clf.history_
    assert (start["n_train"], start["pool_size"]) == (22, 0)
    n_train, left = 22, 62
    for m, entry in enumerate(episodes, start=1):
        assert entry["n_train"] == n_train
        assert entry["pool_size"] == sum(entry["queue_sizes"]) == left  # a partition
        assert entry["queue_sizes"] == clf.queue_sizes_[m - 1].tolist()
        assert entry["n_added"] <= max(1, int(0.1 * n_train))
        assert 1 <= entry["best_epoch"] <= len(entry["loss"]) == 4
        assert entry["queue_sizes"][entry["source_queue"]] > 0
        n_train, left = n_train + entry["n_added"], left - entry["n_added"]
    assert (clf.labeled_iter_ > 0).sum() == n_train - 22 > 0
    found = [entry["validation_score"] for entry in clf.history_]
    assert clf.best_iter_ == int(np.argmax(found))


def test_the_weights_of_the_best_epoch_are_kept(data, scores):
    scores[:] = [0.1, 0.2, 0.9, 0.5, 0.9, 0.8]  # supervised net, then epochs 1 to 5
    LOG.clear()
    params = {"episode_epochs": 8, "threshold": 1.1, "patience": 3}
    clf = model("spaced repetition", mlp_net(callbacks=[Log()]), **params).fit(*data)
    assert clf.history_[1]["best_epoch"] == 2  # the earlier of two
    assert len(clf.history_[1]["loss"]) == 5
    assert (clf.best_iter_, clf.termination_condition_) == (1, "no_change")
    # three epochs of the supervised net come first
    torch.testing.assert_close(clf.estimators_[0].module_.state_dict(), LOG[3 + 1])


def test_without_a_better_score_the_supervised_net_is_kept(data, scores):
    scores[:] = [0.5]
    params = {"max_iter": 9, "episode_patience": 3, "n_queues": 1, "threshold": 0.0}
    clf = model("spaced repetition", **params).fit(*data)
    assert (clf.n_iter_, clf.best_iter_) == (3, 0)
    assert clf.termination_condition_ == "no_improvement"
    clf = model("spaced repetition", threshold=0.0).fit(*data)
    assert clf.designated_queue_ == np.flatnonzero(clf.queue_sizes_[0])[-1]  # of equals the highest
