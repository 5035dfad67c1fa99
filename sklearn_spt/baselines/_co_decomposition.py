"""Co-training on the whole document and on its keywords; a reconstruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._base import SemiSupervisedData
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt.baselines._throttled import PseudoLabels, ThrottledIteration
from sklearn_spt.baselines._training_set import training_set
from sklearn_spt.baselines._views import VIEWS, TwoViewClassifier

Selection = tuple[IntArray, IntArray]  # unlabelled rows and their pseudo-labels


class CoDecompositionClassifier(TwoViewClassifier):
    """Co-training of a net that reads the document and one that reads its keywords.

    Two nets see two views of each document: the whole text, and the words around its keywords. In
    each iteration both nets label a pool of unlabelled documents. The most confident documents of
    each net join the training set of the other net, and both are trained afresh. The prediction
    combines both nets.

    .. warning:: This is a reconstruction. Only the abstract of the original [1]_ was available. The
       original splits a task into sub-tasks, each with its own labels. The views and the selection
       follow [2]_, which has the method as a baseline. The Notes list the other decisions.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        The net of both views, see `ThrottledSelfTrainingClassifier`.
    keyword_estimator : None, str or skorch.NeuralNet, default=None
        Another net for the keyword view, if its input has another form; None is `estimator`.
    views : pair or None, default=None
        The sentence view and the keyword view. Each is a transformer (a clone is fitted on all
        rows of X, without y), a callable, or None for the document itself. Both get X and return
        what the net takes, such as texts or a matrix. The default for texts is the text itself
        and ``KeywordWindow(keywords, window=5)``; other X is used for both views, with a warning.
    keywords : str, list of str or None, default=None
        Keywords of all documents; a str holds them between commas. To give each document its own,
        pass X as a frame or an object array with two columns: the text, and its keywords (a str
        with commas, or a list). This parameter then serves rows without keywords.
    threshold, max_fraction, max_iter, n_iterations, validation_fraction, pos_label
        As in `ThrottledSelfTrainingClassifier`. The cap holds for each training set, and the
        combined prediction is scored.
    finetune_epochs, balanced_batches, unlabeled_marker, random_state, verbose
        As in `ThrottledSelfTrainingClassifier`.

    Attributes
    ----------
    estimators_ : list of two skorch.NeuralNet
        The net of the sentence view and that of the keyword view.
    views_ : tuple
        The fitted views.
    classes_, n_features_in_, n_iter_, transduction_, labeled_iter_, termination_condition_, \
n_threads_
        As in `ThrottledSelfTrainingClassifier`.
    history_, selection_history_ : list of dict
        As there; ``n_train`` and ``loss`` by view.

    Notes
    -----
    Decisions of this reconstruction: both nets learn the labels of the task itself and teach each
    other; both label before either is trained again; a document to which they give different
    labels in the same iteration is skipped; the prediction is the mean of both.
    Keywords are found as whole words in any case, and without a keyword the keyword view is the
    whole document.

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
        threshold: float = 0.9,
        max_fraction: float = 0.1,
        max_iter: int = 20,
        n_iterations: int | None = None,
        validation_fraction: float = 0.2,
        pos_label: Any = None,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        unlabeled_marker: Any = -1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator,
            threshold=threshold,
            max_fraction=max_fraction,
            max_iter=max_iter,
            n_iterations=n_iterations,
            validation_fraction=validation_fraction,
            pos_label=pos_label,
            finetune_epochs=finetune_epochs,
            balanced_batches=balanced_batches,
            unlabeled_marker=unlabeled_marker,
            random_state=random_state,
            verbose=verbose,
        )
        self.keyword_estimator = keyword_estimator
        self.views = views
        self.keywords = keywords

    def _iterations(
        self, trainer: SupervisedTrainer, data: SemiSupervisedData
    ) -> Iterator[ThrottledIteration]:
        """Each view has a net and a training set: the labelled documents and those `added`."""
        N, U, pseudo = len(data.y), data.X_unlabeled or {}, PseudoLabels(data)
        pool = none = pseudo.left[:0]
        added = [(none, none)] * len(VIEWS)
        seconds: dict[str, float] = {}
        for t in count():
            nets: list[NeuralNet] = []
            loss: dict[str, list[float]] = {}
            n_train = [N + len(rows) for rows, _ in added]
            with timed(seconds, "training"):
                for net, (view, seed), (rows, codes) in zip(
                    self._nets(trainer.net), VIEWS.items(), added, strict=True
                ):
                    seen = replace(data, X_labeled=data.X_labeled[view], X_unlabeled=U.get(view))
                    X, y, w = training_set(seen, rows, codes)
                    f, loss[view] = self._train(trainer, view, X, y, t, *seed, weights=w, net=net)
                    nets.append(f)
            by_view = dict(zip(VIEWS, n_train, strict=True))
            state = pseudo.state(t, nets, len(pool), by_view, loss, seconds)
            yield state
            seconds = {}  # of the next iteration
            learners = list(zip(nets, U.values(), strict=False))
            with timed(seconds, "labeling"):
                for pool, P in self._pools(trainer, data, t + 1, pseudo.left, learners):
                    new = self._select_by_view(pool, P, n_train)
                    if any(len(rows) for rows, _ in new):
                        break
                else:  # the pool held all unlabelled documents
                    state.ended = state.ended or "no_change"
                    return
            for rows, codes in new:
                pseudo.add(rows, codes, t + 1)
            added = [
                (np.concatenate([old[0], rows]), np.concatenate([old[1], codes]))
                for old, (rows, codes) in zip(added, new, strict=True)
            ]

    def _select_by_view(
        self, pool: IntArray, P: Sequence[FloatArray], n_train: Sequence[int]
    ) -> list[Selection]:
        """Select the documents that join the training set of each view."""
        while True:
            (rows_s, codes_s), (rows_k, codes_k) = (  # the cap is that of the other view's set
                self._select(pool, p, n) for p, n in zip(P, n_train[::-1], strict=True)
            )
            _, i, j = np.intersect1d(rows_s, rows_k, return_indices=True)
            conflicts = rows_s[i[codes_s[i] != codes_k[j]]]
            s, k = ~np.isin(rows_s, conflicts), ~np.isin(rows_k, conflicts)
            if not len(conflicts) or s.any() or k.any():
                return [(rows_k[k], codes_k[k]), (rows_s[s], codes_s[s])]
            rest = ~np.isin(pool, conflicts)  # select from the others instead
            pool, P = pool[rest], [p[rest] for p in P]
