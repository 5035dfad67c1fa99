"""Co-training on the whole document and on its keywords; a reconstruction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import _num_samples
from skorch import NeuralNet
from skorch.dataset import get_len

from sklearn_spt._bert import BertClassifier
from sklearn_spt._data import as_texts, concatenate, for_torch
from sklearn_spt._estimator import forget_columns
from sklearn_spt._labels import Codes, FloatArray, check_scalar, is_missing, warn_user
from sklearn_spt._random import root_seed, seeded_clone
from sklearn_spt.baselines._common import throttle
from sklearn_spt.baselines._self_training import ThrottledSelfTrainingClassifier
from sklearn_spt.text import TransformerOfTexts


@dataclass(eq=False, repr=False)
class KeywordWindow(TransformerOfTexts):
    """Cut texts to the words around their keywords.

    It is the keyword view of `CoDecompositionClassifier`. The first occurrence of each keyword as
    a whole word counts, in upper or lower case. A text without a keyword stays as it is. Nothing is
    learned: `transform` works without `fit`.

    Parameters
    ----------
    keywords : str, list of str or None, default=None
        Keywords of all texts; in a str, commas separate them. Texts with keywords in a second
        column of X use those instead.
    window : int >= 0, default=5
        Number of words to keep on each side of a keyword.

    Examples
    --------
    >>> from sklearn_spt.baselines import KeywordWindow
    >>> KeywordWindow("flu", window=2).transform(["My poor sister has the flu since last Monday."])
    array(['has the flu since last'], dtype=object)
    """

    keywords: Any = None
    window: int = 5

    def fit(self, X: Any, y: Any = None) -> KeywordWindow:
        """Check the parameters and the texts; X is as in `transform`, and y is ignored."""
        self.transform(X)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Cut the texts.

        Parameters
        ----------
        X : texts, n entries, or two columns of texts and keywords
            A list, array, Series or one-column frame of str; or a frame, an array of objects or a
            list of pairs, whose second column holds the keywords of each text: a str with commas
            between them, a list of str, or a missing value.

        Returns
        -------
        ndarray of shape (n,), dtype object
            The words that are kept, joined by blanks.
        """
        check_scalar(self.window, "window", Integral, min_val=0)
        texts, keywords = texts_and_keywords(X, self.keywords)
        if texts is None:
            raise TypeError("X must hold texts.")
        cut = np.empty(len(texts), dtype=object)
        cut[:] = [self._cut(*row) for row in zip(texts, keywords, strict=True)]
        return cut

    def _cut(self, text: str, keywords: tuple[str, ...]) -> str:
        words, kept = list(re.finditer(r"\S+", text)), set()
        for keyword in keywords:
            parts = r"\s+".join(map(re.escape, keyword.split()))
            # "#flu" and "flu's" hold "flu", "flushot" does not
            match = re.search(rf"(?<!\w){parts}(?!\w)", text, re.IGNORECASE)
            if match:
                first = sum(word.end() <= match.start() for word in words)
                end = sum(word.start() < match.end() for word in words)
                kept.update(words[max(first - self.window, 0) : end + self.window])
        return " ".join(word.group() for word in words if word in kept) if kept else text


def parse_keywords(given: Any, name: str) -> tuple[str, ...]:
    """Return keywords as a tuple, from a str with commas, a list of str, or a missing value."""
    words = () if is_missing(given) else given.split(",") if isinstance(given, str) else given
    if not hasattr(words, "__len__") or not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name} must be a str, a list of str or None, got {given!r}.")
    return tuple(word.strip() for word in words if word.strip())


def texts_and_keywords(
    X: Any, keywords: Any = None, name: str = "X", *, allow_empty: bool = True
) -> tuple[list[str] | None, list[tuple[str, ...]]]:
    """Return the texts of X, None if it holds none, and the keywords of each.

    The keywords are those in a second column of X, or else `keywords`.
    """
    common, column, own = parse_keywords(keywords, "keywords"), X, None
    listed = list, tuple
    if len(getattr(X, "shape", ())) == 2 and X.shape[1] == 2:
        column, own = (X.iloc[:, i] if hasattr(X, "iloc") else X[:, i] for i in range(2))
    elif isinstance(X, listed) and {isinstance(row, listed) and len(row) for row in X} == {2}:
        column, own = zip(*X, strict=True)
    texts = as_texts(column, name, allow_empty=allow_empty)
    if texts is None:
        if own is not None and any(isinstance(cell, str) for cell in own):
            raise TypeError(f"the first column of {name} must hold the texts, not the keywords.")
        return None, []
    own = [None] * len(texts) if own is None else own
    rows = [parse_keywords(cell, f"keywords of {name}, row {i},") for i, cell in enumerate(own)]
    return texts, [words or common for words in rows]


@dataclass(eq=False, repr=False, kw_only=True)
class CoDecompositionClassifier(ThrottledSelfTrainingClassifier):
    """Co-training of a net that reads the document and one that reads its keywords.

    Two nets read two views of each document: the whole text, and the words around its keywords. In
    each iteration both label a pool of unlabelled documents. The most confident documents of each
    net join the training set of the other one, and both are trained afresh. The prediction is the
    mean of both nets.

    .. warning:: This is a reconstruction. Only the abstract of the original [1]_ was available. The
       original splits a task into sub-tasks, each with its own labels. The views and the selection
       follow [2]_, which has the method as a baseline. The Notes list the other decisions.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        The net of both views, as in `SelfPretrainingClassifier`.
    views : pair or None, default=None
        The sentence view and the keyword view. Each is a transformer (a clone is fitted on all
        rows of X, without y), a callable, or None for the document itself. Both get X and return
        what the net takes. The default for texts is the text itself and
        ``KeywordWindow(keywords)``; other X is used for both views, with a warning.
    keywords : str, list of str or None, default=None
        Keywords of all documents; in a str, commas separate them. To give each document its own,
        pass X as two columns, see `KeywordWindow`. The parameter then serves rows without keywords.
    threshold, max_fraction, max_iter, validation_fraction, pos_label, finetune_epochs
        As in `ThrottledSelfTrainingClassifier`. The cap holds for each training set, and the
        prediction of both nets is scored.
    balanced_batches, unlabeled_marker, random_state, verbose
        As in `SelfPretrainingClassifier`.

    Attributes
    ----------
    estimators_ : list of two skorch.NeuralNet
        The net of the sentence view and that of the keyword view.
    views_ : tuple
        The fitted views.
    classes_, n_features_in_, n_iter_, transduction_, labeled_iter_
        As in `SelfPretrainingClassifier`; rows "never drawn" are those that were never added.
    termination_condition_, history_, selection_history_
        As in `ThrottledSelfTrainingClassifier`; ``n_train`` and ``loss`` by view.

    Notes
    -----
    Decisions of this reconstruction: both nets learn the labels of the task itself; both label
    before either is trained again; a document to which they give different labels in the same
    iteration is skipped; the prediction is the mean of both.

    References
    ----------
    .. [1] P. Karisani, J. C. Ho and E. Agichtein, "Domain-Guided Task Decomposition with
       Self-Training for Detecting Personal Events in Social Media", The Web Conference 2020.
    .. [2] The paper of `SelfPretrainingClassifier`, section 4.
    .. [3] A. Blum and T. Mitchell, "Combining Labeled and Unlabeled Data with Co-Training",
       COLT 1998.
    """

    _views = ("sentence", "keyword")
    views: Any = None
    keywords: Any = None

    def _check_params(self) -> None:
        super()._check_params()
        keywords = parse_keywords(self.keywords, "keywords")
        if self.views is not None:
            if keywords:
                raise ValueError("keywords has no effect with views; pass only one of them.")
            if not isinstance(self.views, tuple | list) or len(self.views) != 2:
                raise TypeError(f"views must be None or a pair of views, got {self.views!r}.")

    def _encode_both(self, net: NeuralNet, X: Any, X_unlabeled: Any) -> tuple[Any, int]:
        texts = self._texts(X, "X", allow_empty=False)
        encoded = self._encode_views(net, X, texts, reset=True)
        if self.views is None and np.array_equal(*encoded.values()):
            warn_user(
                "both views of the documents are the same. For texts, pass keywords that occur in "
                "texts longer than the window; for other documents, pass views."
            )
        if X_unlabeled is None or _num_samples(X_unlabeled) == 0:
            return encoded, get_len(encoded)
        more = self._texts(X_unlabeled, "X_unlabeled", allow_empty=False)
        if (texts is None) != (more is None):
            raise TypeError("X and X_unlabeled must both hold texts, or neither of them.")
        views = self._encode_views(net, X_unlabeled, more, "X_unlabeled")
        return concatenate(encoded, views), get_len(encoded)

    def _whole_texts(self, D: Any) -> Any:
        return D["sentence"] if self.views is None else None

    def _texts(self, X: Any, name: str = "X", *, allow_empty: bool = True) -> list[str] | None:
        """Return the texts of X; None for numbers, and for what own views select parts of."""
        if self.views is not None and hasattr(X, "columns"):
            return None
        return texts_and_keywords(X, name=name, allow_empty=allow_empty)[0]

    def _encode_views(
        self, net: NeuralNet, X: Any, texts: Any, name: str = "X", *, reset: bool = False
    ) -> dict[str, Any]:
        """Return both views of documents, whose texts are given, in the form that the net takes."""
        if texts is None and not (self.views and (isinstance(X, dict) or hasattr(X, "columns"))):
            X = super()._encode(net, X, name=name, reset=reset)
        elif reset:
            forget_columns(self)
        if reset:
            views = self.views or (None, None if texts is None else KeywordWindow(self.keywords))
            root = root_seed(self.random_state)
            self.views_ = tuple(
                seeded_clone(view, root, 0, 6, k).fit(X) if hasattr(view, "transform") else view
                for k, view in enumerate(views)
            )
        encoded = {}
        for key, view in zip(self._views, self.views_, strict=True):
            itself = X if texts is None else texts
            V = itself if view is None else getattr(view, "transform", view)(X)
            if hasattr(net, "encode"):
                # X and X_unlabeled are encoded one by one and must have the same width
                wide = {"full_width": True} if isinstance(net, BertClassifier) else {}
                encoded[key] = net.encode(V, **wide)
            else:
                how = {"dtype": "numeric", "allow_nd": True, "force_writeable": True}
                V = check_array(V, input_name=f"the {key} view of {name}", **how)
                encoded[key] = for_torch(V)
        if len({len(part) for part in encoded.values()}) == 2:
            raise ValueError(f"the views of {name} have different numbers of rows.")
        return encoded

    def _inputs(self, X: Any) -> list[Any]:
        return list(self._encode_views(self.estimators_[0], X, self._texts(X)).values())

    def _new(self, pool: Codes, P: list[FloatArray], n: list[int]) -> list[tuple[Codes, Codes]]:
        """Select documents for the training set of each net by the other one."""
        while True:
            # the cap is that of the other net's set
            both = zip(P, n[::-1], strict=True)
            (rows_s, codes_s), (rows_k, codes_k) = (throttle(pool, p, m, self) for p, m in both)
            _, i, j = np.intersect1d(rows_s, rows_k, return_indices=True)
            conflicts = rows_s[i[codes_s[i] != codes_k[j]]]
            s, k = ~np.isin(rows_s, conflicts), ~np.isin(rows_k, conflicts)
            if not len(conflicts) or s.any() or k.any():
                return [(rows_k[k], codes_k[k]), (rows_s[s], codes_s[s])]
            rest = ~np.isin(pool, conflicts)  # select from the others instead
            pool, P = pool[rest], [p[rest] for p in P]
