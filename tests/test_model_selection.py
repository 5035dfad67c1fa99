"""The splitter, the scorer, and the comparison with supervised learning."""

import pickle
import re
import sys
import warnings
from functools import partial
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from helpers import learner, mlp_net, points
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.random_projection import GaussianRandomProjection

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, compare_with_supervised
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold, make_labeled_scorer

X, PARTIAL, TRUTH = points()
self_pretraining = partial(learner, finetune_epochs=2)


def folds_of(cv, y, groups=None):
    return [(train.tolist(), test.tolist()) for train, test in cv.split(y, y, groups)]


# -- the splitter ----------------------------------------------------------------------------------
ROW = st.tuples(st.sampled_from([-1, -1, 0, 1]), st.integers(0, 9))  # its label and its group


@given(st.lists(ROW, min_size=1, max_size=40))
def test_no_group_is_on_both_sides(rows):
    y, groups = zip(*rows, (0, 10), (1, 11), (0, 12), (1, 13), strict=True)
    tested = []
    for train, test in folds_of(SemiSupervisedStratifiedKFold(2), y, groups):
        there = {groups[row] for row in test}
        assert there.isdisjoint(groups[row] for row in train)
        missing = set(range(len(y))) - set(train) - set(test)
        assert all(y[row] == -1 and groups[row] in there for row in missing)
        tested += test
    assert sorted(tested) == [row for row, label in enumerate(y) if label != -1]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("n_unlabeled", [0, 11])
def test_labeled_rows_are_split_as_by_scikit_learn(shuffle, n_unlabeled):
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(60 + n_unlabeled)[:60])
    y, groups = np.full(60 + n_unlabeled, -1), np.full(60 + n_unlabeled, 12)
    y[rows], groups[rows] = rng.integers(3, size=60), rng.integers(12, size=60)
    options = {"n_splits": 4, "shuffle": shuffle, "random_state": 5 if shuffle else None}
    cv = SemiSupervisedStratifiedKFold(**options)
    for kind, of in ((StratifiedKFold, None), (StratifiedGroupKFold, groups)):
        theirs = kind(**options).split(rows, y[rows], None if of is None else of[rows])
        found = [test for _, test in folds_of(cv, y, of)]
        assert found == [rows[test].tolist() for _, test in theirs]
    for train, test in folds_of(cv, y):
        assert sorted(train + test) == list(range(len(y))), "all other rows train"


@pytest.mark.parametrize(
    ("y", "marker"),
    [
        (["no", "yes", "?", "no", "yes", "?"], "?"),
        # missing values are never a class, whatever the marker is
        (["no", "yes", None, "no", "yes", np.nan], -1),
        ([True, False, None, True, False, -1], -1),
        (np.array([3.0, 1.0, np.nan, 3.0, 1.0, np.nan]), -1),
        (pd.Series([1, 0, None, 1, 0, None], dtype="Int64", index=list("uvwxyz")), -1),
        (pd.Series(["a", "b", None, "a", "b", None], dtype="category"), "?"),
    ],
)
def test_labels_and_markers_of_every_kind(y, marker):
    cv = SemiSupervisedStratifiedKFold(2, unlabeled_marker=marker)
    assert folds_of(cv, y) == [([2, 3, 4, 5], [0, 1]), ([0, 1, 2, 5], [3, 4])]


def test_unlabeled_rows_need_no_group():
    y, groups = [0, 1, -1, -1, 0, 1], ["a", "a", None, "a", "b", "b"]
    folds = folds_of(SemiSupervisedStratifiedKFold(2), y, groups)
    assert sorted(folds) == [([0, 1, 2, 3], [4, 5]), ([2, 4, 5], [0, 1])]


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (None, "requires y"),
        ([-1, -1, -1, -1], "no labelled row"),
        ([0, 1, -1], "inconsistent numbers of samples"),
    ],
)
def test_labels_that_cannot_be_split(y, match):
    with pytest.raises(ValueError, match=match):
        next(SemiSupervisedStratifiedKFold(3).split([0] * 4, y))


def test_rare_classes_and_forgotten_markers_are_named():
    with pytest.warns(UserWarning, match="least populated class in y has only 2 members"):
        folds = folds_of(SemiSupervisedStratifiedKFold(3), [0] * 6 + [1] * 2 + [-1] * 4)
    assert [len(test) for _, test in folds] == [3, 3, 2]
    with pytest.warns(UserWarning, match=r"StratifiedKFold takes '\?' for .*unlabeled_marker='\?'"):
        folds_of(SemiSupervisedStratifiedKFold(2), ["a", "b", "?"] * 4)


@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_the_splitter(routing):
    cv, groups = SemiSupervisedStratifiedKFold(3), np.arange(len(X)) // 3
    expected = [test for _, test in folds_of(cv, PARTIAL, groups)]
    assert expected != [test for _, test in folds_of(cv, PARTIAL)]
    with sklearn.config_context(enable_metadata_routing=routing):
        given = {"params": {"groups": groups}} if routing else {"groups": groups}
        result = cross_validate(Scripted(), X, PARTIAL, cv=cv, return_indices=True, **given)
    assert [test.tolist() for test in result["indices"]["test"]] == expected


# -- the scorer ------------------------------------------------------------------------------------
@pytest.mark.parametrize("marker", [-1, None, "?"])
def test_scorer_leaves_out_unlabeled_rows_with_any_metric_and_splitter(marker):
    labels = [marker if label == -1 else ("no", "yes")[label] for label in PARTIAL]
    scorer = make_labeled_scorer("f1_macro", unlabeled_marker=marker)
    clf = self_pretraining(unlabeled_marker=marker).fit(X, labels)
    rows = np.flatnonzero(PARTIAL != -1)
    given = [labels[row] for row in rows]
    expected = f1_score(given, clf.predict(X[rows]), average="macro")
    again = pickle.loads(pickle.dumps(scorer))
    assert scorer(clf, X, labels) == again(clf, X, labels) == scorer(clf, X[rows], given)
    assert scorer(clf, X, labels) == expected
    options = {"scoring": scorer, "cv": KFold(3, shuffle=True, random_state=0)}
    search = GridSearchCV(clf, {"lam": [0.3]}, return_train_score=True, **options)
    search.fit(X, np.array(labels, dtype=object))
    assert np.isfinite(search.cv_results_["mean_train_score"]).all()


def test_scorer_takes_missing_labels_for_unlabeled_and_names_what_it_cannot_score():
    clf = DummyClassifier(strategy="constant", constant=1).fit([[0], [0]], [0, 1])
    assert make_labeled_scorer("accuracy")(clf, [[0]] * 4, [1, 0, None, -1]) == 0.5
    with pytest.raises(ValueError, match=r"no labelled row.*SemiSupervisedStratifiedKFold"):
        make_labeled_scorer("f1")(clf, [[0], [0]], [-1, None])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make_labeled_scorer("accuracy")(clf, [[0]] * 3, [1, 0, None, -1])


def test_scorer_passes_weights_and_requests_what_its_metric_requests():
    weights = np.linspace(0.1, 2, len(X))
    clf = DummyClassifier(strategy="constant", constant=1).fit(X, TRUTH)
    rows = PARTIAL != -1
    expected = accuracy_score(PARTIAL[rows], np.ones(rows.sum()), sample_weight=weights[rows])
    assert make_labeled_scorer("accuracy")(clf, X, PARTIAL, sample_weight=weights) == expected
    with sklearn.config_context(enable_metadata_routing=True):
        plain = get_scorer("accuracy").set_score_request(sample_weight=True)
        clf = LogisticRegression().set_fit_request(sample_weight=False)
        found, theirs = (
            cross_val_score(clf, X, TRUTH, scoring=s, params={"sample_weight": weights})
            for s in (make_labeled_scorer(plain), plain)
        )
    np.testing.assert_array_equal(found, theirs)


# -- the comparison --------------------------------------------------------------------------------
class Scripted(ClassifierMixin, BaseEstimator):
    """Predicts the classes in a column of X; notes what it was fitted on."""

    seen: ClassVar = []

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        Scripted.seen.append((np.asarray(X), y))
        self.classes_ = np.unique([label for label in y if label != -1])
        return self

    def predict(self, X):
        return X[:, self.column].astype(int)


def compare(clf, X, y, **params):
    settings = {"cv": 2, "n_resamples": 100, "random_state": 0}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="y has .* labelled rows|The least populated")
        return compare_with_supervised(clf, X, y, **settings | params)


def scripted(y, first, second, n_unlabeled=20, **params):
    """Compare two classifiers with the given predictions of the labelled rows."""
    X = np.vstack([np.column_stack([first, second]), np.zeros((n_unlabeled, 2), dtype=int)])
    settings = {"supervised": Scripted(0), "n_resamples": 400}
    return compare(Scripted(1), X, np.r_[y, np.full(n_unlabeled, -1)], **settings | params)


def flipped(y, rate, seed):
    return np.where(np.random.default_rng(seed).random(len(y)) < rate, 1 - y, y)


Y = np.random.default_rng(0).integers(2, size=300)


@pytest.mark.parametrize(
    ("n_classes", "params", "name", "score"),
    [
        (2, {}, "F1", f1_score),
        (2, {"pos_label": 0}, "F1", partial(f1_score, pos_label=0)),
        (2, {"scoring": "accuracy"}, "accuracy", accuracy_score),
        (4, {}, "macro-F1", partial(f1_score, average="macro")),
        (4, {"pos_label": 2}, "F1", lambda y, p: f1_score(y, p, average=None)[2]),
    ],
)
def test_scores_are_those_of_scikit_learn(n_classes, params, name, score):
    y, first, second = np.random.default_rng(0).integers(n_classes, size=(3, 300))
    found = scripted(y, first, second, **params)
    assert found.score_name == name
    assert found.supervised == pytest.approx(score(y, first))
    assert found.semi_supervised == pytest.approx(score(y, second))
    assert found.gain == pytest.approx(found.semi_supervised - found.supervised)
    assert found.accuracies == (accuracy_score(y, first), accuracy_score(y, second))
    assert (found.n_labeled, found.n_unlabeled, found.one_net) == (300, 20, None)
    np.testing.assert_array_equal(found.supervised_predictions, [first])
    np.testing.assert_array_equal(found.semi_supervised_predictions, [second])


def test_verdicts_and_what_is_printed():
    better, worse = flipped(Y, 0.1, 2), flipped(Y, 0.3, 1)
    found = scripted(Y, worse, better, n_unlabeled=1200)
    assert found.verdict == "use"
    assert found.interval[0] > 0
    assert found.probability == 1
    text = str(found)
    score = f"F1 {found.semi_supervised:.3f},"
    assert text.startswith(f"use the unlabelled rows\n  with the 1,200 unlabelled rows  {score}")
    assert f"95% interval {found.interval[0]:+.3f} to" in text
    assert re.search(f"without them +F1 {found.supervised:.3f}, accuracy", text)
    assert max(map(len, text.splitlines())) <= 100

    found = scripted(Y, better, worse)
    assert (found.verdict, found.gain < 0) == ("do not use", True)
    assert "ends below +0.01" in str(found)

    few = Y[:40]
    found = scripted(few, np.r_[1 - few[:1], few[1:]], few)
    assert (found.verdict, found.gain > 0) == ("cannot tell", True)
    assert "may be chance" in str(found)
    found = scripted(few, few, few)
    assert (found.verdict, found.gain) == ("cannot tell", 0)
    assert str(found).startswith("cannot tell whether the unlabelled rows help\n")
    assert f"a gain of {found.interval[1]:+.3f} is possible" in str(found)


def test_predictions_of_one_class_are_no_gain():
    """Where most rows are positive, to predict that all are has a better F1 than half of them."""
    y = np.repeat([1, 0], [175, 25])
    found = scripted(y, flipped(y, 0.5, 0), np.ones(200, dtype=int))
    assert found.interval[0] > 0
    assert found.verdict == "do not use"
    assert "every row is predicted 1" in str(found)


# -- its interval ----------------------------------------------------------------------------------
def test_interval_is_that_of_the_posterior():
    """An oracle: the eight kinds of rows have a Dirichlet posterior."""
    counts = np.array([[[70, 3], [0, 5]], [[4, 6], [1, 11]]])  # by class, first, second prediction
    rows = np.repeat(np.stack(np.unravel_index(np.arange(8), (2, 2, 2))), counts.ravel(), axis=1)
    found = scripted(*rows, n_resamples=20_000)
    prior = np.array([[[0, 1], [1, 0]], [[0, 1], [1, 0]]]) / 2
    rng = np.random.default_rng(1)
    P = rng.dirichlet((counts + prior).ravel(), size=50_000).reshape(-1, 2, 2, 2)
    one, other = (
        2 * hits / (P[:, 1].sum(axis=(1, 2)) + predicted)
        for hits, predicted in (
            (P[:, 1, 1].sum(axis=1), P[:, :, 1].sum(axis=(1, 2))),
            (P[:, 1, :, 1].sum(axis=1), P[..., 1].sum(axis=(1, 2))),
        )
    )
    np.testing.assert_allclose(found.interval, np.quantile(other - one, [0.025, 0.975]), atol=0.006)
    assert found.probability == pytest.approx(np.mean(other > one), abs=0.02)


#: Shares of the rows by class, first and second prediction; the two differ in 1.5% and 25%.
POPULATIONS = (
    np.array([[[0.943, 0.002], [0.003, 0.002]], [[0.012, 0.006], [0.004, 0.028]]]),
    np.array([[[0.67, 0.14], [0.09, 0.05]], [[0.01, 0.01], [0.01, 0.02]]]),
)


@pytest.mark.parametrize("scoring", ["f1", "accuracy"])
@pytest.mark.parametrize("population", POPULATIONS)
def test_coverage_of_the_interval(population, scoring):
    score = f1_score if scoring == "f1" else accuracy_score
    kinds = np.stack(np.unravel_index(np.arange(8), (2, 2, 2)))
    y, first, second = np.repeat(kinds, np.round(1000 * population).astype(int).ravel(), axis=1)
    truth = score(y, second) - score(y, first)
    rng, missed = np.random.default_rng(5), np.zeros(2)
    for _ in range(200):
        counts = rng.multinomial(120, population.ravel())
        counts += 2 * (np.arange(8) == 4) * (counts[4:].sum() < 2)  # a fold needs both classes
        low, high = scripted(*np.repeat(kinds, counts, axis=1), scoring=scoring).interval
        missed += truth < low, truth > high
    assert (missed <= 11).all()  # 5 are expected on each side, and fewer by the prior


def test_interval_grows_with_confidence_and_shrinks_with_rows():
    def width(n, confidence):
        first, second = flipped(Y, 0.3, 1)[:n], flipped(Y, 0.25, 2)[:n]
        low, high = scripted(Y[:n], first, second, confidence=confidence).interval
        return high - low

    assert width(300, 0.5) < width(300, 0.9) < width(100, 0.9)


# -- what is fitted --------------------------------------------------------------------------------
def test_no_classifier_learns_the_label_of_a_row_that_it_predicts():
    Scripted.seen = []
    rows, y = np.arange(120), np.r_[Y[:120], np.full(20, -1)]
    X = np.column_stack([np.arange(140), np.zeros(140, dtype=int)])
    compare(Scripted(1), X, y, supervised=Scripted(1), cv=3)
    assert len(Scripted.seen) == 6
    left_out = []
    for (few, _), (many, labels) in zip(Scripted.seen[::2], Scripted.seen[1::2], strict=True):
        known = np.array(labels) != -1
        np.testing.assert_array_equal(few, many[known])  # of another package: labelled rows only
        assert (~known).sum() == 20
        left_out += sorted(set(rows) - set(few[:, 0]))
    assert sorted(left_out) == rows.tolist()


def test_the_default_is_five_teachers():
    X, y, _ = points(n=120)
    clf, one, five = (self_pretraining(n_teachers=n, logit_adjustment=0) for n in (1, 1, 5))
    found = compare(clf, X, y)
    given = compare(clf, X, y, supervised=five.set_params(max_iter=0))
    np.testing.assert_array_equal(found.supervised_predictions, given.supervised_predictions)
    assert given.one_net is None
    assert found.one_net == compare(clf, X, y, supervised=one.set_params(max_iter=0)).supervised
    assert re.search(f"without them, one net +F1 {found.one_net:.3f}", str(found))


@pytest.mark.parametrize(
    ("n_labeled", "refit_head", "epochs"), [(20, True, 10), (22, True, 3), (62, False, 3)]
)
def test_auto_means_in_a_fold_and_for_five_nets_what_it_means_for_all_rows(
    n_labeled, refit_head, epochs, monkeypatch
):
    seen = []

    def no_fit(estimator, X, y, train, test, *how):
        seen.append(estimator.get_params())
        return [np.zeros(len(test), dtype=int)] * 2

    monkeypatch.setattr("sklearn_spt._comparison._out_of_fold", no_fit)
    y = np.r_[np.arange(n_labeled) % 2, np.full(9, -1)]
    compare(SelfPretrainingClassifier(), np.zeros((len(y), 1)), y, cv=5)
    assert [p["refit_head"] for p in seen[1::2]] == [refit_head] * 5
    assert [p["finetune_epochs"] for p in seen] == [epochs] * 10


def test_parameters_are_checked_before_the_first_fold_and_set_only_where_auto(tiny_encoder):
    class Fewer(SelfPretrainingClassifier):
        def __init__(self, estimator=None):
            super().__init__(estimator, refit_head=False, finetune_epochs=1, random_state=0)

    class OwnBert(BertClassifier):
        def __init__(self, pretrained, **kwargs):
            super().__init__(pretrained, **kwargs)

    X, y, _ = points(n=60)
    assert compare(Fewer(mlp_net()), X, y).gain <= 1
    for params in ({"refit_head": "never"}, {"finetune_epochs": "never"}):
        with pytest.raises(ValueError, match=f"{next(iter(params))} must be .*'never'"):
            compare(self_pretraining(**params), X, y)
    own = SelfPretrainingClassifier(OwnBert(tiny_encoder), finetune_epochs=10)
    assert own._template(own.estimator).pretrained == tiny_encoder


def test_pipelines_lists_and_threads_give_the_same():
    expected = str(compare(self_pretraining(), X, PARTIAL))
    pipeline = make_pipeline(FunctionTransformer(), self_pretraining())
    assert str(compare(pipeline, X, PARTIAL)) == expected
    assert str(compare(self_pretraining(), X.tolist(), PARTIAL)) == expected
    with joblib.parallel_config("threading"):
        assert str(compare(self_pretraining(), X, pd.Series(PARTIAL), n_jobs=2)) == expected


@pytest.mark.parametrize(
    ("names", "marker"), [(["a", "b"], -1), (["a", "b"], None), ([0, 1], "?"), ([0, 1], None)]
)
def test_labels_and_markers_of_any_kind(names, marker):
    y = [marker if label == -1 else names[label] for label in PARTIAL]
    clf = self_pretraining(unlabeled_marker=marker)
    for supervised in (None, LogisticRegression()):
        found = compare(clf, X, y, supervised=supervised)
        expected = compare(self_pretraining(), X, PARTIAL, supervised=supervised)
        assert (found.gain, found.supervised) == (expected.gain, expected.supervised)
        codes = expected.semi_supervised_predictions
        np.testing.assert_array_equal(found.semi_supervised_predictions, np.array(names)[codes])


def test_repeats_seeds_and_the_bar(capfd, monkeypatch):
    clf = self_pretraining(max_iter=1)
    found = compare(clf, X, PARTIAL, n_repeats=2)
    assert found.semi_supervised_predictions.shape == (2, found.n_labeled)
    assert str(found) == str(compare(clf, X, PARTIAL, n_repeats=2))
    assert str(found) != str(compare(clf, X, PARTIAL, n_repeats=2, random_state=1))
    assert capfd.readouterr() == ("", "")
    compare(clf, X, PARTIAL, verbose=1)
    shown = capfd.readouterr().err
    assert "comparison: 100%" in shown
    assert "iteration" not in shown  # two bars would take escapes, which a file cannot show
    assert "\x1b" not in shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    compare(clf, X, PARTIAL, verbose=1)
    assert "iteration 1 of 1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("n", "n_positive", "scoring", "least"),
    [(40, 20, "f1", 0.16), (99, 49, "accuracy", 0.10), (400, 20, "f1", 0.16)],
)
def test_few_labels_are_a_warning_before_the_start(n, n_positive, scoring, least):
    y = np.r_[np.repeat([1, 0], [n_positive, n - n_positive]), np.full(9, -1)]
    classifiers = {"estimator": Scripted(), "supervised": Scripted(), "cv": 2}
    with pytest.warns(UserWarning, match=f"{n} labelled rows: only a gain of about {least:.2f}"):
        compare_with_supervised(X=np.zeros((n + 9, 1)), y=y, scoring=scoring, **classifiers)
    compare_with_supervised(X=np.zeros((309, 1)), y=np.r_[Y, y[-9:]], **classifiers)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"cv": 1}, "cv == 1, must be >= 2"),
        ({"cv": 40}, "cv=40 needs a class with 40 labelled rows, but the largest has 17"),
        ({"n_repeats": 0}, "n_repeats == 0"),
        ({"n_resamples": 0}, "n_resamples == 0"),
        ({"confidence": 1.0}, "confidence == 1.0"),
        ({"scoring": "recall"}, 'scoring must be "f1" or "accuracy"'),
        ({"pos_label": 7}, r"pos_label=7 is none of the classes \[0, 1\]"),
        ({"supervised": DummyClassifier(strategy="constant", constant=5)}, "constant"),
    ],
)
def test_parameters_out_of_range(params, match):
    with pytest.raises(ValueError, match=match):
        compare(self_pretraining(max_iter=1), X, PARTIAL, **params)


def test_data_and_classifiers_that_cannot_be_compared():
    with pytest.raises(ValueError, match=r"y holds no unlabelled row \(marker -1\)"):
        compare(self_pretraining(), X, TRUTH)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        compare(self_pretraining(), X, PARTIAL[:-1])
    with pytest.raises(TypeError, match="must be a classifier of this package that trains nets"):
        compare(LogisticRegression(), X, PARTIAL)
    with pytest.raises(ValueError, match=r"y holds .*7.* in row \d+, which is none of \[0, 1\]"):
        scripted(Y, Y + 7 * (1 - Y), Y)


def test_steps_without_a_seed_get_one(global_random_state_unchanged):
    X, y, _ = points(n=60)
    pipeline = make_pipeline(GaussianRandomProjection(2), self_pretraining(max_iter=1))
    scores = [compare(pipeline, X, y, random_state=0).supervised for _ in range(2)]
    assert scores[0] == scores[1]
