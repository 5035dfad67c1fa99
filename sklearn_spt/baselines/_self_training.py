"""Self-training with throttling, the oldest way to learn from unlabelled documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt.baselines._throttled import PseudoLabels, ThrottledClassifier, ThrottledIteration
from sklearn_spt.baselines._training_set import training_set


class ThrottledSelfTrainingClassifier(ThrottledClassifier):
    """Self-training that adds a few confident documents in each iteration.

    A net trained on the labelled documents labels a pool of unlabelled ones: in iteration t a
    random t tenths of them, and more if none is confident enough. The most confident
    join the training set with their predicted labels, and a fresh net is trained on it. The number
    of iterations is chosen on held-out labelled documents; then the method starts again with all
    of them. Pseudo-labels are never revised.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string ``BertClassifier(pretrained=...)``. Clones of the net are
        trained; ``train_split=None``, the criterion, ``max_epochs``, the learning-rate callback
        and ``classes`` are set on them.
    threshold : float >= 0, default=0.9
        θ, minimum confidence of a pseudo-label. Above 1 no document is added and training is
        supervised. The default is the paper's value.
    max_fraction : float > 0, default=0.1
        Maximum share of the current training set that an iteration adds, rounded down but at
        least one document. The default is the paper's value.
    max_iter : int, default=20
        Maximum number of iterations to choose from.
    n_iterations : int or None, default=None
        Number of iterations. None takes the smallest number with the best score on held-out
        labelled documents.
    validation_fraction : float in (0, 1), default=0.2
        Share of the labelled documents to hold out, by class. Rows of weight 0 are never held
        out. The default is the paper's value.
    pos_label : label or None, default=None
        Class whose F1 is the score if there are two classes; None is the greater label. More
        classes are scored by macro-F1.
    finetune_epochs : int, default=3
        Epochs of each training run. The default is the paper's value.
    balanced_batches : bool, default=True
        Whether to draw all classes equally often in training, as the paper's code does.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are one marker.
    random_state : int, RandomState or None, default=None
        Seed of everything random. The net's own ``random_state`` is not used, and global random
        states stay unchanged.
    verbose : int, default=0
        0 prints nothing; otherwise a progress bar is shown.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    estimators_ : list of one skorch.NeuralNet
        The net of the last iteration.
    n_iter_ : int
        Number of iterations after the supervised start.
    transduction_ : ndarray of shape (n_rows,)
        Given labels and pseudo-labels (the marker if none): rows of X, then of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration that added a document; 0 for labelled rows, -1 for rows never added.
    termination_condition_ : {"validation", "n_iterations", "no_change", "all_labeled", \
"no_unlabeled"}
        Why the fit ended. "validation": the number was chosen. "n_iterations": it was given, or no
        row could be held out to choose it. "no_change": no document reached `threshold`.
    n_threads_ : int
        Number of torch's CPU threads; results are identical for the same number.
    history_ : list of dict
        One entry for the start and for each iteration: ``iteration``, ``n_train`` (size of the
        training set), ``pool_size``, ``n_added``, ``pseudo_label_counts`` (of those added),
        ``loss`` (mean of each epoch), ``seconds`` by phase.
    selection_history_ : list of dict
        The same, with ``validation_score``, of the run that chose the number of iterations; empty
        without such a run. The run ends early at a score of 1.

    See Also
    --------
    SelfPretrainingClassifier : Revises its pseudo-labels, and does not throttle.
    sklearn.semi_supervised.SelfTrainingClassifier : For any classifier, without throttling.

    Notes
    -----
    Pseudo-labelled documents have weight one, and the weights of labelled documents have mean one.

    References
    ----------
    .. [1] D. Yarowsky, "Unsupervised Word Sense Disambiguation Rivaling Supervised Methods",
       ACL 1995.
    .. [2] S. Abney, "Semisupervised Learning for Computational Linguistics", 2007 (throttling).
    .. [3] Payam Karisani and Negin Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, section 4 (as a baseline),
       https://doi.org/10.1145/3437963.3441814

    Examples
    --------
    >>> from sklearn_spt.baselines import ThrottledSelfTrainingClassifier
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = ThrottledSelfTrainingClassifier(random_state=0)
    >>> clf.fit(bunch.data, bunch.target_partial).predict(bunch.data)  # doctest: +SKIP
    """

    _description = "self-training"

    def _iterations(
        self, trainer: SupervisedTrainer, data: SemiSupervisedData
    ) -> Iterator[ThrottledIteration]:
        """(X, y) is the training set and f the current net."""
        pseudo = PseudoLabels(data)
        pool = added = labels = pseudo.left[:0]
        seconds: dict[str, float] = {}
        for t in count():
            X, y, weights = training_set(data, added, labels)
            with timed(seconds, "training"):
                f, loss = trainer.train(X, y, t, weights=weights)
            state = pseudo.state(t, [f], len(pool), len(y), loss, seconds)
            yield state
            seconds = {}  # of the next iteration
            learners = [(f, data.X_unlabeled)]
            with timed(seconds, "labeling"):
                for pool, (P,) in self._pools(trainer, data, t + 1, pseudo.left, learners):
                    rows, codes = self._select(pool, P, len(y))
                    if len(rows):
                        break
                else:  # the pool held all unlabelled documents
                    state.ended = state.ended or "no_change"
                    return
            pseudo.add(rows, codes, t + 1)
            added, labels = np.concatenate([added, rows]), np.concatenate([labels, codes])
