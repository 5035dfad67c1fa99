"""Fast kernels of the encoder, each beside its plain twin; here is decided which of them runs.

What a small encoder on a CPU spends its time on, beside matrix products, is mostly dropout: torch
draws one Bernoulli number for each element. Eight mask bytes from one 64-bit draw serve as well.
The plain twins are torch's own functions; they run on a GPU, in evaluation, and inside `plain`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sklearn_spt.nets._device import is_asynchronous
from sklearn_spt.nets._packing import Packing, may_be_packed, positions

#: Name of `attention` among the attention functions of transformers.
ATTENTION = "sklearn_spt"

_LEVELS = 256
#: What has a plain twin.
FAST = ("attention", "dropout", "losses", "packing", "resident")

_PLAIN: ContextVar[tuple[str, ...]] = ContextVar("sklearn_spt_plain", default=())


# -- which of the two ----------------------------------------------------------------------------
@contextmanager
def plain(*names: str) -> Iterator[None]:
    """Inside the block fast ways give way to their plain twins: for tests and benchmarks.

    Parameters
    ----------
    *names : {"attention", "dropout", "losses", "packing", "resident"}
        Which of them; without a name all.
    """
    if unknown := set(names) - set(FAST):
        raise ValueError(f"no plain twins of {sorted(unknown)}; there are those of {FAST}.")
    token = _PLAIN.set(names or FAST)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def is_plain(name: str) -> bool:
    """Whether `plain` turned a fast way off."""
    return name in _PLAIN.get()


def _on_bytes(x: torch.Tensor, p: float) -> bool:
    return x.device.type == "cpu" and 0 < p < 1


# -- dropout -------------------------------------------------------------------------------------
def byte_dropout(x: torch.Tensor, p: float) -> torch.Tensor:
    """Zero each element with probability `p` and scale the rest so that the mean is kept.

    Parameters
    ----------
    x : Tensor
        Any shape.
    p : float in [0, 1)
        Rounded to a multiple of 1/256 below one (0.1 becomes 26/256 = 0.1016); the scale uses
        the rounded value, so that the expectation of the result is exactly `x`.

    Returns
    -------
    Tensor
        Of the shape and type of `x`. The random numbers come from a generator that torch's
        default CPU generator seeds.
    """
    threshold = min(round(p * _LEVELS), _LEVELS - 1)
    if threshold == 0:
        return x
    return x * _mask(x.numel(), threshold, x.dtype).view(x.shape)


def _mask(n: int, threshold: int, dtype: torch.dtype) -> torch.Tensor:
    """Draw `n` factors, 0 or the scale; numpy does each step with vector instructions."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    # SFC64 draws 8 bytes in the time in which torch's generator draws 4
    words = np.random.SFC64(seed).random_raw((n + 7) // 8)
    kept = words.view(np.uint8)[:n] >= threshold
    scale = _LEVELS / (_LEVELS - threshold)
    if dtype is torch.float32:
        return torch.from_numpy(np.multiply(kept, np.float32(scale), dtype=np.float32))
    if dtype in (torch.bfloat16, torch.float16):  # numpy knows no bfloat16, but its bits
        bits = int(torch.tensor(scale, dtype=dtype).view(torch.int16))
        return torch.from_numpy(np.multiply(kept, np.int16(bits), dtype=np.int16)).view(dtype)
    return torch.from_numpy(kept).to(dtype).mul_(scale)


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Dropout by the fastest way that the device of `x` has."""
    if not training or p == 0.0:
        return x
    if _on_bytes(x, p) and not is_plain("dropout"):
        return byte_dropout(x, p)
    return nn.functional.dropout(x, p, training=True)


class Dropout(nn.Dropout):
    """``torch.nn.Dropout`` with the fast masks of `byte_dropout` on a CPU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply dropout in training mode, return the input otherwise."""
        return dropout(input, self.p, self.training)


def replace_dropout(module: nn.Module, p: float | None = None) -> None:
    """Put `Dropout` in the place of every ``torch.nn.Dropout`` inside `module`, in place.

    Parameters
    ----------
    module : Module
        Changed in place.
    p : float or None
        The new probability; None keeps each module's own.
    """
    for name, child in module.named_children():
        if type(child) is nn.Dropout:
            setattr(module, name, Dropout(child.p if p is None else p).train(child.training))
        else:
            replace_dropout(child, p)


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
    """Scaled dot-product attention for transformers' attention interface.

    torch's fused attention has no dropout on a CPU: with it, its plain path runs, whose dropout
    takes longer than both matrix products. Texts are short, so the scores are small, and written
    out they cost little. Everywhere else torch's own function runs.

    Parameters
    ----------
    module : Module
        The layer.
    query, key, value : Tensor of shape (n, heads, width, d)
        As transformers gives them; with `packing` of shape (1, heads, n_tokens, d).
    attention_mask : bool Tensor of shape (n, 1, width or 1, width) or None
        True where a token may be looked at.
    dropout : float in [0, 1]
        Dropout of the attention weights; 0 in evaluation.
    scaling : float or None
        Factor of the scores; None is 1/sqrt(d).
    packing : Packing or None
        Of which tokens the rows consist, where they come one after another.
    **kwargs
        Passed on to transformers' own function.

    Returns
    -------
    output : Tensor of shape (n, width, heads, d), or (1, n_tokens, heads, d)
        Weighted values.
    weights : None
        Not returned.
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
    if causal is None:  # as transformers reads it, which applies it where there is no mask
        causal = getattr(module, "is_causal", True)
    usual = (
        query.shape == key.shape == value.shape
        and not (causal and attention_mask is None)
        and kwargs.get("position_bias") is None
    )
    if not (usual and _on_bytes(query, dropout)) or is_plain("attention"):
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
    """Weighted values of q, k and v, all of shape (n * heads, width, d); of the weights p drop out.

    `seen` is True where a row of the batch may look, of shape (n, 1, width or 1, width).
    """
    if seen is None:
        scores = torch.bmm(q * scale, k.transpose(1, 2))
    else:
        bias = torch.zeros(seen.shape, dtype=q.dtype)
        bias.masked_fill_(~seen, torch.finfo(q.dtype).min)
        bias = bias.expand(-1, len(q) // len(seen), -1, -1).flatten(0, 1)
        scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale)
    # in fp32 at least: more exact than bf16, and on short rows up to five times as fast
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.softmax(dim=-1, dtype=wide).to(scores.dtype)
    return torch.bmm(dropout(weights, p, training=True), v)


def mask(**kwargs: Any) -> torch.Tensor | None:
    """Mask of `attention`, for transformers' mask interface.

    transformers leaves a mask out that hides nothing, and looks at its values to know; off the CPU
    that look would wait for the device in each step.
    """
    given = kwargs.get("attention_mask")
    if given is not None and is_asynchronous(str(given.device)):
        kwargs["allow_is_bidirectional_skip"] = False
    found: torch.Tensor | None = sdpa_mask(**kwargs)
    return found


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, mask)


def packing_of(
    model: Any, ids: torch.Tensor, mask: torch.Tensor
) -> tuple[Packing, torch.Tensor] | None:
    """How to lay out a batch without padding, and the positions of all its places.

    Only training on a CPU does so. On a GPU the program would wait for the number of tokens; in
    evaluation batches have next to no padding, and torch's attention is the faster one. Left out
    are models that may look from token to token by more than `attention`, see `may_be_packed`.

    Parameters
    ----------
    model : transformers model
        See `use_attention`.
    ids : Tensor of int64 of shape (n, width)
        Token ids.
    mask : bool Tensor of shape (n, width)
        True at tokens.

    Returns
    -------
    packing : Packing
        Of the mask.
    positions : Tensor of int64 of shape (n, width)
        As the model itself numbers them.

    None if the batch stays as it is.
    """
    # first what a compiler can follow, and what would record the numbers of this one batch
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
    """Let a model of transformers use `attention`, where it would use torch's own."""
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        model.set_attn_implementation(ATTENTION)
