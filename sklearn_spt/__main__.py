"""The command line: ``python -m sklearn_spt fit | predict | evaluate | compare``."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import classification_report

import sklearn_spt
from sklearn_spt._labels import form_of, is_blank

_FILES = """Files are CSV (with commas or semicolons), TSV, JSON lines or parquet by their names;
they may be compressed; "-" is standard input. A row without a label, or with -1, is unlabelled."""


def _parse(arguments: list[str] | None) -> Namespace:
    parser = ArgumentParser("python -m sklearn_spt", epilog=_FILES)
    parser.add_argument("--version", action="version", version=sklearn_spt.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, command in _COMMANDS.items():
        about: Any = {"help": command.__doc__, "description": command.__doc__, "epilog": _FILES}
        add = commands.add_parser(name, **about).add_argument
        saved = name in ("predict", "evaluate")
        if saved:
            add("model", help="folder that fit wrote")
        add("file", help='file of the texts, or "-"')
        usual = "the one of fit" if saved else "%(default)s"
        add("--text", default=None if saved else "text", help=f"column (default: {usual})")
        if name != "predict":
            add("--label", default=None if saved else "label", help=f"column (default: {usual})")
            add("--unlabeled-marker", metavar="LABEL", help="a further label of unlabelled rows")
        if name in ("fit", "compare"):
            add("--unlabeled", metavar="FILE", help="more texts, whose labels do not count")
            add("--sample", type=int, metavar="N", help="use N unlabelled rows, drawn at random")
            add("--encoder", help="name or folder (default: MiniLM)")
            add("--max-length", type=int, metavar="N", help="texts are cut to N tokens")
            add("--lam", type=float, help="weight of the distillation loss, 0 to 1")
            add("--alpha", type=float, help="inertia of the pseudo-labels, 0 to 1")
            add(
                "--step-size", type=number, metavar="K", help="growth of the sample: 200, 0.5, auto"
            )
            add(
                "--four-students", action="store_true", help="a few hundred labels, thrice the time"
            )
            add("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
        if name == "fit":
            add("--out", required=True, type=Path, help="new folder for the model")
            add("--checkpoint-dir", metavar="FOLDER", help="folder from which a killed fit goes on")
            add("--report", metavar="PAGE.html", help="web page with the report and doubtful texts")
        if name == "compare":
            add("--folds", type=int, default=5, help="number of folds (default: 5)")
            add("--positive", metavar="LABEL", help="class whose F1 counts (default: last of two)")
        add("--skip-empty", action="store_true", help="leave out rows with an empty text")
        add("--format", choices=("csv", "tsv", "jsonl", "parquet"), help="if no name says it")
        add("--encoding", default="utf-8", help="encoding of the files (default: utf-8)")
        add("--quoting", type=int, default=0, help='as in pandas; 3: " is no quotation mark')
        add("--threads", type=int, metavar="N", help="threads of torch (default: all cores)")
        add("--quiet", action="store_true", help="show no progress")
    return parser.parse_args(arguments)


def number(text: str) -> Any:
    """Return a number or "auto"; argparse names this function where it fails."""
    return text if text == "auto" else json.loads(text)


def _tables(options: Namespace, source: str) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file, in parts where that is possible; set the format and separator."""
    suffixes = r"\.(csv|txt|tsv|tab|json|jsonl|ndjson|parquet)(?=\.|$)"
    kind = options.kind = [options.format, *re.findall(suffixes, Path(source).name.lower())][-1]
    if kind is None:
        raise ValueError(f"{source}: the name does not say the format; add --format.")
    stream: Any = io.BufferedReader(sys.stdin.buffer) if source == "-" else source
    how: dict[str, Any] = {"dtype": str, "na_filter": False, "encoding": options.encoding}
    lines = {"sep": "\x01", "quoting": 3, "names": ["line"], **how}  # no line has this separator
    try:
        if kind == "parquet":
            stream = io.BytesIO(stream.read()) if source == "-" else stream
            yield pd.read_parquet(stream).reset_index(drop=True)
        elif "json" in kind:
            # read_json would lose digits of large numbers in a column with missing values
            for part in pd.read_csv(stream, chunksize=10_000, **lines):
                rows = [_json(*pair) for pair in part["line"].items()]
                yield pd.DataFrame(rows, part.index, dtype=object)
        else:
            head = io.BytesIO(stream.peek().partition(b"\n")[0]) if source == "-" else stream
            header = "".join(pd.read_csv(head, nrows=1, **lines)["line"])
            options.sep = max("\t,;" if kind == "tsv" else ",;\t", key=header.count)
            how |= {"sep": options.sep, "quoting": options.quoting, "chunksize": 10_000}
            for part in pd.read_csv(stream, **how):
                if not isinstance(part.index, pd.RangeIndex):
                    raise ValueError("the rows have more fields than the first line has names")
                yield part
    except (EOFError, LookupError, ValueError) as error:
        hint = "; add --encoding, such as cp1252" if isinstance(error, UnicodeError) else ""
        raise ValueError(f"{source}: {error}{hint}") from error


def _json(row: Any, line: str) -> Any:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"row {row + 1}: {error}; each line must hold one object") from error
    if not isinstance(found, dict):
        raise ValueError(f"row {row + 1}: each line must hold one object")
    return found


def _set_threads(options: Namespace) -> None:
    if options.threads is not None:
        import_module("torch").set_num_threads(options.threads)


def _load(options: Namespace) -> Any:
    """Return a saved classifier; the columns of its fit are the default."""
    _set_threads(options)
    clf = sklearn_spt.load(options.model)
    if not hasattr(clf, "verbose"):
        raise ValueError(f"{options.model} holds a {type(clf).__name__}, which reads no texts.")
    clf.set_params(verbose=int(not options.quiet))
    columns = {"text": "text", "label": "label"} | getattr(clf, "columns_", {})
    for name, column in columns.items():
        vars(options)[name] = getattr(options, name, None) or column
    return clf


def _column(options: Namespace, table: pd.DataFrame, name: str, source: str) -> list[Any]:
    """Return a column, with "" where a value is missing; labels may be in lists of one."""
    given, table = getattr(options, name), table.rename(columns=str)
    if given in table:
        values = []
        for row, value in table[given].astype(object).items():
            if name == "label" and isinstance(value, list | np.ndarray) and len(value) < 2:
                value = value[0] if len(value) else None  # as labelling tools export it
            if isinstance(value, bytes) or not pd.api.types.is_scalar(value):
                what = f"row {row + 1} of column {given!r} holds {value!s:.60}"
                raise ValueError(f"{source}: {what}, not one {name}.")
            values.append("" if pd.isna(value) else value)
        return values
    others = [other for other in table if other != options.text]
    hint = f" Add --{name} {shlex.quote(others[0])}." if len(others) == 1 else ""
    listed = ", ".join(map(repr, table))
    raise ValueError(f"{source} has no column {given!r} (--{name}), but {listed}.{hint}")


def _texts(options: Namespace, tables: Iterable[Any], source: str) -> tuple[Any, list[str]]:
    """Return all rows and their texts; empty texts are left out, predicted, or an error."""
    table = pd.concat(tables)
    texts = [*map(str, _column(options, table, "text", source))]
    empty = np.array([is_blank(text) for text in texts], dtype=bool)
    if options.skip_empty:
        table, texts = table[~empty], [text for text in texts if not is_blank(text)]
    elif empty.any() and options.command != "predict":
        number = np.arange(1, len(texts) + 1)
        if options.kind not in ("json", "jsonl", "ndjson", "parquet"):  # names, and lines in texts
            number += 1 + np.cumsum([text.count("\n") for text in texts])
        lines = ", ".join(map(str, number[empty][:20])) + ", ..." * int(empty.sum() > 20)
        found = f"{source}: {empty.sum()} texts are empty (lines {lines})"
        raise ValueError(f"{found}; repair them, or leave them out by --skip-empty.")
    if table.empty:
        raise ValueError(f"{source} holds no row.")
    return table, texts


def _labels(options: Namespace, table: pd.DataFrame, known: Iterable[str] = ()) -> list[Any]:
    """Return the label of each row, -1 where there is none."""
    labels = [str(label).strip() for label in _column(options, table, "label", options.file)]
    marker = _spelled(options.unlabeled_marker or "")
    given = {label for label in labels if _spelled(label) not in ("", "-1", marker)}
    if near := sorted(x for x in given if marker and form_of(x) == form_of(marker)):
        message = f"The labels {near} differ only in form from unlabeled_marker={marker!r}."
        warnings.warn(message, stacklevel=2)
    apart = len({*map(_spelled, given)}) < len(given)  # "2" and "2.0", which the fit names
    spelled = {x: x if apart or x in known else _spelled(x) for x in given}
    return [spelled.get(label, -1) for label in labels]


def _spelled(label: Any) -> str:
    """Return a label as str; 1.0 is what pandas makes of 1 beside missing values."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", str(label).strip())


def _training(options: Namespace, **params: Any) -> tuple[Any, list[str], list[Any]]:
    """Return a classifier, texts and labels as the options describe them."""
    table, X = _texts(options, _tables(options, options.file), options.file)
    y = _labels(options, table)
    if options.unlabeled is not None:
        X += _texts(options, _tables(options, options.unlabeled), options.unlabeled)[1]
    data = pd.DataFrame({"X": X, "y": y + [-1] * (len(X) - len(y))}, dtype=object)
    if options.sample is not None:
        U = data[data["y"] == -1]
        data = data.drop(U.sample(max(0, len(U) - options.sample), random_state=options.seed).index)
    _set_threads(options)
    given = {"pretrained": options.encoder, "max_length": options.max_length}
    net = sklearn_spt.BertClassifier(**{name: v for name, v in given.items() if v is not None})
    params |= {"verbose": int(not options.quiet), "random_state": options.seed}
    params |= sklearn_spt.FOUR_STUDENTS if options.four_students else {}
    given = {name: getattr(options, name) for name in ("lam", "alpha", "step_size")}
    params |= {name: value for name, value in given.items() if value is not None}
    clf = sklearn_spt.SelfPretrainingClassifier(net, **params)
    return clf, data["X"].tolist(), data["y"].tolist()


def _fit(options: Namespace) -> None:
    """Fit a classifier, save it in a folder, and print a report."""
    options.out.mkdir(parents=True, exist_ok=True)
    options.out.rmdir()  # a folder in use is an error now, not after the training
    if (page := Path(options.report or "here").parent) != options.out and not page.is_dir():
        raise ValueError(f"--report {options.report}: there is no folder {page}.")
    clf, X, y = _training(options, checkpoint_dir=options.checkpoint_dir)
    from sklearn_spt.inspection import FitReport  # now, since torch takes seconds to import

    clf.fit(X, y).set_params(verbose=0, checkpoint_dir=None)
    clf.columns_ = {name: vars(options)[name] for name in ("text", "label", "unlabeled_marker")}
    sklearn_spt.save(clf, options.out)
    report = _in_options(str(FitReport.from_estimator(clf)))
    print(report if -1 in y else report.partition("\n\nWhether the unlabelled")[0])
    if options.report is not None:
        FitReport.from_estimator(clf, X).to_html(options.report)
    following = ["predict", str(options.out), "NEW.csv"]
    print("\nNext: python -m sklearn_spt", shlex.join(following))


def _compare(options: Namespace) -> None:
    """Estimate whether the unlabelled texts help."""
    how: Any = {"cv": options.folds, "pos_label": options.positive, "random_state": options.seed}
    data = _training(options)
    print(sklearn_spt.compare_with_supervised(*data, verbose=int(not options.quiet), **how))


def _predict(options: Namespace) -> None:
    """Print the rows of a file with their predicted classes."""
    clf = _load(options)
    names = [f"probability_{label}" for label in clf.classes_]
    for part in _tables(options, options.file):
        rows, texts = _texts(options, [part], options.file)
        P = clf.predict_proba(texts)
        rows = rows.assign(prediction=clf.classes_[P.argmax(axis=1)])
        rows[names] = P.round(6)
        if "json" in options.kind:
            lines = rows.to_json(orient="records", lines=True, force_ascii=False)
        else:
            quoting = options.quoting or int("\r" in "".join(texts))  # all, or \r ends a row
            how: Any = {"sep": getattr(options, "sep", ","), "quoting": quoting, "index": False}
            lines = rows.to_csv(header=part.index[0] == 0, lineterminator="\n", **how)
        print(lines, end="", flush=True)


def _evaluate(options: Namespace) -> None:
    """Print the scores of a model on the labelled rows of a file."""
    clf = _load(options)
    names = [x if isinstance(x, str) else _spelled(x) for x in clf.classes_.tolist()]
    table, texts = _texts(options, _tables(options, options.file), options.file)
    labels = _labels(options, table, names)
    pairs = [pair for pair in zip(texts, labels, strict=True) if pair[1] != -1]
    if not pairs:
        raise ValueError(f"{options.file} has no labelled row.")
    X, y = zip(*pairs, strict=True)
    if unknown := {*y} - {*names}:
        raise ValueError(f"{options.file}: {min(unknown)!r} is no class of the model: {names}.")
    predicted = np.array(names)[clf.predict_proba(list(X)).argmax(axis=1)]
    print(classification_report(y, predicted, labels=names, digits=3, zero_division=0.0))


_COMMANDS = {"fit": _fit, "predict": _predict, "evaluate": _evaluate, "compare": _compare}


def _in_options(message: str) -> str:
    """Name options and commands where a message of the library has parameters and functions."""
    message = message.replace("compare_with_supervised(clf, X, y)", "the command compare")
    message = message.replace("that save wrote", "that fit wrote")
    own = {"X": "text", "y": "label", "X_unlabeled": "unlabeled"}
    own |= {"pos_label": "positive", "pretrained": "encoder", "cv": "folds"}
    same = "alpha|checkpoint_dir|lam|max_length|step_size|unlabeled_marker"
    names = rf"(?<![\w'\"./\\-])({same}|{'|'.join(own)})(?![\w'\"./\\])"
    return re.sub(names, lambda at: f"--{own.get(at[0], at[0]).replace('_', '-')}", message)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0, 1 where data or options cannot be used, or 130 if interrupted."""
    options = _parse(arguments)
    printed: set[str] = set()

    def tell(message: Any, category: Any = None, *_: Any, **__: Any) -> None:
        line = "warning" if category else f"sklearn_spt {options.command}"
        line += f": {_in_options(' '.join(str(message).split()))}"
        if category in (None, UserWarning) and line not in printed:  # others are not for users
            print(line, file=sys.stderr)
        printed.add(line)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = tell
            _COMMANDS[options.command](options)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        sys.stdout = None
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    except (ImportError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        file, what = getattr(error, "filename", None), getattr(error, "strerror", None)
        tell(f"{file}: {what}" if file else str(error) or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
