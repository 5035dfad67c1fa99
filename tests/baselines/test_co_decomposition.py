"""Co-training: an independent implementation, views, selection, records."""

from __future__ import annotations

import json
import operator
import pickle

import numpy as np
import pytest
import torch
from helpers.nets import MLP, FollowingNet, PaddedMLP, mlp_net
from helpers.optional import pd
from helpers.sgd import assert_same_weights, partial_moons, probabilities, sgd_net
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_spt import BertClassifier
from sklearn_spt._holdout import validation_split
from sklearn_spt._random import derive_seed
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt.baselines import CoDecompositionClassifier
from sklearn_spt.baselines import _views as views_module
from sklearn_spt.text._keyword_window import KeywordWindow


@pytest.fixture(scope="module")
def moons():
    """120 rows, of which 30 are labelled."""
    return partial_moons(120, 30, 0.1)[:2]


def model(net=None, **params):
    settings = {
        "views": (None, None),
        "threshold": 0.7,
        "n_iterations": 3,
        "finetune_epochs": 5,
        "random_state": 0,
    }
    net = mlp_net(lr=1.0, batch_size=16) if net is None else net
    return CoDecompositionClassifier(net, **settings | params)


def first_column(X):
    return X[:, :1]


def second_column(X):
    return X[:, 1:]


COLUMNS = (first_column, second_column)


def one_column_net():
    return mlp_net(lr=1.0, batch_size=16, module__n_in=1)


# -- an independent implementation -------------------------------------------------------------
def reference(X_l, y, X_u, *, threshold, fraction, max_iter, epochs):
    """The numbered steps, implemented independently: own loops, training sets as dicts, plain SGD.

    Only the draws of the training rows are shared, so that both see the same ones.
    """
    U = len(X_u)

    def on_both(T, t):
        nets = []
        for column, (added, path) in enumerate(zip(T, [(t,), (t, 2)], strict=True)):
            X = np.array([*X_l[:, column], *(X_u[x, column] for x in added)], dtype=np.float32)
            codes = np.array([*y, *added.values()], dtype=np.int64)
            nets.append(sgd_net(X[:, None], codes, *path, epochs=epochs, R=0.5, module=PaddedMLP))
        return nets

    def most_confident(pool, P, n_train):
        cap = max(1, int(fraction * n_train))
        sure = sorted((-P[x].max(), x) for x in pool if P[x].max() >= threshold)
        return {x: int(P[x].argmax()) for _, x in sure[:cap]}

    T = [{}, {}]  # unlabelled documents and their labels, by view
    nets, added, n_conflicts = on_both(T, 0), {}, 0
    for t in range(1, max_iter + 1):
        P = [probabilities(net, X_u[:, [column]]) for column, net in enumerate(nets)]
        left = [x for x in range(U) if x not in added]
        order = np.random.default_rng(derive_seed(0, t, 1)).permutation(left).tolist()
        size = t * -(-U // 10)
        while True:
            pool = order[:size]
            while True:
                by_s = most_confident(pool, P[0], len(y) + len(T[1]))
                by_k = most_confident(pool, P[1], len(y) + len(T[0]))
                conflicting = {x for x in by_s if by_k.get(x, by_s[x]) != by_s[x]}
                n_conflicts += len(conflicting)
                for x in conflicting:
                    del by_s[x], by_k[x]
                if by_s or by_k or not conflicting:
                    break
                pool = [x for x in pool if x not in conflicting]
            if by_s or by_k or size >= len(left):
                break
            size += -(-U // 10)
        if not (by_s or by_k):
            break
        T[0].update(by_k)
        T[1].update(by_s)
        added |= by_s | by_k
        nets = on_both(T, t)
    return nets, T, added, n_conflicts


def test_equals_an_independent_implementation(moons):
    X, y = moons
    settings = {"threshold": 0.52, "max_fraction": 0.5}
    net = mlp_net(PaddedMLP, lr=0.5)
    clf = model(net, views=COLUMNS, n_iterations=3, **settings).fit(X, y)
    settings["fraction"] = settings.pop("max_fraction")
    nets, T, added, n_conflicts = reference(
        X[:30], y[:30], X[30:], max_iter=3, epochs=5, **settings
    )
    assert n_conflicts >= 1
    assert T[0].keys() != T[1].keys()
    assert min(map(len, T)) >= 10  # something happened
    assert clf.n_iter_ == 3
    assert clf.history_[-1]["n_train"] == {"sentence": 30 + len(T[0]), "keyword": 30 + len(T[1])}
    codes = clf.transduction_[30:]
    assert {x: codes[x] for x in np.flatnonzero(codes >= 0)} == added
    for ours, theirs in zip(clf.estimators_, nets, strict=True):
        assert_same_weights(ours, theirs)
    mean = sum(probabilities(net, X[:, [i]]) for i, net in enumerate(nets)) / 2
    np.testing.assert_allclose(clf.predict_proba(X), mean, atol=1e-5)


# -- the nets ----------------------------------------------------------------------------------
def test_the_prediction_is_the_mean_of_both_nets(moons):
    X, y = moons
    clf = model(one_column_net(), views=COLUMNS).fit(X, y)
    parts = [
        torch.softmax(net.forward(X[:, i : i + 1]).double(), dim=1).numpy()
        for i, net in enumerate(clf.estimators_)
    ]
    expected = (parts[0] + parts[1]) / 2
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-6)
    np.testing.assert_array_equal(clf.predict(X), expected.argmax(axis=1))


def test_no_unlabelled_rows_are_two_supervised_nets(moons):
    X, y = moons
    with pytest.warns(UserWarning, match="holds no unlabelled row"):
        clf = model(n_iterations=None).fit(X[:30], y[:30])
    assert (clf.n_iter_, clf.termination_condition_) == (0, "no_unlabeled")
    trainer = SupervisedTrainer(clf, clf.estimator, np.array([0, 1]), "")
    for net, path in zip(clf.estimators_, ((0,), (0, 2)), strict=True):
        alone, _ = trainer.train(X[:30], y[:30], *path)
        assert torch.equal(net.forward(X), alone.forward(X))
    assert not torch.equal(clf.estimators_[0].forward(X), clf.estimators_[1].forward(X))


# -- the selection -----------------------------------------------------------------------------
def selected(p_s, p_k, n_train=(20, 20), **params):
    clf = model(**params)
    P = [np.column_stack([1 - np.array(p), p]) for p in (p_s, p_k)]
    pool = np.arange(100, 100 + len(p_s))
    new = clf._select_by_view(pool, P, n_train)
    return [list(zip(rows.tolist(), codes.tolist(), strict=True)) for rows, codes in new]


@pytest.mark.parametrize(
    ("p_s", "p_k", "params", "for_s", "for_k"),
    [
        # each net teaches the other what it selected
        (
            [0.95, 0.5, 0.6, 0.1],
            [0.5, 0.2, 0.9, 0.4],
            {},
            [(102, 1), (101, 0)],
            [(100, 1), (103, 0)],
        ),
        # both select 100 with different labels, which is skipped, and 102
        ([0.95, 0.5, 0.9], [0.05, 0.5, 0.9], {}, [(102, 1)], [(102, 1)]),
        # the cap is that of the set that receives: 1 and 3
        (
            [0.99, 0.98, 0.97, 0.96],
            [0.99, 0.98, 0.97, 0.96],
            {"n_train": (10, 30)},
            [(100, 1)],
            [(100, 1), (101, 1), (102, 1)],
        ),
    ],
)
def test_selection_for_each_view(p_s, p_k, params, for_s, for_k):
    assert selected(p_s, p_k, **params) == [for_s, for_k]


def test_a_conflict_does_not_block_other_documents():
    # the cap is 1, and both nets are most confident of 100, then of 103, with opposite labels
    few = {"n_train": (10, 10)}
    for_s, for_k = selected([0.99, 0.8, 0.5, 0.95], [0.01, 0.5, 0.1, 0.02], **few)
    assert for_k == [(101, 1)]
    assert for_s == [(102, 0)]
    # a conflict still counts towards the cap if another document is selected
    for_s, for_k = selected([0.99, 0.8, 0.5], [0.01, 0.5, 0.1], n_train=(20, 20))
    assert (for_s, for_k) == ([(102, 0)], [(101, 1)])
    # if all documents conflict, none is selected
    assert selected([0.99, 0.98], [0.01, 0.02], **few) == [[], []]


def test_many_conflicts_do_not_block_the_last_document():
    p = np.append(np.linspace(0.99, 0.9, 2000), 0.8)  # more than the recursion limit
    for_s, for_k = selected(p, np.append(1 - p[:-1], 0.8), n_train=(10, 10))
    assert for_s == for_k == [(2100, 1)]


# -- choice ------------------------------------------------------------------------------------
def test_the_scores_are_those_of_the_combined_prediction(moons, monkeypatch):
    X, y = moons
    states = []
    original = CoDecompositionClassifier._iterations

    def spy(self, trainer, data):
        for state in original(self, trainer, data):
            states.append(state)
            yield state

    monkeypatch.setattr(CoDecompositionClassifier, "_iterations", spy)
    net = mlp_net(PaddedMLP, lr=0.3)
    clf = model(net, views=COLUMNS, n_iterations=None, max_iter=4)
    y = partial_moons(120, 60, 0.1)[1]
    clf.set_params(validation_fraction=0.5, finetune_epochs=2, threshold=0.5).fit(X, y)
    rng = np.random.default_rng(derive_seed(derive_seed(0, 0, 3), 0, 1))
    _, held, _ = validation_split(y[:60], 0.5, rng)
    scores = [record["validation_score"] for record in clf.selection_history_]
    by_hand, alone = [], []
    for state in states[: len(scores)]:  # the final run follows
        P = [
            torch.softmax(net.forward(X[held][:, [i]]).double(), dim=1).numpy()
            for i, net in enumerate(state.nets)
        ]
        by_hand.append(f1_score(y[held], (P[0] + P[1]).argmax(axis=1)))
        alone.append([f1_score(y[held], p.argmax(axis=1)) for p in P])
    assert scores == pytest.approx(by_hand)
    assert clf.n_iter_ == int(np.argmax(by_hand))
    for view in zip(*alone, strict=True):
        assert np.abs(np.subtract(view, scores)).max() > 0.02  # otherwise nothing is tested


# -- views -------------------------------------------------------------------------------------
@pytest.fixture
def words():
    """48 texts whose class depends on the word before "shot"."""
    start = ["today at the clinic", "at home and now"]
    rest = "in for a the my your this that it"
    texts = [f"{start[i % 2]} {rest} {'got' if i % 3 else 'never'} shot again" for i in range(48)]
    truth = np.array([int(bool(i % 3)) for i in range(48)])
    return texts, truth


def net_of(checkpoint, **params):
    return BertClassifier(checkpoint, max_length=24, lr=1e-3, **params)


def marked(truth, n=24):
    return np.where(np.arange(len(truth)) < n, truth, -1)


def of_texts(checkpoint, **params):
    settings = {"threshold": 0.5, "n_iterations": 1, "random_state": 0, **params}
    return CoDecompositionClassifier(net_of(checkpoint), **settings)


def test_the_default_views_are_the_text_and_its_windows(tiny_encoder, words):
    texts, truth = words
    clf = of_texts(tiny_encoder, keywords="shot").fit(texts, marked(truth))
    assert clf.views_[0] is None
    assert isinstance(clf.views_[1], KeywordWindow)
    net = net_of(tiny_encoder)
    encoded = clf._encode(net, texts, reset=False)
    np.testing.assert_array_equal(encoded["sentence"], net.encode(texts, full_width=True))
    windows = KeywordWindow("shot", 5).transform(texts)
    np.testing.assert_array_equal(encoded["keyword"], net.encode(windows, full_width=True))
    assert not np.array_equal(*encoded.values())
    assert clf.predict_proba(texts).shape == (48, 2)


@pytest.mark.parametrize(
    "container",
    [
        list,
        tuple,
        lambda rows: [list(row) for row in rows],
        lambda rows: pd.DataFrame(rows, columns=["text", "keywords"]),
        lambda rows: np.array([[text, "shot"] for text, _ in rows], dtype=object),
    ],
    ids=["list", "tuple", "lists", "frame", "array"],
)
def test_keywords_may_come_with_the_documents(tiny_encoder, words, container):
    texts, truth = words
    pairs = [(text, ["shot"] if i % 2 else "shot") for i, text in enumerate(texts)]
    y = marked(truth)
    expected = of_texts(tiny_encoder, keywords="shot").fit(texts, y).predict_proba(texts)
    X = container(pairs)
    clf = of_texts(tiny_encoder).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), expected)
    np.testing.assert_array_equal(clf.predict_proba(container(pairs[:5])), expected[:5])
    assert not hasattr(clf, "n_features_in_")
    parted = of_texts(tiny_encoder)
    parted.fit(container(pairs[:30]), y[:30], X_unlabeled=container(pairs[30:]))
    np.testing.assert_array_equal(parted.predict_proba(X), expected)


@pytest.mark.parametrize("container", [list, pd.DataFrame, np.array])
def test_swapped_columns_raise_an_error(tiny_encoder, words, container):
    texts, truth = words
    swapped = [[["shot"], text] for text in texts]
    X = np.array(swapped, dtype=object) if container is np.array else container(swapped)
    clf = of_texts(tiny_encoder)
    with pytest.raises(TypeError, match=r"first column of X must hold the texts.*no str"):
        clf.fit(X, marked(truth))
    assert not hasattr(clf, "views_")
    clf.fit([[text, "shot"] for text in texts], marked(truth))
    with pytest.raises(TypeError, match="the first column of X must hold the texts"):
        clf.predict(X)


@pytest.mark.parametrize("params", [{}, {"keywords": "absent"}])
def test_no_keyword_in_any_document_warns(tiny_encoder, words, params):
    texts, truth = words
    with pytest.warns(UserWarning, match="both views of the documents are the same") as warned:
        clf = of_texts(tiny_encoder, **params).fit(texts, marked(truth))
    assert clf.n_iter_ == 1
    assert {warning.filename for warning in warned} == {__file__}


def test_keywords_beside_some_texts_alone_are_named(tiny_encoder, words):
    texts, truth = words
    clf = of_texts(tiny_encoder)
    message = (
        "X_unlabeled is a column of texts and X is not; pass both as texts, both with keywords"
    )
    with pytest.raises(TypeError, match=message):
        clf.fit([[text, "shot"] for text in texts], truth, X_unlabeled=texts[:5])


def test_numbers_are_seen_twice_with_a_warning(moons):
    X, y = moons
    with pytest.warns(UserWarning, match="both views of the documents are the same.*views="):
        implicit = model(views=None).fit(X, y)
    explicit = model().fit(X, y)
    np.testing.assert_array_equal(implicit.predict_proba(X), explicit.predict_proba(X))
    assert implicit.n_features_in_ == 2


def test_transformers_are_cloned_and_fitted_on_all_rows(moons):
    X, y = moons
    scaler, bins = StandardScaler(), FunctionTransformer(np.sign)
    clf = model(views=(scaler, bins)).fit(X, y)
    assert not hasattr(scaler, "mean_")
    np.testing.assert_allclose(clf.views_[0].mean_, X.mean(axis=0), rtol=1e-5)
    encoded = clf._encode(clf.estimators_[0], X[:5], reset=False)
    np.testing.assert_allclose(encoded["sentence"], clf.views_[0].transform(X[:5]), rtol=1e-5)
    np.testing.assert_array_equal(encoded["keyword"], np.sign(X[:5]))
    assert encoded["sentence"].dtype == np.float32


def test_views_may_turn_texts_into_numbers(words):
    texts, truth = words
    dense = FunctionTransformer(lambda counts: counts.toarray(), accept_sparse=True)
    counts = make_pipeline(CountVectorizer(max_features=16), dense)
    letters = make_pipeline(CountVectorizer(analyzer="char", max_features=16), dense)
    net = FollowingNet(PaddedMLP, lr=0.05, optimizer=torch.optim.Adam, batch_size=8)
    clf = CoDecompositionClassifier(
        net,
        views=(counts, letters),
        threshold=0.5,
        n_iterations=2,
        finetune_epochs=10,
        random_state=0,
    )
    clf.fit(texts, marked(truth))
    assert clf.score(texts, truth) > 0.9
    assert not hasattr(clf, "n_features_in_")


def test_views_may_take_parts_of_a_mapping(moons):
    X, y = moons
    parts = {"a": X[:, :1], "b": X[:, 1:]}
    views = (operator.itemgetter("a"), operator.itemgetter("b"))
    clf = model(one_column_net(), views=views).fit(parts, y)
    same = model(one_column_net(), views=COLUMNS).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(parts), same.predict_proba(X))
    with pytest.raises(ValueError, match="X is a mapping: pass views"):
        model(one_column_net()).fit(parts, y)


@pytest.mark.parametrize("container", ["frame", "frame of texts", "mapping of texts"])
def test_views_get_frames_and_mappings_as_they_are(moons, words, tiny_encoder, container):
    views = (operator.itemgetter("a"), operator.itemgetter("b"))
    if container == "frame":
        X, y = moons
        named = (operator.itemgetter(["a"]), operator.itemgetter(["b"]))
        clf = model(one_column_net(), views=named)
        clf.fit(pd.DataFrame(X, columns=["a", "b"]), y)
        same = model(one_column_net(), views=COLUMNS).fit(X, y)
        found = clf.predict_proba(pd.DataFrame(X, columns=["a", "b"]))
        np.testing.assert_array_equal(found, same.predict_proba(X))
        with pytest.raises(ValueError, match="must be in the same order"):
            clf.predict_proba(pd.DataFrame(X[:, ::-1], columns=["b", "a"]))
        assert clf.n_features_in_ == 2
        return
    texts, truth = words
    short = [text.split(" shot")[0] for text in texts]
    parts = {"a": pd.Series(texts, index=range(7, 55)), "b": pd.Series(short, index=range(7, 55))}
    X = parts if container == "mapping of texts" else pd.DataFrame({"id": range(7, 55)} | parts)
    clf = of_texts(tiny_encoder, views=views, n_iterations=0).fit(X, marked(truth))
    cut = FunctionTransformer(lambda X: [text.split(" shot")[0] for text in X])
    same = of_texts(tiny_encoder, views=(None, cut), n_iterations=0).fit(texts, marked(truth))
    np.testing.assert_array_equal(clf.predict_proba(X), same.predict_proba(texts))


# -- a net for the keyword view ----------------------------------------------------------------
WIDE = (None, first_column)  # two columns and one
OWN = {"module__n_in": 1, "lr": 1.0, "batch_size": 16}


def test_views_of_different_widths_have_a_net_each(moons):
    X, y = moons
    keyword = mlp_net(**OWN)
    clf = model(views=WIDE, keyword_estimator=keyword).fit(X, y)
    assert [net.module_.first.in_features for net in clf.estimators_] == [2, 1]
    assert not keyword.initialized_
    assert clf.n_iter_ == 3
    assert (clf.labeled_iter_ > 0).any()
    parts = [net.forward(part) for net, part in zip(clf.estimators_, (X, X[:, :1]), strict=True)]
    mean = sum(torch.softmax(z.double(), dim=1) for z in parts).numpy() / 2
    np.testing.assert_allclose(clf.predict_proba(X), mean, atol=1e-6)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    chosen = model(views=WIDE, keyword_estimator=keyword, n_iterations=None, max_iter=1)
    assert np.isfinite(chosen.fit(X, y).predict_proba(X)).all()


def test_the_same_net_for_the_keyword_view_changes_nothing(moons):
    X, y = moons
    one = model(one_column_net(), views=COLUMNS).fit(X, y)
    two = model(one_column_net(), views=COLUMNS, keyword_estimator=one_column_net()).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize(
    ("net", "own", "match"),
    [
        (None, None, r"^estimator cannot be trained on the keyword view.* shape \(1,\).*2x16"),
        (one_column_net(), None, r"^estimator cannot be trained on the sentence view.* \(2,\)"),
        (None, mlp_net(), r"^keyword_estimator cannot be trained on the keyword view"),
        (one_column_net(), mlp_net(**OWN), r"^estimator cannot be trained on the sentence view"),
    ],
)
def test_a_net_that_does_not_fit_its_view_raises_an_error(moons, net, own, match):
    X, y = moons
    clf = model(net, views=WIDE, keyword_estimator=own)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match=match) as caught:
        clf.fit(X, y)
    assert "keyword_estimator for the keyword view" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert vars(clf) == before


def test_parameters_of_the_keyword_net(moons):
    X, y = moons
    clf = model(views=WIDE)
    assert clf.get_params()["keyword_estimator"] is None
    for net in (None, "a-checkpoint"):
        clf.set_params(keyword_estimator=net)
        with pytest.raises(ValueError, match=r"keyword_estimator__lr cannot be set while keyword_"):
            clf.set_params(keyword_estimator__lr=0.5)
    clf.set_params(keyword_estimator=mlp_net(**OWN), keyword_estimator__lr=0.25)
    assert clf.get_params()["keyword_estimator__lr"] == 0.25
    assert clf.get_params()["estimator__lr"] == 1.0
    twin = clone(clf)
    assert twin.keyword_estimator is not clf.keyword_estimator
    assert (twin.keyword_estimator.lr, twin.keyword_estimator.module) == (0.25, MLP)
    fitted = twin.fit(X, y)
    assert [net.lr for net in fitted.estimators_] == [1.0, 0.25]


def test_a_text_net_for_the_keyword_view(tiny_encoder, words):
    texts, truth = words
    clf = of_texts(tiny_encoder, keywords="shot", keyword_estimator=net_of(tiny_encoder))
    clf.set_params(keyword_estimator__max_length=8).fit(texts, marked(truth))
    encoded = clf._encode_views(clf.estimators_, texts, reset=False)
    assert encoded["keyword"].shape == (48, 8)
    assert encoded["sentence"].shape[1] > 8
    assert clf.estimators_[1].max_length == 8
    before = clf.predict_proba(texts)
    clf.set_params(keyword_estimator__max_length=4)  # of the next fit
    np.testing.assert_array_equal(clf.predict_proba(texts), before)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"views": KeywordWindow()}, TypeError, "views must be None or a pair"),
        ({"views": (None,)}, TypeError, "views must be None or a pair"),
        ({"views": (None, KeywordWindow)}, TypeError, r"class KeywordWindow.*KeywordWindow\(\)"),
        ({"views": ("text", None)}, TypeError, r"views\[0\] must be None.*got 'text'"),
        ({"keywords": 7, "views": None}, TypeError, "keywords must be"),
        ({"keywords": ["a"]}, ValueError, "keywords has no effect with views"),
        ({"keyword_estimator": 3}, TypeError, "keyword_estimator must be None, the name of"),
        ({"keyword_estimator": mlp_net}, TypeError, "keyword_estimator must be None.*function"),
        (
            {"keyword_estimator": mlp_net(criterion__weight=torch.ones(2))},
            ValueError,
            "keyword_estimator has a custom criterion",
        ),
        ({"views": (lambda X: X[:5], None)}, ValueError, "sentence view of X has 5 rows for 120"),
        ({"views": (None, lambda X: {"a": X})}, TypeError, "keyword view of X must be texts or an"),
        ({"views": (None, lambda X: X * np.nan)}, ValueError, "keyword view of X contains NaN"),
    ],
)
def test_bad_parameters(moons, params, error, match):
    X, y = moons
    clf = model(**params)
    before = dict(vars(clf))
    with pytest.raises(error, match=match):
        clf.fit(X, y)
    assert vars(clf) == before


# -- the contract ------------------------------------------------------------------------------
def test_history_is_complete_and_plain(moons):
    X, y = moons
    clf = model(n_iterations=None, max_iter=1).fit(X, y)
    records = json.loads(json.dumps(clf.selection_history_))
    assert len(records) == 2
    for record in records:
        assert set(record["n_train"]) == set(record["loss"]) == {"sentence", "keyword"}
        assert len(record["loss"]["keyword"]) == 5
        assert sum(record["pseudo_label_counts"].values()) == record["n_added"]
        assert 0 <= record["validation_score"] <= 1
    assert set(records[1]["seconds"]) == {"labeling", "training", "validation"}


def test_a_refit_forgets_the_views_before(tiny_encoder, words, moons):
    texts, truth = words
    clf = of_texts(tiny_encoder, keywords="shot").fit(texts, marked(truth))
    ids = net_of(tiny_encoder).encode(texts)
    with pytest.warns(UserWarning, match="both views"):
        clf.fit(ids, marked(truth))
    assert clf.views_ == (None, None)
    assert clf.n_features_in_ == ids.shape[1]
    clf.fit(texts, marked(truth))
    assert not hasattr(clf, "n_features_in_")


def test_each_view_is_encoded_once(tiny_encoder, words, monkeypatch):
    texts, truth = words
    calls = []
    encode = views_module._encode_view

    def spy(*args):
        calls.append(args[-1])
        return encode(*args)

    monkeypatch.setattr(views_module, "_encode_view", spy)
    clf = of_texts(tiny_encoder, keywords="shot", n_iterations=2).fit(texts, marked(truth))
    assert calls == ["the sentence view of X", "the keyword view of X"]
    clf.predict_proba(texts)
    assert len(calls) == 4
