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


@pytest.fixture(scope="module")
def model(tiny_encoder, tmp_path_factory):
    """A folder that `fit` wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("main")
    train = write_csv(folder / "train.tsv", ("text", "label"), HALF_LABELED, "\t")
    more = write_csv(folder / "more.csv", ("id", "text"), enumerate(TEXTS[::4]))
    given = ["fit", train, "--unlabeled", more, "--out", str(folder / "model"), "--encoder"]
    options = ["--step-size=30", "--lam=0.2", "--alpha=0", "--seed=1", "--max-length=16", "--quiet"]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", printed)
        assert main([*given, tiny_encoder, *options]) == 0
    return str(folder / "model"), printed.getvalue()


@pytest.fixture
def standard_input(monkeypatch):
    """A function that sets the content of standard input."""

    def given(content):
        content = content if isinstance(content, bytes) else content.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return given


@pytest.fixture
def fit_data(monkeypatch):
    """A function that returns the arguments that `fit` of the classifier gets."""

    def of(*arguments):
        found = []

        def fit(clf, X, y):
            found.append((clf, X, y))
            raise ValueError("stop")

        monkeypatch.setattr(SelfPretrainingClassifier, "fit", fit)
        assert main(["fit", *map(str, arguments), "--out", "no_such_folder"]) == 1
        return found[0] if found else None

    return of


# -- fit -------------------------------------------------------------------------------------------
def test_fit_saves_the_model_that_its_options_describe(model):
    folder, printed = model
    clf = sklearn_spt.load(folder)
    expected = {"step_size": 30, "lam": 0.2, "alpha": 0.0, "random_state": 1, "verbose": 0}
    expected |= {"temperature": 1.0, "checkpoint_dir": None}
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
    given = ["fit", train, "--encoder", tiny_encoder, "--out", str(tmp_path / "model"), "--quiet"]
    assert main(given) == 0
    out, err = capsys.readouterr()
    assert "there were no unlabelled rows" in out
    assert "help" not in out  # no verdict about rows that are not there
    assert err.startswith("warning: --label holds no unlabelled row")
    assert "--unlabeled is empty" in err  # the option, not the parameter
    assert err.count("\n") == 1


def test_a_class_like_a_marker_is_saved_and_doubted_at_the_end(tiny_encoder, tmp_path, capsys):
    rows = [(text, label or "unknown") for text, label in HALF_LABELED]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    out = tmp_path / "model"
    given = ["fit", train, "--encoder", tiny_encoder, "--out", str(out), "--quiet"]
    assert main(given) == 0
    assert sklearn_spt.load(out).classes_.tolist() == ["no", "unknown", "yes"]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Is 'unknown' a class?")
    assert last.endswith("add --overwrite --unlabeled-marker='unknown'")
    assert main([*given, "--overwrite", "--unlabeled-marker", "unknown"]) == 0
    assert sklearn_spt.load(out).classes_.tolist() == ["no", "yes"]
    assert capsys.readouterr().out.endswith(" NEW.csv --out predicted.csv\n")


def test_a_fit_that_fails_overwrites_no_model(model, capsys):
    assert main(["fit", "absent.csv", "--out", model[0], "--overwrite"]) == 1
    assert "absent.csv: No such file or directory" in capsys.readouterr().err
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
    options = ["--encoder", tiny_encoder, "--step-size", "1.0", "--quiet"]
    assert main(["fit", path, "--out", str(tmp_path / "model"), *options]) == 0
    shown = (
        "{'2': 12, '2.0': 2}, '2.0' first in line 52, {'HAM': 12, 'ham': 2}, 'ham' first in line 50"
    )
    err = capsys.readouterr().err
    assert "warning: --label holds labels that differ only in form; write them" in err
    assert shown in err
    assert err.count("differ only in form") == 1
    assert sklearn_spt.load(tmp_path / "model").classes_.tolist() == ["2", "2.0", "HAM", "ham"]
    assert main(["evaluate", str(tmp_path / "model"), path, "--quiet"]) == 0
    supports = [line.split()[::4] for line in capsys.readouterr().out.splitlines()[2:6]]
    assert supports == [["2", "12"], ["2.0", "2"], ["HAM", "12"], ["ham", "2"]]
    part = write_csv(tmp_path / "b.csv", ("text", "label"), rows[-2:])
    assert main(["evaluate", str(tmp_path / "model"), part, "--quiet"]) == 0
    supports = [line.split()[::4] for line in capsys.readouterr().out.splitlines()[2:4]]
    assert supports == [["2", "0"], ["2.0", "2"]]


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
    assert fit_data(path, "--skip-empty") is None
    assert f"a.jsonl: line 7 of column {message}" in capsys.readouterr().err
    pd.DataFrame([row, row], ["x", "y"]).to_parquet(tmp_path / "a.parquet")
    assert fit_data(tmp_path / "a.parquet") is None
    array = message.replace("', '", "' '")  # prints without commas
    assert f"a.parquet: line 1 of column {array}" in capsys.readouterr().err
    if "one text" in message:
        monkeypatch.setattr(program, "_ROWS", 4)
        assert main(["predict", model[0], path, "--quiet"]) == 1
        assert f"a.jsonl: line 7 of column {message}" in capsys.readouterr().err


def test_bytes_are_no_texts(fit_data, tmp_path, capsys):
    pd.DataFrame({"text": ["a", b"b"], "label": ["x", "y"]})[1:].to_parquet(tmp_path / "a.parquet")
    assert fit_data(tmp_path / "a.parquet") is None
    assert "line 1 of column 'text' holds b'b', not one text" in capsys.readouterr().err


def test_encodings_and_quotation_marks(fit_data, tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes("text;label\ncafé;yes\nb;no\n".encode("cp1252"))
    assert fit_data(tmp_path / "a.csv") is None
    err = capsys.readouterr().err
    assert "a.csv: 'utf-8' codec can't decode" in err
    assert "add --encoding, such as cp1252" in err
    assert fit_data(tmp_path / "a.csv", "--encoding", "cp1252")[1][0] == "café"
    (tmp_path / "a.tsv").write_text('text\tlabel\n"a\tyes\nb\tno\n')
    assert fit_data(tmp_path / "a.tsv") is None
    assert "EOF inside string" in capsys.readouterr().err
    assert list(fit_data(tmp_path / "a.tsv", "--quoting", "3")[1]) == ['"a', "b"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_byte_order_mark_tells_the_encoding(name, encoding, fit_data, standard_input, tmp_path):
    rows = [("über", "yes"), ("ça", "no")]
    if name == "a.jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    else:
        lines = [("\t" if name == "a.tsv" else ";").join(row) for row in [("text", "label"), *rows]]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    content = (mark + "\n".join(lines) + "\n").encode(encoding)
    (tmp_path / name).write_bytes(content)
    assert list(fit_data(tmp_path / name)[1]) == ["über", "ça"]
    standard_input(content)
    _, X, y = fit_data("-", "--format", name[2:])
    assert (list(X), list(y)) == (["über", "ça"], ["yes", "no"])


def test_warnings_and_errors_name_lines_of_the_file(model, tmp_path, capsys):
    rows = [("a\nb", ""), *POSTS[:2], ("she got the flu shot", "x"), ("a b", "yes")]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    more = write_json(tmp_path / "b.jsonl", [{"text": "c"}, {"text": "d \ud83d"}])
    given = ["fit", train, "--out", str(tmp_path / "new"), "--quiet", "--encoder"]
    options = [sklearn_spt.load(model[0]).estimator.pretrained, "--unlabeled", more]
    assert main([*given, *options]) == 1
    assert f"half of a character (a lone surrogate) in line 2 of {more}" in capsys.readouterr().err
    rows += [("got got", "yes"), ("Got got", "no")]
    train = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    assert main([*given, options[0], "--step-size", "1"]) == 0
    assert re.search(r"\b2 labelled texts look .*\(first: line 8\)", capsys.readouterr().err)
    (tmp_path / "b.csv").write_text('text,label\na,x\n"b,y\n')
    assert main(["compare", str(tmp_path / "b.csv")]) == 1
    assert "EOF inside string starting at line 3" in capsys.readouterr().err


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
def test_a_column_that_the_user_may_mean(header, missing, hint, fit_data, tmp_path, capsys):
    rows = "1,this text is of a usual length,x\n2,another one of a length,y\n"
    (tmp_path / "a.csv").write_text(f"{header}\n{rows}")
    assert fit_data(tmp_path / "a.csv") is None
    names = ", ".join(map(repr, header.split(",")))
    expected = f"a.csv has no column '{missing}' (--{missing}), but {names}. {hint}\n"
    assert capsys.readouterr().err.endswith(expected)


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


def test_empty_texts_are_listed_with_their_lines(fit_data, tmp_path, capsys):
    rows = [("a\nb", "x"), ("", "x"), ("c", "y"), (" ", "")]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), rows)
    assert fit_data(path) is None
    expected = "a.csv: no text in line 4, 6; fill in, or leave out by --skip-empty.\n"
    assert capsys.readouterr().err.endswith(expected)
    _, X, y = fit_data(path, "--skip-empty")
    assert (list(X), list(y)) == (["a\nb", "c"], ["x", "y"])
    path = write_json(tmp_path / "a.jsonl", [{"text": None, "label": "x"}] * 25)
    assert fit_data(path) is None
    assert "no text in line 1, 2, " in (err := capsys.readouterr().err)
    assert ", 19, 20 and 5 more; fill in, or leave out by --skip-empty." in err
    rows = [("a", "x\ny\nz", ""), (" ", "", "b")]
    path = write_csv(tmp_path / "b.csv", ("text", "other", "label"), rows)
    assert fit_data(path) is None
    assert "b.csv: no text in line 5; fill in" in capsys.readouterr().err


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
    assert main(["predict", model[0], str(path), "--quiet"]) == 0
    out, err = capsys.readouterr()
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


def test_predict_streams_parts(model, standard_input, capsys, monkeypatch):
    sizes, predict_proba = [], SelfPretrainingClassifier.predict_proba

    def counted(clf, X):
        sizes.append(len(X))
        return predict_proba(clf, X)

    monkeypatch.setattr(SelfPretrainingClassifier, "predict_proba", counted)
    monkeypatch.setattr(program, "_ROWS", 7)
    standard_input("text\n" + "".join(f"{text}\n" for text in TEXTS))
    assert main(["predict", model[0], "-", "--format", "csv", "--quiet"]) == 0
    out, _ = capsys.readouterr()
    assert sizes == [7] * 6 + [6]
    assert out.count("prediction") == 1
    assert [line.partition(",")[0] for line in out.splitlines()] == ["text", *TEXTS]


def test_predict_by_options(model, standard_input, capsys, monkeypatch):
    found = []
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    number = 1234567890123456789
    given = [{"text": "a", "id": number, "x": {"y": [1]}}, {"text": "ü"}, {"text": " "}]
    standard_input("\n".join(map(json.dumps, given)))
    options = ["--format", "jsonl", "--skip-empty", "--threads", "3", "--quiet"]
    assert main(["predict", model[0], "-", *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
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
    given = ["predict", model[0], new_posts(source), "--quiet"]
    assert main(given) == 0
    printed = capsys.readouterr().out
    out = tmp_path / f"out{'.jsonl' if source == '.jsonl' else '.csv'}"
    assert main([*given, "--out", str(out)]) == 0
    assert out.read_text() == printed
    assert main([*given, "--out", str(out)]) == 1
    assert f"{out} is in use; add --overwrite" in capsys.readouterr().err
    assert main([*given, "--out", str(out), "--overwrite"]) == 0
    other = tmp_path / "out.parquet"
    if source == ".jsonl":
        assert main([*given, "--out", str(other)]) == 1
        assert "the name must end in .jsonl for JSON lines" in capsys.readouterr().err
    else:
        assert main([*given, "--out", str(other)]) == 0
        found, sep = pd.read_parquet(other), ";" if source == ".csv" else ","
        expected = pd.read_csv(io.StringIO(printed), sep=sep, dtype={"n": "Int64"})
        same = ["text", "prediction", "probability_no", "probability_yes"]
        pd.testing.assert_frame_equal(found[same], expected[same], check_dtype=False)
        # numbers stay numbers, also in a part where one is missing
        assert found["n"].tolist()[1:] == [str(n) if source == ".csv" else n for n in range(1, 36)]
    assert capsys.readouterr() == ("", "")
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
def test_a_prediction_goes_on_to_the_same_bytes(
    source, suffix, model, new_posts, tmp_path, capsys, monkeypatch
):
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
    capsys.readouterr()
    assert main([*given, str(out)]) == 1
    assert f"{out}.parts is in use; add --overwrite, or --resume" in capsys.readouterr().err
    for _ in range(2):  # each time two more of six parts
        asked.clear()
        status = main([*given, str(out), "--resume"])
    assert status == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not [*tmp_path.glob("*.parts")]
    asked.clear()
    assert main([*given, str(out), "--resume"]) == 0
    assert not asked


def test_a_prediction_of_standard_input_goes_into_a_file(model, standard_input, tmp_path, capsys):
    out = tmp_path / "a.jsonl"
    standard_input('{"text": "a shot"}\n')
    given = ["predict", model[0], "-", "--quiet", "--out"]
    assert main([*given, str(out), "--format", "jsonl"]) == 0
    assert json.loads(out.read_text())["prediction"] in ("no", "yes")
    standard_input("text\na\n")
    assert main([*given, str(tmp_path / "a.csv")]) == 1
    assert (
        "-: give a file of texts whose name says the format, or add --format."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("source", ["a.csv", "-"])
def test_a_wrong_column_leaves_no_file(source, model, standard_input, tmp_path, capsys):
    write_csv(tmp_path / "a.csv", ("id", "post"), enumerate(TEXTS))
    standard_input((tmp_path / "a.csv").read_bytes())
    path = source if source == "-" else str(tmp_path / source)
    given = ["predict", model[0], path, "--format", "csv", "--quiet"]
    assert main([*given, "--out", str(tmp_path / "b.csv")]) == 1
    assert "has no column 'text' (--text), but 'id', 'post'. Add" in capsys.readouterr().err
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
    given = ["predict", model[0], new_posts(".csv"), "--quiet", "--threads=1", "--out"]
    code = [
        "import os, signal, sys, sklearn_spt.__main__ as program",
        "program._ROWS, texts, calls = 7, program._texts, []",
        "def dies(*args):",
        "    calls.append(len(calls) < 2 or os.kill(os.getpid(), signal.SIGKILL))",
        "    return texts(*args)",
        "program._texts = dies",
        "program.main(sys.argv[1:])",
    ]
    command = [sys.executable, "-c", "\n".join(code), *given, str(out)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert not out.exists()
    threads = torch.get_num_threads()
    try:
        assert main([*given, str(whole)]) == 0
        assert main([*given, str(out), "--resume"]) == 0
    finally:
        torch.set_num_threads(threads)
    assert out.read_bytes() == whole.read_bytes()


# -- suggest ---------------------------------------------------------------------------------------
def test_the_rows_to_label_next(model, tiny_encoder, fit_data, tmp_path, capsys):
    posts = [(row, f"{text} {row % 5}", label) for row, (text, label) in enumerate(HALF_LABELED)]
    known = {text for _, text, label in posts if label}
    train = tmp_path / "a.csv"
    write_csv(train, ("id", "text", "label"), posts, ";")
    out = tmp_path / "to label.csv"
    given = ["suggest", model[0], str(train), "--n", "4", "--quiet", "--out", str(out)]
    assert main(given) == 0
    printed = capsys.readouterr().out
    assert f"python -m sklearn_spt fit {train} '{out}' --encoder={tiny_encoder} " in printed
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
    assert main(given) == 1
    assert "give a new .csv, or --overwrite one that is no input." in capsys.readouterr().err
    again = [*given[:3], str(out), *given[3:-1], str(tmp_path / "b.csv")]
    assert main(again) == 0
    further = pd.read_csv(tmp_path / "b.csv", sep=";", encoding="utf-8-sig")
    assert not {*further["text"]} & {*found["text"]}


def test_the_command_that_suggest_prints_works(model, fit_data, tmp_path, capsys):
    rows = [(f"{text} é {row} ", label or "?") for row, (text, label) in enumerate(HALF_LABELED)]
    rows += [("", "yes")]
    train, out = tmp_path / "a file", tmp_path / "b.csv"
    table = pd.DataFrame(rows, columns=["the post", "sick"])
    table.to_csv(train, index=False, encoding="cp1252", sep="\t")
    given = ["--text", "the post", "--label", "sick", "--unlabeled-marker", "?", "--format", "tsv"]
    given += ["--encoding", "cp1252", "--quoting", "3", "--skip-empty"]
    options = ["--n", "3", "--out", str(out), "--quiet"]
    assert main(["suggest", model[0], str(train), *given, *options]) == 0
    hint = capsys.readouterr().out.partition("python -m sklearn_spt fit ")[2]
    clf, X, y = fit_data(*shlex.split(hint))
    assert {f"--out={model[0]}", "--overwrite"} < {*shlex.split(hint)}
    same = ("step_size", "lam", "alpha", "random_state", "estimator__pretrained")
    expected = sklearn_spt.load(model[0]).get_params()  # the next model is of the same kind
    assert {x: clf.get_params()[x] for x in same} == {x: expected[x] for x in same}
    assert clf.estimator.max_length == 16
    found = pd.read_csv(out, sep="\t", encoding="utf-8-sig")
    assert list(X) == [*table["the post"][:-1]]  # what is still unlabelled counts once
    assert list(y) == [label or -1 for _, label in HALF_LABELED]
    assert len(found) == 3


def test_suggestions_of_files_without_labels_and_without_rows(model, tmp_path, capsys):
    path = write_json(tmp_path / "a.jsonl", [{"text": text, "x": [1]} for text in TEXTS[:3]])
    out = tmp_path / "b.csv"
    assert main(["suggest", model[0], path, "--out", str(out), "--quiet"]) == 0
    assert pd.read_csv(out)["label"].isna().tolist() == [True] * 3
    path = write_csv(tmp_path / "c.csv", ("text", "label"), [("a", "yes"), ("a", "")])
    assert main(["suggest", model[0], path, "--out", str(tmp_path / "d.csv"), "--quiet"]) == 1
    assert "Each text has a label: there is none to suggest." in capsys.readouterr().err


def test_a_label_stays_as_it_is_spelled(tiny_encoder, tmp_path, capsys):
    rows = [(text, {"yes": "1", "no": "00", "": ""}[label]) for text, label in HALF_LABELED]
    train = write_csv(tmp_path / "a.csv", ("post", "sick"), rows)
    out = str(tmp_path / "a model")
    given = [train, "--text", "post", "--label", "sick"]
    options = ["--encoder", tiny_encoder, "--step-size", "1.0", "--quiet"]
    assert main(["fit", *given, "--out", out, *options]) == 0
    assert f"predict '{out}' NEW.csv" in capsys.readouterr().out
    assert main(["predict", out, train, "--quiet"]) == 0  # the columns are those of fit
    table = pd.read_csv(io.StringIO(capsys.readouterr().out), dtype=str)
    assert {*table["prediction"]} <= {"1", "00"}
    assert main(["evaluate", out, train, "--quiet"]) == 0
    assert main(["evaluate", out, train, "--label", "label", "--quiet"]) == 1
    expected = "has no column 'label' (--label), but 'post', 'sick'. Add --label sick."
    assert expected in capsys.readouterr().err


# -- evaluate --------------------------------------------------------------------------------------
def test_evaluate_prints_the_scores_of_labelled_rows(model, tmp_path, capsys):
    rows = POSTS[::3]
    path = write_csv(tmp_path / "a.csv", ("text", "label"), [*rows, ("a shot", ""), ("b", "-1")])
    assert main(["evaluate", model[0], path, "--quiet"]) == 0
    printed = capsys.readouterr()
    warning = "warning: 8 of 16 rows were labelled rows of the fit: their score says nothing about"
    assert printed.err.startswith(warning)
    assert printed.err.endswith("; score others, or use compare.\n")
    new = write_csv(tmp_path / "new.csv", ("text", "label"), [("a shot", "yes"), rows[0]])
    assert main(["evaluate", model[0], new, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    again = write_csv(tmp_path / "b.csv", ("text", "label"), [*rows, ("a shot", "?"), ("b", "")])
    assert main(["evaluate", model[0], again, "--quiet", "--unlabeled-marker", "?"]) == 0
    assert capsys.readouterr() == printed
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
    assert main(["evaluate", str(tmp_path / "model"), path, "--quiet"]) == 0
    accuracy = np.mean(clf.predict(TEXTS) == y)
    out, err = capsys.readouterr()
    assert f"accuracy                          {accuracy:.3f}" in out
    assert err == ""


@pytest.mark.parametrize(
    ("label", "message"),
    [("maybe", "'maybe' is no class of the model: ['no', 'yes']"), ("", "has no labelled row")],
)
def test_evaluate_needs_labels_of_the_model(model, label, message, tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", ("text", "label"), [("a shot", label)])
    assert main(["evaluate", model[0], path, "--quiet"]) == 1
    assert message in capsys.readouterr().err


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
    assert main(["compare", path, *options, "--positive", "perhaps", "--quiet"]) == 1
    assert "--positive='perhaps' is none of the classes" in capsys.readouterr().err


# -- what cannot be used ---------------------------------------------------------------------------
GOOD, CUT_OFF = "text,label\na,b\nc,d\n", gzip.compress(b"text,label\n" * 99, mtime=0)[:-9]
NO_OBJECT = "is no JSON object; each line must hold one.\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "text,y,z\na,b,c\n", [], "(--label), but 'text', 'y', 'z'. Add --label NAME."),
        ("a.csv", "text,label\n", [], "a.csv holds no row."),
        ("a.csv", "", [], "a.csv: No columns to parse from file"),
        ("a.csv", "text\na, b\nc, d\n", [], "the rows have more fields than the first line"),
        ("a.csv", "text,label\na,b\na,b,c\n", [], "Expected 2 fields in line 3, saw 3"),
        ("a.csv", "text,label\na,b\nc,b\n", [], "one class only, 'b'"),
        ("a.csv", GOOD, ["--lam=2"], "--lam must be 0 to 1; got 2.0.\n"),
        ("a.csv", GOOD, ["--max-length=99"], "--max-length must be in [3, 64]"),
        ("a.csv", GOOD, ["--encoder=no"], "--encoder 'no' cannot be loaded: it is no folder"),
        ("a.csv", GOOD, ["--threads=0"], "positive"),
        ("a.csv", GOOD, ["--encoding=no"], "unknown encoding: no"),
        ("a.jsonl", '{"text": "a"}\n\n{"te', [], f"a.jsonl: line 3 {NO_OBJECT}"),
        ("a.jsonl", '{"text": "a"}\nnull\n', [], f"a.jsonl: line 2 {NO_OBJECT}"),
        ("a.json", '[{"text": "a"}]', [], f"a.json: line 1 {NO_OBJECT}"),
        ("a.json", "{}\n", [], "a.json has no column 'text' (--text).\n"),
        pytest.param("a.csv.gz", CUT_OFF, [], "file ended before the end-of", id="cut off"),
        ("a.jsonl", '{"text": "a \\ud83d", "label": 1}\n' + NO, [], "half of a character"),
        ("a.dat", GOOD, [], "give a file of texts whose name says the format, or add --format."),
        ("b.csv/a.csv", None, [], "No such file or directory"),
    ],
)
def test_one_line_says_what_is_wrong(name, content, options, message, model, tmp_path, capsys):
    if content is not None:
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


def test_folders_that_are_not_there_and_models_of_numbers(model, tmp_path, capsys):
    train = write_csv(tmp_path / "a.csv", ("text", "label"), POSTS)
    given = ["fit", train, "--out", str(tmp_path / "out"), "--report", str(tmp_path / "no" / "a")]
    assert main(given) == 1
    assert f"there is no folder {tmp_path / 'no'}" in capsys.readouterr().err
    X, y = np.eye(6), [0, 1, 0, 1, -1, -1]
    sklearn_spt.save(sklearn_spt.SoftSelfTrainingClassifier().fit(X, y), tmp_path / "soft")
    assert main(["predict", str(tmp_path / "soft"), train]) == 1
    assert "holds a SoftSelfTrainingClassifier, which reads no texts" in capsys.readouterr().err


def test_a_folder_that_cannot_be_used(model, tmp_path, capsys):
    (tmp_path / "file").touch()
    for out, message in (
        (model[0], "is in use; set --overwrite, or give another folder"),
        (tmp_path / "file", "is in use; set --overwrite, or give another folder"),
        (tmp_path / "file" / "model", "File exists"),
    ):
        # before the file is read
        assert main(["fit", str(tmp_path / "absent.csv"), "--out", str(out)]) == 1
        assert message in capsys.readouterr().err
    sklearn_spt.load(model[0])


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
    def fails(options):
        raise error

    monkeypatch.setitem(program._COMMANDS, "predict", fails)
    assert main(["predict", "model", "new.csv"]) == status
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["fit", "a.csv"], "the following arguments are required: --out"),
        (
            ["fit", "a.csv", "--out", "m", "--step-size", "50%"],
            "argument --step-size: invalid number value",
        ),
        (["predict", "m", "a.csv", "--format", "xls"], "argument --format: invalid choice: 'xls'"),
    ],
)
def test_a_command_line_that_cannot_be_understood(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_mistakes_and_own_nets_wait_for_no_library(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").touch()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "estimator.json").touch()
    (tmp_path / "a.csv").write_text("post\na\n")
    (tmp_path / "b.csv").write_text("text,label\na,\nb,\n")
    (tmp_path / "one.csv").write_text("text,label\na,x\nb,\n")
    (tmp_path / "two.csv").write_text("text,label\na,x\nb,y\n")
    (tmp_path / "dir.csv").mkdir()
    (tmp_path / "a.xlsx").touch()
    (tmp_path / "zip.csv").write_bytes(b"PK\3\4\x14\xff")
    remedy = "give the folder of a saved classifier."
    files = ": give a .csv (for spreadsheets), .tsv, .parquet or .jsonl."
    mistakes = {
        "fit a.csv --out used": "is in use; set --overwrite, or give another folder.",
        "fit b.csv --out b": "Column 'label' is empty in all 2 rows; label rows of two classes.",
        "fit b.csv --out b --lam 3": "--lam must be 0 to 1; got 3.0.",
        "fit b.csv --out b --alpha nan": "--alpha must be 0 to 1; got nan.",
        "fit one.csv --out b": "Column 'label' has one class only, 'x'; label rows of two classes.",
        "fit two.csv --out b --max-length 0": "--max-length must be 3 or more; got 0.",
        "fit two.csv --out b --encoder ./no": "--encoder ./no: no such folder.",
        "fit no --out b": "no: give a file of texts whose name says the format, or add --format.",
        "fit a.xlsx --out b": "a.xlsx: Save it as CSV UTF-8.",
        "compare a.csv": "no column 'text' (--text), but 'post'. Add --text post --label NAME.",
        "compare model": "model: give a file of texts whose name says the format, or add --format.",
        "compare zip.csv": "zip.csv: Save it as CSV UTF-8.",
        "compare b.csv --folds 1": "--folds must be 2 or more; got 1.",
        "compare b.csv --step-size 0": (
            "--step-size must be a share in (0, 1] or a whole number from 1; got 0."
        ),
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
        "suggest model b.csv --out dir.csv --overwrite": (
            "--out dir.csv: give a new .csv, or --overwrite one that is no input."
        ),
        "suggest model b.csv --out a.csv": "new .csv, or --overwrite one that is no input.",
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


def test_files_of_other_columns_and_own_files_are_refused(model, tmp_path, capsys):
    first = write_csv(tmp_path / "a.csv", ("text", "label"), HALF_LABELED)
    other = write_csv(tmp_path / "o.csv", ("text", "Label"), HALF_LABELED)
    assert main(["fit", first, other, "--out", str(tmp_path / "m")]) == 1
    assert f"{other} has no column 'label'" in capsys.readouterr().err
    before = (tmp_path / "a.csv").read_bytes()
    assert main(["suggest", model[0], first, "--out", first, "--overwrite"]) == 1
    assert "or --overwrite one that is no input" in capsys.readouterr().err
    assert (tmp_path / "a.csv").read_bytes() == before
    page = str(tmp_path / "m" / "page.html")
    assert main(["fit", first, "--out", str(tmp_path / "m"), "--report", page]) == 1
    assert "or it is that of --out" in capsys.readouterr().err
    assert main(["fit", first, "--out", str(tmp_path / "m"), "--sample", "-1"]) == 1
    assert "--sample must be 0 or more" in capsys.readouterr().err
