"""The commands ``fit``, ``predict``, ``evaluate`` and ``compare``."""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import warnings
from typing import Any

from sklearn_spt.cli._arguments import parsed
from sklearn_spt.cli._rows import (
    PredictionWriter,
    labels_of,
    parts,
    texts_of,
    training_data,
)
from sklearn_spt.datasets._tables import spell


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit status.

    0: done; 1: data or options that cannot be used, with one line on standard error; 2: a command
    line that cannot be understood; 130: interrupted.
    """
    options = parsed(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # labels may lack from the encoding of a terminal
        sys.stdout.reconfigure(encoding="utf-8")
    name = f"sklearn_spt {options.command}"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _show_warning
        try:
            _COMMANDS[options.command](options)
        except BrokenPipeError:  # the reader, for instance `head`, has closed the pipe
            sys.stdout = None
        except KeyboardInterrupt:
            print(f"{name}: interrupted", file=sys.stderr)
            return 130
        except (ImportError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
            message = " ".join(str(error).split()) or type(error).__name__
            print(f"{name}: {message}", file=sys.stderr)
            return 1
    return 0


def _show_warning(
    message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> None:
    """Print the warnings that are meant for users in one line."""
    if category is UserWarning:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


# -- commands ------------------------------------------------------------------------------------
def _fit(options: argparse.Namespace) -> None:
    from sklearn_spt.inspection import FitReport
    from sklearn_spt.persistence._folder import check_outside

    out = options.out.expanduser()
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise ValueError(f"--out {out} is in use; name a new folder.")
    check_outside(out.resolve())
    try:  # before the training, which would be lost
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise ValueError(f"--out {out} cannot be written: {error}. Name another folder.") from error
    X, y = training_data(options)
    clf = _classifier(options, verbose=int(not options.quiet)).fit(X, y)
    clf.set_params(verbose=0)  # of this command, not of the model
    clf.save(out)
    print(FitReport.from_estimator(clf))


def _compare(options: argparse.Namespace) -> None:
    from sklearn_spt.model_selection import compare_with_supervised

    X, y = training_data(options)
    labels = set(y.tolist()) - {-1}
    given = None if options.positive is None else spell(options.positive)
    positive = [label for label in labels if spell(label) == given]
    if given is not None and not positive:
        raise ValueError(f"--positive {options.positive}: no row has this label.")
    if positive and len(labels) > 2:
        raise ValueError(
            f"--positive {options.positive}: {options.file} has {len(labels)} classes, and the "
            "F1 of all of them counts. Leave it out."
        )
    result = compare_with_supervised(
        _classifier(options),
        X,
        y,
        cv=options.folds,
        pos_label=positive[0] if positive else None,
        random_state=options.seed,
        verbose=int(not options.quiet),
    )
    print(result)


def _predict(options: argparse.Namespace) -> None:
    from sklearn_spt._progress import Progress
    from sklearn_spt.persistence._saving import load

    clf = load(options.model)
    writer = PredictionWriter(options, clf.classes_)
    with Progress(int(not options.quiet), "prediction") as progress:
        for part, text, _ in parts(options, options.file):
            P = clf.predict_proba(texts_of(part, text))
            writer.write(part, clf.classes_[P.argmax(axis=1)], P)
            progress.advance(len(part.rows))


def _evaluate(options: argparse.Namespace) -> None:
    from sklearn.metrics import classification_report

    from sklearn_spt._progress import Progress
    from sklearn_spt.persistence._saving import load

    clf = load(options.model)
    classes = [str(label) for label in clf.classes_.tolist()]
    names = {spell(name): name for name in classes} | {
        spell(label): name for label, name in zip(clf.classes_.tolist(), classes, strict=True)
    }
    names |= {name: name for name in classes}
    true: list[str] = []
    predicted: list[str] = []
    n_rows = 0
    with Progress(int(not options.quiet), "evaluation") as progress:
        for part, text, column in parts(options, options.file, labeled=True):
            labels = labels_of(part, column, options.unlabeled_marker)
            for (line, _), label in zip(part.rows, labels, strict=True):
                if label is not None and label not in names:
                    raise ValueError(
                        f"{part.place(line, str(column))}: the label is no class of the model, "
                        f"which are {', '.join(map(repr, classes))}."
                    )
            rows = [row for row, label in zip(part.rows, labels, strict=True) if label is not None]
            if rows:
                predicted += map(
                    str, clf.predict(texts_of(part._replace(rows=rows), text)).tolist()
                )
            true += [names[label] for label in labels if label is not None]
            n_rows += len(labels)
            progress.advance(len(labels))
    if not true:
        raise ValueError(f"{options.file} has no labelled row.")
    if len(true) < n_rows:
        print(f"rows without a label, which do not count: {n_rows - len(true)}", file=sys.stderr)
    print(classification_report(true, predicted, labels=classes, digits=3, zero_division=0.0))


_COMMANDS = {"fit": _fit, "compare": _compare, "predict": _predict, "evaluate": _evaluate}


def _classifier(options: argparse.Namespace, **params: Any) -> Any:
    """Return the classifier that the options describe."""
    from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier
    from sklearn_spt.self_pretraining._settings import FOUR_STUDENTS

    if options.four_students:
        params |= FOUR_STUDENTS
    given = {name: getattr(options, name) for name in ("lam", "alpha", "step_size")}
    params |= {name: value for name, value in given.items() if value is not None}
    return SelfPretrainingClassifier(options.encoder, random_state=options.seed, **params)
