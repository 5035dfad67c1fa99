"""The comparison of semi-supervised with supervised learning."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples
from tqdm.auto import tqdm

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._labels import (
    Codes,
    FloatArray,
    as_labels,
    check_scalar,
    encode_labels,
    known_labels,
    positive_code,
    warn_of_labels,
    warn_user,
)
from sklearn_spt._random import derive_seed, generator, root_seed, seeded_clone
from sklearn_spt._self_pretraining import SelfPretrainingClassifier


@dataclass(frozen=True)
class SupervisedComparison:
    """Result of `compare_with_supervised`; ``print`` describes it in words.

    Attributes
    ----------
    verdict : {"use", "do not use", "cannot tell"}
        It is about the unlabelled rows. "do not use" if only one class is predicted. Else "use" if
        the whole interval of the gain is above 0, "do not use" if it ends below +0.01. Else "cannot
        tell".
    score_name : {"F1", "macro-F1", "accuracy"}
        Name of the score.
    supervised, semi_supervised : float
        Scores of the out-of-fold predictions of all labelled rows, averaged over the repeats.
    one_net : float or None
        Score of one of the five supervised nets. None if `supervised` was given.
    accuracies : tuple of float
        Accuracies of the same predictions: supervised and semi-supervised.
    gain, interval, confidence : float, tuple of float, float
        ``semi_supervised - supervised``, both ends of its interval, and the coverage of that.
    probability : float
        Share of the resamples in which the semi-supervised classifier is better.
    n_labeled, n_unlabeled : int
        Numbers of rows.
    supervised_predictions, semi_supervised_predictions : ndarray of shape (n_repeats, n_labeled)
        Out-of-fold predictions, in the order of the labelled rows.
    """

    score_name: str
    supervised: float
    semi_supervised: float
    one_net: float | None
    accuracies: tuple[float, float]
    gain: float
    interval: tuple[float, float]
    confidence: float
    probability: float
    n_labeled: int
    n_unlabeled: int
    supervised_predictions: NDArray[Any] = field(repr=False)
    semi_supervised_predictions: NDArray[Any] = field(repr=False)

    def __str__(self) -> str:
        """Describe the result in words."""
        rows = {f"with the {self.n_unlabeled:,} unlabelled rows": self.semi_supervised}
        rows["without them" + ", five nets" * (self.one_net is not None)] = self.supervised
        if self.one_net is not None:
            rows["without them, one net"] = self.one_net
        whether = {"cannot tell": "cannot tell whether the unlabelled rows help"}
        lines = [whether.get(self.verdict, f"{self.verdict} the unlabelled rows")]
        width = max(map(len, rows))
        lines += [f"  {name:{width}}  {self.score_name} {s:.3f}" for name, s in rows.items()]
        if self.score_name != "accuracy":
            lines[1] += f", accuracy {self.accuracies[1]:.3f}"
            lines[2] += f", accuracy {self.accuracies[0]:.3f}"
        interval = "{:.0%} interval {:+.3f} to {:+.3f}".format(self.confidence, *self.interval)
        rows_used = f"{self.n_labeled:,} labelled rows, predicted out of fold"
        lines += [f"  gain {self.gain:+.3f}, {interval}, from {rows_used}", self._judged()[1]]
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """Whether to use the unlabelled rows."""
        return self._judged()[0]

    def _judged(self) -> tuple[str, str]:
        """Return the verdict and its reason."""
        low, high = self.interval
        predicted = np.unique(self.semi_supervised_predictions)
        if len(predicted) == 1:  # which has a good F1 where most rows are of this class
            return "do not use", f"With them, every row is predicted {predicted[0]}."
        if low > 0:
            return "use", "They help: the whole interval is above 0."
        if high < 0.01:  # such a gain is not worth a semi-supervised fit
            return "do not use", "They do not help: the interval ends below +0.01."
        if self.gain <= 0:
            return "cannot tell", f"They did not help here, but a gain of {high:+.3f} is possible."
        return "cannot tell", "The gain may be chance. Label more rows to find out."


def compare_with_supervised(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    supervised: Any = None,
    cv: int = 5,
    n_repeats: int = 1,
    scoring: str = "f1",
    pos_label: Any = None,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SupervisedComparison:
    """Estimate whether the unlabelled rows help.

    With few labels, a held-out part is too small for a verdict. So every labelled row is predicted
    by classifiers that did not learn its label, with and without the unlabelled rows, on the same
    folds. Without them, five nets predict together: they are better than one net, and cost about as
    much as a semi-supervised fit. A paired Bayesian bootstrap over the rows (Rubin, 1981) gives the
    interval of the gain. It covers the choice of the rows, not that of the seed. A warning says
    when the labels are so few that only a gain of more than 0.1 can be told from chance.

    Parameters
    ----------
    estimator : classifier of this package, or a pipeline that ends in one
        It is cloned.
    X : documents, n_samples rows
        Labelled and unlabelled documents: anything that scikit-learn can split by rows.
    y : array-like of shape (n_samples,)
        Labels; unlabelled rows carry the `unlabeled_marker` of the classifier.
    supervised : classifier or None, default=None
        The classifier to compare with. A `BertClassifier`, or a classifier of another package, is
        fitted on the labelled rows only. None is five nets as `estimator` trains them, with the
        same epochs and logit adjustment.
    cv : int, default=5
        Number of folds, at least 2. They are stratified and shuffled.
    n_repeats : int, default=1
        Number of times that the folds are drawn. More repeats average out the choice of the folds.
    scoring : {"f1", "accuracy"}, default="f1"
        The score of the verdict. "f1" is that of the positive class of two, and macro-F1 for more
        classes: where classes are rare, it tells more than accuracy.
    pos_label : label or None, default=None
        The class whose F1 is the score. None is the last of two classes in sorted order.
    confidence : float in (0, 1), default=0.95
        Coverage of the interval.
    n_resamples : int, default=2000
        Number of resamples of the bootstrap.
    random_state : int, RandomState or None, default=None
        Seed of the folds and resamples, and of parts of `estimator` that have none of their own.
    n_jobs : int or None, default=None
        Number of processes, as in joblib.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar over the fits, and in a single process one inside
        each fit.

    Returns
    -------
    SupervisedComparison
        Verdict, scores, gain and interval.

    Raises
    ------
    TypeError, ValueError
        If `supervised` is None and `estimator` is of another package, y has no unlabelled row, or
        a parameter is out of its range.

    Examples
    --------
    >>> from sklearn_spt import SelfPretrainingClassifier, compare_with_supervised
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = SelfPretrainingClassifier(random_state=0)
    >>> print(compare_with_supervised(clf, bunch.data, bunch.target_partial))  # doctest: +SKIP
    """
    check_scalar(cv, "cv", Integral, min_val=2)
    check_scalar(n_repeats, "n_repeats", Integral, min_val=1)
    check_scalar(n_resamples, "n_resamples", Integral, min_val=1)
    check_scalar(confidence, "confidence", Real, min_val=0, max_val=1, include_boundaries="neither")
    marker = getattr(last_step(estimator), "unlabeled_marker", -1)
    root, tasks = root_seed(random_state), []
    estimator = seeded_clone(estimator, root, 1)
    labeled, classes, codes = encode_labels(y, _num_samples(X), marker)
    warn_of_labels(classes, codes, marker)
    labels, rows = as_labels(y), np.flatnonzero(labeled)
    if isinstance(model := last_step(estimator), SelfPretrainingClassifier):
        # "auto" means in each fold, and for the five nets, what it means for all rows
        model._check_params()
        net, n_U = model._template(model.estimator), len(labels) - len(rows)
        plan = model._plan(net, len(rows), len(classes), n_U)
        for name in ("refit_head", "finetune_epochs"):
            if getattr(model, name) == "auto":
                model.set_params(**{name: getattr(plan, name)})
    plain = five_nets(estimator) if supervised is None else supervised
    only_labeled = not isinstance(last_step(plain), BaseSemiSupervisedClassifier)
    averaged = _averaged_classes(scoring, pos_label, classes)
    if labeled.all():
        raise ValueError(
            f"y holds no unlabelled row (marker {marker!r}) to compare with; append such rows."
        )
    if (most := np.bincount(codes[rows]).max()) < cv:
        raise ValueError(
            f"cv={cv} needs a class with {cv} labelled rows, but the largest has {most}: lower cv, "
            "or label more rows."
        )
    # half of the interval, in simulations with classifiers that differ in a quarter of the rows
    decisive = np.sum(codes == averaged[0]) if len(averaged) == 1 else len(rows) / 2
    if (least := 0.71 / decisive**0.5) > 0.1:
        warn_user(
            f"y has {len(rows)} labelled rows: only a gain of about {least:.2f} or more can be "
            "told from chance. Expect 'cannot tell', or label more rows, rare classes first."
        )
    for repeat in range(n_repeats):
        folds = StratifiedKFold(cv, shuffle=True, random_state=derive_seed(root, repeat))
        for known, fold in folds.split(rows, codes[rows]):
            train, test = np.setdiff1d(np.arange(len(labels)), rows[fold]), rows[fold]
            plain_train = rows[known] if only_labeled else train
            tasks += [(0, repeat, plain_train, test), (1, repeat, train, test)]
    bar = tqdm(tasks, "comparison", unit="fit", disable=not verbose, dynamic_ncols=True)
    # one bar inside each fit, in a terminal or a notebook; processes would write over each other
    place = sys.stderr.isatty() or hasattr(bar, "container")
    inner = int(verbose and place and joblib.effective_n_jobs(n_jobs) == 1)
    fit, nets = joblib.delayed(_out_of_fold), supervised is None
    results = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        fit((plain, estimator)[which], X, labels, *fold, nets and not which, inner)
        for which, _, *fold in tasks
    )
    # codes by the supervised and the semi-supervised classifier, and by the first supervised net
    found = np.full((3, n_repeats, len(labels)), -1, dtype=np.intp)
    for (which, repeat, _, test), parts in zip(bar, results, strict=True):
        for number, predicted in zip((which, 2), parts, strict=False):
            found[number, repeat, test] = encode_labels(predicted, len(test), marker, classes)[2]
    y_l, found = codes[rows], found[:, :, rows]
    before, after, one_net = (float(_score(np.ones(len(rows)), y_l, p, averaged)) for p in found)
    gains = _gains(y_l, found[:2], averaged, len(classes), n_resamples, generator(root, 0, 1))
    gain, tail = after - before, (1 - confidence) / 2
    low, high = np.quantile(gains, [tail, 1 - tail]).tolist()
    return SupervisedComparison(
        score_name="macro-F1" if len(averaged) > 1 else "F1" if averaged else "accuracy",
        supervised=before,
        semi_supervised=after,
        one_net=one_net if nets else None,
        accuracies=tuple((found[:2] == y_l).mean(axis=(1, 2)).tolist()),
        gain=gain,
        interval=(min(low, gain), max(high, gain)),  # the prior can take the gain outside
        confidence=float(confidence),
        probability=float(np.mean(gains > 0)),
        n_labeled=len(rows),
        n_unlabeled=len(labels) - len(rows),
        supervised_predictions=classes[found[0]],
        semi_supervised_predictions=classes[found[1]],
    )


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def five_nets(estimator: Any) -> Any:
    """Return an unfitted classifier of five nets, trained as those of `estimator`."""
    model = last_step(estimator)
    if not isinstance(model, BaseSemiSupervisedClassifier):
        raise TypeError(
            "estimator must be a classifier of this package that trains nets, or a pipeline that "
            f"ends in one, got {model!r}; for any other pass supervised=."
        )
    shared = "finetune_epochs", "balanced_batches", "unlabeled_marker", "random_state"
    plain = SelfPretrainingClassifier(
        model.estimator,
        max_iter=0,
        n_teachers=5,
        # the same on both sides, so that it does not count as a gain
        logit_adjustment=getattr(model, "logit_adjustment", 0.0),
        **{name: getattr(model, name) for name in shared},
    )
    if not isinstance(estimator, Pipeline):
        return plain
    return clone(estimator).set_params(**{estimator.steps[-1][0]: plain})


def _out_of_fold(
    estimator: Any, X: Any, y: Any, train: Codes, test: Codes, one_net: bool, verbose: int
) -> list[NDArray[Any]]:
    """Fit a clone; return its predictions of the test rows, and those of its first net."""
    fitted = clone(estimator)
    model = last_step(fitted)
    if verbose and isinstance(model, BaseSemiSupervisedClassifier):
        model.set_params(verbose=verbose)
    X_test = _safe_indexing(X, test)
    # a list, since an array of objects would be no labels for scikit-learn's classifiers
    with known_labels():  # the labels of all folds together
        predicted = [fitted.fit(_safe_indexing(X, train), y[train].tolist()).predict(X_test)]
    if one_net:
        model.estimators_, model.estimator_weights_ = model.estimators_[:1], np.ones(1)
        predicted.append(fitted.predict(X_test))
    return predicted


def _averaged_classes(scoring: str, pos_label: Any, classes: NDArray[Any]) -> list[int]:
    """Return the codes of the classes whose F1 is averaged; none of them stands for accuracy."""
    positive = positive_code(classes, pos_label)
    if scoring == "f1":
        all_classes = pos_label is None and len(classes) > 2
        return list(range(len(classes))) if all_classes else [positive]
    if scoring != "accuracy":
        raise ValueError(f'scoring must be "f1" or "accuracy", got {scoring!r}.')
    return []


def _score(W: FloatArray, y: Codes, repeats: Codes, averaged: list[int]) -> FloatArray:
    """Return F1 or accuracy, averaged over the repeats, for each row of weights in W."""
    scores = []
    for p in repeats:
        if not averaged:
            scores.append(W @ (p == y) / W.sum(axis=-1))
        for c in averaged:
            hits, both = W @ ((y == c) & (p == c)), W @ ((y == c) * 1.0 + (p == c))
            scores.append(2 * hits / np.where(both > 0, both, 1))
    return np.asarray(np.mean(scores, axis=0))


def _gains(
    y: Codes, found: Codes, averaged: list[int], K: int, n_resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Resample the gain of the second prediction by a paired Bayesian bootstrap over the rows.

    Each resample gives the rows random weights. Rows that only one of the two predicts right may be
    few, or there may be none: plain resamples of the rows hardly vary then, and their interval is
    too narrow. So two rows of weight 1/2 in the mean are added for each class: each of the two
    predicts one of them right. For two classes that is Jeffreys' prior of such rows.
    """
    if not averaged:  # accuracy knows right and wrong only
        y, found, K = 0 * y, 1 * (found != y), 1
    right = np.arange(K)
    wrong = (right + 1) % max(K, 2)
    added = np.array([np.r_[right, wrong], np.r_[wrong, right]])
    added = np.repeat(added[:, np.newaxis], found.shape[1], axis=1)
    weights = np.r_[np.ones(len(y)), np.full(2 * K, 0.5)]
    y, found = np.r_[y, right, right], np.concatenate([found, added], axis=-1)
    W = rng.standard_gamma(weights, size=(n_resamples, len(weights)))
    return _score(W, y, found[1], averaged) - _score(W, y, found[0], averaged)
