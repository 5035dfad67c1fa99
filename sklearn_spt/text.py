"""Transformers of texts: token ids for a net, frozen sentence embeddings for anything else."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from sklearn_spt._batches import in_batches
from sklearn_spt._data import Ids, as_texts, check_rows_of_ids
from sklearn_spt._estimator import forget_columns, progress_bar
from sklearn_spt._module import DEFAULT_DEVICE, BertModule
from sklearn_spt._pretrained import (
    DEFAULT_ENCODER,
    check_token_ids,
    load_encoder,
    warn_of_lost_content,
)

__all__ = ["SentenceEmbedder", "TokenIdVectorizer"]


class TransformerOfTexts(TransformerMixin, BaseEstimator):
    """Base of the transformers of texts, which learn nothing."""

    _takes_matrices: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Tags:
        """Declare that texts are accepted and that `fit` is not needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, self._takes_matrices
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # that of the result is always the same
        return tags


@dataclass(eq=False, repr=False)
class TokenIdVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerOfTexts):
    """Turn texts into a matrix of token ids for a pretrained encoder.

    Use it with pipelines and meta-estimators that refuse raw texts. The width of the result does
    not depend on the data. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    pretrained : str or path-like, default="sentence-transformers/all-MiniLM-L6-v2"
        Encoder whose tokenizer is used, as in `BertClassifier`.
    max_length : int or "auto", default="auto"
        Width of the result in tokens, special ones included. Longer texts are cut at the end,
        shorter ones are padded. "auto" is 160, as in the paper, or the encoder's number of
        positions if that is less.

    Examples
    --------
    >>> from sklearn_spt import TokenIdVectorizer
    >>> TokenIdVectorizer(max_length=8).fit_transform(["flu shot done"])  # doctest: +SKIP
    array([[  101, 19857,  2915,  2589,   102,     0,     0,     0]], dtype=int32)
    """

    pretrained: str | os.PathLike[str] = DEFAULT_ENCODER
    _: KW_ONLY
    max_length: int | str = "auto"

    def fit(self, X: Any, y: Any = None) -> TokenIdVectorizer:
        """Check the texts; nothing is learned, and y is ignored."""
        ids, source = self._ids(X), load_encoder(self.pretrained)
        warn_of_lost_content(ids, np.full(len(ids), -1), source, self.max_length)
        return self

    def transform(self, X: Any) -> Ids:
        """Encode texts.

        Parameters
        ----------
        X : texts, n entries
            A list, array, Series or one-column frame of str.

        Returns
        -------
        ndarray of int32 of shape (n, max_length)
            Token ids, padded at the right.
        """
        return self._ids(X)

    @property
    def _n_features_out(self) -> int:
        return load_encoder(self.pretrained).length(self.max_length)

    def _ids(self, X: Any) -> Ids:
        texts = as_texts(X)
        if texts is None:
            raise TypeError("X must hold texts.")
        return load_encoder(self.pretrained).tokenize(texts, self.max_length, full_width=True)


@dataclass(eq=False, repr=False)
class SentenceEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerOfTexts):
    """Turn texts into frozen sentence embeddings.

    Followed by logistic regression it is a baseline without fine-tuning, in seconds.

    Parameters
    ----------
    pretrained, pooling, max_length, device, precision, verbose
        As in `BertClassifier`.
    normalize : bool, default=True
        Scale each embedding to unit length. Sentence encoders are trained to be compared this way.

    Attributes
    ----------
    n_features_in_ : int
        Width of the token-id matrix; only if X was one.

    Examples
    --------
    >>> from sklearn_spt import SentenceEmbedder
    >>> SentenceEmbedder().transform(["good morning"]).shape  # doctest: +SKIP
    (1, 384)
    """

    _takes_matrices = True  # of token ids

    pretrained: str = DEFAULT_ENCODER
    _: KW_ONLY
    pooling: str = "auto"
    max_length: int | str = "auto"
    normalize: bool = True
    device: str = DEFAULT_DEVICE
    precision: str = "auto"
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> SentenceEmbedder:
        """Check the documents; nothing is learned, and y is ignored."""
        ids, source = self._encode(X, reset=True), load_encoder(self.pretrained)
        length = None if hasattr(self, "n_features_in_") else self.max_length
        warn_of_lost_content(ids, np.full(len(ids), -1), source, length)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Embed documents; each distinct one is embedded once.

        Parameters
        ----------
        X : texts or token ids, n_samples rows
            Documents.

        Returns
        -------
        ndarray of float32 of shape (n_samples, n_dimensions)
            Embeddings, in the order of X.
        """
        ids, inverse = np.unique(self._encode(X), axis=0, return_inverse=True)
        module = BertModule(self.pretrained, 0, pooling=self.pooling, precision=self.precision)
        module.to(self.device).eval()
        with torch.inference_mode(), progress_bar(self.verbose, len(ids), "embedding") as bar:
            F = in_batches(module.embed, ids, module.pad_id, self.device, bar).cpu().numpy()
        if self.normalize:
            F /= np.maximum(np.linalg.norm(F, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return np.asarray(F[inverse.reshape(-1)], dtype=np.float32)

    @property
    def _n_features_out(self) -> int:
        return int(load_encoder(self.pretrained).config.hidden_size)

    def _encode(self, X: Any, reset: bool = False) -> Ids:
        source, texts = load_encoder(self.pretrained), as_texts(X)
        if texts is not None:
            if reset:
                forget_columns(self)
            return source.tokenize(texts, self.max_length)
        check_rows_of_ids(X, "X")
        matrix = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        return check_token_ids(matrix, source)
