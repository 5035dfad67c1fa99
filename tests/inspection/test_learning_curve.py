from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from helpers.figures import names_of
from numpy.testing import assert_allclose, assert_array_equal
from records import record
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt.inspection import LearningCurveDisplay


def test_from_records():
    records = [
        record(method, seed, 0.3 + n / 1000 + 0.1 * seed, n_labeled=n)
        for method in ("self_pretraining", "baseline")
        for seed in (0, 1)
        for n in (500, 100, 300)
    ]
    labels = {"baseline": "Baseline", "self_pretraining": "Self-Pretraining"}
    display = LearningCurveDisplay.from_records(records, labels=labels)
    assert names_of(display.ax_) == ["Baseline", "Self-Pretraining"]
    assert_array_equal(display.lines_[0].get_xdata(), [100, 300, 500])
    assert_allclose(display.lines_[0].get_ydata(), [0.45, 0.65, 0.85])
    assert_array_equal(display.ax_.get_xticks(), [100, 300, 500])


def test_data_sets_are_not_mixed():
    with pytest.raises(ValueError, match=r"dataset \(illness, psytar\).*must not be mixed"):
        LearningCurveDisplay.from_records([record(), record(dataset="psytar")])
    with pytest.raises(ValueError, match="metric must be one of 'f1', 'precision'"):
        LearningCurveDisplay.from_records([record()], metric="validation_score")


def test_wide_ranges_are_logarithmic_and_tick_labels_do_not_touch():
    sizes = [20, 21, 100, 1000]
    display = LearningCurveDisplay(n_labeled={"a": sizes}, scores={"a": sizes}).plot()
    assert display.ax_.get_xscale() == "log"
    assert_array_equal(display.ax_.get_xticks(), [20, 100, 1000])


def test_mean_is_over_the_runs_that_have_a_score():
    runs = [[0.1, np.nan], [0.3, np.nan], [0.5, 0.4]]
    display = LearningCurveDisplay(n_labeled={"a": [10, 20]}, scores={"a": runs}).plot()
    assert_allclose(display.lines_[0].get_ydata(), [0.3, 0.4])
    assert display.ax_.get_ylabel() == "F1, mean ± sd of 1 to 3 seeds"


def test_from_estimator_hides_labels(numbers):
    clf = SelfTrainingClassifier(LogisticRegression())
    params = {"n_labeled": (40, 10), "n_repeats": 2}
    display = LearningCurveDisplay.from_estimator(clf, *numbers, name="self-training", **params)
    both = LearningCurveDisplay.from_estimator(
        LogisticRegression(), *numbers, supervised=True, ax=display.ax_, **params
    )
    assert names_of(both.ax_) == ["self-training", "LogisticRegression"]
    assert_array_equal(both.lines_[0].get_xdata(), [10, 40])
    assert display.ax_.get_ylabel() == "macro-F1, mean ± sd of 2 seeds"
    assert not hasattr(clf, "classes_")


def test_the_marker_among_the_labels_is_an_error(numbers):
    X, y = numbers
    with pytest.raises(ValueError, match=r"y must hold the labels of all rows, but holds -1"):
        LearningCurveDisplay.from_estimator(Seeds(), X, np.asarray(y) - 1, n_labeled=(10,))
    params = {"n_labeled": (10,), "n_repeats": 1}
    LearningCurveDisplay.from_estimator(LogisticRegression(), X, y - 1, supervised=True, **params)


def test_a_pipeline_gets_the_marker_and_the_seeds_of_its_last_step(numbers):
    clf = Seeds(unlabeled_marker="?")
    LearningCurveDisplay.from_estimator(
        make_pipeline(FunctionTransformer(), clf), *numbers, n_labeled=(10,), n_repeats=2
    )
    assert Seeds.seen == [(0, "?"), (1, "?")]


class Seeds(ClassifierMixin, BaseEstimator):
    """Notes its seed and the value of most rows of y."""

    seen: ClassVar = []

    def __init__(self, unlabeled_marker=-1, random_state=None):
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state

    def fit(self, X, y):
        values, counts = np.unique(np.asarray(y, dtype=str), return_counts=True)
        Seeds.seen.append((self.random_state, values[counts.argmax()]))
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_bar_counts_fits(numbers, verbose, capfd):
    clf = SelfTrainingClassifier(LogisticRegression())
    params = {"n_labeled": (10, 40), "n_repeats": 2, "verbose": verbose}
    LearningCurveDisplay.from_estimator(clf, *numbers, **params)
    assert ("4/4" in capfd.readouterr().err) == bool(verbose)


def test_supervised_scores_are_those_of_scikit_learn(numbers):
    X, y = numbers
    display = LearningCurveDisplay.from_estimator(
        LogisticRegression(), X, y, n_labeled=[30], n_repeats=1, supervised=True, random_state=5
    )
    X_rest, X_test, y_rest, y_test = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=5
    )
    X_known, _, y_known, _ = train_test_split(
        X_rest, y_rest, train_size=30, stratify=y_rest, random_state=5
    )
    predicted = LogisticRegression().fit(X_known, y_known).predict(X_test)
    expected = f1_score(y_test, predicted, average="macro")
    assert display.scores["LogisticRegression"][0, 0] == pytest.approx(expected)


class Spy(LogisticRegression):
    """Keeps the labels of its last fit."""

    def __init__(self, unlabeled_marker=None):
        super().__init__()
        self.unlabeled_marker = unlabeled_marker

    def fit(self, X, y):
        Spy.seen = y
        known = np.array([label in {"no", "yes", 0, 1} for label in y])
        return super().fit(X[known], np.asarray(y[known].tolist()))


@pytest.mark.parametrize(
    ("names", "marker"),
    [(["no", "yes"], None), ([0, 1], None), ([0, 1], -7), ([0, 1], float("nan")), ([0, 1], "?")],
)
def test_markers_and_labels_of_any_kind(numbers, names, marker):
    X, y = numbers
    labels = np.array(names)[y]
    LearningCurveDisplay.from_estimator(Spy(marker), X, labels, n_labeled=[20], n_repeats=1)
    hidden = [label for label in Spy.seen.tolist() if label not in names]
    assert len(Spy.seen) - len(hidden) == 20
    assert {str(label) for label in hidden} == {str(marker)}
    assert (Spy.seen.dtype == object) == (marker != -7)


def test_too_many_labels(numbers):
    with pytest.raises(ValueError, match="n_labeled=150 is too large: 150 rows are left"):
        LearningCurveDisplay.from_estimator(LogisticRegression(), *numbers, n_labeled=[150])
    with pytest.raises(ValueError, match="n_labeled must hold at least one"):
        LearningCurveDisplay.from_estimator(LogisticRegression(), *numbers, n_labeled=[])
