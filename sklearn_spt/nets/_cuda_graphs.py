"""CUDA graphs: the forward and the backward pass of a batch as one launch each.

With a small encoder, a fast GPU waits for the launches of some hundred kernels in each step. A
graph holds all of them for one shape of input, and for fixed places in memory. So a net that trains
moves its weights to the places of a `Slot`, and back when it is done; the next net of the same kind
finds the graphs there. The plain twin is the module itself.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain

import torch
from torch import nn

from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._kernels import FAST, is_plain
from sklearn_spt.nets._packing import is_transparent

#: Batches of a shape that run plainly before the shape is recorded, since that costs several steps.
_WORTHWHILE = 5

Part = Callable[[], None]


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream that graphs are recorded on; libraries keep memory for each stream."""
    return torch.cuda.Stream(device)


class Recorder:
    """Records parts of a step as CUDA graphs, which share one pool of memory.

    That is safe because the parts of a step run one after another, and no other step between them.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = _stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, parts: Sequence[Part]) -> list[Part]:
        """Return a replay of each part. The generators are restored, so that no number is lost."""
        with (
            torch.cuda.device(self.device),
            # after an error in a capture, torch stays on the stream of the capture
            torch.cuda.stream(torch.cuda.current_stream(self.device)),
            torch.random.fork_rng([self.device]),
            warnings.catch_warnings(),
        ):
            # torch warns of the stream that a gradient was made on; here it is the right one
            warnings.simplefilter("ignore", UserWarning)
            for part in parts:  # makes what the parts keep, outside the pool
                part()
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                for part in parts:  # libraries choose and allocate at the first call on a stream
                    part()
            torch.cuda.current_stream().wait_stream(self.stream)
            graphs = []
            for part in parts:
                graphs.append(torch.cuda.CUDAGraph())
                with torch.cuda.graph(graphs[-1], pool=self.pool, stream=self.stream):
                    part()
        return [graph.replay for graph in graphs]


class _Passes:
    """The two passes of a module over a batch at a fixed place; all shapes share `gradients`."""

    logits: torch.Tensor
    gradient: torch.Tensor

    def __init__(
        self, module: nn.Module, ids: torch.Tensor, gradients: dict[int, torch.Tensor]
    ) -> None:
        self.module = module
        self.ids = ids.clone()
        self.gradients = gradients
        self.used: list[int] = []
        self._attached: torch.Tensor | None = None

    def forward(self) -> None:
        """Compute logits."""
        found = self.module(self.ids)
        if not hasattr(self, "logits"):
            self.logits, self.gradient = torch.empty_like(found), torch.zeros_like(found)
        self.logits.copy_(found.detach())
        self._attached = found

    def backward(self) -> None:
        """Compute gradients of the weights from `gradient`, that of the logits."""
        trained = {i: w for i, w in enumerate(self.module.parameters()) if w.requires_grad}
        assert self._attached is not None
        # some weights have no gradient, such as a pooler that mean pooling does not use
        found = torch.autograd.grad(
            self._attached, list(trained.values()), self.gradient, allow_unused=True
        )
        self._attached = None
        made = {i: g for i, g in zip(trained, found, strict=True) if g is not None}
        for i in made.keys() - self.gradients.keys():
            self.gradients[i] = torch.empty_like(made[i])
        self.used = list(made)
        torch._foreach_copy_([self.gradients[i] for i in made], list(made.values()))


class StepGraph:
    """The graphs of one shape of batch."""

    def __init__(self, passes: _Passes, replays: Sequence[Part]) -> None:
        self._passes = passes
        self._forward, self._backward = replays

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits, from which a loss may be differentiated."""
        self._passes.ids.copy_(ids)
        self._forward()
        # the next replay overwrites this memory, but a callback may keep the logits
        return self._passes.logits.clone().requires_grad_()

    def backward(self, gradient: torch.Tensor, weights: Sequence[nn.Parameter]) -> None:
        """Give the weights their gradients, from that of the logits."""
        self._passes.gradient.copy_(gradient)
        self._backward()
        for i in self._passes.used:
            weights[i].grad = self._passes.gradients[i]


class Slot:
    """Places for the weights and gradients of a net that trains, and the graphs over them.

    The module must not wait for the device, and its choice of kernels must not depend on the values
    of its input.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module).train()
        self.record = Recorder(next(module.parameters()).device)
        self.seen: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, StepGraph] = {}
        self._gradients: dict[int, torch.Tensor] = {}
        #: The weights of the net that trains.
        self.weights: list[nn.Parameter] = []

    @contextmanager
    def holding(self, module: nn.Module) -> Iterator[None]:
        """Let the weights of `module` lie at the places of the slot inside the block."""
        tensors = _tensors(module)
        own = [tensor.data for tensor in tensors]
        for tensor, place in zip(tensors, _tensors(self.module), strict=True):
            place.data.copy_(tensor.data)
            tensor.data = place.data
        self.weights = list(module.parameters())
        try:
            yield
        finally:
            self.weights = []
            for tensor, data in zip(tensors, own, strict=True):
                tensor.data = data.copy_(tensor.data)
                tensor.grad = None  # its place belongs to the next net

    def graph(self, ids: torch.Tensor) -> StepGraph | None:
        """Return the graphs for a batch of the net that trains; None if it has to run plainly.

        A shape is recorded once it has come up more than `_WORTHWHILE` times.
        """
        weights = self.weights
        if any(weight.grad is not None for weight in weights):
            # the next replay overwrites the memory of these gradients
            raise RuntimeError(
                "cuda_graphs=True needs steps that begin without gradients, as those of skorch do; "
                "to accumulate gradients over several batches, use cuda_graphs=False."
            )
        # a graph gives gradients only for the weights that were trained when it was recorded
        key = (ids.shape, tuple(weight.requires_grad for weight in weights))
        if key not in self.graphs:
            self.seen[key] += 1
            if self.seen[key] <= _WORTHWHILE:
                return None
            for place, weight in zip(self.module.parameters(), weights, strict=True):
                place.requires_grad_(weight.requires_grad)
            self.graphs[key] = self._recorded(ids)
        return self.graphs[key]

    def _recorded(self, ids: torch.Tensor) -> StepGraph:
        passes = _Passes(self.module, ids, self._gradients)
        try:
            return StepGraph(passes, self.record((passes.forward, passes.backward)))
        except RuntimeError as error:
            raise RuntimeError(
                f"cuda_graphs=True: {type(self.module).__name__} could not be recorded for a batch "
                f"of shape {tuple(ids.shape)}; a graph cannot copy from the CPU or read values. "
                f"Use cuda_graphs=False. Error of torch: {error}"
            ) from error


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    return list(chain(module.parameters(), module.buffers()))


# -- one slot for the process ----------------------------------------------------------------------
#: The slot of the last training run. The key tells which modules can use its graphs.
_KEPT: dict[Hashable, Slot] = {}


def _kind(module: nn.Module) -> Hashable:
    """Return all that decides which kernels a module runs; None if that is not known.

    Two modules can look alike and still differ: by attributes of a subclass, hooks or replaced
    methods.
    """
    if type(module) is not BertModule or not all(map(is_transparent, module.modules())):
        return None
    encoder = module.encoder
    return (
        *(repr(module), encoder.model.config.to_json_string(use_diff=False)),
        *(encoder.pooling, encoder.precision, encoder.pad_id),
        tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in _tensors(module)),
        tuple(is_plain(name) for name in FAST),
        torch.backends.cuda.matmul.fp32_precision,
        torch.are_deterministic_algorithms_enabled(),
    )


@contextmanager
def in_slot(module: nn.Module) -> Iterator[Slot]:
    """Let a module train at the places of a slot, that of the last module if it was of its kind.

    After an error the slot is dropped.
    """
    kind = _kind(module)
    slot = _KEPT.pop(kind, None)
    _KEPT.clear()  # before memory is taken for another one
    if slot is None:
        slot = Slot(module)
    with slot.holding(module):
        yield slot
    if kind is not None:
        _KEPT.clear()  # a run inside this one may have left its slot
        _KEPT[kind] = slot
