"""Dropout whose masks come from random bytes: on a CPU several times faster than torch's own.

torch draws one Bernoulli number for each element; on a CPU that costs more than the product with
the mask, and in a small encoder as much as a tenth to a third of a training step. Eight mask
bytes from one 64-bit draw serve as well. The plain twin is ``torch.nn.functional.dropout``, which
is used wherever the fast path does not apply (GPU, evaluation, p = 0).
"""

from __future__ import annotations

import torch
from torch import nn

_LEVELS = 256


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
        Of the shape and type of `x`. Random numbers come from torch's default CPU generator.
    """
    threshold = min(round(p * _LEVELS), _LEVELS - 1)
    if threshold == 0:
        return x
    n = x.numel()
    words = torch.empty((n + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    # numpy compares bytes with vector instructions, torch (2.13) does not
    kept = torch.from_numpy(words.numpy().view("uint8")[:n] >= threshold)
    mask = kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - threshold))
    return x * mask.view(x.shape)


def dropout(x: torch.Tensor, p: float, training: bool) -> torch.Tensor:
    """Dropout by the fastest way that the device of `x` has."""
    if not training or p == 0.0:
        return x
    if x.device.type == "cpu" and p < 1.0:
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
