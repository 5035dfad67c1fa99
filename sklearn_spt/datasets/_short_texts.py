"""A generator of short posts, for everything that should run with no data at hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import Bunch, check_random_state

from sklearn_spt._typing import FloatArray, IntArray
from sklearn_spt._validation import check_flag, check_integer, check_real, shown
from sklearn_spt.datasets import _grammar as grammar

T = TypeVar("T")

# The kinds of post that make up each class, for two, three and four classes.
_KINDS = {
    2: ((grammar.FIGURATIVE, grammar.NEWS), (grammar.OTHER, grammar.SELF)),
    3: ((grammar.FIGURATIVE, grammar.NEWS), (grammar.OTHER,), (grammar.SELF,)),
    4: ((grammar.FIGURATIVE,), (grammar.NEWS,), (grammar.OTHER,), (grammar.SELF,)),
}
_TARGET_NAMES = {
    2: ["no report", "report"],
    3: ["no report", "report about another", "report about oneself"],
    4: ["figurative", "news", "report about another", "report about oneself"],
}


def make_short_texts(
    n_samples: int = 1000,
    *,
    n_classes: int = 2,
    weights: Iterable[float] | None = None,
    flip_y: float = 0.02,
    ambiguity: float = 0.5,
    noise: float = 0.2,
    n_labeled: int | float | None = None,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Any:
    """Generate short posts, some of which report that somebody fell ill.

    Every post holds a keyword: "the flu", "a fever", "a migraine", "a bad cough", "a heart attack"
    or "a stroke". It is a report where the author, or somebody the author knows, really has it; the
    same keyword also stands in news, advice, jokes, fiction and false alarms. What a post means
    tells its class, and few single words do: the vocabulary is large.

    A share `ambiguity` of the posts can only be told apart by reading them in order:
    "my boss got the flu and batman did not" and "batman got the flu and my boss did not" have the
    same words and different classes, as have "i thought it was stress but it was the flu" and
    "i thought it was the flu but it was stress".

    Parameters
    ----------
    n_samples : int, default=1000
        Number of posts.

    n_classes : {2, 3, 4}, default=2
        2: no report, report. 3: no report, report about another person, report about oneself.
        4: as 3, but what is no report is figurative (also fiction, fears, false alarms) or news.

    weights : array-like of shape (n_classes,) or (n_classes - 1,), default=None
        Share of each class, before `flip_y`; the last one can be left out. ``[0.85]`` gives 15%
        reports. None means equal shares. Class sizes are exact, up to rounding.

    flip_y : float in [0, 1], default=0.02
        Share of posts that get a class at random, as in
        :func:`~sklearn.datasets.make_classification`: the errors of annotators.

    ambiguity : float in [0, 1], default=0.5
        Share of posts, in each class, whose bag of words says nothing about which of two classes
        they belong to. At 1, with two classes, a classifier over single words is left with
        guessing.

    noise : float in [0, 1], default=0.2
        Probability of each of these, independently and whatever the class: a typing error, a
        hashtag, a URL, a mention of a user, an emoji, capital letters.

    n_labeled : int or float, default=None
        How many posts (int), or what share of them (float in (0, 1]), keep their label in
        `target_partial`. They are drawn at random, with the share of each class kept and at least
        one of each.

    random_state : int, RandomState instance or None, default=None
        Pass an int for the same posts at every call. Neither `flip_y` nor `n_labeled` changes the
        posts.

    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch; with `n_labeled`,
        ``(data, target_partial)``.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        data : ndarray of shape (n_samples,), dtype object
            The posts, each a str.
        target : ndarray of shape (n_samples,), dtype int64
            The class of each post, 0 to n_classes - 1, with errors as `flip_y` says.
        target_partial : ndarray of shape (n_samples,), dtype int64
            Only with `n_labeled`: `target`, with -1 where the label is withheld.
        target_clean : ndarray of shape (n_samples,), dtype int64
            The class without errors.
        target_names : list of str
            Name of each class.
        keyword : ndarray of shape (n_samples,), dtype object
            The keyword of each post, before typing errors.
        ambiguous : ndarray of shape (n_samples,), dtype bool
            Whether the post is one of those that must be read in order.
    (data, target) : tuple
        If `return_X_y` is True.

    Raises
    ------
    ValueError, TypeError
        A parameter out of its range.

    Notes
    -----
    With ``weights=[0.83], ambiguity=0.1, flip_y=0.04`` and 300 labels, TF-IDF, frozen embeddings
    and one fine-tuned net come in this order, and about as far apart as on the tweets of
    `fetch_phm_tuning` and the reviews of `fetch_psytar`. A net with more labels is ahead of them.

    Examples
    --------
    >>> from sklearn_spt.datasets import make_short_texts
    >>> posts = make_short_texts(200, weights=[0.85], n_labeled=40, random_state=0)
    >>> posts.data.shape
    (200,)
    >>> int((posts.target_partial >= 0).sum())
    40
    """
    check_integer(n_samples, "n_samples", low=1)
    check_integer(n_classes, "n_classes", low=2)
    if n_classes not in _KINDS:
        raise ValueError(f"n_classes must be 2, 3 or 4, got {n_classes!r}.")
    check_real(flip_y, "flip_y", low=0.0, high=1.0)
    check_real(ambiguity, "ambiguity", low=0.0, high=1.0)
    check_real(noise, "noise", low=0.0, high=1.0)
    check_flag(return_X_y, "return_X_y")
    shares = _check_weights(weights, n_classes)
    rng = check_random_state(random_state)

    clean = np.repeat(np.arange(n_classes, dtype=np.int64), _apportion(shares, n_samples))
    ambiguous = np.concatenate(
        [np.arange(count) < round(ambiguity * count) for count in np.bincount(clean)]
    )
    order = rng.permutation(n_samples)
    clean, ambiguous = clean[order], ambiguous[order]
    post = _Post(rng, n_classes, noise)
    keyword = np.array([post.pick(grammar.KEYWORDS) for _ in range(n_samples)], dtype=object)
    data = np.array(
        [post.write(*row) for row in zip(clean.tolist(), ambiguous.tolist(), keyword, strict=True)],
        dtype=object,
    )
    flipped = rng.random_sample(n_samples) < flip_y
    target = np.where(flipped, rng.randint(n_classes, size=n_samples, dtype=np.int64), clean)

    bunch = Bunch(
        data=data,
        target=target,
        target_clean=clean,
        target_names=list(_TARGET_NAMES[n_classes]),
        keyword=keyword,
        ambiguous=ambiguous,
    )
    if n_labeled is not None:
        bunch.target_partial = _withhold(target, n_labeled, rng)
    if return_X_y:
        return bunch.data, bunch.target if n_labeled is None else bunch.target_partial
    return bunch


class _Post:
    """Writes one post after another, each from some dozens of draws."""

    def __init__(self, rng: np.random.RandomState, n_classes: int, noise: float) -> None:
        self.rng = rng
        self.kinds = _KINDS[n_classes]
        self.noise = noise

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.random_sample() * len(options))]

    def write(self, label: int, ambiguous: bool, keyword: str) -> str:
        text = (self._ambiguous if ambiguous else self._plain)(label, keyword)
        if self.rng.random_sample() < 0.4:
            text = f"{self.pick(grammar.OPENERS)} {text}"
        if self.rng.random_sample() < 0.4:
            text = f"{text}, {self.pick(grammar.CLOSERS)}"
        for ornament in self._ornaments(keyword):
            if self.rng.random_sample() < self.noise:
                text = ornament(text)
        return text

    def _plain(self, label: int, keyword: str) -> str:
        kind = self.pick(self.kinds[label])
        sentence = self.pick(grammar.PLAIN[kind])
        sentence = _EITHER.sub(lambda found: self.pick(found[1].split("|")), sentence)
        if self.rng.random_sample() < 0.8:
            sentence = f"{sentence}, {self.pick(grammar.TAILS[kind])}"
        person = self.pick(grammar.PERSONS)
        return sentence.format(kw=keyword, person=person, **self._slots())

    def _ambiguous(self, label: int, keyword: str) -> str:
        """Write a post that another class could have written with the same words.

        All draws are the same, in distribution, for `label` and for the class it is paired with;
        only at the very end does `label` decide which arrangement of the words it is. So the bag
        of words carries no more than the pair.
        """
        n_classes = len(self.kinds)
        partner = (label + 1 + int(self.rng.random_sample() * (n_classes - 1))) % n_classes
        kind, rival = self.pick(self.kinds[label]), self.pick(self.kinds[partner])
        pair = sorted((kind, rival))
        false_alarm = pair[0] == grammar.FIGURATIVE and pair[1] >= grammar.OTHER
        if false_alarm and self.rng.random_sample() < 0.5:
            subject, obj = self.pick(grammar.SAME_CASE[pair[1]])
            arrangement = self.pick(grammar.WHETHER)[0 if kind == pair[1] else 1]
            return arrangement.format(kw=keyword, s=subject, o=obj, **self._slots())
        form = self.pick(_WHO)
        if form == 2:
            a, b = self.pick(grammar.ANY_CASE[kind]), self.pick(grammar.ANY_CASE[rival])
            return self.pick(grammar.WHO_TO_WHOM).format(kw=keyword, a=a, b=b)
        a, b = self.pick(grammar.SAME_CASE[kind])[form], self.pick(grammar.SAME_CASE[rival])[form]
        sentences = (grammar.WHO_SUBJECTS, grammar.WHO_OBJECTS)[form]
        return self.pick(sentences).format(kw=keyword, a=a, b=b)

    def _slots(self) -> dict[str, str]:
        return {name: self.pick(options) for name, options in grammar.SLOTS.items()}

    def _ornaments(self, keyword: str) -> tuple[Callable[[str], str], ...]:
        return (
            self._typo,
            lambda text: f"{text} {self.pick((*grammar.HASHTAGS, _hashtag(keyword)))}",
            lambda text: f"{text} {self.pick(grammar.EMOJI)}",
            lambda text: f"@user_{int(self.rng.random_sample() * 900) + 100} {text}",
            lambda text: f"{text} https://example.com/{int(self.rng.random_sample() * 1e8):x}",
            self._capitals,
        )

    def _typo(self, text: str) -> str:
        """One slip in a long word; the short ones ("not", "did") carry the meaning."""
        tokens = text.split(" ")
        places = [i for i, word in enumerate(tokens) if len(word) >= 5 and word.isalpha()]
        if not places:
            return text
        place = self.pick(places)
        word = tokens[place]
        i = 1 + int(self.rng.random_sample() * (len(word) - 3))
        slips = (
            word[:i] + word[i + 1] + word[i] + word[i + 2 :],
            word[:i] + word[i + 1 :],
            word[:i] + word[i] + word[i:],
        )
        tokens[place] = self.pick(slips)
        return " ".join(tokens)

    def _capitals(self, text: str) -> str:
        if "https://" in text or self.rng.random_sample() < 0.5:
            return text[0].upper() + text[1:]
        return text.upper()


# Choices inside a sentence.
_EITHER = re.compile(r"\(([^()]+)\)")

# Which group of sentences, weighted by the number of its sentences.
_WHO = (
    [0] * len(grammar.WHO_SUBJECTS)
    + [1] * len(grammar.WHO_OBJECTS)
    + [2] * len(grammar.WHO_TO_WHOM)
)


def _hashtag(keyword: str) -> str:
    _article, *words = keyword.split()
    return "#" + "".join(words)


def _check_weights(weights: Iterable[float] | None, n_classes: int) -> FloatArray:
    if weights is None:
        return np.full(n_classes, 1 / n_classes)
    if isinstance(weights, Mapping | Set | str) or not isinstance(weights, Iterable):
        raise TypeError(f"weights must be a list of shares or None, got {shown(weights)}.")
    shares = np.asarray(list(weights), dtype=np.float64)
    if len(shares) not in (n_classes - 1, n_classes):
        raise ValueError(
            f"weights must hold one share for each of the {n_classes} classes, or all but the "
            f"last; got {len(shares)}."
        )
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"weights must lie in [0, 1], got {shares.tolist()}.")
    if len(shares) == n_classes - 1:
        shares = np.append(shares, 1 - shares.sum())
    if shares[-1] < -1e-9 or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(f"weights must add up to 1, got {shares.tolist()}.")
    return np.maximum(shares, 0.0)


def _apportion(shares: FloatArray, total: int) -> IntArray:
    """Whole numbers that add up to `total`, as near to the shares as can be."""
    exact = shares / shares.sum() * total
    counts: IntArray = np.floor(exact + 1e-9).astype(np.int64)
    most_cut_off = np.argsort(counts - exact, kind="stable")
    counts[most_cut_off[: total - counts.sum()]] += 1
    return counts


def _withhold(target: IntArray, n_labeled: int | float, rng: np.random.RandomState) -> IntArray:
    n_samples = len(target)
    if isinstance(n_labeled, float | np.floating):
        check_real(n_labeled, "n_labeled", low=0.0, high=1.0, closed="right")
        number = round(n_labeled * n_samples)
    else:
        check_integer(n_labeled, "n_labeled", low=1)
        number = int(n_labeled)
    present, sizes = np.unique(target, return_counts=True)
    if not len(present) <= number <= n_samples:
        raise ValueError(
            f"n_labeled={n_labeled!r} asks for {number} labelled posts; it must be at least one "
            f"for each of the {len(present)} classes and at most n_samples={n_samples}."
        )
    counts = _apportion(sizes / n_samples, number)
    while (counts == 0).any():
        counts[np.argmin(counts)] += 1
        counts[np.argmax(counts)] -= 1
    partial = np.full(n_samples, -1, dtype=np.int64)
    for label, count in zip(present, counts, strict=True):
        rows = rng.permutation(np.flatnonzero(target == label))[:count]
        partial[rows] = label
    return partial
