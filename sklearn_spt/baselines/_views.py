"""Template of classifiers with two nets, each of which sees another view of the documents."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch import NeuralNet
from skorch.dataset import get_len

from sklearn_spt._functional import tempered_softmax
from sklearn_spt._progress import prediction_bar
from sklearn_spt._random import exclusive
from sklearn_spt._supervised import SupervisedTrainer
from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import forget_features, n_rows
from sklearn_spt.baselines._throttled import ThrottledClassifier
from sklearn_spt.nets._protocol import TextNet, prepared
from sklearn_spt.nets._token_net import TokenNet
from sklearn_spt.nets._training import predict_logits
from sklearn_spt.text._documents import for_torch, is_mapping
from sklearn_spt.text._encoding import check_texts, is_text
from sklearn_spt.text._keyword_window import (
    KeywordWindow,
    holds_texts,
    parsed_keywords,
    texts_and_keywords,
)

#: The views, and how each extends the seed path (t,) of its net in iteration t.
VIEWS: dict[str, tuple[int, ...]] = {"sentence": (), "keyword": (2,)}


class TwoViewClassifier(ThrottledClassifier):
    """Template of methods with two nets; encoded documents are a dict with an array by view."""

    views: Any
    keywords: Any
    keyword_estimator: Any

    _one_text_a_row = False  # a row may hold keywords, too

    def _check_params(self) -> None:
        super()._check_params()
        keywords = parsed_keywords(self.keywords, "keywords")
        if self.views is not None:
            check_views(self.views)
            if keywords:
                raise ValueError("keywords has no effect with views; pass only one of them.")

    # -- views ----------------------------------------------------------------------------------
    def _encode(self, net: NeuralNet, X: Any, *, reset: bool, name: str = "X") -> Any:
        """Encode both views of the documents."""
        return self._encode_views(self._nets(net), X, reset=reset, name=name)

    def _encode_views(
        self, nets: Sequence[NeuralNet], X: Any, *, reset: bool, name: str = "X"
    ) -> dict[str, Any]:
        own = self.views is not None  # such views get frames and mappings as they are
        if holds_texts(X) or (own and is_mapping(X)):
            if reset:
                forget_features(self)
        elif own and hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            X = super()._encode(nets[0], X, reset=reset, name=name)
        if reset:
            self.views_ = tuple(
                clone(view).fit(X) if _is_transformer(view) else view
                for view in self._unfitted_views(X)
            )
        n, encoded = n_rows(X, name), {}
        for key, view, view_net in zip(VIEWS, self.views_, nets, strict=True):
            label = f"the {key} view of {name}"
            encoded[key] = _encode_view(view_net, _apply_view(view, X), n, label)
        if reset and self.views is None and np.array_equal(*encoded.values()):
            warnings.warn(
                "both views of the documents are the same. For texts, pass keywords (as a second "
                "column of X or by keywords=) that occur in texts longer than the window; for "
                "other documents, pass views=.",
                UserWarning,
                stacklevel=6,
            )
        return encoded

    def _unfitted_views(self, X: Any) -> Sequence[Any]:
        if self.views is not None:
            return tuple(self.views)
        return None, KeywordWindow(self.keywords) if holds_texts(X) else None

    def _nets(self, net: NeuralNet) -> list[NeuralNet]:
        """Return the unfitted net of each view."""
        if self.keyword_estimator is not None:
            return [net, self._template_net("keyword_estimator")]
        return [net, net]

    def _train(
        self, trainer: SupervisedTrainer, view: str, X: Any, *args: Any, net: NeuralNet, **more: Any
    ) -> tuple[NeuralNet, list[float]]:
        """Train a fresh net on a view; the error names both if their shapes do not match."""
        try:
            return trainer.train(X, *args, net=net, **more)
        except RuntimeError as error:
            if isinstance(net, TextNet) or isinstance(error, torch.OutOfMemoryError):
                raise
            separate = view == "keyword" and self.keyword_estimator is not None
            name = "keyword_estimator" if separate else "estimator"
            raise ValueError(
                f"{name} cannot be trained on the {view} view, whose rows have shape "
                f"{np.shape(X)[1:]}: {error}. For views of different shapes, pass two nets: "
                "estimator for the sentence view, keyword_estimator for the keyword view."
            ) from error

    # -- prediction -----------------------------------------------------------------------------
    def _probabilities_by_net(self, X: Any) -> list[FloatArray]:
        check_is_fitted(self)
        nets, K = self.estimators_, len(self.classes_)
        with exclusive(prepared(nets[0]).n_threads):
            views = self._encode_views(nets, X, reset=False).values()
            total = sum(map(get_len, views))
            with prediction_bar(self.verbose, total) as progress:
                return [
                    tempered_softmax(predict_logits(net, view, K, progress.advance))
                    for net, view in zip(nets, views, strict=True)
                ]

    def _probabilities(
        self, trainer: SupervisedTrainer, nets: Sequence[NeuralNet], X: Any
    ) -> FloatArray:
        views = zip(nets, X.values(), strict=True)
        return self._combine([trainer.probabilities(net, view) for net, view in views])


def check_views(views: Any) -> None:
    """Raise an error unless `views` is a pair of None, transformers or callables."""
    if not isinstance(views, tuple | list) or len(views) != 2:
        raise TypeError(f"views must be None or a pair of views, got {views!r}.")
    for number, view in enumerate(views):
        if isinstance(view, type):
            raise TypeError(
                f"views[{number}] is the class {view.__name__}; pass an instance, "
                f"{view.__name__}()."
            )
        if not (view is None or callable(view) or _is_transformer(view)):
            raise TypeError(
                f"views[{number}] must be None (the document itself), a transformer, or a "
                f"callable, got {view!r}."
            )


def _apply_view(view: Any, X: Any) -> Any:
    """Apply a view; None returns the documents themselves, without keywords."""
    if view is not None:
        return view.transform(X) if _is_transformer(view) else view(X)
    if isinstance(X, Mapping):
        raise ValueError(
            "X is a mapping: pass views that select what each net sees, for instance "
            "views=(operator.itemgetter('a'), operator.itemgetter('b'))."
        )
    return texts_and_keywords(X)[0] if holds_texts(X) else X


def _encode_view(net: Any, X: Any, n: int, name: str) -> Any:
    """Encode the output of a view for its net."""
    if isinstance(X, Mapping):
        raise TypeError(f"{name} must be texts or an array, got a {type(X).__name__}.")
    if n_rows(X, name) != n:
        raise ValueError(f"{name} has {n_rows(X, name)} rows for {n} documents; return one each.")
    if isinstance(net, TextNet):
        X = check_texts(X, name) if is_text(X) else X
        # X and X_unlabeled are encoded separately and must have the same width
        return net.encode(X, full_width=True) if isinstance(net, TokenNet) else net.encode(X)
    given = {"dtype": "numeric", "order": "C", "allow_nd": True, "force_writeable": True}
    array = check_array(X, **given, input_name=name)
    return for_torch(array)


def _is_transformer(view: Any) -> bool:
    return hasattr(view, "fit") and hasattr(view, "transform")
