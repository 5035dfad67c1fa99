"""What the transformers of texts share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from sklearn_spt._runtime import DocumentedMixin
from sklearn_spt._typing import TextArray

if TYPE_CHECKING:
    from typing import Self

    from sklearn.utils import Tags


class TextTransformer(DocumentedMixin, TransformerMixin, BaseEstimator):
    """Base of the transformers of texts: they learn nothing and work without `fit`."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the texts and the parameters; nothing is learned.

        Parameters
        ----------
        X : sequence of str, n entries
            Texts, as for `transform`.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
            The transformer itself.
        """
        self._check(X)
        return self

    @abstractmethod
    def _check(self, X: Any) -> None:
        """Raise an error that names the first unusable text or parameter."""

    def get_feature_names_out(self, input_features: Any = None) -> TextArray:
        """Names of the columns of the result.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_columns,)
            ``"text"`` for texts, and ``"token_0"``, ``"token_1"`` and so on for token ids.
        """
        return np.array(self._columns(), dtype=object)

    def _columns(self) -> list[str]:
        return ["text"]

    def __sklearn_tags__(self) -> Tags:
        """Say that texts are expected and that `fit` is not needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # the result has the same dtype for any input
        return tags
