"""The choice of the number of iterations, on scripted scores and without nets."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from helpers.nets import mlp_net

from sklearn_spt.baselines import ThrottledSelfTrainingClassifier
from sklearn_spt.baselines._throttled import PseudoLabels, ThrottledIteration


class Net:
    """Stand-in for a net with a number of correct predictions on the held-out rows."""

    def __init__(self, right):
        self.right = right


class Scripted(ThrottledSelfTrainingClassifier):
    """Trains nothing; `script` gives the number of correct held-out rows in each iteration."""

    runs: list = []  # noqa: RUF012 - the arguments of each run
    script: tuple = ()
    ended = None

    def _iterations(self, trainer, data):
        run = {"trainer": trainer, "data": data, "nets": []}
        self.runs.append(run)
        pseudo = PseudoLabels(data)
        for t, right in enumerate(self.script):
            if t:
                pseudo.add(pseudo.left[:1], np.array([1]), t)
            net = Net(right)
            run["nets"].append(weakref.ref(net))
            state = pseudo.state(t, [net], t, len(data.y), [], {})
            del net
            yield state
        state.ended = state.ended or self.ended

    def _probabilities(self, trainer, nets, X):
        truth = X[:, 0].astype(int)
        wrong = np.arange(len(truth)) >= nets[0].right
        return np.eye(int(self.n_classes))[(truth + wrong) % self.n_classes]

    n_classes = 2


@pytest.fixture
def documents():
    """50 labelled rows that carry their class in the first column, and 20 others."""
    truth = np.tile([0, 1], 35)
    X = np.column_stack([truth, np.arange(70)]).astype(np.float32)
    y = truth.copy()
    y[50:] = -1
    return X, y


def scripted(script, ended=None, **params):
    clf = Scripted(mlp_net(), random_state=0, **params)
    clf.script, clf.ended, clf.runs = tuple(script), ended, []
    return clf


# -- the choice --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("script", "best"),
    [
        ([5, 6, 9, 7, 8], 2),
        ([9, 6, 9, 7], 0),  # the smallest of equals
        ([5, 6, 7, 8, 9], 4),
        ([5], 0),
        ([0, 0, 0], 0),
    ],
)
def test_the_smallest_iteration_with_the_best_score(documents, script, best):
    clf = scripted(script).fit(*documents)
    scores = [record["validation_score"] for record in clf.selection_history_]
    assert len(scores) == len(script)
    assert int(np.argmax(scores)) == best
    assert clf.n_iter_ == best
    assert clf.termination_condition_ == "validation"
    assert [record["iteration"] for record in clf.history_] == list(range(best + 1))
    assert (clf.labeled_iter_ == -1).sum() == 20 - best
    assert clf.estimators_[0].right == script[best]
    assert len(clf.runs) == 2


def test_the_final_run_uses_all_labelled_rows_and_other_seeds(documents):
    X, y = documents
    clf = scripted([5, 9, 7]).fit(X, y)
    search, final = clf.runs
    assert len(search["data"].y) == 40
    assert len(final["data"].y) == 50
    np.testing.assert_array_equal(final["data"].X_labeled, X[:50])
    assert final["trainer"].root == 0  # the net of iteration t has the seed path (t,)
    assert search["trainer"].root != 0
    assert search["trainer"].progress is final["trainer"].progress
    assert [r["n_train"] for r in clf.selection_history_] == [40, 40, 40]
    assert [r["n_train"] for r in clf.history_] == [50, 50]
    assert all("validation_score" not in r for r in clf.history_)
    assert len(final["nets"]) == 2  # no more than is needed


def test_the_held_out_rows_are_a_stratified_fifth(documents):
    X, y = documents
    clf = scripted([5, 5]).fit(X, y)
    part = clf.runs[0]["data"]
    assert np.bincount(part.y).tolist() == [20, 20]
    np.testing.assert_array_equal(part.X_labeled[:, 0], part.y)
    assert set(part.X_labeled[:, 1]) < set(X[:50, 1])
    np.testing.assert_array_equal(part.X_unlabeled, X[50:])
    third = scripted([5, 5], validation_fraction=0.3).fit(X, y)
    assert len(third.runs[0]["data"].y) == 35


def test_one_net_is_held_at_a_time(documents):
    alive = []

    class Counting(Scripted):
        def _probabilities(self, trainer, nets, X):
            gc.collect()
            alive.append(sum(net() is not None for net in self.runs[-1]["nets"]))
            return super()._probabilities(trainer, nets, X)

    clf = Counting(mlp_net(), random_state=0)
    clf.script, clf.runs = (5, 7, 6, 8, 4, 3), []
    clf.fit(*documents)
    assert max(alive) == 1  # the net that is scored now
    assert len(alive) == 6


def test_a_perfect_score_ends_the_search(documents):
    clf = scripted([5, 10, 9, 10]).fit(*documents)
    assert len(clf.selection_history_) == 2
    assert clf.n_iter_ == 1


def test_max_iter_bounds_the_search(documents):
    clf = scripted([1, 2, 3, 4, 5, 6], max_iter=3).fit(*documents)
    assert len(clf.selection_history_) == 4
    assert clf.n_iter_ == 3


# -- without a choice --------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 2])
def test_a_given_number_skips_the_search(documents, n):
    clf = scripted([5, 6, 7, 8], n_iterations=n, max_iter=1).fit(*documents)
    assert clf.n_iter_ == n
    assert clf.termination_condition_ == "n_iterations"
    assert clf.selection_history_ == []
    assert len(clf.runs) == 1
    assert len(clf.runs[0]["data"].y) == 50


def test_fewer_iterations_than_requested_record_the_reason(documents):
    clf = scripted([5, 6], ended="no_change", n_iterations=7).fit(*documents)
    assert clf.n_iter_ == 1
    assert clf.termination_condition_ == "no_change"
    script = [5, *[6] * 20]
    clf = scripted(script, n_iterations=99).fit(*documents)
    assert clf.n_iter_ == 20
    assert clf.termination_condition_ == "all_labeled"


@pytest.mark.parametrize(
    ("params", "why"), [({"max_iter": 0}, "validation"), ({"threshold": 1.5}, "no_change")]
)
def test_no_search_if_switched_off(documents, params, why):
    clf = scripted([5, 6], **params).fit(*documents)
    assert (clf.n_iter_, clf.termination_condition_) == (0, why)
    assert len(clf.runs) == 1


# -- scores ------------------------------------------------------------------------------------
class OneSided(Scripted):
    """Labels all held-out rows as class 0 at iteration 0, as class 1 at iteration 1."""

    def _probabilities(self, trainer, nets, X):
        return np.eye(2)[np.full(len(X), nets[0].right)]


@pytest.mark.parametrize(
    ("pos_label", "scores"), [(None, [0, 1 / 3]), ("spam", [0, 1 / 3]), ("ham", [16 / 18, 0])]
)
def test_the_score_is_f1_of_the_positive_class(pos_label, scores):
    X = np.zeros((60, 2), np.float32)
    X[:50, 0] = np.repeat([0, 1], [40, 10])
    y = np.repeat(["ham", "spam", "?"], [40, 10, 10])
    clf = OneSided(mlp_net(), pos_label=pos_label, unlabeled_marker="?", random_state=0)
    clf.script, clf.runs = (0, 1), []
    clf.fit(X, y)
    got = [record["validation_score"] for record in clf.selection_history_]
    assert got == pytest.approx(scores)


def test_three_classes_have_macro_f1(documents):
    X, y = documents
    y = y.copy()
    X[:50, 0] = y[:50] = np.arange(50) % 3
    clf = scripted([0, 9])
    clf.n_classes = 3
    clf.fit(X, y)
    first, second = (record["validation_score"] for record in clf.selection_history_)
    assert first == 0
    assert 0.8 < second < 1


# -- few rows ----------------------------------------------------------------------------------
def test_a_class_of_one_row_warns(documents):
    X, y = documents
    y = np.concatenate([np.zeros(49, int), [1], y[50:]])
    with pytest.warns(UserWarning, match="with 50 labelled rows the 10 of .* by class"):
        clf = scripted([5, 6]).fit(X, y)
    assert 1 in clf.runs[0]["data"].y
    assert len(clf.selection_history_) == 2


def test_one_iteration_is_run_if_no_row_can_be_held_out(documents):
    X, y = documents
    few = np.r_[0, 1, 50:70]
    with pytest.warns(UserWarning, match="no labelled row can be held out.* set n_iterations"):
        clf = scripted([5, 6, 7]).fit(X[few], y[few])
    assert clf.n_iter_ == 1
    assert clf.selection_history_ == []


# -- weights -----------------------------------------------------------------------------------
def test_rows_of_weight_zero_are_never_held_out(documents):
    X, y = documents
    weights = np.zeros(70)
    weights[:20] = 3.0
    part = scripted([5, 6])
    part.fit(X, y, sample_weight=weights)
    data = part.runs[0]["data"]
    assert len(data.y) == 50 - 4
    assert set(range(20, 50)) < set(data.X_labeled[:, 1].astype(int))
    assert data.weights.mean() == pytest.approx(1)
    np.testing.assert_array_equal(data.weights > 0, data.X_labeled[:, 1] < 20)


def test_weights_count_in_the_score(documents):
    X, y = documents
    even = scripted([5, 5]).fit(X, y).selection_history_[0]["validation_score"]
    weights = np.random.default_rng(0).uniform(0.1, 9, 70)
    clf = scripted([5, 5]).fit(X, y, sample_weight=weights)
    assert clf.selection_history_[0]["validation_score"] != pytest.approx(even)


# -- pseudo-labels -----------------------------------------------------------------------------
def test_pseudo_labels_are_filed_by_iteration(documents):
    X, y = documents
    clf = scripted([5])
    data = clf._validate(mlp_net(), X, y, None, None)
    pseudo = PseudoLabels(data)
    assert pseudo.left.tolist() == list(range(20))
    pseudo.add(np.array([3, 5]), np.array([1, 0]), 1)
    first = pseudo.state(1, [], 7, 52, [0.5], {})
    pseudo.add(np.array([4]), np.array([1]), 2)
    second = pseudo.state(2, [], 8, 53, [0.4], {})
    assert isinstance(first, ThrottledIteration)
    assert first.record["pseudo_label_counts"] == {0: 1, 1: 1}
    assert (second.record["n_added"], second.record["pool_size"]) == (1, 8)
    assert first.labeled_iter[[3, 4, 5]].tolist() == [1, -1, 1]  # not touched by the second
    assert second.labeled_iter[[3, 4, 5]].tolist() == [1, 2, 1]
    assert first.ended is second.ended is None
    pseudo.add(pseudo.left, np.zeros(17, int), 3)
    assert pseudo.state(3, [], 0, 0, [], {}).ended == "all_labeled"
