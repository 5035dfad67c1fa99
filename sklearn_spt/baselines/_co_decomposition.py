"""Co-training on the keywords and on the whole of each document; a reconstruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import SemiSupervisedData, concatenated
from sklearn_spt._holdout import weights_of
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_flag
from sklearn_spt.baselines._throttled import PseudoLabels, ThrottledIteration
from sklearn_spt.baselines._views import VIEWS, TwoViewClassifier

Choice = tuple[IntArray, IntArray]  # rows of U, and their classes


class CoDecompositionClassifier(TwoViewClassifier):
    """Co-training of a net that reads the document and one that reads its keywords.

    Two nets see two views of each document: the whole of it, and what stands around its keywords.
    In each iteration both label a pool of the unlabelled documents, and the most confident of
    each net join the training set of the other; then both are trained afresh. The prediction
    combines the two.

    .. warning:: A reconstruction. No program and only the abstract of the original [1]_ were
       available, which splits a task into sub-tasks with labels of their own; [2]_, whose
       baseline this is, says that keywords and sentences are the two views, and how documents are
       selected. See the Notes for what was decided here.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes), for both
        views. None is ``BertClassifier()``, a string ``BertClassifier(pretrained=...)``. On clones
        of it are set, and only set: ``train_split=None``, the criterion, ``max_epochs``, the
        learning-rate callback and ``classes``.
    keyword_estimator : None, str or skorch.NeuralNet, default=None
        Another net for the keyword view, if its input has another form; None is `estimator`.
    views : pair or None, default=None
        The sentence view and the keyword view, each a transformer (is cloned, and fitted on all
        rows of X without y), a callable, or None for the document itself. Both get X and return
        what the net takes, such as texts or a matrix. None is the text itself and
        ``KeywordWindow(keywords, window=5)``; X without texts is seen twice as it is, with a
        warning.
    keywords : str, list of str or None, default=None
        Keywords of every document, a str holding them between commas. Documents may bring their
        own: X is then a frame or an array of objects with two columns, the text and its keywords
        (a str with commas, or a list), and this parameter is for the rows that have none.
    keyword_representation : {"window", "state"}, default="window"
        What the keyword view is without `views`. "window": a text of the words around the
        keywords. "state": the encoder reads the whole text, and the mean of its last states at
        the first word piece of each keyword is classified (that of the first token where there is
        none), as data files of the authors suggest; needs a `BertClassifier`.
    shared : bool, default=False
        Whether both nets have one training set, which grows by what the more confident of the two
        labels, rather than each teaching the other.
    combine : {"mean", "product"}, default="mean"
        How the prediction combines the probabilities of the nets; the product is divided by its
        sum.
    threshold, max_fraction, growth, max_iter, n_iterations, validation_fraction, refit, pos_label
        As in `ThrottledSelfTrainingClassifier`: least confidence of a document that is added
        (0.9), its cap as a share of the training set (0.1), what grows linearly ("pool"), and how
        the number of iterations is chosen (of 20 at most, on 0.2 of the labelled documents by the
        combined prediction, with a refit).
    finetune_epochs : int, default=3
        Epochs of each training run (the paper's value).
    balanced_batches : bool, default=True
        Draw classes equally often in every training run, as the paper's code does.
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
    estimators_ : list of skorch.NeuralNet
        The net of the sentence view and that of the keyword view.
    views_ : tuple
        The fitted views.
    n_features_in_, n_iter_, transduction_, labeled_iter_, termination_condition_, n_threads_
        As in `ThrottledSelfTrainingClassifier`.
    history_, selection_history_ : list of dict
        As there; ``n_train`` and ``loss`` by view.

    Notes
    -----
    Decided here: both nets learn the labels of the task itself; each teaches the other
    (`shared`); both label before either is trained again; a document to which they give different
    labels in the same iteration is passed over; the cap holds for each training set; the
    probabilities are averaged (`combine`). With ``views=None``, keywords are found as whole words
    in any case, and a document without one is seen whole.

    References
    ----------
    .. [1] P. Karisani, J. C. Ho and E. Agichtein, "Domain-Guided Task Decomposition with
       Self-Training for Detecting Personal Events in Social Media", The Web Conference 2020.
    .. [2] Payam Karisani and Negin Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, section 4, https://doi.org/10.1145/3437963.3441814
    .. [3] A. Blum and T. Mitchell, "Combining Labeled and Unlabeled Data with Co-Training",
       COLT 1998.

    Examples
    --------
    >>> from sklearn_spt.baselines import CoDecompositionClassifier
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = CoDecompositionClassifier(keywords=["flu", "shot"], random_state=0)
    >>> clf.fit(bunch.data, bunch.target_partial).predict(bunch.data)  # doctest: +SKIP
    """

    _description = "co-training"

    def __init__(
        self,
        estimator: Any = None,
        *,
        keyword_estimator: Any = None,
        views: Any = None,
        keywords: Any = None,
        keyword_representation: str = "window",
        shared: bool = False,
        combine: str = "mean",
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
        self.keyword_estimator = keyword_estimator
        self.views = views
        self.keywords = keywords
        self.keyword_representation = keyword_representation
        self.shared = shared
        self.combine = combine
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

    def _check_params(self) -> None:
        super()._check_params()
        check_flag(self.shared, "shared")

    # -- the algorithm --------------------------------------------------------------------------
    def _iterations(
        self, trainer: SupervisedTrainer, data: SemiSupervisedData
    ) -> Iterator[ThrottledIteration]:
        """Both views have a net, f, and a training set T, which is L and what `joined` it."""
        pseudo, U = PseudoLabels(data), data.X_unlabeled or {}
        joined = [(pseudo.left[:0], pseudo.left[:0])] * len(VIEWS)
        f, state = self._learn(trainer, data, joined, pseudo, 0, 0, {})  # steps 1 and 2
        yield state
        for t in count(1):
            seconds: dict[str, float] = {}
            with timed(seconds, "labeling"):
                learners = list(zip(f, U.values(), strict=False))
                for pool, P in self._pools(trainer, data, t, pseudo.left, learners):  # step 3
                    n_train = [len(data.y) + len(rows) for rows, _ in joined]
                    new = self._exchanged(pool, P, n_train, t, len(data.y))  # steps 4 and 5
                    if any(len(rows) for rows, _ in new):
                        break
                else:  # the pool was all of U
                    state.ended = state.ended or "no_change"
                    return
            for rows, codes in new:
                pseudo.add(rows, codes, t)
            joined = [
                (np.concatenate([old[0], rows]), np.concatenate([old[1], codes]))
                for old, (rows, codes) in zip(joined, new, strict=True)
            ]
            f, state = self._learn(trainer, data, joined, pseudo, t, len(pool), seconds)  # step 6
            yield state

    def _learn(
        self,
        trainer: SupervisedTrainer,
        data: SemiSupervisedData,
        joined: Sequence[Choice],
        pseudo: PseudoLabels,
        t: int,
        pool_size: int,
        seconds: dict[str, float],
    ) -> tuple[list[NeuralNet], ThrottledIteration]:
        """Train a fresh net on each T."""
        nets: list[NeuralNet] = []
        loss: dict[str, list[float]] = {}
        n_train: dict[str, int] = {}
        with timed(seconds, "training"):
            for net, view, seed, (rows, codes) in zip(
                self._nets(trainer.net), VIEWS, VIEWS.values(), joined, strict=True
            ):
                X, y = data.X_labeled[view], np.concatenate([data.y, codes])
                if len(rows):
                    X = concatenated(X, multi_indexing(data.X_unlabeled[view], rows))
                weights = weights_of(data.weights, None, len(rows))
                f, loss[view] = self._train(trainer, view, X, y, t, *seed, weights=weights, net=net)
                nets.append(f)
                n_train[view] = len(y)
        return nets, pseudo.state(t, nets, pool_size, n_train, loss, seconds)

    def _exchanged(
        self, pool: IntArray, P: Sequence[FloatArray], n_train: Sequence[int], t: int, N: int
    ) -> list[Choice]:
        """Choose what joins the training set of each view."""
        if self.shared:
            conf = [p.max(axis=1) for p in P]
            clash = (P[0].argmax(axis=1) != P[1].argmax(axis=1)) & (
                np.minimum(*conf) >= self.threshold
            )
            surer = np.where((conf[1] > conf[0])[:, None], P[1], P[0])[~clash]
            return [self._throttled(pool[~clash], surer, n_train[0], t, N)] * 2
        while True:
            (r_s, c_s), (r_k, c_k) = (  # each teaches the other: the cap is the other's
                self._throttled(pool, p, n, t, N) for p, n in zip(P, n_train[::-1], strict=True)
            )
            _, i, j = np.intersect1d(r_s, r_k, return_indices=True)
            clash = r_s[i[c_s[i] != c_k[j]]]
            s, k = ~np.isin(r_s, clash), ~np.isin(r_k, clash)
            if not len(clash) or s.any() or k.any():
                return [(r_k[k], c_k[k]), (r_s[s], c_s[s])]
            rest = ~np.isin(pool, clash)  # what is contested must not block the rest
            pool, P = pool[rest], [p[rest] for p in P]
