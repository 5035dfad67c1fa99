"""The command line: ``python -m sklearn_spt fit | predict | evaluate | compare``."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sklearn_spt

_FILES = """\
Files are CSV, TSV, JSON lines or parquet, as their names end, and may be compressed. In a CSV the
separator may also be a semicolon. "-" is standard input and needs --format. A row without a label,
or with the label -1, is unlabelled.
"""
_FORMATS = {"csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "parquet": "parquet"}
_FORMATS |= {"jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl"}
_ROWS = 10_000  # in memory at a time
#: What messages of the library call something, and what is meant here.
_OPTIONS = {
    "X_unlabeled": "--unlabeled",
    "compare_with_supervised(clf, X, y)": "the command compare",
    "pos_label": "--positive",
    "n_splits": "--folds",
    "pretrained": "--encoder",
}
_OPTIONS |= {
    name: f"--{name.replace('_', '-')}"
    for name in ("alpha", "checkpoint_dir", "lam", "max_length", "step_size", "unlabeled_marker")
}


# -- arguments -------------------------------------------------------------------------------------
def _parse(arguments: list[str] | None) -> argparse.Namespace:
    about = {"epilog": _FILES, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser("python -m sklearn_spt", **about)
    parser.add_argument("--version", action="version", version=sklearn_spt.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in {
        "fit": "Fit a classifier, save it in a folder, and print a report.",
        "predict": "Print the rows of a file with their predicted classes.",
        "evaluate": "Print the scores of a model on the labelled rows of a file.",
        "compare": "Estimate whether the unlabelled texts help.",
    }.items():
        command = commands.add_parser(name, help=text, description=text, **about)
        add = command.add_argument
        if name in ("predict", "evaluate"):
            add("model", type=Path, help="folder that fit wrote")
        add("file", help='file of the texts, or "-"')
        add("--text", default="text", help="name of the column (default: text)")
        if name != "predict":
            add("--label", default="label", help="name of the column (default: label)")
            add("--unlabeled-marker", metavar="LABEL", help="a further label of unlabelled rows")
        if name in ("fit", "compare"):
            add("--unlabeled", metavar="FILE", help="more texts, whose labels do not count")
            add("--sample", type=int, metavar="N", help="use N unlabelled rows, drawn at random")
            add("--encoder", help="name or folder of the encoder (default: MiniLM)")
            add("--max-length", type=int, metavar="N", help="tokens of a text that are read")
            add("--lam", type=float, help="weight of the distillation loss, 0 to 1")
            add("--alpha", type=float, help="inertia of the pseudo-labels, 0 to 1")
            add("--step-size", type=_step_size, help="growth of the sample: 0.5, 1/3, or a number")
            add("--four-students", action="store_true", help="better ranking in three times the time")
            add("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
        if name == "fit":
            add("--out", required=True, type=Path, help="new folder for the model")
            add("--checkpoint-dir", metavar="FOLDER", help="where a killed fit can go on")
            add("--report", metavar="PAGE.html", help="report with doubtful texts, as a web page")
        if name == "compare":
            add("--folds", type=int, default=5, help="number of folds (default: 5)")
            add("--positive", metavar="LABEL", help="class whose F1 counts (default: last of two)")
        add("--skip-empty", action="store_true", help="leave out rows without a text")
        add("--format", choices=("csv", "tsv", "jsonl", "parquet"), help="if no name says it")
        add("--encoding", default="utf-8", help="encoding of the files (default: utf-8)")
        add("--no-quotes", action="store_true", help='in a CSV or TSV, " is like other characters')
        add("--threads", type=int, metavar="N", help="threads of torch (default: all cores)")
        add("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args(arguments)
    if options.file == "-" == getattr(options, "unlabeled", None):
        parser.error("standard input can be one of the files, not both")
    return options


def _step_size(text: str) -> int | float:
    try:
        return int(text) if text.isdecimal() else float(Fraction(text))
    except ZeroDivisionError:
        raise ValueError from None


# -- files -----------------------------------------------------------------------------------------
def _kind(options: argparse.Namespace, source: str) -> str:
    """Return the format of a file, by its name or else by --format."""
    found = re.search(r"\.(\w+)(\.(gz|bz2|zip|xz|zst))?$", source)
    kind = _FORMATS.get(found[1].lower() if found else "", options.format)
    if kind is None:
        raise ValueError(f"{source}: the name does not say the format; add --format.")
    return kind


def _parts(options: argparse.Namespace, source: str) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, which is read in parts where that can be done, by line."""
    kind = _kind(options, source)
    stream: Any = io.BufferedReader(sys.stdin.buffer) if source == "-" else source  # type: ignore
    how: dict[str, Any] = {"dtype": str, "na_filter": False, "encoding": options.encoding}
    try:
        if kind == "parquet":
            table = pd.read_parquet(io.BytesIO(stream.read()) if source == "-" else stream)
            yield table.set_axis(range(1, len(table) + 1))
        elif kind == "jsonl":
            # lines by read_csv: read_json loses digits of large numbers where some are missing
            how |= {"sep": "\x01", "quoting": csv.QUOTE_NONE, "names": ["line"]}
            for part in pd.read_csv(stream, skip_blank_lines=False, chunksize=_ROWS, **how):
                lines = part["line"][part["line"].str.strip() != ""]
                rows = [_parsed(number + 1, line) for number, line in lines.items()]
                yield pd.DataFrame(rows, index=lines.index + 1, dtype=object)
        else:
            how |= {"sep": _separator(stream, kind, how), "quoting": 3 * options.no_quotes}
            n_before = 2  # lines up to the first row
            for part in pd.read_csv(stream, chunksize=_ROWS, **how):
                if not isinstance(part.index, pd.RangeIndex):
                    raise ValueError("the rows have more fields than the first line has names.")
                inside = sum(part[name].str.count("\n") for name in part.columns)
                part.index += n_before + inside.cumsum() - inside
                n_before += int(inside.sum())
                yield part
    except (LookupError, ValueError) as error:
        hint = ""
        if isinstance(error, UnicodeDecodeError):
            hint = "; name the encoding, such as --encoding cp1252"
        elif "EOF inside string" in str(error):
            hint = '; if " is no quotation mark here, add --no-quotes'
        raise ValueError(f"{_name(source)}: {error}{hint}") from error


def _separator(stream: Any, kind: str, how: dict[str, Any]) -> str:
    """Return the separator that gives the first line the most columns."""

    def n_columns(sep: str) -> int:
        head = io.BytesIO(stream.peek().partition(b"\n")[0]) if hasattr(stream, "peek") else stream
        return len(pd.read_csv(head, sep=sep, nrows=0, **how).columns)

    return max("\t,;" if kind == "tsv" else ",;\t", key=n_columns)


def _parsed(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"line {number} holds no JSON object with the columns as its keys.")
    return row


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


def _column(options: argparse.Namespace, table: pd.DataFrame, name: str, source: str) -> pd.Series:
    """Return a column, with "" where a value is missing."""
    given = getattr(options, name)
    if given not in table:
        others = [other for other in table.columns if other != options.text]
        hint = f" Add --{name} {shlex.quote(str(others[0]))}." if len(others) == 1 else ""
        columns = ", ".join(map(repr, table.columns[:8])) + ", ..." * (table.shape[1] > 8)
        raise ValueError(
            f"{_name(source)} has no column {given!r} (--{name}). Its columns are {columns}.{hint}"
        )
    return table[given].astype(object).where(table[given].notna(), "")


def _with_texts(
    options: argparse.Namespace, table: pd.DataFrame, source: str, *, allow_empty: bool = False
) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows and their texts; rows without one are left out, allowed or an error."""
    texts = _column(options, table, "text", source)
    if len(nested := texts[texts.map(lambda text: isinstance(text, dict | list))]):
        raise ValueError(f"{_name(source)}, line {nested.index[0]}: {options.text!r} is no text.")
    texts = texts.map(str)
    if (empty := texts.str.strip() == "").any():
        lines = ", ".join(map(str, texts.index[empty][:20])) + ", ..." * (empty.sum() > 20)
        message = f"{_name(source)}: {empty.sum()} empty texts in column {options.text!r}, "
        message += f"lines {lines}"
        if options.skip_empty:
            return table[~empty], texts[~empty]
        if not allow_empty:
            raise ValueError(f"{message}. Repair them, or leave them out with --skip-empty.")
        warnings.warn(f"{message}; they are predicted like others.", stacklevel=2)
    return table, texts


def _read(options: argparse.Namespace, source: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return all rows of a file and their texts."""
    parts = list(_parts(options, source))
    table = pd.concat(parts) if parts else pd.DataFrame()
    if table.empty:
        raise ValueError(f"{_name(source)} holds no row.")
    return _with_texts(options, table, source)


def _spelled(label: Any) -> str:
    """Return a label as str; 1.0 is how pandas writes 1 beside missing values."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", str(label).strip())


def _labels(options: argparse.Namespace, table: pd.DataFrame) -> list[Any]:
    """Return the labels of rows, -1 where there is none."""
    none = {"", "-1", _spelled(options.unlabeled_marker or "")}
    labels = [_spelled(label) for label in _column(options, table, "label", options.file)]
    return [-1 if label in none else label for label in labels]


# -- commands --------------------------------------------------------------------------------------
def _training_data(options: argparse.Namespace) -> tuple[Any, list[Any]]:
    """Return texts and labels, -1 where there is none."""
    table, texts = _read(options, options.file)
    X, y = texts.tolist(), _labels(options, table)
    if options.unlabeled is not None:
        X += _read(options, options.unlabeled)[1].tolist()
        y += [-1] * (len(X) - len(y))
    rows = np.flatnonzero([label == -1 for label in y])
    if options.sample is not None and options.sample < len(rows):
        kept = np.random.default_rng(options.seed).choice(rows, options.sample, replace=False)
        rows = np.setdiff1d(np.arange(len(X)), np.setdiff1d(rows, kept))
        X, y = [X[row] for row in rows], [y[row] for row in rows]
    return np.array(X, dtype=object), y


def _classifier(options: argparse.Namespace, **params: Any) -> Any:
    """Return the classifier that the options describe."""
    net = options.encoder
    if options.max_length is not None:
        encoder = {} if net is None else {"pretrained": net}
        net = sklearn_spt.BertClassifier(**encoder, max_length=options.max_length)
    if options.four_students:
        params |= sklearn_spt.FOUR_STUDENTS
    given = {name: getattr(options, name) for name in ("lam", "alpha", "step_size")}
    params |= {name: value for name, value in given.items() if value is not None}
    return sklearn_spt.SelfPretrainingClassifier(net, random_state=options.seed, **params)


def _fit(options: argparse.Namespace) -> None:
    out = options.out.expanduser()
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ValueError(f"--out {out} is in use; name a new folder.")
    out.parent.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=out.parent).close()  # an error now, not after the training
    X, y = _training_data(options)
    clf = _classifier(options, verbose=not options.quiet, checkpoint_dir=options.checkpoint_dir)
    clf.fit(X, y).set_params(verbose=0, checkpoint_dir=None)  # of this command, not of the model
    clf.save(out)
    from sklearn_spt.inspection import FitReport

    print(_in_options(str(FitReport.from_estimator(clf))))
    if options.report is not None:
        FitReport.from_estimator(clf, X).to_html(options.report)
    columns = "" if options.text == "text" else f" --text {shlex.quote(options.text)}"
    print(f"\nNext: python -m sklearn_spt predict {shlex.quote(str(out))} NEW.csv{columns}")


def _compare(options: argparse.Namespace) -> None:
    X, y = _training_data(options)
    settings = {"cv": options.folds, "pos_label": options.positive, "random_state": options.seed}
    settings["verbose"] = not options.quiet
    clf = _classifier(options)
    print(_in_options(str(sklearn_spt.compare_with_supervised(clf, X, y, **settings))))


def _probabilities(clf: Any, texts: list[str], bar: Any) -> Any:
    P = [np.empty((0, len(clf.classes_)))]
    for start in range(0, len(texts), 1000):
        P.append(clf.predict_proba(texts[start : start + 1000]))
        bar.update(len(P[-1]))
    return np.concatenate(P)


def _predict(options: argparse.Namespace) -> None:
    from tqdm.auto import tqdm

    clf = sklearn_spt.load(options.model).set_params(verbose=0)
    kind, header = _kind(options, options.file), True
    names = ["prediction", *(f"probability_{label}" for label in clf.classes_.tolist())]
    with tqdm(desc="prediction", unit="text", disable=options.quiet) as bar:
        for part in _parts(options, options.file):
            rows, texts = _with_texts(options, part, options.file, allow_empty=True)
            if taken := [name for name in names if name in rows]:
                raise ValueError(f"{options.file} has a column {taken[0]!r} already; rename it.")
            P = _probabilities(clf, texts.tolist(), bar)
            ...
