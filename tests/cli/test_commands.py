"""The commands, run in this process with a tiny encoder."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.optional import pd
from sklearn.metrics import f1_score

import sklearn_spt
from sklearn_spt import FOUR_STUDENTS, BertClassifier
from sklearn_spt.cli import _commands, _rows
from sklearn_spt.cli._arguments import parsed
from sklearn_spt.cli._commands import main
from sklearn_spt.cli._rows import texts_of, training_data


def write_csv(path, header, rows, sep=","):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=sep).writerows([header, *rows] if header else rows)
    return str(path)


@pytest.fixture(scope="module")
def posts():
    """Texts of the tiny vocabulary with their labels."""
    got = [f"{a} got the flu shot {b}" for a in ("i", "she", "we") for b in ("today", "at work")]
    skipped = [f"{a} never want {b}" for a in ("i", "he", "they") for b in ("the shot", "a needle")]
    return [(t, "yes") for t in got * 4] + [(t, "no") for t in skipped * 4]


@pytest.fixture(scope="module")
def model(posts, tiny_long_encoder, tmp_path_factory):
    """A folder that `fit` wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("cli")
    rows = [(t, y if i % 2 else "") for i, (t, y) in enumerate(posts)]
    train = write_csv(folder / "train.tsv", ("text", "label"), rows, "\t")
    more = write_csv(folder / "more.csv", ("id", "text"), list(enumerate(t for t, _ in posts[::4])))
    out = folder / "model"
    given = ["fit", train, "--unlabeled", more, "--out", str(out), "--encoder"]
    options = [
        "--step-size",
        "30",
        "--lam",
        "0.2",
        "--alpha",
        "0",
        "--seed",
        "1",
        "--quiet",
    ]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", printed)
        assert main([*given, tiny_long_encoder, *options]) == 0
    return out, printed.getvalue()


@pytest.fixture
def standard_input(monkeypatch):
    """A function that sets the content of standard input."""

    def given(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    return given


def test_fit_saves_the_model_that_its_options_describe(model, posts):
    folder, printed = model
    clf = sklearn_spt.load(folder)
    settings = {
        "step_size": 30,
        "n_starts": 1,
        "lam": 0.2,
        "alpha": 0.0,
        "random_state": 1,
        "temperature": 1.0,
    }
    assert {name: clf.get_params()[name] for name in settings} == settings
    assert clf.classes_.tolist() == ["no", "yes"]
    assert (clf.labeled_iter_ == 0).sum() == 24
    assert len(clf.labeled_iter_) == 48 + 12
    assert clf.sample_sizes_ == [30, 36]
    assert "labelled rows      24 (no: 12, yes: 12)" in printed
    assert "iteration 2: 36 pseudo-labels" in printed


@pytest.mark.parametrize("command", [["fit", "--out", "model"], ["compare"]])
def test_four_students_by_one_option(command):
    def settings(*given):
        clf = _commands._classifier(parsed([*command, "posts.csv", *given]))
        return {name: clf.get_params()[name] for name in FOUR_STUDENTS}

    assert settings("--four-students") == FOUR_STUDENTS
    assert settings("--four-students", "--alpha", "0.2") == {**FOUR_STUDENTS, "alpha": 0.2}
    assert settings()["n_students"] == 1


# -- predict -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_predict_prints_the_rows_and_what_the_model_says(model, posts, kind, tmp_path, capsys):
    texts = [t for t, _ in posts[::5]] + ['with "quotes", a\ttab', "a break\nhere"]
    path = tmp_path / f"new.{kind}"
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        pd.DataFrame({"id": range(len(texts)), "text": texts}).to_parquet(path)
    elif kind == "jsonl":
        path.write_text(
            "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts))
        )
    else:
        write_csv(path, ("id", "text"), enumerate(texts), "\t" if kind == "tsv" else ",")
    assert main(["predict", str(model[0]), str(path), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    if kind == "jsonl":
        rows = [json.loads(line) for line in out.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(out), delimiter="\t" if kind == "tsv" else ","))
    clf = sklearn_spt.load(model[0])
    P = clf.predict_proba(texts)
    assert [row["text"] for row in rows] == texts
    assert [int(row["id"]) for row in rows] == list(range(len(texts)))
    assert [row["prediction"] for row in rows] == clf.classes_[P.argmax(axis=1)].tolist()
    shown = [[float(row["probability_no"]), float(row["probability_yes"])] for row in rows]
    np.testing.assert_allclose(shown, P, atol=1e-5)


def test_predict_streams_parts(model, posts, standard_input, capsys, monkeypatch):
    parts = []
    table_parts = _rows.table_parts

    def small(*args, **params):
        for part in table_parts(*args, **params, size=7):
            parts.append(len(part.rows))
            yield part

    monkeypatch.setattr(_rows, "table_parts", small)
    standard_input("text\n" + "".join(f"{text}\n" for text, _ in posts))
    assert main(["predict", str(model[0]), "-", "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert parts == [7] * 6 + [6]
    assert out.count("prediction") == 1
    assert len(out.splitlines()) == 1 + len(posts)
    assert "prediction: 48text" in err


def test_columns_by_position_and_without_a_header(model, posts, tmp_path, capsys):
    rows = [(i, text) for i, (text, _) in enumerate(posts[:3])]
    named = write_csv(tmp_path / "named.csv", ("n", "post"), rows)
    bare = write_csv(tmp_path / "bare.csv", None, rows)
    given = ["predict", str(model[0])]
    assert main([*given, named, "--text", "post", "--quiet"]) == 0
    expected = capsys.readouterr().out.splitlines()
    assert main([*given, named, "--text", "2", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == expected
    assert main([*given, bare, "--text", "2", "--no-header", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == expected[1:]


def test_an_empty_text_is_predicted_and_a_missing_one_is_not(model, standard_input, capsys):
    standard_input('{"text": ""}\n{"text": null}\n')
    assert main(["predict", str(model[0]), "-", "--format", "jsonl", "--quiet"]) == 1
    assert capsys.readouterr().err == (
        "sklearn_spt predict: standard input, line 2, column 'text': no text. Drop the row or "
        "repair it.\n"
    )
    standard_input('{"text": ""}\n')
    assert main(["predict", str(model[0]), "-", "--format", "jsonl", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["prediction"] in ("no", "yes")


# -- evaluate ------------------------------------------------------------------------------------
def test_evaluate_prints_the_scores_of_labelled_rows(model, posts, tmp_path, capsys):
    rows = [(text, label) for text, label in posts[::3]]
    path = write_csv(tmp_path / "test.csv", ("text", "label"), [*rows, ("a shot", ""), ("b", "-1")])
    assert main(["evaluate", str(model[0]), path, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == "rows without a label, which do not count: 2\n"
    again = write_csv(
        tmp_path / "again.csv", ("text", "label"), [*rows, ("a shot", "?"), ("b", "")]
    )
    assert main(["evaluate", str(model[0]), again, "--quiet", "--unlabeled-marker", "?"]) == 0
    assert capsys.readouterr() == (out, err)
    predicted = sklearn_spt.load(model[0]).predict([text for text, _ in rows])
    true = [label for _, label in rows]
    for label in ("no", "yes"):
        score = f1_score(true, predicted, pos_label=label, zero_division=0.0)
        line = next(line for line in out.splitlines() if line.split()[:1] == [label])
        assert line.split()[3:] == [f"{score:.3f}", str(true.count(label))]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("maybe", "line 2, column 'label': the label is no class of the model, which are 'no', "),
        ("", "has no labelled row"),
    ],
)
def test_evaluate_needs_labels_of_the_model(model, label, message, tmp_path, capsys):
    path = write_csv(tmp_path / "test.csv", ("text", "label"), [("a shot", label)])
    assert main(["evaluate", str(model[0]), path, "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


# -- compare -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("given", "expected"), [([], None), (["--positive", "None"], "None")])
def test_compare_takes_no_class_for_the_positive_one(tmp_path, monkeypatch, given, expected):
    path = write_csv(tmp_path / "a.csv", ("text", "label"), [("a", "None"), ("b", "sick")])
    seen = []
    monkeypatch.setattr(
        sklearn_spt.model_selection,
        "compare_with_supervised",
        lambda *args, pos_label, **more: seen.append(pos_label),
    )
    assert main(["compare", path, *given]) == 0
    assert seen == [expected]


def test_compare_prints_the_comparison(posts, tiny_long_encoder, tmp_path, capsys):
    rows = [(t, y if i % 2 else "") for i, (t, y) in enumerate(posts)]
    path = write_csv(tmp_path / "train.csv", ("text", "label"), rows)
    options = ["--encoder", tiny_long_encoder, "--step-size", "1.0", "--alpha", "0"]
    assert main(["compare", path, *options, "--folds", "2", "--positive", "no"]) == 0
    out, err = capsys.readouterr()
    clf = sklearn_spt.SelfPretrainingClassifier(
        tiny_long_encoder, step_size=1.0, alpha=0.0, random_state=0
    )
    X = np.array([text for text, _ in rows], dtype=object)
    y = np.array([label or -1 for _, label in rows], dtype=object)
    expected = sklearn_spt.compare_with_supervised(clf, X, y, cv=2, pos_label="no", random_state=0)
    assert out == f"{expected}\n"
    assert "comparison: 100%" in err
    assert "4/4" in err
    assert main(["compare", path, *options, "--positive", "perhaps", "--quiet"]) == 1
    assert "--positive perhaps: no row has this label" in capsys.readouterr().err


# -- what cannot be used -------------------------------------------------------------------------
@pytest.mark.parametrize("labels", [[0.0, 1.0], [False, True], [0, 1], ["1.0", "2.0"]])
def test_evaluate_knows_the_labels_of_any_model(labels, posts, tiny_encoder, tmp_path, capsys):
    texts, answers = zip(*posts, strict=True)
    y = np.array([labels[answer == "yes"] for answer in answers])
    clf = BertClassifier(tiny_encoder, max_length=24, lr=1e-2, max_epochs=1, random_state=0)
    clf.fit(list(texts), y).save(tmp_path / "model")
    path = tmp_path / "posts.jsonl"
    rows = [{"text": t, "label": v} for t, v in zip(texts, y.tolist(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["evaluate", str(tmp_path / "model"), str(path), "--quiet"]) == 0
    accuracy = np.mean(clf.predict(list(texts)) == y)
    assert f"accuracy                          {accuracy:.3f}" in capsys.readouterr().out


def test_parts_of_json_lines_may_lack_labels(model, posts, tmp_path, capsys, monkeypatch):
    table_parts = _rows.table_parts
    monkeypatch.setattr(_rows, "table_parts", partial(table_parts, size=5))
    path = tmp_path / "late.jsonl"
    rows = [{"text": t} for t, _ in posts[:12]]
    rows += [{"text": t, "label": y} for t, y in posts] + [{"text": t} for t, _ in posts[:12]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    X, y = training_data(parsed(["fit", str(path), "--out", "model"]))
    assert X.tolist() == [row["text"] for row in rows]
    assert y.tolist() == [row.get("label", -1) for row in rows]
    assert main(["evaluate", str(model[0]), str(path), "--quiet"]) == 0
    assert "do not count: 24" in capsys.readouterr().err
    assert main(["evaluate", str(model[0]), str(path), "--label", "y", "--quiet"]) == 1
    assert "no column 'y' (--label). Its columns are 'text'." in capsys.readouterr().err


def test_a_position_is_that_of_the_first_part(posts, tmp_path, monkeypatch):
    monkeypatch.setattr(_rows, "table_parts", partial(_rows.table_parts, size=2))
    path = tmp_path / "posts.jsonl"
    rows = [{"post": t, "id": str(i)} for i, (t, _) in enumerate(posts[:4])]
    rows[2:] = [dict(reversed(row.items())) for row in rows[2:]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = parsed(["predict", "model", str(path), "--text", "1"])
    found = [t for part, text, _ in _rows.parts(options, str(path)) for t in texts_of(part, text)]
    assert found == [t for t, _ in posts[:4]]


def test_a_position_of_labels_is_that_of_the_first_part_or_none(posts, tmp_path, monkeypatch):
    monkeypatch.setattr(_rows, "table_parts", partial(_rows.table_parts, size=2))
    path = tmp_path / "posts.jsonl"
    rows = [{"text": t} for t, _ in posts[:2]] + [{"label": y, "text": t} for t, y in posts[:4]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match=r"no column '2' \(--label\)"):
        training_data(parsed(["fit", str(path), "--label", "2", "--out", "model"]))
    path.write_text('{"text": "a", "label": "\\ud83d"}\n')
    with pytest.raises(ValueError, match=r"column 'label': half of a character"):
        training_data(parsed(["fit", str(path), "--out", "model"]))


def test_the_format_of_standard_input_is_not_that_of_a_file(posts, tmp_path, standard_input):
    more = write_csv(tmp_path / "more.tsv", ("text",), [[t] for t, _ in posts[:3]], "\t")
    other = Path(more).rename(tmp_path / "more.data")
    vague = write_csv(tmp_path / "more.txt", ("text", "label"), posts)
    standard_input("text\na\n")
    given = ["fit", vague, "--unlabeled", "-", "--format", "csv", "--out", "model"]
    assert len(training_data(parsed(given))[0]) == len(posts) + 1
    lines = "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in posts)
    for file, error in (
        (write_csv(tmp_path / "more.tsv", ("text",), [["a"]]), None),
        (other, "JSON"),
    ):
        standard_input(lines)
        given = ["fit", "-", "--unlabeled", str(file), "--format", "jsonl", "--out", "model"]
        if error is None:
            assert len(training_data(parsed(given))[0]) == len(posts) + 1
        else:
            with pytest.raises(ValueError, match=r"more\.data, line 1: no JSON"):
                training_data(parsed(given))
    texts, _ = training_data(
        parsed(["fit", str(other), "--format", "tsv", "--out", "model", "--label", "text"])
    )
    assert len(texts) == 3
    train = write_csv(tmp_path / "train.csv", ("text", "label"), posts)
    given = ["fit", train, "--unlabeled", str(other), "--format", "tsv", "--out", "model"]
    assert len(training_data(parsed(given))[0]) == len(posts) + 3


@pytest.mark.parametrize(("kind", "more"), [("csv", []), ("csv", ["1"]), ("tsv", ["1"])])
def test_predict_keeps_every_row_and_line_break(model, kind, more, tmp_path, capsys):
    texts = ["a shot", "", "flu\rshot", "a\r\nneedle", "the flu"]
    sep = "\t" if kind == "tsv" else ","
    path, content = tmp_path / f"new.{kind}", io.StringIO()
    writer = csv.writer(content, delimiter=sep, lineterminator="\r\n")
    writer.writerows([["text", *more], *([text, *more] for text in texts)])
    path.write_bytes(content.getvalue().encode())
    assert main(["predict", str(model[0]), str(path), "--quiet"]) == 0
    printed = io.StringIO(capsys.readouterr().out, newline="")
    rows = list(csv.reader(printed, delimiter=sep))
    assert [row[0] for row in rows] == ["text", *texts]
    assert {len(row) for row in rows} == {4 + len(more)}


def test_half_of_a_character_is_named_or_handed_on(model, tmp_path, capsys):
    path = tmp_path / "new.jsonl"
    path.write_text('\n{"text": "flu", "user": "\\ud83d"}\n')
    assert main(["predict", str(model[0]), str(path), "--quiet"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["text"], row["user"]) == ("flu", "\ud83d")
    path.write_text('\n{"text": "flu"}\n{"text": "a \\ud83d", "label": "yes"}\n')
    for arguments in (["predict", str(model[0]), str(path)], ["compare", str(path)]):
        assert main([*arguments, "--quiet"]) == 1
        message = r"line 3, column 'text': half of a character, '\ud83d' at position 2"
        assert message in capsys.readouterr().err


def test_a_positive_class_needs_two_classes(posts, tmp_path, capsys):
    rows = [(t, "abc"[i % 3]) for i, (t, _) in enumerate(posts)] + [("flu", "")]
    train = write_csv(tmp_path / "train.csv", ("text", "label"), rows)
    assert main(["compare", train, "--positive", "a"]) == 1
    assert "--positive a: " in (message := capsys.readouterr().err)
    assert "has 3 classes" in message


def test_a_folder_in_use_is_refused_before_the_fit(model, tmp_path, capsys):
    assert main(["fit", str(tmp_path / "absent.csv"), "--out", str(model[0])]) == 1
    assert capsys.readouterr().err == (
        f"sklearn_spt fit: --out {model[0]} is in use; name a new folder.\n"
    )


def test_a_folder_inside_a_model_is_refused_before_the_fit(model, tmp_path, capsys):
    out = model[0] / "v2"
    assert main(["fit", str(tmp_path / "absent.csv"), "--out", str(out)]) == 1
    assert f"{out} lies in the folder of a model" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_before_the_fit(tmp_path, capsys):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "model"
    assert main(["fit", str(tmp_path / "absent.csv"), "--out", str(out)]) == 1
    assert re.match(
        rf"sklearn_spt fit: --out {re.escape(str(out))} cannot be written: .*Name another",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize("spelled", ["", "-1", "nan", "NaN"])
def test_spellings_of_a_missing_label(spelled, tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text(f"text,label\na,yes\nb,no\nc,{spelled}\n")
    options = parsed(["fit", str(path), "--out", "model"])
    assert training_data(options)[1].tolist() == ["yes", "no", -1]


def test_a_further_spelling_of_a_missing_label(tmp_path):
    path = tmp_path / "posts.csv"
    path.write_text("text,label\na,yes\nb,NA\nc,na\nd,\ne,9.0\n")
    for marker, expected in (
        ("NA", ["yes", -1, "na", -1, "9"]),
        ("9.0", ["yes", "NA", "na", -1, -1]),
    ):
        options = parsed(["fit", str(path), "--out", "model", "--unlabeled-marker", marker])
        assert training_data(options)[1].tolist() == expected


def test_a_positive_class_may_be_spelled_as_in_the_file(posts, tiny_long_encoder, tmp_path, capsys):
    rows = [(t, f"{i % 2}.0" if i % 3 else "") for i, (t, _) in enumerate(posts)]
    train = write_csv(tmp_path / "train.csv", ("text", "label"), rows)
    options = ["--folds", "2", "--quiet", "--encoder", tiny_long_encoder, "--step-size", "0.9"]
    printed = []
    for positive in ("0.0", "0"):
        assert main(["compare", train, "--positive", positive, *options]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "post,label\na,b\n",
            [],
            "no column 'text' (--text). Its columns are 'post',",
        ),
        ("a.csv", "text,y\na,b\n", [], "has no column 'label' (--label)"),
        ("a.csv", "text,y\na,b\n", ["--label", "3"], "has no column '3' (--label)"),
        ("a.csv", "text,label\n", [], "a.csv holds no row"),
        ("a.csv", "text,label\n,b\n", [], "line 2, column 'text': an empty text"),
        ("a.csv", "text,label\na,b\nc,b\n", [], "'b'"),
        ("a.csv", "text,label\na,b\nc,d\n", ["--lam", "2"], "lam must lie in [0, 1], got 2.0"),
        ("a.dat", "text,label\na,b\n", [], "format must be given"),
    ],
)
def test_one_line_says_what_is_wrong(name, content, options, message, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    out = tmp_path / "model"
    assert main(["fit", str(tmp_path / name), "--out", str(out), "--quiet", *options]) == 1
    printed, err = capsys.readouterr()
    assert printed == ""
    assert err.startswith("sklearn_spt fit: ")
    assert err.count("\n") == 1
    assert message in err
    assert not out.exists()


def test_a_taken_column_and_a_missing_file_or_model(model, tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", ("text", "prediction"), [("a", "b")])
    for given, message in (
        ([str(model[0]), path], "has a column 'prediction' already; rename it"),
        ([str(model[0]), str(tmp_path / "b.csv")], "No such file or directory"),
        ([str(tmp_path / "nothing"), path], "cannot be loaded"),
    ):
        assert main(["predict", *given, "--quiet"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert message in err
        assert err.count("\n") == 1


def test_warnings_are_one_line(posts, tiny_long_encoder, tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv", ("text", "label"), posts)
    given = ["fit", path, "--encoder", tiny_long_encoder, "--out", str(tmp_path / "model")]
    assert main([*given, "--quiet"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("warning: ")
    assert err.count("\n") == 1


def test_the_progress_of_a_command_is_no_parameter_of_its_model(posts, tiny_long_encoder, tmp_path):
    path = write_csv(tmp_path / "a.csv", ("text", "label"), posts)
    out = tmp_path / "model"
    assert main(["fit", path, "--encoder", tiny_long_encoder, "--out", str(out)]) == 0
    assert sklearn_spt.load(out).verbose == 0


# -- how it ends ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt, 130, "sklearn_spt predict: interrupted\n"),
        (MemoryError, 1, "sklearn_spt predict: MemoryError\n"),
        (OSError(28, "No space\nleft"), 1, "sklearn_spt predict: [Errno 28] No space left\n"),
    ],
)
def test_status_of_what_ends_a_command(error, status, message, monkeypatch, capsys):
    def fails(options):
        raise error

    monkeypatch.setitem(_commands._COMMANDS, "predict", fails)
    assert main(["predict", "model", "new.csv"]) == status
    assert capsys.readouterr().err == message


def test_a_reader_that_closed_the_pipe_is_no_error(monkeypatch, capsys):
    def fails(options):
        raise BrokenPipeError

    monkeypatch.setitem(_commands._COMMANDS, "predict", fails)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # restored at the end
    assert main(["predict", "model", "new.csv"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["fit", "a.csv"], "--out"),
        (["fit", "a.csv", "--out", "m", "--step-size", "x"], "argument --step-size"),
        *(
            (
                ["fit", "a.csv", "--out", "m", f"--step-size={bad}"],
                "--step-size: must be a number, or a fraction such as 1/3, got",
            )
            for bad in ("", "1/0", "1/", "/3", "1/3.0", "1/" + "9" * 400)
        ),
        (["predict", "m", "-"], "standard input has no name: add --format"),
        (
            ["fit", "-", "--unlabeled", "-", "--format", "csv", "--out", "m"],
            "standard input can be one of the files",
        ),
    ],
)
def test_a_command_line_that_is_not_understood(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


def test_help_and_version_need_no_deep_learning_library():
    code = (
        "import sys, runpy\n"
        "sys.argv = ['sklearn_spt', '--version']\n"
        "try: runpy.run_module('sklearn_spt', run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "sys.exit(str({'torch', 'skorch', 'transformers'} & set(sys.modules) or ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(sklearn_spt.__file__).parents[1])},
    )
    assert (done.stdout.strip(), done.stderr.strip()) == (sklearn_spt.__version__, "")
