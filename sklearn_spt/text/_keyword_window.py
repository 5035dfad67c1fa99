"""Keywords of documents: their positions, and the words around them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sklearn_spt._labels import is_missing
from sklearn_spt._typing import TextArray
from sklearn_spt._validation import check_integer
from sklearn_spt.text._encoding import check_texts, is_text
from sklearn_spt.text._transformer import TextTransformer

_WORD = re.compile(r"\S+")


def texts_and_keywords(X: Any, keywords: Any = None) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the texts of X and the keywords of each: its own in a second column, or `keywords`."""
    common = parsed_keywords(keywords, "keywords")
    texts_column, keywords_column = _two_columns(X)
    if keywords_column is None:
        texts = check_texts(X)
        return texts, [common] * len(texts)
    if not is_text(texts_column):
        raise TypeError(
            "the first column of X must hold the texts, and the second their keywords; the first "
            "holds no str."
        )
    texts = check_texts(texts_column)
    own = [
        parsed_keywords(cell, f"the keyword column of X, row {row},")
        for row, cell in enumerate(keywords_column)
    ]
    return texts, [words or common for words in own]


def parsed_keywords(given: Any, name: str) -> tuple[str, ...]:
    """Return keywords as a tuple, from a str with commas, an iterable of str, or None."""
    if isinstance(given, str):
        words = given.split(",")
    elif is_missing(given):
        words = []
    elif isinstance(given, Iterator):
        raise TypeError(f"{name} must be a list; got a {type(given).__name__}, which is read once.")
    elif isinstance(given, Iterable) and not isinstance(given, bytes):
        words = list(given)
        for word in words:
            if not isinstance(word, str):
                raise TypeError(f"{name} must hold str, but holds {word!r}.")
    else:
        raise TypeError(f"{name} must be a str, an iterable of str or None, got {given!r}.")
    return tuple(word.strip() for word in words if word.strip())


def first_occurrence(text: str, keyword: str) -> tuple[int, int] | None:
    """Return the span of a keyword's first occurrence as a whole word in any case, or None."""
    found = _pattern(keyword).search(text)
    return None if found is None else found.span()


@functools.lru_cache(maxsize=1024)
def _pattern(keyword: str) -> re.Pattern[str]:
    words = r"\s+".join(re.escape(word) for word in keyword.split())
    # "#flu" and "flu's" hold "flu", "flushot" does not
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _two_columns(X: Any) -> tuple[Any, Any]:
    """Return both columns of a frame, an array or a list of pairs, else (None, None)."""
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
    """Whether X holds texts, with or without keywords."""
    table = hasattr(X, "columns") or getattr(getattr(X, "dtype", None), "kind", "") == "O"
    # Texts in the second of two columns count, too: `texts_and_keywords` has the error message.
    return is_text(X) or _is_list_of_pairs(X) or (table and is_text(_two_columns(X)[1]))


class KeywordWindow(TextTransformer):
    """Cut texts to the words around their keywords.

    It is the keyword view of :class:`~sklearn_spt.CoDecompositionClassifier`. It suits
    posts that were found by a search term. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    keywords : str, iterable of str or None, default=None
        Keywords of every text, upper or lower case; in a str, commas separate them. Texts with
        keywords in a second column of X use those instead.
    window : int >= 0, default=5
        Number of words to keep on each side of a keyword. White space separates words.

    Notes
    -----
    The first occurrence of each keyword as a whole word counts. The words in the window of any
    keyword are kept, in the order of the text. A text without a keyword stays as it is.

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

    def _check(self, X: Any) -> None:
        check_integer(self.window, "window", low=0)
        texts_and_keywords(X, self.keywords)

    def transform(self, X: Any) -> TextArray:
        """Cut the texts.

        Parameters
        ----------
        X : sequence of str, n entries, or two columns of texts and keywords
            Texts: a list, array, pandas or polars Series, or a frame with one column. A second
            column of a frame or array holds the keywords of each text: a str with commas between
            them, an iterable of str, or a missing value.

        Returns
        -------
        ndarray of shape (n,), dtype object
            The words that are kept, joined by blanks.

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
            end_of_window = min(inside[-1] + self.window + 1, len(words))
            kept.update(range(max(inside[0] - self.window, 0), end_of_window))
        return " ".join(word.group() for i, word in enumerate(words) if i in kept)
