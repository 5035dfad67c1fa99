"""Classifiers of which two nets see each document: two views of it, and what becomes of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted
from skorch import NeuralNet

from sklearn_spt._functional import mean_probabilities, tempered_softmax
from sklearn_spt._random import exclusive
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_option, forget_features, n_rows
from sklearn_spt.baselines._keyword_net import KeywordMarks, keyword_state_net
from sklearn_spt.baselines._throttled import ThrottledClassifier
from sklearn_spt.nets._protocol import TextNet, prepared
from sklearn_spt.nets._token_net import TokenNet
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.text._encoding import check_texts, is_text
from sklearn_spt.text._keyword_window import (
    KeywordWindow,
    holds_texts,
    parsed_keywords,
    texts_and_keywords,
)

#: The views, and what joins the seed path (t,) of the net of each in iteration t.
VIEWS: dict[str, tuple[int, ...]] = {"sentence": (), "keyword": (2,)}


class TwoViewClassifier(ThrottledClassifier):
    """Template of methods with two nets that see two views of each document.

    A subclass writes `_iterations`, and has the parameters named below besides those of its
    template. Encoded documents are a dict with an array for each of `VIEWS`.
    """

    views: Any
    keywords: Any
    keyword_estimator: Any
    keyword_representation: str
    combine: str

    _n_nets = len(VIEWS)
    _one_text_a_row = False  # a keyword stands beside it

    def _check_params(self) -> None:
        super()._check_params()
        check_option(self.combine, "combine", ("mean", "product"))
        check_option(self.keyword_representation, "keyword_representation", ("window", "state"))
        keywords = parsed_keywords(self.keywords, "keywords")
        if self.keyword_estimator is not None and self.keyword_representation == "state":
            raise ValueError(
                'keyword_representation="state" makes a net of its own from estimator; leave '
                "keyword_estimator at None."
            )
        if self.views is not None:
            check_views(self.views)
            for name, given in (
                ("keywords", keywords),
                ("keyword_representation", self.keyword_representation != "window"),
            ):
                if given:
                    raise ValueError(f"{name} has no effect with views of your own; give one.")

    # -- views ----------------------------------------------------------------------------------
    def _encode(self, net: NeuralNet, X: Any, *, reset: bool, name: str = "X") -> Any:
        """Both views of documents, each encoded once."""
        if not holds_texts(X):
            X = super()._encode(net, X, reset=reset, name=name)
        elif reset:
            forget_features(self)
        nets = self._nets(net)
        if reset:
            self.views_ = fitted_views(self._unfitted_views(net, X), X)
        views = dict(zip(VIEWS, self.views_, strict=True))
        encoded = encoded_views(nets, views, X, name)
        if reset and self.views is None and np.array_equal(*encoded.values()):
            warnings.warn(
                "both views of the documents are the same: in a text there has to be a keyword, "
                "which comes with it or is passed as keywords=, and words beyond its window. "
                "Without texts, pass views=.",
                UserWarning,
                stacklevel=4,
            )
        return encoded

    def _unfitted_views(self, net: NeuralNet, X: Any) -> Sequence[Any]:
        if self.views is not None:
            return tuple(self.views)
        if self.keyword_representation == "state":
            return None, KeywordMarks(net.pretrained, net.max_length, self.keywords)
        return None, KeywordWindow(self.keywords) if holds_texts(X) else None

    def _nets(self, net: NeuralNet) -> list[NeuralNet]:
        """Return the unfitted net of each view."""
        if self.keyword_estimator is not None:
            return [net, self._template_net("keyword_estimator")]
        return [net, keyword_state_net(net) if self.keyword_representation == "state" else net]

    def _train(
        self, trainer: SupervisedTrainer, view: str, X: Any, *args: Any, net: NeuralNet, **more: Any
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net on a view; name both if it cannot take rows of that shape."""
        try:
            return trainer.train(X, *args, net=net, **more)
        except RuntimeError as error:
            if isinstance(net, TextNet) or isinstance(error, torch.OutOfMemoryError):
                raise
            alone = view == "sentence" or self.keyword_estimator is None
            name = "estimator" if alone else "keyword_estimator"
            raise ValueError(
                f"{name} cannot be trained on the {view} view, whose rows have shape "
                f"{np.shape(X)[1:]}: {error}. Views of different forms need a net each: estimator "
                "for the sentence view, keyword_estimator for the keyword view."
            ) from error

    # -- prediction -----------------------------------------------------------------------------
    def _probabilities_by_net(self, X: Any) -> list[FloatArray]:
        check_is_fitted(self)
        f, K = self.estimators_, len(self.classes_)
        with exclusive(prepared(f[0]).n_threads):
            views = self._encode(f[0], X, reset=False).values()
            return [tempered_softmax(predict_logits(*s, K)) for s in zip(f, views, strict=True)]

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        return combined(P, self.combine)

    def _probabilities(
        self, trainer: SupervisedTrainer, nets: Sequence[NeuralNet], X: Any
    ) -> FloatArray:
        P = [trainer.probabilities(*seen) for seen in zip(nets, X.values(), strict=True)]
        return self._combine(P)


def check_views(views: Any, name: str = "views") -> None:
    """Refuse what is no pair of views: a view is None, a transformer or a callable."""
    if not isinstance(views, tuple | list) or len(views) != 2:
        raise TypeError(f"{name} must be None or a pair of views, got {views!r}.")
    for number, view in enumerate(views):
        if isinstance(view, type):
            raise TypeError(
                f"{name}[{number}] is the class {view.__name__}; pass an instance, "
                f"{view.__name__}()."
            )
        if not (view is None or callable(view) or _is_transformer(view)):
            raise TypeError(
                f"{name}[{number}] must be None (the document itself), a transformer, or a "
                f"callable, got {view!r}."
            )


def fitted_views(views: Sequence[Any], X: Any) -> tuple[Any, ...]:
    """Clone and fit the transformers among the views; functions are taken as they are."""
    return tuple(clone(v).fit(X) if _is_transformer(v) else v for v in views)


def encoded_views(
    nets: Sequence[Any], views: Mapping[str, Any], X: Any, name: str = "X"
) -> dict[str, Any]:
    """Encode what each view makes of documents, for the net that sees it.

    Parameters
    ----------
    nets : sequence of skorch.NeuralNet
        One for each view.
    views : mapping of str to view
        Fitted views by name.
    X : documents, n rows
        Texts, with or without keywords, or an array, or a mapping of arrays.
    name : str, default="X"
        What the error messages call X.

    Returns
    -------
    dict of str to array
        By the name of the view, n rows each.

    Raises
    ------
    TypeError, ValueError
        If a view returns a mapping, another number of rows than n, or what its net cannot take.
    """
    n = n_rows(X, name)
    return {
        key: _encoded(net, _seen_by(view, X), n, f"the {key} view of {name}")
        for net, (key, view) in zip(nets, views.items(), strict=True)
    }


def combined(P: Sequence[FloatArray], how: str) -> FloatArray:
    """Probabilities of one or more nets as one.

    Parameters
    ----------
    P : sequence of ndarray of shape (n, K)
        Probabilities.
    how : {"mean", "product"}
        The mean, or the product divided by its sum. Where the product vanishes for all classes,
        since the nets contradict each other with certainty, it is the mean, too.

    Returns
    -------
    ndarray of shape (n, K)
        Rows sum to 1.
    """
    mean = mean_probabilities(*P)
    if how == "mean":
        return mean
    product = np.prod(P, axis=0)
    total = product.sum(axis=1, keepdims=True)
    return np.divide(product, total, out=mean, where=total > 0)


def _seen_by(view: Any, X: Any) -> Any:
    """Documents as a view sees them; None sees the document itself, without keywords."""
    if view is not None:
        return view.transform(X) if _is_transformer(view) else view(X)
    if isinstance(X, Mapping):
        raise ValueError(
            "X is a mapping: say by views what each net sees of it, for instance "
            "views=(operator.itemgetter('a'), operator.itemgetter('b'))."
        )
    return texts_and_keywords(X)[0] if holds_texts(X) else X


def _encoded(net: Any, X: Any, n: int, name: str) -> Any:
    """Turn what a view returned into the form that the net takes."""
    if isinstance(X, Mapping):
        raise TypeError(f"{name} must be texts or an array, got a {type(X).__name__}.")
    if n_rows(X, name) != n:
        raise ValueError(f"{name} has {n_rows(X, name)} rows for {n} documents.")
    if isinstance(net, TextNet):
        X = check_texts(X, name) if is_text(X) else X
        # X and X_unlabeled come one after the other, and must be of the same width
        return net.encode(X, full_width=True) if isinstance(net, TokenNet) else net.encode(X)
    array = check_array(X, dtype="numeric", allow_nd=True, force_writeable=True, input_name=name)
    if array.dtype == np.float64 and torch.get_default_dtype() == torch.float32:
        array = array.astype(np.float32)  # torch does not mix it with its weights
    return array


def _is_transformer(view: Any) -> bool:
    return hasattr(view, "fit") and hasattr(view, "transform")
