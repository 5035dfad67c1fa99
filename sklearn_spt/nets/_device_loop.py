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
from skorch.dataset import get_len, unpack_data
from skorch.utils import to_tensor

from sklearn_spt.nets._cuda_graphs import Slot, in_slot
from sklearn_spt.nets._device import is_asynchronous
from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.nets._kernels import is_plain


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
    _slot: Slot | None = None

    def uses_graphs(self) -> bool:
        """Whether forward and backward passes should run as CUDA graphs."""
        on_cuda = torch.device(self.device_).type == "cuda"
        encoder = getattr(self.module_, "encoder", None)
        return self.cuda_graphs and on_cuda and isinstance(encoder, Encoder) and not self.compile

    @contextmanager
    def training_run(self, X: Any) -> Iterator[None]:
        """Run training steps inside the block as CUDA graphs, if the net uses them."""
        if not self.uses_graphs():
            yield
            return
        with in_slot(self.module_) as self._slot:
            try:
                yield
            finally:
                self._slot = None

    def train_step_single(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Compute loss and gradients of one batch.

        Graphs run only here and not in ``infer``, because the backward pass of a graph must come
        before its next forward pass.
        """
        X, y = unpack_data(batch)
        slot = self._slot
        graph = None if slot is None else slot.graph(to_tensor(X, device=self.device_))
        if slot is None or graph is None:
            step: dict[str, Any] = super().train_step_single(batch, **fit_params)
            return step
        self._set_training(True)
        y_pred: Any = graph.forward(to_tensor(X, device=self.device_))
        loss = self.get_loss(y_pred, y, X=X, training=True)
        loss.backward()
        assert y_pred.grad is not None
        graph.backward(y_pred.grad, slot.weights)
        return {"loss": loss.detach(), "y_pred": y_pred.detach()}

    def run_single_epoch(
        self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any
    ) -> None:
        """Run one epoch; on a GPU the history holds tensors until its end, when all are fetched."""
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
        state.pop("_slot", None)  # a copy made during training has its weights elsewhere
        return state
