"""Run cells: each gives one record, a broken one a record with its error, none is run twice."""

from __future__ import annotations

import itertools
import json
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import BaseEstimator
from tqdm.auto import tqdm

from sklearn_spt._typing import IntArray, TextArray
from sklearn_spt.experiments._cells import Cell
from sklearn_spt.experiments._memory import PeakMemory
from sklearn_spt.experiments._methods import Method, methods
from sklearn_spt.experiments._protocol import Corpus, Split, draw
from sklearn_spt.experiments._records import SCHEMA, record_path, state_of, write_record
from sklearn_spt.experiments._scores import class_scores, probability_scores
from sklearn_spt.nets._bert_classifier import BertClassifier
from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.self_pretraining._state import Iteration
from sklearn_spt.text._normalization import TweetNormalizer

LIBRARIES = ("scikit-learn", "skorch", "torch", "transformers", "tokenizers", "numpy", "joblib")
#: Of the rivals, where they are installed.
MORE_LIBRARIES = ("setfit", "sentence-transformers")
#: Parameters that a record leaves out: they differ between seeds or machines. The encoder stands in
#: the cell.
NO_PART_OF_A_RESULT = ("random_state", "n_threads", "n_jobs", "device", "verbose", "pretrained")


def pending(cells: Sequence[Cell], folder: Path, *, retry_failed: bool) -> list[Cell]:
    """Cells that have no record yet, or a broken one that is to be tried again."""
    wanted = {"missing", "failed"} if retry_failed else {"missing"}
    return [cell for cell in cells if state_of(record_path(folder, cell)) in wanted]


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    corpus_of: Callable[[Cell], Corpus],
    *,
    n_jobs: int = 1,
    n_threads: int | None = None,
    retry_failed: bool = False,
    verbose: int = 1,
) -> dict[str, int]:
    """Run the cells that are missing, by joblib and its present backend.

    Each record is written by this process as soon as its cell is finished, so that a killed run
    loses only the cells that it was at.

    Parameters
    ----------
    cells : sequence of Cell
        What is to be there in the end.
    folder : Path
        Where the records lie.
    corpus_of : callable
        Gives the data set of a cell. Texts travel to the workers with the cell, which need no
        access to the files.
    n_jobs : int
        Cells that run at a time, as joblib has it.
    n_threads : int or None
        CPU threads of each cell; results are identical for the same number. None shares the cores.
    retry_failed : bool
        Whether a cell whose record holds an error is run again.
    verbose : int
        0 shows nothing; otherwise a bar of the cells.

    Returns
    -------
    dict
        How many cells are "done", "failed" and "skipped" (there already).

    Raises
    ------
    OSError, ValueError, ImportError
        If data is missing or does not hold what a cell asks for, or a method is not installed;
        then none is run.
    """
    todo = pending(cells, folder, retry_failed=retry_failed)
    for method in {cell.method for cell in todo}:
        methods()[method].check_installed()
    check_data(todo, corpus_of)
    folder.mkdir(parents=True, exist_ok=True)  # or an error before the first fit, not after it
    counts = {"done": 0, "failed": 0, "skipped": len(cells) - len(todo)}
    if n_threads is None:
        n_threads = max(
            1, joblib.cpu_count() // min(joblib.effective_n_jobs(n_jobs), len(todo) or 1)
        )

    def tasks() -> Iterator[Any]:
        for cell in todo:
            split = draw(corpus_of(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
            yield joblib.delayed(run_cell)(cell, split, n_threads)

    bar = tqdm(total=len(todo), unit="cell", disable=not verbose, dynamic_ncols=True)
    with bar:
        for cell, record in _as_they_come(tasks(), n_jobs):
            write_record(record_path(folder, cell), record)
            counts[record["status"]] += 1
            bar.set_postfix_str(f"{record['status']}: {cell.method}, seed {cell.seed}")
            bar.update()
    return counts


def check_data(cells: Sequence[Cell], corpus_of: Callable[[Cell], Corpus]) -> None:
    """Read and draw what the cells need, before anything is run, and keep nothing.

    Raises
    ------
    OSError, ValueError
        If data is missing, or does not hold what a cell asks for.
    """
    drawn: set[tuple[Any, ...]] = set()
    for cell in cells:
        what = (cell.dataset, cell.n_test, cell.n_labeled, cell.n_unlabeled, cell.seed)
        if what not in drawn:
            draw(corpus_of(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
            drawn.add(what)


def _as_they_come(tasks: Iterator[Any], n_jobs: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Run tasks and give each result as soon as it is there, or, where a backend cannot, soon."""
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        try:
            yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks)
        except TerminatedWorkerError:
            raise RuntimeError(
                "a worker process was killed, perhaps for want of memory. What was finished is "
                "kept: run the same command again, with a smaller --n-jobs."
            ) from None
        return
    while batch := list(itertools.islice(tasks, joblib.effective_n_jobs(n_jobs))):
        yield from joblib.Parallel(n_jobs=n_jobs)(batch)


def run_cell(cell: Cell, split: Split, n_threads: int) -> tuple[Cell, dict[str, Any]]:
    """Fit and score one cell; whatever goes wrong becomes part of its record."""
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "status": "done",
        "cell": cell.as_json(),
        "n_threads": n_threads,
        "versions": versions(),
    }
    try:
        record["split"] = split.facts
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            record.update(_fit_and_score(cell, split, n_threads))
        record["warnings"] = sorted({str(w.message) for w in caught})
        json.dumps(record, allow_nan=False)  # a record that is no JSON is a broken cell
    except Exception as error:
        record = {name: record[name] for name in ("schema", "cell", "n_threads", "versions")}
        record["status"] = "failed"
        record["error"] = {
            "type": type(error).__name__,
            "message": str(error),
            "traceback": traceback.format_exc(),
        }
    return cell, record


def _fit_and_score(cell: Cell, split: Split, n_threads: int) -> dict[str, Any]:
    method = methods()[cell.method]
    net = BertClassifier(cell.encoder, n_threads=n_threads)
    model = method.build(net, cell.seed).set_params(**cell.params)
    X, X_test = (
        documents(texts, keywords, cell, method)
        for texts, keywords in (
            (split.texts, split.keywords),
            (split.texts_test, split.keywords_test),
        )
    )
    y = split.y
    if not method.semi_supervised:
        X, y = X[y >= 0], y[y >= 0]
    n_classes = len(split.facts["test_counts"])
    used = parameters_of(model)
    scorer = _ScoreIterations(X_test, split.y_test, n_classes)
    if cell.score_iterations and "on_iteration" in model.get_params(deep=False):
        model.set_params(on_iteration=scorer)
    with joblib.parallel_config(n_jobs=1), PeakMemory() as memory:
        start = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter()
        P = model.predict_proba(X_test)
        predicted = model.classes_[P.argmax(axis=1)]
        done = time.perf_counter()
    out: dict[str, Any] = {
        "parameters": used,
        "scores": {
            **class_scores(split.y_test, predicted, n_classes),
            **probability_scores(split.y_test, P),
        },
        "all_positive_f1": _all_positive_f1(split.y_test),
        "seconds": {"fit": fitted - start - scorer.seconds, "predict": done - fitted},
        "peak_memory_bytes": memory.peak,
        "peak_cuda_memory_bytes": memory.peak_cuda,
        "device": getattr(_net_of(model), "device_", "cpu"),
        "precision": _precision_of(model),
    }
    if hasattr(model, "logit_adjustment_"):
        out["logit_adjustment"] = float(model.logit_adjustment_)
    history = getattr(model, "history_", None)
    if isinstance(history, list) and method.own and method.semi_supervised:
        out["history"] = history
        out["n_iter"] = int(model.n_iter_)
        out["termination_condition"] = str(model.termination_condition_)
    if scorer.scores:
        out["iterations"] = scorer.scores
    return out


def parameters_of(model: BaseEstimator) -> dict[str, Any]:
    """Parameters of a model that bear on its results and can stand in a record.

    A cell names those that were set; the others are defaults, which another release may change.
    """
    return {
        name: value
        for name, value in sorted(model.get_params().items())
        if (value is None or isinstance(value, bool | int | float | str))
        and name.rpartition("__")[2] not in NO_PART_OF_A_RESULT
    }


def documents(texts: TextArray, keywords: TextArray, cell: Cell, method: Method) -> TextArray:
    """Documents as a method takes them: texts, or texts and keywords in two columns."""
    if cell.normalize:
        texts = np.array(TweetNormalizer().fit_transform(texts.tolist()), dtype=object)
    if not method.keywords:
        return texts
    if not any(keywords) and not (cell.params.get("keywords") or cell.params.get("views")):
        raise ValueError(
            f"{cell.method} needs the keywords of the texts, and {cell.dataset} has none; name "
            "their column by --keyword-column."
        )
    return np.stack([texts, keywords], axis=1)


class _ScoreIterations:
    """Scores the ensemble of each iteration on the test rows, beside the fit's own time."""

    def __init__(self, X: Any, y: IntArray, n_classes: int) -> None:
        self.X, self.y, self.n_classes = X, y, n_classes
        self.scores: list[dict[str, Any]] = []
        self.seconds = 0.0

    def __call__(self, iteration: Iteration) -> None:
        start = time.perf_counter()
        predicted = iteration.predict_proba(self.X).argmax(axis=1)
        found = class_scores(self.y, predicted, self.n_classes)
        self.scores.append({"iteration": iteration.number, **found})
        self.seconds += time.perf_counter() - start


def _all_positive_f1(y: IntArray) -> float | None:
    """F1 of calling everything positive, 2π / (1 + π); None for more than two classes."""
    if y.max() > 1:
        return None
    share = float((y == 1).mean())
    return 2 * share / (1 + share)


def _net_of(model: Any) -> Any:
    """Return the net that did the work, if there is one."""
    parts = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    found = [
        net
        for part in parts
        for net in [*getattr(part, "estimators_", []), getattr(part, "estimator_", None), part]
        if hasattr(net, "device_")
    ]
    return found[0] if found else model


def _precision_of(model: Any) -> str | None:
    """Return the precision of the net that did the work; None where none can be chosen."""
    for part in (_net_of(model), *(step for _, step in getattr(model, "steps", []))):
        if hasattr(part, "precision_"):
            return str(part.precision_)
        if hasattr(part, "precision"):
            return resolve_precision(part.precision, resolve_device(part.device))
    return None


def versions() -> dict[str, str]:
    """Versions of Python, this package, and what the numbers depend on."""
    found = {"python": platform.python_version(), "sklearn-spt": version("sklearn-spt")}
    for name in (*LIBRARIES, *MORE_LIBRARIES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["cuda"] = str(torch.version.cuda) if torch.cuda.is_available() else "none"
    return found
