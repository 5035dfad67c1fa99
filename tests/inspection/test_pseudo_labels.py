from __future__ import annotations

import numpy as np
import pytest
from helpers.figures import Noted, names_of
from numpy.testing import assert_allclose, assert_array_equal
from records import history, record
from sklearn.pipeline import make_pipeline

from sklearn_spt.inspection import PseudoLabelDisplay


def drawn(entries, ax=None):
    return PseudoLabelDisplay.from_estimator(Noted(entries), ax=ax)


def test_from_estimator_shows_the_history(fitted):
    display = PseudoLabelDisplay.from_estimator(make_pipeline(fitted))
    entries = fitted.history_[1:]
    for line, label in zip(display.lines_, (0, 1), strict=True):
        assert_array_equal(line.get_xdata(), [1, 2])
        assert_array_equal(
            line.get_ydata(), [entry["pseudo_label_counts"][label] for entry in entries]
        )
    assert len(display.axes_) == 2
    assert len(display.errorbars_) == 4
    after = display.errorbars_[3]
    means = [entry["groups_after"].get(1, {}).get("mean", np.nan) for entry in entries]
    assert_allclose(after.lines[0].get_ydata(), means)
    assert after.get_label() == "1, after inertia"


def test_the_start_has_no_pseudo_labels():
    start = {"iteration": 0, "pseudo_label_counts": {"no": 0, "yes": 0}}
    first = {"iteration": 1, "pseudo_label_counts": {"no": 3, "yes": 2}}
    display = PseudoLabelDisplay.from_estimator(Noted([start, first]))
    assert list(display.iterations) == [1]
    with pytest.raises(ValueError, match="holds no pseudo-labels"):
        PseudoLabelDisplay.from_estimator(Noted([start]))


def test_error_bars_are_one_sd_of_the_class():
    display = drawn(history(("no", "yes")))
    (bars,) = display.errorbars_[0].lines[2]
    assert bars.get_segments()[0][:, 1] == pytest.approx((0.9 - 0.1, 0.9 + 0.1))
    assert names_of(display.axes_[0]) == ["no", "yes"]


def test_bars_are_side_by_side():
    x = np.array([bars.lines[0].get_xdata() for bars in drawn(history(("a", "b", "c"))).errorbars_])
    assert np.diff(np.sort(x.ravel())).min() > 0.05
    assert_array_equal(np.round(x), np.tile([1, 2], (6, 1)))


def test_from_records_is_the_mean_over_seeds():
    records = [record(seed=s) for s in (0, 1, 2)]
    display = PseudoLabelDisplay.from_records(records, class_names={"1": "illness"})
    assert names_of(display.ax_) == ["0", "illness"]
    assert_allclose(display.lines_[1].get_ydata(), [41, 81])
    assert_allclose(display.lines_[0].get_ydata(), [359, 719])
    assert "mean ± sd of 3 seeds" in display.ax_.get_ylabel()


def test_missing_counts_and_groups_are_not_drawn():
    entries = history()
    del entries[1]["pseudo_label_counts"]["1"]
    del entries[1]["groups_before"]["1"]
    display = drawn(entries)
    assert np.isnan(display.lines_[1].get_ydata()[0])
    assert np.isnan(display.errorbars_[2].lines[0].get_ydata()[0])


def test_given_axes():
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 2)
    display = drawn(history(), ax=axes)
    assert display.axes_ == list(axes)
    assert [ax.get_xlabel() for ax in axes] == ["iteration"] * 2
    with pytest.raises(ValueError, match=r"draws 2 panel\(s\), but ax holds 1 axes"):
        drawn(history(), ax=axes[0])


def test_records_or_histories_that_cannot_be_drawn():
    with pytest.raises(ValueError, match="history_ of this Noted holds no pseudo-labels"):
        drawn(history(n_iter=0))
    with pytest.raises(ValueError, match=r"differ in method \(no_inertia, self_pretraining\)"):
        PseudoLabelDisplay.from_records([record(), record("no_inertia")])
