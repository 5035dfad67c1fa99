"""One bar over all fits of a search."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.nets import mlp_net
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.utils.parallel import Parallel

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold, search_progress

GRID = {"C": [0.1, 1.0, 10.0]}


@pytest.fixture
def numbers():
    return make_classification(60, random_state=0)


def totals(err):
    """Name, fits done and all fits of the states that the bar showed."""
    return [
        (name, int(done), int(total))
        for name, done, total in re.findall(r"(\w+): .*?(\d+)/(\d+) \[", err)
    ]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("refit", [True, False])
def test_all_fits_are_counted(numbers, n_jobs, refit, capfd):
    search = GridSearchCV(LogisticRegression(), GRID, cv=4, n_jobs=n_jobs, refit=refit)
    with search_progress(search):
        search.fit(*numbers)
    out, err = capfd.readouterr()
    shown = totals(err)
    assert out == ""
    n_fits = 12 + refit
    assert ("GridSearchCV", 0, n_fits) in shown, "the number is known before the first fit ends"
    assert shown[-1] == ("GridSearchCV", n_fits, n_fits)
    assert "fit/s" in err or "s/fit" in err


def test_results_are_the_same(numbers):
    plain = GridSearchCV(LogisticRegression(), GRID).fit(*numbers)
    search = GridSearchCV(LogisticRegression(), GRID)
    with search_progress(search):
        search.fit(*numbers)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )


def test_a_function_without_a_refit(numbers, capfd):
    with search_progress():
        cross_val_score(LogisticRegression(), *numbers, cv=3)
    assert totals(capfd.readouterr().err)[-1] == ("fits", 3, 3)


def test_rounds_of_a_halving_search_add_up(numbers, capfd):
    search = HalvingGridSearchCV(LogisticRegression(), GRID, cv=2, min_resources=20)
    with search_progress(search):
        search.fit(*numbers)
    n_fits = 2 * sum(search.n_candidates_) + 1
    assert totals(capfd.readouterr().err)[-1] == ("HalvingGridSearchCV", n_fits, n_fits)


def test_parallel_calls_inside_a_fit_do_not_count(numbers, capfd):
    voting = VotingClassifier([("a", LogisticRegression()), ("b", LogisticRegression())])
    with search_progress():
        cross_val_score(voting, *numbers, cv=3)
    assert totals(capfd.readouterr().err)[-1] == ("fits", 3, 3)


def test_parallel_calls_inside_the_refit_do_not_count(numbers, capfd):
    search = GridSearchCV(RandomForestClassifier(3), {"max_depth": [1, 2]}, cv=2)
    with search_progress(search):
        search.fit(*numbers)
    assert totals(capfd.readouterr().err)[-1] == ("GridSearchCV", 5, 5)


def test_an_error_ends_the_bar_and_restores_the_methods(numbers, capfd):
    before = Parallel.__call__, Parallel.print_progress
    search = GridSearchCV(LogisticRegression(), {"C": [-1.0]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="'C'"), search_progress(search):
        search.fit(*numbers)
    assert (Parallel.__call__, Parallel.print_progress) == before
    assert totals(capfd.readouterr().err)[-1] == ("GridSearchCV", 0, 3)


def test_a_search_over_the_method(numbers, capfd):
    X, y = numbers
    partial = np.where(np.arange(60) < 30, y, -1)
    clf = SelfPretrainingClassifier(mlp_net(module__n_in=20), step_size=1.0, alpha=0.0)
    search = GridSearchCV(clf, {"lam": [0.1, 0.5]}, cv=SemiSupervisedStratifiedKFold(2))
    with search_progress(search):
        search.fit(X.astype(np.float32), partial)
    assert totals(capfd.readouterr().err)[-1] == ("GridSearchCV", 5, 5)
