"""Self-training with throttling, the oldest way to learn from unlabelled documents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._data import PartlyLabeled, class_counts
from sklearn_spt._estimator import progress_bar
from sklearn_spt._labels import Codes, FloatArray, check_scalar
from sklearn_spt._random import derive_seed, generator
from sklearn_spt._training import Trainer
from sklearn_spt.baselines._common import (
    ThrottledBaseline,
    hold_out,
    pool_size,
    positive_code,
    throttle,
    training_set,
    validation_score,
    warn_nothing_added,
)


@dataclass
class _AfterIteration:
    """Nets and pseudo-labels after an iteration."""

    nets: list[NeuralNet]
    pseudo: Codes  # code of each unlabelled document, or -1
    labeled_iter: Codes  # the iteration that gave it, or -1
    record: dict[str, Any]  # entry of `history_`
    ended: str | None  # why no iteration follows, if known


@dataclass(eq=False, repr=False, kw_only=True)
class SelfTrainingOnViews(ThrottledBaseline):
    """Template of the methods whose training sets grow by confident documents.

    There is a net and a training set for each view of the documents.
    """

    _views: ClassVar[tuple[str, ...]] = ("document",)

    n_iterations: int | None = None
    validation_fraction: float = 0.2
    pos_label: Any = None

    def _check_params(self) -> None:
        super()._check_params()
        if self.n_iterations is not None:
            check_scalar(self.n_iterations, "n_iterations", Integral, min_val=0)

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

    def _iterations(self, trainer: Trainer, data: PartlyLabeled) -> Iterator[_AfterIteration]:
        """Yield the state after the supervised training and after each iteration."""
        X_U = self._by_view(data.U)
        views = zip(self._by_view(data.X), X_U, strict=True)
        parts = [replace(data, X=X, U=U) for X, U in views]
        pseudo = np.full(data.n_unlabeled, -1, dtype=np.intp)
        labeled_iter, pool, start = pseudo.copy(), pseudo[:0], time.perf_counter()
        added = [(pool, pool)] * len(parts)
        for t in count():
            nets, losses, n_train = [], [], []
            for i, (part, new) in enumerate(zip(parts, added, strict=True)):
                X, y, weights = training_set(part, *new)
                path = (t,) if i == 0 else (t, i + 1)
                M, loss = trainer.train(X, y, weights, *path)
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
            state = _AfterIteration(nets, pseudo.copy(), labeled_iter.copy(), record, ended)
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


class ThrottledSelfTrainingClassifier(SelfTrainingOnViews):
    """Self-training that adds a few confident documents in each iteration.

    A net trained on the labelled documents labels a pool of unlabelled ones: in iteration t a
    random t tenths of them, and more if none is confident enough. The most confident join the
    training set with their predicted labels, and a fresh net is trained on it. The number of
    iterations is chosen on held-out labelled documents. Then the method starts again with all of
    them. Pseudo-labels are never revised.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        The net, as in `SelfPretrainingClassifier`.
    threshold : float >= 0, default=0.9
        θ, minimum confidence of a pseudo-label. Above 1 training is supervised. The default is
        the paper's.
    max_fraction : float > 0, default=0.1
        Maximum share of the current training set that an iteration adds, rounded down but at
        least one document. The default is the paper's.
    max_iter : int, default=20
        Maximum number of iterations to choose from.
    n_iterations : int or None, default=None
        Number of iterations. None takes the smallest with the best score on held-out documents.
    validation_fraction : float in (0, 1), default=0.2
        Share of the labelled documents to hold out, by class. Rows of weight 0 are not held out.
        The default is the paper's.
    pos_label : label or None, default=None
        Class whose F1 is the score if there are two classes; None is the greater label. More
        classes are scored by macro-F1.
    finetune_epochs : int, default=3
        Epochs of each training run. The default is the paper's.
    balanced_batches : bool, default=True
        Whether training draws all classes equally often, as the paper's code does.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are equivalent.
    random_state : int, RandomState or None, default=None
        Seed of all random numbers. A fit changes no global random state.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    estimators_ : list of one skorch.NeuralNet
        The net of the last iteration.
    n_iter_ : int
        Number of iterations.
    transduction_ : ndarray of shape (n_rows,)
        Given label, pseudo-label, or the marker. First the rows of X, then those of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration that added a document; 0 for labelled rows, -1 for rows never added.
    termination_condition_ : {"validation", "n_iterations", "no_change", "all_labeled", \
"no_unlabeled"}
        Reason why the fit ended. "validation": the number was chosen. "n_iterations": it was given,
        or no row could be held out. "no_change": no document reached `threshold`.
    history_ : list of dict
        One entry for the supervised net and one for each iteration: ``iteration``, ``n_train``
        (size of the training set), ``pool_size``, ``n_added``, ``pseudo_label_counts`` (of those
        added), ``loss`` of each epoch, ``seconds``.
    selection_history_ : list of dict
        The same, with ``validation_score``, of the run that chose the number of iterations. That
        run ends at a score of 1.

    References
    ----------
    .. [1] D. Yarowsky, "Unsupervised Word Sense Disambiguation Rivaling Supervised Methods",
       ACL 1995.
    .. [2] S. Abney, "Semisupervised Learning for Computational Linguistics", 2007 (throttling).
    .. [3] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, section 4.
    """
