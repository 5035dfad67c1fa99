"""The module of `BertClassifier`: a pretrained encoder and a linear layer, fast on a plain CPU."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any

import numpy as np
import torch
from torch import nn

from sklearn_spt._pretrained import load_encoder, quiet


# -- dropout and attention -------------------------------------------------------------------
def byte_dropout(x: torch.Tensor, p: float) -> torch.Tensor:
    """Apply dropout with `p` rounded to a multiple of 1/256.

    torch draws a number for each element, which takes longer than the matrix products of a small
    encoder. Here one draw of 64 bits gives the masks of eight elements.
    """
    threshold = min(round(256 * p), 255)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw((x.numel() + 7) // 8)
    kept = torch.from_numpy(words.view(np.uint8)[: x.numel()] >= threshold)
    return x * kept.to(x.dtype).mul_(256 / (256 - threshold)).view(x.shape)


class ByteDropout(nn.Dropout):
    """``torch.nn.Dropout``, by `byte_dropout` on a CPU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply dropout in training mode, return the input otherwise."""
        if self.training and 0 < self.p < 1 and input.device.type == "cpu":
            return byte_dropout(input, self.p)
        return super().forward(input)


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend with shapes (n, heads, width, d); torch's own attention, but for dropout on a CPU."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    causal = attention_mask is None and getattr(module, "is_causal", False)
    if dropout == 0 or causal or query.device.type != "cpu" or query.shape != key.shape:
        options: dict[str, Any] = {"dropout": dropout, "scaling": scaling, **kwargs}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (query * scaling) @ key.transpose(2, 3)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(scores.dtype)
    out = byte_dropout(weights, dropout) @ value
    return out.transpose(1, 2).contiguous(), None


@functools.cache
def _register_attention() -> None:
    # here, since transformers takes as long to import as torch, and own nets do not need it
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register("byte_dropout", _attention)
    AttentionMaskInterface.register("byte_dropout", sdpa_mask)


# -- precision -------------------------------------------------------------------------------
def uses_bf16(precision: str, device: torch.device) -> bool:
    """Whether a net computes in bf16; "auto" does where the hardware multiplies such matrices.

    Emulated on a CPU, bf16 is 40 times slower than fp32.
    """
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if device.type != "cpu" or (limit and not limit.endswith(("BF16", "AMX", "FP16", "DEFAULT"))):
        return False
    found: Any = torch.cpu.get_capabilities()
    return bool(found.get("amx_bf16") or found.get("avx512_bf16"))


# -- the module ------------------------------------------------------------------------------
class BertModule(nn.Module):
    """Encoder, dropout and a linear layer: token ids (n, width) to logits (n, n_classes).

    Weights stay in fp32. With an `adapter`, a configuration of peft, only the adapter and the
    linear layer are trained. With a `config` the encoder is built without pretrained weights.
    Without classes there is no linear layer, and nothing is drawn.
    """

    def __init__(
        self,
        pretrained: str,
        n_classes: int,
        pooling: str = "auto",
        dropout: float = 0.1,
        precision: str = "auto",
        adapter: Any = None,
        config: Any = None,
        pad_id: int = 0,
    ) -> None:
        super().__init__()
        if config is None:
            source = load_encoder(pretrained)
            self.pad_id = source.pad_id
            self.pooling = source.pooling if pooling == "auto" else pooling
            if source.causal and self.pooling == "cls":
                raise ValueError(
                    f'pooling="cls" cannot be used with {pretrained!r}: its first token sees no '
                    'other one; use "mean".'
                )
            self.encoder: Any = copy.deepcopy(source.model)
        else:
            from transformers import AutoModel

            self.pad_id, self.pooling = pad_id, pooling
            self.encoder = AutoModel.from_config(config)
        _register_attention()
        self.precision = precision
        if self.pooling == "mean" and getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None  # its weights would never get a gradient
        for parent in list(self.encoder.modules()):
            for name, child in parent.named_children():
                if type(child) is nn.Dropout:
                    setattr(parent, name, ByteDropout(child.p))
        if self.encoder.config._attn_implementation == "sdpa":
            self.encoder.set_attn_implementation("byte_dropout")
        size = self.encoder.config.hidden_size
        self.dropout = ByteDropout(dropout)
        if n_classes:
            self.head = nn.Linear(size, n_classes)
            nn.init.normal_(self.head.weight, std=0.02)  # as in BERT
            nn.init.zeros_(self.head.bias)
        if adapter is not None:
            self.encoder = _adapted(self.encoder, adapter)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Register the attention, in a process that may not have built a module."""
        _register_attention()
        super().__setstate__(state)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Return one vector in fp32 for each row of token ids, (n, hidden_size)."""
        ids = ids.long()
        # True up to the last id that is not padding; a padding id inside a text counts as a token
        columns = torch.arange(ids.shape[1], device=ids.device)
        last = torch.where(ids != self.pad_id, columns, -1).amax(dim=1, keepdim=True)
        mask = columns <= last
        bf16 = uses_bf16(self.precision, ids.device)
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=bf16):
            out = self.encoder(input_ids=ids, attention_mask=mask.long())
        states = out.last_hidden_state
        if self.pooling == "mean":
            weight = mask.unsqueeze(-1).float()
            return (states.float() * weight).sum(dim=1) / weight.sum(dim=1).clamp_min(1.0)
        pooled = getattr(out, "pooler_output", None)
        vectors: torch.Tensor = (states[:, 0] if pooled is None else pooled).float()
        return vectors

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits in fp32."""
        logits: torch.Tensor = self.head(self.dropout(self.embed(ids)))
        return logits


def before_compile(module: Any) -> Any:
    """Return the module that ``torch.compile`` may have wrapped."""
    return getattr(module, "_orig_mod", module)


def _adapted(encoder: nn.Module, adapter: Any) -> nn.Module:
    """Freeze the weights of an encoder and put an adapter of peft into its layers."""
    try:
        from peft import get_peft_model
    except ImportError as error:
        raise ImportError("module__adapter needs the package peft: pip install peft.") from error
    config = copy.deepcopy(adapter)  # peft fills it in
    config.task_type = None  # the head is not peft's
    with quiet():
        adapted: nn.Module = get_peft_model(encoder, config)
    return adapted


#: A look at the driver, which does not start CUDA: that would break forks.
DEFAULT_DEVICE = "cuda" if torch.cuda.device_count() else "cpu"
