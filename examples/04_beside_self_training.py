"""Compare Self-Pretraining with scikit-learn's SelfTrainingClassifier.

Run ``python examples/04_beside_self_training.py``; three to six minutes on two cores. Both get the
same texts and the same labels, with -1 for the missing ones, and both start with the same
fine-tuned net. scikit-learn's classifier takes arrays and no texts, so `TokenIdVectorizer` turns
the texts into a matrix of token ids, which `BertClassifier` accepts.

The posts are made up. docs/results.md compares the three on real texts.
"""

from __future__ import annotations

import argparse
import time

from sklearn.metrics import brier_score_loss, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer
from sklearn_spt.datasets import make_short_texts


def main() -> None:
    """Fit all three and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-labeled", type=int, default=120, help="labelled posts (120)")
    parser.add_argument("--n-unlabeled", type=int, default=400, help="unlabelled posts (400)")
    parser.add_argument("--n-test", type=int, default=400, help="test posts (400)")
    parser.add_argument("--seed", type=int, default=0, help="of the fits (0)")
    options = parser.parse_args()

    n_train = options.n_labeled + options.n_unlabeled
    train = make_short_texts(n_train, weights=[0.7], n_labeled=options.n_labeled, random_state=0)
    test = make_short_texts(options.n_test, weights=[0.7], random_state=1)

    X, y = train.data, train.target_partial
    labeled = [i for i, label in enumerate(y) if label != -1]
    net = BertClassifier(random_state=options.seed)
    self_training = make_pipeline(TokenIdVectorizer(), SelfTrainingClassifier(net, max_iter=3))
    ours = SelfPretrainingClassifier(random_state=options.seed, verbose=1)
    models = {
        "BertClassifier, labelled posts alone": (net, ([X[i] for i in labeled], y[labeled])),
        "SelfTrainingClassifier": (self_training, (X, y)),
        "SelfPretrainingClassifier": (ours, (X, y)),
    }
    lines = [f"{'':38}{'F1':>7}{'Brier score':>13}{'seconds':>9}"]
    for name, (model, data) in models.items():
        start = time.perf_counter()
        model.fit(*data)
        seconds = time.perf_counter() - start
        positive = model.predict_proba(test.data)[:, 1]
        f1 = f1_score(test.target, model.predict(test.data))
        brier = brier_score_loss(test.target, positive)
        lines.append(f"{name:38}{f1:7.3f}{brier:13.3f}{seconds:9.0f}")
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
