"""Values as JSON: equal after a round trip, with their types."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_spt.persistence._values import from_json, to_json


def refuse(*given):
    raise ValueError(given)


def round_trip(value):
    text = json.dumps(to_json(value, "x", refuse), allow_nan=False)
    return from_json(json.loads(text), refuse)


def same(a, b):
    """Whether types and values are equal, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and same(a.tolist(), b.tolist())
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
LEAVES = KEYS | st.floats() | st.dates() | st.datetimes()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_plain_values_come_back(value):
    assert same(round_trip(value), value)


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, -1], dtype=np.int8),
        np.array([[2**64 - 1]], dtype=np.uint64),
        np.array([0.1, math.nan, math.inf], dtype=np.float32),
        np.array([0.1], dtype=">f8"),
        np.array([True, False]),
        np.array(["né", ""]),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        np.array([3], dtype="timedelta64[s]"),
        np.array(["a", None, 1.5, [1, 2]], dtype=object),
        np.array([], dtype=object),
        np.zeros((0, 3)),
        np.float32(0.1),
        np.int64(3),
        np.str_("a"),
        np.bool_(True),
        np.datetime64("2020-01-01"),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        Path("a") / "b",
    ],
    ids=repr,
)
def test_arrays_scalars_and_paths_come_back(value):
    assert same(round_trip(value), value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"a": [1, Decimal(1)]}, "x['a'][1]"),
        (np.array([Decimal(1)], dtype=object), "x[0]"),
        (np.longdouble(1), "x"),
        (1j, "x"),
        (b"a", "x"),
        ({1}, "x"),
    ],
    ids=repr,
)
def test_other_values_are_handed_on_with_their_place(value, name):
    handed = []
    to_json(value, "x", lambda *given: handed.append(given))
    assert [place for _, place in handed] == [name]


def test_unknown_kinds_are_handed_on():
    assert from_json([{"net": 3}], lambda kind, content: (kind, content)) == [("net", 3)]
