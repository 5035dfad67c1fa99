"""Teachers that are no nets: their seeds, their classes, and the documents that they get."""

from functools import partial

import helpers
import numpy as np
import pandas as pd
import pytest
from helpers import bert_net, mlp_net, points
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.random_projection import GaussianRandomProjection
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt import CoDecompositionClassifier

HALF = [1, 0] * 6 + [-1] * 12  # labels of the tiny texts
learner = partial(helpers.learner, step_size=1.0)


# -- seeds -----------------------------------------------------------------------------------------
def test_a_teacher_without_a_seed(tiny_encoder, tiny_texts, global_random_state_unchanged):
    forest = make_pipeline(TfidfVectorizer(), SelfTrainingClassifier(RandomForestClassifier(5)))
    model = learner(bert_net(tiny_encoder), teacher=forest)
    first, again = (model.fit(tiny_texts, HALF).predict_proba(tiny_texts) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = model.set_params(random_state=1).fit(tiny_texts, HALF).predict_proba(tiny_texts)
    assert abs(other - first).max() > 0
    assert model.teacher[-1].estimator.random_state is None, "the user's own stays"


class Seeds(ClassifierMixin, BaseEstimator):
    """Notes the seed that it was fitted with."""

    seen = []  # noqa: RUF012

    def __init__(self, random_state=None, inner=None):
        self.random_state = random_state
        self.inner = inner

    def fit(self, X, y):
        self.fitted_ = True
        self.seen.append([self.random_state, getattr(self.inner, "random_state", None)])
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_seeds_of_teachers():
    X, y, _ = points()
    old = FrozenEstimator(Seeds().fit(X, y))
    given = np.random.RandomState(3)
    teachers = [Seeds(inner=Seeds()), Seeds(7, inner=Seeds()), Seeds(given), "nets", Seeds(), old]
    Seeds.seen.clear()
    model = learner(teacher=teachers).fit(X, y)
    first, second, third, last = Seeds.seen
    drawn = {*first, second[1], last[0]}
    assert len(drawn) == 4
    assert all(isinstance(seed, int) for seed in drawn)
    assert second[0] == 7
    assert third[0].randint(1000) == np.random.RandomState(3).randint(1000)
    assert given.randint(1000) == np.random.RandomState(3).randint(1000), "the user's own stays"
    assert old.estimator.random_state is None
    assert [teacher.random_state for teacher in model.teacher[:2]] == [None, 7]


def test_a_view_without_a_seed(global_random_state_unchanged):
    X, y, _ = points()
    views = (None, GaussianRandomProjection(2))
    clf = CoDecompositionClassifier(mlp_net(), views=views, max_iter=2, threshold=0.55)
    first, again, other = (
        clf.set_params(random_state=seed).fit(X, y).views_[1].components_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 0
    assert clf.views[1].random_state is None


# -- classes ---------------------------------------------------------------------------------------
#: Names of the classes 0, 1 and 2 of the points.
NAMES = {
    "strings": ["ham", "eggs", "spam"],
    "shifted numbers": [1, 2, 3],
    "numbers": [0, 1, 2],
    "scattered numbers": [2, 0, 7],
}


def answers(model, X, y):
    """Return the pseudo-labels of the unlabelled rows, which are those of the teacher."""
    clf = learner(teacher=model).fit(X, y)
    return clf.transduction_[clf.labeled_iter_ > 0]


def named(codes, names):
    return [names[code] if code >= 0 else -1 for code in codes]


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_the_old_classifier_teaches_the_new_one(names):
    X, y, true = points(3)
    labels = named(y, names)
    old = learner().fit(X, labels)
    found = answers([FrozenEstimator(old)], X, labels)
    np.testing.assert_array_equal(found, old.predict(X)[y < 0])
    assert np.mean(found == np.array(named(true, names))[y < 0]) > 0.5


class Rounded(LogisticRegression):
    """Its probabilities have rounding errors below zero."""

    def predict_proba(self, X):
        P = super().predict_proba(X).round()
        return P + np.where(P == 1, 5e-10, -5e-10)


def test_a_rounding_error_below_zero_is_no_probability_of_nan():
    X, y, _true = points()
    old = Rounded().fit(X[y >= 0], y[y >= 0])
    np.testing.assert_array_equal(answers(FrozenEstimator(old), X, y), old.predict(X[y < 0]))


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_class_that_the_old_classifier_lacks_has_probability_0(names):
    X, y, _ = points(3)
    labels = np.array(named(y, names), dtype=object)
    for lacking in names:
        old = LogisticRegression().fit(
            X[(y >= 0) & (labels != lacking)], labels[(y >= 0) & (labels != lacking)].tolist()
        )
        found = answers(make_pipeline(FunctionTransformer(), FrozenEstimator(old)), X, labels)
        np.testing.assert_array_equal(found, old.predict(X[y < 0]))
        learner(teacher=[FrozenEstimator(old), "nets"], temperature=2.0).fit(X, labels)


@pytest.mark.parametrize(
    ("old_names", "names", "foreign"),
    [
        (["a", "b", "c"], ["a", "b", "z"], "'c'"),
        ([0, 1, 2], [1, 2, 3], "0"),
        ([0, 1, 2], ["a", "b", "c"], "0"),
        (["0", "1", "2"], [0, 1, 2], "'0'"),
    ],
    ids=["strings", "shifted numbers", "numbers for strings", "strings for numbers"],
)
def test_a_class_that_y_lacks_is_an_error(old_names, names, foreign):
    X, y, _ = points(3)
    old = LogisticRegression().fit(X[y >= 0], named(y[y >= 0], old_names))
    teachers = [FrozenEstimator(old), make_pipeline(FrozenEstimator(old))]
    if foreign == "0":  # scikit-learn's own takes numbers only here
        teachers.append(SelfTrainingClassifier(FrozenEstimator(old)))
    for teacher in teachers:
        with pytest.raises(ValueError, match=f"the teacher .*{foreign} is no class of y"):
            learner(teacher=teacher).fit(X, named(y, names))


class Learned(ClassifierMixin, BaseEstimator):
    """Learns from some classes; in the order of their codes, or in any other."""

    def __init__(self, codes):
        self.codes = codes

    def fit(self, X, y):
        rows = np.isin(y, self.codes)
        self.model_ = LogisticRegression().fit(X[rows], y[rows])
        self.classes_ = np.array(self.codes)
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)[:, np.argsort(np.argsort(self.codes))]


@pytest.mark.parametrize("codes", [[0, 1, 2], [2, 0, 1], [0, 1]], ids=str)
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_teacher_that_is_fitted_here_knows_codes(names, codes):
    X, y, _ = points(3)
    labels = np.array(named(y, names), dtype=object)
    classes = np.unique(labels[y >= 0].tolist())
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    in_order = np.array([code_of.get(label, -1) for label in labels])
    expected = classes[Learned(codes).fit(X, in_order).model_.predict(X[y < 0])]
    np.testing.assert_array_equal(answers(Learned(codes), X, labels), expected)


class Said(ClassifierMixin, BaseEstimator):
    """Answers that somebody gave; its classes are labels, and it learns nothing."""

    def __init__(self, said):
        self.said = said

    def fit(self, X, y):
        self.classes_ = np.unique(self.said)
        return self

    def predict_proba(self, X):
        return np.asarray(np.asarray(self.said)[:, None] == self.classes_, dtype=float)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_where_labels_could_be_codes_they_are_labels(names):
    X, y, true = points(3)
    said = named(np.maximum(true, 1), names)[: len(X)]
    np.testing.assert_array_equal(answers(Said(said), X, named(y, names)), np.array(said)[y < 0])


# -- documents -------------------------------------------------------------------------------------
def labeled_only(vectorizer):
    return make_pipeline(vectorizer, SelfTrainingClassifier(LogisticRegression(C=100)))


@pytest.mark.parametrize("apart", [False, True])
def test_a_frame_stays_a_frame(tiny_encoder, tiny_texts, apart):
    frame = pd.DataFrame({"text": tiny_texts}, index=range(24, 0, -1))
    by_name = ColumnTransformer([("words", TfidfVectorizer(), "text")])
    on_texts = learner(bert_net(tiny_encoder), teacher=labeled_only(TfidfVectorizer()))
    expected = on_texts.fit(tiny_texts, HALF).predict_proba(tiny_texts)
    clf = learner(bert_net(tiny_encoder), teacher=labeled_only(by_name))
    if apart:
        clf.fit(frame[:13], HALF[:13], X_unlabeled=frame[13:].set_axis(["note"], axis=1))
    else:
        clf.fit(frame, HALF)
    np.testing.assert_array_equal(clf.predict_proba(frame), expected)
    clf.set_params(teacher="embeddings").fit(frame, HALF)


@pytest.mark.parametrize("apart", [False, True])
def test_a_series_stays_a_series(tiny_encoder, tiny_texts, apart):
    series = pd.Series(tiny_texts, index=range(24, 0, -1))
    vectorizer = make_pipeline(FunctionTransformer(lambda s: s.str.upper()), TfidfVectorizer())
    clf = learner(bert_net(tiny_encoder), teacher=labeled_only(vectorizer))
    if apart:
        clf.fit(series[:13], HALF[:13], X_unlabeled=series[13:])
    else:
        clf.fit(series, HALF)
    on_texts = clf.set_params(teacher=labeled_only(TfidfVectorizer()))
    expected = on_texts.fit(tiny_texts, HALF).predict_proba(tiny_texts)
    np.testing.assert_array_equal(clf.predict_proba(series), expected)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_vectorizer_of_texts_cannot_read_a_frame(tiny_encoder, tiny_texts, frozen):
    frame, teacher = pd.DataFrame({"text": tiny_texts}), labeled_only(TfidfVectorizer())
    if frozen:
        teacher = FrozenEstimator(teacher.fit(tiny_texts, HALF))
    model = learner(bert_net(tiny_encoder), teacher=teacher)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        model.fit(frame, HALF)
    name = "FrozenEstimator" if frozen else "Pipeline"
    assert caught.value.__notes__ == [f"The teacher {name} got X as a DataFrame."]
    model.fit(frame["text"], HALF)


def test_documents_of_two_kinds_are_texts_to_a_teacher(tiny_encoder, tiny_texts):
    clf = learner(bert_net(tiny_encoder), teacher=labeled_only(TfidfVectorizer()))
    expected = clf.fit(tiny_texts, HALF).predict_proba(tiny_texts)
    frame = pd.DataFrame({"text": tiny_texts})
    clf.fit(frame[:13], HALF[:13], X_unlabeled=tiny_texts[13:])
    np.testing.assert_array_equal(clf.predict_proba(tiny_texts), expected)
