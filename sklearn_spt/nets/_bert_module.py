"""The module of `BertClassifier`: an encoder and a linear layer."""

from __future__ import annotations

import torch
from torch import nn

from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.nets._kernels import Dropout

#: Standard deviation of the head's initial weights, as in BERT.
_HEAD_STD = 0.02


class BertModule(nn.Module):
    """Encoder, dropout and a linear layer: token ids (n, width) to logits (n, n_classes).

    The encoder is built on `device`. The linear layer is drawn on the CPU, with the same numbers
    for every device.
    """

    def __init__(
        self,
        pretrained: str,
        n_classes: int,
        pooling: str = "auto",
        dropout: float = 0.1,
        precision: str = "fp32",
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self.encoder = Encoder(pretrained, pooling=pooling, precision=precision, device=device)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(self.encoder.size, n_classes)
        nn.init.normal_(self.head.weight, std=_HEAD_STD)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits in fp32."""
        logits: torch.Tensor = self.head(self.dropout(self.encoder(ids)))
        return logits
