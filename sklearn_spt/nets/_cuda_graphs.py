"""CUDA graphs: the forward and backward pass of a batch as one launch.

A small encoder on a fast GPU waits for the launches of some hundred kernels a step. A graph holds
them all, for one shape of input. The plain twin is the module itself.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

#: Batches of a shape that run plainly before it is captured: a capture costs several steps.
_WORTHWHILE = 5
#: Widths of batches are multiples of this, so that few shapes come up.
WIDTH_MULTIPLE = 16

Forward = Callable[[torch.Tensor], torch.Tensor]
#: Takes a module, an example of its input, and what an earlier capture returned beside its result.
Capture = Callable[[nn.Module, torch.Tensor, Any], tuple[Forward, Any]]


class _Whole(nn.Module):
    """A module seen from outside: capturing replaces its ``forward``, and each shape has one."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.module(ids)
        return out


def _capture(module: nn.Module, ids: torch.Tensor, pool: Any) -> tuple[Forward, Any]:
    """Capture by torch; all graphs of a module share one pool of memory.

    That is safe because each forward pass is followed by its own backward pass before the next.
    """
    whole = _Whole(module)
    with torch.cuda.device(ids.device), warnings.catch_warnings():
        # torch says which stream a gradient was made on; here that is as it should be
        warnings.simplefilter("ignore", UserWarning)
        stream = torch.cuda.graph.default_capture_stream
        if stream is not None and stream.device != ids.device:
            torch.cuda.graph.default_capture_stream = None  # made for the first device in use
        pool = torch.cuda.graph_pool_handle() if pool is None else pool
        # a pooler that mean pooling leaves out, for example, has no gradient
        torch.cuda.make_graphed_callables(whole, (ids,), allow_unused_input=True, pool=pool)
    forward: Forward = whole.forward
    del whole.forward  # torch set it; with it the graph would live until the next collection
    return forward, pool


class GraphedModule:
    """Runs a module in training, and captures each shape of input that keeps coming up.

    Parameters
    ----------
    module : Module
        On a CUDA device, in training mode; it may neither wait for the device nor depend on the
        values of its input in its choice of kernels. Its weights may change, in place.
    capture : callable, default=by torch.cuda.make_graphed_callables
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
        self.pool: Any = None
        self.seen: Counter[Any] = Counter()
        self.graphs: dict[Any, Forward] = {}

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of a batch, with the gradient that the module itself would give.

        Raises
        ------
        RuntimeError
            If the module cannot be captured, or a weight has a gradient already.
        """
        if any(weight.grad is not None for weight in self.module.parameters()):
            # they may lie in the memory that the next replay writes to, before it adds to them
            raise RuntimeError(
                "cuda_graphs=True needs steps that begin without gradients, as skorch's do; where "
                "gradients of several batches are added up, use cuda_graphs=False."
            )
        # a graph has gradients for the weights that were trained when it was captured
        trained = tuple(weight.requires_grad for weight in self.module.parameters())
        key = (ids.shape, trained)
        if key not in self.graphs:
            self.seen[key] += 1
            if self.seen[key] <= self.after:
                logits: torch.Tensor = self.module(ids)
                return logits
            self.graphs[key] = self._captured(ids.clone())
        # the next replay writes to the same memory, and a callback may keep what it was given
        return self.graphs[key](ids).clone()

    def _captured(self, ids: torch.Tensor) -> Forward:
        try:
            forward, self.pool = self.capture(self.module, ids, self.pool)
        except RuntimeError as error:
            raise RuntimeError(
                f"cuda_graphs=True: {type(self.module).__name__} could not be captured for a batch "
                f"of shape {tuple(ids.shape)}; it may copy from the CPU or look at values, which a "
                f"graph cannot hold. Use cuda_graphs=False. torch says: {error}"
            ) from error
        return forward
