"""Tri-training with disagreement: two nets that agree teach the third, which does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import (
    BaseSemiSupervisedClassifier,
    SemiSupervisedData,
    class_counts,
    concatenated,
)
from sklearn_spt._holdout import weights_of
from sklearn_spt._sampling import draw_sample
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import (
    check_integer,
    check_option,
    check_real,
    warn_nothing_added,
)
from sklearn_spt.baselines._selection import pool_size, quota_limit
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

    Three nets start from bootstrap samples of the labelled documents. Where two of them agree on
    an unlabelled document and the third does not, the document is a candidate for the set of the
    third, with the label of the two. Each iteration builds the three sets anew and trains fresh
    nets, where a set changed, on it and all labelled documents.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string ``BertClassifier(pretrained=...)``.
    threshold : float >= 0, default=0.9
        θ, which the more confident of the two agreeing nets has to reach (the paper's value).
        Above 1 no document is a candidate.
    max_fraction : float > 0, default=0.1
        A net's training set grows by at most this share of it in an iteration (the paper's
        value), rounded down, but by one document at least.
    growth : {"pool", "quota"}, default="pool"
        What grows linearly: the pool of candidates, by a tenth of the unlabelled documents an
        iteration; or, with all in the pool, the number that may be added to a set.
    max_iter : int, default=20
        Greatest number of iterations; 0 leaves the nets of the bootstrap samples.
    tol : float in [0, 1], default=0.001
        Stop once less than this share of the unlabelled documents got another majority label in
        an iteration; 0 never does.
    finetune_epochs : int, default=3
        Epochs of every training run.
    balanced_batches : bool, default=True
        Draw classes equally often in every training run.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are one marker.
    random_state : int, RandomState or None, default=None
        Everything random derives from it; a fit changes no global random state.
    verbose : int, default=0
        0 prints nothing; otherwise a progress bar is shown.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    estimators_ : list of three skorch.NeuralNet
        Without unlabelled documents, three times the supervised one.
    n_iter_ : int
        Number of iterations.
    transduction_ : ndarray of shape (n_rows,)
        Given labels and last pseudo-labels (the marker if none): rows of X, then of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration of the last pseudo-label; 0 for labelled rows, -1 for rows that never had one.
    termination_condition_ : {"no_candidates", "no_change", "tol", "max_iter", "no_unlabeled"}
        Why the fit ended. "no_candidates" is without any, "tol" with few labels changed.
    n_threads_ : int
        Number of torch's CPU threads during the fit: results are identical for the same number.
    history_ : list of dict
        One entry for the start and for each iteration: ``iteration``; ``n_train``, documents that
        are labelled or in a set; ``pool_size``; ``set_sizes``; ``n_added``, documents in a set
        that were in none before; ``pseudo_label_counts``; ``label_changes``, share of other
        majority labels; ``loss`` (mean of each epoch) by net trained; ``seconds`` by phase.

    Notes
    -----
    Where the sources leave a choice: all nets label before any is retrained; no document is used
    up; the cap is on the growth of a set; both stopping rules wait until the pool holds all
    unlabelled documents; error rates play no role, as in [2]_.

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
        growth: str = "pool",
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
        self.growth = growth
        self.max_iter = max_iter
        self.tol = tol
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_real(self.threshold, "threshold", low=0, closed="left")
        check_real(self.max_fraction, "max_fraction", low=0, closed="neither")
        check_option(self.growth, "growth", ("pool", "quota"))
        check_integer(self.max_iter, "max_iter", low=0)
        check_real(self.tol, "tol", low=0, high=1)

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        """Mean of the nets that predict the majority class, or of all if no two agree."""
        return majority_mean(np.stack(P))

    # -- the algorithm --------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """M are the nets, P what they say of U; A[i] holds the labels in the set of M[i], or -1."""
        N, n_U = len(data.y), data.n_unlabeled
        trainer = SupervisedTrainer(self, net, data.classes, "tri-training")
        A = np.full((3, n_U), -1, dtype=np.int64)  # step 2
        P = np.zeros((3, n_U, data.n_classes))
        M: list[Any] = [None, None, None]
        pseudo, labeled_iter = A[0].copy(), A[0].copy()
        history = [_record(0, data, A, A, 0)]
        t, ended = 0, "max_iter" if n_U else "no_unlabeled"
        # a row of weight zero is as good as none
        counted = np.arange(N) if data.weights is None else np.flatnonzero(data.weights)

        def learn(i: int, rows: IntArray, *path: int) -> None:
            """Train net i on labelled rows and its set, and let it label all of U."""
            held = np.flatnonzero(A[i] >= 0)
            X = multi_indexing(data.X_labeled, rows)
            X = concatenated(X, multi_indexing(data.X_unlabeled, held)) if len(held) else X
            codes = np.concatenate([data.y[rows], A[i][held]])
            w = weights_of(data.weights, rows, len(held))
            with timed(history[t]["seconds"], "training"):
                M[i], history[t]["loss"][f"net_{i + 1}"] = trainer.train(X, codes, *path, weights=w)
            with timed(history[t]["seconds"], "labeling"):
                P[i] = trainer.probabilities(M[i], data.X_unlabeled) if n_U else 0

        with trainer.progress:
            for i in range(3 if n_U else 0):
                drawn = bootstrap_rows(data.y[counted], trainer.rng(0, 0, i))
                learn(i, counted[drawn], 0, 1 + i)  # step 1
            if not n_U:
                learn(0, np.arange(N), 0)
                M = 3 * M[:1]
            for t in range(1, 1 + self.max_iter * (n_U > 0)):
                most = quota_limit(t, N, self.max_fraction) if self.growth == "quota" else None
                size = pool_size(t, n_U, n_U) if self.growth == "pool" else n_U
                C = np.sort(draw_sample(n_U, size, trainer.rng(t)))  # step 3; ties to lower rows
                before, votes = A, majority_vote(P)
                if taught := disagreements(P, self.threshold).any():  # steps 4 to 6
                    quotas = set_quotas(N, (A >= 0).sum(axis=1), self.max_fraction, most)
                    A = np.full_like(before, -1)
                    A[:, C] = disagreement_sets(P[:, C], self.threshold, quotas)
                    held = (A >= 0).any(axis=0)
                    pseudo[held], labeled_iter[held] = A.max(axis=0)[held], t
                history.append(_record(t, data, A, before, size))
                changed = np.flatnonzero((before != A).any(axis=1)).tolist()
                for i in changed:  # step 8
                    learn(i, np.arange(N), t, 1 + i)
                moved = history[t]["label_changes"] = float(np.mean(majority_vote(P) != votes))
                trainer.progress.say(f"iteration {t}")
                if not taught:  # step 7: not even a pool of all U would hold a candidate
                    ended = "no_candidates"
                elif size == n_U and (not changed or moved < self.tol):  # steps 7 and 9
                    ended = "tol" if changed else "no_change"
                if ended != "max_iter":
                    break

        if t and (pseudo < 0).all() and self.threshold <= 1:
            warn_nothing_added(self.threshold, "on which two nets agree and the third does not ")
        self.estimators_, self.n_iter_, self.history_ = M, t, history
        self._set_transduction(data, pseudo, labeled_iter)
        self.termination_condition_ = ended


def _record(
    t: int, data: SemiSupervisedData, A: IntArray, before: IntArray, pool_size: int
) -> dict[str, Any]:
    """Entry of an iteration; the rest is noted down as it happens."""
    sizes = (A >= 0).sum(axis=1).tolist()
    return {
        "iteration": t,
        "n_train": len(data.y) + sum(sizes),
        "pool_size": pool_size,
        "set_sizes": sizes,
        "n_added": int(((A >= 0).any(axis=0) & (before < 0).all(axis=0)).sum()),
        "pseudo_label_counts": class_counts(A[A >= 0], data.classes),
        "loss": {},
        "seconds": {},
    }
