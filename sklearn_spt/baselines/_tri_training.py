"""Tri-training with disagreement: two nets that agree label documents for the third."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._data import PartlyLabeled, class_counts, share_of
from sklearn_spt._estimator import progress_bar
from sklearn_spt._labels import Codes, FloatArray, check_scalar
from sklearn_spt._random import generator
from sklearn_spt.baselines._common import (
    ThrottledBaseline,
    pool_size,
    training_set,
    warn_nothing_added,
)


@dataclass(eq=False, repr=False, kw_only=True)
class TriTrainingClassifier(ThrottledBaseline):
    """Semi-supervised classifier by tri-training with disagreement.

    Three nets are first trained on bootstrap samples of the labelled documents. If two nets agree
    on an unlabelled document and the third does not, the document is a candidate for the set of
    the third net, with the label of the two. Iteration t builds the three sets anew, from a random
    t tenths of the unlabelled documents. If a set has changed, a fresh net is trained on it and on
    all labelled documents. The prediction is the mean of the nets that vote for the majority.

    Parameters
    ----------
    threshold : float >= 0, default=0.9
        θ, minimum confidence of the more confident of the two nets. Above 1 no document is a
        candidate. The default is the paper's.
    max_fraction : float > 0, default=0.1
        Maximum share by which the training set of a net grows in an iteration, rounded down but at
        least one document. The default is the paper's.
    max_iter : int, default=20
        Maximum number of iterations; 0 keeps the nets of the bootstrap samples.
    tol : float in [0, 1], default=0.001
        The fit ends if an iteration changes the majority label of less than this share of the
        unlabelled documents; 0 never ends it.
    finetune_epochs : int, default=3
        Epochs of each training run. The default is the paper's.
    estimator, balanced_batches, unlabeled_marker, random_state, verbose
        As in `SelfPretrainingClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, n_iter_, transduction_, labeled_iter_
        As in `SelfPretrainingClassifier`; rows "never drawn" are those that were in no set.
    estimators_ : list of three skorch.NeuralNet
        Without unlabelled documents, three times the supervised net.
    termination_condition_ : {"no_candidates", "no_change", "tol", "max_iter", "no_unlabeled"}
        Reason why the fit ended. "no_change": no set changed. "tol": few labels changed.
    history_ : list of dict
        One entry for the bootstrap samples and one for each iteration: ``iteration``; ``n_train``
        (labelled documents plus the sizes of the sets); ``pool_size``; ``set_sizes``; ``n_added``,
        documents in a set that were in none before; ``pseudo_label_counts``; ``label_changes``,
        share of changed majority labels; ``loss`` of each epoch by net trained; ``seconds``.

    Notes
    -----
    Where the sources leave a choice: all nets label before any is trained again, documents may be
    selected again, the cap limits the growth of a set, both rules of stopping wait until the pool
    holds all unlabelled documents, and error rates are not estimated, as in [2]_.

    References
    ----------
    .. [1] A. Søgaard, "Simple semi-supervised training of part-of-speech taggers", ACL 2010.
    .. [2] S. Ruder and B. Plank, "Strong baselines for neural semi-supervised learning under
       domain shift", ACL 2018.
    """

    tol: float = 0.001

    def _check_params(self) -> None:
        super()._check_params()
        check_scalar(self.tol, "tol", Real, min_val=0, max_val=1)

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        """Return the mean of the nets that predict the majority class, of all if no two agree."""
        stacked = np.stack(P)
        agree = stacked.argmax(axis=2) == majority_vote(stacked)
        agree[:, agree.sum(axis=0) < 2] = True
        return np.asarray((stacked * agree[:, :, None]).sum(axis=0) / agree.sum(axis=0)[:, None])

    def _fit(self, net: NeuralNet, data: PartlyLabeled) -> None:
        """P holds probabilities by net, and sets[i] the labels in the set of net i, or -1."""
        N, n_U = len(data.y), data.n_unlabeled
        sets = np.full((3, n_U), -1, dtype=np.intp)
        P = np.zeros((3, n_U, data.n_classes))
        pseudo, labeled_iter = sets[0].copy(), sets[0].copy()
        nets: list[Any] = [None, None, None]
        history: list[dict[str, Any]] = []
        ended, t = "max_iter" if n_U else "no_unlabeled", 0
        with progress_bar(self.verbose, None, "supervised nets", net.batch_size) as bar:
            trainer = self._trainer(net, data, bar)
            for t in range(1 + self.max_iter * (n_U > 0)):
                start, size = time.perf_counter(), pool_size(t, n_U)
                old_sets, votes, loss = sets, majority_vote(P), {}
                candidates, changed = True, [0, 1, 2] if n_U else [0]
                if t:
                    bar.set_description(f"iteration {t}")
                    labels = disagreement_sets(P, self.threshold, [1] * 3)  # in all of U
                    candidates = bool((labels >= 0).any())
                    if candidates:
                        rng = generator(trainer.root, t)
                        pool = np.sort(rng.choice(n_U, size=size, replace=False))
                        sizes = (sets >= 0).sum(axis=1).tolist()
                        most = [n + max(1, share_of(self.max_fraction, N + n)) for n in sizes]
                        sets = np.full_like(sets, -1)
                        sets[:, pool] = disagreement_sets(P[:, pool], self.threshold, most)
                        members = (sets >= 0).any(axis=0)
                        pseudo[members], labeled_iter[members] = sets.max(axis=0)[members], t
                    changed = np.flatnonzero((old_sets != sets).any(axis=1)).tolist()
                for i in changed:
                    part, path = data, (t, 1 + i) if n_U else (0,)
                    if n_U and t == 0:
                        part = bootstrap(data, generator(trainer.root, 0, 0, i))
                    rows = np.flatnonzero(sets[i] >= 0)
                    L = training_set(part, rows, sets[i][rows])
                    nets[i], loss[f"net_{i + 1}"] = trainer.train(*L, *path)
                    P[i] = trainer.probabilities(nets[i], data.U) if n_U else 0
                in_set, share = sets >= 0, float(np.mean(majority_vote(P) != votes)) if t else 0.0
                entry = {
                    "iteration": t,
                    "n_train": N + int(in_set.sum()),
                    "pool_size": size,
                    "set_sizes": in_set.sum(axis=1).tolist(),
                    "n_added": int((in_set.any(axis=0) & (old_sets < 0).all(axis=0)).sum()),
                    "pseudo_label_counts": class_counts(sets[in_set], data.classes),
                    "label_changes": share,
                    "loss": loss,
                    "seconds": time.perf_counter() - start,
                }
                history.append(entry)
                if not candidates or (t and size == n_U and (not changed or share < self.tol)):
                    ended = "tol" if changed else "no_change" if candidates else "no_candidates"
                    break
        if t and (pseudo < 0).all():
            warn_nothing_added(self.threshold, "on which two nets agree and the third does not ")
        self.estimators_, self.n_iter_, self.history_ = nets if n_U else 3 * nets[:1], t, history
        self._set_transduction(data, pseudo, labeled_iter)
        self.termination_condition_ = ended


def bootstrap(data: PartlyLabeled, rng: np.random.Generator) -> PartlyLabeled:
    """Draw a bootstrap sample that holds every class; after 100 more draws, class by class.

    Rows of weight zero are in no sample.
    """
    counted = np.flatnonzero(data.weights)
    codes, classes = data.y[counted], np.unique(data.y[counted])
    for _ in range(101):
        rows = rng.integers(len(codes), size=len(codes))
        if len(np.unique(codes[rows])) == len(classes):
            return data.part(counted[rows])
    members = [np.flatnonzero(codes == c) for c in classes]
    drawn = [rng.choice(rows, size=len(rows)) for rows in members]
    return data.part(counted[np.concatenate(drawn)])


# Below, P holds class probabilities by net, with shape (3, n, K).
def disagreement_sets(P: FloatArray, threshold: float, most: Sequence[int]) -> Codes:
    """Return the labels of the documents for the set of each net, -1 elsewhere.

    On these two nets agree, net i does not, and one of the two reaches the threshold. They are the
    ``most[i]`` of greatest confidence, the mean of the two nets that agree.
    """
    predicted, confidence = P.argmax(axis=2), P.max(axis=2)
    labels = np.full(predicted.shape, -1, dtype=np.intp)
    for i, (j, k) in enumerate(((1, 2), (0, 2), (0, 1))):
        found = (predicted[j] == predicted[k]) & (predicted[j] != predicted[i])
        rows = np.flatnonzero(found & (np.maximum(confidence[j], confidence[k]) >= threshold))
        both = (confidence[j] + confidence[k])[rows]
        best = rows[np.argsort(-both, kind="stable")[: most[i]]]
        labels[i, best] = predicted[j, best]
    return labels


def majority_vote(P: FloatArray) -> Codes:
    """Return the class that two nets predict, or that of greatest mean probability."""
    predicted = P.argmax(axis=2)
    votes = (predicted[:, :, None] == np.arange(P.shape[2])).sum(axis=0)
    return np.where(votes.max(axis=1) > 1, votes.argmax(axis=1), P.mean(axis=0).argmax(axis=1))
