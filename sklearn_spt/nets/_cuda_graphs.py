"""CUDA graphs: the forward and backward pass of a batch as one launch.

With a small encoder, a fast GPU waits for the launches of some hundred kernels in each step. A
graph holds all of them for one shape of input. The plain twin is the module itself.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

#: Batches of a shape that run plainly before the shape is captured, since that costs several steps.
_WORTHWHILE = 5
#: Widths of batches are multiples of this, so that few shapes come up.
WIDTH_MULTIPLE = 16

Forward = Callable[[torch.Tensor], torch.Tensor]
#: Takes a module, an example of its input and a memory pool; returns a function and the pool.
Capture = Callable[[nn.Module, torch.Tensor, Any], tuple[Forward, Any]]


class _Whole(nn.Module):
    """Wrapper of a module: each capture replaces the ``forward`` of its own wrapper."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.module(ids)
        return out


def _capture(module: nn.Module, ids: torch.Tensor, pool: Any) -> tuple[Forward, Any]:
    """Capture a module with torch; all graphs of a module share one memory pool.

    That is safe because each forward pass is followed by its backward pass before the next one.
    """
    whole = _Whole(module)
    with torch.cuda.device(ids.device), warnings.catch_warnings():
        # torch warns of the stream that a gradient was made on; here it is the right one
        warnings.simplefilter("ignore", UserWarning)
        stream = torch.cuda.graph.default_capture_stream
        if stream is not None and stream.device != ids.device:
            torch.cuda.graph.default_capture_stream = None  # it belongs to another device
        pool = torch.cuda.graph_pool_handle() if pool is None else pool
        # some weights have no gradient, such as a pooler that mean pooling does not use
        torch.cuda.make_graphed_callables(whole, (ids,), allow_unused_input=True, pool=pool)
    forward: Forward = whole.forward
    del whole.forward  # torch set it; this cycle would keep the graph until garbage collection
    return forward, pool


class GraphedModule:
    """Run a module in training, and capture each shape of input after `after` batches of it.

    The module must not wait for the device, and its choice of kernels must not depend on the values
    of its input. Its weights may change in place.
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
        """Return the logits of a batch, with the gradient that the module itself would give."""
        if any(weight.grad is not None for weight in self.module.parameters()):
            # the next replay may overwrite the memory of these gradients
            raise RuntimeError(
                "cuda_graphs=True needs steps that begin without gradients, as those of skorch do; "
                "to accumulate gradients over several batches, use cuda_graphs=False."
            )
        # a graph gives gradients only for the weights that were trained when it was captured
        trained = tuple(weight.requires_grad for weight in self.module.parameters())
        key = (ids.shape, trained)
        if key not in self.graphs:
            self.seen[key] += 1
            if self.seen[key] <= self.after:
                logits: torch.Tensor = self.module(ids)
                return logits
            self.graphs[key] = self._captured(ids.clone())
        # the next replay overwrites this memory, but a callback may keep the logits
        return self.graphs[key](ids).clone()

    def _captured(self, ids: torch.Tensor) -> Forward:
        try:
            forward, self.pool = self.capture(self.module, ids, self.pool)
        except RuntimeError as error:
            raise RuntimeError(
                f"cuda_graphs=True: {type(self.module).__name__} could not be captured for a batch "
                f"of shape {tuple(ids.shape)}; a graph cannot copy from the CPU or read values. "
                f"Use cuda_graphs=False. Error of torch: {error}"
            ) from error
        return forward
