"""Which rows to label next? Five rounds of ten labels, chosen or at random; see PROTOCOL.md.

python next_labels.py --data FOLDER --cache FOLDER
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from embeddings import prepare, soft
from few_labels import TASKS, embeddings, load
from sklearn.cluster import KMeans


def choose(how, rows, P, rng, n=10):
    """Return the positions of n unlabelled rows to label next."""
    if how == "random":
        return rng.choice(len(P), n, replace=False)
    top = np.sort(P, axis=1)[:, -2:]
    order = np.argsort(top[:, 1] - top[:, 0])
    if how == "in doubt":
        return order[:n]
    near = order[: 10 * n]  # in doubt, and spread over the embedding space
    found = KMeans(n, n_init=3, random_state=0).fit(rows.U[near])
    distance = found.transform(rows.U[near])
    return np.array([near[distance[:, c].argmin()] for c in range(n)])


def main():
    """Print the mean accuracy after each round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with short_texts/")
    parser.add_argument("--cache", required=True, help="folder of embeddings")
    options = parser.parse_args()
    results = []
    for task in TASKS:
        texts, codes = load(options.data, task)
        X = embeddings(options.data, task, texts, options.cache).astype(float)
        for seed in (0, 1, 2):
            for how in ("random", "in doubt", "in doubt and spread"):
                rows, y_u, y_v = prepare(X, None, codes, 5, seed, "balanced")
                rng = np.random.default_rng(seed)
                for number in range(6):
                    P_u, P_v = soft(rows)
                    accuracy = float((P_v.argmax(axis=1) == y_v).mean())
                    results.append((task, seed, how, number, accuracy))
                    new = choose(how, rows, P_u, rng)
                    rows.L = np.vstack([rows.L, rows.U[new]])
                    rows.Y = np.vstack([rows.Y, np.eye(rows.K)[y_u[new]]])
                    rows.U, y_u = np.delete(rows.U, new, axis=0), np.delete(y_u, new)
    frame = pd.DataFrame(results, columns=["task", "seed", "how", "round", "accuracy"])
    print(frame.pivot_table("accuracy", "how", "round").round(4).to_string())
    print(frame[frame["round"] == 5].pivot_table("accuracy", "how", "task").round(3).to_string())


if __name__ == "__main__":
    main()
