"""Run cells. Each cell gives one record; the record of a failed cell holds its error."""

from __future__ import annotations

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
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import Pipeline
from sklearn.semi_supervised import SelfTrainingClassifier
from tqdm.auto import tqdm

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._typing import IntArray, TextArray
from sklearn_spt.experiments._cells import Cell
from sklearn_spt.experiments._methods import Method, methods
from sklearn_spt.experiments._peak_memory import PeakMemory
from sklearn_spt.experiments._records import SCHEMA, state_of, write_record
from sklearn_spt.experiments._scores import class_scores, probability_scores
from sklearn_spt.experiments._setfit import SetFitClassifier
from sklearn_spt.experiments._split_protocol import Corpus, Split, draw
from sklearn_spt.nets._bert_classifier import BertClassifier
from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._sentence_embedder import SentenceEmbedder
from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier
from sklearn_spt.self_pretraining._state import Iteration
from sklearn_spt.text._normalization import TweetNormalizer

#: Libraries that a record names with their versions, if they are installed.
LIBRARIES = (
    "scikit-learn",
    "skorch",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "joblib",
    "setfit",
    "sentence-transformers",
)
#: Parameters that a record leaves out: they differ between seeds or machines, or are in the cell.
NOT_RECORDED = ("random_state", "n_threads", "n_jobs", "device", "verbose", "pretrained")


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
    """Run the missing cells with joblib; return how many are done, failed and skipped.

    This process writes each record as soon as its cell is finished, so a killed run loses only the
    cells that were running. Texts are sent to the workers with the cell.
    """
    wanted = {"missing", "failed"} if retry_failed else {"missing"}
    todo = [cell for cell in cells if state_of(folder / cell.file_name) in wanted]
    for method in {cell.method for cell in todo}:
        methods()[method].check_installed()
    # read and draw all data once, so that errors come before the first fit
    for cell in {(cell.dataset, cell.n_labeled, cell.seed): cell for cell in todo}.values():
        draw(corpus_of(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
    folder.mkdir(parents=True, exist_ok=True)  # fails before the first fit, not after it
    counts = {"done": 0, "failed": 0, "skipped": len(cells) - len(todo)}
    if n_threads is None:
        n_threads = max(
            1, joblib.cpu_count() // min(joblib.effective_n_jobs(n_jobs), len(todo) or 1)
        )

    def tasks() -> Iterator[Any]:
        for cell in todo:
            split = draw(corpus_of(cell), cell.n_labeled, cell.n_unlabeled, cell.seed)
            yield joblib.delayed(run_cell)(cell, split, n_threads)

    with tqdm(total=len(todo), unit="cell", disable=not verbose, dynamic_ncols=True) as bar:
        for cell, record in _as_they_come(tasks(), n_jobs):
            write_record(folder / cell.file_name, record)
            counts[record["status"]] += 1
            bar.set_postfix_str(f"{record['status']}: {cell.method}, seed {cell.seed}")
            bar.update()
    return counts


def _as_they_come(tasks: Iterator[Any], n_jobs: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Yield each result as soon as it is there."""
    try:
        yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks)
    except TerminatedWorkerError:
        raise RuntimeError(
            "a worker process was killed, perhaps because memory ran out. Finished cells are kept; "
            "run the same command again with a smaller --n-jobs."
        ) from None


def run_cell(cell: Cell, split: Split, n_threads: int) -> tuple[Cell, dict[str, Any]]:
    """Fit and score one cell; an error becomes part of its record."""
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "cell": cell.as_json(),
        "n_threads": n_threads,
        "versions": versions(),
    }
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = _fit_and_score(cell, split, n_threads)
        found["warnings"] = sorted({str(w.message) for w in caught})
        json.dumps(found, allow_nan=False)  # a NaN is an error of the cell
    except Exception as error:
        trace = traceback.format_exc()
        found = {"type": type(error).__name__, "message": str(error), "traceback": trace}
        return cell, {**record, "status": "failed", "error": found}
    return cell, {**record, "status": "done", "split": split.facts, **found}


def _fit_and_score(cell: Cell, split: Split, n_threads: int) -> dict[str, Any]:
    method = methods()[cell.method]
    net = BertClassifier(cell.encoder, n_threads=n_threads)
    model = method.build(net, cell.seed).set_params(**cell.params)
    X = documents(split.texts, split.keywords, cell, method)
    X_test = documents(split.texts_test, split.keywords_test, cell, method)
    y = split.y
    if not method.semi_supervised:
        X, y = X[y >= 0], y[y >= 0]
    n_classes = len(split.facts["test_counts"])
    used = _parameters_of(model)
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
        **_device_and_precision(model),
    }
    if isinstance(model, SelfPretrainingClassifier):
        out["logit_adjustment"] = float(model.logit_adjustment_)
    if isinstance(model, BaseSemiSupervisedClassifier):
        out["history"] = model.history_
        out["n_iter"] = int(model.n_iter_)
        out["termination_condition"] = str(model.termination_condition_)
    if scorer.scores:
        out["iterations"] = scorer.scores
    return out


def _parameters_of(model: BaseEstimator) -> dict[str, Any]:
    """Return all parameters that affect results; a later release may change a default."""
    return {
        name: value
        for name, value in sorted(model.get_params().items())
        if (value is None or isinstance(value, bool | int | float | str))
        and name.rpartition("__")[2] not in NOT_RECORDED
    }


def documents(texts: TextArray, keywords: TextArray, cell: Cell, method: Method) -> TextArray:
    """Return the input of a method: texts, or two columns of texts and keywords."""
    if cell.normalize:
        texts = np.array(TweetNormalizer().fit_transform(texts.tolist()), dtype=object)
    if not method.keywords:
        return texts
    if not any(keywords) and not (cell.params.get("keywords") or cell.params.get("views")):
        raise ValueError(
            f"{cell.method} needs the keywords of the texts, and {cell.dataset} has none; name "
            "their column with --keyword-column."
        )
    return np.stack([texts, keywords], axis=1)


class _ScoreIterations:
    """Score the ensemble of each iteration on the test rows, and time this apart from the fit."""

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
    """F1 if every text is called positive, 2π / (1 + π); None for more than two classes."""
    if y.max() > 1:
        return None
    share = float((y == 1).mean())
    return 2 * share / (1 + share)


def _device_and_precision(model: BaseEstimator) -> dict[str, str | None]:
    """Return where the net of a fitted model computed; the precision is None without a choice."""
    device, precision = "cpu", None
    net = model[-1] if isinstance(model, Pipeline) else model
    if isinstance(model, Pipeline) and isinstance(model[0], SentenceEmbedder):
        device = resolve_device(model[0].device)
        precision = resolve_precision(model[0].precision, device)
    elif isinstance(net, BaseSemiSupervisedClassifier | VotingClassifier):
        net = net.estimators_[0]
    elif isinstance(net, SelfTrainingClassifier):
        net = net.estimator_
    if isinstance(net, BertClassifier):
        device, precision = net.device_, net.precision_
    elif isinstance(net, SetFitClassifier):
        device = net.device_
    return {"device": device, "precision": precision}


def versions() -> dict[str, str]:
    """Versions of Python, this package and its dependencies."""
    found = {"python": platform.python_version(), "sklearn-spt": version("sklearn-spt")}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["cuda"] = str(torch.version.cuda) if torch.cuda.is_available() else "none"
    return found
