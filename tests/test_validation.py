"""Labels, markers, weights and parameters: accepted, or refused with a message."""

from __future__ import annotations

import datetime
import enum
import warnings
from decimal import Decimal

import numpy as np
import pytest
import torch
from helpers.optional import pd, pl
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning

from sklearn_spt._labels import check_labels, check_weights, is_missing
from sklearn_spt._validation import (
    all_or_nothing,
    check_flag,
    check_integer,
    check_option,
    check_real,
)

MISSING = [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT]


def encode(y, marker=-1, n=None):
    """Labelled rows, classes and codes as lists, and the kind of the classes."""
    labeled, classes, codes = check_labels(y, len(y) if n is None else n, marker)
    assert labeled.dtype == bool
    assert codes.dtype == np.int64
    return labeled.tolist(), classes.tolist(), codes.tolist()


# -- numbers, options and flags --------------------------------------------------------------------
@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_check_real_returns_a_float(value):
    number = check_real(value, "lam", low=0, high=1)
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize(
    ("value", "closed", "interval"),
    [
        (-0.1, "both", r"\[0, 1\]"),
        (1.1, "both", r"\[0, 1\]"),
        (1.0, "left", r"\[0, 1\)"),
        (0.0, "right", r"\(0, 1\]"),
        (0.0, "neither", r"\(0, 1\)"),
        (1.0, "neither", r"\(0, 1\)"),
        (float("nan"), "both", r"\[0, 1\]"),
        (float("inf"), "both", r"\[0, 1\]"),
    ],
)
def test_check_real_names_the_parameter_and_the_interval(value, closed, interval):
    with pytest.raises(ValueError, match=rf"^lam must lie in {interval}, got {value!r}\.$"):
        check_real(value, "lam", low=0, high=1, closed=closed)


@pytest.mark.parametrize(("value", "closed"), [(0.0, "left"), (1.0, "right"), (1e-300, "neither")])
def test_check_real_accepts_the_values_inside(value, closed):
    assert check_real(value, "lam", low=0, high=1, closed=closed) == value


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_check_real_refuses_infinity_at_an_open_end(value):
    with pytest.raises(ValueError, match=r"temperature must lie in \(0, inf\)"):
        check_real(value, "temperature", low=0, closed="neither")


@pytest.mark.parametrize("value", ["0.1", None, True, np.bool_(0), 1j, Decimal(1), [0.5]])
def test_check_real_refuses_what_is_not_a_number(value):
    with pytest.raises(TypeError, match="alpha must be a number, got"):
        check_real(value, "alpha")


def test_check_integer():
    assert type(check_integer(np.int32(3), "max_iter", low=3)) is int
    assert check_integer(None, "max_iter", low=0, allow_none=True) is None
    with pytest.raises(ValueError, match=r"^max_iter must be at least 1, got 0\.$"):
        check_integer(0, "max_iter", low=1)
    with pytest.raises(TypeError, match="max_iter must be an integer or None, got 'all'"):
        check_integer("all", "max_iter", low=0, allow_none=True)


@pytest.mark.parametrize("value", [1.0, "1", True, np.bool_(1), None])
def test_check_integer_refuses_other_types(value):
    with pytest.raises(TypeError, match=r"max_iter must be an integer, got .* of type"):
        check_integer(value, "max_iter", low=0)


def test_check_option():
    assert check_option("b", "which", iter(["a", "b"])) == "b"
    for value in ("c", None, 1, ["a"]):
        with pytest.raises(ValueError, match=r"^which must be one of 'a', 'b'; got "):
            check_option(value, "which", ("a", "b"))


def test_check_flag():
    assert check_flag(np.bool_(True), "normalize") is True
    assert check_flag(False, "normalize") is False
    for value in (1, 0, "yes", None):
        with pytest.raises(TypeError, match=r"^normalize must be True or False, got "):
            check_flag(value, "normalize")


# -- labels of all kinds -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "missing"),
    [
        *((value, True) for value in MISSING),
        *((value, False) for value in (0, -1, "", "nan", "NA", False, 1.5, float("inf"))),
    ],
    ids=repr,
)
def test_is_missing(value, missing):
    assert is_missing(value) is missing


NUMBERS = {
    "list": [7, 3, -1, 3],
    "tuple": (7, 3, -1, 3),
    "array": np.array([7, 3, -1, 3]),
    "int8": np.array([7, 3, -1, 3], dtype=np.int8),
    "floats": np.array([7.0, 3.0, -1.0, 3.0]),
    "objects": np.array([7, 3, -1, 3], dtype=object),
    "list of numpy scalars": [np.int64(7), np.int16(3), np.float32(-1), 3.0],
    "pandas": pd.Series([7, 3, -1, 3], index=[3, 3, 1, 0]),
    "pandas Int64": pd.Series([7, 3, -1, 3], dtype="Int64"),
    "pandas categorical": pd.Series([7, 3, -1, 3], dtype="category"),
    "polars": pl.Series([7, 3, -1, 3]),
    "tensor": torch.tensor([7, 3, -1, 3]),
}
FLOATS = {"floats", "list of numpy scalars"}


@pytest.mark.parametrize(("kind", "y"), NUMBERS.items(), ids=NUMBERS)
def test_numbers(kind, y):
    labeled, classes, codes = encode(y)
    assert check_labels(y, 4)[1].dtype.kind == ("f" if kind in FLOATS else "i")
    assert labeled == [True, True, False, True]
    assert classes == [3, 7]
    assert codes == [1, 0, -1, 0]


STRINGS = {
    "list with a number as marker": (["no", "yes", -1, "yes"], -1),
    "objects with a number as marker": (np.array(["no", "yes", -1, "yes"], dtype=object), -1),
    "pandas with a number as marker": (pd.Series(["no", "yes", -1, "yes"]), -1),
    "a string as marker": (["no", "yes", "?", "yes"], "?"),
    "array, a string as marker": (np.array(["no", "yes", "?", "yes"]), "?"),
    "the empty string as marker": (["no", "yes", "", "yes"], ""),
    "pandas": (pd.Series(["no", "yes", "?", "yes"]), "?"),
    "pandas string": (pd.Series(["no", "yes", pd.NA, "yes"], dtype="string"), None),
    "pandas object": (pd.Series(["no", "yes", None, "yes"], dtype=object), np.nan),
    "pandas default": (pd.Series(["no", "yes", np.nan, "yes"]), pd.NA),
    "pandas categorical": (pd.Series(["no", "yes", None, "yes"], dtype="category"), None),
    "polars": (pl.Series(["no", "yes", None, "yes"]), None),
    "polars categorical": (pl.Series(["no", "yes", None, "yes"], dtype=pl.Categorical), None),
    "list with None": (["no", "yes", None, "yes"], float("nan")),
    "list with NaN": (["no", "yes", float("nan"), "yes"], None),
    "all spellings of missing": (["no", "yes", pd.NaT, "yes"], pd.NA),
}


@pytest.mark.parametrize(("y", "marker"), STRINGS.values(), ids=STRINGS)
def test_strings(y, marker):
    labeled, classes, codes = encode(y, marker)
    assert labeled == [True, True, False, True]
    assert classes == ["no", "yes"]
    assert codes == [0, 1, -1, 1]
    assert check_labels(y, 4, marker)[1].dtype.kind == "U"


@pytest.mark.parametrize("marker", MISSING, ids=repr)
@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT], ids=repr)
def test_all_missing_values_are_the_same_marker(missing, marker):
    assert encode(["a", missing, "b", None], marker)[0] == [True, False, True, False]


@pytest.mark.parametrize(
    "y",
    [
        [5, None, 9],
        [5, float("nan"), 9],
        np.array([5, np.nan, 9]),
        np.array([5, np.nan, 9], dtype=np.float16),
        np.array([5, None, 9], dtype=object),
        pd.Series([5, None, 9]),
        pd.Series([5, pd.NA, 9], dtype="Int64"),
        pd.Series([5, None, 9], dtype="category"),
        pl.Series([5, None, 9]),
    ],
    ids=lambda y: f"{type(y).__module__}-{getattr(y, 'dtype', 'list')}",
)
def test_whole_numbers_beside_missing_ones_come_back_as_integers(y):
    labeled, classes, codes = check_labels(y, 3, None)
    assert classes.dtype.kind == "i"
    assert classes.tolist() == [5, 9]
    assert codes.tolist() == [0, -1, 1]
    assert labeled.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("y", "marker"),
    [
        ([True, False, None], None),
        ([True, False, -1], -1),
        ([True, False, float("nan")], None),
        (pd.Series([True, False, None], dtype="boolean"), None),
        (pl.Series([True, False, None]), None),
    ],
)
def test_booleans_stay_booleans(y, marker):
    labeled, classes, codes = check_labels(y, 3, marker)
    assert classes.dtype == bool
    assert classes.tolist() == [False, True]
    assert codes.tolist() == [1, 0, -1]
    assert labeled.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("y", "marker", "labeled"),
    [
        ([1, 2, 0], 0, [True, True, False]),
        ([0, 1, 99], 99, [True, True, False]),
        ([0, 1, 99], 99.0, [True, True, False]),
        ([-1, 1, 99], 99, [True, True, False]),
        ([0, 1, -1], np.int64(-1), [True, True, False]),
        ([0.0, 1.0, 0.5], 0.5, [True, True, False]),
        ([0, 1, 2], "?", [True, True, True]),
        (["a", "b", "c"], -1, [True, True, True]),
        (["a", "-1", "b"], "-1", [True, False, True]),
        (np.array([0, 1, 2], dtype=np.uint8), -1, [True, True, True]),
        ([True, False], 0, [True, True]),
        (np.array([True, False], dtype=object), 1, [True, True]),
    ],
)
def test_markers(y, marker, labeled):
    assert encode(y, marker)[0] == labeled


@pytest.mark.parametrize(
    "labels",
    [
        [datetime.date(2020, 1, 2), datetime.date(2019, 1, 2)],
        [Decimal("0.5"), Decimal(-3)],
        [2**70, 2**69],
    ],
)
def test_labels_may_be_anything_hashable_and_sortable(labels):
    _, classes, codes = encode([*labels, -1, labels[0]])
    assert classes == labels[::-1]
    assert codes == [1, 0, -1, 1]


def test_dates_and_a_missing_one():
    dates = np.array(["2021-05-01", "2020-05-01", "NaT"], dtype="datetime64[D]")
    for y in (dates, pd.Series(dates), pl.Series(dates)):
        labeled, _, codes = encode(y, None)
        assert labeled == [True, True, False]
        assert codes == [1, 0, -1]
    with pytest.raises(ValueError, match=r"missing value .* in row 2"):
        check_labels(dates, 3)


@given(data=st.data())
def test_decoding_the_codes_gives_the_labels(data):
    alphabet = data.draw(
        st.sampled_from(
            [
                st.integers(-(2**53), 2**53).filter(lambda value: value != -1),
                st.text(max_size=5).filter(lambda text: text.strip(" \t") not in {"-1", "-1.0"}),
                st.booleans(),
            ]
        )
    )
    # numpy's fixed-width strings cannot hold a trailing NUL
    alphabet = alphabet.filter(lambda v: not (isinstance(v, str) and v.endswith("\0")))
    labels = data.draw(st.lists(alphabet, min_size=2, max_size=20).filter(lambda v: len({*v}) > 1))
    marker = data.draw(st.sampled_from([-1, None, float("nan"), pd.NA]))
    hidden = data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels)))
    y = [x for label, mark in zip(labels, hidden, strict=True) for x in [label] + [marker] * mark]
    expected = [not (mark and x is marker) for x in y for mark in (True,)]
    container = data.draw(st.sampled_from([list, tuple, lambda v: np.array([*v, ""], object)[:-1]]))
    with warnings.catch_warnings():
        # scikit-learn warns that many distinct integers look like a regression target
        warnings.filterwarnings("ignore", message="The number of unique classes is greater")
        labeled, classes, codes = check_labels(container(y), len(y), marker)
    assert labeled.tolist() == expected
    assert classes[codes[labeled]].tolist() == labels
    assert (codes[~labeled] == -1).all()
    assert classes.tolist() == sorted(set(labels))


# -- labels that are refused -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("y", "marker", "row"),
    [
        (["a", "-1", "b"], -1, 1),
        (np.array(["a", "b", -1]), -1, 2),
        (np.array(["a", "b", "-1"], dtype=object), -1, 2),
        (np.array([b"a", b"-1", b"b"]), -1, 1),
        (["a", "b", " -1 "], -1, 2),
        (["a", "b", "-1.0"], -1, 2),
        (["a", "-1", "b"], -1.0, 1),
        (["a", "b", "99"], 99.0, 2),
        ([0, "-1", 1], -1, 1),
        (pd.Series(["-1", "a", "b"]), -1, 0),
        (pl.Series(["a", "b", "-1"]), -1, 2),
    ],
)
def test_a_marker_in_a_string_is_refused(y, marker, row):
    with pytest.raises(ValueError, match=rf"y holds the string .* in row {row}, while unlabelled"):
        check_labels(y, 3, marker)


def test_nan_in_an_array_of_strings_is_refused():
    y = np.array(["a", "b", np.nan])
    with pytest.raises(ValueError, match=r"y holds the string 'nan' in row 2.*dtype=object"):
        check_labels(y, 3, None)
    assert encode(np.array(["naan", "rice"]), None)[1] == ["naan", "rice"]
    assert encode(["nan", "rice", None], None)[1] == ["nan", "rice"]


@pytest.mark.parametrize(
    ("y", "marker"),
    [
        ([0, 1, None], -1),
        ([0, 1, float("nan")], -1),
        (["a", "b", None], "?"),
        (["a", "b", pd.NA], -1),
        (pd.Series([0, 1, None], dtype="Int64"), -1),
        (pd.Series(["a", "b", None], dtype="category"), -1),
        (pl.Series([0, 1, None]), -1),
    ],
)
def test_a_missing_value_that_is_not_the_marker_is_refused(y, marker):
    with pytest.raises(ValueError, match=r"missing value \(NaN or None\) in row 2, and 1 in all"):
        check_labels(y, 3, marker)


@pytest.mark.parametrize(
    ("y", "marker"),
    [
        ([0, 1, 0.5], -1),
        (np.array([1, 2, 2.5]), -1),
        ([None, 1, 0.5], None),
        ([np.nan, 1, 0.5], None),
        (pd.Series([None, 1, 0.5]), None),
    ],
)
def test_fractions_are_not_classes(y, marker):
    with pytest.raises(ValueError, match=r"Unknown label type: y holds .*\.5\)? in row 2"):
        check_labels(y, 3, marker)


@pytest.mark.parametrize(
    ("y", "marker"),
    [
        ([0, np.inf, -1], -1),
        ([0, -np.inf, np.nan], None),
        ([0, np.inf, None], None),
        (np.array([0, np.inf, None], dtype=object), None),
    ],
)
def test_infinity_is_not_a_class(y, marker):
    with pytest.raises(ValueError, match="infinity in row 1"):
        check_labels(y, 3, marker)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0, 1], [1, 0]], "1d array"),
        (np.zeros((2, 2)), "1d array"),
        (np.array(3), "1d array"),
        ("ab", "1d array, got 'ab' of type str"),
        ({"a": 0, "b": 1}, "1d array, got {'a': 0, 'b': 1} of type dict"),
        ({0, 1}, "1d array, got {0, 1} of type set"),
        (3, "1d array, got 3 of type int"),
        ([0, 1, 1], "X has 2 rows, y has 3"),
        ([], "X has 2 rows, y has 0"),
        (None, "requires y to be passed, but the target y is None"),
        ([-1, -1], "y has no labelled row: all 2 rows carry"),
        ([1, -1], "hold one class only, .*1"),
        (["a", "a"], "hold one class only, .*'a'"),
    ],
)
def test_an_unusable_y_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_labels(y, 2)


@pytest.mark.parametrize("y", [[[0], [1]], np.array([[0], [1]]), pd.DataFrame({"y": [0, 1]})])
def test_a_column_warns_as_in_scikit_learn(y):
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert check_labels(y, 2)[2].tolist() == [0, 1]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", 1, -1], r"cannot be sorted together, str and int \(row 1\)"),
        ([-1, 1, 2.0, "a"], r"cannot be sorted together, int and str \(row 3\)"),
        ([Colour.RED, -1, Colour.BLUE], r"cannot be sorted together, Colour and Colour \(row 0\)"),
        ([-1, {1: 2}, {3: 4}], r"row 1 of y is a dict, which cannot be hashed"),
        ([{1}, {2}, -1], r"row 0 of y is a set, which cannot be hashed"),
    ],
)
def test_kinds_that_cannot_be_sorted(y, message):
    with pytest.raises(ValueError, match=rf"Unknown label type: .*{message}"):
        check_labels(y, len(y))


@pytest.mark.parametrize("y", [np.array([b"a", b"b"]), [b"a", b"b"]])
def test_bytes_are_refused_as_in_scikit_learn(y):
    message = r"y holds bytes, .*b'a'.* in row 0. Decode them to strings"
    for known in (None, np.array(["a", "b"])):
        with pytest.raises(TypeError, match=message):
            check_labels(y, 2, known=known)


@pytest.mark.parametrize("marker", [True, [-1], object, 1j])
def test_unusable_marker(marker):
    with pytest.raises(TypeError, match="unlabeled_marker must be a number, a string or a missing"):
        check_labels([0, 1], 2, marker)


# -- weights -------------------------------------------------------------------------------------
LABELED = np.array([True, False, True, True])


def test_no_weights():
    assert check_weights(None, 4, LABELED) is None


@pytest.mark.parametrize(
    "weights",
    [
        [1, 5, 2, 3],
        np.array([1, 5, 2, 3], dtype=np.float32),
        pd.Series([1, 5, 2, 3]),
        pl.Series([1, 5, 2, 3]),
        [1, -7, 2, 3],
        [1, float("nan"), 2, 3],
        [1, None, 2, 3],
        [1, float("inf"), 2, 3],
        [1e300, 0, 2e300, 3e300],
        [5e307, 0, 1e308, 1.5e308],
    ],
)
def test_weights_are_those_of_labelled_rows_with_mean_one(weights):
    used = check_weights(weights, 4, LABELED)
    np.testing.assert_allclose(used, [0.5, 1.0, 1.5])
    assert used.dtype == np.float64


@given(
    values=st.lists(st.floats(0, 1e12), min_size=4, max_size=4),
    scale=st.floats(1e-6, 1e6),
)
def test_only_proportions_of_weights_count(values, scale):
    values[0] += 1.0
    used = check_weights(values, 4, LABELED)
    np.testing.assert_allclose(used.mean(), 1.0)
    np.testing.assert_allclose(used * values[0], np.array(values)[LABELED] * used[0], 1e-9, 1e-290)
    again = check_weights(np.array(values) * scale, 4, LABELED)
    np.testing.assert_allclose(used, again, 1e-9, 1e-290)


@pytest.mark.parametrize("scalar", [1, 0.25, np.float32(3)])
def test_a_number_gives_all_rows_the_same_weight(scalar):
    np.testing.assert_array_equal(check_weights(scalar, 4, LABELED), [1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1, 1], r"sample_weight.shape == \(3,\), expected \(4,\): .*unlabelled rows included"),
        ([[1], [1], [1], [1]], r"must be 1D array or scalar, got shape \(4, 1\)"),
        ([0, 3, 0, 0], "zero for every labelled row"),
        (0, "zero for every labelled row"),
        ([1, 1, -1, 1], r"not negative; row 2 has -1\.0"),
        ([1, 1, 1, float("nan")], "finite and not negative; row 3 has nan"),
        ([float("inf"), 1, 1, 1], "finite and not negative; row 0 has inf"),
        (-2, r"not negative; row 0 has -2\.0"),
    ],
)
def test_unusable_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        check_weights(weights, 4, LABELED)


# -- all or nothing --------------------------------------------------------------------------------
class Thing:
    def __init__(self):
        self.parameter = 1
        self.gone_ = "old"

    def change(self):
        self.parameter = 2
        self.new_ = 3
        del self.gone_


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_all_or_nothing_restores_every_attribute_after_an_error(error):
    thing = Thing()
    with pytest.raises(error), all_or_nothing(thing):  # noqa: PT012
        thing.change()
        raise error
    assert vars(thing) == {"parameter": 1, "gone_": "old"}


def test_all_or_nothing_keeps_changes_without_an_error():
    thing = Thing()
    with all_or_nothing(thing):
        thing.change()
    assert vars(thing) == {"parameter": 2, "new_": 3}
