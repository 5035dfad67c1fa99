"""Exact copies, retweets and near-duplicates."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sklearn_spt._typing import IntArray
from sklearn_spt._validation import check_real

_N_WORDS = 3  # words of a shingle
_MIN_CUT_WORDS = 5  # fewer words in front of a cut say too little about what was cut off

_RETWEET = re.compile(r"""[\s"'“”.]*(?:\brt[\s:]*@\w+[\s:"'“”]*)+""")
_URL_OR_MENTION = re.compile(r"(?:https?://|\bwww\.)\S*|@\w+")
_WORD = re.compile(r"\w+")

_Shingle = tuple[str, ...]


class _Normal(NamedTuple):
    """What is compared of a text."""

    words: tuple[str, ...]
    key: str  # equal keys: the same words, or, where there are none, the same text
    retweet: bool
    stem: str  # the words in front of the cut of a retweet that was cut, else ""


def duplicates_of(
    texts: Iterable[str], reference: Iterable[str], *, threshold: float = 0.8
) -> npt.NDArray[np.str_]:
    """Find the texts that repeat a text of another collection.

    Training and unlabelled rows that repeat a test row make the test score too high. Keep
    ``texts[duplicates_of(texts, test_texts) == ""]``.

    Texts are compared by their words. Case, retweet marks at the beginning (``RT @user:``), URLs,
    mentions (``@user``), punctuation, emoji and white space are ignored. HTML entities and
    compatibility characters are resolved first.

    Parameters
    ----------
    texts : iterable of str, n_texts of them
        The texts.

    reference : iterable of str
        The texts that must not be repeated, for example the test rows.

    threshold : float in (0, 1], default=0.8
        Least similarity of near-duplicates: the Jaccard similarity of their sets of three
        successive words. At 0.8, a text of 20 words may have four more words at its end, but no
        other word in its middle. Texts of one or two words are compared by single words.

    Returns
    -------
    reasons : ndarray of shape (n_texts,), dtype str
        For each text the first that applies:

        - ``"exact"``: a reference has the same words (or the same letters, where there is no
          word), and neither text is a retweet.
        - ``"retweet"``: a reference has the same words, and one of the two is a retweet; or one is
          a retweet that was cut (it ends with an ellipsis), and the other one begins with its
          words, without the last, if there are five or more.
        - ``"near"``: a reference is similar, see `threshold`.
        - ``""``: no reference is repeated.

    See Also
    --------
    duplicate_groups : Duplicates within one collection.

    Notes
    -----
    The result is exact. An inverted index of the rarest shingles (prefix filter, [1]_) finds the
    pairs to compare, so time grows with the number of texts, not of pairs.

    References
    ----------
    .. [1] C. Xiao, W. Wang, X. Lin and J. X. Yu, "Efficient Similarity Joins for Near Duplicate
       Detection", WWW 2008.

    Examples
    --------
    >>> from sklearn_spt.datasets import duplicates_of
    >>> test = ["In bed with the flu since Monday, send tea https://example.com/1"]
    >>> train = [
    ...     "in bed with the flu since monday! Send tea",
    ...     "RT @somebody: In bed with the flu since Monday, send tea",
    ...     "In bed with the flu since Monday, send tea please",
    ...     "The flu season is near",
    ... ]
    >>> duplicates_of(train, test).tolist()
    ['exact', 'retweet', 'near', '']
    """
    threshold = check_real(threshold, "threshold", low=0.0, high=1.0, closed="right")
    texts, reference = _strings(texts, "texts"), _strings(reference, "reference")
    ours, theirs = [_normal(text) for text in texts], [_normal(text) for text in reference]
    letters = set(reference)
    plain = {one.key for one in theirs if not one.retweet}
    all_words = {one.key: one.words for one in theirs}
    cut = _cut_retweets(ours, theirs)
    index = _Index(list(all_words.values()), threshold)
    verdict: dict[str, str] = {}  # what is said often is judged once
    for text, one in zip(texts, ours, strict=True):
        if text in verdict:
            continue
        if text in letters or (not one.retweet and one.key in plain):
            verdict[text] = "exact"
        elif one.key in all_words or one.key in cut:
            verdict[text] = "retweet"
        else:
            found = next(index.similar(one.words), None)
            verdict[text] = "" if found is None else "near"
    return np.array([verdict[text] for text in texts], dtype="<U7")


def duplicate_groups(texts: Iterable[str], *, threshold: float = 0.8) -> IntArray:
    """Group the texts that repeat each other.

    Two texts are in one group if :func:`duplicates_of` finds that one repeats the other, or if a
    chain of such pairs connects them. Pass the result to a splitter as ``groups=`` to keep each
    group on one side of a split.

    Parameters
    ----------
    texts : iterable of str, n_texts of them
        The texts.

    threshold : float in (0, 1], default=0.8
        Least similarity of near-duplicates; see :func:`duplicates_of`.

    Returns
    -------
    groups : ndarray of shape (n_texts,), dtype int64
        Number of each text's group, from 0 in the order of first appearance.

    See Also
    --------
    duplicates_of : Texts that repeat those of another collection.

    Examples
    --------
    >>> from sklearn_spt.datasets import duplicate_groups
    >>> duplicate_groups(["Home with the flu.", "flu season", "home with the FLU"]).tolist()
    [0, 1, 0]
    """
    threshold = check_real(threshold, "threshold", low=0.0, high=1.0, closed="right")
    normalized = [_normal(text) for text in _strings(texts, "texts")]
    words = {one.key: one.words for one in normalized}
    position = {key: i for i, key in enumerate(words)}
    forest = list(range(len(position)))  # union-find over the distinct keys
    index = _Index(list(words.values()), threshold)
    for i, own in enumerate(words.values()):
        for j in index.similar(own):
            _join(forest, i, j)
    ordered = sorted(position)
    for stem in {one.stem for one in normalized if one.stem}:
        # the cut retweet itself is among them
        same = [position[key] for key in _beginning_with(ordered, stem)]
        for i, j in pairwise(same):
            _join(forest, i, j)
    number: dict[int, int] = {}
    roots = [_root(forest, position[one.key]) for one in normalized]
    return np.array([number.setdefault(root, len(number)) for root in roots], dtype=np.int64)


# -- what is compared ---------------------------------------------------------------------------
def _strings(texts: Any, name: str) -> list[str]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"{name} must be a list or array of str, got {type(texts).__name__}.")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{name} must hold str only; row {row} is of type {type(text).__name__}. Drop it "
                "or replace it by an empty str."
            )
    return texts


def _normal(text: str) -> _Normal:
    plain = unicodedata.normalize("NFKC", html.unescape(text)).lower()
    mark = _RETWEET.match(plain)
    body = plain[mark.end() :] if mark else plain
    words = tuple(_WORD.findall(_URL_OR_MENTION.sub(" ", body)))
    # NFKC has made three dots of an ellipsis
    whole = words[:-1] if mark and plain.rstrip().endswith("...") else ()
    return _Normal(
        words=words,
        key=" ".join(words) or "\0" + text,
        retweet=mark is not None,
        stem=" ".join(whole) if len(whole) >= _MIN_CUT_WORDS else "",
    )


def _shingles(words: Sequence[str]) -> set[_Shingle]:
    width = _N_WORDS if len(words) >= _N_WORDS else 1
    return set(zip(*(words[start:] for start in range(width)), strict=False))


# -- retweets that were cut ---------------------------------------------------------------------
def _cut_retweets(ours: list[_Normal], theirs: list[_Normal]) -> set[str]:
    """Keys of ours that are retweets which were cut, or of which a reference is such a retweet."""
    our_keys, their_keys = (sorted({one.key for one in side}) for side in (ours, theirs))
    found = {
        one.key
        for one in ours
        if one.stem and next(_beginning_with(their_keys, one.stem), None) is not None
    }
    for stem in {one.stem for one in theirs if one.stem}:
        found.update(_beginning_with(our_keys, stem))
    return found


def _beginning_with(ordered: list[str], stem: str) -> Iterator[str]:
    """Those of the sorted keys whose first words are those of the stem."""
    # Keys hold word characters and blanks, and "!" is what follows a blank in Unicode: up to
    # there lie the stem itself and what continues it with a blank, but no longer word.
    for i in range(bisect_left(ordered, stem), bisect_left(ordered, stem + "!")):
        yield ordered[i]


# -- similar texts ------------------------------------------------------------------------------
class _Index:
    """Finds the sets of shingles that are similar to a given one.

    Two sets whose similarity reaches the threshold t share at least one of the
    |s| - ceil(t |s|) + 1 rarest shingles of either. Only those are indexed and looked up.
    """

    def __init__(self, texts: list[tuple[str, ...]], threshold: float) -> None:
        self.threshold = threshold
        sets = [_shingles(words) for words in texts]
        counts = Counter(shingle for shingles in sets for shingle in shingles)
        ordered = sorted(counts, key=lambda shingle: (counts[shingle], shingle))
        self.rank = {shingle: i for i, shingle in enumerate(ordered)}
        self.sets = [{self.rank[shingle] for shingle in shingles} for shingles in sets]
        self.entries: dict[int, list[int]] = {}
        for i, ranks in enumerate(self.sets):
            for rank in sorted(ranks)[: self._n_rarest(len(ranks))]:
                self.entries.setdefault(rank, []).append(i)

    def similar(self, words: tuple[str, ...]) -> Iterator[int]:
        """Yield the indices of the similar texts, in no particular order."""
        shingles = _shingles(words)
        size = len(shingles)
        known = {self.rank[shingle] for shingle in shingles if shingle in self.rank}
        # shingles that no text of the index has are rarer than all others, and lead nowhere
        n_rarest = self._n_rarest(size) - (size - len(known))
        if n_rarest <= 0:
            return
        seen = set()
        for rank in sorted(known)[:n_rarest]:
            for i in self.entries.get(rank, ()):
                if i in seen:
                    continue
                seen.add(i)
                shared = len(known & self.sets[i])
                if shared / (size + len(self.sets[i]) - shared) >= self.threshold:
                    yield i

    def _n_rarest(self, size: int) -> int:
        # rounding must not cost a pair that lies on the threshold
        return size - math.ceil(self.threshold * size - 1e-9) + 1 if size else 0


# -- groups -------------------------------------------------------------------------------------
def _root(forest: list[int], i: int) -> int:
    while forest[i] != i:
        forest[i] = forest[forest[i]]
        i = forest[i]
    return i


def _join(forest: list[int], i: int, j: int) -> None:
    forest[_root(forest, i)] = _root(forest, j)
