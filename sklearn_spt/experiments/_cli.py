"""The command line: ``python -m sklearn_spt.experiments run|pack|table|plot|search|list``."""

from __future__ import annotations

import argparse
import functools
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib

from sklearn_spt.experiments._arguments import DEFAULT_FOLDER, make_parser
from sklearn_spt.experiments._cells import Cell, expand, parse_params


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, 1 if cells failed, 2 on bad input."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        return _COMMANDS[options.name](options)
    except BrokenPipeError:  # the reader, for instance `head`, has closed the pipe
        sys.stdout = None
        return 0
    except (OSError, RuntimeError, TypeError, ValueError, ImportError) as error:
        print(f"{parser.prog} {options.name}: {error}", file=sys.stderr)
        return 2


# -- commands -------------------------------------------------------------------------------------
def _run(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._records import read_record, state_of
    from sklearn_spt.experiments._runner import run_cells

    cells = _cells(options)
    corpus_of = _corpus_reader(options)
    paths = [options.out / cell.file_name for cell in cells]
    if options.dry_run:
        for path in paths:
            print(f"{state_of(path):8} {path}")
        return 0
    with _backend(options):
        counts = run_cells(
            cells,
            options.out,
            corpus_of,
            n_jobs=_n_jobs(options),
            n_threads=options.n_threads,
            retry_failed=options.retry_failed,
            verbose=0 if options.quiet else 1,
        )
    broken = [path for path in paths if state_of(path) == "failed"]
    if not options.quiet:
        print(
            f"{counts['done']} cells done, {counts['failed']} failed, {counts['skipped']} were "
            f"there already; records in {options.out}"
        )
    for path in broken:
        error = read_record(path)["error"]
        print(f"failed: {path}: {error['type']}: {error['message']}", file=sys.stderr)
    if len(broken) > counts["failed"]:
        print("cells that failed before were not run again: --retry-failed", file=sys.stderr)
    return 1 if broken else 0


def _pack(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._records import pack_records

    folder = options.folder.resolve()
    out = options.out or folder.with_name(folder.name + ".jsonl")
    print(f"{pack_records(options.folder, out)} records in {out}")
    return 0


def _table(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._formats import render
    from sklearn_spt.experiments._tables import make_table

    table = make_table(
        options.kind,
        _records(options),
        where=parse_params(options.select),
        layout=options.layout,
        against=options.against,
    )
    text = render(table, options.format)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    if options.format == "csv":  # the format has no notes
        print(*table.notes, sep="\n", file=sys.stderr)
    return 0


def _plot(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._plots import make_plot

    records = [] if options.kind == "schedule" else _records(options)
    if not records and options.kind != "schedule":
        raise FileNotFoundError(f"there are no records in {DEFAULT_FOLDER}; name --records.")
    path = make_plot(
        options.kind,
        records,
        options.out,
        where=parse_params(options.select),
        metric=options.metric,
        against=options.against,
    )
    print(path)
    return 0


def _search(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._records import write_record
    from sklearn_spt.experiments._search import search, search_file
    from sklearn_spt.experiments._split_protocol import draw

    varied = [
        name for name in parse_params(options.param) if name.split(".")[-1] in ("lam", "alpha")
    ]
    if varied:
        raise ValueError(f"--param {varied[0]}: search varies it; use --lam and --alpha.")
    corpus_of = _corpus_reader(options)
    with _backend(options):
        for cell in _cells(options):
            split = draw(corpus_of(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
            path = options.out / search_file(cell, options.lam, options.alpha, options.folds)
            # the workers of a cluster may not see this disk
            memory = None if options.scheduler else path.with_suffix(".memory").absolute()
            found = search(
                cell,
                split,
                lams=options.lam,
                alphas=options.alpha,
                n_folds=options.folds,
                n_jobs=_n_jobs(options),
                n_threads=options.n_threads,
                memory=memory,
                verbose=0 if options.quiet else 1,
            )
            write_record(path, found)
            for row in found["results"]:
                print("lam={lam:g} alpha={alpha:g}: F1 {f1_mean:.3f}".format(**row))
            print("best: lam={lam:g}, alpha={alpha:g}, F1 {f1_mean:.3f}".format(**found["best"]))
            if memory is not None:
                shutil.rmtree(memory, ignore_errors=True)
    return 0


def _list(options: argparse.Namespace) -> int:
    from sklearn_spt.experiments._corpora import available, sources
    from sklearn_spt.experiments._methods import GROUPS, methods

    print("data sets (--data)")
    for name, source in sources().items():
        print(f"  {name:36} {source.about}")
        print(f"  {'':36} {available(name, options.data_home)}")
    print("\nmethods (--method)")
    for name, method in methods().items():
        print(f"  {name:28} {method.label}")
    print("\ngroups of methods")
    for name, members in GROUPS.items():
        print(f"  {name:28} {', '.join(members)}")
    return 0


def _records(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Read the records of --records, or of the default folder if it exists."""
    from sklearn_spt.experiments._records import read_records

    if options.records is None and not DEFAULT_FOLDER.is_dir():
        return []
    return read_records(options.records or [DEFAULT_FOLDER])


_COMMANDS = {
    "run": _run,
    "pack": _pack,
    "table": _table,
    "plot": _plot,
    "search": _search,
    "list": _list,
}


# -- helpers of the commands ----------------------------------------------------------------------
def _cells(options: argparse.Namespace) -> list[Cell]:
    from sklearn_spt.experiments._methods import GROUPS, methods

    known = methods()
    names: list[str] = []
    for name in options.method:
        names += GROUPS.get(name, [name])
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"there is no method {wrong[0]!r}; the methods are {', '.join(known)}.")
    return expand(
        datasets=[_name(data) for data in options.data],
        files=_files(options),
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
        n_validation=options.validate,
    )


def _corpus_reader(options: argparse.Namespace) -> Any:
    """Return a function that reads and cuts the data set of a cell; each is read once."""
    from sklearn_spt.experiments._corpora import read
    from sklearn_spt.experiments._split_protocol import cut

    paths = {_name(data): data for data in options.data}

    @functools.cache
    def corpus(dataset: str, n_test: int | None, n_validation: int | None) -> Any:
        bunch = read(
            paths[dataset],
            options.data_home,
            unlabeled_file=options.unlabeled_file,
            **_columns(options),
        )
        return cut(bunch, n_test, n_validation)

    return lambda cell: corpus(cell.dataset, cell.n_test, cell.n_validation)


def _columns(options: argparse.Namespace) -> dict[str, Any]:
    columns = {
        "text": options.text_column,
        "label": options.label_column,
        "keyword": options.keyword_column,
        "positive": options.positive,
    }
    return {name: value for name, value in columns.items() if value is not None}


def _name(data: str) -> str:
    """Name of a data set; the name of a file is without its folder."""
    return Path(data).name if Path(data).is_file() else data


def _files(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return what identifies each file: its checksum and the names of its columns."""
    from sklearn_spt.experiments._corpora import checksums, sources

    more = {} if options.unlabeled_file is None else {"unlabeled": options.unlabeled_file}
    unused = set(_columns(options)) - ({"text"} if more else set())
    known = {name.partition(":")[0] for name in sources()}
    if unused and all(re.split("[:@]", data)[0] in known for data in options.data):
        raise ValueError(
            f"the name of a column or class ({', '.join(sorted(unused))}) is for files of your "
            f"own, and --data {','.join(options.data)} names none."
        )
    files: dict[str, dict[str, Any]] = {}
    for data in options.data:
        own = {"data": data} if Path(data).is_file() else {}
        if own or more:
            columns = _columns(options)
            if not own:  # the other columns are those of the labelled file
                columns = {name: value for name, value in columns.items() if name == "text"}
            if _name(data) in files:
                raise ValueError(f"two of the files are called {_name(data)}; rename one.")
            files[_name(data)] = {**checksums({**own, **more}), **columns}
    return files


def _n_jobs(options: argparse.Namespace) -> int:
    """Return the number of cells at a time; the default is 1, or all workers of a cluster."""
    if options.n_jobs is not None:
        return int(options.n_jobs)
    return 1 if options.scheduler is None else -1


@contextmanager
def _backend(options: argparse.Namespace) -> Iterator[None]:
    """Set joblib's backend: local processes, or a dask cluster."""
    if options.scheduler is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("--scheduler needs dask: pip install sklearn-spt[distributed]") from error
    with Client(options.scheduler) as client, joblib.parallel_config("dask", client=client):
        yield
