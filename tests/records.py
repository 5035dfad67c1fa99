"""Invented records of experiments, in the form in which the runner writes them."""

from __future__ import annotations

from typing import Any

from sklearn_spt.datasets import make_short_texts
from sklearn_spt.experiments._cells import Cell
from sklearn_spt.experiments._split_protocol import cut


def record(
    method: str = "self_pretraining",
    seed: int = 0,
    f1: float = 0.6,
    *,
    status: str = "done",
    params: dict[str, Any] | None = None,
    classes: tuple[str, ...] = ("0", "1"),
    n_iter: int = 2,
    **cell: Any,
) -> dict[str, Any]:
    """One record; what is not given is the same in all of them."""
    found: dict[str, Any] = {
        "schema": 1,
        "status": status,
        "cell": {
            "dataset": "illness",
            "method": method,
            "n_labeled": 300,
            "n_unlabeled": 2000,
            "n_test": 1000,
            "seed": seed,
            "params": params or {},
            "encoder": "all-MiniLM-L6-v2",
            "normalize": True,
            "score_iterations": True,
            "protocol": 1,
            **cell,
        },
    }
    if status == "failed":
        error = {"type": "ValueError", "message": "the loss became nan\nin epoch 2"}
        return {**found, "error": error}
    scores = {"f1": f1, "precision": f1 - 0.1, "recall": f1 + 0.1}
    found["scores"] = {**scores, "accuracy": f1 + 0.2, "macro_f1": f1 + 0.05}
    found["scores"] |= {"brier": 0.2 - f1 / 10, "ece": 0.1 - f1 / 10}
    found["all_positive_f1"] = 0.294
    found["history"] = history(classes, n_iter, shift=seed)
    found["iterations"] = [
        {"iteration": t, **scores, "f1": f1 - 0.1 * (n_iter - t)} for t in range(n_iter + 1)
    ]
    return found


def history(
    classes: tuple[Any, ...] = ("0", "1"), n_iter: int = 2, shift: int = 0
) -> list[dict[str, Any]]:
    """A history of Self-Pretraining: 400 texts more in each iteration, 10 of 40 per class."""
    entries: list[dict[str, Any]] = [
        {"iteration": 0, "sample_size": 0, "loss": {"supervised": [0.7, 0.6, 0.5]}}
    ]
    for t in range(1, n_iter + 1):
        n = 400 * t
        counts = dict.fromkeys(classes, n // 10 + shift)
        counts[classes[0]] += n - sum(counts.values())
        groups = {
            label: {"count": counts[label], "mean": 0.9 - 0.1 * i, "variance": 0.01}
            for i, label in enumerate(classes)
        }
        after = {label: {**group, "mean": group["mean"] - 0.05} for label, group in groups.items()}
        entries.append(
            {
                "iteration": t,
                "sample_size": n,
                "pseudo_label_counts": counts,
                "groups_before": groups,
                "groups_after": after,
                "loss": {"stage1": [0.4], "stage2": [0.3, 0.2, 0.1]},
                "seconds": {"stage1": 1.0},
            }
        )
    return entries


def rows_of(table):
    """The rows of a table as dicts by the columns' keys."""
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, row, strict=True)) for row in table.rows]


def row_of(table, **wanted):
    """The only row of a table with the given values."""
    rows = rows_of(table)
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


def small_cell(encoder, **changes):
    """A cell of a baseline on few made-up texts."""
    given = {
        "dataset": "made up",
        "method": "baseline",
        "n_labeled": 40,
        "n_unlabeled": 60,
        "n_test": 80,
        "seed": 0,
        "encoder": encoder,
    }
    return Cell(**{**given, **changes})


def made_up_corpus(cell):
    """The made-up data set of `small_cell`, cut."""
    return cut(make_short_texts(400, random_state=0), cell.n_test)
