"""Spaced-rep: self-training with pseudo-labels that lasted in the queues of a Leitner system."""

from __future__ import annotations

from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._validation import (
    check_flag,
    check_integer,
    check_option,
    check_real,
    warn_nothing_added,
)
from sklearn_spt.baselines._episodes import Episodes
from sklearn_spt.baselines._leitner import nearest_occupied


class SpacedRepetitionClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by spaced repetition: a reconstruction.

    Works in episodes. While a fresh net is trained over many epochs, the unlabelled documents move
    between queues: up, if the net gives a document the label that the net of the last episode gave
    it, else down. The higher the queue, the less often is a document looked at. One queue, chosen
    on held-out labelled documents, supplies pseudo-labels for the next episodes.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string ``BertClassifier(pretrained=...)``.
    n_queues : int, default=6
        Number of queues (the value of [3]_).
    episode_epochs : int, default=16
        Epochs of an episode, at most. In fewer than ``2 ** (n_queues - 2)`` the last queue stays
        empty.
    patience : int, default=5
        An episode ends after so many epochs without a better validation score.
    max_iter : int, default=10
        Greatest number of episodes. 0 is supervised training.
    episode_patience : int, default=2
        The fit ends after so many episodes without a better validation score.
    designated_queue : int or None, default=None
        Queue that supplies the pseudo-labels, counted from 0. None trains a net with those of
        each queue in the first episode, and takes the queue of the best score.
    reselect : bool, default=False
        Whether it does so in each episode.
    correct : {"agreement", "agreement+confidence"}, default="agreement"
        When a document moves up: if the label is that of the last episode's net, or if its
        confidence also reaches `threshold`.
    demote : {"first", "previous"}, default="first"
        Where other documents go: to queue 0, or down by one.
    select : {"confidence", "random", "diverse"}, default="confidence"
        Which documents with a confidence of `threshold` are taken from the queue: the most
        confident, any, or those whose probabilities are furthest apart (greedy k-centre).
    threshold : float >= 0, default=0.9
        θ, least confidence of a pseudo-label (the value of [3]_).
    max_fraction : float > 0, default=0.1
        The training set grows by at most this share of it in an episode (the value of [3]_),
        rounded down, but by one document at least.
    validation_fraction : float in (0, 1), default=0.2
        Share of the labelled documents that is held out (the value of [3]_).
    refit : bool, default=False
        Train a last net on all labelled documents, the held-out ones too, and the pseudo-labels
        of the episodes up to the best one.
    pos_label : label or None, default=None
        Class whose F1 is the score if there are two; None is the greater one. Of more classes it
        is macro-F1.
    finetune_epochs : int, default=3
        Epochs of every other training run.
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
    estimators_ : list of one skorch.NeuralNet
        The net of the best validation score, or of `refit`.
    n_iter_ : int
        Number of episodes.
    best_iter_ : int
        The episode of the best score; 0 is the supervised start.
    queue_sizes_ : ndarray of shape (n_episodes, n_queues)
        Documents in each queue at the end of each episode.
    designated_queue_ : int or None
        Queue of the last episode's choice; None without an episode.
    transduction_ : ndarray of shape (n_rows,)
        Given labels and pseudo-labels (the marker if none): rows of X, then of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Episode that gave the pseudo-label; 0 for labelled rows, -1 for rows without one.
    termination_condition_ : {"all_labeled", "no_change", "no_improvement", "max_iter", \
"no_unlabeled"}
        Why the fit ended; "no_change" is without a confident document in the queue.
    n_threads_ : int
        Number of torch's CPU threads during the fit: results are identical for the same number.
    history_ : list of dict
        One entry for the start and for each episode: ``iteration``, ``n_train``, ``pool_size``
        (documents in the queues), ``n_added``, ``pseudo_label_counts``, ``validation_score``,
        ``loss`` of each epoch, ``seconds`` by phase; of an episode also ``best_epoch``,
        ``queue_sizes``, ``queue_scores`` where queues were compared, ``designated_queue``, and
        ``source_queue``, its substitute where it was empty.

    Notes
    -----
    Neither the text nor code of [1]_ was at hand, only its abstract, accounts of [2]_, and what
    [3]_ says of its own version of it: do not report results of this class as those of the
    original. Known are the episodes, the queues (queue i is looked at in epochs divisible by
    2^i), the validation set, and the designated queue. Decided here: a label is correct if it
    repeats that of the last episode's net; wrong documents fall to the first queue; the queue is
    designated once, by one more net for each queue, ties to the highest; an empty one gives way to
    the nearest lower, else higher one; pseudo-labels accumulate and are never revised; within the
    queue confidence decides; the best epoch's weights count; all numbers without a reference.

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
        designated_queue: int | None = None,
        reselect: bool = False,
        correct: str = "agreement",
        demote: str = "first",
        select: str = "confidence",
        threshold: float = 0.9,
        max_fraction: float = 0.1,
        validation_fraction: float = 0.2,
        refit: bool = False,
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
        self.designated_queue = designated_queue
        self.reselect = reselect
        self.correct = correct
        self.demote = demote
        self.select = select
        self.threshold = threshold
        self.max_fraction = max_fraction
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.pos_label = pos_label
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("n_queues", "episode_epochs", "patience", "episode_patience"):
            check_integer(getattr(self, name), name, low=1)
        check_integer(self.max_iter, "max_iter", low=0)
        check_integer(self.designated_queue, "designated_queue", low=0, allow_none=True)
        if self.designated_queue is not None and self.designated_queue >= self.n_queues:
            raise ValueError(
                f"designated_queue must be below n_queues={self.n_queues}, got "
                f"{self.designated_queue!r}: queues are counted from 0."
            )
        check_option(self.correct, "correct", ("agreement", "agreement+confidence"))
        check_option(self.demote, "demote", ("first", "previous"))
        check_option(self.select, "select", ("confidence", "random", "diverse"))
        check_real(self.threshold, "threshold", low=0, closed="left")
        check_real(self.max_fraction, "max_fraction", low=0, closed="neither")
        check_real(self.validation_fraction, "validation_fraction", low=0, high=1, closed="neither")
        for name in ("reselect", "refit"):
            check_flag(getattr(self, name), name)

    # -- the algorithm --------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """U are the documents without a pseudo-label, P what the net of the last episode says."""
        run = Episodes(self, net, data)
        U = np.arange(data.n_unlabeled)
        d, ended = self.designated_queue, "max_iter" if len(U) else "no_unlabeled"
        best, m, queue_sizes = 0, 0, np.zeros((0, self.n_queues), dtype=np.int64)
        with run.progress:
            kept, best_score = run.start()  # steps 1 and 2
            P = run.label(kept, U if run.number else U[:0])
            for m in range(1, 1 + run.number):
                g, score, queue = run.episode(m, U, P.argmax(axis=1))  # steps 3.1 to 3.5
                if score > best_score:
                    kept, best, best_score = g, m, score
                P = run.label(g, U)
                if d is None or (self.reselect and self.designated_queue is None):
                    d = run.designate(m, U, queue, P)  # step 3.6
                sizes = np.bincount(queue, minlength=self.n_queues)
                queue_sizes = np.vstack([queue_sizes, sizes])
                source = nearest_occupied(sizes, d)  # step 3.7
                A = run.choose(m, np.flatnonzero(queue == source), P, source)
                run.add(m, U[A], P[A].argmax(axis=1), designated_queue=d, source_queue=source)
                U, P = np.delete(U, A), np.delete(P, A, axis=0)  # step 3.8
                if not len(A) or not len(U):
                    ended = "all_labeled" if len(A) else "no_change"
                elif m - best >= self.episode_patience:  # step 3.9
                    ended = "no_improvement"
                if ended != "max_iter":
                    break
            if run.number and (self.refit or not run.validated):
                kept = run.refit(best if run.validated else m)

        if m and (run.pseudo < 0).all() and self.threshold <= 1:
            warn_nothing_added(self.threshold)
        self.estimators_, self.history_ = [kept], run.history
        self.n_iter_, self.best_iter_ = m, best
        self.queue_sizes_, self.designated_queue_ = queue_sizes, d if m else None
        self._set_transduction(data, run.pseudo, run.labeled_iter)
        self.termination_condition_ = ended
