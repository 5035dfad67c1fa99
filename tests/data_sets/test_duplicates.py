"""Tests of duplicates_of and duplicate_groups, against comparisons of all pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from helpers.optional import pd
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_spt.datasets import _duplicates, duplicate_groups, duplicates_of

# -- an oracle without index, regular expressions or shortcuts ---------------------------------
# Posts are written from parts of which the oracle knows the words; no part needs to be read.
WORDS = st.lists(st.sampled_from("abcde"), max_size=9)
ENDS = st.sampled_from(["", " ", "!", " https://example.com/x", " @someone", "..."])


@st.composite
def posts(draw):
    """Give (text, words, whether it is a retweet, whether it was cut)."""
    words, end = draw(WORDS), draw(ENDS)
    n_marks = draw(st.integers(0, 2))
    glue = draw(st.sampled_from([" ", ", ", " - ", "  "]))
    spelled = [word.upper() if draw(st.booleans()) else word for word in words]
    text = "RT @user: " * n_marks + glue.join(spelled) + end
    return text, tuple(words), n_marks > 0, end == "..."


COLLECTIONS = st.lists(posts(), max_size=12)
THRESHOLDS = st.sampled_from([0.2, 1 / 3, 0.5, 0.55, 0.6, 2 / 3, 0.75, 0.8, 0.9, 1.0])


def shingles(words):
    width = 3 if len(words) >= 3 else 1
    return {words[i : i + width] for i in range(len(words) - width + 1)}


def similarity(one, other):
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b) if a | b else 0.0


def is_beginning(one, other):
    """Whether the first is a cut retweet of the other, given as posts."""
    _, words, retweet, cut = one
    stem = words[:-1]
    return retweet and cut and len(stem) >= 5 and other[1][: len(stem)] == stem


def same_words(one, other):
    return one[1] == other[1] if one[1] or other[1] else one[0] == other[0]


def reason(one, reference, threshold):
    for other in reference:
        if one[0] == other[0] or (same_words(one, other) and not (one[2] or other[2])):
            return "exact"
    for other in reference:
        if same_words(one, other) or is_beginning(one, other) or is_beginning(other, one):
            return "retweet"
    if any(similarity(one[1], other[1]) >= threshold for other in reference):
        return "near"
    return ""


def texts_of(collection):
    return [post[0] for post in collection]


@settings(deadline=None, max_examples=300)
@given(ours=COLLECTIONS, theirs=COLLECTIONS, threshold=THRESHOLDS)
def test_duplicates_are_those_of_a_comparison_of_all_pairs(ours, theirs, threshold):
    found = duplicates_of(texts_of(ours), texts_of(theirs), threshold=threshold)
    assert found.tolist() == [reason(post, theirs, threshold) for post in ours]


@settings(deadline=None, max_examples=200)
@given(collection=COLLECTIONS, threshold=THRESHOLDS)
def test_groups_are_the_connected_components(collection, threshold):
    groups = duplicate_groups(texts_of(collection), threshold=threshold)
    numbers = list(range(len(collection)))
    for i, one in enumerate(collection):
        for j, other in enumerate(collection):
            if reason(one, [other], threshold):
                numbers = [numbers[i] if number == numbers[j] else number for number in numbers]
    appeared = {number: position for position, number in enumerate(dict.fromkeys(numbers))}
    assert groups.tolist() == [appeared[number] for number in numbers]


def test_collections_of_several_blocks(monkeypatch):
    """Texts that were made from each other, so that many lie near the threshold."""
    monkeypatch.setattr(_duplicates, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(40)])
    base = [vocabulary[rng.integers(40, size=rng.integers(2, 25))].tolist() for _ in range(60)]
    variants = []
    for words in base * 5:
        words = list(words)
        for _ in range(rng.integers(0, 4)):
            words.insert(rng.choice([0, len(words)]), str(rng.choice(vocabulary)))
        variants.append(words)
    ours = [(" ".join(words), tuple(words), False, False) for words in variants]
    theirs = [(" ".join(words), tuple(words), False, False) for words in base]
    for threshold in (0.5, 0.8):
        found = duplicates_of(texts_of(ours), texts_of(theirs), threshold=threshold)
        assert found.tolist() == [reason(post, theirs, threshold) for post in ours]
        assert min(Counter(found.tolist()).values()) > 10
    groups = duplicate_groups(texts_of(theirs + ours))
    monkeypatch.setattr(_duplicates, "_BLOCK", 1000)
    assert groups.tolist() == duplicate_groups(texts_of(theirs + ours)).tolist()


# -- what counts as the same ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Home with the flu, day two", "exact"),
        ("  HOME with the flu -- day two!! \U0001f912", "exact"),
        ("@friend home with the #flu day two https://example.com/a?b=c", "exact"),
        ("home with the flu www.example.com day two", "exact"),
        ("\uff28ome with the flu\u00a0day two", "exact"),
        ("home with the flu &amp; day two", "exact"),
        ("RT @a: Home with the flu, day two", "retweet"),
        ('"RT @a: RT @b_c Home with the flu, day two"', "retweet"),
        ("rt@a home with the flu, day two", "retweet"),
        ("RT @a: Home with the flu, d\u2026", ""),  # four words before the cut
        ("rt if you are home with the flu day two", ""),
        ("home with the flu day 2", ""),
        ("@friend https://example.com", ""),
    ],
)
def test_what_is_the_same(text, expected):
    assert duplicates_of([text], ["home with the flu, day two"]).tolist() == [expected]


def test_retweets_that_were_cut():
    whole = "in bed with a very bad flu since monday and nobody brings me any soup at all"
    cut = "RT @somebody: In bed with a very bad flu since Mon..."
    assert duplicates_of([cut], [whole]).tolist() == ["retweet"]
    assert duplicates_of([whole], [cut]).tolist() == ["retweet"]
    assert duplicates_of([cut.replace("...", "\u2026 ")], [whole]).tolist() == ["retweet"]
    # no retweet; not cut; another ending of the last whole word
    for text in (cut[len("RT @somebody: ") :], cut[:-3], cut.replace("since", "sin")):
        assert duplicates_of([text], [whole]).tolist() == [""]
    longer = "RT @s: In bed with a very bad flu since monday and nobo..."
    assert duplicate_groups([whole, "flu season", cut, longer]).tolist() == [0, 1, 0, 0]


# -- containers and errors --------------------------------------------------------------------
@pytest.mark.parametrize("container", [list, iter, pd.Series, np.array])
def test_containers(container):
    texts = ["home with the flu", "flu season"]
    reasons = duplicates_of(container(texts), container(["Flu season!"]))
    assert reasons.tolist() == ["", "exact"]
    assert reasons.dtype == "<U7"
    groups = duplicate_groups(container(texts))
    assert groups.tolist() == [0, 1]
    assert groups.dtype == np.int64


@pytest.mark.parametrize(
    ("texts", "reference", "options", "error", "match"),
    [
        ("flu", ["flu"], {}, TypeError, "texts must be a list or array of str, got str"),
        (["flu"], 3, {}, TypeError, "reference must be a list or array of str, got int"),
        (["flu", None], ["flu"], {}, TypeError, "texts must hold str only; row 1 .*NoneType"),
        (["flu"], ["flu"], {"threshold": 0.0}, ValueError, r"threshold must lie in \(0, 1\]"),
        (["flu"], ["flu"], {"threshold": 1.1}, ValueError, r"threshold must lie in \(0, 1\]"),
    ],
)
def test_errors(texts, reference, options, error, match):
    with pytest.raises(error, match=match):
        duplicates_of(texts, reference, **options)
    if texts != ["flu"] or options:
        with pytest.raises(error, match=match):
            duplicate_groups(texts, **options)
