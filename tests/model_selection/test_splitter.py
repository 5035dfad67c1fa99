"""SemiSupervisedStratifiedKFold: its folds, its input, and its use in scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from helpers.optional import pd, pl
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    BaseCrossValidator,
    GridSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
    cross_val_score,
    cross_validate,
)

from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold


def folds_of(cv, X, y, groups=None):
    return [(train.tolist(), test.tolist()) for train, test in cv.split(X, y, groups)]


@pytest.fixture
def iris():
    """Iris, shuffled, with 60% of the labels withheld."""
    X, y = load_iris(return_X_y=True)
    rng = np.random.RandomState(0)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    y[rng.permutation(len(y))[:90]] = -1
    return X, y


class LabelledOnly(ClassifierMixin, BaseEstimator):
    """Logistic regression that ignores the rows marked with -1."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        X, y = np.asarray(X), np.asarray(y)
        self.n_rows_ = len(y)
        self.model_ = LogisticRegression(C=self.C, max_iter=2000).fit(X[y != -1], y[y != -1])
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(np.asarray(X))


# -- what a fold is ---------------------------------------------------------------------------
@settings(deadline=None, max_examples=60)
@given(
    y=st.lists(st.sampled_from([-1, -1, 0, 1, 2]), min_size=4, max_size=40),
    n_splits=st.integers(2, 4),
    shuffle=st.booleans(),
)
def test_folds_partition_the_labelled_rows_and_share_the_unlabelled(y, n_splits, shuffle):
    y = y + [0] * n_splits + [1] * n_splits
    labelled = {row for row, label in enumerate(y) if label != -1}
    cv = SemiSupervisedStratifiedKFold(
        n_splits, shuffle=shuffle, random_state=3 if shuffle else None
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        folds = folds_of(cv, ["text"] * len(y), y)
    assert len(folds) == n_splits
    assert sorted(row for _, test in folds for row in test) == sorted(labelled)
    for train, test in folds:
        assert test
        assert sorted(train + test) == list(range(len(y)))
        assert set(test) <= labelled
        for label in {0, 1, 2} & set(y):
            total = y.count(label)
            here = sum(y[row] == label for row in test)
            assert total // n_splits <= here <= -(-total // n_splits)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([-1, -1, 0, 1]), st.integers(0, 9)), min_size=1, max_size=40
    ),
    shuffle=st.booleans(),
)
def test_no_group_is_in_both_parts(rows, shuffle):
    rows = [*rows, (0, 10), (1, 11), (0, 12), (1, 13)]
    y, groups = (list(column) for column in zip(*rows, strict=True))
    cv = SemiSupervisedStratifiedKFold(2, shuffle=shuffle, random_state=0 if shuffle else None)
    folds = folds_of(cv, y, y, groups)
    assert sorted(row for _, test in folds for row in test) == [
        row for row, label in enumerate(y) if label != -1
    ]
    for train, test in folds:
        tested = {groups[row] for row in test}
        assert tested.isdisjoint(groups[row] for row in train)
        # no other row is left out
        missing = set(range(len(y))) - set(train) - set(test)
        assert all(y[row] == -1 and groups[row] in tested for row in missing)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("n_unlabelled", [0, 11])
def test_labelled_rows_are_split_as_by_scikit_learn(shuffle, n_unlabelled):
    rng = np.random.RandomState(1)
    y, groups = rng.randint(3, size=60), rng.randint(12, size=60)
    every = np.arange(60 + n_unlabelled)
    rows = np.sort(rng.permutation(every)[:60])
    padded, padded_groups = np.full(len(every), -1), np.full(len(every), 12)
    padded[rows], padded_groups[rows] = y, groups
    options = {"n_splits": 4, "shuffle": shuffle, "random_state": 5 if shuffle else None}
    ours = SemiSupervisedStratifiedKFold(**options)
    for found, theirs in (
        (folds_of(ours, padded, padded), StratifiedKFold(**options).split(y, y)),
        (
            folds_of(ours, padded, padded, padded_groups),
            StratifiedGroupKFold(**options).split(y, y, groups),
        ),
    ):
        assert found == [
            (np.setdiff1d(every, rows[test]).tolist(), rows[test].tolist()) for _, test in theirs
        ]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_unlabelled_rows_need_no_group(missing):
    y = [0, 1, -1, -1, 0, 1]
    groups = ["a", "a", missing, "a", "b", "b"]
    cv = SemiSupervisedStratifiedKFold(2)
    folds = folds_of(cv, y, y, pd.Series(groups, dtype=object))
    assert sorted(folds) == [([0, 1, 2, 3], [4, 5]), ([2, 4, 5], [0, 1])]


def test_shuffle_is_reproducible_and_changes_the_folds():
    y = np.tile([0, 1, -1], 20)
    one, same, other = (
        folds_of(SemiSupervisedStratifiedKFold(5, shuffle=True, random_state=seed), y, y)
        for seed in (0, 0, 1)
    )
    assert one == same
    assert one != other
    state = np.random.RandomState(0)
    cv = SemiSupervisedStratifiedKFold(5, shuffle=True, random_state=state)
    assert folds_of(cv, y, y) != folds_of(cv, y, y)  # as in scikit-learn: the state moves on


# -- what X and y may be ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("y", "marker"),
    [
        (["no", "yes", None, "no", "yes", None], None),
        (["no", "yes", None, "no", "yes", None], np.nan),
        (["no", "yes", np.nan, "no", "yes", None], None),
        (["no", "yes", "?", "no", "yes", "?"], "?"),
        (np.array(["no", "yes", "?", "no", "yes", "?"]), "?"),
        (["no", "yes", -1, "no", "yes", -1], -1),
        ([3, 1, -9, 3, 1, -9], -9),
        (np.array([3.0, 1.0, np.nan, 3.0, 1.0, np.nan]), np.nan),
        ([True, False, None, True, False, None], None),
        (pd.Series([1, 0, None, 1, 0, None], dtype="Int64", index=list("uvwxyz")), pd.NA),
        (pd.Series(["a", "b", None, "a", "b", None], dtype="category"), None),
        (pl.Series([1, 0, None, 1, 0, None]), None),
        (pl.Series(["a", "b", "?", "a", "b", "?"]), "?"),
    ],
)
def test_labels_and_markers_of_every_kind(y, marker):
    cv = SemiSupervisedStratifiedKFold(2, unlabeled_marker=marker)
    assert folds_of(cv, range(6), y) == [([2, 3, 4, 5], [0, 1]), ([0, 1, 2, 5], [3, 4])]


class OnlyLength:
    """A container that can be neither converted nor indexed."""

    def __len__(self):
        return 6

    def __array__(self, *args, **kwargs):
        raise AssertionError("X was converted")


@pytest.mark.parametrize(
    "X",
    [
        OnlyLength(),
        ["a"] * 6,
        pd.Series(list("abcdef"), index=[9] * 6),
        pd.DataFrame({"text": list("abcdef")}),
        pl.Series(list("abcdef")),
        np.zeros((6, 2, 2)),
        None,
    ],
    ids=lambda X: type(X).__name__,
)
def test_only_the_length_of_x_counts(X):
    folds = folds_of(SemiSupervisedStratifiedKFold(2), X, [0, 1, -1, 0, 1, -1])
    assert folds == [([2, 3, 4, 5], [0, 1]), ([0, 1, 2, 5], [3, 4])]


# -- errors -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (6, None, "needs y"),
        (3, [-1, -1, -1], "no labelled row"),
        (4, [0, 1, -1], "inconsistent numbers of samples"),
        (4, [[0, 1], [1, 0], [0, 1], [1, 0]], "1d array"),
        (4, [0, 0, 0, -1], "one class only"),
        (4, [0.5, 1.5, 0.5, 1.5], "continuous"),
        (4, ["a", "-1", "a", "b"], "string '-1'"),
        (5, ["yes", "no", "no", "yes", -1], r"each class, which is \('no': 2, 'yes': 2\)"),
    ],
)
def test_bad_labels_are_named_at_once(X, y, match):
    # at the call of split, not at the first fold
    with pytest.raises(ValueError, match=match):
        SemiSupervisedStratifiedKFold(3).split([0] * X, y)


def test_a_rare_class_is_named_in_a_warning():
    y = ["common"] * 6 + ["rare"] * 2 + [None] * 4
    cv = SemiSupervisedStratifiedKFold(3, unlabeled_marker=None)
    with pytest.warns(UserWarning, match="'rare', has only 2 labelled members") as record:
        folds = list(cv.split(y, y))
    assert len(record) == 1
    assert record[0].filename == __file__
    assert [len(test) for _, test in folds] == [3, 3, 2]


@pytest.mark.parametrize(
    ("groups", "match"),
    [
        ([0, 0, 0, 0, 9, 9], "number of groups that have a labelled row: 1"),
        ([0, None, 1, 1, 2, 2], r"groups is missing \(None\) in row 1"),
        ([0, 1], "inconsistent numbers of samples"),
        (np.zeros((6, 2)), "1d array"),
    ],
)
def test_bad_groups(groups, match):
    with pytest.raises(ValueError, match=match):
        SemiSupervisedStratifiedKFold(2).split([0] * 6, [0, 1, 0, 1, -1, -1], groups)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_splits": 1}, ValueError),
        ({"n_splits": 2.5}, ValueError),
        ({"shuffle": "yes"}, TypeError),
        ({"random_state": 0}, ValueError),
    ],
)
def test_parameters_are_checked_by_scikit_learn(options, error):
    with pytest.raises(error) as ours:
        SemiSupervisedStratifiedKFold(**options)
    with pytest.raises(error) as theirs:
        StratifiedKFold(**options)
    assert str(ours.value) == str(theirs.value)


# -- use in scikit-learn ----------------------------------------------------------------------
def test_it_is_a_splitter_of_scikit_learn():
    cv = SemiSupervisedStratifiedKFold(3, shuffle=True, random_state=1)
    assert isinstance(cv, BaseCrossValidator)
    assert check_cv(cv) is cv
    assert cv.get_n_splits() == cv.get_n_splits([0], [0], [0]) == 3
    assert " ".join(repr(SemiSupervisedStratifiedKFold()).split()) == (
        "SemiSupervisedStratifiedKFold(n_splits=5, random_state=None, shuffle=False, "
        "unlabeled_marker=-1)"
    )


def test_grid_search_scores_labelled_rows_only(iris):
    X, y = iris
    cv = SemiSupervisedStratifiedKFold(4)
    grid = {"C": [0.01, 1.0, 100.0]}
    search = GridSearchCV(LabelledOnly(), grid, cv=cv, scoring="accuracy").fit(X, y)

    known = np.flatnonzero(y != -1)
    by_hand = [
        cross_val_score(
            LogisticRegression(C=C, max_iter=2000), X[known], y[known], cv=StratifiedKFold(4)
        ).mean()
        for C in grid["C"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand, rtol=0, atol=1e-12)
    assert search.best_score_ == pytest.approx(max(by_hand))
    assert search.best_estimator_.n_rows_ == len(y)
    # with an ordinary splitter, the marker counts as a class
    ordinary = cross_val_score(LabelledOnly(), X, y, cv=StratifiedKFold(4))
    assert ordinary.mean() < search.best_score_ - 0.3


def test_groups_reach_the_splitter_with_and_without_routing(iris):
    X, y = iris
    groups = np.arange(len(y)) // 3
    cv = SemiSupervisedStratifiedKFold(3)
    expected = [test for _, test in folds_of(cv, X, y, groups)]
    assert expected != [test for _, test in folds_of(cv, X, y)]

    plain = GridSearchCV(LabelledOnly(), {"C": [1.0]}, cv=cv).fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        assert cv.get_metadata_routing().split.requests == {"groups": True}
        routed = GridSearchCV(LabelledOnly(), {"C": [1.0]}, cv=cv).fit(X, y, groups=groups)
        result = cross_validate(
            LabelledOnly(), X, y, cv=cv, params={"groups": groups}, return_indices=True
        )
        # groups stay an option
        assert len(cross_validate(LabelledOnly(), X, y, cv=cv)["test_score"]) == 3
        off = SemiSupervisedStratifiedKFold(3).set_split_request(groups=False)
        assert off.get_metadata_routing().split.requests == {"groups": False}
    assert [test.tolist() for test in result["indices"]["test"]] == expected
    assert routed.best_score_ == plain.best_score_ == result["test_score"].mean()
