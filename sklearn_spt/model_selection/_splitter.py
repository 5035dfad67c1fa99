"""Cross-validation for data in which most rows carry no label."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_consistent_length, column_or_1d

from sklearn_spt._labels import check_labels, is_missing
from sklearn_spt._typing import AnyArray, BoolArray

__all__ = ["SemiSupervisedStratifiedKFold"]

IntArray = npt.NDArray[np.intp]


class SemiSupervisedStratifiedKFold(BaseCrossValidator):
    """Stratified K-fold cross-validator for partly labelled data.

    The labelled rows are dealt out to the folds as by
    :class:`~sklearn.model_selection.StratifiedKFold` (with `groups`, as by
    :class:`~sklearn.model_selection.StratifiedGroupKFold`). The unlabelled rows are never tested,
    since a score needs a label, and are in every training fold, since a semi-supervised learner
    wants all of them. With an ordinary splitter, the marker of the unlabelled rows would be
    scored as if it were one class more.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.

    shuffle : bool, default=False
        Whether to shuffle each class's labelled rows before they are dealt out. Leave it off only
        where the order of the rows is meant to be kept together in a fold.

    random_state : int, RandomState instance or None, default=None
        Order of the shuffled rows; pass an int for the same folds at every call. Must be None when
        `shuffle` is False.

    unlabeled_marker : number, str or missing (None, NaN, NA), default=-1
        What stands in `y` at an unlabelled row. None, NaN and NA are one marker.

    See Also
    --------
    sklearn.model_selection.StratifiedKFold : What deals out the labelled rows.
    sklearn.model_selection.StratifiedGroupKFold : The same with `groups`.

    Notes
    -----
    Without an unlabelled row the folds are exactly those of the scikit-learn splitter.

    Where `groups` are given (threads, users, near-duplicates), an unlabelled row whose group is in
    the test fold is left out of that training fold: its text would tell the learner about the
    texts on which it is tested. It is in all other training folds. Groups can be missing (None,
    NaN) for unlabelled rows: such a row belongs to no group and is in every training fold.

    `groups` is requested by default when metadata routing is enabled.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_spt.model_selection._splitter import SemiSupervisedStratifiedKFold
    >>> texts = ["a", "b", "c", "d", "e", "f"]
    >>> y = np.array([0, -1, 1, 0, -1, 1])
    >>> cv = SemiSupervisedStratifiedKFold(n_splits=2)
    >>> for train, test in cv.split(texts, y):
    ...     print(train, test)
    [1 3 4 5] [0 2]
    [0 1 2 4] [3 5]
    """

    # `groups` is an option here, yet whoever passes it to a search means it for the splitter.
    __metadata_request__split = {"groups": True}  # noqa: RUF012 (scikit-learn's own protocol)

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        unlabeled_marker: Any = -1,
    ) -> None:
        # as scikit-learn's splitters do, bad parameters are refused here, and by them
        StratifiedKFold(n_splits, shuffle=shuffle, random_state=random_state)
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabeled_marker = unlabeled_marker

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object, default=None
            Ignored; here because scikit-learn's splitters have them.

        Returns
        -------
        n_splits : int
            The number of folds.
        """
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Generate the row numbers of training and test folds.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_features)
            Anything with a length: a list of texts, a Series, an array. It is not looked into.

        y : array-like of shape (n_samples,)
            Class labels; unlabelled rows carry `unlabeled_marker`.

        groups : array-like of shape (n_samples,), default=None
            Rows of one group are never in the training and the test part of the same fold.

        Returns
        -------
        folds : iterator of (train, test)
            Sorted row numbers. `test` holds labelled rows only; each labelled row is in exactly
            one test fold.

        Raises
        ------
        ValueError
            No `y` or one of another length, no labelled row, one class only, fewer than `n_splits`
            labelled rows in every class, or fewer than `n_splits` groups with a labelled row.
        """
        if y is None:
            raise ValueError(
                "SemiSupervisedStratifiedKFold.split needs y: it says which rows are unlabelled "
                f"(marked with {self.unlabeled_marker!r}), and the folds are stratified by it."
            )
        check_consistent_length(X, y, groups)
        labelled, classes, codes = check_labels(y, len(y), self.unlabeled_marker)
        self._check_counts(classes, codes[labelled])
        rows = np.flatnonzero(labelled)
        group_ids = None if groups is None else _number_groups(groups, rows)
        if group_ids is not None and group_ids.max() + 1 < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits} cannot be greater than the number of groups that have "
                f"a labelled row: {group_ids.max() + 1}. Use fewer folds."
            )
        test_folds = self._deal_out(codes[rows], None if group_ids is None else group_ids[rows])
        # a generator of its own: all that can be wrong is said now, not at the first fold
        return _folds([rows[test] for test in test_folds], ~labelled, group_ids)

    def _deal_out(self, codes: IntArray, groups: IntArray | None) -> list[IntArray]:
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        inner = kind(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        placeholder = np.zeros(len(codes))
        with warnings.catch_warnings():
            # said before, with the name of the class
            warnings.filterwarnings("ignore", message="The least populated class")
            return [test for _, test in inner.split(placeholder, codes, groups)]

    def _check_counts(self, classes: AnyArray, codes: IntArray) -> None:
        counts = np.bincount(codes, minlength=len(classes))
        if (counts < self.n_splits).all():
            found = ", ".join(
                f"{label!r}: {count}" for label, count in zip(classes.tolist(), counts, strict=True)
            )
            raise ValueError(
                f"n_splits={self.n_splits} cannot be greater than the number of labelled members "
                f"in each class, which is ({found}). Label more rows or use fewer folds."
            )
        least = int(np.argmin(counts))
        if counts[least] < self.n_splits:
            warnings.warn(
                f"The least populated class in y, {classes.tolist()[least]!r}, has only "
                f"{counts[least]} labelled members, which is less than n_splits={self.n_splits}.",
                UserWarning,
                stacklevel=3,
            )


def _folds(
    test_folds: list[IntArray],
    unlabelled: BoolArray,
    groups: IntArray | None,
) -> Iterator[tuple[IntArray, IntArray]]:
    for test in test_folds:
        train = np.ones(len(unlabelled), dtype=bool)
        train[test] = False
        if groups is not None:
            train &= ~(unlabelled & np.isin(groups, groups[test]))
        yield np.flatnonzero(train), test


def _number_groups(groups: Any, labelled_rows: IntArray) -> IntArray:
    """Give each group that has a labelled row a number; -1 stands for all others.

    Groups are compared as they are, so that numbers, strings and missing ones can stand together.
    """
    values = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    items = column_or_1d(values).tolist() if isinstance(values, np.ndarray) else list(values)
    known: dict[Any, None] = {}
    for row in labelled_rows.tolist():
        if is_missing(items[row]):
            raise ValueError(
                f"groups is missing ({items[row]!r}) in row {row}, which is labelled. Give each "
                "labelled row a group; only unlabelled rows can be without."
            )
        known[items[row]] = None
    try:
        ordered = sorted(known)  # StratifiedGroupKFold breaks ties in this order
    except TypeError:
        ordered = list(known)
    numbers = {group: number for number, group in enumerate(ordered)}
    return np.array([numbers.get(item, -1) for item in items], dtype=np.int64)
