"""Frozen vectors of two encoders, and the tables of parts ten to fourteen of PROTOCOL.md.

    python start.py frozen --data FOLDER --out start.jsonl [--encoder FOLDER/all-mpnet-base-v2]
    python start.py table start.jsonl --arm pool

Results that are there are not computed again.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from few_labels import TASKS, embeddings, finished, load, record, score

from sklearn_spt import SoftSelfTrainingClassifier
from sklearn_spt._pretrained import DEFAULT_ENCODER


def frozen(options):
    """Score classifiers of vectors: a pool of each task has 300 rows to score them, and others."""
    done, k = finished(options.out), options.k
    encoder = "default" if options.encoder == DEFAULT_ENCODER else "mpnet"
    methods = {"logistic regression": {"max_iter": 0}, "soft self-training": {}}
    if k == 10:
        methods |= {f"soft self-training, C={C:g}": {"C": C} for C in (3.0, 30.0)}
    for task in options.tasks.split(","):
        X, codes = load(options.data, task)
        n = codes.max() + 1
        rows = np.random.default_rng(0).permutation(len(codes))[: 300 + max(1000, 20 * n)]
        cache, codes = options.out.with_suffix(".cache"), codes[rows]
        F = embeddings(cache, f"{task}.{encoder}", X[rows], options.encoder)
        for seed, (method, how) in product(options.seeds, methods.items()):
            key = (task, f"{method}, {encoder}", k, seed, "pool")
            if key not in done and (k < 30 or task != "banking77"):
                order = np.random.default_rng([seed, 1]).permutation(np.arange(300, len(rows)))
                labeled = np.concatenate([order[codes[order] == c][:k] for c in range(n)])
                y = np.where(np.isin(np.arange(len(rows)), labeled), codes, -1)
                clf = SoftSelfTrainingClassifier(**how).fit(F[300:], y[300:])
                on_U = clf.score(F[300:][y[300:] < 0], codes[300:][y[300:] < 0])
                found = {"part": "valid", "unlabeled": round(on_U, 4)}
                record(options.out, key, found | score(clf, F[:300], codes[:300], n))


def table(options):
    """Print means over draws by task, of the draws that all methods have."""
    R = pd.concat([pd.read_json(file, lines=True) for file in options.files])
    R = R[(R["part"] == "valid") & (R["arm"] == options.arm) & (R["k"] == options.k)]
    if options.methods:
        R = R[R["method"].isin(wanted := options.methods.split("|"))]
        R = R.groupby(["task", "seed"]).filter(lambda g: g["method"].nunique() == len(wanted))
    for name in options.scores.split(","):
        by_task = R.pivot_table(name, "method", "task", sort=False)
        by_task = by_task[[task for task in TASKS if task in by_task]]
        by_task["mean"] = by_task.mean(axis=1, skipna=False)
        by_task["n"] = R.groupby("method").size()
        print(f"\n{name}, k={options.k}, {options.arm}\n\n{by_task.round(3).to_string()}")


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("frozen").add_argument
    add("--data", required=True, help="folder with short_texts/")
    add("--out", type=Path, required=True, help="file of results")
    add("--encoder", default=DEFAULT_ENCODER)
    add("--tasks", default=",".join(TASKS))
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--k", type=int, default=10, help="labels per class")
    add = commands.add_parser("table").add_argument
    add("files", nargs="+")
    add("--arm", default="balanced")
    add("--k", type=int, default=10)
    add("--methods", help="names between bars; all by default")
    add("--scores", default="accuracy,log_loss")
    options = parser.parse_args()
    globals()[options.command](options)


if __name__ == "__main__":
    main()
