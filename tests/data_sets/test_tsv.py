"""Files in the input format of the paper's program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_spt.datasets import load_tsv


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "posts.tsv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_load_tsv(write):
    path = write('02\t1\theart attack\tso "funny"\n\n03\t\tflu\t with a\tTAB\t\n04\t 3 \t\tx\n')
    dataset = load_tsv(path)
    assert dataset.data.tolist() == ['so "funny"', " with a\tTAB\t", "x"]
    assert dataset.target.tolist() == [0, -1, 1]
    assert dataset.target.dtype == np.int64
    assert dataset.keyword.tolist() == ["heart attack", "flu", ""]
    assert dataset.ids.tolist() == ["02", "03", "04"]
    assert dataset.target_names == ["negative", "positive"]
    assert dataset.filename == str(path)
    X, y = load_tsv(str(path), return_X_y=True)
    assert X.tolist() == dataset.data.tolist()
    assert y.tolist() == dataset.target.tolist()


def test_load_tsv_labels_of_ones_own(write):
    path = write("1\t0\tk\ta\n2\t1\tk\tb\n3\t2\tk\tc\n4\t3\tk\td\n")
    y = load_tsv(path, positive=(2, 3), negative=[0, "1"]).target
    assert y.tolist() == [0, 0, 1, 1]
    path = write("1\tyes\tk\ta\n2\t-1\tk\tb\n3\t\tk\tc\n")
    assert load_tsv(path, positive="yes", negative=-1).target.tolist() == [1, 0, -1]


def test_load_tsv_line_ends_byte_order_mark_and_encodings(write):
    expected = ["\u00e9t\u00e9", "two"]
    text = "1\t3\tk\t\u00e9t\u00e9\r\n2\t1\tk\ttwo"
    for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
        path = write(text.encode(encoding))
        dataset = load_tsv(path, encoding="utf-8" if "utf-8" in encoding else encoding)
        assert dataset.data.tolist() == expected
        assert dataset.ids.tolist() == ["1", "2"]


@settings(deadline=None, max_examples=50)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["1", "3", "", "-1"]),
            st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"])),
            st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_load_tsv_gives_back_what_was_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("tsv") / "posts.tsv"
    lines = [f"{number}\t" + "\t".join(row) for number, row in enumerate(rows)]
    path.write_bytes("\n".join(lines).encode())
    dataset = load_tsv(path)
    assert dataset.data.tolist() == [text for _, _, text in rows]
    assert dataset.keyword.tolist() == [keyword for _, keyword, _ in rows]
    codes = {"1": 0, "3": 1, "": -1, "-1": -1}
    assert dataset.target.tolist() == [codes[label] for label, _, _ in rows]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("1\t3\tk\ta\n2\t1\tb\n", r"line 2: 3 column\(s\) instead of 4"),
        ("1\t3\tk\ta\n\n2\t7\tk\tb\n", r"line 3: unknown label '7'. Labels are -1, 1, 3 or"),
        (b"1\t3\tk\ta\n2\t1\tk\t\xe9t\n", "line 2: byte 0xe9 is not utf-8"),
        ("\n\n", "holds no document"),
    ],
)
def test_load_tsv_names_the_line_at_fault(write, content, match):
    path = write(content)
    with pytest.raises(ValueError, match=match) as error:
        load_tsv(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"positive": (1, 3)}, ValueError, "label '1' is in both"),
        ({"positive": ()}, ValueError, "positive must hold"),
        ({"negative": ""}, ValueError, "negative must hold"),
        ({"return_X_y": None}, TypeError, "return_X_y"),
    ],
)
def test_load_tsv_rejects_bad_parameters(write, options, error, match):
    with pytest.raises(error, match=match):
        load_tsv(write("1\t3\tk\ta\n"), **options)
