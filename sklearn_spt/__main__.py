"""The command line: ``python -m sklearn_spt fit | predict | evaluate | suggest | compare``."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Memory

import sklearn_spt
from sklearn_spt._labels import check_step_size, is_blank, labels_of_file, spelled, suspicious_class
from sklearn_spt._sealed import free_folder, saved_state, sha256

_FILES = 'Files: CSV, TSV, JSON lines, parquet, by name; "-" is standard input; -1 is no label.'
_ROWS = 2_000  # in memory at a time; a killed prediction goes on after a multiple of them


def _parse(arguments: list[str] | None) -> Namespace:
    parser = ArgumentParser("python -m sklearn_spt", epilog=_FILES)
    parser.add_argument("--version", action="version", version=sklearn_spt.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, about in [(name, run.__doc__) for name, run in _COMMANDS.items()]:
        add = commands.add_parser(name, help=about, description=about, epilog=_FILES).add_argument
        if saved := name in ("predict", "evaluate", "suggest"):
            add("model", help="folder that fit wrote; it knows the columns")
        add("files", nargs=1 if name == "predict" else "+", metavar="file", help='texts, or "-"')
        add("--text", default=None if saved else "text", help="column of the texts (default: text)")
        if name != "predict":
            add("--label", default=None if saved else "label", help="column (default: label)")
            add("--unlabeled-marker", metavar="LABEL", help="a further label of unlabelled rows")
        if name in ("fit", "compare"):
            add("--unlabeled", action="append", metavar="FILE", help="texts without labels")
            add("--sample", type=int, default=sys.maxsize, help="unlabelled rows, drawn at random")
            add("--encoder", help="name or folder (default: MiniLM)")
            add("--max-length", type=int, metavar="N", help="texts are cut to N tokens")
            add("--lam", type=float, help="weight of the distillation loss, 0 to 1")
            add("--alpha", type=float, help="inertia of the pseudo-labels, 0 to 1")
            add("--step-size", type=number, metavar="K", help="growth of the sample: 9, 0.5, auto")
            add("--four-students", action="store_true", help="for hundreds of labels")
            add("--seed", type=int, default=0, help="of random numbers (default: 0)")
        if name == "compare":
            add("--folds", type=int, default=5, help="number of folds (default: 5)")
            add("--positive", metavar="LABEL", help="class whose F1 counts (default: last of two)")
        elif name != "evaluate":
            add("--out", type=Path, required=name != "predict", help="new file; of fit, new folder")
            add("--overwrite", action="store_true", help="replace what --out names")
        if name == "fit":
            add("--checkpoint-dir", metavar="FOLDER", help="folder from which a killed fit goes on")
            add("--report", metavar="PAGE.html", help="web page with the report and doubtful texts")
        elif name == "predict":
            add("--resume", action="store_true", help="go on where a killed run ended")
        elif name == "suggest":
            add("--n", type=int, default=20, help="number of rows (default: 20)")
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
    """Yield the rows of a file in parts, with their lines as index; set format and separator."""
    suffixes = r"\.(csv|txt|tsv|tab|json|jsonl|ndjson|parquet|xlsx?|ods)(?=\.|$)"
    kind = options.kind = [options.format, *re.findall(suffixes, Path(source).name.lower())][-1]
    data: Any = io.BufferedReader(sys.stdin.buffer) if source == "-" else source
    start = data.peek() if source == "-" else kind and np.fromfile(source, np.uint8, 9999).tobytes()
    if kind in (None, "xls", "xlsx", "ods") or (start[:4] == b"PK\3\4" and source[-4:] != ".zip"):
        unknown = "give a file of texts whose name says the format, or add --format"
        raise ValueError(f"{source}: {'Save it as CSV UTF-8' if kind else unknown}.")
    code = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else options.encoding
    code = "utf-8-sig" if start[:3] == b"\xef\xbb\xbf" else code
    how: dict[str, Any] = {"dtype": str, "na_filter": False, "encoding": code, "chunksize": _ROWS}
    lines = {"sep": "\x01", "quoting": 3, "names": ["line"], **how}  # no line has this separator
    options.source, options.sep, options.end, line = source, ",", "\n", 1
    options.code = "utf-8" + "-sig" * (code != "utf-8")  # of what is written, for spreadsheets
    try:
        if kind == "parquet":
            file = io.BytesIO(data.read()) if source == "-" else source
            for batch in import_module("pyarrow.parquet").ParquetFile(file).iter_batches(_ROWS):
                part = batch.to_pandas(types_mapper=pd.ArrowDtype)  # one type in all parts
                yield part.set_index(np.arange(line, line := line + len(part)))
        elif "json" in kind:
            for part in pd.read_csv(data, skip_blank_lines=False, **lines):  # keeps all digits
                at = {(line := n + 1): {**json.loads(x)} for n, x in part.itertuples() if x.strip()}
                yield pd.DataFrame([*at.values()], [*at], dtype=object)
        else:
            first = start.decode(code, "ignore").partition("\n")[0]
            head = io.BytesIO(first.encode(code)) if source == "-" else data
            header = "".join(next(pd.read_csv(head, **lines | {"chunksize": 1}))["line"])
            options.end = "\r\n" if first == f"{header}\r" else "\n"
            options.sep = max("\t,;" if kind == "tsv" else ",;\t", key=header.count)
            for part in pd.read_csv(data, sep=options.sep, quoting=options.quoting, **how):
                if not isinstance(part.index, pd.RangeIndex):
                    raise ValueError("the rows have more fields than the first line has names")
                *ends, line = np.cumsum([line, *(1 + sum(part[x].str.count("\n") for x in part))])
                yield part.set_index(np.array(ends, dtype=int) + 1)
    except (EOFError, LookupError, TypeError, ValueError) as error:
        hint = "; add --encoding, such as cp1252" * isinstance(error, UnicodeError)
        wrong = "json" in kind and isinstance(error, json.JSONDecodeError | TypeError)
        what = f"line {line} is no JSON object; each line must hold one." if wrong else error
        raise ValueError(f"{source}: {what}{hint}") from error
    if line == 1 and "json" not in kind:
        raise ValueError(f"{source} holds no row.")


def _column(options: Namespace, table: pd.DataFrame, name: str) -> list[Any]:
    """Return a column, with "" where a value is missing; labels may be in lists of one."""
    given, table = getattr(options, name), table.rename(columns=str)
    if given in table:
        values = []
        for line, value in table[given].astype(object).items():
            if name == "label" and isinstance(value, list | np.ndarray) and len(value) < 2:
                value = value[0] if len(value) else None  # as labelling tools export it
            if isinstance(value, bytes) or not pd.api.types.is_scalar(value):
                what = f"line {line} of column {given!r} holds {value!s:.60}"
                raise ValueError(f"{options.source}: {what}, not one {name}.")
            values.append("" if pd.isna(value) else value)
        return values
    hint, rest = "", [x for x in table if x not in (options.text, vars(options).get("label"))]
    for at in [name, "label"][: 1 + (name == "text" and options.command != "predict")]:
        same = [x for x in rest if x.casefold() == vars(options)[at].casefold()]
        long = [x for x in rest if at == "text" and table[x].astype(str).map(len).mean() > 20]
        x, *more = same or long or rest or ["NAME"]
        hint += f" --{at} {'NAME' if more else shlex.quote(x)}" * (vars(options)[at] not in table)
        rest = rest if more else [other for other in rest if other != x]
    listed = f", but {', '.join(map(repr, table))}. Add{hint}" * bool(table.size)
    raise ValueError(f"{options.source} has no column {given!r} (--{name}){listed}.")


def _texts(options: Namespace, table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return rows and their texts; empty texts are left out, predicted, or an error."""
    texts = [*map(str, _column(options, table, "text"))]
    empty = np.array([is_blank(text) for text in texts], dtype=bool)
    if options.skip_empty:
        table, texts = table[~empty], [text for text in texts if not is_blank(text)]
    elif len(at := table.index[empty].astype(str)) and options.command != "predict":
        found = f"no text in line {', '.join(at[:20])}{f' and {len(at[20:])} more' * any(at[20:])}"
        raise ValueError(f"{options.files[0]}: {found}; fill in, or leave out by --skip-empty.")
    options.lines = table.index
    return table, texts


def _rows(options: Namespace, known: Iterable[str] = ()) -> tuple[pd.DataFrame, Any, Any]:
    """Return the rows of all files, their texts X, and their labels y, -1 where there is none."""
    tables, more = list[Any](), vars(options).get("unlabeled") or list[str]()
    for source in [*options.files, *more]:
        table = pd.concat(_tables(options, source))
        table.index = [f"{line}{f' of {source}' * bool(tables)}" for line in table.index]
        more += [source] * (options.command == "suggest" and options.label not in table)
        tables.append(table.assign(**{options.label: ""} if source in more else {}))
        _column(options, tables[-1], "text"), _column(options, tables[-1], "label")
    options.unlabeled, (table, texts) = more, _texts(options, pd.concat(tables))
    labels = [str(label).strip() for label in _column(options, table, "label")]
    y = labels_of_file(labels, options.unlabeled_marker or "", known)
    if "model" not in options and (len(found := {*y} - {-1}) == 1 or not any(labels)):
        what = f"has one class only, {max(found)!r}" if found else f"is empty in all {len(y)} rows"
        raise ValueError(f"Column {options.label!r} {what}; label rows of two classes.")
    return table, *(pd.Series(values, table.index, dtype=object) for values in (texts, y))


def _load(options: Namespace) -> Any:
    """Return a saved classifier; the options of its fit are the default."""
    saved_state(options.model)
    options.rows = sum(len(t) for x in {*options.files} - {"-"} for t in _tables(options, x))
    print("loading the model ...", file=options.log)
    clf = sklearn_spt.load(options.model)
    if not hasattr(clf, "verbose"):
        raise ValueError(f"{options.model} holds a {type(clf).__name__}, which reads no texts.")
    for name, value in getattr(clf, "options_", {"text": "text", "label": "label"}).items():
        vars(options)[name] = getattr(options, name, None) or value
    return clf.set_params(verbose=int(not options.quiet))


def _training(options: Namespace, **params: Any) -> tuple[Any, list[str], list[Any]]:
    """Return a classifier, texts and labels as the options describe them."""
    for name, low in {"lam": 0, "alpha": 0, "folds": 2, "sample": 0, "max_length": 3}.items():
        x, high = vars(options).get(name), 1 if name in ("lam", "alpha") else np.inf
        if x is not None and not low <= x <= high:
            raise ValueError(f"{name} must be {low} {'or more' if high > 1 else 'to 1'}; got {x}.")
    check_step_size("auto" if options.step_size is None else options.step_size)
    if (name := options.encoder or "/")[0] in "./~" and not Path(name).expanduser().is_dir():
        raise ValueError(f"--encoder {name}: no such folder.")
    _, X, y = _rows(options)
    kept = y != -1
    U = X[~kept] if len(options.files) == 1 else X[~kept & ~X.isin(X[kept])].drop_duplicates()
    left_out = f"{n} repeated rows left out\n" if (n := sum(~kept) - len(U)) else ""
    kept |= X.index.isin(U.sample(min(len(U), options.sample), random_state=options.seed).index)
    X, y, options.lines = X[kept], y[kept], X.index[kept]
    print(left_out + "loading the encoder ...", file=options.log)
    given = {"estimator__pretrained": options.encoder, "estimator__max_length": options.max_length}
    given |= {name: vars(options)[name] for name in ("lam", "alpha", "step_size")}
    params |= sklearn_spt.FOUR_STUDENTS if options.four_students else {}
    params |= {name: value for name, value in given.items() if value is not None}
    clf = sklearn_spt.SelfPretrainingClassifier(sklearn_spt.BertClassifier()).set_params(**params)
    return clf.set_params(random_state=options.seed), X.tolist(), y.tolist()


def _fit(options: Namespace) -> None:
    """Fit a classifier, save it in a folder, and print a report."""
    free_folder(options.out, options.overwrite)  # a folder in use is an error now
    if (page := Path(options.report or "here").parent) == options.out or not page.is_dir():
        raise ValueError(f"--report: there is no folder {page}, or it is that of --out.")
    clf, X, y = _training(options, checkpoint_dir=options.checkpoint_dir, verbose=not options.quiet)
    FitReport, to = import_module("sklearn_spt.inspection").FitReport, shlex.quote(str(options.out))
    clf.fit(X, y).set_params(verbose=0, checkpoint_dir=None)
    clf.labeled_hashes_ = pd.util.hash_array(np.array(X, dtype=object)[clf.labeled_iter_ == 0])
    names = "text label unlabeled_marker encoder max_length lam alpha step_size four_students"
    clf.options_ = {name: vars(options)[name] for name in [*names.split(), "seed", "sample"]}
    sklearn_spt.save(clf, options.out, overwrite=options.overwrite)
    print(_in_options(str(FitReport.from_estimator(clf))))
    if options.report is not None:
        shown = FitReport.from_estimator(clf, X)
        shown.doubtful.insert(0, "line", options.lines[shown.doubtful.pop("row")])
        shown.to_html(options.report)
    print(f"\nNext: python -m sklearn_spt predict {to} NEW.csv --out predicted.csv")
    if (marker := suspicious_class(clf.classes_)) is not None:
        print(f"\nIs {marker!r} a class? If not, add --overwrite --unlabeled-marker={marker!r}")


def _compare(options: Namespace) -> None:
    """Estimate whether the unlabelled texts help."""
    how: Any = {"cv": options.folds, "pos_label": options.positive, "random_state": options.seed}
    how["verbose"], data = not options.quiet, _training(options)
    print(sklearn_spt.compare_with_supervised(*data, **how))


def _predict(options: Namespace) -> None:
    """Print the rows of a file with their predicted classes, or write them to a file."""
    (source,), out, parts = options.files, options.out, Path(f"{options.out}.parts")
    if out and (out.is_dir() or not re.search(r"\.(csv|tsv|parquet|\w*json\w?)$", str(out))):
        raise ValueError(f"--out {out}: give a .csv (for spreadsheets), .tsv, .parquet or .jsonl.")
    if options.resume and out and out.exists() and not parts.exists():
        return print(f"{out} is complete.", file=sys.stderr)  # the killed run had ended
    if out and (parts.exists() or out.exists()) and not (options.overwrite or options.resume):
        used = parts if parts.exists() else out
        raise ValueError(f"{used} is in use; add --overwrite, or --resume after a kill.")
    clf, writer, unsure = _load(options).set_params(verbose=0), None, np.zeros(2, dtype=int)
    bars = import_module("sklearn_spt._estimator").progress_bar
    shown = int(not options.quiet and (bool(out) or not sys.stdout.isatty()))
    with bars(shown, options.rows, "prediction", unit="row", delay=1) as bar, ExitStack() as stack:
        for n, part in enumerate(_tables(options, source)):
            rows, texts = _texts(options, part)
            if n == 0:  # the columns are there
                if out and ("json" in options.kind) != ("json" in out.suffix):
                    raise ValueError("--out: the name must end in .jsonl for JSON lines only.")
                memory = Memory(out and parts / sha256(saved_state(options.model))[:8], verbose=0)
                answer = memory.cache(clf.predict_proba, ignore=["self"])  # also of a killed run
                to = stack.enter_context(open(parts / "out", "wb")) if out else sys.stdout.buffer
            P = answer(texts) if texts else np.empty((0, len(clf.classes_)))
            rows = rows.assign(prediction=clf.classes_[P.argmax(1)], probability=P.max(1).round(6))
            unsure += (rows["probability"] < 0.7).sum(), len(rows)
            rows[[f"probability_{label}" for label in clf.classes_]] = P.round(6)
            if out and out.suffix == ".parquet":
                parquet = import_module("pyarrow.parquet")
                table = import_module("pyarrow").Table.from_pandas(rows, preserve_index=False)
                writer = writer or stack.enter_context(parquet.ParquetWriter(to, table.schema))
                writer.write_table(table)
            elif "json" in options.kind:
                to.write(rows.to_json(orient="records", lines=True, force_ascii=False).encode())
            else:
                quote = options.quoting or int("\r" in "".join(texts))  # all, or \r ends a row
                sep = "\t" if out and out.suffix == ".tsv" else options.sep
                how = {"sep": sep, "header": not n, "quoting": quote, "lineterminator": options.end}
                to.write(rows.to_csv(index=False, **how).encode("utf-8" if n else options.code))
            to.flush()
            bar.update(len(part))
    if out:
        (parts / "out").replace(out)
        shutil.rmtree(parts)
        print("{} of {} rows have a probability below 0.7.".format(*unsure), file=options.log)


def _suggest(options: Namespace) -> None:
    """Write the rows to label next to a CSV file, for a spreadsheet and for another fit."""
    out, used = options.out, options.out.exists() and not options.overwrite
    if used or out.suffix != ".csv" or out.is_dir() or out in map(Path, options.files):
        raise ValueError(f"--out {out}: give a new .csv, or --overwrite one that is no input.")
    clf, (table, X, y) = _load(options), _rows(options)
    unknown = (y == -1) & ~X.isin(X[y != -1])
    if not unknown.any():
        raise ValueError("Each text has a label: there is none to suggest.")
    suggest, unlabeled = import_module("sklearn_spt.inspection").suggest, X[unknown].tolist()
    chosen = np.sort(suggest(clf, unlabeled, min(options.n, len(unlabeled))))
    table = table[unknown].iloc[chosen].assign(**{options.label: ""})
    how: Any = {"sep": options.sep, "quoting": options.quoting, "index": False}
    table.to_csv(out, encoding="utf-8-sig", lineterminator="\r\n", **how)
    lost = ~np.isin(getattr(clf, "labeled_hashes_", [0]), pd.util.hash_array(X[y != -1].to_numpy()))
    own = vars(options) | {"command": "fit", "out": options.model, "overwrite": not any(lost)}
    usual = vars(_parse(["fit", *options.files, "--out="])) | {"unlabeled": []}
    files = [*(x for x in options.files if x not in own["unlabeled"]), str(out)]
    given = {f"--{x.replace('_', '-')}": own[x] for x, y in usual.items() if own.get(x, y) != y}
    flags = [f"{x}={z}".removesuffix("=True") for x, y in given.items() for z in np.ravel(y)]
    again = shlex.join([*files, *["OTHER_LABELS.csv"] * any(lost), *flags])
    print(f"Next: label {shlex.quote(str(out))}, then run python -m sklearn_spt fit {again}")


def _evaluate(options: Namespace) -> None:
    """Print the scores of a model on the labelled rows of a file."""
    clf, file, metrics = _load(options), options.files[0], import_module("sklearn.metrics")
    names = [x if isinstance(x, str) else spelled(x) for x in clf.classes_.tolist()]
    _, X, y = _rows(options, names)
    X, y = X[y != -1], y[y != -1].tolist()
    if not y:
        raise ValueError(f"{file} has no labelled row.")
    if unknown := {*y} - {*names}:
        raise ValueError(f"{file}: {min(unknown)!r} is no class of the model: {names}.")
    predicted = np.array(names)[clf.predict_proba(X.tolist()).argmax(axis=1)]
    if n := np.isin(pd.util.hash_array(X.to_numpy()), getattr(clf, "labeled_hashes_", [])).sum():
        what = "were labelled rows of the fit: their score says nothing about new texts"
        warnings.warn(f"{n} of {len(y)} rows {what}; score others, or use compare.", stacklevel=2)
    print(metrics.classification_report(y, predicted, labels=names, digits=3, zero_division=0.0))


def _in_options(message: str) -> str:
    """Name options and commands where a message of the library has parameters and functions."""
    message = message.replace("compare_with_supervised(clf, X, y), or ", "")
    own = {"X": "text", "y": "label", "X_unlabeled": "unlabeled", "The encoder": "encoder"}
    own |= {"pos_label": "positive", "cv": "folds", "overwrite=True": "overwrite"}
    same = "alpha|checkpoint_dir|folds|lam|max_length|sample|step_size|unlabeled_marker"
    names = rf"(?<![\w'\"./\\-])({same}|{'|'.join(own)})(?![\w'\"./\\])"
    return re.sub(names, lambda at: f"--{own.get(at[0], at[0]).replace('_', '-')}", message)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0, 1 where data or options cannot be used, or 130 if interrupted."""
    options, printed = _parse(arguments), set[str]()
    options.log = io.StringIO() if options.quiet else sys.stderr

    def tell(message: Any, category: Any = None, *_: Any, **__: Any) -> None:
        lines = dict(enumerate(vars(options).get("lines", ())))
        text = _in_options(" ".join(str(message).split()))  # pandas counts rows from the header
        text = re.sub(r" row (\d+)", lambda at: f" line {lines.get(n := int(at[1]), n + 1)}", text)
        line = f"{'warning' if category else f'sklearn_spt {options.command}'}: {text}"
        if category in (None, UserWarning) and line not in printed and "Persisting" not in line:
            print(line, file=sys.stderr)
        printed.add(line)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        with warnings.catch_warnings(action="always"):
            warnings.showwarning = tell
            if options.threads is not None:
                import_module("torch").set_num_threads(options.threads)
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


_COMMANDS = {run.__name__[1:]: run for run in (_fit, _predict, _evaluate, _suggest, _compare)}
if __name__ == "__main__":
    sys.exit(main())
