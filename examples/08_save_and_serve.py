"""
Save, load and serve
====================

Save a classifier, load it elsewhere, and serve one of its nets with another library.

Run ``python examples/08_save_and_serve.py``; about a minute on one core. ``save`` keeps all, and
``load`` gives equal probabilities without the encoder. ``export`` writes the last student alone,
here for sentence-transformers: a third of the size and of the time. ``--seeds 3`` shows, on three
samples of posts, what that does to F1.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer
from sklearn.metrics import f1_score

import sklearn_spt
from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts


def megabytes(folder: Path) -> float:
    """Size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Save, load and serve a classifier.")
    parser.add_argument("--n-labeled", type=int, default=100, help="labelled posts (100)")
    parser.add_argument("--n-unlabeled", type=int, default=300, help="unlabelled posts (300)")
    parser.add_argument("--n-test", type=int, default=500, help="test posts (500)")
    parser.add_argument("--seeds", type=int, default=1, help="repetitions (1)")
    # in a notebook, the arguments are those of its kernel
    options = parser.parse_args([] if "ipykernel" in sys.modules else None)

    n_train = options.n_labeled + options.n_unlabeled
    gains = []
    for seed in range(options.seeds):
        kind = {"weights": [0.7]}
        train = make_short_texts(n_train, **kind, n_labeled=options.n_labeled, random_state=seed)
        test = make_short_texts(options.n_test, **kind, random_state=1000 + seed)
        # the default encoder was trained with the mean of its token states
        net = BertClassifier(pooling="mean")
        clf = SelfPretrainingClassifier(net, step_size=0.5, random_state=seed)
        clf.fit(train.data, train.target_partial)

        with tempfile.TemporaryDirectory() as folder:
            saved, exported = Path(folder) / "saved", Path(folder) / "exported"
            clf.save(saved)
            clf.export(exported)
            sizes = megabytes(saved), megabytes(exported)
            loaded = sklearn_spt.load(saved)  # in another program, on another machine
            served = SentenceTransformer(str(exported), device="cpu")

        start = time.perf_counter()
        P = loaded.predict_proba(test.data)
        middle = time.perf_counter()
        logits = served.encode(list(test.data), show_progress_bar=False)
        seconds = middle - start, time.perf_counter() - middle
        equal = np.array_equal(P, clf.predict_proba(test.data))
        print(f"Posts of seed {seed}. Loaded, its probabilities are equal bit by bit: {equal}.")
        print(f"{'':30}{'F1':>6}{'MB':>8}{'seconds':>10}")
        scores = [f1_score(test.target, scores.argmax(axis=1)) for scores in (P, logits)]
        for name, *row in zip(
            (f"saved, {len(loaded.estimators_)} nets", "exported, the last student"),
            *(scores, sizes, seconds),
            strict=True,
        ):
            print("{:30}{:6.3f}{:8.0f}{:10.1f}".format(name, *row))
        gains.append(scores[1] - scores[0])
    error = f", from {min(gains):+.3f} to {max(gains):+.3f}" if len(gains) > 1 else ""
    print(f"\nF1 of the exported student minus F1 of the ensemble: {np.mean(gains):+.3f}{error}.")


if __name__ == "__main__":
    main()
