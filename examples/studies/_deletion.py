"""Students that delete tokens of the unlabelled texts that they learn from."""

from __future__ import annotations

from typing import Any

import torch
from skorch.utils import to_tensor
from torch import Tensor

from sklearn_spt import BertClassifier
from sklearn_spt.text._encoding import inner_tokens, sequence_lengths, without_tokens
from sklearn_spt.text._pretrained import pad_token_id

#: Share of deleted tokens.
DELETED = 0.2


def with_deletions(ids: Tensor, pad_id: int, share: float) -> Tensor:
    """Delete tokens at random, but for the first and the last of each text."""
    # not `with_deletions` of the library: the records were made with numbers of torch
    deleted = inner_tokens(ids.numpy(), pad_id) & (torch.rand(ids.shape) < share).numpy()
    left = without_tokens(ids.numpy(), deleted, pad_id)
    return torch.from_numpy(left[:, : sequence_lengths(left, pad_id).max()])


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
