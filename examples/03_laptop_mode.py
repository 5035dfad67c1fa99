"""Laptop mode: embed each text once, then search λ and α with a small head.

Run ``python examples/03_laptop_mode.py``; about a minute on two cores. The pretrained encoder stays
frozen and runs once over all texts. A net with one hidden layer is trained on the embeddings, 76
times. The whole grid costs less than one fit that fine-tunes the encoder. The scores are lower than
with fine-tuning, but you get to know data and parameters quickly.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold


class Head(nn.Module):
    """Embeddings to logits, with one hidden layer."""

    def __init__(self, n_in: int, n_out: int = 2, n_hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(n_hidden, n_out)
        )

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits: no softmax here."""
        return self.layers(X)


def main() -> None:
    """Embed, search, and print the scores as a matrix."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-labeled", type=int, default=150, help="labelled posts (150)")
    parser.add_argument("--n-unlabeled", type=int, default=600, help="unlabelled posts (600)")
    parser.add_argument("--n-test", type=int, default=500, help="test posts (500)")
    parser.add_argument("--folds", type=int, default=3, help="of the cross-validation (3)")
    parser.add_argument("--lam", type=float, nargs="+", default=[0.0, 0.2, 0.4, 0.6, 0.8])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.0, 0.1, 0.3, 0.5, 0.7])
    options = parser.parse_args()

    n_train = options.n_labeled + options.n_unlabeled
    # frozen embeddings hold little of word order, so only a few posts depend on it here
    kind = {"weights": [0.7], "ambiguity": 0.2}
    train = make_short_texts(n_train, **kind, n_labeled=options.n_labeled, random_state=0)
    test = make_short_texts(options.n_test, **kind, random_state=1)
    y = train.target_partial
    start = time.perf_counter()
    embedder = SentenceEmbedder()
    E, E_test = embedder.fit_transform(train.data), embedder.transform(test.data)
    print(f"{len(E) + len(E_test)} posts embedded in {time.perf_counter() - start:.0f} s.\n")

    net = NeuralNetClassifier(
        Head,
        module__n_in=E.shape[1],
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=2e-3,
        batch_size=32,
        verbose=0,
    )
    # the head starts from random weights, so it needs more epochs than a pretrained encoder
    model = SelfPretrainingClassifier(
        net, step_size=0.5, pretrain_epochs=3, finetune_epochs=30, random_state=0
    )
    search = GridSearchCV(
        model,
        {"lam": options.lam, "alpha": options.alpha},
        scoring="f1",
        cv=SemiSupervisedStratifiedKFold(options.folds, shuffle=True, random_state=0),
    )
    start = time.perf_counter()
    search.fit(E, y)
    n_fits = len(options.lam) * len(options.alpha) * options.folds + 1
    print(f"{n_fits} fits in {time.perf_counter() - start:.0f} s. F1 in cross-validation:\n")
    print("  lam \\ alpha" + "".join(f"{alpha:8.1f}" for alpha in options.alpha))
    scores = {
        (params["lam"], params["alpha"]): score
        for params, score in zip(
            search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
        )
    }
    for lam in options.lam:
        print(f"{lam:13.1f}" + "".join(f"{scores[lam, alpha]:8.3f}" for alpha in options.alpha))
    print(f"\nBest: lam={search.best_params_['lam']}, alpha={search.best_params_['alpha']}.")

    labeled = y != -1
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000)
    rivals = {
        "logistic regression on the labelled posts": logistic.fit(E[labeled], y[labeled]),
        "Self-Pretraining, best of the search": search,
    }
    print(f"\n{'F1 on the test posts':44}")
    for name, rival in rivals.items():
        print(f"  {name:42}{f1_score(test.target, np.asarray(rival.predict(E_test))):8.3f}")


if __name__ == "__main__":
    main()
