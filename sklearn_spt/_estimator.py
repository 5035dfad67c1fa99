"""What all estimators of the package share: all or nothing in a fit, labels out, the bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from tqdm.auto import tqdm

from sklearn_spt._labels import FloatArray, labeled_rows


def snapshot(estimator: Any) -> Any:
    """Return a twin with the present attributes, which no later fit in another thread changes."""
    twin = object.__new__(type(estimator))
    vars(twin).update(vars(estimator))
    return twin


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[Any]:
    """Yield a twin to fit; the estimator gets its attributes at once when the block succeeds.

    Until then other threads predict with the estimator as it was, and an error leaves it so.
    """
    before, twin = dict(vars(estimator)), snapshot(estimator)
    yield twin
    new = vars(twin)
    # callbacks may have changed the estimator, too
    after = {k: v for k, v in vars(estimator).items() if k in new or k not in before}
    after |= {k: v for k, v in new.items() if k not in before or v is not before[k]}
    object.__setattr__(estimator, "__dict__", after)


def forget_columns(estimator: Any) -> None:
    """Remove what an earlier fit remembered of the columns of X."""
    for name in {"n_features_in_", "feature_names_in_"} & vars(estimator).keys():
        delattr(estimator, name)


class BaseClassifier:
    """What users call; a subclass writes `_fit_documents` and `_predict_proba`."""

    classes_: Any
    unlabeled_marker: Any

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults, also those of a net."""
        usual = type(self)().get_params(deep=False)  # type: ignore[attr-defined]
        params = sorted(self.get_params(deep=False).items())  # type: ignore[attr-defined]
        changed = [f"{k}={v!r}" for k, v in params if repr(v) != repr(usual.get(k))]
        return f"{type(self).__name__}({', '.join(changed)})"

    def fit(self, X: Any, y: Any, X_unlabeled: Any = None, sample_weight: Any = None) -> Self:
        """Fit on labelled and unlabelled documents.

        Parameters
        ----------
        X : documents, n_samples rows
            A list, array or Series of str, a one-column frame of them, a token-id matrix, or
            any input that a given net takes. `SoftSelfTrainingClassifier` takes a numeric
            matrix, dense or sparse.
        y : array-like of shape (n_samples,)
            Class labels of any kind; unlabelled rows carry `unlabeled_marker`.
        X_unlabeled : documents or None, default=None
            More unlabelled documents, of the same kind as X. Use it with meta-estimators that
            refuse marked rows in y; they can route it as metadata. `BertClassifier` uses no
            unlabelled rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Scales the loss of labelled rows, not their probability to be drawn. Entries of
            unlabelled rows are ignored. Nets use proportions only.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If a parameter, document, label or weight is unusable. Nothing has changed then.
        """
        with all_or_nothing(self) as new:
            new._fit_documents(X, y, X_unlabeled, sample_weight)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        # a fit in another thread may replace the attributes at any moment
        return snapshot(self)._predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each document.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels as in y.
        """
        fitted = snapshot(self)
        codes = fitted.predict_proba(X).argmax(axis=1)  # first, since it checks that a fit was done
        return np.asarray(fitted.classes_)[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows.

        Parameters
        ----------
        X : documents, n_samples rows
            Of the same kind as in `fit`.
        y : array-like of shape (n_samples,)
            Labels. Rows that carry `unlabeled_marker` are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        ValueError
            If no row is labelled.
        """
        X, y, sample_weight = labeled_rows(X, y, sample_weight, self.unlabeled_marker)
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))


def progress_bar(verbose: int, total: int | None, name: str, batch: int = 0, **how: Any) -> Any:
    """Return a bar over texts, shown as steps if a batch has a size; none without `verbose`."""
    if not verbose:  # tqdm takes a lock, also if it shows nothing; these builtins do nothing here
        return nullcontext(SimpleNamespace(n=0, update=abs, set_description=str))
    # leave=None: below another bar, such as that of a comparison, it vanishes at its end
    shown = {"unit": "text", "dynamic_ncols": True, "leave": None, **how}
    if batch:
        steps = "{n:.0f}/{total:.0f} steps" if total else "{n:.0f} steps"
        form = "{l_bar}{bar}| " + steps + " [{elapsed}<{remaining}]"
        shown |= {"unit_scale": 1 / max(batch, 1), "bar_format": form}
    return tqdm(total=total, desc=name, **shown)
