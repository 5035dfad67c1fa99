"""What every classifier promises: markers, limits, routing, seeds, processes, bars."""

import copy
import enum
import multiprocessing
import pickle
import threading
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import METHODS, bert_net, learner, mlp_net, points
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from skorch.callbacks import Callback

import sklearn_spt
from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    SelfPretrainingClassifier,
    SoftSelfTrainingClassifier,
    TokenIdVectorizer,
    _pretrained,
)
from sklearn_spt._soft_self_training import _sharpened
from sklearn_spt.inspection import FitReport
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

X, Y, CODES = points()


@pytest.fixture(params=METHODS)
def make(request):
    """Makes one of the classifiers with a small net over numbers."""
    return lambda **params: METHODS[request.param](mlp_net(), random_state=0, **params)


# -- markers ---------------------------------------------------------------------------------------
MARKED = {
    "another number": (-9, lambda y: np.where(y < 0, -9, y)),
    "float": (-1, lambda y: y.astype(float)),
    "string": ("?", lambda y: np.array(["?" if c < 0 else "abc"[c] for c in y])),
    "None": (None, lambda y: [None if c < 0 else "abc"[c] for c in y]),
    "NaN for None": (None, lambda y: pd.Series(y, dtype=float).where(y >= 0)),
    "NA for NaN": (np.nan, lambda y: pd.Series(y).where(y >= 0).astype("Int64")),
    "list with -1": (-1, lambda y: [-1 if c < 0 else "abc"[c] for c in y]),
}


@pytest.mark.parametrize("kind", MARKED)
def test_markers_are_equivalent(make, kind):
    X, y, _ = points(3)
    marker, marked = MARKED[kind]
    expected = make().fit(X, y)
    clf = make(unlabeled_marker=marker).fit(X, marked(y))
    np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
    labels = clf.classes_[expected.predict(X)]
    np.testing.assert_array_equal(clf.predict(X), labels)
    assert [*clf.history_[-1]["pseudo_label_counts"]] == clf.classes_.tolist()
    unlabeled = expected.transduction_ == -1
    found = clf.transduction_[unlabeled]
    assert (pd.isna(found) if marker is None or marker != marker else found == marker).all()
    given = expected.transduction_[~unlabeled]
    np.testing.assert_array_equal(clf.transduction_[~unlabeled], clf.classes_[given])


def test_a_net_and_its_method_may_have_one_missing_marker(tiny_encoder, tiny_texts):
    for ours, of_net in ((None, np.nan), (np.nan, pd.NA), (float("nan"), float("nan"))):
        net = bert_net(tiny_encoder, unlabeled_marker=of_net)
        clf = SelfPretrainingClassifier(net, unlabeled_marker=ours, finetune_epochs=1)
        clf.fit(tiny_texts, [0, 1] * 6 + [None] * 12)
        assert (clf.labeled_iter_ == 0).tolist() == [True] * 12 + [False] * 12


def test_the_score_leaves_unlabeled_rows_out(make):
    clf = make().fit(X, Y)
    labeled = Y >= 0
    assert clf.score(X, Y) == np.mean(clf.predict(X[labeled]) == CODES[labeled])
    weights = np.arange(len(Y), dtype=float)
    hits = (clf.predict(X) == Y)[labeled]
    assert clf.score(X, Y, weights) == pytest.approx(np.average(hits, weights=weights[labeled]))
    with pytest.raises(ValueError, match="no labelled row to score"):
        clf.score(X, np.full(len(Y), -1))


def test_a_marker_that_is_not_in_y_lists_the_classes():
    with pytest.warns(UserWarning, match=r"no unlabelled row \(marker -9\).*classes are -1, 0, 1"):
        learner(unlabeled_marker=-9).fit(X, Y)
    labels = np.array(["unknown" if c < 0 else "ab"[c] for c in Y])
    with pytest.warns(UserWarning, match="Is 'unknown' a marker"):
        learner(unlabeled_marker="?").fit(X, np.append(labels[1:], "?"))


def warnings_of(function, *args, **kwargs):
    """The texts of the warnings of labels that a call gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    own = ("differ only in form", "single labelled row", "unsigned dtype")
    found = [w for w in found if any(words in str(w.message) for words in own)]
    assert function is cross_val_score or {w.filename for w in found} <= {__file__}
    return [str(w.message) for w in found]


#: Two or three classes that are meant to be one -> how a warning shows them.
ALIKE = {
    "space": (["spam", "spam "], "{'spam': 9, 'spam ': 3}"),
    "inner space": (["no flu", "no\u00a0 flu"], r"{'no flu': 9, 'no\xa0 flu': 3}"),
    "case": (["HAM", "Ham", "ham"], "{'HAM': 9, 'Ham': 3, 'ham': 3}"),
    "accent": (["cafe\u0301", "café"], "{'cafe\u0301': 9, 'café': 3}"),
    "width": (["spam", "ｓｐａｍ"], "{'spam': 9, 'ｓｐａｍ': 3}"),
    "not seen": (["spam", "spa\u200bm"], r"{'spam': 9, 'spa\u200bm': 3}"),
    "mark of order": (["spam", "\ufeffspam"], r"{'spam': 9, '\ufeffspam': 3}"),
    "number": (["1", "1.0", "01"], "{'01': 3, '1': 9, '1.0': 3}"),
    "negative number": (["-2", "-2.0"], "{'-2': 9, '-2.0': 3}"),
}


@pytest.mark.parametrize("what", ALIKE)
def test_classes_that_differ_only_in_form_are_named_once(what):
    same, shown = ALIKE[what]
    y = np.array([*same[:1] * 9, *same[1:] * 3, *["other"] * 9, *[-1] * 20], dtype=object)
    X = np.random.default_rng(0).normal(size=(len(y), 2)).astype(np.float32)
    for clf in (learner(teacher="embeddings"), SoftSelfTrainingClassifier()):
        (message,) = warnings_of(clf.fit, X, y)
        start = "y holds labels that differ only in form; write them in one way if they are one"
        rarest = min(same[1:])
        assert message == f"{start}: {shown}, {rarest!r} first in row {list(y).index(rarest)}."
        assert {*clf.classes_} == {*same, "other"}


@pytest.mark.parametrize(
    "labels",
    [["spam", "spam1"], ["a b", "ab"], ["1.5", "1.50"], ["0", "00 x"], ["-1x", "1x"], ["10", "1"]],
)
def test_classes_that_differ_in_more_than_form(labels):
    assert not warnings_of(SoftSelfTrainingClassifier().fit, points(2, 8, 0)[0], labels * 4)


def test_each_method_names_labels_that_look_like_another(make):
    labels = np.array(["a", "b", "todo"], dtype=object)[Y]
    (message,) = warnings_of(make(unlabeled_marker="todo").fit, X, np.where(Y > 0, "A", labels))
    assert "if they are one: {'A': " in message
    labels[np.flatnonzero(Y < 0)[:4]] = "todo "
    (message,) = warnings_of(make(unlabeled_marker="todo").fit, X, labels)
    assert "{'todo ': 4, 'todo': 'unlabeled_marker'}" in message


def test_each_method_names_a_class_of_one_row(make):
    X, y, _ = points(3)
    y[np.flatnonzero(y == 2)[1:]] = -1
    (message,) = warnings_of(make().fit, X, y)
    start = "Classes with a single labelled row are hardly learned; label more rows of them"
    assert message.startswith(f"{start}: 2.")


def test_a_net_names_classes_of_one_row_and_labels_that_look_alike(tiny_encoder, tiny_texts):
    net, y = bert_net(tiny_encoder, max_epochs=1), ["a", "b"] * 11 + ["c", "a "]
    messages = warnings_of(net.fit, tiny_texts, y)
    found = [message.partition(": ")[2][:13] for message in messages]
    assert found == ["{'a': 11, 'a ", "'a ', 'c'."]
    assert not warnings_of(net.partial_fit, tiny_texts, y)
    assert not warnings_of(net.partial_fit, tiny_texts[2:4], ["a", "b"])
    new = bert_net(tiny_encoder, max_epochs=1)  # batches may be small
    assert not warnings_of(new.partial_fit, tiny_texts[:2], ["a", "b"], classes=["a", "b", "c"])


def test_a_head_that_is_fitted_anew_gives_no_second_warning(tiny_encoder, tiny_texts):
    y = ["a", "b"] * 5 + ["c"] + [-1] * 13
    params = {"refit_head": True, "finetune_epochs": 1, "teacher": "embeddings"}
    (message,) = warnings_of(learner(bert_net(tiny_encoder), **params).fit, tiny_texts, y)
    assert message.endswith("label more rows of them: 'c'.")


@pytest.mark.parametrize("label", [255, 255.0, 65535, 2**32 - 1, "255"])
def test_a_class_that_may_be_the_marker_in_an_unsigned_dtype_is_named(label):
    labels = [type(label)(code) if code >= 0 else label for code in Y.tolist()]
    for clf in (SoftSelfTrainingClassifier(), learner(max_iter=1)):
        (message,) = warnings_of(clf.fit, X[:60], labels[:60], X[60:])
        assert message.endswith(f"mark rows by unlabeled_marker if it is: {label!r}.")
        assert not warnings_of(clf.fit, X, [*labels[:-1], -1])  # another label, beside -1


def test_a_failed_fit_does_not_silence_the_next():
    with pytest.raises(ValueError, match="C == -1"):
        SoftSelfTrainingClassifier(C=-1.0).fit([[0.0]], [0])
    X = np.eye(3)
    assert len(warnings_of(SoftSelfTrainingClassifier().fit, X, ["a", "b", -1])) == 1


def test_a_comparison_and_a_search_warn_of_labels_once():
    labels = np.array(["a", "b", "todo"], dtype=object)[Y]
    labels[np.flatnonzero(Y == 1)[:3]] = "B"
    labels[np.flatnonzero(Y == 0)[0]] = "c"
    clf = learner(unlabeled_marker="todo", finetune_epochs=1)
    messages = warnings_of(sklearn_spt.compare_with_supervised, clf, X, labels, cv=3)
    assert sum("if they are one: {'B': 3, 'b': " in m for m in messages) == 1
    assert sum("differ only in form" in m for m in messages) == 1
    assert sum("single labelled row" in m for m in messages) == 1
    rows = np.flatnonzero((Y >= 0) & (labels != "B"))
    soft, cv = SoftSelfTrainingClassifier(), KFold(5, shuffle=True, random_state=0)
    found = warnings_of(cross_val_score, soft, X[rows], labels[rows], cv=cv)
    assert len({m for m in found if "single labelled row" in m}) == 1


# -- limits ----------------------------------------------------------------------------------------
def test_zero_iterations_are_supervised():
    supervised = learner(max_iter=0).fit(X, Y)
    with pytest.warns(UserWarning, match="trained on the labelled rows only"):
        without = learner().fit(X[Y >= 0], Y[Y >= 0])
    np.testing.assert_array_equal(supervised.predict_proba(X), without.predict_proba(X))
    assert supervised.termination_condition_ == "max_iter"
    assert without.termination_condition_ == "no_unlabeled"
    assert (without.n_iter_, without.sample_sizes_) == (0, [])


@pytest.mark.parametrize(
    ("step_size", "max_iter", "sizes"),
    [(0.2, None, [13, 26, 39, 52, 62]), (40, None, [40, 62]), (1.0, None, [62]), (100, None, [62]),
     (10, 2, [10, 20])],
)  # fmt: skip
def test_sample_sizes(step_size, max_iter, sizes):
    params = {"step_size": step_size, "max_iter": max_iter}
    clf = clone(learner()).set_params(**params).fit(X, Y)
    assert clf.sample_sizes_ == sizes
    assert clf.n_iter_ == len(sizes) == len(clf.history_) - 1
    complete = sizes[-1] == 62
    assert clf.termination_condition_ == ("all_labeled" if complete else "max_iter")
    assert (clf.labeled_iter_[Y < 0] < 0).any() == (not complete)
    assert (clf.labeled_iter_[Y >= 0] == 0).all()


# -- teachers --------------------------------------------------------------------------------------
class Intent(str, enum.Enum):  # noqa: UP042
    NO = "no"
    YES = "yes"


def test_members_of_an_enumeration_stay_what_they_are(tiny_encoder, tiny_texts, tmp_path):
    """Their spelling, Intent.NO, is not their value."""
    y = [[Intent.NO, Intent.YES][i % 2] if i < 12 else -1 for i in range(24)]
    clf = SelfPretrainingClassifier(bert_net(tiny_encoder), random_state=0).fit(tiny_texts, y)
    assert [type(label) for label in clf.predict(tiny_texts)] == [Intent] * 24
    assert clf.score(tiny_texts, [*y[:12], *y[:12]]) > 0.9
    with pytest.raises(ValueError, match=r"needs code.* labels plain strings"):
        sklearn_spt.save(clf, tmp_path / "model")


@pytest.mark.parametrize("teacher", ["embeddings", LabelSpreading(), [LabelSpreading(), "nets"]])
def test_teachers_that_are_no_nets(teacher):
    clf = learner(teacher=teacher, step_size=1.0).fit(X, Y)
    assert len(clf.estimators_) == 1 + isinstance(teacher, list)
    assert np.mean(clf.predict(X) == CODES) > 0.6


def test_soft_self_training_uses_unlabeled_rows():
    X, y, codes = points(2, n=300, share_unlabeled=0.97)
    sparse = SoftSelfTrainingClassifier().fit(csr_array(X), y).predict_proba(csr_array(X))
    dense = SoftSelfTrainingClassifier().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(sparse, dense, atol=1e-3)
    clf = SoftSelfTrainingClassifier().fit(X, y)
    assert clf.score(X, codes) > 0.5
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_array_equal(clf.transduction_[y < 0], clf.predict(X[y < 0]))
    plain = SoftSelfTrainingClassifier(max_iter=0).fit(X, y)
    labeled = SoftSelfTrainingClassifier().fit(X[y >= 0], y[y >= 0])
    np.testing.assert_array_equal(plain.coef_, labeled.coef_)
    assert not np.allclose(clf.coef_, plain.coef_)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_soft_self_training_takes_more_rows(kind):
    X, y, _ = points(2)
    rows = np.r_[np.flatnonzero(y >= 0), np.flatnonzero(y < 0)]
    X, y, n = X[rows], y[rows], (y >= 0).sum() + 5
    weights = np.linspace(0.5, 2, len(X))
    whole = SoftSelfTrainingClassifier().fit(kind(X), y, sample_weight=weights)
    parts = SoftSelfTrainingClassifier().fit(kind(X[:n]), y[:n], X[n:], weights[:n])
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-6)
    np.testing.assert_array_equal(parts.transduction_, whole.transduction_)
    coef = parts.coef_
    with pytest.raises(ValueError, match="X_unlabeled is not of the same kind as X: X has 1 feat"):
        parts.fit(X[:n], y[:n], X[:3, :1])
    with pytest.warns(UserWarning, match="X_unlabeled has as many rows as X"):
        SoftSelfTrainingClassifier().fit(X[:n], y[:n], X[:n])
    assert SoftSelfTrainingClassifier().fit(X[:n], y[:n], []).transduction_.shape == (n,)
    with pytest.raises(TypeError, match=r"make_pipeline\(SentenceEmbedder\(\), SoftSelf"):
        parts.fit(["a text", "another"], [0, 1])
    np.testing.assert_array_equal(parts.coef_, coef)
    strings = np.array([["1", "2"], ["3", "4"], ["1", "3"]] * 2)
    assert SoftSelfTrainingClassifier().fit(strings, [0, 1, -1] * 2).n_features_in_ == 2


def test_soft_self_training_keeps_a_rare_class():
    """Sharpened probabilities favour the frequent class, which took all rows in six rounds."""
    rng = np.random.default_rng(0)
    codes = (rng.random(1000) < 0.2).astype(int)
    X = rng.normal(size=(1000, 30))
    X[:, 0] += codes
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(np.arange(1000) < 20, codes, -1)
    shares = [
        SoftSelfTrainingClassifier(C=3, max_iter=n).fit(X, y).predict_proba(X[20:])[:, 1].mean()
        for n in (0, 6)
    ]
    np.testing.assert_allclose(*shares, rtol=0.1)
    kept = (y != 0) | (np.cumsum(y == 0) <= 5)  # a row of weight 0 counts for no share
    coef = SoftSelfTrainingClassifier().fit(X, y, sample_weight=kept * 1.0).coef_
    model = SoftSelfTrainingClassifier().fit(X[kept], y[kept])
    np.testing.assert_allclose(coef, model.coef_, atol=1e-3)


def test_sharpening_keeps_class_shares():
    P = softmax(np.random.default_rng(0).normal([1, 0, -3], 1.0, size=(500, 3)), axis=1)
    sharp, free = _sharpened(P, 2.0, held=True), _sharpened(P, 2.0, held=False)
    np.testing.assert_allclose(free, P**2 / (P**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(sharp.sum(axis=1), 1)
    np.testing.assert_allclose(sharp.sum(axis=0), P.sum(axis=0), rtol=1e-4)
    # within a row, the odds are the squared ones times a factor of the class
    factors = np.log(sharp) - 2 * np.log(P)
    assert np.ptp(factors - factors[:, :1], axis=0).max() < 1e-6
    assert np.isfinite(_sharpened(np.tile([1 - 1e-4, 1e-4, 0], (50_000, 1)), 100.0, True)).all()


# -- errors ----------------------------------------------------------------------------------------
class Breaks(Callback):
    def on_epoch_end(self, net, **kwargs):
        raise RuntimeError("stop")


@pytest.mark.parametrize("kind", [*METHODS, "net", "linear"])
def test_a_failed_fit_changes_nothing(kind, tiny_encoder, tiny_texts):
    X, y, _ = points()
    clf, breaks = SoftSelfTrainingClassifier(), {"estimator__callbacks": [Breaks()]}
    if kind == "net":
        X, y, clf = tiny_texts, np.arange(24) % 2, bert_net(tiny_encoder)
        breaks = {"callbacks": [Breaks()]}
    elif kind in METHODS:
        clf = METHODS[kind](mlp_net(), random_state=0)
    fresh = clone(clf)
    before, attributes = clf.fit(X, y).predict_proba(X), set(vars(clf))
    for part, weights in ((y[:-1], None), (y, -np.ones(len(y))), (np.full(len(y), -1), None)):
        with pytest.raises(ValueError, match=r"row|labelled"):
            clf.fit(X, part, sample_weight=weights)
    for one in (clf, fresh) if kind != "linear" else ():
        with pytest.raises(RuntimeError, match="stop"):
            one.set_params(**breaks).fit(X, y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)
    assert set(vars(clf)) == attributes
    with pytest.raises(NotFittedError):
        fresh.predict(X)


# -- composition -----------------------------------------------------------------------------------
def test_search_over_lam_and_alpha_in_processes():
    grid = {"lam": [0.0, 0.8], "alpha": [0.0, 0.6]}
    cv = SemiSupervisedStratifiedKFold(2)
    # a score that depends on every bit of the probabilities
    settings = {"cv": cv, "scoring": "neg_log_loss", "error_score": "raise"}
    search = GridSearchCV(learner(), grid, **settings).fit(X, Y)
    parallel = GridSearchCV(learner(), grid, n_jobs=2, **settings).fit(X, Y)
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(scores, parallel.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(search.predict_proba(X), parallel.predict_proba(X))
    assert len({*scores}) == 4
    by_hand = []
    for train, test in cv.split(X, Y):
        assert (Y[train] < 0).sum() == 62, "all unlabelled rows train, and none is tested"
        P = learner(**search.best_params_).fit(X[train], Y[train]).predict_proba(X[test])
        by_hand.append(-log_loss(Y[test], P))
    assert search.best_score_ == pytest.approx(np.mean(by_hand))


def test_a_net_drops_unlabeled_rows_beside_a_method_of_scikit_learn(tiny_encoder, tiny_texts):
    labels, ids = [0, 1] * 6 + [-1] * 12, TokenIdVectorizer(tiny_encoder, max_length=16)
    with pytest.warns(UserWarning, match="12 unlabelled rows are dropped"):
        make_pipeline(ids, bert_net(tiny_encoder)).fit(tiny_texts, labels)
    beside = SelfTrainingClassifier(bert_net(tiny_encoder), threshold=0.6, max_iter=1)
    model = make_pipeline(ids, beside).fit(tiny_texts, labels)
    assert model.predict(tiny_texts).shape == (24,)


@pytest.mark.parametrize("n", [28, 60, 90])
def test_unlabeled_rows_of_both_arguments_are_one(make, n):
    X, y, _ = points()
    order = np.argsort(y < 0, kind="stable")
    X, y = X[order], y[order]
    whole, apart = make().fit(X, y), make().fit(X[:n], y[:n], X_unlabeled=X[n:])
    np.testing.assert_array_equal(apart.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(apart.transduction_, whole.transduction_)
    np.testing.assert_array_equal(apart.labeled_iter_, whole.labeled_iter_)


def test_unlabeled_rows_are_routed(make):
    labeled = Y >= 0
    expected = make().fit(X[labeled], Y[labeled], X_unlabeled=X[~labeled])
    with config_context(enable_metadata_routing=True):
        routed = make_pipeline(make().set_fit_request(X_unlabeled=True))
        routed.fit(X[labeled], Y[labeled], X_unlabeled=X[~labeled])
    np.testing.assert_array_equal(routed.predict_proba(X), expected.predict_proba(X))
    with pytest.warns(UserWarning, match="as many rows as X"):
        make().fit(X[labeled], Y[labeled], X_unlabeled=X[~labeled][: labeled.sum()])


def test_only_proportions_of_labeled_weights_count(make):
    w = np.linspace(1, 3, len(Y))
    even, weights = np.full(len(Y), 4.0), np.where(Y < 0, np.nan, 5 * w)
    expected = make().fit(X, Y, sample_weight=w).predict_proba(X)
    other = make().fit(X, Y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(other, expected, atol=1e-4)
    plain = make().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(make().fit(X, Y, sample_weight=even).predict_proba(X), plain)
    assert abs(plain - expected).max() > 1e-3


def test_nested_parameters_need_a_net():
    clf = SelfPretrainingClassifier(mlp_net()).set_params(estimator__lr=0.5)
    assert clf.estimator.lr == 0.5
    with pytest.raises(ValueError, match="estimator__lr cannot be set while estimator=None"):
        SelfPretrainingClassifier().set_params(estimator__lr=0.5)
    assert repr(SelfPretrainingClassifier(lam=0.5)) == "SelfPretrainingClassifier(lam=0.5)"


# -- seeds and copies ------------------------------------------------------------------------------
def test_same_seed_same_bits(make, global_random_state_unchanged):
    first, again = make().fit(X, Y), make().fit(X, Y)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    for copied in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
        np.testing.assert_array_equal(first.predict_proba(X), copied.predict_proba(X))
    other = clone(first).set_params(random_state=1).fit(X, Y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


def test_threads_get_the_same_bits():
    expected, found = learner().fit(X, Y).predict_proba(X), [None] * 4

    def work(i):
        found[i] = learner().fit(X, Y).predict_proba(X)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for P in found:
        np.testing.assert_array_equal(P, expected)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="cannot fork")
def test_a_fork_while_another_thread_fits():
    clf = learner().fit(X, Y)
    thread = threading.Thread(target=lambda: learner(step_size=0.05).fit(X, Y))
    thread.start()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    child = multiprocessing.get_context("fork").Process(target=_fit_and_predict, args=(clf, X, Y))
    child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    thread.join()
    torch.set_num_threads(before)
    assert not alive
    assert child.exitcode == 0


def _fit_and_predict(clf, X, y):
    torch.set_num_threads(1)
    np.testing.assert_array_equal(clone(clf).fit(X, y).predict_proba(X), clf.predict_proba(X))


# -- what a user sees ------------------------------------------------------------------------------
class Bar:
    """Stands in for tqdm and remembers every bar."""

    made: ClassVar = []

    def __init__(self, total=None, desc=None, **options):
        self.total, self.n, self.said = total, 0, [(desc, 0)]
        Bar.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def update(self, n):
        assert n >= 0
        self.n += n
        assert self.total is None or self.n <= self.total

    def set_description(self, text):
        self.said.append((text, self.n))


@pytest.fixture
def bars(monkeypatch):
    monkeypatch.setattr("sklearn_spt._estimator.tqdm", Bar)
    Bar.made.clear()
    return Bar.made


@pytest.mark.parametrize(
    ("params", "nets", "students"),
    [({}, 1, 1), ({"n_teachers": 2, "n_students": 3}, 2, 3), ({"teacher": "embeddings"}, 0, 1)],
)
def test_the_bar_knows_its_total(bars, params, nets, students):
    """It counts the texts that nets label and train on, and nothing is corrected at the end."""
    learner(verbose=1, **params).fit(X, Y)
    first = nets * 3 * 28
    second = first + nets * (31 + 28) + students * (31 + 3 * 28)
    total = second + students * (62 + 28) + students * (62 + 3 * 28)
    start, *iterations = bars[0].said
    assert start == ("first teachers", 0)
    assert iterations == [("iteration 1 of 2", first), ("iteration 2 of 2", second)]
    assert bars[0].n == bars[0].total == total


def test_the_bar_of_a_fit_that_goes_on(bars, tmp_path):
    stop = {"checkpoint_dir": tmp_path, "on_iteration": fails_after_one}
    with pytest.raises(InterruptedError):
        learner(**stop).fit(X, Y)
    learner(verbose=1, checkpoint_dir=tmp_path).fit(X, Y)
    assert bars[0].n == bars[0].total
    assert [text for text, _ in bars[0].said] == ["first teachers", "iteration 2 of 2"]


def fails_after_one(iteration):
    if iteration.number == 1:
        raise InterruptedError


def test_bars_of_all_methods(make, bars):
    clf = make(verbose=1).fit(X, Y)
    (bar,) = bars
    assert bar.n > 0
    if not isinstance(clf, CoDecompositionClassifier):
        clf.predict(X)
        assert bars[1].said == [("prediction", 0)]
        assert bars[1].n == bars[1].total == len(clf.estimators_)


def test_nothing_is_printed_but_a_bar_on_request(make, capfd):
    make().fit(X, Y).predict(X)
    assert capfd.readouterr() == ("", "")
    clf = make(verbose=1).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "steps" in err
    assert ("%" in err) == isinstance(clf, SelfPretrainingClassifier)  # others have no total


def test_texts_print_nothing_and_leave_random_states(
    tiny_sentence_encoder, tiny_texts, tiny_y, capfd, global_random_state_unchanged
):
    _pretrained._load_encoder.cache_clear()  # loading it again could print
    net = BertClassifier(tiny_sentence_encoder, device="cpu")
    clf = SelfPretrainingClassifier(net, unlabeled_marker=None)
    clf.fit(tiny_texts, tiny_y).predict(tiny_texts)
    assert capfd.readouterr() == ("", "")
    clf.set_params(verbose=1).fit(tiny_texts, tiny_y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "iteration 1 of 1: 100%" in err
    why = "since there are 6 labels per class"
    chosen = f"refit_head=True, finetune_epochs=10, step_size=1.0, {why}"
    assert f'"auto" chose {chosen}\n' in err
    assert FitReport.from_estimator(clf).facts["chosen by auto"] == chosen
    clf.set_params(refit_head=False, finetune_epochs=1, step_size=0.5, verbose=0)
    assert "chosen by auto" not in FitReport.from_estimator(clf.fit(tiny_texts, tiny_y)).facts


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"refit_head": False}, "finetune_epochs=3, step_size=0.2, since refit_head=False"),
        ({"max_iter": 0}, "refit_head=False, finetune_epochs=3, since max_iter=0"),
        ({}, "refit_head=False, finetune_epochs=3, step_size=0.2, since the net is a Net"),
    ],
)
def test_the_reason_of_what_auto_chose(params, said):
    clf = SelfPretrainingClassifier(mlp_net(), random_state=0, **params).fit(X, Y)
    assert clf.chosen_by_auto_ == said
    del clf.chosen_by_auto_  # as in a folder that was saved before
    assert "chosen by auto" not in FitReport.from_estimator(clf).facts
