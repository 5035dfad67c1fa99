"""Deep Mutual Learning (Zhang et al., CVPR 2018), with unlabelled documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from skorch import NeuralNet

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._functional import class_counts, mean_probabilities
from sklearn_spt._supervised import SupervisedTrainer, timed
from sklearn_spt._validation import check_integer, check_real
from sklearn_spt.baselines._joint_training import JointTrainer


class MutualLearningClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by Deep Mutual Learning.

    Two or more nets are trained together on the same labelled and unlabelled batches. Each net
    learns from the labels by cross-entropy, and on both batches from its peers by the
    Kullback-Leibler divergence to their class probabilities. There is no teacher, and no
    pseudo-label is kept. The prediction is the mean of the nets.

    On very skewed classes the nets may agree on the majority class: in the paper this method
    reached an F1 of 0.024 on tweets of which 9% are positive. Keep ``balanced_batches=True`` and
    check ``history_[-1]["pseudo_label_counts"]``.

    Parameters
    ----------
    n_nets : int, default=2
        Number of nets, at least 2. Memory and time grow with it. The default is the paper's value.
    kl_weight : float >= 0, default=1.0
        Weight of the divergence relative to the cross-entropy; 0 trains independent nets. The
        default is that of the original method.
    finetune_epochs : int, default=3
        Number of epochs. The default is the paper's value. An epoch is one pass over the labelled
        documents, with as many unlabelled batches: few labels use few unlabelled documents. The
        pass over the unlabelled ones goes on in the next epoch.
    balanced_batches : bool, default=True
        Whether to draw the labelled batches with replacement and all classes equally often; False
        shuffles.
    estimator, unlabeled_marker, random_state, verbose
        As in `ThrottledSelfTrainingClassifier`. The net's optimiser must step without a closure.

    Attributes
    ----------
    classes_, n_features_in_, n_threads_
        As in `ThrottledSelfTrainingClassifier`.
    estimators_ : list of skorch.NeuralNet
        The nets. With ``kl_weight=0`` the first is the net of a supervised `BertClassifier` with
        the same `random_state`.
    n_iter_ : int
        Number of epochs with unlabelled documents. 0 if there were none; the nets then learn from
        each other on the labelled rows, as in the original method.
    transduction_ : ndarray of shape (n_rows,)
        Given labels and final predictions of unlabelled rows: rows of X, then of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        0 for labelled rows; ``n_iter_`` for the others, or -1 if nothing was trained.
    termination_condition_ : {"all_epochs", "callback", "no_unlabeled"}
        Why the fit ended. "callback": a callback of one net stopped the training of all.
    history_ : list of dict
        One entry for the start and for each epoch: ``iteration``, ``n_train`` (labelled rows),
        ``n_steps``, ``loss`` (mean ``cross_entropy`` and unweighted ``kl`` of each net),
        ``seconds`` by phase; in the last one also ``pseudo_label_counts`` of the unlabelled rows.

    See Also
    --------
    BertClassifier : The default net, and supervised baseline.
    SelfPretrainingClassifier : Iterative distillation with a curriculum of growing samples.

    Notes
    -----
    For net k of M the loss of a step is, with B_L the labelled and B_U the unlabelled batch,
    ``mean over B_L of CE(y, p_k) + kl_weight * mean over B_L and B_U of
    sum over l != k of KL(p_l || p_k) / (M - 1)``; no gradient goes to the peers. A `sample_weight`
    scales both terms of a labelled row. All nets step from the same predictions, as in [2]_; in
    Algorithm 1 of [1]_ a net sees the new predictions of those that stepped before it.

    References
    ----------
    .. [1] Y. Zhang, T. Xiang, T. M. Hospedales and H. Lu, "Deep Mutual Learning", CVPR 2018,
       sections 3.1 to 3.4.
    .. [2] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, where it is a baseline ("Mutual-learning").

    Examples
    --------
    >>> from sklearn_spt.baselines import MutualLearningClassifier
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = MutualLearningClassifier(random_state=0)
    >>> clf.fit(bunch.data, bunch.target_partial).predict(bunch.data)  # doctest: +SKIP
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_nets: int = 2,
        kl_weight: float = 1.0,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        unlabeled_marker: Any = -1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.n_nets = n_nets
        self.kl_weight = kl_weight
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_integer(self.n_nets, "n_nets", low=2)
        check_real(self.kl_weight, "kl_weight", low=0, closed="left")

    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """L are the labelled and U the unlabelled documents."""
        n, n_unlabeled = len(data.y), data.n_unlabeled
        trainer = SupervisedTrainer(self, net, data.classes, "mutual learning")
        history: list[dict[str, Any]] = []

        def record_epoch(record: dict[str, Any]) -> None:
            history.append({"iteration": len(history), "n_train": n, **record})
            trainer.progress.say(f"epoch {history[-1]['iteration']}")

        with trainer.progress:
            # fresh nets, each with its own seed, optimiser and learning rate
            seconds: dict[str, float] = {}
            with timed(seconds, "start"):
                joint = JointTrainer(trainer, self, data)
            record_epoch({"n_steps": 0, "loss": {}, "seconds": seconds})
            # all nets step on the same batches of L and U
            complete = joint.train(record_epoch)
            # the mean of the nets labels U
            pseudo = np.empty(0, dtype=np.int64)
            if n_unlabeled:
                with timed(history[-1]["seconds"], "labeling"):
                    p = [trainer.probabilities(M, data.X_unlabeled) for M in joint.nets]
                pseudo = mean_probabilities(*p).argmax(axis=1)
                history[-1]["pseudo_label_counts"] = class_counts(pseudo, data.classes)

        self.estimators_ = joint.nets
        self.n_iter_ = len(history) - 1 if n_unlabeled else 0
        self.history_ = history
        self._set_transduction(data, pseudo, np.full(len(pseudo), self.n_iter_ or -1))
        self.termination_condition_ = (
            "no_unlabeled" if not n_unlabeled else "all_epochs" if complete else "callback"
        )
