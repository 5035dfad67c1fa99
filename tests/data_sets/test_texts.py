"""Tests of load_texts, and of the tables that it and its siblings read."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest
from helpers.optional import pd
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_spt.datasets import _tables, load_texts

TEXTS = [
    "in bed, with the flu",
    'so "funny"',
    '"quoted" from here, to "there"',
    " \u00e9t\u00e9 \u2028 and \x85 \U0001f912 ",
]
LABELS = ["yes", "no", "", "yes"]
# One modification time, so that each process that collects the tests makes the same bytes.
PACKED = gzip.compress(b"text,label\nin bed,1\n" + bytes(range(65, 90)) * 9, mtime=0)
LONG = "a" * 200_000


def written(path, format, texts, labels):
    """Write texts and labels as a program of that format does."""
    if format == "jsonl":
        lines = [json.dumps({"text": t, "label": y}) for t, y in zip(texts, labels, strict=True)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        frame = pd.DataFrame({"text": texts, "label": labels})
        frame.to_csv(path, sep="\t" if format == "tsv" else ",", index=False, lineterminator="\n")
    return path


# -- formats ----------------------------------------------------------------------------------
@pytest.mark.parametrize("format", ["tsv", "csv", "jsonl"])
def test_formats(tmp_path, format):
    path = written(tmp_path / f"posts.{format}", format, TEXTS, LABELS)
    dataset = load_texts(path)
    assert dataset.data.tolist() == TEXTS
    assert dataset.data.dtype == object
    assert dataset.target.tolist() == ["yes", "no", -1, "yes"]
    assert dataset.target_names == ["no", "yes"]
    assert dataset.filename == str(path)
    assert set(dataset) == {"data", "target", "target_names", "filename"}
    X, y = load_texts(str(path), return_X_y=True)
    assert X.tolist() == TEXTS
    assert y.tolist() == dataset.target.tolist()
    packed = tmp_path / f"posts.{format}.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")))
    assert load_texts(packed).data.tolist() == TEXTS
    other = path.rename(tmp_path / "posts.data")
    assert load_texts(other, format=format).data.tolist() == TEXTS


TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=20
).filter(str.strip)


@settings(deadline=None, max_examples=150)
@given(texts=st.lists(TEXT, min_size=1, max_size=5), sep=st.sampled_from([",", ";", "\t", "|"]))
def test_whatever_the_csv_module_writes_is_read(tmp_path_factory, texts, sep):
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=sep, lineterminator="\n")
        writer.writerow(["label", "text"])
        writer.writerows(["x", text] for text in texts)
    assert load_texts(path, sep=sep).data.tolist() == texts


PLAIN = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\0\n\t"), min_size=1, max_size=20
).filter(str.strip)


@settings(deadline=None, max_examples=150)
@given(texts=st.lists(PLAIN, min_size=1, max_size=5))
def test_tsv_without_quoting(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "written.tsv"
    lines = ["text\tlabel", *(f"{text}\t1" for text in texts), 'a "marked" word\t1']
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    assert load_texts(path).data.tolist() == [*texts, 'a "marked" word']


def test_quotation_marks_in_a_tsv_never_swallow_a_row(tmp_path):
    path = tmp_path / "posts.tsv"
    path.write_text('id\ttext\tlabel\n1\t"flu is\t0\n2\tbad"\t1\n')
    dataset = load_texts(path)
    assert dataset.data.tolist() == ['"flu is', 'bad"']
    assert dataset.target.tolist() == [0, 1]
    path.write_text('id\ttext\tlabel\n1\t"flu\nis ""bad"""\t0\n')
    assert load_texts(path).data.tolist() == ['flu\nis "bad"']


def test_columns_by_name(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text("n, sick ,post,word\n007,1,in bed,flu\n008,0,flu season,\n")
    dataset = load_texts(path, text="post", label="sick", keyword="word", id="n")
    assert dataset.data.tolist() == ["in bed", "flu season"]
    assert dataset.target.tolist() == [1, 0]
    assert dataset.keyword.tolist() == ["flu", ""]
    assert dataset.ids.tolist() == ["007", "008"]
    assert dataset.keyword.dtype == dataset.ids.dtype == object
    bare = load_texts(path, text="post", label=None)
    assert bare.target.tolist() == [-1, -1]
    assert bare.target_names == []


def test_json_objects(tmp_path):
    path = tmp_path / "posts.jsonl"
    rows = [
        {"tweet": {"text": "in bed", "id": 12345678901234567890}, "label": 1},
        {"tweet": {"text": "flu season"}, "label": None},
        {"tweet": {"text": "ok"}},
        {"tweet": {"text": "fine"}, "label": False},
        {"tweet": {"text": "hm"}, "label": float("nan")},
    ]
    path.write_text("\n\n".join(map(json.dumps, rows)))
    dataset = load_texts(path, text="tweet.text", id="tweet.id")
    assert dataset.data.tolist() == ["in bed", "flu season", "ok", "fine", "hm"]
    assert dataset.target.tolist() == [1, -1, -1, 0, -1]
    assert dataset.ids.tolist() == ["12345678901234567890", "", "", "", ""]


# -- labels -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("labels", "options", "target", "names"),
    [
        (["3", "1", ""], {}, [3, 1, -1], ["1", "3"]),
        (["1.0", "0.0", "-1"], {}, [1, 0, -1], ["0", "1"]),
        (["1.5", "1", " "], {}, ["1.5", "1", -1], ["1", "1.5"]),
        (["01", "1", "2"], {}, ["01", "1", "2"], ["01", "1", "2"]),
        (["10", "9", "NA"], {"unlabeled": "NA"}, [10, 9, -1], ["9", "10"]),
        (["yes", "no", "?"], {"unlabeled": ("?", "")}, ["yes", "no", -1], ["no", "yes"]),
        (["3", "1", ""], {"positive": 3}, [1, 0, -1], ["negative", "positive"]),
        (["3", "1", "2"], {"positive": ("3", 2.0)}, [1, 0, 1], ["negative", "positive"]),
        (["-1", "1", "?"], {"positive": 1, "unlabeled": "?"}, [0, 1, -1], ["negative", "positive"]),
        (["", "-1", " "], {}, [-1, -1, -1], []),
        (["yes", "nan", "NaN"], {}, ["yes", -1, -1], ["yes"]),
    ],
)  # fmt: skip
def test_labels(tmp_path, labels, options, target, names):
    path = written(tmp_path / "posts.tsv", "tsv", ["a", "b", "c"], labels)
    dataset = load_texts(path, **options)
    assert dataset.target.tolist() == target
    assert dataset.target_names == names
    whole = all(isinstance(value, int) for value in target)
    assert dataset.target.dtype == (np.int64 if whole else object)


# -- errors -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "options", "match"),
    [
        ("p.tsv", "text\tlabel\na\t1\nb\n", {}, r"p\.tsv, line 3: 1 column\(s\) instead of the 2"),
        ("p.csv", 'text,label\n"a\nb",1\nc,d,1\n', {}, r"p\.csv, line 4: 3 column\(s\)"),
        ("p.csv", 'text,label\n"a"b,1\n', {}, r"p\.csv, line 2: .*quotation marks"),
        ("p.csv", 'text,label\na,1\n"b,1\n', {}, r"p\.csv, line 3: .*quotation marks"),
        ("p.csv", "text;label\na;1\n", {}, r"no column 'text' \(text=\).*'text;label'.*sep="),
        ("p.csv", "text,class\na,1\n", {}, r"no column 'label' \(label=\).*'text', 'class'.*None"),
        ("p.csv", "text,label\na,1\n", {"keyword": "k"}, r"no column 'k' \(keyword=\)"),
        ("p.csv", "text,label\na,1\n ,1\n", {}, r"line 3, column 'text': an empty text"),
        ("p.csv", "text,label\n", {}, "holds no row"),
        ("p.csv", "", {}, "is empty"),
        ("p.csv", "text,text\na,b\n", {}, "two columns have the name 'text'"),
        ("p.csv", "text,label\na,1\n", {"positive": 3}, r"column 'label' .*\('3'\).* are '1'"),
        ("p.csv", "text,label\na,1\n", {"positive": []}, "no such label"),
        ("p.csv", "text,label\na,-1\n", {"unlabeled": "?"}, "-1 is a label"),
        ("p.jsonl", '{"text": "a", "label": 1}\nb\n', {}, r"line 2: no JSON .*one JSON object"),
        ("p.jsonl", '{"text": "a", "label": 1}\n[1]\n', {}, "line 2: list instead of a JSON"),
        ("p.jsonl", '{"text": "a", "label": [1]}', {}, "line 1, column 'label': a label must"),
        ("p.jsonl", '{"text": 3, "label": 1}', {}, "column 'text': no text, but of type int"),
        ("p.jsonl", '{"text": "a", "label": 1}\n{"label": 1}', {}, "line 2, column 'text': an em"),
        ("p.jsonl", '{"text": "a"}', {"sep": ",", "format": "jsonl"}, "sep must be None"),
        ("p.csv", b"text,label\na,1\n\xe9,1\n", {}, "line 3: byte 0xe9 is not utf-8"),
        ("p.csv.gz", b"text,label\n", {}, "cannot be unpacked"),
        ("p.csv.gz", PACKED[:-12], {}, r"p\.csv\.gz cannot be unpacked"),
        ("p.csv.gz", PACKED[:12] + b"\xff" * 9 + PACKED[21:], {}, r"p\.csv\.gz cannot be unpacked"),
        ("p.csv", f'text,label\na,1\n"{LONG},1\n', {}, "line 3: a text has more than 131072 char"),
        ("p.jsonl", "[" * 100_000, {}, "line 1: no JSON"),
        ("p.jsonl", '{"text": "a", "label": ' + "9" * 5000 + "}", {}, "line 1: no JSON"),
        ("p.jsonl", '{"text": {"a": "b"}}', {"label": None}, "'text': no text, but of type dict"),
        ("p.jsonl", '{"text": "a", "label": {"b": 1}}', {}, "a label must be a number or a str"),
        ("p.csv", "text,label\na,1\n", {"encoding": "no-such"}, "encoding must be known to Python"),
        ("p.csv", f"{LONG[:999]},b\nx,1\n", {}, "has no column 'text'"),
        ("p.csv", ",".join(f"c{i}" for i in range(900)), {}, "holds no row"),
        ("p.xlsx", "", {}, "format must be given .*'tsv', 'csv', 'jsonl'"),
        ("p.csv", "", {"format": "xml"}, "format must be one of"),
        ("p.csv", "", {"sep": "::"}, "sep must be None or a single character"),
    ],
)
def test_errors_name_the_place(tmp_path, name, content, options, match):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=match) as error:
        load_texts(path, **options)
    assert len(str(error.value)) < 500 + len(str(path))


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_tables, "_MOST_UNPACKED", 1000)
    path = tmp_path / "p.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + b"a,1\n" * 300))
    with pytest.raises(ValueError, match=r"p\.csv\.gz unpacks to more than .* unpack it yourself"):
        load_texts(path)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"text": None}, "text must be the name of a column"),
        ({"label": 1}, "label must be the name of a column"),
        ({"return_X_y": "yes"}, "return_X_y must be True or False"),
        ({"unlabeled": [None]}, "unlabeled must hold labels"),
        ({"positive": [["a"]]}, "positive must hold labels"),
    ],
)
def test_bad_parameters(tmp_path, options, match):
    path = written(tmp_path / "posts.csv", "csv", ["a"], ["1"])
    with pytest.raises(TypeError, match=match):
        load_texts(path, **options)


def test_no_long_text_in_a_message(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text("a very long text of somebody who forgot the names of the columns,1\nb,1\n")
    with pytest.raises(ValueError, match=r"no column 'text' (?!.*somebody who forgot)"):
        load_texts(path)


def test_latin_1(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_bytes("text,label\n\u00e9t\u00e9,1\n".encode("latin-1"))
    assert load_texts(path, encoding="latin-1").data.tolist() == ["\u00e9t\u00e9"]
