"""Normalise tweets as the paper's authors did, before the encoder's tokenizer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_spt._typing import TextArray
from sklearn_spt._validation import check_flag
from sklearn_spt.text._encoding import check_texts
from sklearn_spt.text._transformer import TextTransformer

_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
# Not inside a word: the second half of an e-mail address is not a user.
_USER = re.compile(r"(?<![\w@])@\w+", re.ASCII)


class TweetNormalizer(TextTransformer):
    """Lower-case tweets, replace their links and split their tokens by blanks.

    An optional step before :class:`TokenIdVectorizer`. With the defaults, tweets are prepared as
    the paper's authors did. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    lowercase : bool, default=True
        Convert the text to lower case. Set False for a cased encoder.
    url_token : str or None, default="www"
        Replacement for a link (``http://...``, ``https://...`` or ``www....``); None keeps links.
        The default is the authors', and one token of BERT's vocabulary.
    user_token : str or None, default=None
        Replacement for a user name (``@name``); None keeps the name, as the authors did.
    tokenize : bool, default=True
        Split the text with NLTK's ``TweetTokenizer`` and join the tokens with blanks. Emoticons
        and hashtags stay whole, HTML entities become characters. Set False if nltk
        (``pip install 'sklearn-spt[tweets]'``) is not installed.

    Notes
    -----
    The steps run in the order of the parameters. Runs of white space become one blank.
    Normalising a text again does not change it, with two exceptions: text escaped twice
    (``&amp;amp;``) loses one layer each time, and the end of an e-mail address becomes a user.

    References
    ----------
    .. [1] P. Karisani and N. Karisani, "Semi-Supervised Text Classification via Self-Pretraining",
       WSDM 2021, section 4.

    Examples
    --------
    >>> from sklearn_spt import TweetNormalizer
    >>> TweetNormalizer().fit_transform(["Got my #FluShot :-) https://example.org/x"])
    array(['got my #flushot :-) www'], dtype=object)
    """

    def __init__(
        self,
        lowercase: bool = True,
        url_token: str | None = "www",
        user_token: str | None = None,
        tokenize: bool = True,
    ) -> None:
        self.lowercase = lowercase
        self.url_token = url_token
        self.user_token = user_token
        self.tokenize = tokenize

    def _check(self, X: Any) -> None:
        check_texts(X)
        self._split()

    def transform(self, X: Any) -> TextArray:
        """Normalise texts.

        Parameters
        ----------
        X : sequence of str, n entries
            Texts: a list, array, pandas or polars Series, or a frame with one column.

        Returns
        -------
        ndarray of shape (n,), dtype object
            The normalised texts, as ``str``.
        """
        texts = check_texts(X)
        split = self._split()
        normalized = np.empty(len(texts), dtype=object)
        for row, text in enumerate(texts):
            if self.lowercase:
                text = text.lower()
            # Functions, since a backslash in a replacement string is an escape; blanks, since a
            # link often follows a word without a blank.
            if self.url_token is not None:
                text = _URL.sub(lambda _: f" {self.url_token} ", text)
            if self.user_token is not None:
                text = _USER.sub(lambda _: f" {self.user_token} ", text)
            try:
                tokens = split(text)
            except TimeoutError as error:
                raise ValueError(
                    f"nltk takes too long to split the text in row {row} of X, {len(text)} "
                    "characters long; shorten it, or set tokenize=False."
                ) from error
            normalized[row] = " ".join(" ".join(tokens).split())
        return normalized

    def _split(self) -> Callable[[str], list[str]]:
        """Check the parameters and return the function that splits a text."""
        check_flag(self.lowercase, "lowercase")
        check_flag(self.tokenize, "tokenize")
        for name in ("url_token", "user_token"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a str or None, got {value!r}.")
        if not self.tokenize:
            return str.split
        try:
            from nltk.tokenize import TweetTokenizer
        except ImportError as error:
            raise ImportError(
                "TweetNormalizer(tokenize=True) needs nltk; install it with "
                "`pip install 'sklearn-spt[tweets]'`, or set tokenize=False."
            ) from error
        tokenize: Callable[[str], list[str]] = TweetTokenizer().tokenize
        return tokenize
