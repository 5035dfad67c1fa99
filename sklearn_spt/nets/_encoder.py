"""A pretrained encoder that turns token ids into one vector for each text."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sklearn_spt._validation import check_option
from sklearn_spt.nets._casts import with_half_weights
from sklearn_spt.nets._kernels import (
    attention_backends,
    packing_of,
    replace_dropout,
    use_attention,
)
from sklearn_spt.text._pretrained import default_pooling, load_encoder, pad_token_id

POOLINGS = ("auto", "mean", "cls")


def attention_mask(ids: torch.Tensor, pad_id: int) -> torch.Tensor:
    """Return a mask of shape (n, width): True up to the last id that is not padding."""
    # a padding id inside a text was written by its author, and counts as a token
    positions = torch.arange(ids.shape[1], device=ids.device)
    last = torch.where(ids != pad_id, positions, -1).amax(dim=1, keepdim=True)
    return positions <= last


def mean_over_tokens(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Average token states of shape (n, width, d) where the mask is True."""
    weight = mask.to(states.dtype).unsqueeze(-1)
    return (states * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1.0)


class Encoder(nn.Module):
    """Turn token ids of shape (n, width) into vectors of shape (n, d)."""

    def __init__(
        self,
        pretrained: str,
        pooling: str = "auto",
        precision: str = "fp32",
        device: str = "cpu",
    ) -> None:
        super().__init__()
        check_option(pooling, "pooling", POOLINGS)
        self.pooling = default_pooling(pretrained) if pooling == "auto" else pooling
        self.precision = precision
        self.pad_id = pad_token_id(pretrained)
        # transformers chooses fused attention if the architecture supports it
        model: Any = load_encoder(pretrained, device)
        self.size = int(model.config.hidden_size)
        if self.pooling == "mean" and getattr(model, "pooler", None) is not None:
            model.pooler = None  # its weights would never get a gradient
        replace_dropout(model)
        use_attention(model)
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Encode token ids; the result is fp32 whatever the precision."""
        ids = ids.long()
        mask = attention_mask(ids, self.pad_id)
        bf16 = self.precision == "bf16"
        with (
            torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=bf16),
            attention_backends(ids.device),
        ):
            states, pooled = self.states(ids, mask)
            if self.pooling == "mean":
                return mean_over_tokens(states.float(), mask)
            vectors = states[:, 0] if pooled is None else pooled
        return vectors.float()

    def states(
        self, ids: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the last states, (n, width, d), and the pooler's output, if any."""
        found = packing_of(self.model, ids, mask)
        if found is None:
            row = {"input_ids": ids, "attention_mask": mask.long()}
            on_cuda = ids.device.type == "cuda"
            cast = on_cuda and self.training and self.precision == "bf16"
            out = with_half_weights(self.model, row) if cast else self.model(**row)
            return out.last_hidden_state, getattr(out, "pooler_output", None)
        packing, positions = found
        row = {"input_ids": ids, "position_ids": positions}
        row = {name: packing.packed(x).unsqueeze(0) for name, x in row.items()}
        out = self.model(**row, attention_mask=None, packing=packing)
        states = packing.padded(out.last_hidden_state[0])
        pooler = getattr(self.model, "pooler", None)  # the model itself pooled the first text only
        return states, None if pooler is None else pooler(states)
