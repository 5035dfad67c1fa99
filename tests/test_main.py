"""The command line, run in this process with a tiny encoder."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from unittest.mock import Mock, create_autospec, patch

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import f1_score

import sklearn_spt
from sklearn_spt import FOUR_STUDENTS, BertClassifier, SelfPretrainingClassifier
from sklearn_spt import __main__ as program
from sklearn_spt.__main__ import main

GOT = [f"{a} got the flu shot {b}" for a in ("i", "she", "we") for b in ("today", "at work")]
SKIPPED = [f"{a} never want {b}" for a in ("i", "he", "they") for b in ("the shot", "a needle")]
POSTS = [(text, "yes") for text in GOT * 4] + [(text, "no") for text in SKIPPED * 4]
TEXTS = [text for text, _ in POSTS]
HALF_LABELED = [(text, label if row % 2 else "") for row, (text, label) in enumerate(POSTS)]

YES, NO = (json.dumps({"text": t, "label": label}) for t, label in (("a, b", "yes"), ("d", "no")))


def write_csv(path, header, rows, sep=","):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=sep).writerows([header, *rows])
    return str(path)


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def pipe(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def run(capsys, *arguments):
    assert main([*map(str, arguments), "--quiet"]) == 0
    return capsys.readouterr()


def refused(capsys, *arguments):
    assert main([*map(str, arguments), "--quiet"]) == 1
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def model(tiny_encoder, tmp_path_factory):
    """A folder that `fit` wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("main")
    train = write_csv(folder / "train.tsv", ("text", "label"), HALF_LABELED, "\t")
    more = write_csv(folder / "more.csv", ("id", "text"), enumerate(TEXTS[::4]))
    given = ["fit", train, "--unlabeled", more, "--out", str(folder / "model"), "--encoder"]
    options = ["--step-size=30", "--lam=0.2", "--alpha=0", "--seed=1", "--max-length=16", "--quiet"]
    with redirect_stdout(io.StringIO()) as printed:
        assert main([*given, tiny_encoder, *options]) == 0
    return str(folder / "model"), printed.getvalue()


@pytest.fixture
def fit_data(capsys):
    """A function that returns the arguments that `fit` of the classifier gets, or an error."""

    def of(*arguments):
        stop = ValueError("stop")
        with patch.object(SelfPretrainingClassifier, "fit", autospec=True, side_effect=stop) as fit:
            assert main(["fit", *map(str, arguments), "--out", "no_such_folder"]) == 1
        return fit.call_args.args if fit.called else capsys.readouterr().err

    return of


# -- fit -------------------------------------------------------------------------------------------
def test_fit_saves_the_model_that_its_options_describe(model):
    folder, printed = model
    clf = sklearn_spt.load(folder)
    expected = {"step_size": 30, "lam": 0.2, "alpha": 0.0, "random_state": 1, "temperature": 1.0}
    assert {name: clf.get_params()[name] for name in expected} == expected
    assert clf.estimator.max_length == 16
    assert clf.classes_.tolist() == ["no", "yes"]
    assert (clf.labeled_iter_ == 0).sum() == 24
    assert len(clf.labeled_iter_) == 48 + 12
    assert clf.sample_sizes_ == [30, 36]
    assert "24 (no: 12, yes: 12)" in printed
    assert "every unlabelled row got a pseudo-label" in printed
    assert "Did unlabelled rows help? Ask python -m sklearn_spt compare." in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 100
    assert printed.endswith(f" -m sklearn_spt predict {folder} NEW.csv --out predicted.csv\n")


def test_options_of_the_classifier(fit_data, tmp_path):
    train = write_csv(tmp_path / "a.csv", ("text", "label"), HALF_LABELED)
    clf, X, y = fit_data(train, "--four-students", "--alpha", "0.2", "--checkpoint-dir", "states")
    expected = {**FOUR_STUDENTS, "alpha": 0.2, "checkpoint_dir": "states", "verbose": 1}
    assert {name: clf.get_params()[name] for name in expected} == expected
    assert clf.estimator.get_params()["pretrained"] == BertClassifier().pretrained
    assert list(X) == TEXTS
    assert list(y) == [label or -1 for _, label in HALF_LABELED]
    clf, _, _ = fit_data(train, "--step-size", "0.5", "--quiet")
    assert (clf.n_students, clf.step_size, clf.verbose, clf.random_state) == (1, 0.5, 0, 0)
    assert fit_data(train, "--step-size", "auto")[0].step_size == "auto"


def test_a_sample_of_the_unlabelled_rows(fit_data, tmp_path):
    posts = [(f"{row} {text}", label) for row, (text, label) in enumerate(HALF_LABELED)]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), posts)
    more = write_csv(tmp_path / "b.csv", ("text",), [[f"more {row}"] for row in range(6)])
    samples = []
    for seed in (0, 0, 1):
        _, X, y = fit_data(train, "--unlabeled", more, "--sample", 7, "--seed", seed)
        pairs = list(zip(X, y, strict=True))
        assert [pair for pair in pairs if pair[1] != -1] == [pair for pair in posts if pair[1]]
        samples.append([text for text, label in pairs if label == -1])
        assert len(set(samples[-1])) == 7
    assert samples[0] == samples[1] != samples[2]
    assert len(fit_data(train, "--unlabeled", more, "--sample", 1000)[1]) == 48 + 6


def test_a_web_page_shows_doubtful_texts(tiny_encoder, tmp_path, capsys):
    train = write_csv(tmp_path / "a.csv", ("text", "label"), HALF_LABELED)
    more = write_csv(tmp_path / "b.csv", ("text",), [[f"{text} again"] for text in TEXTS[:3]])
    page = tmp_path / "page.html"
    given = ["fit", train, "--out", str(tmp_path / "new" / "model"), "--encoder", tiny_encoder]
    options = ["--unlabeled", more, "--step-size", "1.0"]
    assert main([*given, "--report", str(page), *options]) == 0
    html = page.read_text(encoding="utf-8")
    assert "<p>The fit gave the pseudo-label; now the model predicts" in html
    assert ", or python -m sklearn_spt compare." in html
    cells = re.findall("<td>(.*)</td>", html)[-5 * 20 :]
    # each row is named by its line, and by its file if that is not the first
    places = {str(line): text for line, text in enumerate(TEXTS, 2)}
    places |= {f"{line} of {more}": f"{text} again" for line, text in enumerate(TEXTS[:3], 2)}
    assert [places[line] for line in cells[::5]] == cells[4::5]
    out, err = capsys.readouterr()
    assert not any(text in out for text in TEXTS)
    assert err.startswith("loading the encoder ...\n")
    assert "iteration 1 of 1" in err
    assert " steps [" in err
    assert "\x1b" not in err  # this is no terminal


def test_no_unlabelled_row(tiny_encoder, tmp_path, capsys):
    train = write_csv(tmp_path / "a.csv", ("text", "label"), POSTS)
    out, err = run(capsys, "fit", train, "--encoder", tiny_encoder, "--out", tmp_path / "model")
    assert "there were no unlabelled rows" in out
    assert "help" not in out  # no verdict about rows that are not there
    assert err.startswith("warning: --label holds no unlabelled row")
    assert "--unlabeled is empty" in err  # the option, not the parameter
    assert err.count("\n") == 1


def test_a_class_like_a_marker_is_saved_and_doubted_at_the_end(tiny_encoder, tmp_path, capsys):
    rows = [(text, label or "unknown") for text, label in HALF_LABELED]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    out = tmp_path / "model"
    given = ["fit", train, "--encoder", tiny_encoder, "--out", out]
    last = run(capsys, *given).out.splitlines()[-1]
    assert sklearn_spt.load(out).classes_.tolist() == ["no", "unknown", "yes"]
    assert last.startswith("Is 'unknown' a class?")
    assert last.endswith("add --overwrite --unlabeled-marker='unknown'")
    printed = run(capsys, *given, "--overwrite", "--unlabeled-marker", "unknown").out
    assert printed.endswith(" NEW.csv --out predicted.csv\n")
    assert sklearn_spt.load(out).classes_.tolist() == ["no", "yes"]


def test_a_fit_that_fails_overwrites_no_model(model, capsys):
    error = refused(capsys, "fit", "absent.csv", "--out", model[0], "--overwrite")
    assert "absent.csv: No such file or directory" in error
    sklearn_spt.load(model[0])


# -- files -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("marker", "expected"),
    [("NA", ["yes", -1, "na", -1, "9", -1]), ("9.0", ["yes", "NA", "na", -1, -1, -1])],
)
def test_rows_without_a_label(marker, expected, fit_data, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,yes\nNA,NA\nc,na\nd,\ne,9.0\nf, -1.0\n")
    _, X, y = fit_data(tmp_path / "a.csv", "--unlabeled-marker", marker)
    assert list(X) == ["a", "NA", "c", "d", "e", "f"]
    assert list(y) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id;label;text\n1;yes;a, b\n2;;c\n3;no;d\n"),
        ("a.csv", "id\tlabel\ttext\n1\tyes\ta, b\n2\t\tc\n3\tno\td\n"),
        ("a.csv", '\ufeffid,label,text\n1,yes,"a, b"\n\n2,,c\n\n3,no,d\n'),
        ("a.tsv", "text\tlabel\na, b\tyes\nc\t\nd\tno\n"),
        ("a.txt", "text;label\na, b;yes\nc\nd;no\n"),
        ("a.jsonl", f'{YES}\n\n{{"text": "c", "label": null}}\n{NO}\n'),
        ("a.ndjson", f'{YES}\n{{"text": "c"}}\n{NO}\n'),
    ],
)
def test_formats_by_name(name, content, fit_data, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    _, X, y = fit_data(tmp_path / name)
    assert (list(X), list(y)) == (["a, b", "c", "d"], ["yes", -1, "no"])
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode(), mtime=0))
    assert list(fit_data(tmp_path / f"{name}.gz")[1]) == ["a, b", "c", "d"]


def test_numbers_as_labels_and_texts(fit_data, tmp_path):
    table = pd.DataFrame({"text": ["a", "b", "12"], "label": [1.0, None, 0.0]})
    table.to_parquet(tmp_path / "a.parquet")
    table.to_csv(tmp_path / "a.csv")
    table.to_json(tmp_path / "a.json", orient="records", lines=True)
    for name in ("a.parquet", "a.csv", "a.json"):
        _, X, y = fit_data(tmp_path / name)
        assert (list(X), list(y)) == (["a", "b", "12"], ["1", -1, "0"])


def test_numbers_that_are_spelled_in_two_ways_stay_apart(fit_data, tmp_path):
    rows = [("a", "2"), ("b", "2.0"), ("c", "3.0"), ("d", ""), ("e", "-1.0"), ("f", "9.0")]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    expected = ["2", "2.0", "3.0", -1, -1]
    assert list(fit_data(path, "--unlabeled-marker", "9")[2]) == [*expected, -1]
    assert list(fit_data(path)[2]) == [*expected, "9.0"]


def test_labels_that_look_alike_are_named_once(tiny_encoder, tmp_path, capsys):
    names = {"yes": "2", "no": "HAM"}
    rows = [(text, label and names[label]) for text, label in HALF_LABELED]
    rows += [("a shot", "ham"), ("a shot", "ham"), ("a vaccine", "2.0"), ("a vaccine", "2.0")]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    options = ["--encoder", tiny_encoder, "--step-size", "1.0"]
    err = run(capsys, "fit", path, "--out", tmp_path / "model", *options).err
    assert "warning: --label holds labels that differ only in form; write them" in err
    ham = "{'HAM': 12, 'ham': 2}, 'ham' first in line 50"
    assert f"{{'2': 12, '2.0': 2}}, '2.0' first in line 52, {ham}" in err
    assert err.count("differ only in form") == 1
    assert sklearn_spt.load(tmp_path / "model").classes_.tolist() == ["2", "2.0", "HAM", "ham"]
    scores = run(capsys, "evaluate", tmp_path / "model", path).out.splitlines()
    supports = {"2": "12", "2.0": "2", "HAM": "12", "ham": "2"}
    assert [(*line.split()[::4],) for line in scores[2:6]] == [*supports.items()]
    part = write_csv(tmp_path / "b.csv", ("text", "label"), rows[-2:])
    scores = run(capsys, "evaluate", tmp_path / "model", part).out.splitlines()
    assert [line.split()[::4] for line in scores[2:4]] == [["2", "0"], ["2.0", "2"]]


@pytest.mark.parametrize("marker", ["todo", "TODO ", "Todo"])
def test_labels_that_look_like_the_marker_are_named(marker, fit_data, tmp_path, capsys):
    rows = [("a", "yes"), ("b", "todo"), ("c", "TODO"), ("d", "TO\u200bDO"), ("e", "Todo")]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    _, _, y = fit_data(path, "--unlabeled-marker", marker)
    same = {"todo", "TODO", "Todo", "TO\u200bDO"} - {marker.strip()}
    assert {*y} == {"yes", -1, *same}
    err = capsys.readouterr().err
    assert f"{sorted(same)} differ only in form from --unlabeled-marker={marker.strip()!r}." in err
    assert err.count("warning") == 1


def test_labels_and_texts_in_lists(fit_data, tmp_path):
    labels = [["yes"], [], ["no"], None, [-1], [2.0]]
    table = pd.DataFrame({"text": list("abcdef"), "label": labels}, dtype=object)
    write_json(tmp_path / "a.jsonl", table.to_dict("records"))
    table["label"] = [label and [str(label[0])] for label in labels]
    table.to_parquet(tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        _, X, y = fit_data(tmp_path / name)
        assert (list(X), list(y)) == ([*"abcdef"], ["yes", -1, "no", -1, -1, "2"])


BAD_CELLS = {
    "two labels": ({"text": "a", "label": ["x", "y"]}, "'label' holds ['x', 'y'], not one label"),
    "list in a list": ({"text": "a", "label": [["x"]]}, "'label' holds ['x'], not one label"),
    "object": ({"text": "a", "label": {"x": 1}}, "'label' holds {'x': 1}, not one label"),
    "tokens": ({"text": ["a", "b"], "label": "x"}, "'text' holds ['a', 'b'], not one text"),
    "one token": ({"text": ["a"], "label": "x"}, "'text' holds ['a'], not one text"),
    "no token": ({"text": [], "label": "x"}, "'text' holds [], not one text"),
}


@pytest.mark.parametrize("what", BAD_CELLS)
def test_cells_that_hold_no_single_value(what, model, fit_data, tmp_path, capsys, monkeypatch):
    row, message = BAD_CELLS[what]
    rows = [{"text": "a", "label": "y"}, {"text": " ", "label": "z"}] * 3
    path = write_json(tmp_path / "a.jsonl", [*rows, row])
    assert f"a.jsonl: line 7 of column {message}" in fit_data(path, "--skip-empty")
    pd.DataFrame([row, row], ["x", "y"]).to_parquet(tmp_path / "a.parquet")
    array = message.replace("', '", "' '")  # prints without commas
    assert f"a.parquet: line 1 of column {array}" in fit_data(tmp_path / "a.parquet")
    if "one text" in message:
        monkeypatch.setattr(program, "_ROWS", 4)
        assert f"a.jsonl: line 7 of column {message}" in refused(capsys, "predict", model[0], path)


def test_bytes_are_no_texts(fit_data, tmp_path):
    pd.DataFrame({"text": ["a", b"b"], "label": ["x", "y"]})[1:].to_parquet(tmp_path / "a.parquet")
    error = fit_data(tmp_path / "a.parquet")
    assert "line 1 of column 'text' holds b'b', not one text" in error


def test_encodings_and_quotation_marks(fit_data, tmp_path):
    (tmp_path / "a.csv").write_bytes("text;label\ncafé;yes\nb;no\n".encode("cp1252"))
    err = fit_data(tmp_path / "a.csv")
    assert "a.csv: 'utf-8' codec can't decode" in err
    assert "add --encoding, such as cp1252" in err
    assert fit_data(tmp_path / "a.csv", "--encoding", "cp1252")[1][0] == "café"
    (tmp_path / "a.tsv").write_text('text\tlabel\n"a\tyes\nb\tno\n')
    assert "EOF inside string starting at line 2" in fit_data(tmp_path / "a.tsv")
    assert list(fit_data(tmp_path / "a.tsv", "--quoting", "3")[1]) == ['"a', "b"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_byte_order_mark_tells_the_encoding(name, encoding, fit_data, monkeypatch, tmp_path):
    rows = [("über", "yes"), ("ça", "no")]
    if name == "a.jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    else:
        lines = [("\t" if name == "a.tsv" else ";").join(row) for row in [("text", "label"), *rows]]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    content = (mark + "\n".join(lines) + "\n").encode(encoding)
    (tmp_path / name).write_bytes(content)
    assert list(fit_data(tmp_path / name)[1]) == ["über", "ça"]
    pipe(monkeypatch, content)
    _, X, y = fit_data("-", "--format", name[2:])
    assert (list(X), list(y)) == (["über", "ça"], ["yes", "no"])


def test_warnings_and_errors_name_lines_of_the_file(model, tmp_path, capsys):
    rows = [("a\nb", ""), *POSTS[:2], ("she got the flu shot", "x"), ("a b", "yes")]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    more = write_json(tmp_path / "b.jsonl", [{"text": "c"}, {"text": "d \ud83d"}])
    encoder = sklearn_spt.load(model[0]).estimator.pretrained
    given = ["fit", train, "--out", tmp_path / "new", "--encoder", encoder]
    error = refused(capsys, *given, "--unlabeled", more)
    assert f"half of a character (a lone surrogate) in line 2 of {more}" in error
    rows += [("got got", "yes"), ("Got got", "no")]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    err = run(capsys, *given, "--step-size", "1").err
    assert re.search(r"\b2 labelled texts look .*\(first: line 8\)", err)


@pytest.mark.parametrize(
    ("header", "missing", "hint"),
    [
        ("id,Text,Label", "text", "Add --text Text --label Label."),
        ("id,body,Type", "text", "Add --text body --label NAME."),
        ("id,body,label", "text", "Add --text body."),
        ("id,text,LABEL", "label", "Add --label LABEL."),
        ("kind,text,topic", "label", "Add --label NAME."),
    ],
)
def test_a_column_that_the_user_may_mean(header, missing, hint, fit_data, tmp_path):
    rows = "1,this text is of a usual length,x\n2,another one of a length,y\n"
    (tmp_path / "a.csv").write_text(f"{header}\n{rows}")
    names = ", ".join(map(repr, header.split(",")))
    expected = f"a.csv has no column '{missing}' (--{missing}), but {names}. {hint}\n"
    assert fit_data(tmp_path / "a.csv").endswith(expected)


def test_a_text_of_several_files_is_used_once(fit_data, tmp_path, capsys):
    first = write_csv(tmp_path / "a.csv", ("text", "label"), [("a", "x"), ("b", "")])
    pair = write_json(tmp_path / "p.json", [{"text": "p", "label": "y"}])
    second = write_csv(tmp_path / "b.csv", ("id", "text", "label"), [(1, "b", "y"), (2, "c", "")])
    third = write_json(tmp_path / "c.jsonl", [{"text": "d", "label": "z"}])
    _, X, y = fit_data(first, second, "--unlabeled", third)
    assert (list(X), list(y)) == (["a", "b", "c", "d"], ["x", "y", -1, -1])
    _, X, y = fit_data(first, pair, "--unlabeled", second)
    assert (list(X), list(y)) == (["a", "b", "p", "c"], ["x", -1, "y", -1])
    assert capsys.readouterr().err.count("1 repeated rows left out\n") == 2
    fit_data(pair, "--unlabeled", third)
    assert "repeated" not in capsys.readouterr().err


def test_empty_texts_are_listed_with_their_lines(fit_data, tmp_path):
    rows = [("a\nb", "x"), ("", "x"), ("c", "y"), (" ", "")]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    expected = "a.csv: no text in line 4, 6; fill in, or leave out by --skip-empty.\n"
    assert fit_data(path).endswith(expected)
    _, X, y = fit_data(path, "--skip-empty")
    assert (list(X), list(y)) == (["a\nb", "c"], ["x", "y"])
    path = write_json(tmp_path / "a.jsonl", [{"text": None, "label": "x"}] * 25)
    assert "no text in line 1, 2, " in (err := fit_data(path))
    assert ", 19, 20 and 5 more; fill in, or leave out by --skip-empty." in err
    rows = [("a", "x\ny\nz", ""), (" ", "", "b")]
    path = write_csv(tmp_path / "b.csv", ("text", "other", "label"), rows)
    assert "b.csv: no text in line 5; fill in" in fit_data(path)


# -- predict ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["csv", "semicolons.csv", "tsv", "jsonl", "parquet"])
def test_predict_prints_the_rows_and_what_the_model_says(model, kind, tmp_path, capsys):
    texts = [*TEXTS[::5], 'with "quotes", a\ttab', "a break\nhere; or", "", "flu\rshot", "a\r\nb"]
    path = tmp_path / f"new.{kind}"
    sep = {"tsv": "\t", "semicolons.csv": ";"}.get(kind, ",")
    rows = [{"id": f"0{row}", "text": text} for row, text in enumerate(texts)]
    if kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    elif kind == "jsonl":
        write_json(path, rows)
    else:
        write_csv(path, ("id", "text"), [row.values() for row in rows], sep)
    out, err = run(capsys, "predict", model[0], path)
    assert err == ""
    if kind == "jsonl":
        found = [json.loads(line) for line in out.splitlines()]
    else:
        found = list(csv.DictReader(io.StringIO(out, newline=""), delimiter=sep))
    clf = sklearn_spt.load(model[0])
    P = clf.predict_proba(texts)
    assert [{"id": row["id"], "text": row["text"]} for row in found] == rows
    assert [row["prediction"] for row in found] == clf.classes_[P.argmax(axis=1)].tolist()
    printed = [[float(row[f"probability_{label}"]) for label in ("no", "yes")] for row in found]
    np.testing.assert_allclose(printed, P, atol=1e-5)


def test_predict_streams_parts(model, capsys, monkeypatch):
    ask = SelfPretrainingClassifier.predict_proba
    asked = create_autospec(ask, side_effect=ask)
    monkeypatch.setattr(SelfPretrainingClassifier, "predict_proba", asked)
    monkeypatch.setattr(program, "_ROWS", 7)
    pipe(monkeypatch, "\n".join(["text", *TEXTS]).encode())
    out = run(capsys, "predict", model[0], "-", "--format", "csv").out
    assert [len(call.args[1]) for call in asked.call_args_list] == [7] * 6 + [6]
    assert out.count("prediction") == 1
    assert [line.partition(",")[0] for line in out.splitlines()] == ["text", *TEXTS]


def test_predict_by_options(model, capsys, monkeypatch):
    found = []
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    number = 1234567890123456789
    given = [{"text": "a", "id": number, "x": {"y": [1]}}, {"text": "ü"}, {"text": " "}]
    pipe(monkeypatch, "\n".join(map(json.dumps, given)).encode())
    options = ["--format", "jsonl", "--skip-empty", "--threads", "3"]
    printed = run(capsys, "predict", model[0], "-", *options).out
    rows = [json.loads(line) for line in printed.splitlines()]
    # large numbers keep their digits
    assert [(row["text"], row["id"]) for row in rows] == [("a", number), ("ü", None)]
    assert rows[0]["x"] == {"y": [1]}
    assert found == [3]


# -- predict into a file ---------------------------------------------------------------------------
NEW = [f"{text} {word}" for word in ("now", "again", "at work") for text in TEXTS[::4]]


@pytest.fixture
def new_posts(tmp_path, monkeypatch):
    """A function that writes new posts to a file of a format, to be read in parts of seven."""
    monkeypatch.setattr(program, "_ROWS", 7)

    def written(suffix):
        table = pd.DataFrame({"text": NEW, "n": [None, *range(1, len(NEW))]}).astype({"n": "Int64"})
        path = tmp_path / f"new{suffix}"
        if suffix == ".parquet":
            table.to_parquet(path)
        elif suffix == ".jsonl":
            table.to_json(path, orient="records", lines=True)
        else:
            table.to_csv(path, index=False, sep=";")
        return str(path)

    return written


@pytest.mark.parametrize("source", [".csv", ".jsonl", ".parquet"])
def test_predict_into_a_file(source, model, new_posts, tmp_path, capsys):
    given = ["predict", model[0], new_posts(source)]
    printed = run(capsys, *given).out
    out = tmp_path / f"out{'.jsonl' if source == '.jsonl' else '.csv'}"
    out.write_text("old")
    assert run(capsys, *given, "--out", out, "--overwrite") == ("", "")
    assert out.read_text() == printed
    other = tmp_path / "out.parquet"
    if source == ".jsonl":
        error = refused(capsys, *given, "--out", other)
        assert "the name must end in .jsonl for JSON lines" in error
    else:
        assert run(capsys, *given, "--out", other) == ("", "")
        found, sep = pd.read_parquet(other), ";" if source == ".csv" else ","
        expected = pd.read_csv(io.StringIO(printed), sep=sep, dtype={"n": "Int64"})
        same = ["text", "prediction", "probability_no", "probability_yes"]
        pd.testing.assert_frame_equal(found[same], expected[same], check_dtype=False)
        # numbers stay numbers, also in a part where one is missing
        assert found["n"].tolist()[1:] == [str(n) if source == ".csv" else n for n in range(1, 36)]
    assert not [*tmp_path.glob("*.parts")]


@pytest.mark.parametrize(
    ("encoding", "end", "expected"),
    [
        ("utf-8-sig", "\r\n", "utf-8-sig"),
        ("utf-8-sig", "\n", "utf-8-sig"),
        ("utf-8", "\r\n", "utf-8"),
        ("utf-16", "\r\n", "utf-8-sig"),
        ("cp1252", "\r\n", "utf-8-sig"),
    ],
)
def test_a_prediction_opens_as_its_input_does(encoding, end, expected, model, tmp_path, capsys):
    lines = ["text;id", '"£ 5\nback";1', *(f"the shot {i};{i}" for i in range(4))]
    (tmp_path / "new.csv").write_bytes((end.join(lines) + end).encode(encoding))
    options = ["--encoding", "cp1252"] * (encoding == "cp1252")
    out = tmp_path / "out.csv"
    assert main(["predict", model[0], str(tmp_path / "new.csv"), "--out", str(out), *options]) == 0
    table = pd.read_csv(out, sep=";")
    P = table[["probability_no", "probability_yes"]].max(axis=1)
    assert table["probability"].tolist() == P.tolist()
    unsure = f"{(P < 0.7).sum()} of 5 rows have a probability below 0.7.\n"
    assert capsys.readouterr().err.endswith(unsure)
    written = out.read_bytes().decode(expected)
    assert written.startswith(f"text;id;prediction;probability;probability_no;probability_yes{end}")
    assert written.encode(expected) == out.read_bytes()
    assert written.split(end)[1].startswith('"£ 5\nback";1;' if end == "\r\n" else '"£ 5')
    assert len(written.split(end)) == 7 + (end == "\n")


@pytest.mark.parametrize("source", [".csv", ".parquet"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predict_goes_on(source, suffix, model, new_posts, tmp_path, capsys, monkeypatch):
    whole, out = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    given = ["predict", model[0], new_posts(source), "--quiet", "--out"]
    assert main([*given, str(whole)]) == 0
    asked, combine = [], SelfPretrainingClassifier._combine

    def interrupted(clf, P):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(P)
        return combine(clf, P)

    monkeypatch.setattr(SelfPretrainingClassifier, "_combine", interrupted)
    assert main([*given, str(out)]) == 130
    assert not out.exists()
    error = refused(capsys, *given, out)
    assert f"{out}.parts is in use; add --overwrite, or --resume" in error
    for _ in range(2):  # each time two more of six parts
        asked.clear()
        status = main([*given, str(out), "--resume"])
    assert status == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not [*tmp_path.glob("*.parts")]
    asked.clear()
    assert main([*given, str(out), "--resume"]) == 0
    assert not asked


def test_a_prediction_of_standard_input_goes_into_a_file(model, monkeypatch, tmp_path, capsys):
    out = tmp_path / "a.jsonl"
    pipe(monkeypatch, b'{"text": "a shot"}\n')
    run(capsys, "predict", model[0], "-", "--out", out, "--format", "jsonl")
    assert json.loads(out.read_text())["prediction"] in ("no", "yes")


@pytest.mark.parametrize("source", ["a.csv", "-"])
def test_a_wrong_column_leaves_no_file(source, model, monkeypatch, tmp_path, capsys):
    write_csv(tmp_path / "a.csv", ("id", "post"), enumerate(TEXTS))
    pipe(monkeypatch, (tmp_path / "a.csv").read_bytes())
    path = source if source == "-" else tmp_path / source
    given = ["predict", model[0], path, "--format", "csv", "--out", tmp_path / "b.csv"]
    assert "has no column 'text' (--text), but 'id', 'post'. Add" in refused(capsys, *given)
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


def test_what_another_model_predicted_is_not_taken(model, new_posts, tmp_path, monkeypatch):
    clf = BertClassifier(sklearn_spt.load(model[0]).estimator.pretrained, random_state=0)
    sklearn_spt.save(clf.fit(TEXTS, [label for _, label in POSTS]), tmp_path / "other")
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    new = new_posts(".csv")
    assert main(["predict", str(tmp_path / "other"), new, "--quiet", "--out", str(whole)]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(program.shutil, "rmtree", lambda folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["predict", model[0], new, "--quiet", "--out", str(out)])
    given = ["predict", str(tmp_path / "other"), new, "--quiet", "--out", str(out), "--resume"]
    assert main(given) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_killed_process_leaves_what_is_resumed(model, new_posts, tmp_path):
    """The process is killed (SIGKILL) while it predicts the third part."""
    whole, out = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    given = ["predict", model[0], new_posts(".csv"), "--quiet", "--out"]
    code = [
        "import os, signal, sys, sklearn_spt.__main__ as program",
        "program._ROWS, texts, calls = 7, program._texts, []",
        "def dies(*args):",
        "    calls.append(len(calls) < 2 or os.kill(os.getpid(), signal.SIGKILL))",
        "    return texts(*args)",
        "program._texts = dies",
        "program.main(sys.argv[1:])",
    ]
    threads = f"--threads={torch.get_num_threads()}"
    command = [sys.executable, "-c", "\n".join(code), *given, str(out), threads]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert not out.exists()
    assert main([*given, str(whole)]) == 0
    assert main([*given, str(out), "--resume"]) == 0
    assert out.read_bytes() == whole.read_bytes()


# -- suggest ---------------------------------------------------------------------------------------
def test_the_rows_to_label_next(model, tiny_encoder, fit_data, tmp_path, capsys):
    posts = [(row, f"{text} {row % 5}", label) for row, (text, label) in enumerate(HALF_LABELED)]
    known = {text for _, text, label in posts if label}
    train = write_csv(tmp_path / "a.csv", ("id", "text", "label"), posts, ";")
    out = tmp_path / "to label.csv"
    given = ["suggest", model[0], "--n", "4", train]
    printed = run(capsys, *given, "--out", out).out
    assert f"fit {train} '{out}' OTHER_LABELS.csv --encoder={tiny_encoder} " in printed
    assert out.read_bytes().startswith(b"\xef\xbb\xbfid;text;label\r\n")  # for spreadsheets
    found = pd.read_csv(out, sep=";", keep_default_na=False, encoding="utf-8-sig")
    assert found["label"].tolist() == [""] * 4
    rows = [(int(row), text, "") for row, text in zip(found["id"], found["text"], strict=True)]
    assert len({*rows}) == 4
    assert {*rows} <= {*posts}
    assert not known & {*found["text"]}
    # they are labelled, and used with the first file
    found.assign(label="yes").to_csv(out, sep=";", index=False, encoding="utf-16")
    _, X, y = fit_data(train, out)
    assert list(zip(X, y, strict=True))[-4:] == [(text, "yes") for _, text, _ in rows]
    run(capsys, *given, out, "--out", tmp_path / "b.csv")
    further = pd.read_csv(tmp_path / "b.csv", sep=";", encoding="utf-8-sig")
    assert not {*further["text"]} & {*found["text"]}


def test_the_command_that_suggest_prints_works(model, fit_data, tmp_path, capsys):
    rows = [(f"{text} é {row} ", label or "?") for row, (text, label) in enumerate(HALF_LABELED)]
    train, out = tmp_path / "a file", tmp_path / "b.csv"
    table = pd.DataFrame([*rows, ("", "yes")], columns=["the post", "sick"])
    table.to_csv(train, index=False, encoding="cp1252", sep="\t")
    given = ["--text", "the post", "--label", "sick", "--unlabeled-marker", "?", "--format", "tsv"]
    given += ["--encoding", "cp1252", "--quoting", "3", "--skip-empty"]
    printed = run(capsys, "suggest", model[0], train, *given, "--n", "3", "--out", out).out
    words = shlex.split(printed.partition("python -m sklearn_spt fit ")[2])
    words.remove("OTHER_LABELS.csv")  # the texts of the fit have no label here
    clf, X, y = fit_data(*words)
    same = ("step_size", "lam", "alpha", "random_state", "estimator__pretrained")
    expected = sklearn_spt.load(model[0]).get_params()  # the next model is of the same kind
    assert {x: clf.get_params()[x] for x in same} == {x: expected[x] for x in same}
    assert clf.estimator.max_length == 16
    assert list(X) == [*table["the post"][:-1]]  # what is still unlabelled counts once
    assert list(y) == [label or -1 for _, label in HALF_LABELED]
    assert len(pd.read_csv(out, sep="\t", encoding="utf-8-sig")) == 3


def test_suggestions_of_files_without_labels_and_without_rows(model, tmp_path, capsys):
    path = write_json(tmp_path / "a.jsonl", [{"text": text, "x": [1]} for text in TEXTS[:3]])
    run(capsys, "suggest", model[0], path, "--out", out := tmp_path / "b.csv")
    assert pd.read_csv(out)["label"].isna().tolist() == [True] * 3
    train, more = (model[0].removesuffix("model") + name for name in ("train.tsv", "more.csv"))
    again = run(capsys, "suggest", model[0], train, more, "--out", out, "--overwrite").out
    assert {f"--unlabeled={more}", f"--out={model[0]}", "--overwrite"} < {*shlex.split(again)}
    path = write_csv(tmp_path / "c.csv", ("text", "label"), [("a", "yes"), ("a", "")])
    error = refused(capsys, "suggest", model[0], path, "--out", tmp_path / "d.csv")
    assert "Each text has a label: there is none to suggest." in error


def test_a_label_stays_as_it_is_spelled(tiny_encoder, tmp_path, capsys):
    rows = [(text, {"yes": "1", "no": "00", "": ""}[label]) for text, label in HALF_LABELED]
    train = write_csv(tmp_path / "a.csv", ("post", "sick"), rows)
    out = str(tmp_path / "a model")
    given = [train, "--text", "post", "--label", "sick"]
    options = ["--encoder", tiny_encoder, "--step-size", "1.0", "--out", out]
    assert f"predict '{out}' NEW.csv" in run(capsys, "fit", *given, *options).out
    predicted = run(capsys, "predict", out, train).out  # the columns are those of fit
    table = pd.read_csv(io.StringIO(predicted), dtype=str)
    assert {*table["prediction"]} <= {"1", "00"}
    run(capsys, "evaluate", out, train)
    error = refused(capsys, "evaluate", out, train, "--label", "label")
    assert "has no column 'label' (--label), but 'post', 'sick'. Add --label sick." in error


# -- evaluate --------------------------------------------------------------------------------------
def test_evaluate_prints_the_scores_of_labelled_rows(model, tmp_path, capsys):
    rows = POSTS[::3]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), [*rows, ("a shot", ""), ("b", "-1")])
    printed = run(capsys, "evaluate", model[0], path)
    warning = "warning: 8 of 16 rows were labelled rows of the fit: their score says nothing about"
    assert printed.err.startswith(warning)
    assert printed.err.endswith("; score others, or use compare.\n")
    new = write_csv(tmp_path / "new.csv", ("text", "label"), [("a shot", "yes"), rows[0]])
    assert run(capsys, "evaluate", model[0], new).err == ""
    again = write_csv(tmp_path / "b.csv", ("text", "label"), [*rows, ("a shot", "?"), ("b", "")])
    assert run(capsys, "evaluate", model[0], again, "--unlabeled-marker", "?") == printed
    predicted = sklearn_spt.load(model[0]).predict([text for text, _ in rows])
    true = [label for _, label in rows]
    for label in ("no", "yes"):
        score = f1_score(true, predicted, pos_label=label, zero_division=0.0)
        line = next(line for line in printed.out.splitlines() if line.split()[:1] == [label])
        assert line.split()[3:] == [f"{score:.3f}", str(true.count(label))]


@pytest.mark.parametrize("labels", [[0.0, 1.0], [False, True], [0, 1]])
def test_evaluate_knows_the_labels_of_any_model(labels, tiny_encoder, tmp_path, capsys):
    y = np.array([labels[label == "yes"] for _, label in POSTS])
    clf = BertClassifier(tiny_encoder, max_length=24, lr=1e-2, max_epochs=1, random_state=0)
    sklearn_spt.save(clf.fit(TEXTS, y), tmp_path / "model")
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, y.tolist(), strict=True)]
    path = write_json(tmp_path / "posts.jsonl", rows)
    accuracy = np.mean(clf.predict(TEXTS) == y)
    out, err = run(capsys, "evaluate", tmp_path / "model", path)
    assert f"accuracy                          {accuracy:.3f}" in out
    assert err == ""


@pytest.mark.parametrize(
    ("label", "message"),
    [("maybe", "'maybe' is no class of the model: ['no', 'yes']"), ("", "has no labelled row")],
)
def test_evaluate_needs_labels_of_the_model(model, label, message, tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", ("text", "label"), [("a shot", label)])
    assert message in refused(capsys, "evaluate", model[0], path)


# -- compare ---------------------------------------------------------------------------------------
def test_compare_prints_the_comparison(tiny_encoder, tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", ("text", "label"), HALF_LABELED)
    options = ["--encoder", tiny_encoder, "--step-size", "1.0", "--alpha", "0"]
    assert main(["compare", path, *options, "--folds", "2", "--positive", "no"]) == 0
    out, err = capsys.readouterr()
    assert "4/4" in err
    assert "\x1b" not in err
    assert "teachers" not in err  # one bar, since this is no terminal
    clf = SelfPretrainingClassifier(tiny_encoder, step_size=1.0, alpha=0.0, random_state=0)
    y = [label or -1 for _, label in HALF_LABELED]
    how = {"cv": 2, "pos_label": "no", "random_state": 0}
    with pytest.warns(UserWarning, match="can be told from chance"):
        expected = sklearn_spt.compare_with_supervised(clf, TEXTS, y, **how)
    assert out == f"{expected}\n"
    assert max(map(len, out.splitlines())) <= 100
    error = refused(capsys, "compare", path, *options, "--positive", "perhaps")
    assert "--positive='perhaps' is none of the classes" in error


# -- what cannot be used ---------------------------------------------------------------------------
GOOD, CUT_OFF = "text,label\na,b\nc,d\n", gzip.compress(b"text,label\n" * 99, mtime=0)[:-9]
NO_OBJECT = "is no JSON object; each line must hold one.\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "text,label\n", [], "a.csv holds no row."),
        ("a.csv", "", [], "a.csv: No columns to parse from file"),
        ("a.csv", "text\na, b\nc, d\n", [], "the rows have more fields than the first line"),
        ("a.csv", "text,label\na,b\na,b,c\n", [], "Expected 2 fields in line 3, saw 3"),
        ("a.csv", GOOD, ["--max-length=99"], "--max-length must be in [3, 64]"),
        ("a.csv", GOOD, ["--encoder=no"], "--encoder 'no' cannot be loaded: it is no folder"),
        ("a.csv", GOOD, ["--threads=0"], "positive"),
        ("a.csv", GOOD, ["--encoding=no"], "unknown encoding: no"),
        ("a.jsonl", '{"text": "a"}\n\n{"te', [], f"a.jsonl: line 3 {NO_OBJECT}"),
        ("a.jsonl", '{"text": "a"}\nnull\n', [], f"a.jsonl: line 2 {NO_OBJECT}"),
        ("a.json", '[{"text": "a"}]', [], f"a.json: line 1 {NO_OBJECT}"),
        ("a.json", "{}\n", [], "a.json has no column 'text' (--text).\n"),
        pytest.param("a.csv.gz", CUT_OFF, [], "file ended before the end-of", id="cut off"),
    ],
)
def test_one_line_says_what_is_wrong(name, content, options, message, model, tmp_path, capsys):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    out = tmp_path / "model"
    options = ["--encoder", sklearn_spt.load(model[0]).estimator.pretrained, "--quiet", *options]
    assert main(["fit", str(tmp_path / name), "--out", str(out), *options]) == 1
    printed, err = capsys.readouterr()
    assert printed == ""
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1
    assert lines[0].startswith("sklearn_spt fit: ")
    assert message in err
    assert not out.exists()


def test_models_of_numbers_read_no_texts(tmp_path, capsys):
    clf = sklearn_spt.SoftSelfTrainingClassifier().fit(np.eye(6), [0, 1, 0, 1, -1, -1])
    sklearn_spt.save(clf, tmp_path / "soft")
    path = write_csv(tmp_path / "a.csv", ("text", "label"), POSTS)
    error = refused(capsys, "predict", tmp_path / "soft", path)
    assert "holds a SoftSelfTrainingClassifier, which reads no texts" in error


# -- how it ends -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt, 130, "sklearn_spt predict: interrupted\n"),
        (MemoryError, 1, "sklearn_spt predict: MemoryError\n"),
        (OSError(28, "No space\nleft"), 1, "sklearn_spt predict: [Errno 28] No space left\n"),
        (ValueError("set max_length, not 'alpha'"), 1, "set --max-length, not 'alpha'\n"),
    ],
)
def test_status_of_what_ends_a_command(error, status, message, monkeypatch, capsys):
    monkeypatch.setitem(program._COMMANDS, "predict", Mock(side_effect=error))
    assert main(["predict", "model", "new.csv"]) == status
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: command"),
        ("fit a.csv", "the following arguments are required: --out"),
        ("fit a.csv --out m --step-size 50%", "argument --step-size: invalid number value"),
        ("predict m a.csv --format xls", "argument --format: invalid choice: 'xls'"),
    ],
)
def test_a_command_line_that_cannot_be_understood(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_mistakes_and_own_nets_wait_for_no_library(tmp_path):
    for folder in ("used", "model", "empty", "dir.csv"):
        (tmp_path / folder).mkdir()
    for file in ("used/x", "model/estimator.json", "a.xlsx"):
        (tmp_path / file).touch()
    (tmp_path / "a.csv").write_text("post\na\n")
    (tmp_path / "b.csv").write_text("text,label\na,\nb,\n")
    (tmp_path / "one.csv").write_text("text,label\na,x\nb,\n")
    (tmp_path / "two.csv").write_text("text,label\na,x\nb,y\n")
    (tmp_path / "zip.csv").write_bytes(b"PK\3\4\x14\xff")
    remedy = "give the folder of a saved classifier."
    files = ": give a .csv (for spreadsheets), .tsv, .parquet or .jsonl."
    used = "is in use; set --overwrite, or give another folder."
    no_page = "or it is that of --out."
    taken = f"File exists: '{tmp_path / 'a.csv'}'); free space on its disk, change its permissions,"
    post = "has no column 'text' (--text), but 'post'. Add --text post --label NAME."
    share = "must be a share in (0, 1] or a whole number from 1"
    new = "give a new .csv, or --overwrite one that is no input."
    mistakes = {
        "fit no.csv --out used": used,  # before the file is read
        "fit no.csv --out a.csv": used,
        "fit no.csv --out model": used,
        "fit no.csv --out a.csv/b": f"{taken} or give another folder.",
        "fit two.csv --out b --report no/page": f"there is no folder no, {no_page}",
        "fit two.csv --out empty --report empty/page": f"there is no folder empty, {no_page}",
        "fit two.csv --out b --sample -1": "--sample must be 0 or more; got -1.",
        "fit two.csv a.csv --out b": f"a.csv {post}",
        "fit b.csv --out b": "Column 'label' is empty in all 2 rows; label rows of two classes.",
        "fit b.csv --out b --lam 3": "--lam must be 0 to 1; got 3.0.",
        "fit b.csv --out b --alpha nan": "--alpha must be 0 to 1; got nan.",
        "fit one.csv --out b": "Column 'label' has one class only, 'x'; label rows of two classes.",
        "fit two.csv --out b --max-length 0": "--max-length must be 3 or more; got 0.",
        "fit two.csv --out b --encoder ./no": "--encoder ./no: no such folder.",
        "fit no --out b": "no: give a file of texts whose name says the format, or add --format.",
        "fit a.xlsx --out b": "a.xlsx: Save it as CSV UTF-8.",
        "compare a.csv": f"a.csv {post}",
        "compare model": "model: give a file of texts whose name says the format, or add --format.",
        "compare zip.csv": "zip.csv: Save it as CSV UTF-8.",
        "compare b.csv --folds 1": "--folds must be 2 or more; got 1.",
        "compare b.csv --step-size 0": f"--step-size {share}; got 0.",
        "predict no b.csv": f"no: no such folder; {remedy}",
        "predict used b.csv": f"used: holds no saved classifier; {remedy}",
        "predict model no.csv": "no.csv: No such file or directory",
        "predict model b.csv --out a.csv": "in use; add --overwrite, or --resume after a kill.",
        "predict model b.csv --out dir.csv": files,
        "predict model b.csv --out dir.csv --overwrite": files,
        "predict model b.csv --out dir.csv --resume": files,
        "predict model b.csv --out x.xlsx": files,
        "evaluate no b.csv": f"no: no such folder; {remedy}",
        "evaluate model a.xlsx": "a.xlsx: Save it as CSV UTF-8.",
        "suggest no b.csv --out c.csv": f"no: no such folder; {remedy}",
        "suggest model b.csv --out dir.csv --overwrite": f"--out dir.csv: {new}",
        "suggest model b.csv --out a.csv": new,
        "suggest model b.csv --out b.csv --overwrite": new,
    }
    code = [
        "import sys, sklearn_spt.__main__ as program",
        f"assert {{program.main(x.split()) for x in {list(mistakes)}}} == {{1}}",
        "assert not {'sklearn', 'torch', 'skorch', 'transformers'} & {*sys.modules}",
        "program.sklearn_spt.SelfPretrainingClassifier",
        "assert 'transformers' not in sys.modules",
    ]
    command = [sys.executable, "-c", "\n".join(code)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    lines = found.stderr.splitlines()
    for given, message, line in zip(mistakes, mistakes.values(), lines, strict=True):
        assert line.startswith(f"sklearn_spt {given.split()[0]}: ")
        assert line.endswith(message)
    assert (tmp_path / "b.csv").read_text() == "text,label\na,\nb,\n"


def test_a_reader_that_closes_the_pipe_is_no_error():
    lines = [
        "import sys",
        "from sklearn_spt import __main__ as program",
        "program._COMMANDS['predict'] = lambda options: [print('a' * 9999) for _ in range(99)]",
        "sys.exit(program.main(['predict', 'model', 'new.csv']))",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"a"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
