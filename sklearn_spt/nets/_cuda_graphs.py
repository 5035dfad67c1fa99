"""CUDA graphs: a whole training step as one launch.

With a small encoder, a fast GPU waits for the launches of some hundred kernels in each step, and
for the program between them. A graph holds a whole step for one shape of batch: forward pass, loss,
backward pass, clipping and update. It reads and writes fixed places in memory. So a net that trains
moves its weights, and the moments of AdamW, to the places of a `Slot`, and back when it is done.
The next net of the same kind finds the graphs there. The plain twin is the step of skorch.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._kernels import FAST, is_plain
from sklearn_spt.nets._losses import DistillationLoss
from sklearn_spt.nets._packing import is_transparent

#: Batches of a shape that run plainly before the shape is recorded, since that costs several steps.
_WORTHWHILE = 5
#: The fused kernel of AdamW reads a float from the device.
_RATE = torch.float32

Run = Callable[[], None]


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream that graphs are recorded on; libraries keep memory for each stream."""
    return torch.cuda.Stream(device)


class Recorder:
    """Records steps as CUDA graphs, which share one pool of memory.

    That is safe because steps run one after another, and what outlives a step is outside the pool.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = _stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Run) -> Run:
        """Return a replay of the step. It is taken twice before; the generators are restored."""
        with (
            torch.cuda.device(self.device),
            # after an error in a capture, torch stays on the stream of the capture
            torch.cuda.stream(torch.cuda.current_stream(self.device)),
            torch.random.fork_rng([self.device]),
            warnings.catch_warnings(),
        ):
            # torch warns of the stream that a gradient was made on, and of steps of AdamW that are
            # meant for a capture but run without one; here both are right
            warnings.simplefilter("ignore", UserWarning)
            step()  # makes what the step keeps, outside the pool
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                step()  # libraries choose and allocate at the first call on a stream
            torch.cuda.current_stream().wait_stream(self.stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                step()
        return graph.replay


@dataclass(frozen=True)
class Update:
    """What a step does with gradients: norms that they are clipped to, and constants of AdamW."""

    clipping: tuple[tuple[float, float], ...]  # greatest norm, and its type
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def optimizer(self, module: nn.Module, rate: torch.Tensor) -> torch.optim.AdamW:
        """Return AdamW whose learning rate is on the device."""
        optimizer = torch.optim.AdamW(
            module.parameters(),
            betas=self.betas,
            eps=self.eps,
            weight_decay=self.weight_decay,
            fused=True,
            capturable=True,
        )
        # the constructor compares the rate with zero, which waits for the device
        optimizer.param_groups[0]["lr"] = rate
        return optimizer


class _Step:
    """A training step on a batch at a fixed place."""

    loss: torch.Tensor
    logits: torch.Tensor

    def __init__(
        self,
        module: nn.Module,
        criterion: nn.Module,
        optimizer: torch.optim.AdamW,
        clipping: tuple[tuple[float, float], ...],
        ids: torch.Tensor,
        targets: torch.Tensor,
    ) -> None:
        self.module = module
        self.criterion = criterion
        self.optimizer = optimizer
        self.clipping = clipping
        self.ids = ids.clone()
        self.targets = targets.clone()

    def run(self) -> None:
        """Take the step."""
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.module(self.ids)
        loss = self.criterion(logits, self.targets)
        loss.backward()
        for norm, norm_type in self.clipping:
            clip_grad_norm_(self.module.parameters(), norm, norm_type)
        self.optimizer.step()
        if not hasattr(self, "loss"):
            self.loss, self.logits = torch.empty_like(loss), torch.empty_like(logits)
        self.loss.copy_(loss.detach())
        self.logits.copy_(logits.detach())


class StepGraph:
    """The graph of one shape of batch."""

    def __init__(self, step: _Step, replay: Run) -> None:
        self._step = step
        self._replay = replay

    def __call__(
        self, ids: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take a step on a batch, and return its loss and logits."""
        self._step.ids.copy_(ids)
        self._step.targets.copy_(targets)
        self._replay()
        # the next replay overwrites these places, but the history keeps the losses of an epoch
        return self._step.loss.clone(), self._step.logits.clone()


class Slot:
    """Places for a net that trains and for its optimiser, and the graphs over them.

    The module must not wait for the device, and its choice of kernels must not depend on the values
    of its input.
    """

    def __init__(self, module: nn.Module, update: Update) -> None:
        self.module = copy.deepcopy(module).train()
        self.kind = _kind(module)
        self.update = update
        device = next(module.parameters()).device
        self._rate = torch.zeros((), dtype=_RATE, device=device)
        self.optimizer = update.optimizer(self.module, self._rate)
        self.criterion = DistillationLoss()
        # places of λ and T, which differ between stages; in float64, as numbers of Python
        self._constants = {
            name: torch.ones((), dtype=torch.float64, device=device)
            for name in ("lam", "temperature")
        }
        vars(self.criterion).update(self._constants)
        self.record = Recorder(device)
        self.seen: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, StepGraph] = {}
        #: The weights of the net that trains, and what its last graph step was taken with.
        self._weights: list[nn.Parameter] = []
        self._given: dict[str, float] = {}

    @contextmanager
    def holding(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Let a net train at the places of the slot inside the block."""
        tensors = _tensors(module)
        own = [tensor.data for tensor in tensors]
        for tensor, place in zip(tensors, _tensors(self.module), strict=True):
            place.data.copy_(tensor.data)
            tensor.data = place.data
        self._weights = list(module.parameters())
        try:
            yield
        finally:
            for tensor, data in zip(tensors, own, strict=True):
                tensor.data = data.copy_(tensor.data)
            for weight, place in zip(self._weights, self.module.parameters(), strict=True):
                held: dict[str, Any] = optimizer.state.get(weight, {})
                if held and held is self.optimizer.state.get(place):
                    optimizer.state[weight] = {name: v.clone() for name, v in held.items()}
            self._weights = []

    def fits(self, module: nn.Module) -> bool:
        """Whether a module that trains is still of the kind of the slot, and at its places."""
        pairs = zip(_tensors(module), _tensors(self.module), strict=True)
        return _kind(module) == self.kind and all(one.is_set_to(place) for one, place in pairs)

    def step(
        self,
        optimizer: torch.optim.Optimizer,
        criterion: DistillationLoss,
        ids: torch.Tensor,
        targets: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Take a step of the net that trains, and return loss and logits.

        Return None if the batch has to run plainly: a shape is recorded once it has come up more
        than `_WORTHWHILE` times.
        """
        # a graph updates only the weights that were trained when it was recorded
        trained = tuple(weight.requires_grad for weight in self._weights)
        key = (ids.shape, trained)
        if key not in self.graphs:
            self.seen[key] += 1
            if self.seen[key] <= _WORTHWHILE:
                return None
        for weight in self._weights:
            weight.grad = None  # of a plain step
        self._hold_moments(optimizer)
        if key not in self.graphs:
            for place, wanted in zip(self.module.parameters(), trained, strict=True):
                place.requires_grad_(wanted)
            self.graphs[key] = self._recorded(ids, targets)
        self._rate.fill_(optimizer.param_groups[0]["lr"])
        for name, constant in self._constants.items():
            value = getattr(criterion, name)
            if self._given.get(name) != value:
                constant.fill_(value)
                self._given[name] = value
        return self.graphs[key](ids, targets)

    def _hold_moments(self, optimizer: torch.optim.Optimizer) -> None:
        """Move the moments of trained weights to the places that plain steps then use, too."""
        for weight, place in zip(self._weights, self.module.parameters(), strict=True):
            if not weight.requires_grad:
                continue
            if place not in self.optimizer.state:
                self.optimizer.state[place] = {
                    "step": torch.zeros((), dtype=torch.float32, device=place.device),
                    "exp_avg": torch.zeros_like(place),
                    "exp_avg_sq": torch.zeros_like(place),
                }
            state, kept = self.optimizer.state[place], optimizer.state.get(weight)
            if kept is not state:
                for name, value in state.items():
                    value.copy_(kept[name]) if kept else value.zero_()
                optimizer.state[weight] = state

    def _recorded(self, ids: torch.Tensor, targets: torch.Tensor) -> StepGraph:
        """Record a step, and undo those that were taken for it."""
        parts = (self.module, self.criterion, self.optimizer, self.update.clipping)
        step = _Step(*parts, ids, targets)
        moments = chain(*(state.values() for state in self.optimizer.state.values()))
        changed = [*_tensors(self.module), *moments]
        before = [tensor.detach().clone() for tensor in changed]
        try:
            return StepGraph(step, self.record(step.run))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise RuntimeError(
                f"cuda_graphs=True: a step of {type(self.module).__name__} could not be recorded "
                f"for a batch of shape {tuple(ids.shape)}; a graph cannot copy from the CPU or "
                f"read values. Use cuda_graphs=False. Error of torch: {error}"
            ) from error
        finally:
            self.optimizer.zero_grad(set_to_none=True)
            for tensor, values in zip(changed, before, strict=True):
                tensor.data.copy_(values)


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    return list(chain(module.parameters(), module.buffers()))


# -- one slot for the process ----------------------------------------------------------------------
#: The slot of the last training run. The key tells which nets can use its graphs.
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
def in_slot(module: nn.Module, optimizer: torch.optim.Optimizer, update: Update) -> Iterator[Slot]:
    """Let a net train at the places of a slot, that of the last net if it was of its kind.

    After an error the slot is dropped.
    """
    kind = _kind(module)
    key = None if kind is None else (kind, update)
    slot = _KEPT.pop(key, None)
    _KEPT.clear()  # before memory is taken for another one
    if slot is None:
        slot = Slot(module, update)
    with slot.holding(module, optimizer):
        yield slot
    if key is not None:
        _KEPT.clear()  # a run inside this one may have left its slot
        _KEPT[key] = slot
