"""Nets that are trained together, on the same batches, each looking at what the others say.

The counterpart of `SupervisedTrainer.train` for several nets in one loop. With one stream of
random numbers for each net, a net that does not listen to its peers is the supervised one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from skorch import NeuralNet
from skorch.dataset import get_len, unpack_data
from skorch.utils import TeeGenerator, multi_indexing, to_tensor

from sklearn_spt._random import derive_seed, isolated
from sklearn_spt._sampling import epoch_rows, shuffled
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt.nets._callbacks import ScheduledLR
from sklearn_spt.nets._losses import distillation_targets, mutual_kl, one_hot
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._training import (
    ends_early,
    n_steps,
    quiet,
    release_optimizer,
)


class RandomStream:
    """Random numbers of torch that go on where the last ``with`` block ended.

    Parameters
    ----------
    seed : int
        Seed of the generators when the first block begins.
    """

    def __init__(self, seed: int) -> None:
        with isolated(seed):
            self._own = _random_state()

    def __enter__(self) -> None:
        self._outer = _random_state()
        _set_random_state(self._own)

    def __exit__(self, *error: object) -> None:
        self._own = _random_state()
        _set_random_state(self._outer)


def _random_state() -> tuple[torch.Tensor, list[torch.Tensor]]:
    on_cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), on_cuda


def _set_random_state(state: tuple[torch.Tensor, list[torch.Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


_LOSSES = ("train_loss", "cross_entropy", "kl")


class Learner:
    """One of the nets, with its random numbers.

    Parameters
    ----------
    trainer : SupervisedTrainer
        Makes the net.
    X : indexable of length n
        Encoded labelled documents.
    codes : ndarray of int of shape (n,)
        Their classes.
    weights : ndarray of shape (n,) or None
        Their weights.
    number : int
        Counted from 0; the net numbered 0 starts as that of ``trainer.train(X, codes, 0)``.
    """

    def __init__(
        self,
        trainer: SupervisedTrainer,
        X: Any,
        codes: IntArray,
        weights: FloatArray | None,
        number: int,
    ) -> None:
        self.number = number
        seed = derive_seed(trainer.root, number)
        self.random = RandomStream(seed)
        # dropout on anything but labelled batches must not shift that on labelled ones
        self.random_more = RandomStream(derive_seed(trainer.root, number, 1))
        with isolated(seed), self.random:
            self.net = trainer.fresh(X, codes, weights)

    def forward(self, labeled: Any, unlabeled: Any) -> tuple[Any, torch.Tensor]:
        """Return outputs on a labelled batch, and logits of the joint batch; dropout is active."""
        self.net._set_training(True)
        with self.random:
            outputs = self.net.infer(unpack_data(labeled)[0])
        return outputs, self._joint(outputs, unlabeled)

    def logits_anew(self, labeled: Any, unlabeled: Any) -> torch.Tensor:
        """Logits of the joint batch after a step of this net, without a gradient."""
        with torch.no_grad(), self.random_more:
            outputs = self.net.infer(unpack_data(labeled)[0])
            return self._joint(outputs, unlabeled)

    def _joint(self, outputs: Any, unlabeled: Any) -> torch.Tensor:
        parts = [outputs]
        if unlabeled is not None:
            with self.random_more:
                parts.append(self.net.infer(unpack_data(unlabeled)[0]))
        return torch.cat([part[0] if isinstance(part, tuple) else part for part in parts])

    def step(
        self,
        batch: Any,
        outputs: Any,
        logits: torch.Tensor,
        peers: list[torch.Tensor],
        kl_weight: float,
    ) -> None:
        """One step of this net's own optimiser, with what skorch tells callbacks around it."""
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
            # a GPU is not waited for in each step, see `fetch_losses`
            on_cpu = value.device.type == "cpu"
            net.history.record_batch(name, value.item() if on_cpu else value.detach())
        net.history.record_batch("train_batch_size", get_len(X))
        net.notify("on_batch_end", batch=batch, training=True, loss=loss, y_pred=outputs)

    def fetch_losses(self) -> None:
        """Put numbers in the place of the tensors in the history of this epoch."""
        for batch in self.net.history[-1]["batches"]:
            batch.update({name: float(batch[name]) for name in _LOSSES if name in batch})

    def epoch_means(self) -> dict[str, float]:
        """Means of the losses over the last epoch.

        Raises
        ------
        ValueError
            If the training loss is not finite.
        """
        batches = self.net.history[-1]["batches"]
        sizes = [batch["train_batch_size"] for batch in batches]
        means = {
            name: float(np.average([batch[name] for batch in batches], weights=sizes))
            for name in _LOSSES
        }
        if not np.isfinite(means["train_loss"]):
            raise ValueError(
                f"the training loss became {means['train_loss']} in epoch {len(self.net.history)} "
                f"of net {self.number + 1}; lower the learning rate (lr={self.net.lr}), or look "
                "for NaN in the input."
            )
        return means


class JointTrainer:
    """Trains several nets together by the parameters of a classifier.

    Parameters
    ----------
    trainer : SupervisedTrainer
        Makes the nets and counts the texts.
    model : MutualLearningClassifier
        Has the parameters `n_nets`, `kl_weight`, `update`, `epoch_over`, `finetune_epochs` and
        `balanced_batches`.
    X : indexable of length n
        Encoded labelled documents.
    codes : ndarray of int of shape (n,)
        Their classes.
    weights : ndarray of shape (n,) or None
        Scales the loss of each row, its divergence included.
    X_unlabeled : indexable or None
        Encoded unlabelled documents.
    """

    def __init__(
        self,
        trainer: SupervisedTrainer,
        model: Any,
        X: Any,
        codes: IntArray,
        weights: FloatArray | None,
        X_unlabeled: Any,
    ) -> None:
        self.trainer = trainer
        self.model = model
        self.X, self.codes, self.X_unlabeled = X, codes, X_unlabeled
        K = len(trainer.classes)
        self.targets = distillation_targets(one_hot(codes, K), None, weights)
        self.learners = [
            Learner(trainer, X, codes, weights, number) for number in range(model.n_nets)
        ]
        self._draws = trainer.rng(0)
        self._draws_unlabeled = trainer.rng(0, 2)
        self._leader = self.learners[0]  # its iterator cuts the batches of all
        if X_unlabeled is not None:
            no_targets = np.zeros((get_len(X_unlabeled), 2 * K), dtype=np.float32)
            self._no_targets = no_targets

    @property
    def nets(self) -> list[NeuralNet]:
        """The nets, in their order."""
        return [learner.net for learner in self.learners]

    def train(self, on_epoch: Callable[[dict[str, Any]], None]) -> bool:
        """Train for `finetune_epochs` epochs.

        Parameters
        ----------
        on_epoch : callable
            Called after each epoch with what ``history_`` keeps of it.

        Returns
        -------
        bool
            Whether all epochs were trained, and no callback of a net asked to stop.
        """
        epochs = self.model.finetune_epochs
        steps = epochs * self._steps_per_epoch()
        own = [net.callbacks_ for net in self.nets]
        schedules = [ScheduledLR(partial(slanted, n_steps=steps)).initialize() for _ in own]
        for net, callbacks, schedule in zip(self.nets, own, schedules, strict=True):
            net.callbacks_ = [*callbacks, ("learning_rate", schedule)]
        try:
            with ExitStack() as stack:
                for net in self.nets:
                    stack.enter_context(quiet(net))
                # for modules that draw by python or numpy; torch has its streams
                stack.enter_context(isolated(derive_seed(self.trainer.root, 0)))
                self._notify("on_train_begin", X=self.X, y=self.targets)
                batches = self._epochs()
                finished = all(self._epoch(next(batches), on_epoch) for _ in range(epochs))
                for net in self.nets:
                    release_optimizer(net)
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
    def _over_unlabeled(self) -> bool:
        return self.X_unlabeled is not None and self.model.epoch_over == "unlabeled"

    def _steps_per_epoch(self) -> int:
        """Count the steps of an epoch; an error if either of the two sets yields no batch."""
        net = self._leader.net
        steps = n_steps(net, self.X, self.targets, 1)
        if self.X_unlabeled is None:
            return steps
        on_unlabeled = n_steps(net, self.X_unlabeled, self._no_targets, 1)
        return on_unlabeled if self._over_unlabeled() else steps

    def _epochs(self) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Pairs of a labelled and an unlabelled batch, epoch by epoch.

        An epoch is one pass over one of the sets. The stream of the other goes on from epoch to
        epoch, and begins another pass when it is exhausted.
        """
        if self.X_unlabeled is None:
            while True:
                yield ((batch, None) for batch in self._labeled_pass())
        elif self._over_unlabeled():
            stream = _endless(self._labeled_pass)
            while True:
                yield ((next(stream), batch) for batch in self._unlabeled_pass())
        else:
            stream = _endless(self._unlabeled_pass)
            while True:
                yield ((batch, next(stream)) for batch in self._labeled_pass())

    def _labeled_pass(self) -> Iterator[Any]:
        rows = epoch_rows(self.codes, self.model.balanced_batches, self._draws)
        return self._pass(multi_indexing(self.X, rows), self.targets[rows], self._leader.random)

    def _unlabeled_pass(self) -> Iterator[Any]:
        rows = shuffled(len(self._no_targets), self._draws_unlabeled)
        X = multi_indexing(self.X_unlabeled, rows)
        return self._pass(X, self._no_targets, self._leader.random_more)

    def _pass(self, X: Any, targets: AnyArray, stream: RandomStream) -> Iterator[Any]:
        """Batches of the given rows by the net's own iterator, which may draw when it is asked."""
        net = self._leader.net
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
        self, batches: Iterable[tuple[Any, Any]], on_epoch: Callable[[dict[str, Any]], None]
    ) -> bool:
        """Train one epoch; False if a callback of a net asked to stop."""
        start = time.perf_counter()
        count = 0
        dataset = self._leader.net.get_dataset(self.X, self.targets)
        self._notify("on_epoch_begin", dataset_train=dataset, dataset_valid=None)
        leading_rows = len(self._no_targets) if self._over_unlabeled() else len(self.codes)
        self.trainer.progress.expect(len(self.learners) * leading_rows)
        try:
            for labeled, unlabeled in batches:
                self._step(labeled, unlabeled)
                leading = unlabeled if self._over_unlabeled() else labeled
                n_texts = get_len(unpack_data(leading)[0])
                self.trainer.progress.advance(len(self.learners) * n_texts)
                count += 1
        finally:
            for learner in self.learners:
                learner.fetch_losses()
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
        """One step of every net on the same batches (steps 3 to 5)."""
        self._notify("on_batch_begin", batch=labeled, training=True)
        forwards = [learner.forward(labeled, unlabeled) for learner in self.learners]
        known = [logits.detach() for _, logits in forwards]
        last = self.learners[-1]
        for k, (learner, (outputs, logits)) in enumerate(zip(self.learners, forwards, strict=True)):
            peers = known[:k] + known[k + 1 :]
            learner.step(labeled, outputs, logits, peers, self.model.kl_weight)
            if self.model.update == "sequential" and learner is not last:
                known[k] = learner.logits_anew(labeled, unlabeled)


def _endless(one_pass: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    while True:
        yield from one_pass()
