"""The arguments of the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from sklearn_spt.inspection._grouping import CALIBRATION, SCORE_NAMES
from sklearn_spt.text._locations import DEFAULT_ENCODER

DEFAULT_FOLDER = Path("experiments")
PAPER_TABLES = ("main", "step_size", "temperature", "lambda", "alpha", "ablation")
TABLES = (*PAPER_TABLES, "rivals", "ranks", "choices")
FORMATS = ("markdown", "csv", "latex")
PLOTS = ("iterations", "schedule", "pseudo_labels", "learning_curve", "gains", "ranks", "choices")


def _integers(text: str) -> list[int]:
    """Read ``0,1,2`` or ``0-2``."""
    values: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            found = range(int(first), int(last) + 1) if dash else [int(first)]
            if not found:
                raise ValueError(part)
            values += found
    except ValueError:
        values = []
    if not values:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 0,1,2 or 0-2")
    return values


def _number_or_all(text: str) -> int | None:
    return None if text == "all" else _positive_number(text)


def _positive_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _floats(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 0.1,0.2") from None


def _words(text: str) -> list[str]:
    words = [word for word in text.split(",") if word]
    if not words:
        raise argparse.ArgumentTypeError("a name is needed")
    return words


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; ``name`` is the command."""
    parser = argparse.ArgumentParser(
        prog="sklearn_spt.experiments",
        description="Compare semi-supervised methods: the paper's tables and figures, on any data.",
    )
    add = parser.add_subparsers(dest="name", required=True, metavar="command")

    run = add.add_parser(
        "run",
        help="run cells: data set x method x number of labelled texts x seed",
        description=(
            "Each cell becomes one JSON file. A stopped run continues where it was; finished cells "
            "are not run again. A failed cell is recorded with its error, and the others go on."
        ),
    )
    run.add_argument(
        "--method",
        type=_words,
        default=["paper"],
        help="names with commas between, 'paper' (the default), 'ablations' or 'rivals'",
    )
    _add_grid(run)
    run.add_argument("--score-iterations", action="store_true", help="score each iteration too")
    run.add_argument(
        "--validate",
        type=_positive_number,
        metavar="N",
        help="score N of the training rows instead of the test rows, to choose parameters",
    )
    run.add_argument("--retry-failed", action="store_true", help="run failed cells again")
    run.add_argument("--dry-run", action="store_true", help="list the cells and their state")
    run.add_argument("--quiet", action="store_true", help="print nothing but errors")

    pack = add.add_parser(
        "pack",
        help="join the records of a folder into one file of JSON lines",
        description="The file is read like the folder: --records FILE.",
    )
    pack.add_argument("folder", type=Path, help="folder of the records")
    pack.add_argument("--out", type=Path, help="the file; default FOLDER.jsonl")

    table = add.add_parser(
        "table",
        help="print a table of the paper beside our numbers, or one of rivals or parameters",
    )
    table.add_argument("kind", choices=TABLES)
    _add_records(table)
    table.add_argument("--format", choices=FORMATS, default="markdown")
    table.add_argument("--layout", choices=("long", "wide"), default="long")
    table.add_argument(
        "--against",
        metavar="METHOD",
        help="for 'rivals' and 'ranks': method to compare the others with; default baseline",
    )
    table.add_argument("--out", type=Path, help="file to write; default: print")

    plot = add.add_parser("plot", help="draw a figure from the records")
    plot.add_argument("kind", choices=PLOTS)
    _add_records(plot)
    plot.add_argument("--out", type=Path, required=True, help="PNG, SVG or PDF file")
    metrics = (*SCORE_NAMES, *CALIBRATION)
    plot.add_argument(
        "--metric", choices=metrics, help="default f1; brier and ece for 'gains' only"
    )
    plot.add_argument("--against", metavar="METHOD", help="for 'gains', 'ranks'; default baseline")

    search = add.add_parser(
        "search",
        help="search λ and α by cross-validation, as the paper did",
        description=(
            "GridSearchCV over the labelled texts of one data set. The unlabelled texts are in "
            "every training fold; the test rows are not used."
        ),
    )
    search.set_defaults(score_iterations=False, method=["self_pretraining"], validate=None)
    _add_grid(search)
    grid = [0.1, 0.2, 0.3, 0.4, 0.5]
    search.add_argument("--lam", type=_floats, default=grid, help="values of λ")
    search.add_argument("--alpha", type=_floats, default=grid, help="values of α")
    search.add_argument("--folds", type=int, default=3, help="folds; default 3")
    search.add_argument("--quiet", action="store_true", help="print only the results")

    listing = add.add_parser("list", help="list data sets and methods")
    listing.add_argument("--data-home", help="folder of the data sets")
    return parser


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help=f"folders or packed files of the records; default {DEFAULT_FOLDER}, if it exists",
    )
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="NAME=VALUE,...",
        help="only cells with this attribute or parameter, as n_labeled=300 or lam=0.3",
    )


def _add_grid(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=_words, default=["illness"], help="names or files, with commas between")
    add("--n-labeled", type=_integers, default=[300], metavar="N,...", help="default 300")
    add("--seeds", type=_integers, default=[0, 1, 2], metavar="N,...", help="default 0,1,2")
    add(
        "--n-unlabeled",
        type=_number_or_all,
        default=10_000,
        metavar="N|all",
        help="unlabelled texts; default 10000, the paper's",
    )
    add(
        "--n-test",
        type=_number_or_all,
        default=2_000,
        metavar="N|all",
        help="test rows, drawn by class; 'all' takes a released test part; default 2000",
    )
    add(
        "--param",
        action="append",
        default=[],
        metavar="[METHOD.]NAME=VALUE,...",
        help="parameter of the methods that have it; several values make several cells",
    )
    add("--encoder", default=DEFAULT_ENCODER, help="name or path of the pretrained encoder")
    add("--raw-texts", action="store_true", help="do not prepare the texts as the authors did")
    add("--out", type=Path, default=DEFAULT_FOLDER, help="folder of the records")
    add("--data-home", help="folder of the data sets; default SKLEARN_SPT_DATA")
    add("--n-jobs", type=int, help="cells at a time; default 1, on a cluster all workers")
    add("--n-threads", type=_positive_number, help="CPU threads of a cell; default: shared cores")
    add("--scheduler", metavar="ADDRESS", help="run the cells on a dask cluster")
    add("--text-column", help="of a file: column of the texts (default 'text')")
    add("--label-column", help="of a file: column of the labels (default 'label')")
    add("--keyword-column", help="of a file: column of the keywords")
    add("--unlabeled-file", help="file with more texts, without labels, in the same column")
    add("--positive", help="of a file: the label of the positive class; others are negative")
