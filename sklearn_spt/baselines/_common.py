"""What the methods share: parameters, selection, hold-out, choice of the number of iterations."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import count, islice
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import (
    BaseSemiSupervisedClassifier,
    PartlyLabeled,
    class_counts,
    concatenate,
)
from sklearn_spt._batches import progress_bar
from sklearn_spt._labels import Codes, FloatArray, check_scalar
from sklearn_spt._random import derive_seed, generator, share_of
from sklearn_spt._training import Trainer


@dataclass(eq=False, repr=False)
class Baseline(BaseSemiSupervisedClassifier):
    """Parameters of all methods in this folder; dataclasses write ``__init__``."""

    estimator: Any = None
    _: KW_ONLY
    finetune_epochs: int = 3
    balanced_batches: bool = True
    unlabeled_marker: Any = -1
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0


# -- selection -------------------------------------------------------------------------------------
def check_throttling(model: Any) -> None:
    """Raise an error if a parameter that the throttled methods share is unusable."""
    limits = {"min_val": 0, "include_boundaries": "neither"}
    check_scalar(model.threshold, "threshold", Real, min_val=0)
    check_scalar(model.max_fraction, "max_fraction", Real, **limits)
    check_scalar(model.max_iter, "max_iter", Integral, min_val=0)
    if hasattr(model, "validation_fraction"):
        share = model.validation_fraction
        check_scalar(share, "validation_fraction", Real, max_val=1, **limits)


def throttle(P: FloatArray, n_train: int, model: Any) -> Codes:
    """Return the most confident rows, best first: a share of `n_train`, but at least one."""
    confidence = P.max(axis=1)
    eligible = np.flatnonzero(confidence >= model.threshold)
    best_first = np.argsort(-confidence[eligible], kind="stable")  # ties go to the lower row
    return eligible[best_first[: max(1, share_of(model.max_fraction, n_train))]]


def pool_size(t: int, n_unlabeled: int) -> int:
    """Return the size of the pool of iteration t: t tenths of the unlabelled documents."""
    return min(n_unlabeled, t * math.ceil(n_unlabeled / 10))


def training_set(
    data: PartlyLabeled, rows: Codes, pseudo: Codes
) -> tuple[Any, Codes, FloatArray | None]:
    """Return X, y and weights of the labelled rows, then of unlabelled rows, with weight 1."""
    X = data.X if len(rows) == 0 else concatenate(data.X, multi_indexing(data.U, rows))
    w = None if data.weights is None else np.concatenate([data.weights, np.ones(len(rows))])
    return X, np.concatenate([data.y, pseudo]), w


def warn_nothing_added(threshold: float, which: str = "") -> None:
    """Warn, called from `_fit`, that no document reached a threshold of at most 1."""
    if threshold <= 1:
        warnings.warn(
            f"no unlabelled document {which}was labelled with a confidence of "
            f"threshold={threshold} or more: the model is trained on the labelled rows only. "
            "Lower threshold.",
            UserWarning,
            stacklevel=4,
        )


# -- hold-out --------------------------------------------------------------------------------------
def hold_out(
    data: PartlyLabeled, fraction: float, rng: np.random.Generator
) -> tuple[PartlyLabeled, PartlyLabeled] | None:
    """Split the labelled rows into training and validation; warn and return None if too few.

    Rows of weight zero are not held out. A method that `_fit` calls does this.
    """
    counted = np.arange(len(data.y)) if data.weights is None else np.flatnonzero(data.weights)
    codes, n = data.y[counted], len(counted)
    sizes, n_valid = np.unique(codes, return_counts=True)[1], share_of(fraction, n, up=True)
    if sizes.min() < 2 or min(n_valid, n - n_valid) < len(sizes):
        warnings.warn(
            f"{n_valid} of {n} labelled rows cannot be held out by class, so one iteration is run. "
            "Label more rows of the rare classes, or change validation_fraction.",
            UserWarning,
            stacklevel=5,
        )
        return None
    seed = int(rng.integers(2**31))
    how = {"test_size": n_valid, "stratify": codes, "random_state": seed}
    valid = np.sort(train_test_split(counted, **how)[1])
    return data.part(np.setdiff1d(np.arange(len(data.y)), valid)), data.part(valid)


def positive_code(classes: NDArray[Any], pos_label: Any) -> int:
    """Return the code of the class whose F1 counts; None is the last class."""
    known = classes.tolist()
    if pos_label is not None and pos_label not in known:
        raise ValueError(f"pos_label={pos_label!r} is none of the classes {known}.")
    return len(known) - 1 if pos_label is None else known.index(pos_label)


def validation_score(valid: PartlyLabeled, P: FloatArray, positive: int) -> float:
    """Return the F1 of the positive class of two, or the macro-F1 of more."""
    labels = [positive] if valid.n_classes == 2 else None
    how = {"average": "macro", "sample_weight": valid.weights, "zero_division": 0.0}
    return float(f1_score(valid.y, P.argmax(axis=1), labels=labels, **how))


# -- iterations ------------------------------------------------------------------------------------
@dataclass
class _State:
    """Nets and pseudo-labels after an iteration."""

    nets: list[NeuralNet]
    pseudo: Codes  # code of each unlabelled document, or -1
    labeled_iter: Codes  # the iteration that gave it, or -1
    record: dict[str, Any]  # entry of `history_`
    ended: str | None  # why no iteration follows, if known


@dataclass(eq=False, repr=False, kw_only=True)
class ThrottledClassifier(Baseline):
    """Template of the methods whose training sets grow by confident documents.

    There is a net and a training set for each view of the documents.
    """

    _views: ClassVar[tuple[str, ...]] = ("document",)

    threshold: float = 0.9
    max_fraction: float = 0.1
    max_iter: int = 20
    n_iterations: int | None = None
    validation_fraction: float = 0.2
    pos_label: Any = None

    def _check_params(self) -> None:
        super()._check_params()
        check_throttling(self)
        if self.n_iterations is not None:
            check_scalar(self.n_iterations, "n_iterations", Integral, min_val=0)

    def _nets(self, net: NeuralNet) -> list[NeuralNet]:
        """Return the unfitted net of each view."""
        return [net]

    def _by_view(self, X: Any) -> list[Any]:
        """Return the views of encoded documents."""
        return [X] if len(self._views) == 1 else [X and X[view] for view in self._views]

    def _new(self, pool: Codes, P: list[FloatArray], n: list[int]) -> list[tuple[Codes, Codes]]:
        """Select rows of the pool, and their pseudo-labels, for training sets of n rows."""
        return [self._select(pool, P[0], n[0])]

    def _select(self, pool: Codes, P: FloatArray, n_train: int) -> tuple[Codes, Codes]:
        """Return the most confident rows of a pool, and their predicted classes."""
        chosen = throttle(P, n_train, self)
        return pool[chosen], P[chosen].argmax(axis=1)

    def _fit(self, net: NeuralNet, data: PartlyLabeled) -> None:
        """Choose the number of iterations, then run them on all labelled documents."""
        positive = positive_code(data.classes, self.pos_label)
        n, why = self.n_iterations, "n_iterations"
        if not data.n_unlabeled:
            n, why = 0, "no_unlabeled"
        elif self.threshold > 1:
            n, why = 0, "no_change"
        elif n is None and self.max_iter == 0:
            n, why = 0, "validation"
        self.selection_history_: list[dict[str, Any]] = []
        self.history_: list[dict[str, Any]] = []
        with progress_bar(self.verbose, None, "supervised net") as bar:
            trainer = self._trainer(net, data, bar)
            if n is None:
                n, why = self._choose(trainer, data, positive)
            for state in islice(self._iterations(trainer, data), n + 1):
                self.history_.append(state.record)
        self.estimators_ = state.nets
        self.n_iter_ = int(state.record["iteration"])
        self.termination_condition_ = state.ended or why
        self._set_transduction(data, state.pseudo, state.labeled_iter)
        if self.termination_condition_ == "no_change" and self.n_iter_ == 0:
            warn_nothing_added(self.threshold)

    def _choose(self, trainer: Trainer, data: PartlyLabeled, positive: int) -> tuple[int, str]:
        """Return the smallest number of iterations with the best validation score, and why."""
        search = replace(trainer, root=derive_seed(trainer.root, 0, 3))
        parts = hold_out(data, self.validation_fraction, generator(search.root, 0, 1))
        if parts is None:
            return 1, "n_iterations"
        best, n = -1.0, 0
        for state in islice(self._iterations(search, parts[0]), self.max_iter + 1):
            learners = zip(state.nets, self._by_view(parts[1].X), strict=True)
            P = self._combine([search.probabilities(M, X) for M, X in learners])
            score = validation_score(parts[1], P, positive)
            state.record["validation_score"] = score
            self.selection_history_.append(state.record)
            if score > best:
                best, n = score, int(state.record["iteration"])
            if best == 1.0:
                break  # no later iteration can be better
        only_one = len(self.selection_history_) == 1
        return n, (only_one and state.ended) or "validation"

    def _iterations(self, trainer: Trainer, data: PartlyLabeled) -> Iterator[_State]:
        """Yield the state after the supervised training and after each iteration."""
        templates, X_U = self._nets(trainer.net), self._by_view(data.U)
        views = zip(self._by_view(data.X), X_U, strict=True)
        parts = [replace(data, X=X, U=U) for X, U in views]
        pseudo = np.full(data.n_unlabeled, -1, dtype=np.intp)
        labeled_iter, pool, start = pseudo.copy(), pseudo[:0], time.perf_counter()
        added = [(pool, pool)] * len(parts)
        for t in count():
            nets, losses, n_train = [], [], []
            for i, (net, part, new) in enumerate(zip(templates, parts, added, strict=True)):
                X, y, weights = training_set(part, *new)
                path = (t,) if i == 0 else (t, i + 1)
                M, loss = trainer.train(X, y, *path, weights=weights, net=net)
                nets.append(M)
                losses.append(loss)
                n_train.append(len(y))
            one, codes = len(nets) == 1, pseudo[labeled_iter == t]
            record = {
                "iteration": t,
                "n_train": n_train[0] if one else dict(zip(self._views, n_train, strict=True)),
                "pool_size": len(pool),
                "n_added": len(codes),
                "pseudo_label_counts": class_counts(codes, data.classes),
                "loss": losses[0] if one else dict(zip(self._views, losses, strict=True)),
                "seconds": time.perf_counter() - start,
            }
            complete = len(pseudo) > 0 and (pseudo >= 0).all()
            ended = "all_labeled" if complete else None
            state = _State(nets, pseudo.copy(), labeled_iter.copy(), record, ended)
            yield state
            start = time.perf_counter()
            trainer.bar.set_description(f"iteration {t + 1}")
            for pool, P in self._pools(trainer, nets, X_U, pseudo, t + 1):
                chosen = self._new(pool, P, n_train)
                if any(len(rows) for rows, _ in chosen):
                    break
            else:  # the pool held all unlabelled documents
                state.ended = state.ended or "no_change"
                return
            for rows, codes in chosen:
                pseudo[rows], labeled_iter[rows] = codes, t + 1
            added = [
                (np.concatenate([old[0], rows]), np.concatenate([old[1], codes]))
                for old, (rows, codes) in zip(added, chosen, strict=True)
            ]

    def _pools(
        self, trainer: Trainer, nets: list[NeuralNet], X_U: list[Any], pseudo: Codes, t: int
    ) -> Iterator[tuple[Codes, list[FloatArray]]]:
        """Yield the pool of iteration t and its probabilities by net, then larger pools."""
        order = generator(trainer.root, t, 1).permutation(np.flatnonzero(pseudo < 0))
        P, drawn = [np.zeros((len(pseudo), len(trainer.classes))) for _ in nets], 0
        while drawn < len(order):
            new = order[drawn : pool_size(t, len(pseudo))]
            for p, M, U in zip(P, nets, X_U, strict=True):
                p[new] = trainer.probabilities(M, multi_indexing(U, new))
            drawn, t = drawn + len(new), t + 1
            pool = np.sort(order[:drawn])  # ties go to the lower row
            yield pool, [p[pool] for p in P]
