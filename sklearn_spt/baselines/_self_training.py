"""Self-training with throttling, the oldest way to learn from unlabelled documents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._data import PartlyLabeled, class_counts
from sklearn_spt._estimator import progress_bar
from sklearn_spt._labels import Codes, FloatArray
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


@dataclass(eq=False, repr=False, kw_only=True)
class ThrottledSelfTrainingClassifier(ThrottledBaseline):
    """Self-training that adds a few confident documents in each iteration.

    A net trained on the labelled documents labels a pool of unlabelled ones: in iteration t a
    random t tenths of them, and more if none is confident enough. The most confident join the
    training set with their predicted labels, and a fresh net is trained on it. The number of
    iterations is chosen on held-out labelled documents. Then the method starts again with all of
    them. Pseudo-labels are never revised.

    Parameters
    ----------
    threshold : float >= 0, default=0.9
        θ, minimum confidence of a pseudo-label. Above 1 training is supervised. The default is
        the paper's.
    max_fraction : float > 0, default=0.1
        Maximum share of the current training set that an iteration adds, rounded down but at
        least one document. The default is the paper's.
    max_iter : int, default=20
        Maximum number of iterations. The smallest number up to it that scores best on held-out
        documents is chosen.
    validation_fraction : float in (0, 1) or None, default=0.2
        Share of the labelled documents to hold out, by class. Rows of weight 0 are not held out.
        The default is the paper's. None holds nothing out and runs `max_iter` iterations.
    pos_label : label or None, default=None
        Class whose F1 is the score if there are two classes; None is the greater label. More
        classes are scored by macro-F1.
    finetune_epochs : int, default=3
        Epochs of each training run. The default is the paper's.
    estimator, balanced_batches, unlabeled_marker, random_state, verbose
        As in `SelfPretrainingClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, n_iter_, transduction_, labeled_iter_
        As in `SelfPretrainingClassifier`; rows "never drawn" are those that were never added.
    estimators_ : list of one skorch.NeuralNet
        The net of the last iteration.
    termination_condition_ : {"validation", "max_iter", "no_change", "all_labeled", "no_unlabeled"}
        Reason why the fit ended. "validation": the number was chosen. "max_iter": it was not, or no
        row could be held out. "no_change": no document reached `threshold`.
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
    .. [3] The paper of `SelfPretrainingClassifier`, section 4.
    """

    #: There is a net and a training set for each view of the documents.
    _views: ClassVar[tuple[str, ...]] = ("document",)

    validation_fraction: float | None = 0.2
    pos_label: Any = None

    def _by_view(self, X: Any) -> list[Any]:
        """Return the views of encoded documents."""
        return [X] if len(self._views) == 1 else [X and X[view] for view in self._views]

    def _named(self, of_nets: list[Any]) -> Any:
        """Return what belongs to each net by view, or that of the only net."""
        return of_nets[0] if len(of_nets) == 1 else dict(zip(self._views, of_nets, strict=True))

    def _new(self, pool: Codes, P: list[FloatArray], n: list[int]) -> list[tuple[Codes, Codes]]:
        """Select rows of the pool, and their pseudo-labels, for training sets of n rows."""
        return [throttle(pool, P[0], n[0], self)]

    def _fit(self, net: NeuralNet, data: PartlyLabeled) -> None:
        """Choose the number of iterations, then run them on all labelled documents."""
        positive_code(data.classes, self.pos_label)  # an error comes before the training
        why = "max_iter" if self.threshold <= 1 else "no_change"
        why = why if data.n_unlabeled else "no_unlabeled"
        n = self.max_iter if why == "max_iter" else 0
        self.selection_history_: list[dict[str, Any]] = []
        with progress_bar(self.verbose, None, "supervised net", net.batch_size) as bar:
            trainer = self._trainer(net, data, bar)
            if n and self.validation_fraction is not None:
                search = replace(trainer, root=derive_seed(trainer.root, 0, 3))
                parts = hold_out(data, self.validation_fraction, generator(search.root, 0, 1))
                n = 1
                if parts:
                    self.selection_history_, ended = self._run(search, self.max_iter, *parts)[2:]
                    scores = [entry["validation_score"] for entry in self.selection_history_]
                    n = int(np.argmax(scores))
                    why = ended if ended and len(scores) == 1 else "validation"
            self.estimators_, labels, self.history_, ended = self._run(trainer, n, data)
        self.n_iter_, self.termination_condition_ = len(self.history_) - 1, ended or why
        self._set_transduction(data, *labels)
        if self.termination_condition_ == "no_change" and self.n_iter_ == 0:
            warn_nothing_added(self.threshold)

    def _run(
        self, trainer: Trainer, n_iter: int, data: PartlyLabeled, valid: PartlyLabeled | None = None
    ) -> tuple[list[NeuralNet], tuple[Codes, Codes], list[dict[str, Any]], str | None]:
        """Train on the labelled documents, then run iterations, up to a score of 1 on `valid`.

        Returned are the last nets, pseudo-labels and the iterations that gave them, the history,
        and why it ended before `n_iter` iterations.
        """
        X_U = self._by_view(data.U)
        parts = [replace(data, X=X, U=U) for X, U in zip(self._by_view(data.X), X_U, strict=True)]
        pseudo = np.full(data.n_unlabeled, -1, dtype=np.intp)
        labeled_iter, pool, ended = pseudo.copy(), pseudo[:0], None
        added, history = [(pool, pool)] * len(parts), []
        nets: list[NeuralNet] = []
        n_train: list[int] = []
        for t in range(n_iter + 1):
            start = time.perf_counter()
            if t:
                trainer.bar.set_description(f"iteration {t}")
                for pool, P in self._pools(trainer, nets, X_U, pseudo, t):
                    chosen = self._new(pool, P, n_train)
                    if any(len(rows) for rows, _ in chosen):
                        break
                else:  # the pool held all unlabelled documents
                    ended = "no_change"
                    break
                for rows, codes in chosen:
                    pseudo[rows], labeled_iter[rows] = codes, t
                added = [
                    (np.concatenate([old[0], rows]), np.concatenate([old[1], codes]))
                    for old, (rows, codes) in zip(added, chosen, strict=True)
                ]
            sets = [training_set(part, *new) for part, new in zip(parts, added, strict=True)]
            paths = [(t,), *((t, i) for i in range(2, 1 + len(sets)))]
            trained = [trainer.train(*L, *path) for L, path in zip(sets, paths, strict=True)]
            nets, n_train = [M for M, _ in trained], [len(y) for _, y, _ in sets]
            counts = class_counts(pseudo[labeled_iter == t], data.classes)
            entry: dict[str, Any] = {"iteration": t, "n_train": self._named(n_train)}
            entry |= {"pool_size": len(pool), "n_added": sum(counts.values())}
            loss = self._named([loss for _, loss in trained])
            entry |= {"pseudo_label_counts": counts, "loss": loss}
            history.append(entry | {"seconds": time.perf_counter() - start})
            if valid is not None:
                learners = zip(nets, self._by_view(valid.X), strict=True)
                mean = self._combine([trainer.probabilities(M, X) for M, X in learners])
                history[-1]["validation_score"] = validation_score(valid, mean, self.pos_label)
            if t and (pseudo >= 0).all():
                ended = "all_labeled"
            if ended or history[-1].get("validation_score") == 1.0:
                break  # no later iteration can be better
        return nets, (pseudo, labeled_iter), history, ended

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
