"""The weights of an encoder in bf16, cast all at once.

Autocast casts each weight, and in the backward pass each gradient, by a launch of its own: for six
layers 144 of the launches of a step. The plain twin is autocast, with the same digits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sklearn_spt.nets._kernels import is_plain


def _copies(tensors: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    out = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(out, tensors)
    return out


class _ToHalf(torch.autograd.Function):
    """Cast tensors to bf16, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.dtype = weights[0].dtype
        ctx.set_materialize_grads(False)
        out = _copies(list(weights), torch.bfloat16)
        frozen = [half for half, used in zip(out, ctx.needs_input_grad, strict=True) if not used]
        ctx.mark_non_differentiable(*frozen)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        found = iter(_copies([g for g in gradients if g is not None], ctx.dtype))
        return tuple(None if g is None else next(found) for g in gradients)


def with_half_weights(model: nn.Module, inputs: dict[str, Any]) -> Any:
    """Call a model with those weights in bf16 that autocast would cast."""
    if is_plain("casts") or torch.compiler.is_compiling():
        return model(**inputs)
    places = [
        (layer._parameters, name, weight)
        for layer in model.modules()
        if type(layer) is nn.Linear
        for name, weight in layer.named_parameters(recurse=False)
    ]
    half = _ToHalf.apply(*(weight for _, _, weight in places))
    # as torch.func.functional_call, which takes as long as the launches that are saved
    for (parameters, name, _), tensor in zip(places, half, strict=True):
        parameters[name] = tensor
    try:
        return model(**inputs)
    finally:
        for parameters, name, weight in places:
            parameters[name] = weight
