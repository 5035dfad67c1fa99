"""Labels, markers and weights of every kind; draws of rows."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.exceptions import DataConversionWarning

from sklearn_spt._data import share_of
from sklearn_spt._labels import (
    check_weights,
    decode_labels,
    encode_labels,
    is_missing,
    suspicious_class,
)
from sklearn_spt._training import epoch_rows

MISSING = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT]


def encode(y, marker=-1):
    labeled, classes, codes = encode_labels(y, len(y), marker)
    assert labeled.dtype == bool
    return labeled.tolist(), classes.tolist(), codes.tolist()


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_missing_values(value):
    assert is_missing(value)
    assert encode(["a", value, "b", None], None)[0] == [True, False, True, False]
    assert encode(["a", None, "b"], value)[0] == [True, False, True]
    with pytest.raises(ValueError, match=r"missing value .* in row 1, and 1 in all"):
        encode(["a", value, "b"])


@pytest.mark.parametrize("value", [0, -1, "", "nan", "NA", False, float("inf"), [None], np.ones(2)])
def test_values_that_are_not_missing(value):
    assert not is_missing(value)


NUMBERS = {
    "list": [7, 3, -1, 3],
    "tuple": (7, 3, -1, 3),
    "array": np.array([7, 3, -1, 3]),
    "small": np.array([7, 3, -1, 3], dtype=np.int8),
    "objects": np.array([7, 3, -1, 3], dtype=object),
    "floats": np.array([7.0, 3.0, -1.0, 3.0]),
    "scalars": [np.int64(7), np.int16(3), np.float32(-1), 3.0],
    "Series": pd.Series([7, 3, -1, 3], index=[3, 3, 1, 0]),
    "Int64": pd.Series([7, 3, -1, 3], dtype="Int64"),
    "category": pd.Series([7, 3, -1, 3], dtype="category"),
    "tensor": torch.tensor([7, 3, -1, 3]),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(kind):
    y = NUMBERS[kind]
    assert encode(y) == ([True, True, False, True], [3, 7], [1, 0, -1, 0])
    classes = encode_labels(y, 4)[1]
    assert classes.dtype.kind == ("f" if kind in ("floats", "scalars") else "i")


STRINGS = {
    "list": (["no", "yes", -1, "yes"], -1),
    "objects": (np.array(["no", "yes", -1, "yes"], dtype=object), -1),
    "Series": (pd.Series(["no", "yes", -1, "yes"]), -1),
    "string": (np.array(["no", "yes", "?", "yes"]), "?"),
    "empty string": (["no", "yes", "", "yes"], ""),
    "string dtype": (pd.Series(["no", "yes", pd.NA, "yes"], dtype="string"), None),
    "object dtype": (pd.Series(["no", "yes", None, "yes"], dtype=object), np.nan),
    "default dtype": (pd.Series(["no", "yes", np.nan, "yes"]), pd.NA),
    "category": (pd.Series(["no", "yes", None, "yes"], dtype="category"), None),
}


@pytest.mark.parametrize("kind", STRINGS)
def test_strings(kind):
    y, marker = STRINGS[kind]
    assert encode(y, marker) == ([True, True, False, True], ["no", "yes"], [0, 1, -1, 1])
    assert encode_labels(y, 4, marker)[1].dtype.kind == "U"


@pytest.mark.parametrize(
    "y",
    [
        [5, None, 9],
        [5, float("nan"), 9],
        np.array([5, np.nan, 9], dtype=np.float16),
        np.array([5, None, 9], dtype=object),
        pd.Series([5, None, 9]),
        pd.Series([5, pd.NA, 9], dtype="Int64"),
    ],
)
def test_whole_numbers_beside_missing_values_are_integers(y):
    classes = encode_labels(y, 3, None)[1]
    assert (classes.dtype.kind, classes.tolist()) == ("i", [5, 9])


@pytest.mark.parametrize(
    ("y", "marker"),
    [([True, False, None], None), ([True, False, -1], -1),
     (pd.Series([True, False, None], dtype="boolean"), None)],
)  # fmt: skip
def test_booleans(y, marker):
    classes, codes = encode_labels(y, 3, marker)[1:]
    assert (classes.dtype, codes.tolist()) == (bool, [1, 0, -1])


@pytest.mark.parametrize(
    ("y", "marker", "labeled"),
    [
        ([1, 2, 0], 0, [True, True, False]),
        ([0, 1, 99], 99.0, [True, True, False]),
        ([0, 1, -1], np.int64(-1), [True, True, False]),
        ([0, 1, 2], "?", [True, True, True]),
        (["a", "b", "c"], -1, [True, True, True]),
        (["a", "-1", "b"], "-1", [True, False, True]),
        (np.array([0, 1, 2], dtype=np.uint8), -1, [True, True, True]),
        ([True, False], 0, [True, True]),  # True equals 1 and is no marker
        (np.array([True, False], dtype=object), 1, [True, True]),
    ],
)
def test_markers(y, marker, labeled):
    assert encode(y, marker)[0] == labeled


@pytest.mark.parametrize(
    ("y", "marker", "row"),
    [
        (np.array(["a", "b", -1]), -1, 2),
        (np.array(["a", "b", np.nan]), None, 2),
        (["a", " -1 ", "b"], -1, 1),
        (["a", "b", "-1.0"], -1, 2),
        (["a", "b", "99"], 99.0, 2),
        ([0, "-1", 1], -1, 1),
        (pd.Series(["-1", "a", "b"]), -1, 0),
    ],
)
def test_a_marker_as_a_string_is_refused(y, marker, row):
    with pytest.raises(ValueError, match=rf"y holds the string .* in row {row}, while unlabelled"):
        encode(y, marker)


UNSIGNED = {
    "uint8": (np.array([0, 1, -1, 1]).astype(np.uint8), -1, "255"),
    "uint64": (np.array([0, 1, 0, -1]).astype(np.uint64), -1, "18446744073709551615"),
    "Series": (pd.Series([0, 255, 1, 1], dtype="uint8"), -1.0, "255"),
    "UInt8": (pd.Series([0, 255, 1, 1], dtype="UInt8"), -1, "255"),
    "tensor": (torch.tensor([0, 1, 255, 1], dtype=torch.uint8), -1, "255"),
    "list": ([np.uint8(0), np.uint8(1), np.uint8(1), np.uint8(254)], -2, "254"),
}


@pytest.mark.parametrize("kind", UNSIGNED)
def test_a_marker_that_the_dtype_of_y_cannot_hold(kind):
    y, marker, found = UNSIGNED[kind]
    with pytest.raises(ValueError, match=f"y holds {found}, which unlabeled_marker={marker}"):
        encode(y, marker)


def test_unsigned_classes_beside_another_marker():
    y = np.array([0, 255, 7], dtype=np.uint8)
    assert encode(y, 7) == ([True, True, False], [0, 255], [0, 1, -1])
    assert encode(y, None)[1] == encode(y.astype(int))[1] == [0, 7, 255]


DAYS = ["2024-01-01", "2024-01-02"]
#: What is no label -> (y, its type).
STRANGE = {
    "Timestamp": ([-1, *map(pd.Timestamp, DAYS)], "Timestamp"),
    "datetime64": (np.array(DAYS, dtype="datetime64[D]"), "datetime64"),
    "timedelta": (pd.Series(pd.to_timedelta([1, 2])), "timedelta64"),
    "Period": (pd.Series(pd.period_range("2024", periods=2)), "Period"),
    "Decimal": ([-1, Decimal(1), Decimal(2)], "Decimal"),
    "complex": ([-1, 1j, 2j], "complex"),
    "record": (np.array([("a", 1), ("b", 2)], dtype=[("x", "U1"), ("y", int)]), "void"),
    "dict": (pd.Series([{"a": 1}, {"b": 1}]), "dict"),
    "bytes": ([-1, b"a", b"b"], "bytes"),
    "array of bytes": (np.array([b"a", b"b"]), "bytes_"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_labels_of_another_kind(kind):
    y, name = STRANGE[kind]
    row = int(isinstance(y, list))
    remedy = r"Make .*\(str\(label\), or label.decode\(\) of bytes\)"
    message = rf"neither strings nor numbers.*\({name}\) in row {row}. {remedy}"
    with pytest.raises(ValueError, match=f"Unknown label type: .*{message}"):
        encode(y)


NESTED = {
    "list": lambda y: y,
    "array": lambda y: np.array([*map(np.array, y), None], dtype=object)[:-1],
    "Series": pd.Series,
    "Series of arrays": lambda y: pd.Series([*map(np.array, y)]),
}


@pytest.mark.parametrize("kind", NESTED)
def test_lists_as_labels(kind):
    # an export of a labelling tool; as a column, of which scikit-learn warns
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        assert encode(NESTED[kind]([["b"], ["a"]])) == ([True, True], ["a", "b"], [1, 0])
    for y in ([["a"], ["b"], []], [["a"], ["b", "c"]], [["a", "b"], ["b", "c"]]):
        with pytest.raises(ValueError, match="y must hold one class label for each row"):
            encode(NESTED[kind](y))


LABELS = [
    st.integers(-(2**53), 2**53).filter(lambda value: value != -1),
    st.text(max_size=5).filter(lambda text: text.strip() not in ("-1", "-1.0", "nan")),
    st.booleans(),
]


@given(st.data())
def test_decoding_the_codes_gives_the_labels(data):
    # numpy's strings of fixed width cannot hold NUL at their end
    one = data.draw(st.sampled_from(LABELS))
    one = one.filter(lambda value: not (isinstance(value, str) and value.endswith("\0")))
    labels = data.draw(st.lists(one, min_size=2, max_size=20).filter(lambda v: len({*v}) > 1))
    marker = data.draw(st.sampled_from([-1, None, float("nan"), pd.NA]))
    hidden = data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels)))
    y = [x for label, hide in zip(labels, hidden, strict=True) for x in [label] + [marker] * hide]
    labeled, classes, codes = encode_labels(y, len(y), marker)
    assert classes.tolist() == sorted({*labels})
    assert classes[codes[labeled]].tolist() == labels
    found = decode_labels(codes, classes, marker)
    assert found[labeled].tolist() == labels
    assert all(is_missing(x) if is_missing(marker) else x == marker for x in found[~labeled])


@pytest.mark.parametrize(
    ("classes", "marker", "kind"),
    [
        (["a", "b"], "unknown", "U"),
        (["a", "b"], None, "O"),
        (["a", "b"], -1, "O"),
        ([3, 7], -1, "i"),
        ([0.0, 1.0], -1, "f"),
        ([0, 1], None, "O"),
        ([False, True], -1, "O"),
    ],
)
def test_the_kind_of_decoded_labels(classes, marker, kind):
    found = decode_labels(np.array([0, 1, -1]), np.array(classes), marker)
    assert (found.dtype.kind, found.tolist()) == (kind, [*classes, marker])
    complete = decode_labels(np.array([0, 1]), np.array(classes), marker)
    assert complete.dtype == np.array(classes).dtype


@pytest.mark.parametrize(
    ("classes", "found"),
    [(["a", "NA"], "NA"), (["a", " n/a "], " n/a "), (["", "a"], ""), (["?", "a"], "?"),
     (["no", "yes"], None), ([0, 1], None), ([-1, 1], None)],
)  # fmt: skip
def test_classes_that_look_like_a_marker(classes, found):
    assert suspicious_class(np.array(classes)) == found
    assert suspicious_class(np.array([-1, 1]), ("-1",)) == -1


# -- weights --------------------------------------------------------------------------------------
@given(
    st.lists(st.just(0.0) | st.floats(1e-300, 1e300), min_size=4, max_size=4).filter(any),
    st.floats(1e-3, 1e3),
)
def test_weights_have_mean_one(weights, factor):
    labeled = np.array([True, False, True, True, True])
    given_ = np.insert(weights, 1, np.nan)  # that of the unlabelled row is not read
    found = check_weights(given_, labeled)
    assert found.mean() == pytest.approx(1)
    np.testing.assert_allclose(found, check_weights(given_ * factor, labeled), atol=1e-9)
    assert check_weights(None, labeled).tolist() == [1.0] * 4
    assert check_weights(3.0, labeled).tolist() == [1.0] * 4


# -- draws -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "codes", [[0] * 9 + [1], [1, 0, 1, 1, 0, 1, 1, 1], [5, 2, 2, 5, 5, 9, 2, 2, 2], [3, 3, 3]]
)
def test_balanced_draws_are_uniform_over_classes_and_rows(codes):
    """A row of a class with n_c of all rows has the probability 1 / (K n_c)."""
    rng, codes = np.random.default_rng(0), np.array(codes)
    rows = np.concatenate([epoch_rows(codes, True, rng) for _ in range(20_000 // len(codes))])
    expected = [1 / (len({*codes.tolist()}) * (codes == c).sum()) for c in codes]
    counts = np.bincount(rows, minlength=len(codes))
    assert chisquare(counts, len(rows) * np.array(expected)).pvalue > 0.01
    pairs = np.bincount(codes[rows[:-1]] * 10 + codes[rows[1:]], minlength=100)
    if len({*codes.tolist()}) > 1:  # one draw does not depend on the last
        assert chisquare(pairs[pairs > 0]).pvalue > 0.001


@given(st.integers(1, 100), st.integers(1, 10_000))
def test_shares_of_counts(percent, n):
    assert share_of(percent / 100, n) == percent * n // 100
    assert share_of(percent / 100, n, up=True) == -(-percent * n // 100)
