"""`compare_with_supervised`: out-of-fold scores, verdicts and class shares."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from helpers.nets import TwoInputs, mlp_net
from helpers.optional import pd, pl
from scipy.sparse import coo_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification, make_moons
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    SelfPretrainingClassifier,
    ThrottledSelfTrainingClassifier,
    compare_with_supervised,
)
from sklearn_spt._random import derive_seed
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold, _comparison


@pytest.fixture
def moons():
    X, y = make_moons(150, noise=0.1, random_state=0)
    partial = y.copy()
    partial[60:] = -1
    return X.astype(np.float32), partial, y


def model(**params):
    return SelfPretrainingClassifier(mlp_net(), **{"step_size": 0.5, "random_state": 0, **params})


def compare(*args, **params):
    return compare_with_supervised(
        *args, **{"cv": 3, "n_resamples": 200, "random_state": 0, **params}
    )


def folds_of(X, y, n_splits):
    """The folds of the first repeat with ``random_state=0``."""
    cv = SemiSupervisedStratifiedKFold(n_splits, shuffle=True, random_state=derive_seed(0, 0))
    return cv.split(X, y)


class SignRule(ClassifierMixin, BaseEstimator):
    """Predicts the sign of the first column, with errors by rule; keeps what it was fitted on."""

    seen: ClassVar = []

    def __init__(self, rule="right"):
        self.rule = rule

    def fit(self, X, y):
        SignRule.seen.append((X, y))
        self.classes_ = np.unique(y[y != -1])
        return self

    def predict(self, X):
        right = (X[:, 0] > 0).astype(int)
        row = np.arange(len(X))
        return {
            "right": right,
            "every third is wrong": np.where(row % 3 == 0, 1 - right, right),
            "first of seven is wrong": np.where((row == 0) & (len(X) == 7), 1 - right, right),
            "always the last class": np.full(len(X), self.classes_[-1]),
            "seven": np.full(len(X), 7),
        }[self.rule]


@pytest.fixture
def signs():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(int)
    y[120:] = -1
    SignRule.seen = []
    return X, y


# -- the comparison ------------------------------------------------------------------------------
def test_scores_are_those_of_out_of_fold_predictions(moons):
    X, partial, _ = moons
    found = compare(model(), X, partial)
    y = partial[:60]
    (own,), (start,) = found.semi_supervised_predictions, found.supervised_predictions
    assert found.semi_supervised == pytest.approx(f1_score(y, own))
    assert found.supervised == pytest.approx(f1_score(y, start))
    assert found.gain == pytest.approx(found.semi_supervised - found.supervised)
    assert found.interval[0] <= found.gain <= found.interval[1]
    assert (found.n_labeled, found.n_unlabeled, found.score_name) == (60, 90, "F1")


def test_the_default_rival_is_five_first_teachers(moons):
    X, partial, _ = moons
    starts = []
    clf = model(n_starts=5, on_iteration=lambda it: starts.append(it) if it.number == 0 else None)
    found = compare(clf, X, partial, cv=2, shares=False)
    expected, one = np.empty((2, 60), dtype=int)
    for start, (_, test) in zip(starts, folds_of(X, partial, 2), strict=True):
        expected[test] = start.predict_proba(X[test]).argmax(axis=1)
        one[test] = start.students[0].predict(X[test])  # balanced classes: nothing is adjusted
        assert start.logit_adjustment == 0
    np.testing.assert_array_equal(found.supervised_predictions[0], expected)
    assert found.one_net == pytest.approx(f1_score(partial[:60], one))
    text = f"{found.supervised:.3f} without (5 nets; one net {found.one_net:.3f}); gain"
    assert text in str(found)
    given = compare(clf, X, partial, cv=2, shares=False, supervised=model(max_iter=0))
    assert given.one_net is None
    assert given.supervised == pytest.approx(found.one_net)
    assert f"{given.supervised:.3f} without; gain" in str(given)


def test_no_classifier_sees_the_label_of_a_row_that_it_predicts(signs):
    X, y = signs
    compare(SignRule(), X, y, supervised=SignRule())
    assert len(SignRule.seen) == 6
    for (few, _), (many, labels) in zip(SignRule.seen[0::2], SignRule.seen[1::2], strict=True):
        # a rival from another package gets the same labelled rows only
        np.testing.assert_array_equal(few, many[labels != -1])
        assert (labels == -1).sum() == 80  # all unlabelled rows
        assert len(few) == 80
    left_out = [
        {tuple(row) for row in X[:120]} - {tuple(row) for row in few} for few, _ in SignRule.seen
    ]
    assert set.union(*left_out) == {tuple(row) for row in X[:120]}


def test_a_rival_from_scikit_learn_is_fitted_on_the_labelled_rows(signs):
    X, y = signs
    found = compare(SignRule(), X, y, supervised=LogisticRegression())
    expected = np.empty(120, dtype=int)
    for train, test in folds_of(X, y, 3):
        rows = train[y[train] != -1]
        expected[test] = LogisticRegression().fit(X[rows], y[rows]).predict(X[test])
    np.testing.assert_array_equal(found.supervised_predictions[0], expected)
    with pytest.raises(ValueError, match="predicts 7, which is not one of the classes"):
        compare(SignRule(), X, y, supervised=SignRule("seven"))


def test_verdicts(signs):
    X, y = signs
    better = compare(SignRule(), X, y, supervised=SignRule("every third is wrong"))
    assert better.verdict == "use"
    assert better.probability == 1
    assert str(better).startswith("use: F1 1.000 with the 80 unlabelled rows, 0.6")
    worse = compare(SignRule("every third is wrong"), X, y, supervised=SignRule())
    assert worse.verdict == "do not use"
    assert "The unlabelled rows did not help." in str(worse)
    same = compare(SignRule(), X, y, supervised=SignRule())
    assert (same.verdict, same.gain) == ("do not use", 0)


def test_predictions_of_one_class_are_no_gain():
    """Where most rows are positive, to predict that all are has a better F1 than half of them."""
    X = np.array([[1.0]] * 70 + [[-1.0]] * 10 + [[1.0]] * 20)
    y = np.array([1] * 70 + [0] * 10 + [-1] * 20)
    found = compare(
        SignRule("always the last class"), X, y, supervised=SignRule("every third is wrong")
    )
    assert found.interval[0] > 0
    assert found.verdict == "do not use"
    assert "predicts one class alone" in str(found)


def test_a_gain_that_may_be_due_to_chance(signs):
    X, y = signs
    few = np.r_[0:14, 120:200]
    found = compare(
        SignRule(), X[few], y[few], supervised=SignRule("first of seven is wrong"), cv=2
    )
    assert found.gain > 0
    assert found.verdict == "do not use"
    assert "may be due to chance" in str(found)


# -- shares --------------------------------------------------------------------------------------
def test_shares_among_the_unlabelled(signs):
    X, y = signs
    found = compare(SignRule("every third is wrong"), X, y, supervised=SignRule())
    truth = (X[120:, 0] > 0).mean()
    share, low, high = found.shares[1]
    assert low <= truth <= high
    assert low <= share <= high
    assert found.shares[0][0] == pytest.approx(1 - share)
    assert "Shares among the unlabelled rows, corrected for errors:" in str(found)
    exact = compare(SignRule(), X, y, supervised=SignRule())
    assert exact.shares[1][0] == pytest.approx(truth)
    assert exact.predicted_shares[1] == pytest.approx(truth)


def test_shares_that_cannot_be_corrected(signs):
    X, y = signs
    found = compare(SignRule("always the last class"), X, y, supervised=SignRule())
    assert found.shares is None
    assert found.predicted_shares == {0: 0.0, 1: 1.0}
    assert "cannot be corrected" in str(found)
    without = compare(SignRule(), X, y, supervised=SignRule(), shares=False)
    assert without.shares is without.predicted_shares is None
    assert "Shares" not in str(without)


# -- kinds of input ------------------------------------------------------------------------------
def test_strings_missing_markers_and_more_classes():
    X, y = make_classification(
        200, n_features=6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[90:] = None
    net = mlp_net(module__n_in=6, module__n_classes=3)
    clf = SelfPretrainingClassifier(net, step_size=0.5, unlabeled_marker=None, random_state=0)
    found = compare(clf, X.astype(np.float32), labels)
    assert found.score_name == "macro-F1"
    assert set(found.shares) == {"a", "b", "c"}
    assert sum(share for share, *_ in found.shares.values()) == pytest.approx(1)
    expected = f1_score(
        labels[:90].astype(str), found.semi_supervised_predictions[0].astype(str), average="macro"
    )
    assert found.semi_supervised == pytest.approx(expected)


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series])
def test_texts(tiny_encoder, tiny_texts, kind):
    texts = [*tiny_texts, *reversed(tiny_texts)]
    y = [1, 0] * 8 + [-1] * 32
    net = BertClassifier(tiny_encoder, max_length=32, device="cpu")
    clf = SelfPretrainingClassifier(net, step_size=1.0, alpha=0.0, random_state=0)
    found = compare(clf, kind(texts), y, cv=2)
    assert (found.n_labeled, found.n_unlabeled) == (16, 32)
    assert str(found) == str(compare(clf, np.array(texts), y, cv=2))


@pytest.mark.parametrize(
    ("names", "marker"), [(["a", "b"], -1), (["a", "b"], float("nan")), ([0, 1], "?")]
)
def test_lists_of_labels_of_more_than_one_kind(moons, names, marker):
    X, partial, _ = moons
    y = [marker if label == -1 else names[label] for label in partial]
    found = compare(model(unlabeled_marker=marker), X, y)
    expected = compare(model(), X, partial)
    assert found.gain == pytest.approx(expected.gain)
    assert found.semi_supervised_predictions.tolist() == [
        [names[label] for label in row] for row in expected.semi_supervised_predictions
    ]


@pytest.mark.parametrize("marker", [None, "?"])
def test_whole_numbers_beside_a_marker_for_a_rival_of_another_package(moons, marker):
    X, partial, _ = moons
    y = [marker if label == -1 else int(label) for label in partial]
    rival = {"supervised": LogisticRegression()}
    expected = compare(model(), X, partial, **rival)
    found = compare(model(unlabeled_marker=marker), X, y, **rival)
    assert (found.gain, found.supervised) == (expected.gain, expected.supervised)


def test_parts_of_a_mapping_are_rows_by_position(moons):
    X, partial, _ = moons
    net = clone(model()).set_params(estimator=mlp_net(TwoInputs))
    index = np.random.default_rng(0).permutation(len(X))
    arrays = {"left": X[:, :1], "right": X[:, 1:]}
    frames = {k: pd.DataFrame(part, index=index) for k, part in arrays.items()}
    lists = {k: part.tolist() for k, part in arrays.items()}
    expected = str(compare(net, arrays, partial))
    assert str(compare(net, frames, partial)) == str(compare(net, lists, partial)) == expected


def test_lists_of_rows_and_sparse_matrices(moons):
    X, partial, _ = moons
    expected = str(compare(model(), X, partial))
    assert str(compare(model(), X.tolist(), partial)) == expected
    dense = FunctionTransformer(lambda X: X.toarray(), accept_sparse=True)
    piped = make_pipeline(dense, model())
    assert str(compare(piped, coo_array(X), partial)) == expected


def test_documents_with_keywords_need_a_given_rival(tiny_encoder, tiny_texts):
    clf = CoDecompositionClassifier(BertClassifier(tiny_encoder, max_length=32), keywords="shot")
    with pytest.raises(
        TypeError, match=r"CoDecompositionClassifier has no supervised start.*supervised="
    ):
        compare(clf, tiny_texts, [0, 1, -1] * 8)


def test_the_positive_class_can_be_named(moons):
    X, partial, _ = moons
    found = compare(model(), X, partial, pos_label=0)
    (own,) = found.semi_supervised_predictions
    assert found.semi_supervised == pytest.approx(f1_score(partial[:60], own, pos_label=0))


class Opposite(Pipeline):
    """Predicts the other class."""

    def predict(self, X):
        return 1 - super().predict(X)


def test_one_net_of_a_pipeline_of_another_class(moons, monkeypatch):
    monkeypatch.setattr(_comparison, "_N_NETS", 1)
    found = compare(Opposite([("model", model())]), *moons[:2], cv=2, shares=False)
    assert found.one_net == found.supervised


def test_pipelines_and_other_methods(moons):
    X, partial, _ = moons
    bare = compare(model(), X, partial)
    scaler = StandardScaler(with_std=False, with_mean=False)
    piped = compare(make_pipeline(scaler, model()), X, partial)
    np.testing.assert_array_equal(piped.supervised_predictions, bare.supervised_predictions)
    assert piped.one_net == bare.one_net
    assert piped.gain == bare.gain
    other = ThrottledSelfTrainingClassifier(
        mlp_net(), threshold=0.5, random_state=0, n_iterations=1
    )
    found = compare(other, X, partial)
    np.testing.assert_array_equal(found.supervised_predictions, bare.supervised_predictions)


def test_repeats_processes_and_seeds(moons, capfd):
    X, partial, _ = moons
    found = compare(model(), X, partial, n_repeats=2)
    assert found.semi_supervised_predictions.shape == (2, 60)
    again = compare(model(), X, partial, n_repeats=2, n_jobs=2)
    assert str(again) == str(found)
    assert str(compare(model(), X, partial, n_repeats=2, random_state=1)) != str(found)
    assert capfd.readouterr() == ("", "")
    compare(model(), X, partial, verbose=1)
    assert "comparison: 100%" in capfd.readouterr().err


# -- errors --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cv": 1}, "cv must be at least 2, got"),
        ({"n_repeats": 0}, "n_repeats must be at least 1, got"),
        ({"n_resamples": 0}, "n_resamples must be at least 1, got"),
        ({"confidence": 1.0}, "confidence must lie"),
        ({"cv": 40}, "40"),
        ({"pos_label": 7}, r"pos_label=7 is none of the classes \[0, 1\]"),
    ],
)
def test_bad_parameters(moons, params, message):
    X, partial, _ = moons
    with pytest.raises(ValueError, match=message):
        compare(model(), X, partial, **params)


def test_one_label_of_a_class_is_too_few(moons):
    X, y = moons[0], moons[1].copy()
    rows = np.flatnonzero(y == 1)
    y[rows[1:]] = -1
    with pytest.raises(ValueError, match=r"y has one labelled row of the class 1: .*Label more"):
        compare(model(), X, y)


def test_bad_input(moons):
    X, partial, truth = moons
    with pytest.raises(ValueError, match="y holds no row with the marker -1: the comparison needs"):
        compare(model(), X, truth)
    with pytest.raises(TypeError, match="estimator must be a semi-supervised classifier of this"):
        compare(DummyClassifier(), X, partial)
    with pytest.raises(ValueError, match="y"):
        compare(model(), X, partial[:-1])
