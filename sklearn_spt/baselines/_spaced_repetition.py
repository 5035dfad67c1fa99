"""Self-training with pseudo-labels from the queues of a Leitner system; a reconstruction."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._data import PartlyLabeled, class_counts
from sklearn_spt._estimator import progress_bar
from sklearn_spt._labels import Codes, FloatArray, check_scalar
from sklearn_spt._random import generator
from sklearn_spt._training import Trainer
from sklearn_spt.baselines._common import (
    ThrottledBaseline,
    hold_out,
    positive_code,
    throttle,
    training_set,
    validation_score,
    warn_nothing_added,
)


@dataclass(eq=False, repr=False, kw_only=True)
class SpacedRepetitionClassifier(ThrottledBaseline):
    """Semi-supervised classifier by spaced repetition: a reconstruction.

    The method works in episodes. While a fresh net is trained, the unlabelled documents move
    between queues: a document rises if the net gives it the label of the last episode's net, else
    it falls. Higher queues are reviewed less often. One queue, chosen on held-out labelled
    documents, supplies pseudo-labels for the next episodes.

    .. warning:: Neither the text nor code of [1]_ was available, only its abstract, accounts of
       [2]_, and the description in [3]_ of its own version. Do not report results of this class as
       those of the original. The Notes list the decisions of this reconstruction.

    Parameters
    ----------
    n_queues : int, default=6
        Number of queues. The default is that of [3]_.
    episode_epochs : int, default=16
        Maximum number of epochs of an episode; the last queue needs ``2 ** (n_queues - 2)``.
    patience, episode_patience : int, default=5 and 2
        Number of epochs without a better validation score that ends an episode, and number of
        episodes that ends the fit.
    max_iter : int, default=10
        Maximum number of episodes; 0 is supervised training.
    finetune_epochs : int, default=3
        Epochs of each training run outside the episodes.
    threshold, max_fraction, validation_fraction, pos_label
        As in `ThrottledSelfTrainingClassifier`, but `validation_fraction` cannot be None.
    estimator, balanced_batches, unlabeled_marker, random_state, verbose
        As in `SelfPretrainingClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, transduction_, labeled_iter_
        As in `SelfPretrainingClassifier`, by episode; rows "never drawn" were never added.
    estimators_ : list of one skorch.NeuralNet
        The net with the best validation score. If no row could be held out, a net that is trained
        with the pseudo-labels of the one episode.
    n_iter_, best_iter_ : int
        Number of episodes, and the one with the best score; 0 is the supervised net.
    queue_sizes_ : ndarray of shape (n_episodes, n_queues)
        Documents in each queue at the end of each episode.
    designated_queue_ : int or None
        The queue that supplies the pseudo-labels, counted from 0; None without an episode.
    termination_condition_ : {"all_labeled", "no_change", "no_improvement", "max_iter", \
"no_unlabeled"}
        Reason why the fit ended. "no_change": the queue held no confident document.
    history_ : list of dict
        One entry for the supervised net and one for each episode, as in
        `ThrottledSelfTrainingClassifier` with ``validation_score``; of an episode ``best_epoch``,
        ``queue_sizes``, ``queue_scores`` if queues were compared, ``designated_queue``, and
        ``source_queue``, its substitute if it was empty.

    Notes
    -----
    The sources give the episodes, the queues (queue i is due in epochs divisible by 2^i), the
    validation set and the designated queue. Decisions of this reconstruction: labels are compared
    with those of the last episode's net; a document falls to the first queue; the queue is
    designated once, in the first episode, by training one net for each queue, and ties go to the
    highest; an empty queue is replaced by the nearest lower, else higher one; its most confident
    documents are added, and never revised; the weights of the best epoch are used.

    References
    ----------
    .. [1] H. Amiri, "Neural Self-Training through Spaced Repetition", NAACL 2019.
    .. [2] H. Amiri et al., "Spotting Spurious Data with Neural Networks", NAACL 2018.
    .. [3] The paper of `SelfPretrainingClassifier`.
    """

    n_queues: int = 6
    episode_epochs: int = 16
    patience: int = 5
    max_iter: int = 10
    episode_patience: int = 2
    validation_fraction: float = 0.2
    pos_label: Any = None

    def _check_params(self) -> None:
        super()._check_params()
        if self.validation_fraction is None:
            raise TypeError("validation_fraction must be a share: held-out rows choose the queue.")
        for name in ("n_queues", "episode_epochs", "patience", "episode_patience"):
            check_scalar(getattr(self, name), name, Integral, min_val=1)

    def _fit(self, net: NeuralNet, data: PartlyLabeled) -> None:
        """U are the unlabelled rows that are left, P their probabilities by the last net."""
        U, none = np.arange(data.n_unlabeled), np.full(data.n_unlabeled, -1, dtype=np.intp)
        ended, designated, m = "max_iter" if len(U) else "no_unlabeled", None, 0
        n_episodes, parts = self.max_iter if len(U) else 0, None
        positive_code(data.classes, self.pos_label)  # an error comes before the training
        with progress_bar(self.verbose, None, "supervised net", net.batch_size) as bar:
            trainer = self._trainer(net, data, bar)
            if n_episodes:
                parts = hold_out(data, self.validation_fraction, generator(trainer.root, 0, 1))
                n_episodes = n_episodes if parts else 1
            train, valid = parts or (data, None)
            run = _Run(trainer, train, valid, self.pos_label, none, none.copy())
            best_net, loss = run.train(0)
            best, best_score = 0, run.score(best_net)
            run.record(0, 0, U[:0], U[:0], best_score, loss=loss)
            P = run.probabilities(best_net, U) if n_episodes else np.empty((0, data.n_classes))
            for m in range(1, 1 + n_episodes):
                bar.set_description(f"episode {m}")
                g, score, queue, found = self._episode(run, m, U, P.argmax(axis=1))
                if score > best_score:
                    best_net, best, best_score = g, m, score
                P = run.probabilities(g, U)
                if designated is None:
                    designated = self._designate(run, queue, P, found)
                occupied = np.unique(queue)  # the nearest lower queue, else the nearest higher one
                source = int(max(occupied[occupied <= designated], default=occupied[0]))
                new, codes = self._select(run, queue == source, P)
                found |= {"designated_queue": designated, "source_queue": source}
                run.record(m, len(U), U[new], codes, score, **found)
                U, P = np.delete(U, new), np.delete(P, new, axis=0)
                if not len(new) or not len(U):
                    ended = "all_labeled" if len(new) else "no_change"
                elif parts and m - best >= self.episode_patience:
                    ended = "no_improvement"
                if ended != "max_iter":
                    break
            if n_episodes and not parts:
                best_net, best = run.train(0)[0], m
        if m and not len(run.added):
            warn_nothing_added(self.threshold)
        self.estimators_, self.history_ = [best_net], run.history
        self.termination_condition_ = ended
        self.n_iter_, self.best_iter_, self.designated_queue_ = m, best, designated
        sizes = [entry["queue_sizes"] for entry in run.history[1:]]
        self.queue_sizes_ = np.array(sizes, dtype=np.intp).reshape(m, self.n_queues)
        self._set_transduction(data, run.pseudo, run.labeled_iter)

    def _episode(
        self, run: _Run, m: int, U: Codes, provisional: Codes
    ) -> tuple[NeuralNet, float, Codes, dict[str, Any]]:
        """Train a fresh net while the documents move between queues, counted from 0.

        Return the net with the weights of its best epoch, its score, the queues of `U`, and
        entries of the history.
        """
        queue, scores, best, best_weights = np.zeros(len(U), dtype=np.intp), [], 0, None

        def after_epoch(g: NeuralNet, epoch: int) -> bool:
            nonlocal best, best_weights
            due = np.flatnonzero(epoch % 2**queue == 0)
            if len(due):
                correct = run.probabilities(g, U[due]).argmax(axis=1) == provisional[due]
                queue[due] = np.where(correct, np.minimum(queue[due] + 1, self.n_queues - 1), 0)
            scores.append(run.score(g))
            if epoch == 1 or not run.valid or scores[-1] > scores[best - 1]:
                best = epoch
                if run.valid and epoch < self.episode_epochs:
                    best_weights = copy.deepcopy(g.module_.state_dict())
            return epoch - best >= self.patience

        g, loss = run.train(m, epochs=self.episode_epochs, on_epoch=after_epoch)
        if best < len(scores):
            g.module_.load_state_dict(best_weights)
        sizes = np.bincount(queue, minlength=self.n_queues).tolist()
        found = {"loss": loss, "best_epoch": best, "queue_sizes": sizes}
        return g, scores[best - 1], queue, found

    def _select(self, run: _Run, members: Any, P: FloatArray) -> tuple[Codes, Codes]:
        """Return the most confident of the rows in a mask, and their predicted classes."""
        rows, n_train = np.flatnonzero(members), len(run.data.y) + len(run.added)
        return throttle(rows, P[rows], n_train, self)

    def _designate(self, run: _Run, queue: Codes, P: FloatArray, found: dict[str, Any]) -> int:
        """Return the queue whose documents give the best score, the highest of equals.

        Without held-out rows, or if at most one queue holds confident documents, it is the highest
        queue with confident documents, or else the highest that is not empty.
        """
        selected = {j: self._select(run, queue == j, P) for j in np.unique(queue).tolist()}
        candidates = {j: new for j, new in selected.items() if len(new[0])}
        if not run.valid or len(candidates) < 2:
            return max(candidates or selected)
        scores = {}
        for j, new in candidates.items():  # in the first episode all unlabelled rows are left
            g, _ = run.trainer.train(*training_set(run.data, *new), 1, 1 + j)
            scores[j] = run.score(g)
        found["queue_scores"] = {str(j): score for j, score in scores.items()}
        return max(scores, key=lambda j: (scores[j], j))


@dataclass
class _Run:
    """Training and validation rows of a fit, and what grows in it."""

    trainer: Trainer
    data: PartlyLabeled  # without the held-out rows
    valid: PartlyLabeled | None
    pos_label: Any
    pseudo: Codes
    labeled_iter: Codes
    history: list[dict[str, Any]] = field(default_factory=list)
    start: float = field(default_factory=time.perf_counter)

    @property
    def added(self) -> Codes:
        """Unlabelled rows that are in the training set."""
        return np.flatnonzero(self.labeled_iter >= 0)

    def train(self, *path: int, **options: Any) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net on the training set."""
        L = training_set(self.data, self.added, self.pseudo[self.added])
        return self.trainer.train(*L, *path, **options)

    def probabilities(self, net: NeuralNet, rows: Codes) -> FloatArray:
        """Return the class probabilities of unlabelled rows."""
        return self.trainer.probabilities(net, multi_indexing(self.data.U, rows))

    def score(self, net: NeuralNet) -> float:
        """Return the score on the held-out rows, 0 without them."""
        if self.valid is None:
            return 0.0
        P = self.trainer.probabilities(net, self.valid.X)
        return validation_score(self.valid, P, self.pos_label)

    def record(
        self, m: int, n_U: int, new: Codes, codes: Codes, score: float, **found: Any
    ) -> None:
        """Add an entry to the history, and pseudo-labels to the training set."""
        n_train, now = len(self.data.y) + len(self.added), time.perf_counter()
        found |= {"iteration": m, "n_train": n_train, "pool_size": n_U, "n_added": len(new)}
        found["pseudo_label_counts"] = class_counts(codes, self.data.classes)
        found |= {} if self.valid is None else {"validation_score": score}
        self.history.append(found | {"seconds": now - self.start})
        self.pseudo[new], self.labeled_iter[new], self.start = codes, m, now
