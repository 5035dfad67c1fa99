"""Scorers that leave out unlabelled rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.metrics import get_scorer
from sklearn.utils.metadata_routing import get_routing_for_object

from sklearn_spt._labels import labeled_part


def make_labeled_scorer(
    scoring: str | Callable[..., float], *, unlabeled_marker: Any = -1
) -> LabeledScorer:
    """Make a scorer that scores labelled rows only.

    scikit-learn's own scorers count the marker of unlabelled rows as one more class. With this
    scorer, any splitter can be used. :class:`~.SemiSupervisedStratifiedKFold` is still the better
    choice: it keeps every unlabelled row in training.

    Parameters
    ----------
    scoring : str or callable
        Name of a scorer of scikit-learn, as "f1" or "average_precision", or a callable with the
        signature ``scorer(estimator, X, y)``.

    unlabeled_marker : number, str or missing (None, NaN, NA), default=-1
        What marks an unlabelled row in y.

    Returns
    -------
    scorer : callable
        With the signature ``scorer(estimator, X, y, sample_weight=None)``, for `cross_val_score`,
        `GridSearchCV` and the like. It raises ValueError if a test fold has no labelled row. With
        metadata routing it asks for what `scoring` asks for: pass
        ``get_scorer("accuracy").set_score_request(sample_weight=True)`` to have weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn_spt.model_selection import make_labeled_scorer
    >>> X, y = np.zeros((4, 1)), np.array([1, 1, 0, -1])
    >>> clf = DummyClassifier(strategy="constant", constant=1).fit(X[:3], y[:3])
    >>> make_labeled_scorer("recall")(clf, X, y)
    1.0
    """
    return LabeledScorer(get_scorer(scoring), unlabeled_marker)


class LabeledScorer:
    """What `make_labeled_scorer` returns; it can be pickled."""

    def __init__(self, scorer: Callable[..., float], unlabeled_marker: Any) -> None:
        self.scorer = scorer
        self.unlabeled_marker = unlabeled_marker

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score the labelled rows."""
        X, y, weights, _ = labeled_part(X, y, sample_weight, self.unlabeled_marker)
        given = {} if weights is None else {"sample_weight": weights}
        return float(self.scorer(estimator, X, y, **given))

    def get_metadata_routing(self) -> Any:
        """Return what the scorer inside asks scikit-learn to route."""
        return get_routing_for_object(self.scorer)

    def __repr__(self) -> str:
        """Show what is scored."""
        return f"make_labeled_scorer({self.scorer!r}, unlabeled_marker={self.unlabeled_marker!r})"
