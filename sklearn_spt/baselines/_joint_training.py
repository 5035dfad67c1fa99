"""Training of several nets in one loop, on the same batches, each with a loss on its peers.

Each net has its own stream of random numbers. Without weight on the peers, the first net is
therefore that of `SupervisedTrainer.train`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from skorch import NeuralNet
from skorch.dataset import get_len, unpack_data
from skorch.utils import TeeGenerator, multi_indexing, to_tensor

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._random import (
    derive_seed,
    epoch_rows,
    isolated,
    set_torch_states,
    shuffled,
    torch_states,
)
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt._typing import AnyArray
from sklearn_spt.nets._callbacks import ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, one_hot
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._training import (
    ends_early,
    n_steps,
    quiet,
    release_optimizer,
    without_accelerator,
)

_LOSSES = ("train_loss", "cross_entropy", "kl")


def mutual_kl(logits: torch.Tensor, *peer_logits: torch.Tensor) -> torch.Tensor:
    """Mean over the peers of ``KL(p_peer || p)`` per row; p is the softmax of logits (n, K)."""
    z = _centred(logits)
    log_sum = torch.logsumexp(z, dim=1)
    divergences = []
    for peer in peer_logits:
        v = _centred(peer.detach()).to(z.dtype)
        peer_log_sum = torch.logsumexp(v, dim=1)
        p = torch.exp(v - peer_log_sum[:, None])
        # sum_c p_c = 1 is inserted analytically: for equal logits the gradient is exactly 0, while
        # a rounding error would become whole steps of an adaptive optimiser
        divergences.append(log_sum - peer_log_sum - (p * (z - v)).sum(dim=1))
    return torch.stack(divergences).mean(dim=0)


def _centred(logits: torch.Tensor) -> torch.Tensor:
    """Subtract the maximum of each row, so that no exponential overflows."""
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return z - z.detach().amax(dim=-1, keepdim=True)


class RandomStream:
    """Context in which torch draws from a separate stream, which the next ``with`` continues."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        with isolated(seed):
            self._own = torch_states()

    def __enter__(self) -> None:
        self._outer = torch_states()
        set_torch_states(self._own)
        if self._outer["cuda"] and not self._own["cuda"]:  # CUDA has started since
            torch.cuda.manual_seed_all(self._seed)

    def __exit__(self, *error: object) -> None:
        self._own = torch_states()
        set_torch_states(self._outer)


class Learner:
    """One of the nets with its random numbers; net 0 starts as ``trainer.train(X, codes, 0)``."""

    def __init__(self, trainer: SupervisedTrainer, data: SemiSupervisedData, number: int) -> None:
        self.number = number
        seed = derive_seed(trainer.root, number)
        self.random = RandomStream(seed)
        # a second stream, so that other batches do not shift the dropout on labelled ones
        self.random_more = RandomStream(derive_seed(trainer.root, number, 1))
        with isolated(seed), self.random:
            self.net = trainer.fresh(data.X_labeled, data.y, data.weights)

    def forward(self, labeled: Any, unlabeled: Any) -> tuple[Any, torch.Tensor]:
        """Return outputs on the labelled batch and logits on both batches, in training mode."""
        self.net._set_training(True)
        with self.random:
            outputs = self.net.infer(unpack_data(labeled)[0])
        parts = [outputs]
        if unlabeled is not None:
            with self.random_more:
                parts.append(self.net.infer(unpack_data(unlabeled)[0]))
        logits = [part[0] if isinstance(part, tuple) else part for part in parts]
        return outputs, torch.cat(logits)

    def step(
        self,
        batch: Any,
        outputs: Any,
        logits: torch.Tensor,
        peers: list[torch.Tensor],
        kl_weight: float,
    ) -> None:
        """Take one optimiser step and notify the callbacks as skorch does."""
        net = self.net
        X, y = unpack_data(batch)
        net._zero_grad_optimizer()
        cross_entropy = net.get_loss(outputs, y, X=X, training=True)
        divergence = mutual_kl(logits, *peers)
        row_weights = to_tensor(y, device=divergence.device).sum(dim=1)  # targets are scaled by it
        n = len(row_weights)
        kl = torch.cat([row_weights * divergence[:n], divergence[n:]]).mean()
        loss = cross_entropy + kl_weight * kl
        loss.backward()
        net.notify(
            "on_grad_computed",
            named_parameters=TeeGenerator(net.get_all_learnable_params()),
            batch=batch,
            training=True,
        )
        net._step_optimizer(None)
        for name, value in zip(_LOSSES, (loss, cross_entropy, kl), strict=True):
            # do not wait for a GPU in each step, see `epoch_means`
            on_cpu = value.device.type == "cpu"
            net.history.record_batch(name, value.item() if on_cpu else value.detach())
        net.history.record_batch("train_batch_size", get_len(X))
        net.notify("on_batch_end", batch=batch, training=True, loss=loss, y_pred=outputs)

    def epoch_means(self) -> dict[str, float]:
        """Means of the losses over the last epoch; an error if the training loss is not finite."""
        batches = self.net.history[-1]["batches"]
        for batch in batches:
            batch.update({name: float(batch[name]) for name in _LOSSES})
        sizes = [batch["train_batch_size"] for batch in batches]
        means = {
            name: float(np.average([batch[name] for batch in batches], weights=sizes))
            for name in _LOSSES
        }
        if not np.isfinite(means["train_loss"]):
            raise ValueError(
                f"the training loss became {means['train_loss']} in epoch {len(self.net.history)} "
                f"of net {self.number + 1}; lower the learning rate (lr={self.net.lr}), or check "
                "the input for NaN."
            )
        return means


class JointTrainer:
    """Trains several nets together with the parameters of a `MutualLearningClassifier`."""

    def __init__(self, trainer: SupervisedTrainer, model: Any, data: SemiSupervisedData) -> None:
        self.trainer, self.model = trainer, model
        self.X, self.codes, self.X_unlabeled = data.X_labeled, data.y, data.X_unlabeled
        self.targets = distillation_targets(one_hot(data.y, data.n_classes), None, data.weights)
        self.learners = [Learner(trainer, data, number) for number in range(model.n_nets)]
        self._first = self.learners[0]  # its iterator makes the batches of all nets
        self._draws = trainer.rng(0)
        self._draws_unlabeled = trainer.rng(0, 2)
        self._no_targets = np.zeros((data.n_unlabeled, 2 * data.n_classes), dtype=np.float32)

    @property
    def nets(self) -> list[NeuralNet]:
        """The nets, in their order."""
        return [learner.net for learner in self.learners]

    def train(self, on_epoch: Callable[[dict[str, Any]], None]) -> bool:
        """Train for `finetune_epochs` epochs; False if a callback of a net stopped the training.

        `on_epoch` gets the entry of ``history_`` after each epoch.
        """
        epochs = self.model.finetune_epochs
        steps = n_steps(self._first.net, self.X, self.targets, epochs)
        if self.X_unlabeled is not None:  # raises an error if they yield no batch
            n_steps(self._first.net, self.X_unlabeled, self._no_targets, epochs)
        own = [net.callbacks_ for net in self.nets]
        schedules = [ScheduledLR(partial(slanted, n_steps=steps)).initialize() for _ in own]
        for net, callbacks, schedule in zip(self.nets, own, schedules, strict=True):
            net.callbacks_ = [*callbacks, ("learning_rate", schedule)]
        try:
            with ExitStack() as stack:
                for net in self.nets:
                    stack.enter_context(quiet(net))
                    stack.enter_context(without_accelerator(net))
                # for modules that draw from python or numpy; torch draws from the streams
                stack.enter_context(isolated(derive_seed(self.trainer.root, 0)))
                self._notify("on_train_begin", X=self.X, y=self.targets)
                unlabeled = self._unlabeled_batches()
                finished = all(self._epoch(unlabeled, on_epoch) for _ in range(epochs))
                for net in self.nets:
                    release_optimizer(net)
                if epochs:  # callbacks look at the last epoch
                    self._notify("on_train_end", X=self.X, y=self.targets)
        finally:
            for net, callbacks, schedule in zip(self.nets, own, schedules, strict=True):
                net.callbacks_ = callbacks
                schedule.restore(net)
        return finished

    def _notify(self, event: str, **kwargs: Any) -> None:
        for net in self.nets:
            net.notify(event, **kwargs)

    # -- batches --------------------------------------------------------------------------------
    def _labeled_batches(self) -> Iterator[Any]:
        """Yield the labelled batches of one epoch."""
        rows = epoch_rows(self.codes, self.model.balanced_batches, self._draws)
        return self._pass(multi_indexing(self.X, rows), self.targets[rows], self._first.random)

    def _unlabeled_batches(self) -> Iterator[Any]:
        """Yield unlabelled batches, pass after pass without end, or None where there are none."""
        while self.X_unlabeled is None:
            yield None
        while True:
            rows = shuffled(len(self._no_targets), self._draws_unlabeled)
            X = multi_indexing(self.X_unlabeled, rows)
            yield from self._pass(X, self._no_targets, self._first.random_more)

    def _pass(self, X: Any, targets: AnyArray, stream: RandomStream) -> Iterator[Any]:
        """Yield the batches of the first net's iterator, which draws from a stream."""
        net = self._first.net
        with stream:
            batches = iter(net.get_iterator(net.get_dataset(X, targets), training=True))
        end = object()
        while True:
            with stream:
                batch = next(batches, end)
            if batch is end:
                return
            yield batch

    # -- steps ----------------------------------------------------------------------------------
    def _epoch(
        self, unlabeled_batches: Iterator[Any], on_epoch: Callable[[dict[str, Any]], None]
    ) -> bool:
        """Train one epoch; False if a callback of a net asked to stop."""
        start = time.perf_counter()
        count = 0
        dataset = self._first.net.get_dataset(self.X, self.targets)
        self._notify("on_epoch_begin", dataset_train=dataset, dataset_valid=None)
        self.trainer.progress.expect(len(self.learners) * len(self.codes))
        for labeled in self._labeled_batches():
            self._step(labeled, next(unlabeled_batches))
            n_texts = get_len(unpack_data(labeled)[0])
            self.trainer.progress.advance(len(self.learners) * n_texts)
            count += 1
        means = [learner.epoch_means() for learner in self.learners]
        stopped = False
        for net in self.nets:
            net.history.record("train_batch_count", count)
            end = partial(net.notify, "on_epoch_end", dataset_train=dataset, dataset_valid=None)
            stopped |= ends_early(net, end)
        on_epoch(
            {
                "loss": {name: [mean[name] for mean in means] for name in ("cross_entropy", "kl")},
                "n_steps": count,
                "seconds": {"training": time.perf_counter() - start},
            }
        )
        return not stopped

    def _step(self, labeled: Any, unlabeled: Any) -> None:
        """Take one step of every net on the same batches, all from the same predictions."""
        self._notify("on_batch_begin", batch=labeled, training=True)
        forwards = [learner.forward(labeled, unlabeled) for learner in self.learners]
        for k, (learner, (outputs, logits)) in enumerate(zip(self.learners, forwards, strict=True)):
            peers = [other for _, other in forwards[:k] + forwards[k + 1 :]]
            learner.step(labeled, outputs, logits, peers, self.model.kl_weight)
