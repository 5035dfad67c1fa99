"""Self-training with throttling, the oldest way to learn from unlabelled documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData, concatenated
from sklearn_spt._holdout import weights_of
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt.baselines._throttled import PseudoLabels, ThrottledClassifier, ThrottledIteration


class ThrottledSelfTrainingClassifier(ThrottledClassifier):
    """Self-training that adds a few confident documents at a time.

    A net, trained on the labelled documents, labels a pool of the unlabelled ones. The most
    confident join the training set with their predicted labels, which are never revised, and a
    fresh net is trained on all of it; and so on. How many iterations are good is found on a part
    of the labelled documents that is held out; then the whole is done again with all of them.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string ``BertClassifier(pretrained=...)``. On a clone of the net
        are set, and only set: ``train_split=None``, the criterion, ``max_epochs``, the
        learning-rate callback and ``classes``.
    threshold : float >= 0, default=0.9
        θ, least confidence of a document that is added (the paper's value). Above 1 none is, and
        what is left is supervised training.
    max_fraction : float > 0, default=0.1
        No iteration adds more than this share of the current training set, rounded down but at
        least one document (the paper's value).
    growth : {"pool", "quota"}, default="pool"
        What grows linearly. "pool": the candidates of iteration t are t tenths of the unlabelled
        documents, drawn at random from those that are left; where none of them is confident
        enough, another tenth joins them. "quota": all that are left are candidates, and at most t
        times `max_fraction` of the labelled documents are added. The paper's wording allows
        both.
    max_iter : int, default=20
        Greatest number of iterations among which the best is chosen.
    n_iterations : int or None, default=None
        Number of iterations. None chooses it: a part of the labelled documents is held out, and
        the smallest number with the best score on it is taken.
    validation_fraction : float in (0, 1), default=0.2
        Share of the labelled documents that is held out, by class (the paper's value). Rows of
        weight 0 are never held out.
    refit : bool, default=True
        Whether to train again, on all labelled documents, for the chosen number of iterations.
        False keeps the net that was trained without the held-out part. The paper does not say.
    pos_label : label or None, default=None
        With two classes, the one whose F1 is the score; None is the greater one. More classes
        have macro-F1.
    finetune_epochs : int, default=3
        Epochs of each training run (the paper's value).
    balanced_batches : bool, default=True
        Draw classes equally often in every training run, as the paper's code does.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are one marker.
    random_state : int, RandomState or None, default=None
        Everything random derives from it; a fit changes no global random state. The net's own
        ``random_state`` is not used.
    verbose : int, default=0
        0 prints nothing; otherwise a progress bar is shown.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    estimators_ : list of skorch.NeuralNet
        The net of the last iteration, alone.
    n_iter_ : int
        Number of iterations after the supervised start.
    transduction_ : ndarray of shape (n_rows,)
        Given labels, and the pseudo-label of each document that was added (the marker for the
        others): the rows of X, then those of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration in which a document was added; 0 for labelled rows, -1 for those never added.
    termination_condition_ : str
        Why there is no further iteration: "validation" (the number was chosen), "n_iterations"
        (it was given), "no_change" (no document reached `threshold`), "all_labeled" or
        "no_unlabeled".
    n_threads_ : int
        Number of torch's CPU threads during the fit: results are identical for the same number.
    history_ : list of dict
        One entry for the start and for each iteration: ``iteration``, ``n_train`` (size of the
        training set), ``pool_size``, ``n_added``, ``pseudo_label_counts`` (of those added),
        ``loss`` (mean of each epoch), ``seconds`` by phase; ``validation_score`` with
        ``refit=False``.
    selection_history_ : list of dict
        The same, with ``validation_score``, of the run that chose the number of iterations; empty
        if it was given. The run ends early at a score of 1.

    See Also
    --------
    SelfPretrainingClassifier : Revises its pseudo-labels, and does not throttle.
    sklearn.semi_supervised.SelfTrainingClassifier : For any classifier, without throttling.

    Notes
    -----
    Pseudo-labelled documents weigh as much as labelled ones, whose weights have mean one. Every
    iteration begins with a fresh net.

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

    def __init__(
        self,
        estimator: Any = None,
        *,
        threshold: float = 0.9,
        max_fraction: float = 0.1,
        growth: str = "pool",
        max_iter: int = 20,
        n_iterations: int | None = None,
        validation_fraction: float = 0.2,
        refit: bool = True,
        pos_label: Any = None,
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
        self.n_iterations = n_iterations
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.pos_label = pos_label
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    # -- the algorithm --------------------------------------------------------------------------
    def _iterations(
        self, trainer: SupervisedTrainer, data: SemiSupervisedData
    ) -> Iterator[ThrottledIteration]:
        """T is the training set (X, y), U what has no pseudo-label yet, f the net."""
        X, y, N = data.X_labeled, data.y, len(data.y)
        pseudo = PseudoLabels(data)
        seconds: dict[str, float] = {}
        with timed(seconds, "training"):  # step 1
            f, loss = trainer.train(X, y, 0, weights=data.weights)
        state = pseudo.state(0, [f], 0, N, loss, seconds)
        yield state
        for t in count(1):
            seconds = {}
            with timed(seconds, "labeling"):
                for pool, (P,) in self._pools(  # step 2: a pool, labelled by the last net
                    trainer, data, t, pseudo.left, [(f, data.X_unlabeled)]
                ):
                    rows, codes = self._throttled(pool, P, len(y), t, N)  # step 3
                    if len(rows):
                        break
                else:  # the pool was all of U
                    state.ended = state.ended or "no_change"
                    return
            pseudo.add(rows, codes, t)  # step 4
            X = concatenated(X, multi_indexing(data.X_unlabeled, rows))
            y = np.concatenate([y, codes])
            with timed(seconds, "training"):  # step 5: a fresh net
                f, loss = trainer.train(X, y, t, weights=weights_of(data.weights, None, len(y) - N))
            state = pseudo.state(t, [f], len(pool), len(y), loss, seconds)
            yield state
