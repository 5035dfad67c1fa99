"""Keywords of documents: where they stand, and the words around them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from sklearn_spt._labels import is_missing
from sklearn_spt._typing import TextArray
from sklearn_spt._validation import check_integer
from sklearn_spt.text._encoding import check_texts, is_text

if TYPE_CHECKING:
    from sklearn.utils import Tags

_WORD = re.compile(r"\S+")


def texts_and_keywords(
    X: Any, keywords: Any = None, name: str = "X"
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Texts, and the keywords of each.

    Parameters
    ----------
    X : documents, n rows
        Texts in any container that `check_texts` takes; or a frame or array with two columns,
        the text and its keywords. In a cell of the second, a str holds keywords between commas,
        a list or another iterable holds one in each entry, a missing value or "" holds none.
    keywords : str, iterable of str or None, default=None
        Keywords of the rows that have none of their own.
    name : str, default="X"
        What the error messages call X.

    Returns
    -------
    texts : list of str
        The texts.
    keywords : list of tuple of str
        Keywords of each text, perhaps none.
    """
    common = parsed_keywords(keywords, "keywords")
    texts_column, keywords_column = _two_columns(X)
    if keywords_column is None:
        texts = check_texts(X, name)
        return texts, [common] * len(texts)
    if not is_text(texts_column):
        raise TypeError(
            f"the first column of {name} must hold the texts, and the second their keywords; the "
            "first holds no str."
        )
    texts = check_texts(texts_column, name)
    own = [
        parsed_keywords(cell, f"the keyword column of {name}, row {row},")
        for row, cell in enumerate(keywords_column)
    ]
    return texts, [words or common for words in own]


def parsed_keywords(given: Any, name: str) -> tuple[str, ...]:
    """Return keywords as a tuple, from a str (between commas), an iterable of str, or nothing."""
    if isinstance(given, str):
        words = given.split(",")
    elif is_missing(given):
        words = []
    elif isinstance(given, Iterable) and not isinstance(given, bytes):
        words = list(given)
        for word in words:
            if not isinstance(word, str):
                raise TypeError(f"{name} must hold str, but holds {word!r}.")
    else:
        raise TypeError(f"{name} must be a str, an iterable of str or None, got {given!r}.")
    return tuple(word.strip() for word in words if word.strip())


def first_occurrence(text: str, keyword: str) -> tuple[int, int] | None:
    """Where a keyword first stands in a text, as a whole word and in any case.

    Parameters
    ----------
    text : str
        A text.
    keyword : str
        One word or several; any white space in the text may stand between them. "#flu" and
        "flu's" hold "flu", "influence" and "flushot" do not.

    Returns
    -------
    (start, end) or None
        Character positions, or None if it does not occur.
    """
    found = _pattern(keyword).search(text)
    return None if found is None else found.span()


@functools.lru_cache(maxsize=1024)
def _pattern(keyword: str) -> re.Pattern[str]:
    words = r"\s+".join(re.escape(word) for word in keyword.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _two_columns(X: Any) -> tuple[Any, Any]:
    """Both columns of a frame or array that has two, else (None, None)."""
    if _is_list_of_pairs(X):
        return [text for text, _ in X], [words for _, words in X]
    if len(getattr(X, "shape", ())) != 2 or X.shape[1] != 2:
        return None, None
    if hasattr(X, "iloc"):
        return X.iloc[:, 0], X.iloc[:, 1]
    return X[:, 0], X[:, 1]


def _is_list_of_pairs(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(_is_pair(row) for row in X)


def _is_pair(row: Any) -> bool:
    return isinstance(row, list | tuple) and len(row) == 2 and any(isinstance(c, str) for c in row)


def holds_texts(X: Any) -> bool:
    """Whether X holds texts, with keywords beside them or without."""
    table = hasattr(X, "columns") or getattr(getattr(X, "dtype", None), "kind", "") == "O"
    # in the second of two columns they are in the wrong one, which `texts_and_keywords` says best
    return is_text(X) or _is_list_of_pairs(X) or (table and is_text(_two_columns(X)[1]))


class KeywordWindow(TransformerMixin, BaseEstimator):
    """Cut texts to the words around their keywords.

    The keyword view of :class:`~sklearn_spt.baselines.CoDecompositionClassifier`, and of use in
    any pipeline: posts that were found by a search term often say what matters beside it. Nothing
    is learned: `transform` works without `fit`.

    Parameters
    ----------
    keywords : str, iterable of str or None, default=None
        Keywords of every text, in any case; a str holds them between commas. Texts that bring
        keywords of their own, in a second column of X, are not cut at these.
    window : int >= 0, default=5
        Number of words that are kept on each side of a keyword. Words are what stands between
        blanks.

    Notes
    -----
    Of each keyword the first occurrence counts, as a whole word; what lies within the window of
    any of them is kept, in the order of the text. A text in which none occurs stays as it is.

    References
    ----------
    .. [1] P. Karisani, J. C. Ho and E. Agichtein, "Domain-Guided Task Decomposition with
       Self-Training for Detecting Personal Events in Social Media", The Web Conference 2020.

    Examples
    --------
    >>> from sklearn_spt import KeywordWindow
    >>> KeywordWindow("flu", window=2).transform(["My poor sister has the flu since last Monday."])
    array(['has the flu since last'], dtype=object)
    """

    def __init__(self, keywords: Any = None, window: int = 5) -> None:
        self.keywords = keywords
        self.window = window

    def fit(self, X: Any, y: Any = None) -> KeywordWindow:
        """Check the texts and the parameters; nothing is learned.

        Parameters
        ----------
        X : sequence of str, n entries, or two columns of texts and keywords
            Texts: a list, array, pandas or polars Series, or a frame with one column. A frame or
            array with a second column holds the keywords of each text there: a str with keywords
            between commas, an iterable of str, or a missing value.
        y : object, default=None
            Ignored.

        Returns
        -------
        KeywordWindow
            The transformer itself.
        """
        check_integer(self.window, "window", low=0)
        texts_and_keywords(X, self.keywords)
        return self

    def transform(self, X: Any) -> TextArray:
        """Cut the texts.

        Parameters
        ----------
        X : sequence of str, n entries, or two columns of texts and keywords
            Texts, as for `fit`.

        Returns
        -------
        ndarray of shape (n,), dtype object
            The words that are kept, joined by blanks, as ``str``.

        Raises
        ------
        TypeError
            If a text or keyword is not a str.
        """
        check_integer(self.window, "window", low=0)
        texts, keywords = texts_and_keywords(X, self.keywords)
        cut = np.empty(len(texts), dtype=object)
        cut[:] = [self._cut(text, words) for text, words in zip(texts, keywords, strict=True)]
        return cut

    def _cut(self, text: str, keywords: tuple[str, ...]) -> str:
        spans = [span for word in keywords if (span := first_occurrence(text, word)) is not None]
        if not spans:
            return text
        words = list(_WORD.finditer(text))
        kept: set[int] = set()
        for start, end in spans:
            inside = [i for i, w in enumerate(words) if w.end() > start and w.start() < end]
            kept.update(range(inside[0] - self.window, inside[-1] + self.window + 1))
        return " ".join(word.group() for i, word in enumerate(words) if i in kept)

    def get_feature_names_out(self, input_features: Any = None) -> TextArray:
        """Name of the one column of the result, for containers that need one.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (1,)
            The name ``"text"``.
        """
        return np.array(["text"], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Say that texts are expected and that `fit` is not needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # one kind comes out, whatever goes in
        return tags
