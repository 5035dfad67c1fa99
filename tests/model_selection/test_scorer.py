"""Scores count labelled rows only."""

from __future__ import annotations

import pickle
from datetime import date

import numpy as np
import pytest
from helpers.nets import bert_net, mlp_net
from sklearn import config_context
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, get_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.model_selection import make_labeled_scorer


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    X = (rng.normal(size=(60, 2)) + 2 * codes[:, None]).astype(np.float32)
    return X, np.where(rng.random(60) < 0.5, codes, -1), codes


@pytest.fixture
def classifier():
    return SelfPretrainingClassifier(
        mlp_net(), step_size=1.0, alpha=0.0, finetune_epochs=5, random_state=0
    )


def test_score_leaves_unlabeled_rows_out_and_says_how_many(blobs, classifier):
    X, y, _ = blobs
    classifier.fit(X, y)
    marked = y == -1
    with pytest.warns(UserWarning, match=rf"leaves out {marked.sum()} of 60 rows.* with -1"):
        found = classifier.score(X, y)
    assert found == accuracy_score(y[~marked], classifier.predict(X[~marked]))
    assert found == classifier.score(X[~marked], y[~marked])


@pytest.mark.parametrize(
    ("names", "marker"),
    [
        ([0, 1], None),
        ([0, 1], "?"),
        ([False, True], -1),
        ([date(2020, 1, 1), date(2021, 1, 1)], None),
    ],
)
def test_labels_beside_a_marker_of_another_kind(blobs, classifier, names, marker):
    X, partial, _ = blobs
    y = [marker if code == -1 else names[code] for code in partial]
    classifier.set_params(unlabeled_marker=marker).fit(X, y)
    rows = np.flatnonzero(partial != -1)
    expected = np.mean(classifier.predict(X[rows]) == np.array(names)[partial[rows]])
    with pytest.warns(UserWarning, match="leaves out"):
        assert classifier.score(X, y) == expected
    labels = [y[row] for row in rows]
    assert classifier.score(X[rows], labels) == expected
    if not isinstance(names[0], date):
        scorer = make_labeled_scorer("accuracy", unlabeled_marker=marker)
        assert scorer(classifier, X, y) == scorer(classifier, X[rows], labels) == expected


def test_score_takes_weights_of_all_rows(blobs, classifier):
    X, y, _ = blobs
    weights = np.linspace(0.1, 2, 60)
    classifier.fit(X, y)
    labeled = y != -1
    with pytest.warns(UserWarning, match="leaves out"):
        found = classifier.score(X, y, sample_weight=weights)
    want = accuracy_score(
        y[labeled], classifier.predict(X[labeled]), sample_weight=weights[labeled]
    )
    assert found == want


def test_nothing_to_score_is_an_error(blobs, classifier):
    X, y, _ = blobs
    classifier.fit(X, y)
    with pytest.raises(ValueError, match=r"no labelled row to score: all 5 rows .*-1"):
        classifier.score(X[:5], [-1] * 5)


def test_score_of_texts_with_another_marker(tiny_encoder, tiny_texts):
    y = ["yes", "no"] * 12
    net = bert_net(tiny_encoder, max_epochs=1, unlabeled_marker="?").fit(tiny_texts, y)
    marked = [label if row > 5 else "?" for row, label in enumerate(y)]
    with pytest.warns(UserWarning, match="leaves out 6 of 24 rows"):
        assert net.score(tiny_texts, marked) == net.score(tiny_texts[6:], y[6:])


@pytest.mark.filterwarnings("ignore:score leaves out")
def test_default_scores_of_cross_validation_are_those_of_labeled_rows(blobs, classifier):
    X, y, truth = blobs
    found = cross_val_score(classifier, X, y, cv=KFold(3))
    want = []
    for train, test in KFold(3).split(X):
        classifier.fit(X[train], y[train])
        rows = test[y[test] != -1]
        want.append(np.mean(classifier.predict(X[rows]) == truth[rows]))
    np.testing.assert_array_equal(found, want)


def test_scorer_scores_labeled_rows_with_any_metric_and_splitter(blobs, classifier):
    X, y, _ = blobs
    search = GridSearchCV(
        classifier, {"lam": [0.2, 0.8]}, scoring=make_labeled_scorer("f1"), cv=KFold(3)
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    labeled = y != -1
    assert search.score(X, y) == f1_score(y[labeled], search.predict(X[labeled]))


def test_scorer_hands_on_weights_and_survives_a_pickle(blobs):
    X, y, _ = blobs
    clf = DummyClassifier(strategy="constant", constant=1).fit(X, y)
    weights = np.where(y == 1, 3.0, 1.0)
    labeled = y != -1
    scorer = pickle.loads(pickle.dumps(make_labeled_scorer("accuracy")))
    want = accuracy_score(y[labeled], clf.predict(X[labeled]), sample_weight=weights[labeled])
    assert scorer(clf, X, y, sample_weight=weights) == want
    assert scorer(clf, X, y) != want


def test_scorer_asks_for_what_its_metric_asks_for(blobs):
    X, _, codes = blobs
    weights = np.linspace(0.1, 2, 60)
    cv = KFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=True):
        plain = get_scorer("accuracy").set_score_request(sample_weight=True)
        scorer = make_labeled_scorer(plain)
        clf = LogisticRegression().set_fit_request(sample_weight=False)
        params = {"sample_weight": weights}
        found, expected = (
            cross_val_score(clf, X, codes, cv=cv, scoring=each, params=params)
            for each in (scorer, plain)
        )
        np.testing.assert_array_equal(found, expected)
        without = cross_val_score(clf, X, codes, cv=cv, scoring=scorer)
        assert not np.array_equal(found, without)
        scorer = make_labeled_scorer("accuracy")
        with pytest.raises(UnsetMetadataPassedError, match=r"sample_weight.*accuracy"):
            cross_val_score(clf, X, codes, scoring=scorer, params=params)


def test_scorer_refuses_a_fold_without_labels(blobs):
    X, y, _ = blobs
    clf = DummyClassifier().fit(X, y)
    with pytest.raises(ValueError, match="SemiSupervisedStratifiedKFold"):
        make_labeled_scorer("f1", unlabeled_marker="?")(clf, X[:2], ["?", "?"])


def test_scorer_is_readable():
    assert "unlabeled_marker='?'" in repr(make_labeled_scorer("f1", unlabeled_marker="?"))
