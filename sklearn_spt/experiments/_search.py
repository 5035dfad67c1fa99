"""The paper's search for λ and α on the training part of one data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV

from sklearn_spt.experiments._cells import Cell
from sklearn_spt.experiments._methods import methods
from sklearn_spt.experiments._records import SCHEMA
from sklearn_spt.experiments._runner import documents, versions
from sklearn_spt.experiments._split_protocol import Split
from sklearn_spt.model_selection._splitter import SemiSupervisedStratifiedKFold
from sklearn_spt.nets._bert_classifier import BertClassifier


def search(
    cell: Cell,
    split: Split,
    *,
    lams: Sequence[float],
    alphas: Sequence[float],
    n_folds: int = 3,
    n_jobs: int = 1,
    n_threads: int | None = None,
    memory: Path | None = None,
    verbose: int = 1,
) -> dict[str, Any]:
    """Score every pair of λ and α by cross-validation over the labelled texts.

    The unlabelled texts are in every training fold; the test rows are not used. The folder `memory`
    keeps the work that all pairs of a fold share, also for a search that starts again.
    """
    method = methods()[cell.method]
    X = documents(split.texts, split.keywords, cell, method)
    net = BertClassifier(cell.encoder, n_threads=n_threads)
    model = method.build(net, cell.seed).set_params(**cell.params)
    if memory is not None and "memory" not in cell.params:
        model.set_params(memory=str(memory))
    grid = GridSearchCV(
        model,
        {"lam": list(lams), "alpha": list(alphas)},
        scoring="f1" if split.y.max() <= 1 else "f1_macro",
        cv=SemiSupervisedStratifiedKFold(n_folds, shuffle=True, random_state=cell.seed),
        n_jobs=n_jobs,
        refit=False,
        error_score="raise",
        verbose=2 if verbose else 0,
    )
    grid.fit(X, split.y)
    found = grid.cv_results_
    folds = np.array([found[f"split{i}_test_score"] for i in range(n_folds)])
    results = [
        {
            "lam": float(params["lam"]),
            "alpha": float(params["alpha"]),
            "f1_mean": float(folds[:, i].mean()),
            "f1_sd": float(folds[:, i].std(ddof=1)) if n_folds > 1 else None,
            "fit_seconds": float(found["mean_fit_time"][i]),
        }
        for i, params in enumerate(found["params"])
    ]
    best = results[int(folds.mean(axis=0).argmax())]
    return {
        "schema": SCHEMA,
        "cell": cell.as_json(),
        "n_folds": n_folds,
        "n_threads": n_threads,
        "versions": versions(),
        "split": split.facts,
        "best": best,
        "results": results,
    }


def search_file(cell: Cell, lams: Sequence[float], alphas: Sequence[float], n_folds: int) -> str:
    """Name of the file of a search; the underscore marks it as no record of a cell."""
    grid = json.dumps([cell.as_json(), list(lams), list(alphas), n_folds], sort_keys=True)
    digest = hashlib.sha256(grid.encode()).hexdigest()[:10]
    return f"_search-{Path(cell.file_name).stem}-{digest}.json"
