"""Which records the displays accept in one figure."""

from __future__ import annotations

import copy

import pytest
from helpers.figures import names_of
from records import record

from sklearn_spt import inspection

TWO = [record(params={"lam": a, "alpha": b}) for a in (0.1, 0.3) for b in (0.1, 0.3)]


@pytest.mark.parametrize(
    ("records", "by", "message"),
    [
        (TWO, None, r"differ in lam \(0.1, 0.3\), alpha \(0.1, 0.3\); select"),
        (TWO, "lam", r"differ in alpha \(0.1, 0.3\) must not be mixed"),
        ([record()], "lamb", "no cell has 'lamb' to group by"),
        ([record(status="failed")], None, "all 1 have failed, the first with ValueError: the l"),
        ([], None, "there is no finished record"),
    ],
)
def test_records_that_cannot_be_grouped(records, by, message):
    with pytest.raises(ValueError, match=message):
        inspection.IterationCurveDisplay.from_records(records, by=by)


@pytest.mark.parametrize("key", ["n_unlabeled", "n_test", "encoder", "normalize", "protocol"])
def test_settings_are_not_mixed(key):
    records = [record(), record("no_inertia", **{key: 7})]
    with pytest.raises(ValueError, match=rf"{key} \(.*7.*must not be mixed"):
        inspection.IterationCurveDisplay.from_records(records, by="method")


def test_methods_may_have_different_parameters():
    records = [record(), record("self_training", params={"threshold": 0.8})]
    display = inspection.IterationCurveDisplay.from_records(records)
    assert names_of(display.ax_) == ["self_pretraining", "self_training"]


def test_records_are_not_changed():
    records = [record(seed=seed) for seed in (0, 1)]
    before = copy.deepcopy(records)
    for kind in ("IterationCurve", "LearningCurve", "PseudoLabel"):
        vars(inspection)[f"{kind}Display"].from_records(records)
    inspection.GainDisplay.from_records([*records, record("baseline")])
    assert records == before
