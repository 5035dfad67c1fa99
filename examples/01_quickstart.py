"""Compare Self-Pretraining with supervised fine-tuning on real tweets.

Run ``python examples/01_quickstart.py``. Two classifiers learn from the same 300 labelled texts.
The second one also learns from 1,200 unlabelled texts. Both are scored on 500 other texts, and the
program prints a table of F1, precision, recall and seconds. It takes less than five minutes on two
cores, much less on a CPU with bf16 arithmetic, and seconds on a GPU.

The texts are the illness tweets. The program looks for them in the data home
(``~/sklearn_spt_data`` or the folder in ``SKLEARN_SPT_DATA``), else downloads them (4 MB). If
neither works, it says so and makes up short posts. Texts with the same words are dropped first, so
that no test text was seen in training.
"""

from __future__ import annotations

import argparse
import re
import time
import urllib.error
import urllib.request
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import fetch_illness, make_short_texts

PATIENCE = 5  # seconds to wait for the network


def illness_tweets() -> Any:
    """Load the illness tweets from this machine or the network; raise OSError if neither works."""
    try:
        return fetch_illness(download_if_missing=False)
    except OSError:
        try:
            urllib.request.urlopen("https://raw.githubusercontent.com", timeout=PATIENCE).close()
        except urllib.error.HTTPError as answer:
            answer.close()  # any answer shows that the network works
        return fetch_illness()


def texts_and_labels(n_made_up: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Distinct texts and their classes: 1 reports an illness, 0 does not."""
    try:
        bunch = illness_tweets()
        print("Data: illness tweets; the positive ones mention a person with a diagnosis.")
    except OSError:
        bunch = make_short_texts(n_made_up, weights=[0.8], random_state=seed)
        print(
            "Data: made-up short posts, because the illness tweets are not on this machine and "
            "cannot be downloaded."
        )
    words = [
        " ".join(re.findall(r"[^\W\d_]+", re.sub(r"https?://\S+|@\w+", " ", text.lower())))
        for text in bunch.data
    ]
    rows = np.sort(np.unique(words, return_index=True)[1])
    return [bunch.data[row] for row in rows], bunch.target[rows]


def draw(rows: np.ndarray, y: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw `size` rows, stratified by class; return the rest and the drawn rows."""
    rest, drawn = train_test_split(rows, test_size=size, stratify=y[rows], random_state=seed)
    return rest, drawn


def main() -> None:
    """Fit both classifiers and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-labeled", type=int, default=300, help="labelled texts (300)")
    parser.add_argument("--n-unlabeled", type=int, default=1200, help="unlabelled texts (1200)")
    parser.add_argument("--n-test", type=int, default=500, help="test texts (500)")
    parser.add_argument("--iterations", type=int, default=2, help="of Self-Pretraining (2)")
    parser.add_argument("--seed", type=int, default=0, help="of the split and of both fits (0)")
    options = parser.parse_args()

    needed = options.n_labeled + options.n_unlabeled + options.n_test
    texts, target = texts_and_labels(2 * needed, options.seed)
    if len(texts) <= needed:
        parser.error(f"there are {len(texts)} distinct texts, but {needed} are asked for")
    rest, test = draw(np.arange(len(texts)), target, options.n_test, options.seed)
    rest, labeled = draw(rest, target, options.n_labeled, options.seed)
    unlabeled = np.random.default_rng(options.seed).permutation(rest)[: options.n_unlabeled]
    print(
        f"{len(labeled)} labelled, {len(unlabeled)} unlabelled and {len(test)} test texts, "
        f"{target[test].mean():.0%} of them positive.\n"
    )

    X_labeled, y_labeled = [texts[i] for i in labeled], target[labeled]
    # -1 marks the rows without a label
    X = X_labeled + [texts[i] for i in unlabeled]
    y = np.concatenate([y_labeled, np.full(len(unlabeled), -1)])
    X_test = [texts[i] for i in test]

    models = {
        "BertClassifier (supervised)": (
            BertClassifier(random_state=options.seed, verbose=1),
            (X_labeled, y_labeled),
        ),
        "SelfPretrainingClassifier": (
            SelfPretrainingClassifier(
                step_size=1 / options.iterations, random_state=options.seed, verbose=1
            ),
            (X, y),
        ),
    }
    lines = [f"{'':28}{'F1':>7}{'precision':>12}{'recall':>9}{'seconds':>10}"]
    for name, (model, data) in models.items():
        start = time.perf_counter()
        model.fit(*data)
        seconds = time.perf_counter() - start
        precision, recall, f1, _ = precision_recall_fscore_support(
            target[test], model.predict(X_test), average="binary", zero_division=0
        )
        lines.append(f"{name:28}{f1:7.3f}{precision:12.3f}{recall:9.3f}{seconds:10.0f}")
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
