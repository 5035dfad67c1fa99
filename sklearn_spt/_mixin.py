"""What all classifiers of the package share: labels out, scores on labelled rows, folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score

from sklearn_spt._labels import labeled_rows, running_fits


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block raises, so that it keeps its former state."""
    before, outside = dict(vars(estimator)), running_fits.get()
    running_fits.set(outside + 1)
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
    finally:
        running_fits.set(outside)


def forget_columns(estimator: Any) -> None:
    """Remove what an earlier fit remembered of the columns of X."""
    for name in {"n_features_in_", "feature_names_in_"} & vars(estimator).keys():
        delattr(estimator, name)


class ClassifierOfTexts:
    """`predict`, `score`, `save` and `export`."""

    classes_: Any
    unlabeled_marker: Any
    predict_proba: Any

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults, also those of a net."""
        usual = type(self)().get_params(deep=False)  # type: ignore[attr-defined]
        params = sorted(self.get_params(deep=False).items())  # type: ignore[attr-defined]
        changed = [f"{k}={v!r}" for k, v in params if repr(v) != repr(usual.get(k))]
        return f"{type(self).__name__}({', '.join(changed)})"

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
        codes = self.predict_proba(X).argmax(axis=1)  # first, since it checks that a fit was done
        return np.asarray(self.classes_)[codes]

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

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save the fitted classifier to a folder that `sklearn_spt.load` reads.

        The folder holds the weights of each net (safetensors), parameters and fitted attributes
        (JSON), and the tokenizer and configuration of the encoder: no code, no pickle. It appears
        whole or not at all.

        Parameters
        ----------
        folder : str or path-like
            New or empty folder; parents are created.
        overwrite : bool, default=False
            Whether to replace a folder that an earlier `save` wrote.

        Raises
        ------
        ValueError
            If the folder is in use, or the classifier holds what needs code: a net other than
            `BertClassifier`, a callback, a subclass. Use pickle for these.
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        from sklearn_spt.persistence import save

        save(self, folder, overwrite=overwrite)

    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        format: str = "huggingface",
        overwrite: bool = False,
    ) -> None:
        """Export one net to a folder that other libraries load without code of this one.

        The net is the classifier itself, or the first of its ``students_`` or ``estimators_``. Its
        head includes the logit adjustment.

        Parameters
        ----------
        folder : str or path-like
            New or empty folder; parents are created.
        format : {"huggingface", "onnx"}, default="huggingface"
            "huggingface": a BERT with ``pooling="cls"`` becomes a folder for transformers
            (``AutoModelForSequenceClassification``). No class of transformers classifies the mean
            of the token states, so a net with mean pooling becomes a folder for
            sentence-transformers, whose ``encode`` returns the logits. "onnx": ``model.onnx`` maps
            token ids of any number and width to probabilities.
        overwrite : bool, default=False
            Whether to replace a folder that an earlier `export` wrote.

        Raises
        ------
        ValueError
            If the folder is in use, or the net is not a `BertClassifier`.
        ImportError
            If a package that "onnx" needs is missing.
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted.
        """
        from sklearn_spt.persistence import export

        export(self, folder, format=format, overwrite=overwrite)
