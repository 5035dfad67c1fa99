"""The arguments of ``python -m sklearn_spt``."""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path

from sklearn_spt.datasets._parts import STANDARD_INPUT
from sklearn_spt.datasets._tables import FORMATS

_FILES = """\
Files are CSV, TSV, JSON lines or parquet, as their name ends, and may be compressed by gzip. A row
without a label, or with the label -1, is unlabelled. "-" is standard input and needs --format.
"""


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line; end the program with status 2 if it cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="python -m sklearn_spt",
        description="Semi-supervised classification of short texts.",
        epilog=_FILES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=version("sklearn-spt"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=_FILES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    fit = command("fit", "fit a classifier, save it in a folder, and print a report")
    _add_training(fit)
    fit.add_argument("--out", required=True, type=Path, help="new folder for the model")

    compare = command("compare", "estimate whether the unlabelled texts help on these data")
    _add_training(compare)
    compare.add_argument("--folds", type=int, default=5, help="number of folds (default: 5)")
    compare.add_argument(
        "--positive", metavar="LABEL", help="class of two whose F1 counts (default: the last)"
    )

    predict = command("predict", "print the rows of a file with their predicted classes")
    evaluate = command("evaluate", "print the scores of a model on the labelled rows of a file")
    for parser_of_model in (predict, evaluate):
        parser_of_model.add_argument("model", type=Path, help="folder that `fit` wrote")
        _add_file(parser_of_model, "file", "the texts", labels=parser_of_model is evaluate)

    options = parser.parse_args(arguments)
    n_streams = [options.file, options.unlabeled].count(STANDARD_INPUT)
    if n_streams and options.format is None:
        parser.error(f"standard input has no name: add --format {{{','.join(FORMATS)}}}")
    if n_streams > 1:
        parser.error("standard input can be one of the files, not both")
    return options


def _add_training(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the commands that fit."""
    _add_file(parser, "file", "the texts with their labels", labels=True)
    parser.add_argument("--unlabeled", metavar="FILE", help="more texts, whose labels do not count")
    # without a default here, those of the classifier count
    parser.add_argument("--encoder", help="name or folder of the encoder (default: MiniLM)")
    parser.add_argument("--lam", type=float, help="weight of the teacher's opinion, 0 to 1")
    parser.add_argument("--alpha", type=float, help="inertia of the pseudo-labels, 0 to 1")
    parser.add_argument(
        "--step-size",
        type=_number,
        help="growth of the sample: a share such as 0.5 or 1/3, or a number of texts",
    )
    parser.add_argument(
        "--four-students",
        action="store_true",
        help="four students of five nets, which rank better and take about three times as long",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all draws (default: 0)")


def _add_file(parser: argparse.ArgumentParser, name: str, about: str, *, labels: bool) -> None:
    """Add a file and what says how it is read."""
    parser.add_argument(name, help=f'file of {about}, or "-"')
    column = "name of the column, or its position from 1"
    parser.add_argument("--text", default="text", help=f"{column} (default: text)")
    if labels:
        parser.add_argument("--label", default="label", help=f"{column} (default: label)")
        parser.add_argument(
            "--unlabeled-marker",
            metavar="LABEL",
            help="a further label of rows without one, such as NA, besides -1 and nan",
        )
    parser.add_argument(
        "--no-header", action="store_true", help="the first line of a CSV or TSV is a row"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="format, if the name does not say it; of standard input, if that is read",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(unlabeled=None)


def _number(text: str) -> float:
    """Return an int for a number of texts, else a float, also of a fraction."""
    try:
        return int(text)
    except ValueError:
        above, of, below = text.partition("/")
    try:
        return float(above) / int(below) if of else float(above)
    except (ValueError, ArithmeticError):
        message = f"must be a number, or a fraction such as 1/3, got {text!r}"
        raise argparse.ArgumentTypeError(message) from None
