"""skorch's training loop for a GPU, which computes while the program continues.

On a CPU the loop of skorch runs. A GPU is idle whenever the program waits to read a number, and,
with a small encoder, while the kernels of a step are launched one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, GradientNormClipping
from skorch.dataset import get_len, unpack_data
from skorch.utils import to_tensor

from sklearn_spt.nets._cuda_graphs import Slot, Update, in_slot
from sklearn_spt.nets._device import is_asynchronous
from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.nets._kernels import is_plain
from sklearn_spt.nets._losses import DistillationLoss
from sklearn_spt.nets._parts import optimizers

#: Methods of a net that make a training step; a graph takes the place of all of them.
_STEP = (
    *("train_step", "train_step_single", "infer", "get_loss", "get_train_step_accumulator"),
    *("notify", "on_grad_computed", "_zero_grad_optimizer", "_step_optimizer"),
    "get_all_learnable_params",
)
#: Attributes that hold the hooks of an optimiser, of modules and of weights.
_HOOKS = (
    *("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"),
    *("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"),
    "_post_accumulate_grad_hooks",
)


def fetch(entries: list[dict[str, Any]], name: str) -> None:
    """Replace the tensors in entries of a history by numbers, with one copy from the device."""
    held = [entry for entry in entries if torch.is_tensor(entry.get(name))]
    if held:
        values = torch.stack([entry[name] for entry in held]).tolist()
        for entry, value in zip(held, values, strict=True):
            entry[name] = value


class DeviceLoop(NeuralNetClassifier):
    """A skorch net whose loop keeps a GPU busy; ``device_`` names the device."""

    device_: str
    cuda_graphs: bool
    #: In a training run on graphs, its slot, and the optimiser and criterion that it began with.
    _slot: Slot | None = None
    _held: tuple[Any, Any] | None = None

    def uses_graphs(self) -> bool:
        """Whether training steps should run as CUDA graphs."""
        on_cuda = torch.device(self.device_).type == "cuda"
        encoder = getattr(self.module_, "encoder", None)
        return self.cuda_graphs and on_cuda and isinstance(encoder, Encoder) and not self.compile

    @contextmanager
    def training_run(self, X: Any) -> Iterator[None]:
        """Run training steps inside the block as CUDA graphs, if the net uses them."""
        if not self.uses_graphs():
            yield
            return
        obstacles = list(_obstacles(self))
        if obstacles:
            raise ValueError(
                "cuda_graphs=True records the training step of BertClassifier at its defaults, but "
                f"{' and '.join(obstacles)}; use cuda_graphs=False."
            )
        with in_slot(self.module_, self.optimizer_, _update(self)) as self._slot:
            self._held = self.optimizer_, self.criterion_
            try:
                yield
            finally:
                self._slot = self._held = None

    def train_step(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Take a training step on a batch, as a graph if there is one."""
        slot, parts = self._slot, (self.optimizer_, self.criterion_)
        # a callback may have set other parameters since the run began
        if slot is not None and parts == self._held and _update(self) == slot.update:
            ids, targets = (to_tensor(part, device=self.device_) for part in unpack_data(batch))
            found = slot.step(*parts, ids, targets)
            if found is not None:
                return dict(zip(("loss", "y_pred"), found, strict=True))
        step: dict[str, Any] = super().train_step(batch, **fit_params)
        return step

    def run_single_epoch(
        self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any
    ) -> None:
        """Run one epoch; on a GPU the history holds tensors until its end, when all are fetched."""
        # a callback may have changed what no step looks at
        if self._slot is not None and (any(_obstacles(self)) or not self._slot.fits(self.module_)):
            self._slot = None
        if iterator is None or not is_asynchronous(self.device_) or is_plain("losses"):
            super().run_single_epoch(iterator, training, prefix, step_fn, **fit_params)
            return
        name = prefix + "_loss"
        entries: list[dict[str, Any]] = []
        try:
            for batch in iterator:
                self.notify("on_batch_begin", batch=batch, training=training)
                step = step_fn(batch, **fit_params)
                self.history.record_batch(name, step["loss"].detach())
                self.history.record_batch(prefix + "_batch_size", get_len(unpack_data(batch)[0]))
                entries.append(self.history[-1]["batches"][-1])
                self.notify("on_batch_end", batch=batch, training=training, **step)
        finally:
            fetch(entries, name)
        self.history.record(prefix + "_batch_count", len(entries))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        for name in ("_slot", "_held"):  # a copy made during training has its weights elsewhere
            state.pop(name, None)
        return state


def _update(net: Any) -> Update:
    """Return what a training step of a net does with gradients."""
    group = net.optimizer_.param_groups[0]
    clipping = tuple(
        (float(callback.gradient_clip_value), float(callback.gradient_clip_norm_type))
        for callback in _using_gradients(net)
        if type(callback) is GradientNormClipping and callback.gradient_clip_value is not None
    )
    return Update(clipping, tuple(group["betas"]), group["eps"], group["weight_decay"])


def _obstacles(net: Any) -> Iterator[str]:
    """Say what a training step of a net does that a graph does not."""
    optimizer, criterion, weights = net.optimizer_, net.criterion_, [*net.module_.parameters()]
    if list(optimizers(net)) != ["optimizer"]:
        yield "it has several optimizers"
    elif type(optimizer) is not torch.optim.AdamW:
        yield f"its optimizer is {type(optimizer).__name__} and not AdamW"
    elif len(optimizer.param_groups) > 1:
        yield "its optimizer has several groups of weights"
    elif [*map(id, optimizer.param_groups[0]["params"])] != [*map(id, weights)]:
        yield "its optimizer holds other weights than its module"
    else:
        (group,) = optimizer.param_groups
        others = {"amsgrad": False, "maximize": False, "fused": True}
        for name, wanted in others.items():
            if bool(group[name]) != wanted:
                yield f"its optimizer has {name}={group[name]}"
    if type(criterion) is not DistillationLoss:
        yield f"its criterion is {type(criterion).__name__}"
    for callback in _using_gradients(net):
        if type(callback) is not GradientNormClipping:
            yield f"its callback {type(callback).__name__} uses gradients"
    for name in _STEP:
        owner = next(kind for kind in type(net).__mro__ if name in vars(kind))
        own = owner.__module__.partition(".")[0] not in ("skorch", "sklearn_spt")
        if own or name in vars(net):
            yield f"{type(net).__name__} replaces {name}"
    parts = (optimizer, criterion, *net.module_.modules(), *weights)
    if any(getattr(part, name, None) for part in parts for name in _HOOKS):
        yield "its optimizer, modules or weights have hooks"


def _using_gradients(net: Any) -> list[Any]:
    """Return the callbacks that skorch calls between the backward pass and the update."""
    own = Callback.on_grad_computed
    return [c for _, c in net.callbacks_ if type(c).on_grad_computed is not own]
