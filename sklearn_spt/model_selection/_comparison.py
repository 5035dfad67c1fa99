"""Out-of-fold comparison of a semi-supervised classifier with supervised learning."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._functional import plain_label
from sklearn_spt._holdout import positive_code
from sklearn_spt._labels import check_labels, label_column
from sklearn_spt._progress import Progress
from sklearn_spt._random import derive_seed, root_seed
from sklearn_spt._typing import AnyArray, IntArray
from sklearn_spt._validation import (
    check_flag,
    check_integer,
    check_real,
    check_verbose,
    last_step,
    n_rows,
)
from sklearn_spt.model_selection._intervals import (
    paired_gain,
    shares_with_intervals,
    weighted_f1,
)
from sklearn_spt.model_selection._splitter import SemiSupervisedStratifiedKFold
from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier
from sklearn_spt.text._documents import arrays_of, is_mapping
from sklearn_spt.text._encoding import is_text, text_array

#: Number of supervised nets that the unlabelled rows have to beat.
_N_NETS = 5


@dataclass(frozen=True)
class SupervisedComparison:
    """Result of `compare_with_supervised`; ``print`` shows it in words.

    Attributes
    ----------
    score_name : {"F1", "macro-F1"}
        F1 of the positive class for two classes, macro-F1 for more.
    supervised, semi_supervised : float
        Scores of the out-of-fold predictions of all labelled rows, averaged over the repeats.
        `supervised` is that of five nets, unless another rival was given.
    one_net : float or None
        Score of one of the five nets. None if another rival was given.
    gain : float
        ``semi_supervised - supervised``.
    interval : tuple of float
        Ends of the interval of the gain.
    confidence : float
        Coverage of the intervals.
    probability : float
        Share of the resamples in which the semi-supervised classifier is better.
    verdict : {"use", "do not use"}
        "use" if the whole interval lies above 0, and the classifier predicts more than one class.
    shares : dict or None
        Class label -> its share among the unlabelled rows, corrected for the classifier's errors,
        and the ends of its interval. None if not requested, or if it cannot be estimated.
    predicted_shares : dict or None
        Class label -> its share of the predictions, not corrected. With ``logit_adjustment="auto"``
        the predictions are adjusted towards the shares of the labelled rows.
    n_labeled, n_unlabeled : int
        Number of rows.
    supervised_predictions, semi_supervised_predictions : ndarray of shape (n_repeats, n_labeled)
        Out-of-fold predictions, in the order of the labelled rows.
    """

    score_name: str
    supervised: float
    semi_supervised: float
    one_net: float | None
    gain: float
    interval: tuple[float, float]
    confidence: float
    probability: float
    verdict: str
    shares: dict[Any, tuple[float, float, float]] | None
    predicted_shares: dict[Any, float] | None
    n_labeled: int
    n_unlabeled: int
    supervised_predictions: AnyArray = field(repr=False)
    semi_supervised_predictions: AnyArray = field(repr=False)

    def __str__(self) -> str:
        """Describe the result in words."""
        low, high = self.interval
        nets = "" if self.one_net is None else f" ({_N_NETS} nets; one net {self.one_net:.3f})"
        lines = [
            f"{self.verdict}: {self.score_name} {self.semi_supervised:.3f} with the "
            f"{self.n_unlabeled} unlabelled rows, {self.supervised:.3f} without{nets}; gain "
            f"{self.gain:+.3f}, {self.confidence:.0%} interval {low:+.3f} to {high:+.3f} "
            f"({self.n_labeled} labelled rows, out of fold)."
        ]
        if self.verdict != "use":
            predicted = np.unique(self.semi_supervised_predictions)
            if self.gain <= 0:
                lines.append("The unlabelled rows did not help.")
            elif len(predicted) == 1:
                lines.append(f"With them, the classifier predicts one class alone, {predicted[0]}.")
            else:
                lines.append("The gain may be due to chance; label more rows to find out.")
        if self.shares is not None and self.predicted_shares is not None:
            lines.append("Shares among the unlabelled rows, corrected for errors:")
            lines += [
                f"  {label}: {share:.1%} ({below:.1%} to {above:.1%}); predicted "
                f"{self.predicted_shares[label]:.1%}"
                for label, (share, below, above) in self.shares.items()
            ]
        elif self.predicted_shares is not None:
            lines.append(
                "The shares among the unlabelled rows cannot be corrected: the out-of-fold "
                "predictions do not distinguish the classes."
            )
        return "\n".join(lines)


def compare_with_supervised(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    supervised: Any = None,
    cv: int = 5,
    n_repeats: int = 1,
    pos_label: Any = None,
    shares: bool = True,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SupervisedComparison:
    """Estimate whether the unlabelled rows help, and the share of each class among them.

    With few labels, a held-out part is too small for a verdict. Here, every labelled row is
    predicted by classifiers that did not see its label, with and without the unlabelled rows, on
    the same folds. Without them, five nets predict together: their mean is better than one net, and
    a semi-supervised fit costs as much as several. The scores use all these predictions. The
    interval comes from a paired Bayesian bootstrap over the rows (Rubin, 1981), with a prior for
    rows that only one of the two predicts right. It covers the choice of the rows, not the seed.

    Parameters
    ----------
    estimator : classifier of this package, or a pipeline that ends in one
        Unfitted or fitted. It is cloned.
    X : documents, n_samples rows
        Labelled and unlabelled documents.
    y : array-like of shape (n_samples,)
        Labels; unlabelled rows carry the classifier's `unlabeled_marker`.
    supervised : classifier or None, default=None
        The classifier to compare with. A `BertClassifier`, or a classifier from another package,
        is fitted on the labelled rows only. None uses five first teachers: the same net with the
        same `logit_adjustment`, fine-tuned on the labelled rows.
    cv : int, default=5
        Number of folds.
    n_repeats : int, default=1
        Number of times the folds are drawn. Increase it to average out the choice of the folds.
    pos_label : label or None, default=None
        Positive class of two; None is the greatest.
    shares : bool, default=True
        Whether to estimate the class shares among the unlabelled rows, which predicts these rows
        in each fold. The estimate assumes that both kinds of rows have the same error rates.
    confidence : float in (0, 1), default=0.95
        Coverage of the intervals.
    n_resamples : int, default=2000
        Number of bootstrap resamples.
    random_state : int, RandomState or None, default=None
        Seed of the folds and resamples. The classifiers use their own.
    n_jobs : int or None, default=None
        Number of parallel processes, as in joblib.
    verbose : int, default=0
        0 prints nothing; otherwise a progress bar over the fits is shown.

    Returns
    -------
    SupervisedComparison
        Scores, gain, verdict and shares.

    Raises
    ------
    TypeError
        If `supervised` is None and `estimator` has no supervised start.
    ValueError
        If there are no unlabelled rows, one of two classes has a single labelled row, or a
        parameter is invalid.

    Warns
    -----
    UserWarning
        If a class has fewer labelled rows than there are folds.

    Examples
    --------
    >>> from sklearn_spt import SelfPretrainingClassifier, compare_with_supervised
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = SelfPretrainingClassifier(random_state=0)
    >>> print(compare_with_supervised(clf, bunch.data, bunch.target_partial))  # doctest: +SKIP
    """
    check_integer(cv, "cv", low=2)
    check_integer(n_repeats, "n_repeats", low=1)
    check_integer(n_resamples, "n_resamples", low=1)
    check_real(confidence, "confidence", low=0, high=1, closed="neither")
    check_flag(shares, "shares")
    check_verbose(verbose)
    marker = getattr(last_step(estimator), "unlabeled_marker", -1)
    rival = _supervised_starts(estimator) if supervised is None else supervised
    if is_text(X) and len(np.shape(X)) < 2:  # a 2-d container may hold keywords too
        X = text_array(X)
    elif isinstance(X, list):
        X = np.asarray(X)
    elif is_mapping(X):
        X = arrays_of(X)
    elif hasattr(X, "tocsr"):
        X = X.tocsr()  # other sparse formats cannot be indexed by row
    n = n_rows(X, "X")
    labeled, classes, codes = check_labels(y, n, marker)
    positive = positive_code(classes, pos_label)
    rows = np.flatnonzero(labeled)
    others = np.flatnonzero(~labeled)
    if not len(others):
        raise ValueError(
            f"y holds no row with the marker {marker!r}: the comparison needs unlabelled rows."
        )
    sizes = np.bincount(codes[rows])
    if len(classes) == 2 and sizes.min() == 1:
        raise ValueError(
            f"y has one labelled row of the class {plain_label(classes[sizes.argmin()])!r}: the "
            "fold that tests it would train on the other class alone. Label more rows of it."
        )
    root = root_seed(random_state)
    labels = label_column(y)
    only_labeled = not isinstance(last_step(rival), BaseSemiSupervisedClassifier)
    tasks = []
    for repeat in range(n_repeats):
        folds = SemiSupervisedStratifiedKFold(
            cv, shuffle=True, random_state=derive_seed(root, repeat), unlabeled_marker=marker
        )
        for train, test in folds.split(np.zeros((n, 1)), labels):
            known = train[labeled[train]] if only_labeled else train
            tasks += [(0, repeat, known, test), (1, repeat, train, test)]
    U = multi_indexing(X, others) if shares else None
    found = np.full((3, n_repeats, n), -1, dtype=np.int64)
    counts = np.zeros(len(classes), dtype=np.int64)
    run = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    with Progress(verbose, "comparison", len(tasks), unit="fit") as progress:
        results = run(
            joblib.delayed(_predicted)(
                (rival, estimator)[which],
                multi_indexing(X, train),
                label_column(labels[train]),  # without a marker, objects may be numbers alone
                multi_indexing(X, test),
                U if which else None,
                first_net=not which and supervised is None,
            )
            for which, _, train, test in tasks
        )
        for (which, repeat, _, test), (own, on_U, by_one) in zip(tasks, results, strict=True):
            found[which, repeat, test] = _codes(own, classes)
            if by_one is not None:
                found[2, repeat, test] = _codes(by_one, classes)
            if on_U is not None:
                counts += np.bincount(_codes(on_U, classes), minlength=len(classes))
            progress.advance(1)
    y_l, n_classes = codes[rows], len(classes)
    first, second, one = found[:, :, rows]
    options: dict[str, Any] = {"confidence": confidence, "n_resamples": n_resamples}
    rng = np.random.default_rng(derive_seed(root, 0, 1))
    compared = paired_gain(y_l, first, second, n_classes, positive, rng=rng, **options)
    names = [plain_label(c) for c in classes]
    corrected = predicted = None
    if shares:
        rng = np.random.default_rng(derive_seed(root, 0, 2))
        # the mean over folds and repeats, with the true number of unlabelled rows
        per_fit = np.round(counts / (cv * n_repeats)).astype(np.int64)
        estimate = shares_with_intervals(y_l, second, per_fit, n_classes, rng=rng, **options)
        if estimate is not None:
            columns = zip(*(column.tolist() for column in estimate), strict=True)
            corrected = dict(zip(names, columns, strict=True))
        predicted = dict(zip(names, (counts / counts.sum()).tolist(), strict=True))
    one_net = None
    if supervised is None:
        W = np.ones((1, len(rows)))
        scores = [weighted_f1(W, y_l, codes, n_classes, positive) for codes in one]
        one_net = float(np.mean(scores))
    return SupervisedComparison(
        score_name="F1" if n_classes == 2 else "macro-F1",
        supervised=compared.first,
        semi_supervised=compared.second,
        one_net=one_net,
        gain=compared.gain,
        interval=(compared.low, compared.high),
        confidence=confidence,
        probability=compared.probability,
        # where many rows are positive, to predict that all of them are has a good F1
        verdict="use" if compared.low > 0 and np.ptp(second) > 0 else "do not use",
        shares=corrected,
        predicted_shares=predicted,
        n_labeled=len(rows),
        n_unlabeled=len(others),
        supervised_predictions=classes[first],
        semi_supervised_predictions=classes[second],
    )


def _supervised_starts(estimator: Any) -> Any:
    """Return an unfitted classifier of several nets like the first teacher of `estimator`."""
    model = last_step(estimator)
    if not isinstance(model, BaseSemiSupervisedClassifier):
        raise TypeError(
            "estimator must be a semi-supervised classifier of this package, or a pipeline that "
            f"ends in one, got {type(model).__name__}; for any other pass supervised=."
        )
    if not model._one_text_a_row:
        raise TypeError(
            f"{type(model).__name__} has no supervised start that takes its documents; pass "
            "supervised=, for example a pipeline that takes the same documents."
        )
    start = SelfPretrainingClassifier(
        model.estimator,
        # the same adjustment in both classifiers, so that it does not count as a gain
        logit_adjustment=getattr(model, "logit_adjustment", 0.0),
        n_starts=_N_NETS,
        max_iter=0,
        finetune_epochs=model.finetune_epochs,
        balanced_batches=model.balanced_batches,
        unlabeled_marker=model.unlabeled_marker,
        random_state=model.random_state,
    )
    if not isinstance(estimator, Pipeline):
        return start
    return clone(estimator).set_params(**{estimator.steps[-1][0]: start})


def _predicted(
    estimator: Any, X: Any, y: Any, X_test: Any, U: Any, *, first_net: bool
) -> tuple[AnyArray, AnyArray | None, AnyArray | None]:
    """Fit a clone; predict the held-out rows and `U`, and the held-out rows by its first net."""
    fitted = clone(estimator).fit(X, y)
    on_U = None if U is None else fitted.predict(U)
    return fitted.predict(X_test), on_U, _first_net(fitted).predict(X_test) if first_net else None


def _first_net(fitted: Any) -> Any:
    """Return a fitted classifier of which the first net alone predicts."""
    model = copy.copy(last_step(fitted))
    model.estimators_, model.estimator_weights_ = model.estimators_[:1], [1.0]
    if not isinstance(fitted, Pipeline):
        return model
    whole = copy.copy(fitted)  # of its own class
    whole.steps = [*fitted.steps[:-1], (fitted.steps[-1][0], model)]
    return whole


def _codes(predicted: AnyArray, classes: AnyArray) -> IntArray:
    """Return the class codes of predicted labels."""
    place = {label: code for code, label in enumerate(classes.tolist())}
    unknown = [label for label in predicted.tolist() if label not in place]
    if unknown:
        raise ValueError(
            f"a compared classifier predicts {unknown[0]!r}, which is not one of the classes "
            f"{classes.tolist()}."
        )
    return np.array([place[label] for label in predicted.tolist()], dtype=np.int64)
