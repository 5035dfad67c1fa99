"""`SentenceEmbedder`: texts to frozen sentence embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from sklearn_spt._progress import Progress
from sklearn_spt._random import exclusive
from sklearn_spt._runtime import DocumentedMixin
from sklearn_spt._validation import (
    check_flag,
    check_integer,
    check_option,
    check_verbose,
    forget_features,
)
from sklearn_spt.nets._batching import in_batches
from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._encoder import POOLINGS, Encoder
from sklearn_spt.text._documents import check_documents, check_matrix
from sklearn_spt.text._encoding import check_texts, check_token_ids, encode_texts, is_text
from sklearn_spt.text._locations import DEFAULT_ENCODER
from sklearn_spt.text._pretrained import pad_token_id, resolve_max_length


class SentenceEmbedder(
    DocumentedMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Turn texts into frozen sentence embeddings.

    Followed by logistic regression it is a baseline without fine-tuning. Followed by
    `SelfPretrainingClassifier` with a small net it suits a laptop: embed once, then search λ and α
    in seconds.

    Parameters
    ----------
    pretrained : str, default="sentence-transformers/all-MiniLM-L6-v2"
        Name or folder of the encoder, as in `BertClassifier`.
    pooling : {"auto", "mean", "cls"}, default="auto"
        As in `BertClassifier`.
    max_length : int or "auto", default="auto"
        As in `BertClassifier`.
    normalize : bool, default=True
        Scale each embedding to unit length. Sentence encoders are trained to be compared this way.
    batch_size : int, default=32
        Least number of texts in a batch on a GPU; batches of short texts are larger. On a CPU only
        the number of tokens limits a batch.
    device : str, default="auto"
        Any torch device; "auto" takes cuda, else mps, else cpu.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        "auto" computes in bf16 if the hardware supports it, else in fp32.
    n_threads : int or None, default=None
        CPU threads during transform; None keeps torch's setting.
    verbose : int, default=0
        0 prints nothing; otherwise a progress bar is shown.

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

    def __init__(
        self,
        pretrained: str = DEFAULT_ENCODER,
        *,
        pooling: str = "auto",
        max_length: int | str = "auto",
        normalize: bool = True,
        batch_size: int = 32,
        device: str = "auto",
        precision: str = "auto",
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.pretrained = pretrained
        self.pooling = pooling
        self.max_length = max_length
        self.normalize = normalize
        self.batch_size = batch_size
        self.device = device
        self.precision = precision
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SentenceEmbedder:
        """Check parameters and input; nothing is learned.

        Parameters
        ----------
        X : texts or token ids, n_samples rows
            Documents.
        y : ignored
            Present for API consistency.

        Returns
        -------
        self
        """
        self._check_params()
        self._encode(X, reset=True)
        self._n_features_out = Encoder(self.pretrained, self.pooling).size
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
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
        self._check_params()
        distinct, inverse = np.unique(self._encode(X, reset=False), axis=0, return_inverse=True)
        pad_id = pad_token_id(self.pretrained)
        device = resolve_device(self.device)
        precision = resolve_precision(self.precision, device)
        encoder = Encoder(self.pretrained, self.pooling, precision).to(device).eval()
        with (
            exclusive(self.n_threads),
            torch.inference_mode(),
            Progress(self.verbose, "embedding", len(distinct)) as progress,
        ):
            found = in_batches(encoder, distinct, pad_id, self.batch_size, device, progress.advance)
        out: npt.NDArray[np.float32] = found.cpu().numpy()
        if self.normalize:
            norms = np.linalg.norm(out, axis=1, keepdims=True)
            out /= np.maximum(norms, np.finfo(np.float32).tiny)
        self._n_features_out = out.shape[1]
        return out[inverse.reshape(-1)]

    def _encode(self, X: Any, *, reset: bool) -> npt.NDArray[np.int32]:
        check_documents(X)
        if is_text(X):
            if reset:
                forget_features(self)
            return encode_texts(check_texts(X), self.pretrained, self.max_length)
        check_matrix(X, "X")
        matrix = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        return check_token_ids(matrix, self.pretrained)

    def _check_params(self) -> None:
        check_option(self.pooling, "pooling", POOLINGS)
        resolve_max_length(self.max_length, self.pretrained)
        check_integer(self.batch_size, "batch_size", low=1)
        check_integer(self.n_threads, "n_threads", low=1, allow_none=True)
        check_flag(self.normalize, "normalize")
        check_verbose(self.verbose)
        resolve_precision(self.precision, resolve_device(self.device))

    def __sklearn_tags__(self) -> Tags:
        """Declare that texts are accepted and that `fit` is not needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # the result is always float32
        return tags
