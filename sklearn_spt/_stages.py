"""The stages of Self-Pretraining: first teacher, stage 1, stage 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.dataset import get_len

from sklearn_spt._batches import delete_tokens
from sklearn_spt._labels import FloatArray
from sklearn_spt._losses import distillation_targets, predicted_codes
from sklearn_spt._pretrained import load_encoder
from sklearn_spt._random import generator, torch_state
from sklearn_spt._training import RightTrapezoidalLR, Trainer, set_loss, steps_per_epoch, train

Losses = dict[str, list[float]]


def seed_path(t: int, number: int) -> tuple[int, ...]:
    """Return the path of a net's seed; the first teacher has that of `BertClassifier.fit`."""
    return (t,) if number == 0 else (t, 5, number)


def train_teacher(
    trainer: Trainer, X: Any, y: Any, weights: FloatArray, number: int
) -> tuple[NeuralNet, Losses]:
    """Train a net on the labelled documents only; joblib can keep the result."""
    M, losses = trainer.train(X, y, weights, *seed_path(0, number))
    return M, {"supervised": losses}


def train_stage_1(
    trainer: Trainer,
    X: Any,
    y: Any,
    weights: FloatArray,
    *,
    path: tuple[int, ...],
    C: Any,
    P: FloatArray,
    temperature: float,
    epochs: int,
    token_deletion: float,
    make_schedule: Callable[[int, int], RightTrapezoidalLR],
) -> tuple[NeuralNet, RightTrapezoidalLR, np.random.Generator, list[float], list[Any]]:
    """Train a fresh student on the sample; return all that stage 2 goes on with.

    joblib can keep the result.
    """
    M = trainer.fresh(X, y, weights)
    targets = distillation_targets(np.zeros_like(P), P)
    n_C = epochs * steps_per_epoch(M, C, targets)
    n_L = trainer.epochs * steps_per_epoch(M, X, np.zeros((get_len(X), targets.shape[1])))
    schedule, rng = make_schedule(n_C, max(n_L, 1)), generator(trainer.root, *path, 2)
    set_loss(M, 1.0, temperature)
    augment = None
    if token_deletion:
        pad_id = load_encoder(trainer.net.pretrained).pad_id
        augment = partial(delete_tokens, pad_id=pad_id, share=token_deletion, rng=rng)
    how: Any = {"epochs": epochs, "balanced": trainer.balanced, "rng": rng, "bar": trainer.bar}
    losses = train(M, C, targets, predicted_codes(P), schedule=schedule, augment=augment, **how)
    schedule.step_ = n_C  # EarlyStopping may have ended the stage
    return M, schedule, rng, losses, torch_state()


def train_stage_2(
    trainer: Trainer,
    M: NeuralNet,
    X: Any,
    y: Any,
    weights: FloatArray,
    q: FloatArray,
    schedule: RightTrapezoidalLR,
    rng: np.random.Generator,
) -> list[float]:
    """Train a student on the labelled documents, with true labels and soft ones, q."""
    targets = distillation_targets(np.eye(q.shape[1])[y], q, weights)
    how: Any = {"epochs": trainer.epochs, "balanced": trainer.balanced, "bar": trainer.bar}
    losses = train(M, X, targets, y, schedule=schedule, rng=rng, **how)
    M.optimizer_.state.clear()  # twice as large as the net
    return losses


def mean_losses(losses: Sequence[Losses]) -> Losses:
    """Return the mean loss of each epoch over the nets, by stage."""
    return {
        stage: [
            float(np.mean(epoch)) for epoch in zip(*[loss[stage] for loss in losses], strict=False)
        ]
        for stage in (losses[0] if losses else ())
    }
