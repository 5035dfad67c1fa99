"""Self-training with pseudo-labels from the queues of a Leitner system; a reconstruction."""

from __future__ import annotations

from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._validation import check_integer, check_real
from sklearn_spt.baselines._episodes import Episodes
from sklearn_spt.baselines._leitner import nearest_occupied
from sklearn_spt.baselines._selection import check_throttling, warn_nothing_added


class SpacedRepetitionClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by spaced repetition: a reconstruction.

    The method works in episodes. While a fresh net is trained, the unlabelled documents move
    between queues: a document rises if the net gives it the label of the last episode's net, else
    it falls. Higher queues are reviewed less often. One queue, chosen on held-out labelled
    documents, supplies pseudo-labels for the next episodes.

    Parameters
    ----------
    n_queues : int, default=6
        Number of queues. The default is that of [3]_, as are those of `threshold`, `max_fraction`
        and `validation_fraction`.
    episode_epochs : int, default=16
        Maximum number of epochs of an episode. With fewer than ``2 ** (n_queues - 2)`` the last
        queue stays empty.
    patience : int, default=5
        An episode ends after this number of epochs without a better validation score.
    max_iter : int, default=10
        Maximum number of episodes; 0 is supervised training.
    episode_patience : int, default=2
        The fit ends after this number of episodes without a better validation score.
    finetune_epochs : int, default=3
        Epochs of every training run outside the episodes.
    estimator, threshold, max_fraction, validation_fraction, pos_label, balanced_batches, \
unlabeled_marker, random_state, verbose
        As in `ThrottledSelfTrainingClassifier`.

    Attributes
    ----------
    classes_, n_features_in_, transduction_, n_threads_
        As in `ThrottledSelfTrainingClassifier`.
    estimators_ : list of one skorch.NeuralNet
        The net with the best validation score. If no row could be held out, a net that is trained
        with the pseudo-labels of the one episode.
    n_iter_ : int
        Number of episodes.
    best_iter_ : int
        The episode with the best score; 0 is the supervised start.
    queue_sizes_ : ndarray of shape (n_episodes, n_queues)
        Documents in each queue at the end of each episode.
    designated_queue_ : int or None
        The queue that supplies the pseudo-labels, counted from 0; None without an episode.
    labeled_iter_ : ndarray of shape (n_rows,)
        Episode that gave the pseudo-label; 0 for labelled rows, -1 for rows without one.
    termination_condition_ : {"all_labeled", "no_change", "no_improvement", "max_iter", \
"no_unlabeled"}
        Why the fit ended. "no_change": the queue held no confident document.
    history_ : list of dict
        One entry for the start and for each episode: ``iteration``, ``n_train``, ``pool_size``
        (documents in the queues), ``n_added``, ``pseudo_label_counts``, ``validation_score``,
        ``loss`` of each epoch, ``seconds`` by phase; of an episode also ``best_epoch``,
        ``queue_sizes``, ``queue_scores`` if queues were compared, ``designated_queue``, and
        ``source_queue``, its substitute if it was empty.

    Notes
    -----
    Neither the text nor code of [1]_ was available, only its abstract, accounts of [2]_, and the
    description in [3]_ of its own version. Do not report results of this class as those of the
    original. The sources give the episodes, the queues (queue i is due in epochs divisible by
    2^i), the validation set and the designated queue. Decisions of this reconstruction: a label
    is correct if it repeats that of the last episode's net; a wrong document falls to the first
    queue; the queue is designated once, in the first episode, by training one net for each queue,
    and ties go to the highest; an empty queue is replaced by the nearest lower, else higher one;
    the most confident documents of the queue are added; pseudo-labels accumulate and are never
    revised; the weights of the best epoch are used; and all defaults without a reference.

    References
    ----------
    .. [1] H. Amiri, "Neural Self-Training through Spaced Repetition", NAACL 2019.
    .. [2] H. Amiri et al., "Spotting Spurious Data with Neural Networks", NAACL 2018.
    .. [3] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, https://doi.org/10.1145/3437963.3441814
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_queues: int = 6,
        episode_epochs: int = 16,
        patience: int = 5,
        max_iter: int = 10,
        episode_patience: int = 2,
        threshold: float = 0.9,
        max_fraction: float = 0.1,
        validation_fraction: float = 0.2,
        pos_label: Any = None,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        unlabeled_marker: Any = -1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_queues = n_queues
        self.episode_epochs = episode_epochs
        self.patience = patience
        self.max_iter = max_iter
        self.episode_patience = episode_patience
        self.threshold = threshold
        self.max_fraction = max_fraction
        self.validation_fraction = validation_fraction
        self.pos_label = pos_label
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_throttling(self)
        check_integer(self.n_queues, "n_queues", low=1)
        check_integer(self.episode_epochs, "episode_epochs", low=1)
        check_integer(self.patience, "patience", low=1)
        check_integer(self.episode_patience, "episode_patience", low=1)
        check_real(self.validation_fraction, "validation_fraction", low=0, high=1, closed="neither")

    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """U are the unlabelled rows that are left, P their probabilities by the last net."""
        run = Episodes(self, net, data)
        U = np.arange(data.n_unlabeled)
        designated: int | None = None
        ended = "max_iter" if len(U) else "no_unlabeled"
        best, m, queue_sizes = 0, 0, np.zeros((0, self.n_queues), dtype=np.int64)
        with run.trainer.progress:
            best_net, best_score = run.start()
            P = run.label(best_net, U if run.max_episodes else U[:0])
            for m in range(1, 1 + run.max_episodes):
                net_m, score, queue = run.episode(m, U, P.argmax(axis=1))
                if score > best_score:
                    best_net, best, best_score = net_m, m, score
                P = run.label(net_m, U)
                if designated is None:
                    designated = run.designate(queue, P)
                sizes = np.bincount(queue, minlength=self.n_queues)
                queue_sizes = np.vstack([queue_sizes, sizes])
                source = nearest_occupied(sizes, designated)
                new = run.select(np.flatnonzero(queue == source), P)
                run.history[-1].update(designated_queue=designated, source_queue=source)
                run.add(m, U[new], P[new].argmax(axis=1))
                U, P = np.delete(U, new), np.delete(P, new, axis=0)
                if not len(new) or not len(U):
                    ended = "all_labeled" if len(new) else "no_change"
                elif run.held is not None and m - best >= self.episode_patience:
                    ended = "no_improvement"
                if ended != "max_iter":
                    break
            if run.max_episodes and run.held is None:
                best_net, best = run.refit(), m

        if m and (run.pseudo < 0).all():
            warn_nothing_added(self.threshold)
        self.estimators_, self.history_ = [best_net], run.history
        self.n_iter_, self.best_iter_ = m, best
        self.queue_sizes_, self.designated_queue_ = queue_sizes, designated
        self._set_transduction(data, run.pseudo, run.labeled_iter)
        self.termination_condition_ = ended
