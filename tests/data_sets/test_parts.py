"""Tables that are read in parts, and parquet."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import tracemalloc

import pytest
from helpers.optional import pd

from sklearn_spt.datasets import load_texts
from sklearn_spt.datasets._parts import table_parts
from sklearn_spt.datasets._tables import read_table

ROWS = [
    ("in bed, with the flu", "yes"),
    ('so "funny"', "no"),
    ('"quoted" from here, to "there"', ""),
    (" \u00e9t\u00e9 \u2028 and \x85 \U0001f912 ", "yes"),
    ("a break\nin a text", "no"),
]


def csv_text(sep, rows=ROWS, quoting=csv.QUOTE_MINIMAL):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, quoting=quoting, lineterminator="\r\n")
    writer.writerows([("text", "label"), *rows])
    return out.getvalue()


CONTENTS = {
    "csv": csv_text(","),
    "quoted.tsv": csv_text("\t", ROWS[:4]),
    "broken.tsv": csv_text("\t"),
    "one.tsv": csv_text("\t", [(text,) for text, _ in ROWS]).replace("text\tlabel", "text"),
    "one plain.tsv": "text\n" + "".join(f"{text}\n" for text, _ in ROWS[:4]),
    "plain.tsv": "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS[:4]),
    "jsonl": "".join(json.dumps({"text": t, "label": y}) + "\n\n" for t, y in ROWS),
}


@pytest.fixture
def standard_input(monkeypatch):
    """A function that sets the content of standard input."""

    def given(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return given


@pytest.mark.parametrize(
    "line", ['he said "hi" to me', '"quoted" in front', '"a mark at the start', 'at the end"']
)
def test_lines_of_one_column_that_are_not_those_of_a_csv(line, tmp_path):
    path = tmp_path / "posts.tsv"
    lines = ['"Be yourself"', '"Carpe diem"', line]
    path.write_text("\n".join(["text", *lines]) + "\n")
    assert load_texts(path, label=None).data.tolist() == lines
    assert [row["text"] for part in table_parts(path) for _, row in part.rows] == lines


# -- the same rows as in one piece ---------------------------------------------------------------
@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_parts_are_the_table(name, size, tmp_path, standard_input):
    content = b"\xef\xbb\xbf" + CONTENTS[name].encode()
    path = tmp_path / f"posts.{name}"
    path.write_bytes(content)
    packed = tmp_path / f"posts.{name}.gz"
    packed.write_bytes(gzip.compress(content))
    whole = read_table(path)
    assert len(whole.rows) >= 4
    standard_input(content)
    for source in (path, packed, "-"):
        parts = list(table_parts(source, format=name.rpartition(".")[2], size=size))
        assert [row for part in parts for row in part.rows] == whole.rows
        assert all(part.columns == whole.columns for part in parts)
        assert [len(part.rows) for part in parts[:-1]] == [size] * (len(parts) - 1)


@pytest.mark.parametrize("name", ["csv", "plain.tsv"])
def test_a_file_without_a_header(name, tmp_path):
    path = tmp_path / f"posts.{name}"
    path.write_text(CONTENTS[name].split("\n", 1)[1], encoding="utf-8", newline="")
    with_header = tmp_path / f"head.{name}"
    with_header.write_text(CONTENTS[name], encoding="utf-8", newline="")
    expected = [(row["text"], row["label"]) for _, row in read_table(with_header).rows]
    tables = [read_table(path, header=False), *table_parts(path, header=False)]
    for table in tables:
        assert table.columns == ["1", "2"]
        assert [(row["1"], row["2"]) for _, row in table.rows] == expected


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("csv", 'text\na shot\n""\n\n  \nb shot\n', ["a shot", "", "b shot"]),
        ("csv", " \ntext,id\na shot,1\n\n,2\n", ["a shot", ""]),
        ("tsv", " \n\ttext\n1\ta shot\n \n\t\n2\t\n\t\t\n", ["a shot", "", ""]),
        ("csv", " \n,text\n1,a shot\n \n,\n2,\n", ["a shot", "", ""]),
    ],
)
def test_empty_lines_are_skipped_and_empty_texts_are_not(name, content, texts, tmp_path):
    path = tmp_path / f"posts.{name}"
    path.write_text(content)
    (part,) = table_parts(path)
    for table in (part, read_table(path)):
        assert [row["text"] for _, row in table.rows] == texts
    with pytest.raises(ValueError, match="column 'text': an empty text"):
        load_texts(path, label=None)


def test_the_uneven_line_of_a_tsv_is_named(tmp_path):
    path = tmp_path / "posts.tsv"
    path.write_text('text\tid\n"Great" shot, loved it\t1\nthe flu\t2\t\n')
    message = r"line 2: .* doubled inside\. Or line 3 has 3 column\(s\) instead of 2: repair that"
    for read in (read_table, lambda path: list(table_parts(path))):
        with pytest.raises(ValueError, match=message):
            read(path)


def test_a_damaged_archive_of_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "posts.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1" * 1000)[:-12])
    with pytest.raises(ValueError, match=r"posts\.parquet\.gz is no parquet file that can be read"):
        list(table_parts(path))


# -- memory --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl"])
def test_memory_does_not_grow_with_the_file(name, tmp_path):
    path = tmp_path / f"posts.{name}"
    text = "the flu again and again " * 20
    line = json.dumps({"text": text}) if name == "jsonl" else text
    path.write_text("text\n" * (name != "jsonl") + f"{line}\n" * 20_000, encoding="utf-8")
    tracemalloc.start()
    try:
        n = sum(len(part.rows) for part in table_parts(path, size=100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n == 20_000
    assert path.stat().st_size > 9_000_000
    assert peak < 1_000_000


def test_rows_come_before_the_input_ends(monkeypatch):
    read = []

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            line = b'{"text": "a"}\n'
            read.append(line)
            buffer[: len(line)] = line
            return len(line)

    class Stdin:
        buffer = Endless()

    monkeypatch.setattr(sys, "stdin", Stdin())
    parts = table_parts("-", format="jsonl", size=5)
    assert [line for line, _ in next(parts).rows] == [1, 2, 3, 4, 5]
    assert len(read) < 10_000


# -- parquet -------------------------------------------------------------------------------------
@pytest.fixture
def parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "posts.parquet"
    frame = pd.DataFrame({"text": [t for t, _ in ROWS], "label": [1, 0, None, 1, 0]})
    frame.to_parquet(path)
    return path


@pytest.mark.parametrize("size", [1, 2, 100])
def test_parquet_in_parts(parquet, size, standard_input):
    standard_input(parquet.read_bytes())
    for source in (parquet, "-"):
        parts = list(table_parts(source, format="parquet", size=size))
        rows = [row for part in parts for row in part.rows]
        assert [line for line, _ in rows] == [1, 2, 3, 4, 5]
        assert [row["text"] for _, row in rows] == [text for text, _ in ROWS]
        assert [row["label"] for _, row in rows] == [1, 0, None, 1, 0]


def test_load_texts_reads_parquet(parquet):
    dataset = load_texts(parquet)
    assert dataset.data.tolist() == [text for text, _ in ROWS]
    assert dataset.target.tolist() == [1, 0, -1, 1, 0]
    with pytest.raises(ValueError, match="sep must be None for format='parquet'"):
        load_texts(parquet, format="parquet", sep=",")


def test_a_damaged_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "posts.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(ValueError, match=r"posts\.parquet is no parquet file that can be read"):
        load_texts(path)


def test_the_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "posts.parquet"
    path.write_bytes(b"")
    with pytest.raises(ImportError, match=r"pip install 'sklearn-spt\[parquet\]'"):
        load_texts(path)


# -- errors --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "a.csv is empty"),
        ("a.csv", b"text,label\na,b\nc\n", "a.csv, line 3: 1 column"),
        ("a.csv", b"text,text\na,b\n", "a.csv, line 1: two columns have the name 'text'"),
        ("a.csv", b'text\n"a\n', "a.csv, line 2: unexpected end of data"),
        ("a.tsv", b"text\tlabel\na\n", "a.tsv, line 2: 1 column"),
        ("a.jsonl", b'{"text": "a"}\n[1]\n', "a.jsonl, line 2: list instead of a JSON object"),
        ("a.jsonl", b'{"text": "a"}\n{\n', "a.jsonl, line 2: no JSON"),
        ("a.csv", b"text\na\nb\xff\n", "a.csv, line 3: byte 0xff is not utf-8"),
        ("a.csv.gz", b"no gzip", "a.csv.gz cannot be unpacked: Not a gzipped file"),
        ("a.csv.gz", gzip.compress(b"text\na\n", mtime=0)[:-9], "a.csv.gz cannot be unpacked"),
    ],
)
def test_errors_name_file_and_line(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(table_parts(path, size=1))
