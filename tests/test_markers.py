"""Markers that are not there, and missing values of every kind."""

from __future__ import annotations

import re
import warnings
from decimal import Decimal

import numpy as np
import pytest

from sklearn_spt._labels import check_labels, likely_marker, warn_of_markers


def test_no_unlabeled_row_is_said_in_words():
    with pytest.warns(UserWarning, match=r"no unlabelled row \(marker '!'\).*classes are 0, 1.$"):
        warn_of_markers("!", np.array([0, 1]), 0)


@pytest.mark.parametrize(
    ("classes", "marker"),
    [
        (["a", "b", "unl"], "unl"),
        (["a", "b", "Unlabelled"], "Unlabelled"),
        ([-1, 0, 1], -1),
        ([-1.0, 0.0], -1.0),
        (["?", "a"], "?"),
        (["", "a"], ""),
    ],
)
def test_warning_names_the_likely_marker(classes, marker):
    classes = np.array(classes)
    assert likely_marker(classes) == marker
    with pytest.warns(UserWarning, match=rf"Is {re.escape(repr(marker))} the marker\? Set"):
        warn_of_markers("!", classes, 0)


@pytest.mark.parametrize("marker", ["NA", " n/a ", "?", "null", float("nan")])
def test_a_second_marker_beside_unlabeled_rows_is_named(marker):
    classes = np.array(["none", "yes", marker], dtype=object)
    message = rf"If {re.escape(repr(marker))} means that there is no label, replace it by -1\."
    with pytest.warns(UserWarning, match=message):
        warn_of_markers(-1, classes, 5)


@pytest.mark.parametrize("name", ["none", "unknown", "unlikely", "0"])
def test_what_may_be_a_class_is_one_beside_unlabeled_rows(name):
    with warnings.catch_warnings(record=True) as found:
        warn_of_markers(-1, np.array(["yes", name]), 5)
    assert found == []


def test_ordinary_classes_are_no_likely_marker():
    assert likely_marker(np.array(["negative", "positive", "neutral"])) is None
    assert likely_marker(np.array([0, 1, 2])) is None


def test_warning_shows_few_of_many_classes():
    with pytest.warns(UserWarning, match=r"8, 9, \.\.\.\.$"):
        warn_of_markers("!", np.arange(100), 0)


def test_plus_and_minus_one_as_classes_are_explained():
    with pytest.raises(
        ValueError, match=r"2 rows carry the marker .*-1. If that is a class, choose"
    ):
        check_labels([1, -1, 1, -1], 4)
    _, classes, _ = check_labels([1, -1, 1, -1], 4, unlabeled_marker=None)
    assert classes.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        *(
            ([kind(1, "D"), kind(2, "D")], kind("NaT", "D"))
            for kind in (np.datetime64, np.timedelta64)
        ),
        *(([Decimal(0), Decimal(1)], Decimal(nan)) for nan in ("nan", "snan")),
        ([2**53, 2**53 + 1], float("nan")),  # as floats they would be equal
    ],
    ids=repr,
)
def test_missing_values_of_every_kind(labels, missing):
    y = np.empty(3, dtype=object)
    y[:] = [*labels, missing]
    labeled, classes, _ = check_labels(y, 3, unlabeled_marker=None)
    assert labeled.tolist() == [True, True, False]
    assert len(classes) == 2
