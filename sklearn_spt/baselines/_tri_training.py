"""Tri-training with disagreement: two nets that agree label documents for the third."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._functional import class_counts
from sklearn_spt._random import draw_sample
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_real
from sklearn_spt.baselines._selection import (
    check_throttling,
    pool_size,
    warn_nothing_added,
)
from sklearn_spt.baselines._training_set import training_set
from sklearn_spt.baselines._voting import (
    bootstrap_rows,
    disagreement_sets,
    disagreements,
    majority_mean,
    majority_vote,
    set_quotas,
)


class TriTrainingClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by tri-training with disagreement.

    Three nets are first trained on bootstrap samples of the labelled documents. If two nets agree
    on an unlabelled document and the third does not, the document is a candidate for the set of
    the third net, with the label of the two. Iteration t builds the three sets anew, from a random
    t tenths of the unlabelled documents. If a set has changed, a fresh net is trained on it and all
    labelled documents.

    Parameters
    ----------
    threshold : float >= 0, default=0.9
        θ, minimum confidence of the more confident of the two agreeing nets. Above 1 no document
        is a candidate. The default is the paper's value.
    max_fraction : float > 0, default=0.1
        Maximum share by which the training set of a net grows in an iteration, rounded down but
        at least one document. The default is the paper's value.
    max_iter : int, default=20
        Maximum number of iterations; 0 keeps the nets of the bootstrap samples.
    tol : float in [0, 1], default=0.001
        Stop if an iteration changes the majority label of less than this share of the unlabelled
        documents; 0 never stops.
    estimator, finetune_epochs, balanced_batches, unlabeled_marker, random_state, verbose
        As in `ThrottledSelfTrainingClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, n_threads_
        As in `ThrottledSelfTrainingClassifier`.
    estimators_ : list of three skorch.NeuralNet
        Without unlabelled documents, three times the supervised net.
    n_iter_ : int
        Number of iterations.
    transduction_ : ndarray of shape (n_rows,)
        Given labels and last pseudo-labels (the marker if none): rows of X, then of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration of the last pseudo-label; 0 for labelled rows, -1 for rows that never had one.
    termination_condition_ : {"no_candidates", "no_change", "tol", "max_iter", "no_unlabeled"}
        Why the fit ended. "no_change": no set changed. "tol": few labels changed.
    history_ : list of dict
        One entry for the start and for each iteration: ``iteration``; ``n_train``, number of
        labelled documents plus the sizes of the sets; ``pool_size``; ``set_sizes``; ``n_added``,
        documents in a set that were in none before; ``pseudo_label_counts``; ``label_changes``,
        share of changed majority labels; ``loss`` (mean of each epoch) by net trained;
        ``seconds`` by phase.

    Notes
    -----
    Where the sources leave a choice: all nets label before any is retrained; documents may be
    selected again; the cap limits the growth of a set; both stopping rules wait until the pool
    holds all unlabelled documents; error rates are not estimated, as in [2]_.

    References
    ----------
    .. [1] A. Søgaard, "Simple semi-supervised training of part-of-speech taggers", ACL 2010.
    .. [2] S. Ruder and B. Plank, "Strong baselines for neural semi-supervised learning under
       domain shift", ACL 2018.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        threshold: float = 0.9,
        max_fraction: float = 0.1,
        max_iter: int = 20,
        tol: float = 0.001,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        unlabeled_marker: Any = -1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.threshold = threshold
        self.max_fraction = max_fraction
        self.max_iter = max_iter
        self.tol = tol
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_throttling(self)
        check_real(self.tol, "tol", low=0, high=1)

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        """Mean of the nets that predict the majority class, or of all if no two agree."""
        return majority_mean(np.stack(P))

    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """P holds probabilities by net, and sets[i] the labels in the set of net i, or -1."""
        N, n_U = len(data.y), data.n_unlabeled
        trainer = SupervisedTrainer(self, net, data.classes, "tri-training")
        sets = np.full((3, n_U), -1, dtype=np.int64)
        P = np.zeros((3, n_U, data.n_classes))
        nets: list[Any] = [None, None, None]
        pseudo, labeled_iter = sets[0].copy(), sets[0].copy()
        history = [_record(0, data, sets, sets, 0)]
        t, ended = 0, "max_iter" if n_U else "no_unlabeled"
        # rows of weight zero are in no bootstrap sample
        counted = np.arange(N) if data.weights is None else np.flatnonzero(data.weights)

        def train(i: int, rows: IntArray, *path: int) -> None:
            """Train net i on labelled rows and its set, and label all unlabelled documents."""
            members = np.flatnonzero(sets[i] >= 0)
            X, y, weights = training_set(data, members, sets[i][members], rows)
            with timed(history[t]["seconds"], "training"):
                nets[i], loss = trainer.train(X, y, *path, weights=weights)
            history[t]["loss"][f"net_{i + 1}"] = loss
            with timed(history[t]["seconds"], "labeling"):
                P[i] = trainer.probabilities(nets[i], data.X_unlabeled) if n_U else 0

        with trainer.progress:
            for i in range(3 if n_U else 0):
                sample = bootstrap_rows(data.y[counted], trainer.rng(0, 0, i))
                train(i, counted[sample], 0, 1 + i)
            if not n_U:
                train(0, np.arange(N), 0)
                nets = 3 * nets[:1]
            for t in range(1, 1 + self.max_iter * (n_U > 0)):
                size = pool_size(t, n_U, n_U)
                pool = np.sort(draw_sample(n_U, size, trainer.rng(t)))
                old_sets, votes = sets, majority_vote(P)
                candidates = disagreements(P, self.threshold).any()
                if candidates:
                    quotas = set_quotas(N, (sets >= 0).sum(axis=1), self.max_fraction)
                    sets = np.full_like(old_sets, -1)
                    sets[:, pool] = disagreement_sets(P[:, pool], self.threshold, quotas)
                    members = (sets >= 0).any(axis=0)
                    pseudo[members], labeled_iter[members] = sets.max(axis=0)[members], t
                history.append(_record(t, data, sets, old_sets, size))
                changed = np.flatnonzero((old_sets != sets).any(axis=1)).tolist()
                for i in changed:
                    train(i, np.arange(N), t, 1 + i)
                changes = history[t]["label_changes"] = float(np.mean(majority_vote(P) != votes))
                trainer.progress.say(f"iteration {t}")
                if not candidates:  # no unlabelled document is a candidate
                    ended = "no_candidates"
                elif size == n_U and (not changed or changes < self.tol):
                    ended = "tol" if changed else "no_change"
                if ended != "max_iter":
                    break

        if t and (pseudo < 0).all():
            warn_nothing_added(self.threshold, "on which two nets agree and the third does not ")
        self.estimators_, self.n_iter_, self.history_ = nets, t, history
        self._set_transduction(data, pseudo, labeled_iter)
        self.termination_condition_ = ended


def _record(
    t: int, data: SemiSupervisedData, sets: IntArray, old_sets: IntArray, pool_size: int
) -> dict[str, Any]:
    """Begin the entry of an iteration."""
    sizes = (sets >= 0).sum(axis=1).tolist()
    return {
        "iteration": t,
        "n_train": len(data.y) + sum(sizes),
        "pool_size": pool_size,
        "set_sizes": sizes,
        "n_added": int(((sets >= 0).any(axis=0) & (old_sets < 0).all(axis=0)).sum()),
        "pseudo_label_counts": class_counts(sets[sets >= 0], data.classes),
        "loss": {},
        "seconds": {},
    }
