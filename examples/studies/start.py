"""Two encoders, frozen and fine-tuned, and the tables of parts ten to twenty-one of PROTOCOL.md.

    python start.py frozen --data FOLDER --out start.jsonl [--encoder FOLDER/all-mpnet-base-v2]
    python start.py tuned --data FOLDER --out start.jsonl [--encoder FOLDER/all-mpnet-base-v2]
    python start.py table start.jsonl --arm pool

Results that are there are not computed again.
"""

from __future__ import annotations

import argparse
from itertools import product
from time import process_time

import numpy as np
import pandas as pd
from few_labels import TASKS, add_options, embeddings, finished, fit, load, record, score

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, SoftSelfTrainingClassifier
from sklearn_spt._pretrained import DEFAULT_ENCODER


def run(options):
    """Score classifiers on pools: each task has 300 rows to score them, and others."""
    done, k, tuned = finished(options.out), options.k, options.command == "tuned"
    encoder = "default" if options.encoder == DEFAULT_ENCODER else "mpnet"
    soft, net, S = SoftSelfTrainingClassifier, options.encoder, SelfPretrainingClassifier
    methods = {"logistic regression": soft(max_iter=0), "soft self-training": soft()}
    if tuned:
        methods = {"one net": BertClassifier(net), "defaults": S(net)}
        methods["five nets"] = S(net, n_teachers=5, max_iter=0, finetune_epochs=None)
        methods |= {} if encoder == "default" else {"student of defaults": S(teacher=S(net))}
    for task in options.tasks.split(","):
        X, codes = load(options.data, task)
        n = codes.max() + 1
        rows = np.random.default_rng(0).permutation(len(codes))[: 300 + max(1000, 20 * n)]
        cache, codes = options.out.with_suffix(".cache"), codes[rows]
        F = X[rows] if tuned else embeddings(cache, f"{task}.{encoder}", X[rows], options.encoder)
        for seed, (method, clf) in product(options.seeds, methods.items()):
            key = (task, f"{method}, {encoder}", k, seed, "pool")
            if key not in done and (k < 30 or task != "banking77"):
                order = np.random.default_rng([seed, 1]).permutation(np.arange(300, len(rows)))
                labeled = np.concatenate([order[codes[order] == c][:k] for c in range(n)])
                others, start = np.setdiff1d(order, labeled), process_time()
                model = fit(clf, F, codes, labeled, others, seed)
                found = {"part": "valid", "seconds": round(process_time() - start, 1)}
                record(options.out, key, found | score(model, F[:300], codes[:300], n))


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
    for name in ("frozen", "tuned"):
        add_options(add := commands.add_parser(name).add_argument)
        add("--encoder", default=DEFAULT_ENCODER)
    add = commands.add_parser("table").add_argument
    add("files", nargs="+")
    add("--arm", default="balanced")
    add("--k", type=int, default=10)
    add("--methods", help="names between bars; all by default")
    add("--scores", default="accuracy,log_loss")
    options = parser.parse_args()
    (table if options.command == "table" else run)(options)


if __name__ == "__main__":
    main()
