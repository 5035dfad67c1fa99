"""Small nets that several test modules share."""

from __future__ import annotations

import torch
from skorch import NeuralNetClassifier
from torch import nn


class MLP(nn.Module):
    """Two linear layers; returns logits."""

    def __init__(self, n_in: int = 2, n_classes: int = 2, n_hidden: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(n_in, n_hidden)
        self.last = nn.Linear(n_hidden, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x.float())))


class SoftmaxMLP(MLP):
    """Returns probabilities, which no method here accepts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(super().forward(x), dim=1)


class NaNMLP(MLP):
    """Returns NaN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * float("nan")


def mlp_net(module=MLP, **params):
    """A skorch net over a small MLP, with skorch's noisy default of verbose=1."""
    settings = {"lr": 0.1, "batch_size": 8, "optimizer": torch.optim.SGD, **params}
    return NeuralNetClassifier(module, **settings)
