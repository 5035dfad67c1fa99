"""Any skorch net will do: an MLP on a matrix of numbers and a CNN on images.

Run ``python examples/05_own_net.py``; about half a minute on two cores. The method asks one thing
of a net: that its module returns logits, one for each class. It then trains clones of the net with
its own loss and learning rate; everything else (layers, optimiser, batch size, rate) is yours.

Both tasks come with scikit-learn: tumours described by 30 numbers, 20 of them labelled, and
handwritten digits of 8 x 8 pixels, 50 of them labelled. The rivals are the same net on the labelled
rows alone, and scikit-learn's two ways to learn from unlabelled rows.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier


class MLP(nn.Module):
    """One hidden layer, for a matrix of numbers."""

    def __init__(self, n_in: int, n_out: int, n_hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(n_hidden, n_out)
        )

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (n, n_out)."""
        return self.layers(X)


class CNN(nn.Module):
    """Two convolutions, for images of 8 x 8 pixels."""

    def __init__(self, n_out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 8, kernel_size=3, padding=1), nn.ReLU()),
            *(nn.Conv2d(8, 16, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(16 * 4 * 4, n_out)),
        )

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (n, n_out)."""
        return self.layers(X)


def make_net(module: type[nn.Module], epochs: int, **params: Any) -> NeuralNetClassifier:
    """A plain skorch net; nothing in it knows of unlabelled rows."""
    return NeuralNetClassifier(
        module,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=2e-3,
        batch_size=32,
        max_epochs=epochs,
        train_split=None,
        verbose=0,
        **params,
    )


def compare(
    title: str, X: np.ndarray, target: np.ndarray, n_labeled: int, net: Any, seed: int
) -> None:
    """Hide most labels, fit everything, print a table of test accuracies."""
    X, X_test, target, y_test = train_test_split(
        X, target, test_size=0.3, stratify=target, random_state=seed
    )
    labeled, _ = train_test_split(
        np.arange(len(target)), train_size=n_labeled, stratify=target, random_state=seed
    )
    y = np.full(len(target), -1)
    y[labeled] = target[labeled]
    print(f"{title}: {n_labeled} labelled, {len(y) - n_labeled} unlabelled rows, {len(y_test)} test")
    print(f"{'':38}{'accuracy':>9}{'seconds':>9}")

    def show(name: str, model: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> None:
        torch.manual_seed(seed)  # skorch itself draws from torch's global generator
        start = time.perf_counter()
        accuracy = np.mean(model.fit(X, y).predict(X_test) == y_test)
        print(f"{name:38}{accuracy:9.3f}{time.perf_counter() - start:9.1f}")

    flat, flat_test = X.reshape(len(X), -1), X_test.reshape(len(X_test), -1)
    show("the net, on labelled rows alone", net, X[labeled], y[labeled], X_test)
    if X.ndim == 2:
        show("SelfTrainingClassifier(net)", SelfTrainingClassifier(net), X, y, X_test)
    else:
        print(f"{'SelfTrainingClassifier(net)':38}{'takes no images':>18}")
    show("LabelSpreading", LabelSpreading(kernel="knn"), flat, y, flat_test)
    # These nets start from random weights, not from a pretrained encoder: many more epochs than
    # the defaults, in both stages.
    model = SelfPretrainingClassifier(
        net, pretrain_epochs=10, finetune_epochs=net.max_epochs, random_state=seed
    )
    show("SelfPretrainingClassifier(net)", model, X, y, X_test)
    print()


def main() -> None:
    """Both tasks, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="over the labelled rows (30)")
    parser.add_argument("--seed", type=int, default=0, help="of the splits and of the nets (0)")
    options = parser.parse_args()

    tumours, digits = load_breast_cancer(), load_digits()
    X = StandardScaler().fit_transform(tumours.data).astype(np.float32)
    net = make_net(MLP, options.epochs, module__n_in=X.shape[1], module__n_out=2)
    compare("Tumours, MLP", X, tumours.target, 20, net, options.seed)

    images = (digits.images[:, None] / 16).astype(np.float32)  # (n, channels, height, width)
    net = make_net(CNN, options.epochs, module__n_out=10)
    compare("Digits, CNN", images, digits.target, 50, net, options.seed)


if __name__ == "__main__":
    main()
