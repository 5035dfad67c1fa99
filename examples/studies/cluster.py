"""What a search costs on a cluster: the bytes that are sent, and the seconds by number of workers.

    OMP_NUM_THREADS=1 python examples/studies/cluster.py

Workers are processes with one thread. The cost model: seconds of a fit, times fits of a worker.
"""

from __future__ import annotations

import pickle
from time import perf_counter

import joblib
import numpy as np
import torch
from distributed import Client, LocalCluster
from sklearn.model_selection import GridSearchCV

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

CLF = SelfPretrainingClassifier(step_size=1.0, finetune_epochs=1, refit_head=False, random_state=0)
GRID = {"lam": np.linspace(0, 1, 20)}
FOLDS = SemiSupervisedStratifiedKFold(5)


def sizes():
    """Print the sizes of what a fit with 10,000 texts of 100 characters reads."""
    letters = np.random.default_rng(0).choice(list("abcdefgh "), (10_000, 100))
    texts, y = ["".join(row) for row in letters], np.arange(10_000) % 2
    fold = next(FOLDS.split(texts, y))
    parts = {"classifier": CLF, "texts": texts, "labels": y, "one fold": fold}
    for name, part in parts.items():
        print(f"| {name} | {len(pickle.dumps(part)):,} bytes |", flush=True)


def search():
    """Return the seconds of a search of 100 fits, the mean of its fits, and its scores."""
    bunch = make_short_texts(60, n_labeled=20, random_state=0)
    y = np.asarray(bunch.target_partial)
    found = GridSearchCV(CLF, GRID, cv=FOLDS, scoring="neg_log_loss", refit=False, n_jobs=-1)
    start = perf_counter()
    found.fit(np.array(bunch.data, dtype=object), y)
    seconds = perf_counter() - start
    return seconds, found.cv_results_["mean_fit_time"].mean(), found.cv_results_["mean_test_score"]


def main():
    """Measure, and print both tables."""
    sizes()
    torch.set_num_threads(1)
    with joblib.parallel_config("sequential"):
        one, fit, scores = search()
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with cluster, Client(cluster), joblib.parallel_config("dask"):
        two, of_two, same = search()
    print("| workers | seconds | by the cost model |\n| ---: | ---: | ---: |")
    print(f"| 1 | {one:.0f} | {100 * fit:.0f} |\n| 2 | {two:.0f} | {50 * of_two:.0f} |")
    print(f"| 100 | | {fit:.1f} |\nlargest difference of a score: {abs(scores - same).max()}")


if __name__ == "__main__":
    main()
