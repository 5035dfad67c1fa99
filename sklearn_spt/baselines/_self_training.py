"""Self-training with throttling, the oldest way to learn from unlabelled documents."""

from __future__ import annotations

from sklearn_spt.baselines._common import ThrottledClassifier


class ThrottledSelfTrainingClassifier(ThrottledClassifier):
    """Self-training that adds a few confident documents in each iteration.

    A net trained on the labelled documents labels a pool of unlabelled ones: in iteration t a
    random t tenths of them, and more if none is confident enough. The most confident join the
    training set with their predicted labels, and a fresh net is trained on it. The number of
    iterations is chosen on held-out labelled documents. Then the method starts again with all of
    them. Pseudo-labels are never revised.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        The net, as in `SelfPretrainingClassifier`.
    threshold : float >= 0, default=0.9
        θ, minimum confidence of a pseudo-label. Above 1 training is supervised. The default is
        the paper's.
    max_fraction : float > 0, default=0.1
        Maximum share of the current training set that an iteration adds, rounded down but at
        least one document. The default is the paper's.
    max_iter : int, default=20
        Maximum number of iterations to choose from.
    n_iterations : int or None, default=None
        Number of iterations. None takes the smallest with the best score on held-out documents.
    validation_fraction : float in (0, 1), default=0.2
        Share of the labelled documents to hold out, by class. Rows of weight 0 are not held out.
        The default is the paper's.
    pos_label : label or None, default=None
        Class whose F1 is the score if there are two classes; None is the greater label. More
        classes are scored by macro-F1.
    finetune_epochs : int, default=3
        Epochs of each training run. The default is the paper's.
    balanced_batches : bool, default=True
        Whether training draws all classes equally often, as the paper's code does.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are equivalent.
    random_state : int, RandomState or None, default=None
        Seed of all random numbers. A fit changes no global random state.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    estimators_ : list of one skorch.NeuralNet
        The net of the last iteration.
    n_iter_ : int
        Number of iterations.
    transduction_ : ndarray of shape (n_rows,)
        Given label, pseudo-label, or the marker. First the rows of X, then those of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration that added a document; 0 for labelled rows, -1 for rows never added.
    termination_condition_ : {"validation", "n_iterations", "no_change", "all_labeled", \
"no_unlabeled"}
        Reason why the fit ended. "validation": the number was chosen. "n_iterations": it was given,
        or no row could be held out. "no_change": no document reached `threshold`.
    history_ : list of dict
        One entry for the supervised net and one for each iteration: ``iteration``, ``n_train``
        (size of the training set), ``pool_size``, ``n_added``, ``pseudo_label_counts`` (of those
        added), ``loss`` of each epoch, ``seconds``.
    selection_history_ : list of dict
        The same, with ``validation_score``, of the run that chose the number of iterations. That
        run ends at a score of 1.

    References
    ----------
    .. [1] D. Yarowsky, "Unsupervised Word Sense Disambiguation Rivaling Supervised Methods",
       ACL 1995.
    .. [2] S. Abney, "Semisupervised Learning for Computational Linguistics", 2007 (throttling).
    .. [3] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, section 4.
    """
