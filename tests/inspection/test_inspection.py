from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import matplotlib as mpl
import numpy as np
import pytest
import torch
from helpers.figures import overlaps, texts_of
from helpers.nets import mlp_net
from helpers.variants import variant
from numpy.testing import assert_allclose, assert_array_equal
from records import history, record
from scipy.stats import ttest_1samp
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt import SelfPretrainingClassifier, inspection
from sklearn_spt.inspection import (
    ForestDisplay,
    GainDisplay,
    IterationCurveDisplay,
    LearningCurveDisplay,
    LearningRateDisplay,
    PseudoLabelDisplay,
)
from sklearn_spt.inspection._style import PALETTE
from sklearn_spt.nets._schedules import right_trapezoidal, slanted

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="module")
def numbers():
    return make_classification(200, 8, random_state=0)


@pytest.fixture(scope="module")
def fitted(numbers):
    """Self-Pretraining on 40 labelled and 100 unlabelled rows, in 2 iterations."""
    X, y = numbers
    partial = np.where(np.arange(140) < 40, y[:140], -1)
    net = mlp_net(module__n_in=8, verbose=0, lr=0.25)
    clf = SelfPretrainingClassifier(net, step_size=0.5, random_state=0)
    return clf.fit(X[:140].astype(np.float32), partial)


class RecordingSGD(torch.optim.SGD):
    """Keeps the rate of each step."""

    rates: ClassVar[list[float]] = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


class Noted(BaseEstimator):
    """A fitted estimator that has a history and nothing else."""

    def __init__(self, entries):
        self.history_ = entries

    def fit(self, X, y):
        return self


def names_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


class TestIterationCurve:
    def test_mean_and_sd_over_runs(self):
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

    def test_one_run_has_no_spread(self):
        display = IterationCurveDisplay(scores={"a": [0.1, 0.2]}).plot()
        assert display.spreads_ == [None]
        assert display.ax_.get_ylabel() == "F1"

    def test_a_mean_ends_where_the_first_run_ends(self):
        runs = [[0.1, 0.2, np.nan], [0.3, 0.4, 0.5]]
        display = IterationCurveDisplay(scores={"a": runs}).plot()
        assert_allclose(display.lines_[0].get_ydata(), [0.2, 0.3, np.nan])

    @pytest.mark.parametrize("style", ["errorbar", None])
    def test_style_of_the_spread(self, style):
        scores = {"a": [[0.1, 0.2], [0.2, 0.3]]}
        display = IterationCurveDisplay(scores=scores).plot(std_display_style=style)
        assert (display.spreads_[0] is None) == (style is None)
        assert ("± sd" in display.ax_.get_ylabel()) == (style is not None)

    def test_unknown_style_and_shape(self):
        with pytest.raises(ValueError, match="std_display_style must be one of"):
            IterationCurveDisplay(scores={"a": [0.1]}).plot(std_display_style="violin")
        with pytest.raises(ValueError, match=r"scores\['a'\] must have the shape"):
            IterationCurveDisplay(scores={"a": np.ones((1, 1, 1))}).plot()

    def test_from_estimator_draws_the_validation_scores(self):
        entries = [{"iteration": t, "validation_score": s} for t, s in enumerate([0.5, 0.6, 0.55])]
        display = IterationCurveDisplay.from_estimator(Noted(entries), name="mine")
        assert_allclose(display.lines_[0].get_ydata(), [0.5, 0.6, 0.55])
        assert names_of(display.ax_) == ["mine"]
        assert display.ax_.get_ylabel() == "validation score"

    def test_two_estimators_on_one_pair_of_axes_differ_in_colour(self):
        entries = [{"iteration": t, "validation_score": 0.5} for t in range(2)]
        first = IterationCurveDisplay.from_estimator(Noted(entries), name="one")
        second = IterationCurveDisplay.from_estimator(Noted(entries), name="two", ax=first.ax_)
        assert names_of(second.ax_) == ["one", "two"]
        assert first.lines_[0].get_color() != second.lines_[0].get_color()

    def test_from_estimator_without_validation_scores_says_why(self, fitted):
        with pytest.raises(ValueError, match=r"students of past iterations are gone.*on_iteration"):
            IterationCurveDisplay.from_estimator(fitted)
        with pytest.raises(NotFittedError):
            IterationCurveDisplay.from_estimator(SelfPretrainingClassifier())

    def test_from_records_finds_what_differs(self):
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

    def test_from_records_leaves_out_what_has_no_scores(self):
        plain = record("baseline")
        del plain["iterations"]
        records = [record(), plain, record(seed=1, status="failed")]
        display = IterationCurveDisplay.from_records(records, labels={"self_pretraining": "SPT"})
        assert names_of(display.ax_) == ["SPT"]

    def test_from_records_of_validation_scores(self):
        one = record("self_training")
        del one["iterations"]
        one["history"] = [
            {"iteration": t, "validation_score": s} for t, s in ((0, 0.4), (1, None), (2, 0.5))
        ]
        display = IterationCurveDisplay.from_records([one], metric="validation_score")
        assert_array_equal(display.lines_[0].get_xdata(), [0, 2])

    def test_from_records_without_scores_says_how_to_get_them(self):
        one = record()
        del one["iterations"]
        with pytest.raises(ValueError, match="--score-iterations"):
            IterationCurveDisplay.from_records([one])
        with pytest.raises(ValueError, match="hold no labelled texts out"):
            IterationCurveDisplay.from_records([one], metric="validation_score")
        with pytest.raises(ValueError, match="metric must be one of 'f1'"):
            IterationCurveDisplay.from_records([one], metric="auc")

    def test_from_records_names_a_broken_score(self):
        one = record()
        one["iterations"][1]["f1"] = float("inf")
        with pytest.raises(ValueError, match=r"illness, 300 labelled.*no number 'f1'"):
            IterationCurveDisplay.from_records([one])
        del one["iterations"][0]["iteration"]
        with pytest.raises(ValueError, match="'iterations' without 'iteration'"):
            IterationCurveDisplay.from_records([one])

    def test_all_failed(self):
        with pytest.raises(ValueError, match="all 1 have failed, the first with ValueError: the l"):
            IterationCurveDisplay.from_records([record(status="failed")])
        with pytest.raises(ValueError, match="there is no finished record"):
            IterationCurveDisplay.from_records([])


class TestGrouping:
    """What `from_records` of every display may put into one figure."""

    def test_two_things_that_differ_are_named(self):
        records = [record(params={"lam": a, "alpha": b}) for a in (0.1, 0.3) for b in (0.1, 0.3)]
        message = r"differ in lam \(0.1, 0.3\), alpha \(0.1, 0.3\); select"
        with pytest.raises(ValueError, match=message):
            IterationCurveDisplay.from_records(records)
        with pytest.raises(ValueError, match=r"differ in alpha \(0.1, 0.3\) must not be mixed"):
            IterationCurveDisplay.from_records(records, by="lam")

    @pytest.mark.parametrize("key", ["n_unlabeled", "n_test", "encoder", "normalize", "protocol"])
    def test_settings_are_not_mixed(self, key):
        records = [record(), record("no_inertia", **{key: 7})]
        with pytest.raises(ValueError, match=rf"{key} \(.*7.*must not be mixed"):
            IterationCurveDisplay.from_records(records, by="method")

    def test_methods_may_have_parameters_of_their_own(self):
        records = [record(), record("self_training", params={"threshold": 0.8})]
        display = IterationCurveDisplay.from_records(records)
        assert names_of(display.ax_) == ["self_pretraining", "self_training"]

    def test_by_something_that_is_not_there(self):
        with pytest.raises(ValueError, match="no cell has 'lamb' to group by"):
            IterationCurveDisplay.from_records([record()], by="lamb")

    def test_records_stay_as_they_are(self):
        records = [record(seed=seed) for seed in (0, 1)]
        before = copy.deepcopy(records)
        IterationCurveDisplay.from_records(records)
        LearningCurveDisplay.from_records(records)
        LearningRateDisplay.from_records(records)
        PseudoLabelDisplay.from_records(records)
        assert records == before


class TestLearningRate:
    def test_from_estimator_has_the_rates_of_the_student(self, fitted):
        # 100 pseudo-labelled rows in batches of 8, then three times 40 labelled ones
        display = LearningRateDisplay.from_estimator(fitted)
        expected = [0.25 * right_trapezoidal(step, 13, 15) for step in range(28)]
        assert_allclose(display.lines_[0].get_ydata(), expected)
        assert_array_equal(display.boundary_.get_xdata(), [13, 13])
        assert names_of(display.ax_) == ["right-trapezoidal", "labelled texts begin"]

    def test_rates_are_those_that_the_optimiser_got(self, numbers):
        X, y = numbers
        X, partial = X.astype(np.float32), np.where(np.arange(200) < 40, y, -1)
        clf = SelfPretrainingClassifier(
            mlp_net(module__n_in=8, verbose=0, optimizer=RecordingSGD),
            max_iter=1,
            alpha=0,
            random_state=0,
        )
        RecordingSGD.rates.clear()
        clf.fit(X, partial)
        drawn = LearningRateDisplay.from_estimator(clf).lines_[0].get_ydata()
        assert_allclose(RecordingSGD.rates[-len(drawn) :], drawn)

    @pytest.mark.parametrize(
        ("params", "n"), [({"switch": "one stage"}, 3 * 25), ({"max_iter": 0}, 15)]
    )
    def test_from_estimator_with_a_slanted_rate(self, numbers, params, n):
        X, y = numbers
        X, partial = X.astype(np.float32), np.where(np.arange(200) < 40, y, -1)
        net = mlp_net(module__n_in=8, verbose=0)
        clf = variant(net, step_size=0.5, random_state=0, **params)
        display = LearningRateDisplay.from_estimator(clf.fit(X, partial))
        expected = [0.1 * slanted(step, n) for step in range(n)]
        assert_allclose(display.lines_[0].get_ydata(), expected)
        assert display.boundary_ is None

    def test_from_estimator_survives_a_pickle(self, fitted):
        again = pickle.loads(pickle.dumps(fitted))
        a, b = (LearningRateDisplay.from_estimator(clf).lines_[0] for clf in (fitted, again))
        assert_array_equal(a.get_ydata(), b.get_ydata())

    def test_from_estimator_without_a_student(self):
        clf = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
        with pytest.raises(ValueError, match=r"LogisticRegression has no student_.*from_schedule"):
            LearningRateDisplay.from_estimator(clf)

    def test_from_schedule_compares_the_two_of_the_paper(self):
        display = LearningRateDisplay.from_schedule(n_constant=4, n_decay=5)
        assert_allclose(display.lines_[0].get_ydata(), [1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2])
        assert_allclose(display.lines_[1].get_ydata(), 1 - np.arange(9) / 9)
        assert "multiple of the initial rate" in display.ax_.get_ylabel()
        assert display.ax_.get_xlabel() == "optimiser step"

    def test_from_schedule_of_ones_own(self):
        def cosine(step):
            return np.cos(step)

        display = LearningRateDisplay.from_schedule(
            ["slanted", cosine], n_constant=2, n_decay=2, lr=0.5, names=["a", "b"]
        )
        assert_allclose(display.lines_[1].get_ydata(), 0.5 * np.cos(np.arange(4)))
        assert names_of(display.ax_)[:2] == ["a", "b"]
        assert display.ax_.get_ylabel() == "learning rate"

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"n_constant": -1, "n_decay": 1}, "n_constant must be at least 0"),
            ({"n_constant": 1, "n_decay": 1, "lr": 0.0}, r"lr must lie in \(0, inf\)"),
            ({"schedule": "cosine", "n_constant": 1, "n_decay": 1}, "schedule must be one of"),
            ({"n_constant": 1, "n_decay": 1, "names": ["a", "a"]}, "2 different names"),
        ],
    )
    def test_from_schedule_checks_its_parameters(self, params, message):
        with pytest.raises(ValueError, match=message):
            LearningRateDisplay.from_schedule(**params)

    def test_from_records_counts_the_steps(self):
        # the last of two iterations: 800 texts, then 300 three times
        display = LearningRateDisplay.from_records([record(), record("baseline")], batch_size=32)
        assert_array_equal(display.boundary_.get_xdata(), [25, 25])
        assert [len(line.get_xdata()) for line in display.lines_] == [25 + 30] * 2

    def test_from_records_that_do_not_fit(self):
        with pytest.raises(ValueError, match=r"differ in their steps: 25 \+ 30 steps"):
            LearningRateDisplay.from_records([record(), record(n_iter=3)])
        one = record()
        one["history"] = one["history"][:1]
        with pytest.raises(ValueError, match="trained in two stages"):
            LearningRateDisplay.from_records([one])


class TestPseudoLabels:
    def test_from_estimator_shows_the_history(self, fitted):
        display = PseudoLabelDisplay.from_estimator(fitted)
        entries = fitted.history_[1:]
        for line, label in zip(display.lines_, (0, 1), strict=True):
            assert_array_equal(line.get_xdata(), [1, 2])
            expected = [entry["pseudo_label_counts"][label] for entry in entries]
            assert_array_equal(line.get_ydata(), expected)
        assert len(display.axes_) == 2
        assert len(display.errorbars_) == 4
        after = display.errorbars_[3]
        means = [entry["groups_after"].get(1, {}).get("mean", np.nan) for entry in entries]
        assert_allclose(after.lines[0].get_ydata(), means)
        assert after.get_label() == "1, after inertia"

    def test_error_bars_are_one_sd_of_the_class(self):
        clf = Noted(history(("no", "yes")))
        display = PseudoLabelDisplay.from_estimator(clf, class_names={"yes": "illness"})
        (bars,) = display.errorbars_[0].lines[2]
        low, high = bars.get_segments()[0][:, 1]
        assert (low, high) == pytest.approx((0.9 - 0.1, 0.9 + 0.1))
        assert names_of(display.axes_[0]) == ["no", "illness"]

    def test_bars_stand_beside_each_other(self):
        display = PseudoLabelDisplay.from_estimator(Noted(history(("a", "b", "c"))))
        x = np.array([bars.lines[0].get_xdata() for bars in display.errorbars_])
        assert np.diff(np.sort(x.ravel())).min() > 0.05
        assert_array_equal(np.round(x), np.tile([1, 2], (6, 1)))

    def test_history_may_have_been_json(self):
        entries = history(classes=(0, 1))
        plain = PseudoLabelDisplay.from_estimator(Noted(entries))
        as_json = PseudoLabelDisplay.from_estimator(Noted(json.loads(json.dumps(entries))))
        for a, b in zip(plain.lines_, as_json.lines_, strict=True):
            assert_array_equal(a.get_ydata(), b.get_ydata())
            assert a.get_label() == b.get_label()

    def test_from_records_is_the_mean_over_seeds(self):
        display = PseudoLabelDisplay.from_records([record(seed=s) for s in (0, 1, 2)])
        assert_allclose(display.lines_[1].get_ydata(), [41, 81])
        assert_allclose(display.lines_[0].get_ydata(), [359, 719])
        assert "mean ± sd of 3 seeds" in display.ax_.get_ylabel()

    def test_shares_add_up(self):
        clf = Noted(history(("a", "b", "c")))
        display = PseudoLabelDisplay.from_estimator(clf, share=True, kind="counts")
        total = sum(line.get_ydata() for line in display.lines_)
        assert_allclose(total, 100.0)
        assert len(display.axes_) == 1

    def test_an_iteration_without_pseudo_labels_has_no_share(self):
        entries = history()
        entries[1]["pseudo_label_counts"] = {"0": 0, "1": 0}
        display = PseudoLabelDisplay.from_estimator(Noted(entries), share=True)
        assert np.isnan(display.lines_[0].get_ydata()[0])

    def test_a_class_that_nothing_was_given_to_has_no_bar(self):
        entries = history()
        del entries[1]["groups_before"]["1"]
        display = PseudoLabelDisplay.from_estimator(Noted(entries))
        assert np.isnan(display.errorbars_[2].lines[0].get_ydata()[0])

    def test_without_inertia_there_is_one_panel(self):
        entries = [{"iteration": 1, "pseudo_label_counts": {"a": 3, "b": 1}}]
        display = PseudoLabelDisplay.from_estimator(Noted(entries))
        assert len(display.axes_) == 1
        with pytest.raises(ValueError, match=r"no class distributions to draw.*kind='counts'"):
            PseudoLabelDisplay.from_estimator(Noted(entries), kind="distributions")

    def test_own_axes(self):
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(1, 2)
        display = PseudoLabelDisplay.from_estimator(Noted(history()), ax=axes)
        assert display.axes_ == list(axes)
        assert [ax.get_xlabel() for ax in axes] == ["iteration"] * 2
        with pytest.raises(ValueError, match=r"draws 2 panel\(s\), but ax holds 1 axes"):
            PseudoLabelDisplay.from_estimator(Noted(history()), ax=axes[0])

    def test_no_iteration(self):
        with pytest.raises(ValueError, match="history_ of this Noted holds no pseudo-labels"):
            PseudoLabelDisplay.from_estimator(Noted(history(n_iter=0)))

    def test_one_condition_alone(self):
        with pytest.raises(ValueError, match=r"differ in method \(no_inertia, self_pretraining\)"):
            PseudoLabelDisplay.from_records([record(), record("no_inertia")])


class TestLearningCurve:
    def test_from_records(self):
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

    def test_data_sets_are_not_mixed(self):
        with pytest.raises(ValueError, match=r"dataset \(illness, psytar\).*must not be mixed"):
            LearningCurveDisplay.from_records([record(), record(dataset="psytar")])
        with pytest.raises(ValueError, match="metric must be one of 'f1', 'precision'"):
            LearningCurveDisplay.from_records([record()], metric="validation_score")

    def test_wide_ranges_are_logarithmic_and_ticks_keep_clear(self):
        sizes = [20, 21, 100, 1000]
        display = LearningCurveDisplay(n_labeled={"a": sizes}, scores={"a": sizes}).plot()
        assert display.ax_.get_xscale() == "log"
        assert_array_equal(display.ax_.get_xticks(), [20, 100, 1000])

    def test_from_estimator_hides_labels(self, numbers):
        X, y = numbers
        clf = SelfTrainingClassifier(LogisticRegression())
        display = LearningCurveDisplay.from_estimator(
            clf, X, y, n_labeled=(40, 10), n_repeats=2, name="self-training"
        )
        both = LearningCurveDisplay.from_estimator(
            LogisticRegression(),
            X,
            y,
            n_labeled=(10, 40),
            n_repeats=2,
            supervised=True,
            ax=display.ax_,
        )
        assert names_of(both.ax_) == ["self-training", "LogisticRegression"]
        assert_array_equal(both.lines_[0].get_xdata(), [10, 40])
        assert display.ax_.get_ylabel() == "macro-F1, mean ± sd of 2 seeds"
        assert not hasattr(clf, "classes_")

    def test_supervised_on_few_labels_is_what_scikit_learn_gives(self, numbers):
        from sklearn.metrics import f1_score
        from sklearn.model_selection import train_test_split

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

    def test_markers_and_labels_of_any_kind(self, numbers):
        X, y = numbers
        names = np.array(["no", "yes"])[y]
        seen = []

        class Spy(LogisticRegression):
            def __init__(self, unlabeled_marker=None):
                super().__init__()
                self.unlabeled_marker = unlabeled_marker

            def fit(self, X, y):
                seen.append(y)
                known = np.array([label is not None for label in y])
                return super().fit(X[known], y[known].astype(str))

        LearningCurveDisplay.from_estimator(Spy(), X, names, n_labeled=[20], n_repeats=1)
        assert [label is not None for label in seen[0]].count(True) == 20
        assert {*seen[0]} == {None, "no", "yes"}

    def test_too_many_labels(self, numbers):
        with pytest.raises(ValueError, match="n_labeled=150 is too much: 150 rows are left"):
            LearningCurveDisplay.from_estimator(LogisticRegression(), *numbers, n_labeled=[150])
        with pytest.raises(ValueError, match="n_labeled must hold at least one"):
            LearningCurveDisplay.from_estimator(LogisticRegression(), *numbers, n_labeled=[])


class TestGains:
    def test_points_and_intervals_are_those_of_the_paired_differences(self):
        f1 = {"baseline": [0.5, 0.5, 0.6], "setfit": [0.6, 0.4, 0.6], "tfidf_lr": [0.4, 0.4, 0.4]}
        records = [
            record(method, seed, scores[seed], dataset=dataset)
            for dataset in ("illness", "psytar")
            for method, scores in f1.items()
            for seed in (0, 1, 2)
        ]
        records += [record("setfit", 3, 0.9, dataset="psytar")]  # a seed that baseline lacks
        display = GainDisplay.from_records(records, labels={"tfidf_lr": "TF-IDF"})
        assert list(display.gains) == ["illness", "psytar"]
        assert list(display.gains["psytar"]) == ["TF-IDF", "setfit"]
        assert display.gains["psytar"]["setfit"] == pytest.approx([0.1, -0.1, 0.0])
        of_tfidf = display.points_[0]
        assert of_tfidf.lines[0].get_xdata() == pytest.approx([-4 / 30, -4 / 30])
        (low, _), (high, _) = of_tfidf.lines[2][0].get_segments()[0]
        expected = ttest_1samp([-0.1, -0.1, -0.2], 0).confidence_interval(0.95)
        assert (low, high) == pytest.approx(expected)
        assert "3 seeds" in display.ax_.get_xlabel().replace("\n", " ")

    def test_numbers_of_labels_are_rows_of_their_own(self):
        records = [
            record(method, n_labeled=n) for method in ("baseline", "setfit") for n in (300, 1000)
        ]
        display = GainDisplay.from_records(records)
        rows = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert rows == ["illness, 300 labelled", "illness, 1,000 labelled"]

    def test_a_method_may_lack_a_data_set(self):
        records = [record(m, dataset="illness") for m in ("baseline", "setfit")]
        records += [record(m, dataset="psytar") for m in ("baseline", "tfidf_lr")]
        display = GainDisplay.from_records(records)
        assert [len(points.lines[0].get_xdata()) for points in display.points_] == [1, 1]

    def test_a_single_difference_has_no_interval_and_says_so(self):
        display = GainDisplay(gains={"a": {"b": [0.1]}}, against="c").plot()
        assert display.ax_.get_xlabel() == "gain of F1 over c"

    def test_of_errors_less_is_better(self):
        records = [record(m, s, f) for m, f in (("baseline", 0.5), ("setfit", 0.7)) for s in (0, 1)]
        display = GainDisplay.from_records(records, metric="brier")
        label = " ".join(display.ax_.get_xlabel().split())
        assert label.startswith("change of Brier score (less is better) against baseline")
        assert display.gains["illness"]["setfit"] == pytest.approx([-0.02, -0.02])

    def test_the_confidence_is_not_rounded(self):
        display = GainDisplay(gains={"a": {"b": [0.1, 0.2]}}, against="c").plot(confidence=0.999)
        assert "99.9% interval" in display.ax_.get_xlabel().replace("\n", " ")

    @pytest.mark.parametrize("values", [[], [np.nan], [[0.1, 0.2]]])
    def test_what_are_no_differences_is_an_error(self, values):
        with pytest.raises(ValueError, match=r"gains\['a'\]\['b'\] must hold one finite"):
            GainDisplay(gains={"a": {"b": values}}, against="c").plot()

    def test_no_data_set_and_equal_names_are_errors(self):
        with pytest.raises(ValueError, match="at least one data set"):
            GainDisplay(gains={}, against="c").plot()
        records = [record("baseline"), record("setfit"), record("tfidf_lr")]
        with pytest.raises(ValueError, match="labels must give each method a name of its own"):
            GainDisplay.from_records(records, labels={"setfit": "x", "tfidf_lr": "x"})

    def test_nothing_to_compare_with_is_an_error(self):
        with pytest.raises(
            ValueError, match=r"records of against='baseline' and of another.*setfit"
        ):
            GainDisplay.from_records([record("setfit"), record("tfidf_lr")])
        with pytest.raises(ValueError, match=r"n_test .*must not be mixed"):
            GainDisplay.from_records([record("baseline"), record("setfit", n_test=7)])


MANY = ["TF-IDF + logistic regression", "frozen embeddings + logistic regression", *"abcdefgh"]
DRAWN = {
    "iterations": lambda: IterationCurveDisplay(
        scores={name: [[0.1, 0.2], [0.3, 0.1]] for name in MANY}, legend_title="method"
    ).plot(),
    "many iterations": lambda: IterationCurveDisplay(scores={"a": np.arange(400) / 400}).plot(),
    "schedule": lambda: LearningRateDisplay.from_schedule(n_constant=3130, n_decay=480, lr=3e-5),
    "pseudo-labels": lambda: PseudoLabelDisplay.from_records(
        [record(seed=s, n_iter=20, n_unlabeled=10**6) for s in (0, 1)]
    ),
    "classes": lambda: PseudoLabelDisplay.from_estimator(
        Noted(history(("anger", "fear", "none of all these", "joy"))), share=True
    ),
    "learning curve": lambda: LearningCurveDisplay(
        n_labeled={name: [50, 60, 100, 300, 310, 10_000] for name in MANY},
        scores={name: np.ones((2, 6)) for name in MANY},
    ).plot(),
    "two sizes": lambda: LearningCurveDisplay(
        n_labeled={"a": [300, 301]}, scores={"a": [0.5, 0.6]}
    ).plot(),
    "gains": lambda: GainDisplay(
        gains={f"data set {i}": {name: [0.1, 0.0] for name in MANY} for i in range(6)},
        against="Baseline",
    ).plot(),
    "one size": lambda: LearningCurveDisplay(n_labeled={"a": [300]}, scores={"a": [0.5]}).plot(),
}


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_hides_another_or_is_cut_off(name):
    display = DRAWN[name]()
    assert overlaps(display.figure_) == []
    assert len(texts_of(display.figure_)) > 5
    assert all(ax.get_xlabel() or ax is not display.figure_.axes[-1] for ax in display.figure_.axes)
    assert all(ax.get_ylabel() for ax in display.figure_.axes)


def test_the_check_for_overlaps_finds_some():
    display = DRAWN["one size"]()
    display.figure_.text(0.5, 0.5, "one")
    display.figure_.text(0.5, 0.5, "other")
    display.figure_.text(0.99, 0.5, "outside")
    assert overlaps(display.figure_) == [("outside", "outside"), ("one", "other")]


def test_more_lines_than_colours_still_differ():
    display = IterationCurveDisplay(scores={str(i): [0.1, 0.2] for i in range(20)}).plot()
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in display.lines_}
    assert len(looks) == 20
    assert {line.get_color() for line in display.lines_} == set(PALETTE)


def test_a_figure_without_layout_gets_its_legend_inside():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = IterationCurveDisplay(scores={"a": [0.1, 0.9]}).plot(ax)
    ax.figure.canvas.draw()
    legend, inside = display.ax_.get_legend().get_window_extent(), ax.get_window_extent()
    assert inside.x0 < legend.x0 < legend.x1 < inside.x1


@pytest.mark.parametrize("name", inspection.__all__)
def test_without_matplotlib_the_error_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    made = {
        "IterationCurveDisplay": lambda: IterationCurveDisplay(scores={"a": [0.1]}),
        "LearningCurveDisplay": lambda: LearningCurveDisplay(n_labeled={}, scores={}),
        "LearningRateDisplay": lambda: LearningRateDisplay(rates={"a": [0.1]}),
        "GainDisplay": lambda: GainDisplay(gains={"a": {"b": [0.1]}}, against="c"),
        "ForestDisplay": lambda: ForestDisplay(rows=["a"], panels={"F1": [0.1]}),
        "PseudoLabelDisplay": lambda: PseudoLabelDisplay(iterations=[1], counts={"a": [1]}),
    }
    with pytest.raises(ImportError, match=rf"{name} needs matplotlib.*sklearn-spt\[plot\]"):
        made[name]().plot()


def test_importing_the_displays_imports_no_matplotlib():
    # nor torch, which takes seconds and which no plot of records needs
    code = (
        "import sys, sklearn_spt.inspection as i; print({'matplotlib', 'torch'} & {*sys.modules})"
    )
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=path, check=False
    )
    assert done.stdout == "set()\n", done.stderr
