"""Use any skorch net: an MLP on a matrix of numbers and a CNN on images.

Run ``python examples/05_own_net.py``; about a minute on two cores. The module of the net has to
return logits, one for each class. The method trains clones of the net with its own loss and
learning-rate schedule. Layers, optimizer, batch size and initial rate are those of the net.

Both tasks come with scikit-learn: tumours described by 30 numbers, 20 of them labelled, and
handwritten digits of 8 x 8 pixels, 50 of them labelled. The rivals are the same net on labelled
rows only, and scikit-learn's methods for unlabelled rows. LabelSpreading is hard to beat on these
digits, because rows of one class are close to each other. Texts of one class are less so.
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
    """Make a plain skorch net, which knows nothing of unlabelled rows."""
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
    title: str, X: np.ndarray, target: np.ndarray, n_labeled: int, net: Any, n: int
) -> None:
    """Hide most labels, fit everything, `n` times; print the mean accuracies on test rows."""
    # These nets start from random weights, not from a pretrained encoder: many more epochs than
    # the defaults, in both stages.
    epochs = net.max_epochs
    ours = SelfPretrainingClassifier(
        net, pretrain_epochs=max(1, epochs // 3), finetune_epochs=epochs
    )
    accuracy: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}

    for seed in range(n):
        rest, test = train_test_split(
            np.arange(len(X)), test_size=0.3, stratify=target, random_state=seed
        )
        unlabeled, labeled = train_test_split(
            rest, test_size=n_labeled, stratify=target[rest], random_state=seed
        )
        rows = np.concatenate([labeled, unlabeled])
        y = np.concatenate([target[labeled], np.full(len(unlabeled), -1)])
        runs: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {
            "the net, on labelled rows alone": (net, X[labeled], target[labeled]),
            "LabelSpreading": (LabelSpreading(kernel="knn"), X[rows].reshape(len(rows), -1), y),
            "SelfTrainingClassifier(net)": (SelfTrainingClassifier(net), X[rows], y),
            "SelfPretrainingClassifier(net)": (ours.set_params(random_state=seed), X[rows], y),
        }
        for name, (model, X_train, y_train) in runs.items():
            if X.ndim > 2 and "SelfTraining" in name:
                continue  # scikit-learn's class takes no images
            torch.manual_seed(seed)  # a plain skorch net draws from torch's global generator
            start = time.perf_counter()
            model.fit(X_train, y_train)
            seconds[name] = seconds.get(name, 0.0) + (time.perf_counter() - start) / n
            X_test = X[test].reshape(len(test), *X_train.shape[1:])
            correct = model.predict(X_test) == target[test]
            accuracy.setdefault(name, []).append(correct.mean())

    print(f"{title}: {n_labeled} labelled, {len(unlabeled)} unlabelled, {len(test)} test rows")
    print(f"{'':34}{'accuracy':>9}{'seconds':>9}")
    for name, values in accuracy.items():
        print(f"{name:34}{np.mean(values):9.3f}{seconds[name]:9.1f}")
    print()


def main() -> None:
    """Both tasks, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="over the labelled rows (30)")
    parser.add_argument("--splits", type=int, default=3, help="random splits to average over (3)")
    options = parser.parse_args()

    tumours, digits = load_breast_cancer(), load_digits()
    X = StandardScaler().fit_transform(tumours.data).astype(np.float32)
    net = make_net(MLP, options.epochs, module__n_in=X.shape[1], module__n_out=2)
    compare("Tumours, MLP", X, tumours.target, 20, net, options.splits)

    images = (digits.images[:, None] / 16).astype(np.float32)  # (n, channels, height, width)
    net = make_net(CNN, options.epochs, module__n_out=10)
    compare("Digits, CNN", images, digits.target, 50, net, options.splits)


if __name__ == "__main__":
    main()
