"""Soft self-training: a linear classifier that learns from its own sharpened probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse, vstack
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from sklearn_spt._class_distributions import tempered
from sklearn_spt._data import as_texts
from sklearn_spt._estimator import BaseClassifier
from sklearn_spt._labels import (
    Codes,
    FloatArray,
    check_scalar,
    check_weights,
    decode_labels,
    encode_labels,
    warn_of_equal_numbers,
    warn_of_labels,
)
from sklearn_spt._random import one_blas_thread

#: Weights of a labelled and of an unlabelled row.
_LABELED, _UNLABELED = 3.0, 0.5


@dataclass(eq=False, repr=False)
class SoftSelfTrainingClassifier(BaseClassifier, ClassifierMixin, BaseEstimator):
    """Semi-supervised linear classifier for a numeric matrix, such as sentence embeddings.

    A logistic regression on the labelled rows gives class probabilities of the unlabelled ones. In
    each round but the last they are sharpened: each is raised to a power, and rows are scaled to
    sum to 1. Then the regression is fitted again, on the labelled rows (weight 3) and on all
    unlabelled ones with their soft labels (weight 1/2). There is no threshold. Sharpening inflates
    frequent classes, so class shares are scaled back to those before it. If the numbers of labels
    per class differ by at most one, shares are free. A fit takes seconds where nets take
    minutes. The defaults were chosen on tasks with few labels (``examples/studies/PROTOCOL.md``).

    Parameters
    ----------
    C : float > 0, default=10.0
        Inverse strength of the regularisation, as in
        :class:`~sklearn.linear_model.LogisticRegression` (for two classes half of it).
    sharpening : float in [1, 100], default=2.0
        Power of the probabilities. 1 sharpens nothing.
    max_iter : int >= 0, default=6
        Number of rounds. 0 is plain logistic regression, and 1 sharpens nothing.
    normalize : bool, default=True
        Scale each row to unit length. Sentence embeddings are made to be compared this way.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are equivalent.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    coef_, intercept_ : ndarray of shape (n_classes, n_features), (n_classes,)
        Weights of the last regression.
    transduction_ : ndarray of shape (n_rows,)
        Given labels, and predictions of the unlabelled rows; those of X_unlabeled come last.
    n_features_in_ : int
        Number of columns of X.
    n_iter_ : int
        Number of rounds.

    Examples
    --------
    >>> from sklearn_spt import SoftSelfTrainingClassifier
    >>> X = [[1.0, 0.1], [0.1, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.3], [0.2, 1.0]]
    >>> SoftSelfTrainingClassifier().fit(X, [0, 1, 0, 1, -1, -1]).transduction_.tolist()
    [0, 1, 0, 1, 0, 1]
    """

    C: float = 10.0
    _: KW_ONLY
    sharpening: float = 2.0
    max_iter: int = 6
    normalize: bool = True
    unlabeled_marker: Any = -1

    def _fit_documents(self, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any) -> None:
        check_scalar(self.C, "C", Real, min_val=0, max_val=1e12, include_boundaries="neither")
        check_scalar(self.sharpening, "sharpening", Real, min_val=1, max_val=100)
        check_scalar(self.max_iter, "max_iter", Integral, min_val=0)
        F = self._features(X, reset=True)
        labeled, classes, codes = encode_labels(y, F.shape[0], self.unlabeled_marker)
        warn_of_labels(classes, codes, self.unlabeled_marker)
        # a row counts C times its weight
        w_l = check_weights(sample_weight, labeled, scaled=False)
        if X_unlabeled is not None and (more := _num_samples(X_unlabeled)):
            if more == len(codes):
                warn_of_equal_numbers(more)
            try:
                parts = F, self._features(X_unlabeled)
                sparse = any(map(issparse, parts))
                F = vstack(parts, format="csr") if sparse else np.vstack(parts)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"X_unlabeled is not of the same kind as X: {error}") from error
            codes = np.pad(codes, (0, more), constant_values=-1)
        how: Any = {"sharpening": self.sharpening, "max_iter": self.max_iter}
        theta, P = soft_self_training(F, codes, w_l, len(classes), C=self.C, **how)
        self.classes_, self.n_iter_ = classes, self.max_iter if len(P) else 0
        self.coef_, self.intercept_ = theta[:-1].T.copy(), theta[-1].copy()
        codes[codes < 0] = P.argmax(axis=1)
        self.transduction_ = decode_labels(codes, classes, self.unlabeled_marker)

    def _predict_proba(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return np.asarray(softmax(self._features(X) @ self.coef_.T + self.intercept_, axis=1))

    def __sklearn_tags__(self) -> Tags:
        """Say that sparse matrices are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _features(self, X: Any, reset: bool = False) -> Any:
        if getattr(X, "ndim", 1) == 1 and as_texts(X) is not None:
            raise TypeError(
                "X holds texts, but SoftSelfTrainingClassifier takes numbers: put SentenceEmbedder "
                "before it, as in make_pipeline(SentenceEmbedder(), SoftSelfTrainingClassifier())."
            )
        F = validate_data(self, X, reset=reset, dtype=np.float64, accept_sparse="csr")
        return normalize(F) if self.normalize else F


def soft_self_training(
    F: Any,
    codes: Codes,
    weights: FloatArray,
    n_classes: int,
    *,
    C: float,
    sharpening: float = 2.0,
    max_iter: int = 6,
) -> tuple[FloatArray, FloatArray]:
    """Fit the regression of `SoftSelfTrainingClassifier` to vectors F of shape (n, d).

    Class codes are -1 at unlabelled rows; `weights` are those of the labelled rows. Returned are
    the weights of the regression, of shape (d + 1, K), and the probabilities of unlabelled rows.
    """
    labeled = codes >= 0
    both = F[np.argsort(~labeled, kind="stable")]  # first the labelled rows
    L, U = both[: len(weights)], both[len(weights) :]
    y_l, n_U = np.eye(n_classes)[codes[labeled]], U.shape[0]
    # numpy and scipy have a BLAS each, whose waiting threads hold each other up: tenfold
    with one_blas_thread():
        theta = _logistic_regression(L, y_l, weights, C)
        P = softmax(U @ theta[:-1] + theta[-1], axis=1)
        # equally many labels of each class (one less in a fold) were drawn by class: their shares
        # say nothing
        held = bool(np.ptp(y_l[weights > 0].sum(axis=0)) > 1)
        w = np.append(_LABELED * weights, np.full(n_U, _UNLABELED))
        for left in reversed(range(max_iter if n_U else 0)):
            P = _sharpened(P, sharpening, held) if left else P
            theta = _logistic_regression(both, np.vstack([y_l, P]), w, C, theta)
            P = softmax(U @ theta[:-1] + theta[-1], axis=1)
    return theta, P


def _sharpened(P: FloatArray, power: float, held: bool) -> FloatArray:
    """Return probabilities to a power; if `held`, with the class shares of before."""
    Q, wanted = tempered(P, 1 / power), P.sum(axis=0)
    for _ in range(20 * held):  # columns and rows are scaled in turn
        Q = Q * (wanted / np.maximum(Q.sum(axis=0), 1e-100))
        Q /= Q.sum(axis=1, keepdims=True)
    return Q


def _logistic_regression(
    F: FloatArray, targets: FloatArray, w: FloatArray, C: float, start: FloatArray | None = None
) -> FloatArray:
    """Fit weights of shape (d + 1, K), the last row the intercepts, to soft labels."""
    shape = (F.shape[1] + 1, targets.shape[1])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        W = flat.reshape(shape)
        z = F @ W[:-1] + W[-1]
        z -= z.max(axis=1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        error = w[:, None] * (np.exp(log_p) - targets)
        gradient = np.vstack([C * F.T @ error + W[:-1], C * error.sum(axis=0)])
        value = -C * (w @ (targets * log_p).sum(axis=1)) + (W[:-1] ** 2).sum() / 2
        return value, gradient.ravel()

    first = np.zeros(shape) if start is None else start
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(found.x.reshape(shape))
