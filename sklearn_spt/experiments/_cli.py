"""The command line: ``python -m sklearn_spt.experiments run|table|plot|search|list``."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import joblib

from sklearn_spt._locations import DEFAULT_ENCODER
from sklearn_spt.experiments._cells import Cell, expand, parse_params

DEFAULT_FOLDER = Path("experiments")
TABLES = ("main", "step_size", "temperature", "lambda", "alpha", "ablation")
FORMATS = ("markdown", "csv", "latex", "text")
METRICS = ("f1", "precision", "recall", "accuracy", "macro_f1")
PLOTS = ("iterations", "schedule", "pseudo_labels", "learning_curve")
_GROUPS = {"paper": "PAPER_METHODS", "ablations": "ABLATIONS"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, 1 if cells failed, 2 on bad input."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.command(options))
    except BrokenPipeError:  # the reader, `head` for instance, has seen enough
        sys.stdout = None
        return 0
    except (OSError, ValueError, ImportError) as error:
        print(f"{parser.prog} {options.name}: {error}", file=sys.stderr)
        return 2


# -- commands -------------------------------------------------------------------------------------
def _run(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._records import read_record, record_path, state_of
    from sklearn_spt.experiments._runner import run_cells

    cells = _cells(options)
    if options.dry_run:
        for cell in cells:
            path = record_path(options.out, cell)
            print(f"{state_of(path):8} {path}")
        return 0
    with _backend(options):
        counts = run_cells(
            cells,
            options.out,
            _corpus_reader(options),
            n_jobs=_n_jobs(options),
            n_threads=options.n_threads,
            retry_failed=options.retry_failed,
            verbose=0 if options.quiet else 1,
        )
    paths = [record_path(options.out, cell) for cell in cells]
    broken = [path for path in paths if state_of(path) == "failed"]
    if not options.quiet:
        print(
            f"{counts['done']} cells done, {counts['failed']} failed, {counts['skipped']} were "
            f"there already; records in {options.out}"
        )
    for path in broken:
        error = read_record(path)["error"]
        print(f"failed: {path}: {error['type']}: {error['message']}", file=sys.stderr)
    return 1 if broken else 0


def _table(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._formats import render
    from sklearn_spt.experiments._records import read_records
    from sklearn_spt.experiments._tables import make_table

    table = make_table(
        options.kind,
        read_records(options.records),
        where=parse_params(options.select),
        layout=options.layout,
    )
    text = render(table, options.format)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")
    if options.format == "csv":  # which has no room for them
        print(*table.notes, sep="\n", file=sys.stderr)
    return 0


def _plot(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._plots import make_plot
    from sklearn_spt.experiments._records import read_records

    records = [] if options.kind == "schedule" else read_records(options.records)
    chosen = {"by": options.by, "metric": options.metric, "lr": options.lr}
    path = make_plot(
        options.kind,
        records,
        options.out,
        where=parse_params(options.select),
        share=options.share,
        **{name: value for name, value in chosen.items() if value is not None},
    )
    print(path)
    return 0


def _search(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._protocol import draw
    from sklearn_spt.experiments._records import write_record
    from sklearn_spt.experiments._search import search

    corpus_of = _corpus_reader(options)
    with _backend(options):
        for cell in _cells(options):
            split = draw(corpus_of(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
            found = search(
                cell,
                split,
                lams=options.lam,
                alphas=options.alpha,
                n_folds=options.folds,
                n_jobs=_n_jobs(options),
                n_threads=options.n_threads,
                verbose=0 if options.quiet else 1,
            )
            # the underscore keeps it apart from the records of cells
            write_record(options.out / f"_search-{cell.file_name}", found)
            for row in found["results"]:
                print("lam={lam:g} alpha={alpha:g}: F1 {f1_mean:.3f}".format(**row))
            print("best: lam={lam:g}, alpha={alpha:g}, F1 {f1_mean:.3f}".format(**found["best"]))
    return 0


def _list(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._corpora import available, sources
    from sklearn_spt.experiments._methods import methods

    print("data sets (--data)")
    for name, source in sources().items():
        print(f"  {name:36} {source.about}")
        print(f"  {'':36} {available(name, options.data_home)}")
    print("\nmethods (--method; 'paper' is the first seven, 'ablations' the next four)")
    for name, method in methods().items():
        print(f"  {name:22} {method.label}")
        if options.params:
            print(f"  {'':22}   {', '.join(method.parameters) or 'no parameters'}")
    return 0


# -- what commands share --------------------------------------------------------------------------
def _cells(options: argparse.Namespace) -> list[Cell]:
    from sklearn_spt.experiments import _methods

    known = _methods.methods()
    names: list[str] = []
    for name in options.method:
        names += getattr(_methods, _GROUPS[name]) if name in _GROUPS else [name]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"there is no method {wrong[0]!r}; the methods are {', '.join(known)}.")
    return expand(
        datasets=options.data,
        methods=names,
        n_labeled=options.n_labeled,
        seeds=options.seeds,
        params=parse_params(options.param),
        method_params={name: known[name].parameters for name in names},
        n_unlabeled=options.n_unlabeled,
        n_test=options.n_test,
        encoder=options.encoder,
        normalize=not options.raw_texts,
        score_iterations=options.score_iterations,
    )


def _corpus_reader(options: argparse.Namespace) -> Any:
    """Return a function that reads and cuts the data set of a cell, once for each."""
    from sklearn_spt.experiments._corpora import read
    from sklearn_spt.experiments._protocol import cut

    columns = {
        "text": options.text_column,
        "label": options.label_column,
        "keyword": options.keyword_column,
        "positive": options.positive,
    }
    given = {name: value for name, value in columns.items() if value is not None}

    @functools.cache
    def corpus(dataset: str, n_test: int | None) -> Any:
        return cut(read(dataset, options.data_home, **given), n_test)

    return lambda cell: corpus(cell.dataset, cell.n_test)


def _n_jobs(options: argparse.Namespace) -> int:
    """Cells at a time: one here, or all that a cluster can take."""
    if options.n_jobs is not None:
        return int(options.n_jobs)
    return 1 if options.scheduler is None else -1


@contextmanager
def _backend(options: argparse.Namespace) -> Iterator[None]:
    """Joblib's backend for the cells: processes here, another one by name, or a dask cluster."""
    if options.scheduler is None:
        with joblib.parallel_config(options.backend) if options.backend else nullcontext():
            yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("--scheduler needs dask: pip install sklearn-spt[distributed]") from error
    with Client(options.scheduler) as client, joblib.parallel_config("dask", client=client):
        yield


# -- arguments ------------------------------------------------------------------------------------
def _integers(text: str) -> list[int]:
    """Read ``0,1,2`` or ``0-2``."""
    values: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        values += range(int(first), int(last) + 1) if dash else [int(first)]
    return values


def _number_or_all(text: str) -> int | None:
    if text == "all":
        return None
    if int(text) < 1:
        raise argparse.ArgumentTypeError("must be at least 1, or 'all'")
    return int(text)


def _floats(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sklearn_spt.experiments",
        description="Compare semi-supervised methods: the paper's tables and figures, on any data.",
    )
    commands = parser.add_subparsers(dest="name", required=True, metavar="command")

    run = commands.add_parser(
        "run",
        help="run cells: data set x method x number of labelled texts x seed",
        description=(
            "Each cell becomes one JSON file. A run that was stopped goes on where it was; a "
            "finished cell is never run again; a broken one is recorded with its error, and the "
            "others go on."
        ),
    )
    run.set_defaults(command=_run)
    run.add_argument(
        "--method",
        type=_words,
        default=["paper"],
        help="names with commas between, 'paper' (the default) or 'ablations'",
    )
    _add_grid(run)
    run.add_argument("--score-iterations", action="store_true", help="score each iteration too")
    run.add_argument("--retry-failed", action="store_true", help="run broken cells again")
    run.add_argument("--dry-run", action="store_true", help="list the cells and their state")
    run.add_argument("--quiet", action="store_true", help="print nothing but errors")

    table = commands.add_parser("table", help="print a table of the paper, with ours beside it")
    table.set_defaults(command=_table)
    table.add_argument("kind", choices=TABLES)
    _add_records(table)
    table.add_argument("--format", choices=FORMATS, default="markdown")
    table.add_argument("--layout", choices=("long", "wide"), default="long")
    table.add_argument("--out", type=Path, help="file to write; default: print")

    plot = commands.add_parser("plot", help="draw a figure from the records")
    plot.set_defaults(command=_plot)
    plot.add_argument("kind", choices=PLOTS)
    _add_records(plot)
    plot.add_argument("--out", type=Path, required=True, help="PNG, SVG or PDF file")
    plot.add_argument("--by", help="attribute or parameter that tells the curves apart")
    plot.add_argument("--metric", choices=METRICS, help="default f1")
    plot.add_argument("--share", action="store_true", help="pseudo-labels as shares, not counts")
    plot.add_argument("--lr", type=float, help="initial rate of the schedule; default 1")

    search = commands.add_parser(
        "search",
        help="search λ and α by cross-validation, as the paper did",
        description=(
            "GridSearchCV over the labelled texts of one data set; the unlabelled ones are in "
            "every training part, the test rows are not looked at."
        ),
    )
    search.set_defaults(command=_search, score_iterations=False, method=["self_pretraining"])
    _add_grid(search)
    grid = [0.1, 0.2, 0.3, 0.4, 0.5]
    search.add_argument("--lam", type=_floats, default=grid, help="values of λ")
    search.add_argument("--alpha", type=_floats, default=grid, help="values of α")
    search.add_argument("--folds", type=int, default=3, help="folds; default 3")
    search.add_argument("--quiet", action="store_true", help="print only the results")

    listing = commands.add_parser("list", help="list data sets and methods")
    listing.set_defaults(command=_list)
    listing.add_argument("--data-home", help="folder of the data sets")
    listing.add_argument("--params", action="store_true", help="list parameters too")
    return parser


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--records",
        type=Path,
        nargs="+",
        default=[DEFAULT_FOLDER],
        metavar="FOLDER",
        help="folders of the records",
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
        help="test rows, drawn by class; 'all' for a released test part; default 2000",
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
    add("--n-jobs", type=int, help="cells at a time; default 1, on a cluster all of it")
    add("--n-threads", type=int, help="CPU threads of a cell; default: the cores, shared")
    add("--backend", help="backend of joblib; default loky, processes on this machine")
    add("--scheduler", metavar="ADDRESS", help="run the cells on a dask cluster")
    add("--text-column", help="of a file: column of the texts (default 'text')")
    add("--label-column", help="of a file: column of the labels (default 'label')")
    add("--keyword-column", help="of a file: column of the keywords")
    add("--positive", help="of a file: the label of the positive class; others are negative")
