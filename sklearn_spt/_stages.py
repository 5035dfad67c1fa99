"""What a fit of Self-Pretraining does: its plan, first teachers, stage 1, stage 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_memory
from skorch import NeuralNet
from skorch.dataset import get_len

from sklearn_spt._batches import delete_tokens
from sklearn_spt._data import PartlyLabeled
from sklearn_spt._labels import FloatArray
from sklearn_spt._losses import distillation_targets, predicted_codes
from sklearn_spt._module import BertModule
from sklearn_spt._pretrained import load_encoder
from sklearn_spt._random import generator, seeded, set_torch_state, torch_state
from sklearn_spt._training import RightTrapezoidalLR, Trainer, set_loss, steps_per_epoch, train

Losses = dict[str, list[float]]

#: Most labelled documents per class, on average, with which "auto" fits linear layers anew.
REFIT_PER_CLASS = 30
#: Most labelled documents per class, and most in all, with which "auto" is ten epochs.
TEN_EPOCHS_PER_CLASS, TEN_EPOCHS_IN_ALL = 10, 100


@dataclass(frozen=True)
class Plan:
    """What a fit does, decided before its first net is trained."""

    refit_head: bool
    finetune_epochs: int
    step_size: float
    chosen: str  # what "auto" chose, and why
    n_nets: int  # first teachers that are nets
    others: list[Any]  # first teachers that are none
    sizes: list[int]  # of the sample of each iteration
    work: list[int]  # texts that the first teachers and each iteration read


def chosen_by_auto(
    model: Any, net: NeuralNet, n_L: int, n_classes: int, n_U: int
) -> tuple[bool, int, float, str]:
    """Decide refit_head, finetune_epochs and step_size where they are "auto", and say why."""
    per_class, can = n_L / n_classes, net.module is BertModule
    refit = can and per_class <= REFIT_PER_CLASS if model.refit_head == "auto" else model.refit_head
    if refit and not can:
        raise ValueError(
            "refit_head=True needs a BertClassifier with its own module, but estimator is a "
            f'{type(net).__name__}; set refit_head="auto".'
        )
    refit = bool(refit and n_U > 0 and model.max_iter != 0)  # else it is plain fine-tuning
    few = refit and per_class <= TEN_EPOCHS_PER_CLASS and n_L <= TEN_EPOCHS_IN_ALL
    epochs = (10 if few else 3) if model.finetune_epochs == "auto" else int(model.finetune_epochs)
    step: Any = (1.0 if refit else 0.2) if model.step_size == "auto" else model.step_size
    values = {"refit_head": refit, "finetune_epochs": epochs}
    values |= {"step_size": step} if n_U and model.max_iter != 0 else {}
    chosen = [f"{k}={value}" for k, value in values.items() if getattr(model, k) == "auto"]
    counts = f"there are {per_class:.4g} labels per class"
    of_epochs = refit and model.finetune_epochs == "auto"
    if of_epochs and not few and per_class <= TEN_EPOCHS_PER_CLASS:
        counts += f", {n_L} in all"
    reasons = {
        "there are no unlabelled rows": n_U == 0,
        "max_iter=0": model.max_iter == 0,
        f"refit_head=True and {counts}": model.refit_head != "auto" and of_epochs,
        f"refit_head={model.refit_head}": model.refit_head != "auto",
        f"the net is a {type(net).__name__}": not can,
        counts: True,
    }
    why = next(reason for reason, holds in reasons.items() if holds)
    return refit, epochs, step, f"{', '.join(chosen)}, since {why}" if chosen else ""


def seed_path(t: int, number: int) -> tuple[int, ...]:
    """Return the path of a net's seed; the first teacher has that of `BertClassifier.fit`."""
    return (t,) if number == 0 else (t, 5, number)


def train_teacher(
    trainer: Trainer, X: Any, y: Any, weights: FloatArray, number: int
) -> tuple[NeuralNet, Losses]:
    """Train a net on the labelled documents only; joblib can keep the result."""
    M, losses = trainer.train(X, y, weights, *seed_path(0, number))
    return M, {"supervised": losses}


def train_student(
    model: Any,
    trainer: Trainer,
    data: PartlyLabeled,
    t: int,
    number: int,
    C: Any,
    P: FloatArray,
    q: FloatArray,
) -> tuple[NeuralNet, Losses]:
    """Train a fresh net on the sample, then on L; return it and its losses by stage."""
    # in the first iteration P does not depend on α, and stage 1 never depends on λ
    pretrain = check_memory(model.memory if t == 1 else None).cache(train_stage_1)
    path = seed_path(t, number)
    with seeded(trainer.root, *path):
        M, schedule, rng, loss_1, torch_stream = pretrain(
            trainer,
            *data.L,
            path=path,
            C=C,
            P=P,
            temperature=model.temperature,
            epochs=model.pretrain_epochs,
            token_deletion=model.token_deletion,
            make_schedule=model._schedule,
        )
        set_torch_state(torch_stream)  # it goes on as if stage 1 had just run
        model._set_loss(M, model.lam, model.temperature)
        loss_2 = train_stage_2(trainer, M, *data.L, q, schedule, rng)
    return M, {"stage1": loss_1, "stage2": loss_2}


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
