"""Cross-validation for partly labelled data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_consistent_length, column_or_1d

from sklearn_spt._labels import check_labels, is_missing
from sklearn_spt._typing import AnyArray, BoolArray, IntArray


class SemiSupervisedStratifiedKFold(BaseCrossValidator):
    """Stratified K-fold cross-validator for partly labelled data.

    The labelled rows are split as by :class:`~sklearn.model_selection.StratifiedKFold`, or, with
    `groups`, as by :class:`~sklearn.model_selection.StratifiedGroupKFold`. The unlabelled rows are
    in every training fold and in no test fold. An ordinary splitter would treat the marker of the
    unlabelled rows as one more class.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=False
        Whether to shuffle the labelled rows of each class before splitting. Use False only to keep
        neighbouring rows in the same fold.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling; pass an int for the same folds at every call. Must be None if
        `shuffle` is False.
    unlabeled_marker : number, str or missing (None, NaN, NA), default=-1
        Value of unlabelled rows in `y`. None, NaN and NA are equivalent.

    Notes
    -----
    Without unlabelled rows, the folds are those of the scikit-learn splitter.

    If there are `groups` (threads, users, near-duplicates), an unlabelled row whose group is in the
    test fold is left out of that training fold only. Groups may be missing (None, NaN) for
    unlabelled rows, which are then in every training fold. With metadata routing, `groups` is
    requested by default.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold
    >>> texts = ["a", "b", "c", "d", "e", "f"]
    >>> y = np.array([0, -1, 1, 0, -1, 1])
    >>> cv = SemiSupervisedStratifiedKFold(n_splits=2)
    >>> for train, test in cv.split(texts, y):
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
        # checks the parameters, as scikit-learn's splitters do in their constructor
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
            Ignored; present for API consistency.

        Returns
        -------
        n_splits : int
            The number of folds.
        """
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Generate the row indices of training and test folds.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_features)
            Only the length is used.
        y : array-like of shape (n_samples,)
            Class labels; unlabelled rows carry `unlabeled_marker`.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are never in both parts of a split.

        Returns
        -------
        folds : iterator of (train, test)
            Sorted row indices. Each labelled row is in exactly one test fold.

        Raises
        ------
        ValueError
            If `y` is missing, has another length, no labelled row or a single class; or if there
            are fewer than `n_splits` labelled rows in every class, or groups with a labelled row.
        """
        if y is None:
            raise ValueError(
                "SemiSupervisedStratifiedKFold.split needs y; mark unlabelled rows in it with "
                f"{self.unlabeled_marker!r}."
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
        test_folds = self._test_folds(codes[rows], None if group_ids is None else group_ids[rows])
        # a separate generator, so that errors are raised now, not at the first fold
        return _folds([rows[test] for test in test_folds], ~labelled, group_ids)

    def _test_folds(self, codes: IntArray, groups: IntArray | None) -> list[IntArray]:
        """Split the labelled rows by scikit-learn's splitter."""
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        inner = kind(self.n_splits, shuffle=self.shuffle, random_state=self.random_state)
        with warnings.catch_warnings():
            # _check_counts has warned already, with the name of the class
            warnings.filterwarnings("ignore", message="The least populated class")
            return [test for _, test in inner.split(np.zeros(len(codes)), codes, groups)]

    def _check_counts(self, classes: AnyArray, codes: IntArray) -> None:
        """Raise an error if all classes have fewer rows than folds, warn if one has."""
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
    test_folds: list[IntArray], unlabelled: BoolArray, groups: IntArray | None
) -> Iterator[tuple[IntArray, IntArray]]:
    """Generate each training fold with its test fold."""
    for test in test_folds:
        train = np.ones(len(unlabelled), dtype=bool)
        train[test] = False
        if groups is not None:
            train &= ~(unlabelled & np.isin(groups, groups[test]))
        yield np.flatnonzero(train), test


def _number_groups(groups: Any, labelled_rows: IntArray) -> IntArray:
    """Return a number for each group that has a labelled row, and -1 for the others."""
    values = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    items = column_or_1d(values).tolist() if isinstance(values, np.ndarray) else list(values)
    known: dict[Any, None] = {}
    for row in labelled_rows.tolist():
        if is_missing(items[row]):
            raise ValueError(
                f"groups is missing ({items[row]!r}) in row {row}, which is labelled. Give each "
                "labelled row a group; only unlabelled rows may lack one."
            )
        known[items[row]] = None
    try:
        ordered = sorted(known)  # StratifiedGroupKFold breaks ties in this order
    except TypeError:
        ordered = list(known)
    numbers = {group: number for number, group in enumerate(ordered)}
    return np.array([numbers.get(item, -1) for item in items], dtype=np.int64)
