"""CUDA graphs: the forward and backward pass of a batch as one launch.

A small encoder on a fast GPU waits for the launches of some hundred kernels a step. A graph holds
them all, for one shape of input. The plain twin is the module itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

#: Batches of a shape that run plainly before it is captured: a capture costs several steps.
_WORTHWHILE = 5
#: Widths of batches are multiples of this, so that few shapes come up.
WIDTH_MULTIPLE = 16

Capture = Callable[[nn.Module, tuple[torch.Tensor, ...]], Callable[[torch.Tensor], torch.Tensor]]


class _Whole(nn.Module):
    """A module seen from outside: capturing replaces its ``forward``, and each shape has one."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.module(ids)
        return out


def _capture(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
    # a pooler that mean pooling leaves out, for example, has no gradient
    return torch.cuda.make_graphed_callables(module, inputs, allow_unused_input=True)


class GraphedModule:
    """Runs a module in training, and captures each shape of input that keeps coming up.

    Parameters
    ----------
    module : Module
        On a CUDA device, in training mode; it may neither wait for the device nor depend on the
        values of its input in its choice of kernels. Its weights may change, in place.
    capture : callable, default=torch.cuda.make_graphed_callables
        Turns a module and an example of its input into what runs instead.
    after : int
        Number of batches of a shape that run plainly before it is captured.
    """

    def __init__(
        self, module: nn.Module, capture: Capture = _capture, after: int = _WORTHWHILE
    ) -> None:
        self.module = module
        self.capture = capture
        self.after = after
        self.seen: Counter[torch.Size] = Counter()
        self.graphs: dict[torch.Size, Callable[[torch.Tensor], torch.Tensor]] = {}

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of a batch, with the gradient that the module itself would give."""
        shape = ids.shape
        graph = self.graphs.get(shape)
        if graph is None:
            self.seen[shape] += 1
            if self.seen[shape] <= self.after:
                logits: torch.Tensor = self.module(ids)
                return logits
            graph = self.graphs[shape] = self.capture(_Whole(self.module), (ids.clone(),))
        # the next replay writes to the same memory, and a callback may keep what it was given
        return graph(ids).clone()
