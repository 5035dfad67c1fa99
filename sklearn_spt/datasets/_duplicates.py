"""Exact copies, retweets and near-duplicates."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from sklearn_spt._typing import IntArray
from sklearn_spt._validation import check_real

_N_WORDS = 3  # words of a shingle
_MIN_CUT_WORDS = 5  # fewer words in front of a cut do not identify the text
_BLOCK = 1000  # texts that are compared with all others at a time, which limits the memory

_RETWEET = re.compile(r"""[\s"'“”.]*(?:\brt[\s:]*@\w+[\s:"'“”]*)+""")
_URL_OR_MENTION = re.compile(r"(?:https?://|\bwww\.)\S*|@\w+")
_WORD = re.compile(r"\w+")


class _Normal(NamedTuple):
    """The parts of a text that are compared."""

    words: tuple[str, ...]
    key: str  # the words in one str; the text itself if it has no word
    retweet: bool
    stem: str  # the words before the cut if the text is a cut retweet, else ""


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
    The result is exact. A product of sparse matrices counts the words in common, so only pairs
    of texts that have three successive words in common take time.

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
    others = {one.key: one.words for one in ours if one.key not in all_words}
    keys = list(others)
    pairs = _similar(list(others.values()), list(all_words.values()), threshold)
    near = {keys[i] for rows, _ in pairs for i in rows}
    reasons = []
    for text, one in zip(texts, ours, strict=True):
        if text in letters or (not one.retweet and one.key in plain):
            reasons.append("exact")
        elif one.key in all_words or one.key in cut:
            reasons.append("retweet")
        else:
            reasons.append("near" if one.key in near else "")
    return np.array(reasons, dtype="<U7")


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
    distinct = list(words.values())
    edges = [np.stack(pairs) for pairs in _similar(distinct, distinct, threshold)]
    ordered = sorted(position)
    for stem in {one.stem for one in normalized if one.stem}:
        # the cut retweet itself is among them
        same = [position[key] for key in _beginning_with(ordered, stem)]
        edges.append(np.array(list(pairwise(same)), dtype=np.int64).reshape(-1, 2).T)
    i, j = np.concatenate([np.empty((2, 0), dtype=np.int64), *edges], axis=1)
    ends = i.astype(np.int32), j.astype(np.int32)  # older versions of scipy take no other kind
    graph = coo_array((np.ones(len(i)), ends), shape=(len(words), len(words)))
    _, component = connected_components(graph, directed=False)
    number: dict[int, int] = {}
    roots = [component[position[one.key]] for one in normalized]
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


def _shingles(words: Sequence[str]) -> set[tuple[str, ...]]:
    width = _N_WORDS if len(words) >= _N_WORDS else 1
    return set(zip(*(words[start:] for start in range(width)), strict=False))


# -- retweets that were cut ---------------------------------------------------------------------
def _cut_retweets(ours: list[_Normal], theirs: list[_Normal]) -> set[str]:
    """Keys of ours that are cut retweets of a reference, or of which a reference is one."""
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
    """Yield the sorted keys that begin with the words of the stem."""
    # Keys hold word characters and blanks, and "!" follows the blank in Unicode. So the stem, and
    # the stem with a blank behind it, sort before stem + "!", and longer words sort after it.
    for i in range(bisect_left(ordered, stem), bisect_left(ordered, stem + "!")):
        yield ordered[i]


# -- similar texts ------------------------------------------------------------------------------
def _similar(
    ours: list[tuple[str, ...]], theirs: list[tuple[str, ...]], threshold: float
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the positions (in ours, in theirs) of similar texts, block by block."""
    number: dict[tuple[str, ...], int] = {}
    columns = [[number.setdefault(s, len(number)) for s in _shingles(w)] for w in ours + theirs]
    sizes = np.array([len(row) for row in columns], dtype=np.int64)
    indices = np.array([column for row in columns for column in row], dtype=np.int64)
    M = csr_array(
        (np.ones(len(indices), dtype=np.int64), indices, np.append(0, np.cumsum(sizes))),
        shape=(len(columns), len(number)),
    )
    n = len(ours)
    for start in range(0, n, _BLOCK):
        shared = (M[start : min(start + _BLOCK, n)] @ M[n:].T).tocoo()
        i, j = shared.row + start, shared.col
        union = sizes[i] + sizes[n + j] - shared.data
        similar = shared.data / union >= threshold
        yield i[similar], j[similar]
