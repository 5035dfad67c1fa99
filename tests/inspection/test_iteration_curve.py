from __future__ import annotations

import numpy as np
import pytest
from helpers.figures import Noted, names_of
from numpy.testing import assert_allclose, assert_array_equal
from records import record
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.inspection import IterationCurveDisplay


def scored(*scores):
    return Noted([{"iteration": t, "validation_score": s} for t, s in enumerate(scores)])


def test_mean_and_sd_over_runs():
    runs = np.array([[0.1, 0.2, 0.6], [0.3, 0.2, 0.7], [0.5, 0.2, 0.8]])
    display = IterationCurveDisplay(scores={"k": runs}).plot()
    (line,) = display.lines_
    assert_array_equal(line.get_xdata(), [0, 1, 2])
    assert_allclose(line.get_ydata(), runs.mean(axis=0))
    heights = display.spreads_[0].get_paths()[0].vertices
    assert heights[:, 1].min() == pytest.approx(0.3 - runs[:, 0].std(ddof=1))
    assert heights[:, 1].max() == pytest.approx(0.7 + runs[:, 2].std(ddof=1))
    assert display.ax_.get_ylabel() == "F1, mean ± sd of 3 seeds"
    assert display.figure_ is display.ax_.figure


def test_one_run_has_no_spread_and_a_mean_ends_where_the_first_run_ends():
    runs = {"one": [0.1, 0.2], "two": [[0.1, 0.2, np.nan], [0.3, 0.4, 0.5]]}
    display = IterationCurveDisplay(scores=runs).plot()
    assert display.spreads_[0] is None
    assert_allclose(display.lines_[1].get_ydata(), [0.2, 0.3, np.nan])
    assert IterationCurveDisplay(scores={"a": [0.1]}).plot().ax_.get_ylabel() == "F1"


def test_wrong_shape_is_an_error():
    with pytest.raises(ValueError, match=r"scores\['a'\] must have the shape"):
        IterationCurveDisplay(scores={"a": np.ones((1, 1, 1))}).plot()


def test_from_estimator_draws_the_validation_scores():
    first = IterationCurveDisplay.from_estimator(scored(0.5, None, 0.55), name="mine")
    assert_array_equal(first.lines_[0].get_xdata(), [0, 2])
    assert_allclose(first.lines_[0].get_ydata(), [0.5, 0.55])
    assert first.ax_.get_ylabel() == "validation score"
    second = IterationCurveDisplay.from_estimator(scored(0.5, 0.5), ax=first.ax_)
    assert names_of(second.ax_) == ["mine", "Noted"]
    assert first.lines_[0].get_color() != second.lines_[0].get_color()


def test_scores_of_the_run_that_chose_the_number_of_iterations():
    clf = Noted([{"iteration": 0}, {"iteration": 1}])
    clf.selection_history_ = scored(0.2, 0.5, 0.4).history_
    (line,) = IterationCurveDisplay.from_estimator(clf).lines_
    assert_allclose(line.get_ydata(), [0.2, 0.5, 0.4])


def test_a_pipeline_is_drawn_as_its_last_step():
    (line,) = IterationCurveDisplay.from_estimator(make_pipeline(scored(0.2, 0.4))).lines_
    assert_allclose(line.get_ydata(), [0.2, 0.4])
    assert line.get_label() == "Noted"


def test_from_estimator_without_validation_scores_says_why(fitted):
    with pytest.raises(ValueError, match=r"past students are not kept.*on_iteration"):
        IterationCurveDisplay.from_estimator(fitted)
    with pytest.raises(NotFittedError):
        IterationCurveDisplay.from_estimator(SelfPretrainingClassifier())


def test_from_records_finds_what_differs():
    records = [
        record(seed=seed, f1=0.6 + 0.02 * seed, params={"step_size": k}, n_iter=round(1 / k))
        for k in (0.5, 0.2)
        for seed in (0, 1)
    ]
    display = IterationCurveDisplay.from_records(records)
    assert names_of(display.ax_) == ["0.2", "0.5"]
    assert display.ax_.get_legend().get_title().get_text() == "step size"
    assert [len(line.get_xdata()) for line in display.lines_] == [6, 3]
    assert_allclose(display.lines_[1].get_ydata(), [0.41, 0.51, 0.61])


def test_from_records_leaves_out_records_without_scores():
    plain = record("baseline")
    del plain["iterations"]
    records = [record(), plain, record(seed=1, status="failed")]
    display = IterationCurveDisplay.from_records(records, labels={"self_pretraining": "SPT"})
    assert names_of(display.ax_) == ["SPT"]
    with pytest.raises(ValueError, match=r"no record holds 'f1' per.*--score-iterations"):
        IterationCurveDisplay.from_records([plain])


@pytest.mark.parametrize("key", ["f1", "iteration"])
def test_from_records_names_an_invalid_number(key):
    one = record()
    one["iterations"][1][key] = float("inf")
    with pytest.raises(ValueError, match=rf"illness, 300 labelled.*no number '{key}'"):
        IterationCurveDisplay.from_records([one])
