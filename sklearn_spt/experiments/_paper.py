"""The paper's numbers, and the names of its methods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

#: Scores that the paper prints.
METRICS = ("f1", "precision", "recall")

#: The systems of the main table, in the paper's order, by their names here.
SYSTEMS = {
    "baseline": "Baseline",
    "self_training": "Self-training",
    "tri_training": "Tri-training+",
    "mutual_learning": "Mutual-learning",
    "spaced_rep": "Spaced-rep",
    "co_decomp": "Co-Decomp",
    "self_pretraining": "Self-Pretraining",
}
#: The rows of the ablation table, by what is left out.
ABLATIONS = {
    "no_two_stage": "two-stage learning",
    "no_trapezoidal_lr": "trapezoidal lr",
    "no_distillation": "iterative distillation",
    "no_inertia": "inertial transform",
}
#: Our method -> a reading of the paper or of its program that is not the default one.
READINGS = {
    "independent_variance": "variances as the paper prints them",
    "raw_inertia_state": "inertia of the statistics before the transform",
    "kept_optimizer": "the optimiser of stage 1 in stage 2",
    "half_first_sample": "half a step as the first sample",
}
#: Names of the methods in tables and legends, in order.
LABELS = {
    "tfidf_lr": "TF-IDF + logistic regression",
    "embeddings_lr": "frozen embeddings + logistic regression",
    "setfit": "SetFit, class-weighted head",
    "baseline_shuffled": "Baseline, batches not balanced",
    "bert_classifier": "BertClassifier",
    "bert_ensemble": "five BertClassifiers, mean of probabilities",
    "sklearn_self_training": "scikit-learn's SelfTrainingClassifier",
    "self_pretraining_classifier": "SelfPretrainingClassifier",
    **SYSTEMS,
    **{name: f"without {part}" for name, part in ABLATIONS.items()},
    **READINGS,
}

#: Data sets of the paper.
DATASETS = ("adr", "earthquake", "product")
#: Data set and number of labelled texts of all tables but the main one.
ANALYSIS = ("adr", 500)
#: Unlabelled texts of the paper: a step size of 2,000 is a share of 0.2.
N_UNLABELED = 10_000
#: The paper's values of the parameters that it varies.
DEFAULTS = {"step_size": 0.2, "temperature": 3.0, "lam": 0.3, "alpha": 0.1}
#: Table -> the parameter that it varies.
VARIED = {
    "step_size": "step_size",
    "temperature": "temperature",
    "lambda": "lam",
    "alpha": "alpha",
}

Scores = Mapping[str, float]


@cache
def paper_tables() -> dict[str, Any]:
    """Read the numbers of the paper's tables 2 to 7 from ``paper_tables.json``."""
    text = files(__package__).joinpath("paper_tables.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def main_scores() -> dict[tuple[str, int, str], Scores]:
    """Scores of the main table by data set, number of labelled texts and method."""
    names = {theirs: ours for ours, theirs in SYSTEMS.items()}
    return {
        (row["dataset"], row["n_labeled"], names[row["method"]]): _scores(row)
        for row in paper_tables()["main"]
    }


def varied_scores(kind: str) -> dict[float, Scores]:
    """Scores of a table that varies one parameter, by its value; step sizes as shares."""
    divisor = N_UNLABELED if kind == "step_size" else 1
    return {float(row["value"]) / divisor: _scores(row) for row in paper_tables()[kind]}


def ablation_scores() -> dict[str, Scores]:
    """Scores of the ablation table by method, and those of the full method."""
    names = {part: ours for ours, part in ABLATIONS.items()}
    full = {"self_pretraining": main_scores()[(*ANALYSIS, "self_pretraining")]}
    return full | {names[row["value"]]: _scores(row) for row in paper_tables()["ablation"]}


def parameters(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a cell, with the paper's defaults for Self-Pretraining.

    A step size in texts becomes a share, so that 0.2 and 400 of 2,000 texts are the same.
    """
    given = dict(cell.get("params", {}))
    if cell["method"] != "self_pretraining" and cell["method"] not in ABLATIONS:
        return given
    found = {**DEFAULTS, **given}
    if cell["method"] == "no_inertia":
        del found["alpha"]
    step, n = found["step_size"], cell["n_unlabeled"]
    if isinstance(step, int) and n:
        found["step_size"] = min(step / n, 1.0)
    # 3 and 3.0 are the same temperature; a failed cell may hold what is no number
    numbers = ("temperature", "lam", "alpha")
    return {k: float(v) if k in numbers and isinstance(v, int) else v for k, v in found.items()}


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    return {metric: row[metric] for metric in METRICS}
