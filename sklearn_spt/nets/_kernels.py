"""Fast kernels of the encoder beside their plain twins, and the choice between the two.

Besides matrix products, a small encoder on a CPU spends most of its time on dropout: torch draws
one Bernoulli number for each element. Here one 64-bit draw gives the mask bytes of eight elements.
Its plain twin is torch's own function, which runs on a GPU and in evaluation. `plain` turns a fast
path off, also those of other modules, to measure it or to compare results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sklearn_spt.nets._device import is_asynchronous
from sklearn_spt.nets._packing import Packing, may_be_packed, positions

#: Name of `attention` among the attention functions of transformers.
ATTENTION = "sklearn_spt"

_LEVELS = 256
#: Names of the fast paths that have a plain twin.
FAST = ("attention", "casts", "dropout", "losses", "packing", "resident")

_PLAIN: ContextVar[tuple[str, ...]] = ContextVar("sklearn_spt_plain", default=())


# -- the choice ----------------------------------------------------------------------------------
@contextmanager
def plain(*names: str) -> Iterator[None]:
    """Use the plain twins of the named fast paths inside the block, or of all without a name."""
    if unknown := set(names) - set(FAST):
        raise ValueError(f"{sorted(unknown)} have no plain twins; names must be among {FAST}.")
    token = _PLAIN.set(names or FAST)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def is_plain(name: str) -> bool:
    """Whether `plain` turned a fast path off."""
    return name in _PLAIN.get()


def _is_fast_dropout(x: torch.Tensor, p: float) -> bool:
    return x.device.type == "cpu" and 0 < p < 1


# -- dropout -------------------------------------------------------------------------------------
def byte_dropout(x: torch.Tensor, p: float) -> torch.Tensor:
    """Apply dropout with `p` rounded to a multiple of 1/256, such as 26/256 = 0.1016 for 0.1."""
    threshold = min(round(p * _LEVELS), _LEVELS - 1)
    if threshold == 0:
        return x
    return x * _dropout_factors(x.numel(), threshold, x.dtype).view(x.shape)


def _dropout_factors(n: int, threshold: int, dtype: torch.dtype) -> torch.Tensor:
    """Draw `n` factors, each 0 or the scale; numpy does each step with vector instructions."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # SFC64 draws 8 bytes in the time that torch's generator needs for 4
    words = np.random.SFC64(seed).random_raw((n + 7) // 8)
    kept = words.view(np.uint8)[:n] >= threshold
    scale = _LEVELS / (_LEVELS - threshold)
    if dtype is torch.float32:
        return torch.from_numpy(np.multiply(kept, np.float32(scale), dtype=np.float32))
    if dtype in (torch.bfloat16, torch.float16):  # numpy has no bfloat16, but can copy its bits
        bits = int(torch.tensor(scale, dtype=dtype).view(torch.int16))
        return torch.from_numpy(np.multiply(kept, np.int16(bits), dtype=np.int16)).view(dtype)
    return torch.from_numpy(kept).to(dtype).mul_(scale)


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Apply dropout by the fastest method for the device of `x`."""
    if not training or p == 0.0:
        return x
    if _is_fast_dropout(x, p) and not is_plain("dropout"):
        return byte_dropout(x, p)
    return nn.functional.dropout(x, p, training=True)


class Dropout(nn.Dropout):
    """``torch.nn.Dropout`` with the fast masks of `byte_dropout` on a CPU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply dropout in training mode, return the input otherwise."""
        return dropout(input, self.p, self.training)


def replace_dropout(module: nn.Module) -> None:
    """Replace every ``torch.nn.Dropout`` inside `module` by `Dropout`, in place."""
    for name, child in module.named_children():
        if type(child) is nn.Dropout:
            setattr(module, name, Dropout(child.p).train(child.training))
        else:
            replace_dropout(child)


# -- attention -----------------------------------------------------------------------------------
def attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packing: Packing | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention for the attention interface of transformers.

    On a CPU torch's fused attention has no dropout, and the dropout of its unfused path takes
    longer than both matrix products. Texts are short, so the full matrix of scores is small and
    costs little. In all other cases torch's own function runs.

    `query`, `key` and `value` have shape (n, heads, width, d), or (1, heads, n_tokens, d) with
    `packing`; the result has `heads` as its third dimension.
    """
    if packing is not None:
        rows = packing.by_head(query.shape[1])
        q, k, v = (rows.padded(x) for x in (query, key, value))
        seen = packing.mask[:, None, None, :]
        if dropout == 0:
            q, k, v = (x.view(len(seen), -1, *x.shape[1:]) for x in (q, k, v))
            fused = nn.functional.scaled_dot_product_attention
            return rows.packed(fused(q, k, v, seen, scale=scaling).flatten(0, 1)), None
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        return rows.packed(_attended(q, k, v, seen, dropout, scale)), None
    causal = kwargs.get("is_causal")
    if causal is None:  # the same default as in transformers, which applies it without a mask
        causal = getattr(module, "is_causal", True)
    usual = (
        query.shape == key.shape == value.shape
        and not (causal and attention_mask is None)
        and kwargs.get("position_bias") is None
    )
    if not (usual and _is_fast_dropout(query, dropout)) or is_plain("attention"):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    n, heads, width, d = query.shape
    q, k, v = (x.reshape(n * heads, width, d) for x in (query, key, value))
    scale = d**-0.5 if scaling is None else scaling
    out = _attended(q, k, v, attention_mask, dropout, scale).view(n, heads, width, d)
    return out.transpose(1, 2).contiguous(), None


def _attended(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    seen: torch.Tensor | None,
    p: float,
    scale: float,
) -> torch.Tensor:
    """Attend with q, k, v of shape (n * heads, width, d); `seen` is (n, 1, 1 or width, width)."""
    if seen is None:
        scores = torch.bmm(q * scale, k.transpose(1, 2))
    else:
        bias = torch.zeros(seen.shape, dtype=q.dtype)
        bias.masked_fill_(~seen, torch.finfo(q.dtype).min)
        bias = bias.expand(-1, len(q) // len(seen), -1, -1).flatten(0, 1)
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale)
    # at least fp32, which is more exact than bf16, and up to five times as fast on short rows
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.softmax(dim=-1, dtype=wide).to(scores.dtype)
    return torch.bmm(dropout(weights, p, training=True), v)


def attention_backends(device: torch.device) -> AbstractContextManager[Any]:
    """Keep torch's attention from cuDNN inside the block.

    cuDNN builds a plan for each shape of batch, which takes longer than the steps of that shape.
    """
    if device.type != "cuda" or is_plain("attention") or torch.compiler.is_compiling():
        return nullcontext()
    return sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )


def mask(**kwargs: Any) -> torch.Tensor | None:
    """Mask of `attention`, for the mask interface of transformers.

    transformers reads the values of a mask and drops it if it hides nothing. Off the CPU this read
    would wait for the device in each step. On a CUDA device the mask holds the numbers that are
    added to the scores, which torch would otherwise make of it in each layer.
    """
    given = kwargs.get("attention_mask")
    if given is not None and is_asynchronous(str(given.device)):
        kwargs["allow_is_bidirectional_skip"] = False
    found: torch.Tensor | None = sdpa_mask(**kwargs)
    if found is None or found.device.type != "cuda" or is_plain("attention"):
        return found
    return added(found)


def added(seen: torch.Tensor) -> torch.Tensor:
    """Return 0 where `seen` is True and -inf elsewhere, in the precision of the attention."""
    kind = seen.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, mask)


def packing_of(
    model: Any, ids: torch.Tensor, mask: torch.Tensor
) -> tuple[Packing, torch.Tensor] | None:
    """Return the packing of a batch and the positions of its tokens; None if it stays padded."""
    # Only training on a CPU uses packing. On a GPU the program would wait for the number of tokens.
    # In evaluation batches have almost no padding, and torch's attention is faster.
    # A compiled or traced module must not record the sizes of this batch.
    if torch.compiler.is_compiling() or not model.training:
        return None
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        return None
    if ids.device.type != "cpu" or is_plain("packing") or is_plain("attention"):
        return None
    if getattr(model.config, "_attn_implementation", None) != ATTENTION or not may_be_packed(model):
        return None
    if bool(mask.all()) or not bool(mask.any(dim=1).all()):
        return None
    return Packing(mask), positions(model, ids)


def use_attention(model: Any) -> None:
    """Make a model of transformers use `attention` if it would use torch's own function."""
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        model.set_attn_implementation(ATTENTION)
