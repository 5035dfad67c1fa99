"""Self-Pretraining beside supervised fine-tuning, on real tweets where there are some.

Run ``python examples/01_quickstart.py``. Two classifiers see the same 300 labelled texts; the
second one also sees 1,200 texts without a label. Both are scored on 500 further texts, and a table
of F1, precision, recall and seconds is printed. It takes less than five minutes on two cores, much
less on a CPU with bf16 arithmetic, and seconds on a GPU.

The texts are the illness tweets, which this program finds in the data home (``~/sklearn_spt_data``
or the folder that ``SKLEARN_SPT_DATA`` names) or downloads (4 MB). Where neither works it says so
and makes up short posts instead. Near-repetitions are dropped first, so that no test text was seen
in training.
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

PATIENCE = 5  # seconds until the network counts as out of reach


def illness_tweets() -> Any:
    """The illness tweets from this machine, else from the network; OSError if from neither."""
    try:
        return fetch_illness(download_if_missing=False)
    except OSError:
        try:
            urllib.request.urlopen("https://raw.githubusercontent.com", timeout=PATIENCE).close()
        except urllib.error.HTTPError as answer:
            answer.close()  # any answer at all will do
        return fetch_illness()


def texts_and_labels(n_made_up: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Distinct texts and their classes: 1 reports an illness, 0 does not."""
    try:
        bunch = illness_tweets()
        print("Data: illness tweets; the positive ones mention a person with a diagnosis.")
    except OSError:
        bunch = make_short_texts(n_made_up, weights=[0.8], random_state=seed)
        print(
            "Data: made-up short posts, because the illness tweets are neither on this machine "
            "nor within reach."
        )
    words = [
        " ".join(re.findall(r"[^\W\d_]+", re.sub(r"https?://\S+|@\w+", " ", text.lower())))
        for text in bunch.data
    ]
    rows = np.sort(np.unique(words, return_index=True)[1])
    return [bunch.data[row] for row in rows], bunch.target[rows]


def draw(rows: np.ndarray, y: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split `size` rows off, with the share of each class kept: (the rest, the drawn ones)."""
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
