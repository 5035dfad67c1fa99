"""Show a known failure: mutual learning on posts of which 9% are positive.

Run ``python examples/07_mutual_learning_on_rare_positives.py``; one to three minutes on two cores.
In the paper's comparison, mutual learning on 300 tweets with 9% positive ones had an F1 of 0.024:
its nets agreed on the majority class. This program looks for that failure and its cause. Mutual
learning and supervised training see the same posts, with class-balanced batches (the default of
every method here) and with shuffled ones, for a growing number of epochs. A line ends with
"collapsed" if hardly any post is predicted to be positive.

With shuffled batches both collapse, mutual learning no more than supervised training: in a few
hundred steps a net learns little more from them than how rare the class is. Balanced batches cure
both. So look at the batches before you blame the method.

By default a small head is trained on frozen embeddings, which leaves time for three seeds. With
``--fine-tune --epochs 3 --seeds 1`` the encoder is fine-tuned (supervised training is then
`BertClassifier`), which takes ten to twenty minutes.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.baselines import MutualLearningClassifier
from sklearn_spt.datasets import make_short_texts


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


def frozen(train: Any, test: Any) -> tuple[np.ndarray, np.ndarray, NeuralNetClassifier]:
    """Embeddings of both sets, and a net with a small head for them."""
    embedder = SentenceEmbedder()
    start = time.perf_counter()
    E, E_test = embedder.fit_transform(train), embedder.transform(test)
    print(f"{len(E) + len(E_test)} posts embedded in {time.perf_counter() - start:.0f} s.")
    net = NeuralNetClassifier(
        Head,
        module__n_in=E.shape[1],
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=2e-3,
        batch_size=32,
        verbose=0,
    )
    return E, E_test, net


def main() -> None:
    """Fit everything and print what is found of the rare class."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-labeled", type=int, default=300, help="labelled posts (300)")
    parser.add_argument("--n-unlabeled", type=int, default=600, help="unlabelled posts (600)")
    parser.add_argument("--n-test", type=int, default=600, help="test posts (600)")
    parser.add_argument("--positive", type=float, default=0.09, help="share of positives (0.09)")
    parser.add_argument(
        "--epochs", type=int, nargs="+", default=[3, 10, 25], help="over labelled posts (3 10 25)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="fits of each kind (3)")
    parser.add_argument("--fine-tune", action="store_true", help="the encoder too, not a head only")
    options = parser.parse_args()

    n_train = options.n_labeled + options.n_unlabeled
    # frozen embeddings hold little of word order, so only a few posts depend on it here
    kind = {"weights": [1 - options.positive], "ambiguity": 0.2, "flip_y": 0.0}
    train = make_short_texts(n_train, **kind, n_labeled=options.n_labeled, random_state=0)
    test = make_short_texts(options.n_test, **kind, random_state=1)
    X, X_test, net = (
        (train.data, test.data, BertClassifier())
        if options.fine_tune
        else frozen(train.data, test.data)
    )
    share = test.target.mean()
    print(
        f"{share:.0%} of the test posts are positive; to call every post positive gives an F1 of "
        f"{2 * share / (1 + share):.3f}.\n"
    )
    print("epochs  method           batches       F1  precision  recall  called positive  seconds")
    for epochs in options.epochs:
        for balanced in (True, False):
            settings = {"finetune_epochs": epochs, "balanced_batches": balanced}
            models = {
                # without iterations this is supervised training
                "supervised": SelfPretrainingClassifier(net, max_iter=0, **settings),
                "mutual learning": MutualLearningClassifier(net, **settings),
            }
            for name, model in models.items():
                start = time.perf_counter()
                scores = []
                for seed in range(options.seeds):
                    model.set_params(random_state=seed).fit(X, train.target_partial)
                    predicted = model.predict(X_test)
                    precision, recall, f1, _ = precision_recall_fscore_support(
                        test.target, predicted, average="binary", zero_division=0
                    )
                    scores.append((f1, precision, recall, predicted.mean()))
                seconds = (time.perf_counter() - start) / options.seeds
                f1, precision, recall, called = np.mean(scores, axis=0)
                print(
                    f"{epochs:6}  {name:15}  {'balanced' if balanced else 'shuffled'}  "
                    f"{f1:8.3f}{precision:11.3f}{recall:8.3f}{called:17.1%}{seconds:9.1f}"
                    f"{'  <- collapsed' if called < share / 10 else ''}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
