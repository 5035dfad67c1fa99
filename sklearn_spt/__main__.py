"""The command line: ``python -m sklearn_spt fit | predict | evaluate | compare``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

_FILES = """\
Files are CSV (with commas, semicolons or tabs), JSON lines (.jsonl) or parquet, perhaps compressed
(.gz), with a header. A row without a label, or with the label -1, is unlabelled. "-" is standard
input, as CSV.
"""
#: Rows that `predict` and `evaluate` hold at a time.
_CHUNK = 10_000


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status.

    0: done; 1: data or options that cannot be used, with one line on standard error; 2: a command
    line that cannot be understood; 130: interrupted.
    """
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        try:
            _COMMANDS[options.command](options)
        except BrokenPipeError:  # the reader, for instance `head`, has closed the pipe
            sys.stdout = None
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
            message = " ".join(str(error).split()) or type(error).__name__
            for name in ("unlabeled_marker", "max_length", "checkpoint_dir"):
                message = message.replace(name, f"--{name.replace('_', '-')}")
            print(f"error: {message}", file=sys.stderr)
            return 1
    return 0


def _show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning that is meant for users in one line."""
    if category is UserWarning:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


# -- files -----------------------------------------------------------------------------------------
def _chunks(options: argparse.Namespace, file: str, *, label: bool) -> Iterator[pd.DataFrame]:
    """Yield the rows of a file in parts, with the columns that are named in the options."""
    suffixes = Path(file).suffixes
    source = sys.stdin if file == "-" else file
    strings = {options.text: str} | ({options.label: str} if label else {})
    if ".parquet" in suffixes:
        parts: Any = [pd.read_parquet(file)]
    elif ".jsonl" in suffixes or ".json" in suffixes or ".ndjson" in suffixes:
        parts = pd.read_json(source, lines=True, chunksize=_CHUNK, dtype=strings)
    else:
        # the separator is found in the first line
        separated = {"sep": None, "engine": "python"} if ".tsv" not in suffixes else {"sep": "\t"}
        parts = pd.read_csv(
            source, dtype=strings, chunksize=_CHUNK, keep_default_na=False, **separated
        )
    for part in parts:
        for name in strings:
            if name not in part:
                option = "--text" if name == options.text else "--label"
                raise ValueError(
                    f"{file} has no column {name!r}; name one of {list(part)} by {option}."
                )
        empty = part[options.text].isna() | ~part[options.text].astype(str).str.strip().astype(bool)
        if empty.any() and options.command != "predict":
            if not options.skip_empty:
                rows = (np.flatnonzero(empty) + part.index[0] + 1).tolist()
                raise ValueError(
                    f"{file} holds {len(rows)} empty texts, in the rows {str(rows[:20])[1:-1]}"
                    f"{', ...' if len(rows) > 20 else ''}; leave them out by --skip-empty."
                )
            part = part[~empty]
        yield part


def _labels(options: argparse.Namespace, part: pd.DataFrame) -> pd.Series:
    """Return the labels of rows as strings, None where a row is unlabelled."""
    labels = part[options.label]
    missing = labels.isna()
    labels = labels.astype(str).str.strip()
    missing |= labels.isin(["", "-1", "-1.0", "nan", "NaN", options.unlabeled_marker])
    return labels.where(~missing, None).astype(object)


def _training_data(options: argparse.Namespace) -> tuple[Any, Any]:
    """Return texts and labels, with None for unlabelled rows."""
    frame = pd.concat(_chunks(options, options.file, label=True))
    texts, y = frame[options.text].astype(str).tolist(), _labels(options, frame).tolist()
    if options.unlabeled:
        for part in _chunks(options, options.unlabeled, label=False):
            texts += part[options.text].astype(str).tolist()
            y += [None] * len(part)
    rows = np.arange(len(y))
    if options.sample is not None:
        unlabeled = rows[[label is None for label in y]]
        drawn = np.random.default_rng(options.seed).permutation(unlabeled)[: options.sample]
        rows = np.union1d(rows[[label is not None for label in y]], drawn)
    X, marked = np.array(texts, dtype=object), np.array(y, dtype=object)
    return X[rows], marked[rows]


# -- commands --------------------------------------------------------------------------------------
def _classifier(options: argparse.Namespace, **params: Any) -> Any:
    import torch

    from sklearn_spt import FOUR_STUDENTS, BertClassifier, SelfPretrainingClassifier

    if options.threads:
        torch.set_num_threads(options.threads)
    given = {"max_length": options.max_length} if options.max_length else {}
    net = BertClassifier(options.encoder, **given) if options.encoder else BertClassifier(**given)
    params |= FOUR_STUDENTS if options.four_students else {}
    names = ("lam", "alpha", "step_size", "teacher")
    params |= {n: getattr(options, n) for n in names if getattr(options, n) is not None}
    return SelfPretrainingClassifier(
        net, unlabeled_marker=None, random_state=options.seed, **params
    )


def _fit(options: argparse.Namespace) -> None:
    from sklearn_spt.inspection import FitReport

    out = options.out.expanduser()
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ValueError(f"--out {out} is in use; name a new folder.")
    out.parent.mkdir(parents=True, exist_ok=True)  # before the training, which would be lost
    X, y = _training_data(options)
    verbose = int(not options.quiet)
    clf = _classifier(options, verbose=verbose, checkpoint_dir=options.checkpoint_dir).fit(X, y)
    clf.set_params(verbose=0, checkpoint_dir=None)  # of this command, not of the model
    clf.save(out)
    report = FitReport.from_estimator(clf, X)
    print(report)
    if options.report:
        report.to_html(options.report)
    text = "" if options.text == "text" else f" --text {options.text}"
    print(f"\nNext: python -m sklearn_spt predict {out} FILE{text}")


def _compare(options: argparse.Namespace) -> None:
    from sklearn_spt.model_selection import compare_with_supervised

    X, y = _training_data(options)
    result = compare_with_supervised(
        _classifier(options),
        X,
        y,
        cv=options.folds,
        scoring=options.scoring,
        random_state=options.seed,
        verbose=int(not options.quiet),
    )
    print(result)


def _predict(options: argparse.Namespace) -> None:
    from sklearn_spt import load

    clf = load(options.model)
    for number, part in enumerate(_chunks(options, options.file, label=False)):
        P = clf.predict_proba(part[options.text].fillna("").astype(str).tolist())
        columns = {f"probability_{label}": P[:, c] for c, label in enumerate(clf.classes_)}
        found = part.assign(predicted=clf.classes_[P.argmax(axis=1)], **columns)
        found.to_csv(sys.stdout, index=False, header=number == 0, float_format="%.4f")


def _evaluate(options: argparse.Namespace) -> None:
    from sklearn.metrics import classification_report

    from sklearn_spt import load

    clf, true, predicted = load(options.model), [], []
    for part in _chunks(options, options.file, label=True):
        labels = _labels(options, part)
        part, labels = part[labels.notna()], labels[labels.notna()]
        unknown = set(labels) - set(clf.classes_)
        if unknown:
            raise ValueError(
                f"{options.file}: the label {min(unknown)!r} is no class of the model, which are "
                f"{clf.classes_.tolist()}."
            )
        if len(part):
            predicted += clf.predict(part[options.text].astype(str).tolist()).tolist()
            true += labels.tolist()
    if not true:
        raise ValueError(f"{options.file} has no labelled row.")
    print(classification_report(true, predicted, digits=3, zero_division=0.0))


_COMMANDS = {"fit": _fit, "compare": _compare, "predict": _predict, "evaluate": _evaluate}


# -- options ---------------------------------------------------------------------------------------
def _parser() -> argparse.ArgumentParser:
    style: dict[str, Any] = {
        "epilog": _FILES,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
    about = "Semi-supervised classification of short texts."
    parser = argparse.ArgumentParser(prog="python -m sklearn_spt", description=about, **style)
    parser.add_argument("--version", action="version", version=version("sklearn-spt"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    fit = commands.add_parser("fit", help="fit a classifier and save it in a folder", **style)
    compare = commands.add_parser("compare", help="estimate if unlabelled texts help", **style)
    predict = commands.add_parser("predict", help="print rows with predicted classes", **style)
    evaluate = commands.add_parser("evaluate", help="print the scores of a model", **style)
    for command in (predict, evaluate):
        command.add_argument("model", type=Path, help="folder that `fit` wrote")
    for command in (fit, compare, predict, evaluate):
        command.add_argument("file", help='file of the texts, or "-"')
        command.add_argument("--text", default="text", help="column of the texts (default: text)")
    for command in (fit, compare, evaluate):
        command.add_argument("--label", default="label", help="column of labels (default: label)")
        command.add_argument("--unlabeled-marker", help="a further label of unlabelled rows")
        command.add_argument("--skip-empty", action="store_true", help="leave out empty texts")
    for command in (fit, compare):
        add = command.add_argument
        add("--unlabeled", metavar="FILE", help="more texts, without labels")
        add("--sample", type=int, metavar="N", help="use N random unlabelled rows")
        add("--encoder", help="name or folder of the encoder (default: MiniLM)")
        add("--max-length", type=int, help="number of tokens to which texts are cut")
        add("--teacher", choices=("nets", "embeddings"), help="who labels first")
        add("--lam", type=float, help="λ, the weight of distillation, 0 to 1")
        add("--alpha", type=float, help="α, the inertia of the pseudo-labels, 0 to 1")
        add("--step-size", type=_number, help="growth of the sample: a share, or a number of texts")
        add("--four-students", action="store_true", help="four students of five nets")
        add("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
        add("--threads", type=int, help="number of CPU threads")
        add("--quiet", action="store_true", help="show no progress")
    fit.add_argument("--out", required=True, type=Path, help="new folder for the model")
    fit.add_argument("--checkpoint-dir", help="folder in which a killed fit goes on")
    fit.add_argument("--report", metavar="PAGE.html", help="write a page with doubtful texts")
    compare.add_argument("--folds", type=int, default=5, help="number of folds (default: 5)")
    compare.add_argument("--scoring", choices=("f1", "accuracy"), default="f1", help="the score")
    return parser


def _number(text: str) -> float:
    """Return an int for a number of texts, else a float."""
    return int(text) if text.isdigit() else float(text)


if __name__ == "__main__":
    sys.exit(main())
