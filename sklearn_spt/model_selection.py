"""Cross-validation of partly labelled data, and the comparison with supervised learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_consistent_length
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import _num_samples

from sklearn_spt._comparison import SupervisedComparison, compare_with_supervised
from sklearn_spt._labels import (
    Codes,
    encode_labels,
    is_missing,
    labeled_rows,
    suspicious_class,
    warn_user,
)

__all__ = [
    "LabeledScorer",
    "SemiSupervisedStratifiedKFold",
    "SupervisedComparison",
    "compare_with_supervised",
    "make_labeled_scorer",
]


# -- cross-validation ------------------------------------------------------------------------------
class SemiSupervisedStratifiedKFold(StratifiedKFold):
    """Stratified K-fold cross-validator for partly labelled data.

    The labelled rows are split as by :class:`~sklearn.model_selection.StratifiedKFold`, or, with
    `groups`, as by :class:`~sklearn.model_selection.StratifiedGroupKFold`: each of them is in one
    test fold. Every unlabelled row is in every training fold, unless its group is in the test fold.
    An ordinary splitter would take the marker of unlabelled rows for one more class.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether to shuffle the labelled rows of each class before they are split.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling. It must be None if `shuffle` is False.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. Missing values (None, NaN, NA) mark them, too.

    Examples
    --------
    >>> from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold
    >>> texts, y = ["a", "b", "c", "d", "e", "f"], [0, -1, 1, 0, -1, 1]
    >>> for train, test in SemiSupervisedStratifiedKFold(n_splits=2).split(texts, y):
    ...     print(train, test)
    [1 3 4 5] [0 2]
    [0 1 2 4] [3 5]
    """

    # groups that are passed to a search are meant for the splitter
    __metadata_request__split = {"groups": True}  # noqa: RUF012 (scikit-learn's own protocol)

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        unlabeled_marker: Any = -1,
    ) -> None:
        super().__init__(n_splits, shuffle=shuffle, random_state=random_state)
        self.unlabeled_marker = unlabeled_marker

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Codes, Codes]]:
        """Generate the row numbers of training and test folds.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_features)
            Only its length counts.
        y : array-like of shape (n_samples,)
            Class labels; unlabelled rows carry `unlabeled_marker`.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are never in both parts of a split. Unlabelled rows may lack one.

        Yields
        ------
        train, test : ndarray of int
            Sorted row numbers.
        """
        check_consistent_length(X, y, groups)
        y = _missing_to_marker(y, self.unlabeled_marker)
        labeled, classes, codes = encode_labels(y, _num_samples(X), self.unlabeled_marker)
        if (likely := suspicious_class(classes)) is not None:
            warn_user(
                f"SemiSupervisedStratifiedKFold takes {likely!r} for a class. If it marks "
                f"unlabelled rows, set its unlabeled_marker={likely!r}."
            )
        rows = np.flatnonzero(labeled)
        groups = None if groups is None else np.asarray(groups)
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        folds = kind(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        for _, fold in folds.split(rows, codes[rows], None if groups is None else groups[rows]):
            test = rows[fold]
            train = np.setdiff1d(np.arange(len(labeled)), test)
            if groups is not None:
                train = train[labeled[train] | ~np.isin(groups[train], groups[test])]
            yield train, test


def _missing_to_marker(y: Any, marker: Any) -> Any:
    """Replace missing labels, which are never a class, by the marker."""
    if y is None or is_missing(marker):
        return y
    return [marker if is_missing(label) else label for label in y]


# -- scores ----------------------------------------------------------------------------------------
def make_labeled_scorer(
    scoring: str | Callable[..., float], *, unlabeled_marker: Any = -1
) -> LabeledScorer:
    """Make a scorer that scores the labelled rows only.

    scikit-learn's scorers take the marker of unlabelled rows for one more class. With this scorer,
    any splitter can be used, and a search can return training scores.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer of scikit-learn, or a callable ``scorer(estimator, X, y)``.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. Missing values mark them, too.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, sample_weight=None)``. It raises ValueError if no row is labelled.
        With metadata routing it requests what `scoring` requests.
    """
    return LabeledScorer(get_scorer(scoring), unlabeled_marker)


@dataclass(frozen=True)
class LabeledScorer:
    """What `make_labeled_scorer` returns; a class, so that it can be pickled."""

    scorer: Callable[..., float]
    unlabeled_marker: Any

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score the labelled rows."""
        y = _missing_to_marker(y, self.unlabeled_marker)
        X, y, weights = labeled_rows(X, y, sample_weight, self.unlabeled_marker)
        given = {} if weights is None else {"sample_weight": weights}
        return float(self.scorer(estimator, X, y, **given))

    def get_metadata_routing(self) -> Any:
        """Return what the scorer inside requests of scikit-learn's metadata routing."""
        return get_routing_for_object(self.scorer)
