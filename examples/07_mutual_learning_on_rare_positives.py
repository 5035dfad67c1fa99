"""Where a method fails: mutual learning on posts of which few are positive.

Run ``python examples/07_mutual_learning_on_rare_positives.py``.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from sklearn_spt import BertClassifier
from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.datasets import make_short_texts


def main() -> None:
    """Fit four classifiers and print what they find of the rare class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-labeled", type=int, default=200, help="labelled posts (200)")
    parser.add_argument("--n-unlabeled", type=int, default=400, help="unlabelled posts (400)")
    parser.add_argument("--n-test", type=int, default=400, help="test posts (400)")
    parser.add_argument("--positive", type=float, default=0.09, help="share of positives (0.09)")
    parser.add_argument("--ambiguity", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=3, help="passes over labelled posts (3)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    n_train = options.n_labeled + options.n_unlabeled
    kind = {"weights": [1 - options.positive], "flip_y": 0.0, "ambiguity": options.ambiguity}
    train = make_short_texts(n_train, **kind, n_labeled=options.n_labeled, random_state=0)
    test = make_short_texts(options.n_test, **kind, random_state=1)
    labeled = train.target_partial >= 0
    for name in ("supervised", "mutual"):
        for balanced in (True, False):
            start = time.perf_counter()
            if name == "supervised":
                model = BertClassifier(
                    max_epochs=options.epochs, balanced_batches=balanced, random_state=options.seed
                ).fit(train.data[labeled], train.target[labeled])
            else:
                model = MutualLearningClassifier(
                    finetune_epochs=options.epochs,
                    balanced_batches=balanced,
                    random_state=options.seed,
                ).fit(train.data, train.target_partial)
            seconds = time.perf_counter() - start
            p = model.predict_proba(test.data)[:, 1]
            predicted = p >= 0.5
            precision, recall, f1, _ = precision_recall_fscore_support(
                test.target, predicted, average="binary", zero_division=0
            )
            from sklearn.metrics import roc_auc_score
            print(name, balanced, f"F1 {f1:.3f} P {precision:.3f} R {recall:.3f} share {predicted.mean():.3f} meanp {p.mean():.3f} max {p.max():.2f} auc {roc_auc_score(test.target, p):.3f} {seconds:.0f}s", flush=True)
            if name == "mutual":
                for r in model.history_[1:]:
                    print("    ", {k: np.round(v, 4).tolist() for k, v in r["loss"].items()}, r.get("pseudo_label_counts"))


if __name__ == "__main__":
    main()
