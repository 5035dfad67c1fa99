"""Students that delete tokens of the unlabelled texts that they learn from."""

from __future__ import annotations

from typing import Any

import torch
from skorch.utils import to_tensor
from torch import Tensor

from sklearn_spt import BertClassifier
from sklearn_spt.nets._encoder import attention_mask
from sklearn_spt.text._pretrained import pad_token_id

#: Share of deleted tokens.
DELETED = 0.2


def with_deletions(ids: Tensor, pad_id: int, share: float) -> Tensor:
    """Delete tokens at random, but for the first and the last of each text."""
    mask = attention_mask(ids, pad_id)
    deleted = mask & (torch.rand(ids.shape) < share)
    deleted[:, 0] = False
    deleted[torch.arange(len(ids)), mask.sum(dim=1) - 1] = False
    order = deleted.to(torch.int8).argsort(dim=1, stable=True)
    kept = ids.masked_fill(deleted, pad_id).gather(1, order)
    return kept[:, : int(attention_mask(kept, pad_id).sum(dim=1).max())]


class Noisy(BertClassifier):
    """A student that learns from noisy texts in stage 1; a subclass says from which."""

    def on_pseudo_labels(self) -> bool:
        """Whether the student is trained on pseudo-labels alone (stage 1)."""
        return self.module_.training and self.criterion_.lam == 1


class Deletion(Noisy):
    """Deletes tokens in stage 1."""

    def infer(self, x: Any, **fit_params: Any) -> Tensor:
        if self.on_pseudo_labels():
            x = with_deletions(to_tensor(x, device="cpu"), pad_token_id(self.reads_with), DELETED)
        return super().infer(x, **fit_params)
