"""The base of all semi-supervised classifiers: validation, encoding, fit, attributes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch import NeuralNet
from skorch.dataset import get_len
from skorch.utils import multi_indexing
from torch import nn

from sklearn_spt._functional import mean_probabilities, tempered_softmax
from sklearn_spt._labels import (
    LabelsMixin,
    check_labels,
    check_weights,
    is_missing,
    warn_of_markers,
)
from sklearn_spt._progress import prediction_bar
from sklearn_spt._random import exclusive, isolated
from sklearn_spt._runtime import DocumentedMixin
from sklearn_spt._typing import AnyArray, BoolArray, FloatArray, IntArray
from sklearn_spt._validation import (
    all_or_nothing,
    check_flag,
    check_integer,
    check_verbose,
    forget_features,
    n_rows,
    short_repr,
    shown,
    with_versions,
    without_versions,
)
from sklearn_spt.nets._bert_classifier import BertClassifier
from sklearn_spt.nets._callbacks import check_callbacks
from sklearn_spt.nets._fit_tasks import FitTaskMixin
from sklearn_spt.nets._losses import DistillationLoss
from sklearn_spt.nets._protocol import TextNet, prepared
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.persistence._saving import SavingMixin
from sklearn_spt.text._allocator import give_back
from sklearn_spt.text._documents import (
    arrays_of,
    check_documents,
    check_finite,
    check_matrix,
    concatenated,
    for_torch,
    is_mapping,
    of_one_kind,
)
from sklearn_spt.text._encoding import check_texts, is_text
from sklearn_spt.text._locations import encoder_folder

# Writeable, since torch warns of read-only arrays.
_ANY_MATRIX = {"allow_nd": True, "force_writeable": True, "ensure_all_finite": False}


@dataclass(frozen=True)
class SemiSupervisedData:
    """Encoded documents, split into labelled and unlabelled ones."""

    X_labeled: Any
    #: The marked rows of X, then those that were passed as ``X_unlabeled``; None without any.
    X_unlabeled: Any
    #: Class codes of the labelled rows.
    y: IntArray
    #: Class labels by code.
    classes: AnyArray
    #: Weights of the labelled rows, with mean one.
    weights: FloatArray | None
    #: Which rows are labelled, of X and then of ``X_unlabeled``.
    labeled: BoolArray

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def n_unlabeled(self) -> int:
        """Number of unlabelled documents, |U|."""
        return int((~self.labeled).sum())


class BaseSemiSupervisedClassifier(
    DocumentedMixin,
    SavingMixin,
    FitTaskMixin,
    LabelsMixin,
    ClassifierMixin,
    MetaEstimatorMixin,
    BaseEstimator,
    ABC,
):
    """Template of the semi-supervised classifiers; a subclass writes `_fit`."""

    estimator: Any
    unlabeled_marker: Any
    finetune_epochs: int
    balanced_batches: bool
    random_state: Any
    verbose: int

    #: Number of parts of the fit that its callbacks see.
    _n_subtasks = 0

    #: Whether a text document is one text, without keywords in a second column.
    _one_text_a_row = True

    # -- the contract ---------------------------------------------------------------------------
    def fit(
        self, X: Any, y: Any, X_unlabeled: Any = None, sample_weight: Any = None
    ) -> BaseSemiSupervisedClassifier:
        """Fit on labelled and unlabelled documents.

        Parameters
        ----------
        X : documents, n_samples rows
            A list, array or Series of str, a one-column frame of them, a token-id matrix, or
            any input that a given net takes.
        y : array-like of shape (n_samples,)
            Class labels of any kind; unlabelled rows carry `unlabeled_marker`.
        X_unlabeled : documents or None, default=None
            More unlabelled documents, of the same kind as X. Use it with meta-estimators that
            refuse marked rows in y; they can route it as metadata.
        sample_weight : array-like of shape (n_samples,), default=None
            Scales the loss of labelled rows, not their probability to be drawn. Only proportions
            count. Entries of unlabelled rows are ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, document, label or weight is unusable. Nothing has changed then.
        """
        with all_or_nothing(self):
            self._check_params()
            net = self._template_net()
            if isinstance(net, BertClassifier):
                encoder_folder(net.pretrained, self.verbose)
            data = self._validate(net, X, y, X_unlabeled, sample_weight)
            warn_of_markers(self.unlabeled_marker, data.classes, data.n_unlabeled)
            with isolated(n_threads=prepared(net).n_threads), self._followed(self._n_subtasks):
                self.n_threads_ = torch.get_num_threads()
                self._fit(net, data)
            self.classes_ = data.classes
        give_back()
        return self

    def _check_params(self) -> None:
        """Raise an error that names the first unusable parameter."""
        check_integer(self.finetune_epochs, "finetune_epochs", low=0)
        check_flag(self.balanced_batches, "balanced_batches")
        check_verbose(self.verbose)

    @abstractmethod
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """Train clones of `net` and set the fitted attributes, `estimators_` among them."""

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, combined from the fitted nets.

        Parameters
        ----------
        X : documents, n_samples rows
            As in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        return self._combine(self._probabilities_by_net(X))

    def _probabilities_by_net(self, X: Any) -> list[FloatArray]:
        """Class probabilities of each fitted net, each net once."""
        check_is_fitted(self)
        nets = list({id(net): net for net in self.estimators_}.values())
        with exclusive(prepared(nets[0]).n_threads):
            encoded = self._encode(nets[0], X, reset=False)
            P, K = [], len(self.classes_)
            total = len(nets) * get_len(encoded)
            with prediction_bar(self.verbose, total) as progress:
                for net in nets:
                    P.append(tempered_softmax(predict_logits(net, encoded, K, progress.advance)))
            return P

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        """Combine the probabilities of several nets, here to their mean."""
        return mean_probabilities(*P)

    def set_params(self, **params: Any) -> BaseSemiSupervisedClassifier:
        """Set parameters; those of an explicit net are ``estimator__<name>``.

        Parameters
        ----------
        **params : object
            Parameters by name.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter of the net is set while `estimator` is None or a name.
        """
        for given in params:
            name, nested, _ = given.partition("__")
            if not (nested and name.endswith("estimator") and hasattr(self, name)):
                continue
            net = params.get(name, getattr(self, name))
            if net is None or isinstance(net, str):
                raise ValueError(
                    f"{given} cannot be set while {name}={shown(net)}: pass the net explicitly, as "
                    f"in {type(self).__name__}({name}=BertClassifier())."
                )
        super().set_params(**params)
        return self

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults, also those of the net."""
        defaults = {name: p.default for name, p in signature(type(self)).parameters.items()}
        return short_repr(self, defaults)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: the attributes, and the versions of the libraries."""
        return with_versions(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle; warn if another version wrote it."""
        super().__setstate__(without_versions(state, type(self).__name__))

    def __sklearn_tags__(self) -> Tags:
        """Say whether texts are accepted."""
        tags = super().__sklearn_tags__()
        text = not isinstance(self.estimator, NeuralNet) or isinstance(self.estimator, TextNet)
        tags.input_tags.string = text
        tags.input_tags.three_d_array = not text
        return tags

    # -- the net --------------------------------------------------------------------------------
    def _template_net(self, name: str = "estimator") -> NeuralNet:
        """Return the unfitted net of a parameter; the fit trains clones of it."""
        net = getattr(self, name)
        if net is None or isinstance(net, str):
            net = BertClassifier() if net is None else BertClassifier(net)
        if not isinstance(net, NeuralNet):
            kind = net.__name__ if isinstance(net, type) else type(net).__name__
            hint = ", not its class" if isinstance(net, type) else ""
            raise TypeError(
                f"{name} must be None, the name of an encoder, or an unfitted skorch net whose "
                f"module returns logits{hint}; got {kind}."
            )
        _reject_own_criterion(net, name)
        check_callbacks(net, name)
        return net

    # -- documents ------------------------------------------------------------------------------
    def _validate(
        self, net: NeuralNet, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any
    ) -> SemiSupervisedData:
        """Check the input and split it into labelled and unlabelled documents."""
        encoded, more = self._encode_both(net, X, X_unlabeled)
        n = get_len(encoded)
        labeled, classes, codes = check_labels(y, n, self.unlabeled_marker)
        weights = check_weights(sample_weight, n, labeled)
        X_l = encoded if labeled.all() else multi_indexing(encoded, np.flatnonzero(labeled))
        X_u = None if labeled.all() else multi_indexing(encoded, np.flatnonzero(~labeled))
        if more is not None:
            if get_len(more) == n:
                warnings.warn(
                    f"X_unlabeled has as many rows as X ({n}): scikit-learn's cross-validation "
                    "slices such an array together with X. Add or drop a row to prevent that.",
                    UserWarning,
                    stacklevel=3,
                )
            labeled = np.concatenate([labeled, np.zeros(get_len(more), dtype=bool)])
            X_u = more if X_u is None else concatenated(X_u, more)
        return SemiSupervisedData(X_l, X_u, codes[codes >= 0], classes, weights, labeled)

    def _encode(self, net: NeuralNet, X: Any, *, reset: bool, name: str = "X") -> Any:
        """Return documents in the form that the net takes; of a mapping, the parts as arrays."""
        text = is_text(X)
        if isinstance(net, TextNet):
            check_documents(X, name)
            if not (reset or text or hasattr(self, "n_features_in_")):
                raise TypeError(f"{name} holds no texts, but the classifier was fitted on texts.")
        elif text:
            raise TypeError(
                f"{name} holds texts, but the net {type(net).__name__} takes numbers. Use "
                "BertClassifier, or turn the texts into numbers first, for instance by "
                "SentenceEmbedder."
            )
        mapping = is_mapping(X)
        if mapping or text:
            if reset:
                forget_features(self)
            return arrays_of(X) if mapping else net.encode(check_texts(X, name))
        if isinstance(X, torch.Tensor):
            X = X.detach().cpu().numpy()
        check_matrix(X, name)
        array = validate_data(self, X, reset=reset, dtype="numeric", **_ANY_MATRIX)
        if isinstance(net, TextNet):
            return net.encode(array)
        check_finite(array, name)
        return for_torch(array)

    def _encode_both(self, net: NeuralNet, X: Any, X_unlabeled: Any) -> tuple[Any, Any]:
        """Encode X and X_unlabeled, which must be of the same kind; None for no rows."""
        if X_unlabeled is None or not n_rows(X_unlabeled, "X_unlabeled"):
            return self._encode(net, X, reset=True), None
        one_text_a_row = self._one_text_a_row and isinstance(net, TextNet)
        if one_text_a_row:
            check_documents(X, "X")
            check_documents(X_unlabeled, "X_unlabeled")
        if isinstance(net, TextNet) and is_text(X) != is_text(X_unlabeled):
            which = ("X", "X_unlabeled") if is_text(X) else ("X_unlabeled", "X")
            raise TypeError(
                f"{which[0]} is a column of texts and {which[1]} is not; pass both as texts, both "
                "with keywords, or encode both by the same TokenIdVectorizer."
            )
        if one_text_a_row and is_text(X):
            # together, so that both have the width of the longest text
            texts, others = check_texts(X), check_texts(X_unlabeled, "X_unlabeled")
            both = self._encode(net, [*texts, *others], reset=True)
            return both[: len(texts)], both[len(texts) :]
        encoded = self._encode(net, X, reset=True)
        try:
            with warnings.catch_warnings():
                # scikit-learn warns if only one of X and X_unlabeled is a frame
                warnings.filterwarnings("ignore", "X (does not have valid|has) feature names")
                more = self._encode(net, X_unlabeled, reset=False, name="X_unlabeled")
        except (TypeError, ValueError) as error:
            if "X_unlabeled" in str(error):
                raise
            raise type(error)(f"X_unlabeled cannot be used: {error}") from error
        kinds = [
            sorted(part) if isinstance(part, Mapping) else np.shape(part)[1:]
            for part in (encoded, more)
        ]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"X_unlabeled is not of the same kind as X: the rows of X are {kinds[0]}, those of "
                f"X_unlabeled {kinds[1]} (shape of a row, or names of the parts). Pass both as "
                "texts, or encode both in the same way."
            )
        return of_one_kind(encoded, more)

    def _set_transduction(
        self, data: SemiSupervisedData, pseudo: IntArray, labeled_iter: IntArray
    ) -> None:
        """Set ``transduction_`` and ``labeled_iter_``, given both for the unlabelled rows."""
        self.labeled_iter_ = np.zeros(len(data.labeled), dtype=np.int64)
        self.labeled_iter_[~data.labeled] = labeled_iter
        codes = np.full(len(data.labeled), -1, dtype=np.int64)
        codes[data.labeled] = data.y
        codes[~data.labeled] = pseudo
        labels = data.classes[codes]
        if (codes < 0).any():
            marker: Any = None if is_missing(self.unlabeled_marker) else self.unlabeled_marker
            numbers = labels.dtype.kind in "iuf" and np.asarray(marker).dtype.kind in "iuf"
            texts = labels.dtype.kind == np.asarray(marker).dtype.kind == "U"
            held = np.min_scalar_type(marker) if numbers else np.asarray(marker).dtype
            kind = np.result_type(labels.dtype, held) if numbers or texts else np.dtype(object)
            labels = labels.astype(kind)
            labels[codes < 0] = marker
        self.transduction_ = np.asarray(labels)


def _reject_own_criterion(net: NeuralNet, parameter: str) -> None:
    """Refuse a custom loss; the defaults of skorch and torch pass."""
    own = [key for key in net.get_params(deep=False) if key.startswith("criterion__")]
    criterion = net.criterion
    plain = criterion in (nn.NLLLoss, nn.CrossEntropyLoss, DistillationLoss)
    if not plain or (own and criterion is not DistillationLoss):
        what = f" with {', '.join(sorted(own))}" if own else ""
        name = getattr(criterion, "__name__", type(criterion).__name__)
        raise ValueError(
            f"{parameter} has a custom criterion, {name}{what}, but the method sets the loss of "
            "each stage; leave it at torch.nn.CrossEntropyLoss."
        )
