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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

import sklearn_spt

Options = argparse.Namespace
_FILES = """Files are CSV (with commas or semicolons), TSV, JSON lines or parquet, as their names
end, and may be compressed. "-" is standard input and needs --format. A row without a label, or with
the label -1, is unlabelled."""
_SUFFIXES = (".csv", ".txt", ".tsv", ".tab", ".json", ".jsonl", ".ndjson", ".parquet")


def _parse(arguments: list[str] | None) -> Options:
    about: Any = {"epilog": _FILES, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser("python -m sklearn_spt", **about)
    parser.add_argument("--version", action="version", version=sklearn_spt.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (_, text) in _COMMANDS.items():
        add = commands.add_parser(name, help=text, description=text, **about).add_argument
        if name in ("predict", "evaluate"):
            add("model", help="folder that fit wrote")
        add("file", help='file of the texts, or "-"')
        add("--text", default="text", help="name of the column (default: text)")
        if name != "predict":
            add("--label", default="label", help="name of the column (default: label)")
            add("--unlabeled-marker", metavar="LABEL", help="a further label of unlabelled rows")
        if name in ("fit", "compare"):
            add("--unlabeled", metavar="FILE", help="more texts, whose labels do not count")
            add("--sample", type=int, metavar="N", help="use N unlabelled rows, drawn at random")
            add("--encoder", help="name or folder of the encoder (default: MiniLM)")
            add("--max-length", type=int, metavar="N", help="texts are cut to N tokens")
            add("--lam", type=float, help="weight of the distillation loss, 0 to 1")
            add("--alpha", type=float, help="inertia of the pseudo-labels, 0 to 1")
            add("--step-size", type=json.loads, help="growth of the sample: 0.5, or a number")
            add("--four-students", action="store_true", help="ranks better, takes thrice the time")
            add("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
        if name == "fit":
            add("--out", required=True, type=Path, help="new folder for the model")
            add("--checkpoint-dir", metavar="FOLDER", help="from where a killed fit goes on")
            add("--report", metavar="PAGE.html", help="web page with the report and doubtful texts")
        if name == "compare":
            add("--folds", type=int, default=5, help="number of folds (default: 5)")
            add("--positive", metavar="LABEL", help="class whose F1 counts (default: last of two)")
        add("--skip-empty", action="store_true", help="leave out rows with an empty text")
        add("--format", choices=("csv", "tsv", "jsonl", "parquet"), help="if no name says it")
        add("--encoding", default="utf-8", help="encoding of the files (default: utf-8)")
        add("--no-quotes", action="store_true", help='" is no quotation mark in a CSV or TSV')
        add("--threads", type=int, metavar="N", help="threads of torch (default: all cores)")
        add("--quiet", action="store_true", help="show no progress")
    return parser.parse_args(arguments)


# -- files -----------------------------------------------------------------------------------------
def _kind(options: Options, source: str) -> str:
    """Return the suffix that says the format of a file, by its name or else by --format."""
    named = [suffix for suffix in Path(source.lower()).suffixes if suffix in _SUFFIXES]
    if not named and options.format is None:
        raise ValueError(f"{source}: the name does not say the format; add --format.")
    return named[-1] if named else f".{options.format}"


def _tables(options: Options, source: str) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, by line, in parts if the format allows that."""
    kind = _kind(options, source)
    stream: Any = io.BufferedReader(sys.stdin.buffer) if source == "-" else source
    how: dict[str, Any] = {"dtype": str, "na_filter": False, "encoding": options.encoding}
    # one column of whole lines, since no line has this separator
    lines = {"sep": "\x01", "quoting": csv.QUOTE_NONE, "names": ["line"], **how}
    try:
        if kind == ".parquet":
            table = pd.read_parquet(io.BytesIO(stream.read()) if source == "-" else stream)
            yield table.set_axis(range(1, len(table) + 1))
        elif "json" in kind:
            # read_json would lose digits of large numbers in a column with missing values
            for part in pd.read_csv(stream, chunksize=10_000, **lines):
                rows = [json.loads(line) for line in part["line"]]
                yield pd.DataFrame(rows, index=part.index + 1, dtype=object)
        else:
            head = io.BytesIO(stream.peek()) if source == "-" else stream
            header = "".join(pd.read_csv(head, nrows=1, **lines)["line"])
            how["sep"] = max("\t,;" if kind == ".tsv" else ",;\t", key=header.count)
            how["quoting"] = csv.QUOTE_NONE if options.no_quotes else csv.QUOTE_MINIMAL
            first = 2
            for part in pd.read_csv(stream, chunksize=10_000, **how):
                if not isinstance(part.index, pd.RangeIndex):
                    raise ValueError("the rows have more fields than the first line has names")
                inside = sum(part[name].str.count("\n") for name in part.columns)
                part.index += first + inside.cumsum() - inside
                first += inside.sum()
                yield part
    except (LookupError, ValueError) as error:
        hint = "; add --encoding, such as cp1252" if isinstance(error, UnicodeError) else ""
        raise ValueError(f"{source}: {error}{hint}") from error


def _column(options: Options, table: pd.DataFrame, name: str, source: str) -> pd.Series:
    """Return a column, with "" where a value is missing."""
    given, columns = getattr(options, name), table.columns.astype(str).tolist()
    if given in columns:
        return table[given].astype(object).where(table[given].notna(), "")
    others = [other for other in columns if other != options.text]
    hint = f" Add --{name} {shlex.quote(others[0])}." if len(others) == 1 else ""
    listed = ", ".join(map(repr, columns[:8])) + ", ..." * (len(columns) > 8)
    raise ValueError(f"{source} has no column {given!r} (--{name}), but {listed}.{hint}")


def _texts(
    options: Options, tables: Iterable[pd.DataFrame], source: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return all rows and their texts; empty texts are left out, predicted, or an error."""
    table = pd.concat(tables)
    texts = _column(options, table, "text", source).map(str)
    empty = texts.str.strip() == ""
    if options.skip_empty:
        table, texts = table[~empty], texts[~empty]
    elif empty.any() and options.command != "predict":
        lines = ", ".join(map(str, texts.index[empty][:20])) + ", ..." * (empty.sum() > 20)
        found = f"{source} has {empty.sum()} empty texts, in the lines {lines}"
        raise ValueError(f"{found}. Repair them, or leave them out by --skip-empty.")
    if table.empty:
        raise ValueError(f"{source} holds no row.")
    return table, texts.tolist()


def _labels(options: Options, table: pd.DataFrame) -> list[Any]:
    """Return the label of each row, -1 where there is none."""
    labels = map(_spelled, _column(options, table, "label", options.file))
    none = {"", "-1", _spelled(options.unlabeled_marker or "")}
    return [-1 if label in none else label for label in labels]


def _spelled(label: Any) -> str:
    """Return a label as str; 1.0 is what pandas makes of 1 beside missing values."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", str(label).strip())


# -- commands --------------------------------------------------------------------------------------
def _training(options: Options, **params: Any) -> tuple[Any, list[str], list[Any]]:
    """Return a classifier, texts and labels as the options describe them."""
    table, X = _texts(options, _tables(options, options.file), options.file)
    y = _labels(options, table)
    if options.unlabeled is not None:
        X += _texts(options, _tables(options, options.unlabeled), options.unlabeled)[1]
    data = pd.DataFrame({"X": X, "y": pd.Series(y + [-1] * (len(X) - len(y)), dtype=object)})
    if options.sample is not None:
        hidden = data[data["y"] == -1]
        n_dropped = max(0, len(hidden) - options.sample)
        data = data.drop(hidden.sample(n_dropped, random_state=options.seed).index)
    net = options.encoder
    if options.max_length is not None:
        named = {} if net is None else {"pretrained": net}
        net = sklearn_spt.BertClassifier(**named, max_length=options.max_length)
    params |= sklearn_spt.FOUR_STUDENTS if options.four_students else {}
    given = {name: getattr(options, name) for name in ("lam", "alpha", "step_size")}
    params |= {name: value for name, value in given.items() if value is not None}
    clf = sklearn_spt.SelfPretrainingClassifier(net, random_state=options.seed, **params)
    return clf, data["X"].tolist(), data["y"].tolist()


def _fit(options: Options) -> None:
    from sklearn_spt.inspection import FitReport

    if options.out.is_file() or (options.out.is_dir() and any(options.out.iterdir())):
        raise ValueError(f"--out {options.out} is in use; name a new folder.")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=options.out.parent).close()  # an error now, not after the training
    of_command = {"verbose": int(not options.quiet), "checkpoint_dir": options.checkpoint_dir}
    clf, X, y = _training(options, **of_command)
    clf.fit(X, y).set_params(verbose=0, checkpoint_dir=None).save(options.out)
    print(_in_options(str(FitReport.from_estimator(clf))))
    if options.report is not None:
        FitReport.from_estimator(clf, X).to_html(options.report)
    text = "" if options.text == "text" else f" --text {shlex.quote(options.text)}"
    print(f"\nNext: python -m sklearn_spt predict {shlex.quote(str(options.out))} NEW.csv{text}")


def _compare(options: Options) -> None:
    how: dict[str, Any] = {"cv": options.folds, "pos_label": options.positive}
    how |= {"random_state": options.seed, "verbose": int(not options.quiet)}
    print(sklearn_spt.compare_with_supervised(*_training(options), **how))


def _predict(options: Options) -> None:
    clf = sklearn_spt.load(options.model).set_params(verbose=int(not options.quiet))
    names = [f"probability_{label}" for label in clf.classes_]
    kind, header = _kind(options, options.file), True
    quoting = csv.QUOTE_NONE if options.no_quotes else csv.QUOTE_MINIMAL
    as_csv: dict[str, Any] = {"index": False, "lineterminator": "\n", "quoting": quoting}
    for part in _tables(options, options.file):
        rows, texts = _texts(options, [part], options.file)
        P = clf.predict_proba(texts)
        rows = rows.assign(prediction=clf.classes_[P.argmax(axis=1)])
        rows[names] = P.round(6)
        if "json" in kind:
            lines = rows.to_json(orient="records", lines=True, force_ascii=False)
        else:
            lines = rows.to_csv(header=header, sep="\t" if kind == ".tsv" else ",", **as_csv)
        print(lines, end="", flush=True)
        header = False


def _evaluate(options: Options) -> None:
    from sklearn.metrics import classification_report

    clf = sklearn_spt.load(options.model).set_params(verbose=int(not options.quiet))
    names = [_spelled(label) for label in clf.classes_.tolist()]
    table, texts = _texts(options, _tables(options, options.file), options.file)
    labels = _labels(options, table)
    if unknown := [label for label in labels if label not in (-1, *names)]:
        known = ", ".join(map(repr, names))
        raise ValueError(f"{options.file}: the model has the classes {known}, not {unknown[0]!r}.")
    rows = [row for row, label in enumerate(labels) if label != -1]
    if not rows:
        raise ValueError(f"{options.file} has no labelled row.")
    true = [labels[row] for row in rows]
    predicted = [_spelled(label) for label in clf.predict([texts[row] for row in rows]).tolist()]
    print(classification_report(true, predicted, labels=names, digits=3, zero_division=0.0))


_COMMANDS = {
    "fit": (_fit, "Fit a classifier, save it in a folder, and print a report."),
    "predict": (_predict, "Print the rows of a file with their predicted classes."),
    "evaluate": (_evaluate, "Print the scores of a model on the labelled rows of a file."),
    "compare": (_compare, "Estimate whether the unlabelled texts help."),
}


def _in_options(message: str) -> str:
    """Name options and commands where a message of the library has parameters and functions."""
    message = message.replace("compare_with_supervised(clf, X, y)", "the command compare")
    own = {"X_unlabeled": "unlabeled", "pos_label": "positive", "pretrained": "encoder"}
    same = "alpha|checkpoint_dir|lam|max_length|step_size|unlabeled_marker"
    names = rf"(?<![\w'\"-])({same}|{'|'.join(own)})(?![\w'\"])"
    return re.sub(names, lambda at: f"--{own.get(at[0], at[0]).replace('_', '-')}", message)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status.

    0: done; 1: data or options that cannot be used, with one line on standard error; 2: a command
    line that cannot be understood; 130: interrupted.
    """
    options = _parse(arguments)
    printed: set[str] = set()

    def tell(message: Any, category: Any = None, *_: Any, **__: Any) -> None:
        """Print an error, or once a warning that is meant for users, in one line."""
        line = "warning" if category else f"sklearn_spt {options.command}"
        line += f": {_in_options(' '.join(str(message).split()))}"
        if category in (None, UserWarning) and line not in printed:
            print(line, file=sys.stderr)
        printed.add(line)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = tell
            if options.threads is not None:
                import torch

                torch.set_num_threads(options.threads)
            _COMMANDS[options.command][0](options)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        sys.stdout = None
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    except (ImportError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        tell(str(error) or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
