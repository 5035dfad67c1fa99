"""Normalise tweets as the paper's authors did, before the encoder's own tokenizer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from sklearn_spt._typing import TextArray
from sklearn_spt._validation import check_flag
from sklearn_spt.text._encoding import check_texts

if TYPE_CHECKING:
    from sklearn.utils import Tags

_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
# Not inside a word: the second half of an e-mail address is no user.
_USER = re.compile(r"(?<![\w@])@\w+", re.ASCII)


class TweetNormalizer(TransformerMixin, BaseEstimator):
    """Lower-case tweets, replace their links and split their tokens by blanks.

    An optional step in front of :class:`TokenIdVectorizer`. The defaults are the preparation that
    the paper's authors gave their tweets. Nothing is learned: `transform` works without `fit`.

    Parameters
    ----------
    lowercase : bool, default=True
        Turn the text into lower case.
    url_token : str or None, default="www"
        What stands for a link (``http://...``, ``https://...`` or ``www....``); None keeps links.
        The default is the authors' and one word piece of BERT's vocabulary.
    user_token : str or None, default=None
        What stands for a user's name (``@name``); None, as the authors had it, keeps the name.
    tokenize : bool, default=True
        Split the text with NLTK's ``TweetTokenizer`` and join the tokens with blanks: emoticons
        and hashtags stay whole, HTML entities become characters. Needs nltk, which
        ``pip install 'sklearn-spt[tweets]'`` brings.

    Notes
    -----
    Runs of white space become one blank. The steps run in the order of the parameters. Normalised
    text normally stays as it is when normalised again; an exception is text that was escaped
    twice (``&amp;amp;``), which loses one layer each time.

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

    def fit(self, X: Any, y: Any = None) -> TweetNormalizer:
        """Check the texts and the parameters; nothing is learned.

        Parameters
        ----------
        X : sequence of str, n entries
            Texts: a list, array, pandas or polars Series, or a frame with one column.
        y : object, default=None
            Ignored.

        Returns
        -------
        TweetNormalizer
            The normaliser itself.
        """
        check_texts(X)
        self._check_parameters()
        if self.tokenize:
            _tweet_tokenizer()
        return self

    def transform(self, X: Any) -> TextArray:
        """Normalise texts.

        Parameters
        ----------
        X : sequence of str, n entries
            Texts, as for `fit`.

        Returns
        -------
        ndarray of shape (n,), dtype object
            The normalised texts, as ``str``.
        """
        texts = check_texts(X)
        self._check_parameters()
        split = _tweet_tokenizer().tokenize if self.tokenize else str.split
        normalized = np.empty(len(texts), dtype=object)
        for row, text in enumerate(texts):
            if self.lowercase:
                text = text.lower()
            # Functions, for a backslash in a replacement would mean something; blanks, for a link
            # is often glued to the word before it.
            if self.url_token is not None:
                text = _URL.sub(lambda _: f" {self.url_token} ", text)
            if self.user_token is not None:
                text = _USER.sub(lambda _: f" {self.user_token} ", text)
            try:
                tokens = split(text)
            except TimeoutError as error:
                raise ValueError(
                    f"The text in row {row} of X, {len(text)} characters long, takes nltk too long "
                    "to split; shorten it, or set tokenize=False."
                ) from error
            normalized[row] = " ".join(" ".join(tokens).split())
        return normalized

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

    def _check_parameters(self) -> None:
        check_flag(self.lowercase, "lowercase")
        check_flag(self.tokenize, "tokenize")
        for name in ("url_token", "user_token"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a str or None, got {value!r}.")

    def __sklearn_tags__(self) -> Tags:
        """Say that texts are expected and that `fit` is not needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # one kind comes out, whatever goes in
        return tags


def _tweet_tokenizer() -> Any:
    # Imported late: nltk is an optional dependency, and a slow import.
    try:
        from nltk.tokenize import TweetTokenizer
    except ImportError as error:
        raise ImportError(
            "TweetNormalizer(tokenize=True) needs nltk; install it with "
            "`pip install 'sklearn-spt[tweets]'`, or set tokenize=False."
        ) from error
    return TweetTokenizer()
