"""The base of all semi-supervised classifiers: validation, encoding, fit, attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data
from skorch import NeuralNet
from skorch.dataset import ValidSplit, get_len
from skorch.utils import multi_indexing

from sklearn_spt._bert import as_net
from sklearn_spt._data import (
    PartlyLabeled,
    as_texts,
    check_rows_of_ids,
    concatenate,
    for_torch,
    is_mapping,
)
from sklearn_spt._estimator import BaseClassifier, forget_columns, progress_bar
from sklearn_spt._labels import (
    Codes,
    FloatArray,
    check_scalar,
    check_weights,
    decode_labels,
    encode_labels,
    is_missing,
    known_labels,
    suspicious_class,
    warn_of_equal_numbers,
    warn_of_labels,
    warn_user,
)
from sklearn_spt._random import root_seed
from sklearn_spt._training import Trainer, check_template, probabilities


class BaseSemiSupervisedClassifier(
    BaseClassifier, ClassifierMixin, MetaEstimatorMixin, BaseEstimator, ABC
):
    """Template of the semi-supervised classifiers; a subclass writes `_fit`."""

    estimator: Any
    finetune_epochs: Any
    balanced_batches: bool
    random_state: Any
    verbose: int

    # -- the contract ---------------------------------------------------------------------------
    def _fit_documents(self, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any) -> None:
        self._check_params()
        net = self._template(self.estimator)
        data = self._validate(net, X, y, X_unlabeled, sample_weight)
        self._warn_of_markers(data)
        with known_labels():  # to the classifiers that the method fits, too
            self._fit(net, data)
        self.classes_ = data.classes

    def _check_params(self) -> None:
        """Raise an error that names the first unusable parameter."""
        check_scalar(self.finetune_epochs, "finetune_epochs", Integral, min_val=0)

    @abstractmethod
    def _fit(self, net: NeuralNet, data: PartlyLabeled) -> None:
        """Train clones of `net` and set the fitted attributes, `estimators_` among them."""

    def _predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, combined from the fitted nets."""
        check_is_fitted(self)
        inputs, K, P = self._inputs(X), len(self.classes_), []
        with progress_bar(self.verbose, len(inputs), "prediction", unit="net", delay=1) as bar:
            for net, encoded in zip(self.estimators_, inputs, strict=True):
                P.append(probabilities(net, encoded, K))
                bar.update(1)
        return self._combine(P)

    def _inputs(self, X: Any) -> list[Any]:
        """Return documents in the form that each fitted net takes."""
        return [self._encode(self.estimators_[0], X)] * len(self.estimators_)

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        """Combine the probabilities of several nets, here to their mean."""
        return np.asarray(np.mean(P, axis=0))

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
        net = params.get("estimator", self.estimator)
        nested = [name for name in params if name.startswith("estimator__")]
        if nested and (net is None or isinstance(net, str)):
            raise ValueError(
                f"{nested[0]} cannot be set while estimator={net!r}: pass the net explicitly, as "
                f"in {type(self).__name__}(estimator=BertClassifier())."
            )
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Tags:
        """Say whether texts are accepted."""
        tags = super().__sklearn_tags__()
        text = not isinstance(self.estimator, NeuralNet) or hasattr(self.estimator, "encode")
        tags.input_tags.string = text
        tags.input_tags.three_d_array = not text
        return tags

    # -- the net --------------------------------------------------------------------------------
    def _template(self, estimator: Any) -> NeuralNet:
        """Return the unfitted net of a parameter; the fit trains clones of it."""
        net: NeuralNet = as_net(estimator)
        check_template(net, "estimator")
        kinds = [kind for kind in type(net).__mro__ if issubclass(kind, NeuralNet)]
        for key in ("max_epochs", "balanced_batches", "unlabeled_marker"):
            found = (signature(kind).parameters.get(key) for kind in kinds)
            usual = next((parameter.default for parameter in found if parameter), None)
            instead = "finetune_epochs" if key == "max_epochs" else key
            values = getattr(net, key, usual), usual, getattr(self, instead)
            given, usual, ours = (None if is_missing(value) else value for value in values)
            ours = 3 if key == "max_epochs" and ours == "auto" else ours
            if given not in (usual, ours):
                raise ValueError(
                    f"estimator__{key}={given!r} has no effect, since the method trains the net: "
                    f"set {instead} instead, and leave this parameter at its default."
                )
        split = net.train_split
        if split and (type(split) is not ValidSplit or split.cv != 5):
            raise ValueError(
                f"estimator has train_split={split!r}, but nets are trained on all labelled rows; "
                "leave it at its default, and hold rows out by cross-validation."
            )
        if hasattr(net, "check_params"):
            net.check_params()
        # A fitted net would compare X with its own. Verbosity and seed of a net have no effect in a
        # method, and are no part of the key by which a fit is found again.
        own = net.get_params(deep=False)
        fixed = {"verbose": 0, "random_state": None}
        return clone(net).set_params(**{k: v for k, v in fixed.items() if k in own})

    def _trainer(
        self, net: NeuralNet, data: PartlyLabeled, bar: Any, epochs: int | None = None
    ) -> Trainer:
        return Trainer(
            net,
            data.classes,
            epochs=self.finetune_epochs if epochs is None else epochs,
            balanced=self.balanced_batches,
            root=root_seed(self.random_state),
            bar=bar,
        )

    # -- documents ------------------------------------------------------------------------------
    def _validate(
        self, net: NeuralNet, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any
    ) -> PartlyLabeled:
        """Check the input and split it into labelled and unlabelled documents."""
        D, n = self._encode_both(net, X, X_unlabeled)
        labeled, classes, codes = encode_labels(y, n, self.unlabeled_marker)
        weights = check_weights(sample_weight, labeled)
        more = get_len(D) - n
        if more == n:
            warn_of_equal_numbers(n)
        labeled = np.append(labeled, np.zeros(more, dtype=bool))
        codes = np.append(codes, np.full(more, -1))
        if hasattr(net, "check_documents") and (ids := self._whole_texts(D)) is not None:
            net.check_documents(ids, codes, n, cut=not hasattr(self, "n_features_in_"))
        warn_of_labels(classes, codes[:n], self.unlabeled_marker)
        L = multi_indexing(D, np.flatnonzero(labeled))
        U = None if labeled.all() else multi_indexing(D, np.flatnonzero(~labeled))
        given = X, X_unlabeled if more else None
        return PartlyLabeled(L, codes[labeled], weights, U, classes, labeled, given)

    def _encode(self, net: NeuralNet, X: Any, *, name: str = "X", reset: bool = False) -> Any:
        """Return documents in the form that the net takes."""
        texts = as_texts(X, name, allow_empty=not reset)
        if reset:
            forget_columns(self)
        if hasattr(net, "encode"):
            if texts is None and not is_mapping(X):
                if not reset and not hasattr(self, "n_features_in_"):
                    raise TypeError(
                        f"{name} holds no texts, but the classifier was fitted on them."
                    )
                check_rows_of_ids(X, name)
                X = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
            return net.encode(X if texts is None else texts)
        if texts is not None:
            raise TypeError(
                f"{name} holds texts, but the net {type(net).__name__} takes numbers. Use "
                "BertClassifier, or turn the texts into numbers first, for instance by "
                "SentenceEmbedder."
            )
        if is_mapping(X):
            return {key: for_torch(np.asarray(part)) for key, part in X.items()}
        array = for_torch(
            validate_data(
                self, X, reset=reset, dtype="numeric", allow_nd=True, force_writeable=True
            )
        )
        if reset:
            self._kind = array.dtype.kind
        # whole numbers are floats, too, to a net that was fitted on floats
        return array.astype(np.float32) if getattr(self, "_kind", "") == "f" else array

    def _encode_both(self, net: NeuralNet, X: Any, X_unlabeled: Any) -> tuple[Any, int]:
        """Encode the rows of X and then of X_unlabeled, of the same kind; count those of X."""
        if X_unlabeled is None or _num_samples(X_unlabeled) == 0:
            encoded = self._encode(net, X, reset=True)
            return encoded, get_len(encoded)
        texts, more = as_texts(X), as_texts(X_unlabeled, "X_unlabeled", allow_empty=False)
        if (texts is None) != (more is None):
            which = ("X_unlabeled", "X") if texts is None else ("X", "X_unlabeled")
            raise TypeError(f"{which[0]} holds texts and {which[1]} does not; pass both as texts.")
        if texts is not None and more is not None:
            return self._encode(net, [*texts, *more], reset=True), len(texts)
        encoded = self._encode(net, X, reset=True)
        try:
            other = self._encode(net, X_unlabeled, name="X_unlabeled")
            both = concatenate(encoded, other)
        except (TypeError, ValueError, LookupError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"X_unlabeled is not of the same kind as X: {error}") from error
        if isinstance(both, np.ndarray):
            both = for_torch(both)
            self._kind = both.dtype.kind
        return both, get_len(encoded)

    def _whole_texts(self, D: Any) -> Any:
        """Return the encoded documents that the net checks, or None where they are other views."""
        return D

    def _warn_of_markers(self, data: PartlyLabeled) -> None:
        """Warn of a fit without unlabelled rows, and of a class like a second marker."""
        marker, names = self.unlabeled_marker, data.classes.tolist()
        others = () if data.n_unlabeled and data.n_classes < 3 else ("-1", "-1.0")
        likely = suspicious_class(data.classes, others)
        message = f"The classes are {', '.join(map(repr, names[:10]))}."
        if data.n_unlabeled == 0:
            message = (
                f"y holds no unlabelled row (marker {marker!r}) and X_unlabeled is empty: the "
                f"model is trained on the labelled rows only. {message}"
            )
        if likely is not None:
            message += f" Is {likely!r} a marker? Then set unlabeled_marker, or replace it in y."
        if data.n_unlabeled == 0 or likely is not None:
            warn_user(message)

    def _set_transduction(self, data: PartlyLabeled, pseudo: Codes, iteration: Codes) -> None:
        """Set ``transduction_`` and ``labeled_iter_``, given both for the unlabelled rows."""
        self.labeled_iter_ = np.zeros(len(data.labeled), dtype=np.int64)
        self.labeled_iter_[~data.labeled] = iteration
        codes = np.full(len(data.labeled), -1, dtype=np.intp)
        codes[data.labeled], codes[~data.labeled] = data.y, pseudo
        self.transduction_ = decode_labels(codes, data.classes, self.unlabeled_marker)
