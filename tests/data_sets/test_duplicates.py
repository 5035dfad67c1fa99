"""Tests of duplicates_of and duplicate_groups, against comparisons of all pairs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers.optional import pd
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_spt.datasets import (
    duplicate_groups,
    duplicates_of,
    fetch_illness,
    fetch_phm_tuning,
)
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

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


@settings(deadline=None, max_examples=50)
@given(collection=COLLECTIONS, threshold=THRESHOLDS)
def test_what_is_connected_to_a_reference_is_in_its_group(collection, threshold):
    half = len(collection) // 2
    texts, reference = texts_of(collection)[half:], texts_of(collection)[:half]
    groups = duplicate_groups(reference + texts, threshold=threshold)
    there = set(groups[:half].tolist())
    reasons = duplicates_of(texts, reference, threshold=threshold)
    assert all(
        group in there for group, why in zip(groups[half:].tolist(), reasons, strict=True) if why
    )


# Random long texts hardly ever lie near the threshold: made from each other, they do.
def test_large_collections_of_variants():
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
        ("", ""),
        ("@friend https://example.com", ""),
    ],
)
def test_what_is_the_same(text, expected):
    assert duplicates_of([text], ["home with the flu, day two"]).tolist() == [expected]


def test_entities_are_resolved():
    assert duplicates_of(["tea &lt;3 &amp; bed"], ["tea <3 & bed"]).tolist() == ["exact"]


def test_near_duplicates_and_the_threshold():
    ten = "one two three four five six seven eight nine ten"  # eight shingles
    texts = [ten + " eleven twelve", ten + " eleven twelve thirteen", ten.replace("five", "5")]
    assert duplicates_of(texts, [ten]).tolist() == ["near", "", ""]  # 8/10, 8/11, 5/11
    assert duplicates_of(texts, [ten], threshold=5 / 11).tolist() == ["near", "near", "near"]
    assert duplicates_of(texts, [ten], threshold=1.0).tolist() == ["", "", ""]
    assert duplicates_of(["flu bad"], ["bad flu"], threshold=1.0).tolist() == ["near"]
    # the same shingles, and not the same words
    assert duplicates_of(["a a a a"], ["a a a"], threshold=1.0).tolist() == ["near"]


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


def test_a_letter_for_letter_copy_is_exact_whatever_it_is():
    texts = ["RT @a: home with the flu", "@a @b", "", "RT @a: \U0001f912"]
    assert duplicates_of(texts, texts).tolist() == ["exact"] * 4
    assert duplicates_of(["RT @b: home with the flu"], texts).tolist() == ["retweet"]
    # without a word there is nothing to compare
    assert duplicates_of(["@c @b", " ", "RT @b: \U0001f912"], texts).tolist() == [""] * 3
    assert duplicate_groups(["@a", "", "@a", " ", ""]).tolist() == [0, 1, 0, 2, 1]


def test_groups_are_chains():
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    texts = [" ".join(words[start : start + 7]) for start in (0, 1, 2, 3)]
    # each has four of six shingles in common with the next one, and three of seven with the next
    assert duplicate_groups(texts, threshold=2 / 3).tolist() == [0, 0, 0, 0]
    assert duplicate_groups(texts, threshold=0.7).tolist() == [0, 1, 2, 3]
    assert duplicates_of(texts[:1], texts[2:], threshold=2 / 3).tolist() == [""]


def test_groups_keep_duplicates_on_one_side_of_a_split():
    texts = [f"post number {i // 3} says this" for i in range(60)]
    y = np.arange(60) // 3 % 2
    groups = duplicate_groups(texts)
    assert groups.tolist() == (np.arange(60) // 3).tolist()
    splitter = SemiSupervisedStratifiedKFold(n_splits=4)
    for train, test in splitter.split(texts, y, groups=groups):
        found = duplicates_of(np.array(texts)[train], np.array(texts)[test])
        assert set(found.tolist()) == {""}


# -- containers and errors --------------------------------------------------------------------
@pytest.mark.parametrize(
    "container",
    [list, tuple, iter, pd.Series, lambda x: np.array(x), lambda x: np.array(x, dtype=object)],
)
def test_containers(container):
    texts = ["home with the flu", "flu season"]
    reasons = duplicates_of(container(texts), container(["Flu season!"]))
    assert reasons.tolist() == ["", "exact"]
    assert reasons.dtype == "<U7"
    assert (reasons == "").tolist() == [True, False]
    groups = duplicate_groups(container(texts))
    assert groups.tolist() == [0, 1]
    assert groups.dtype == np.int64


def test_nothing_to_compare():
    assert duplicates_of([], ["flu"]).tolist() == []
    assert duplicates_of(["flu"], []).tolist() == [""]
    assert duplicate_groups([]).tolist() == []
    assert duplicate_groups([]).dtype == np.int64


@pytest.mark.parametrize(
    ("texts", "reference", "options", "error", "match"),
    [
        ("flu", ["flu"], {}, TypeError, "texts must be a list or array of str, got str"),
        (["flu"], "flu", {}, TypeError, "reference must be a list or array of str, got str"),
        (3, ["flu"], {}, TypeError, "texts must be a list or array of str, got int"),
        (["flu", None], ["flu"], {}, TypeError, "texts must hold str only; row 1 .*NoneType"),
        (["flu"], [np.nan], {}, TypeError, "reference must hold str only; row 0 .*float"),
        (["flu"], ["flu"], {"threshold": 0.0}, ValueError, r"threshold must lie in \(0, 1\]"),
        (["flu"], ["flu"], {"threshold": 1.1}, ValueError, r"threshold must lie in \(0, 1\]"),
        (["flu"], ["flu"], {"threshold": "high"}, TypeError, "threshold must be a number"),
    ],
)
def test_errors(texts, reference, options, error, match):
    with pytest.raises(error, match=match):
        duplicates_of(texts, reference, **options)


def test_errors_of_groups():
    with pytest.raises(TypeError, match="texts must hold str only; row 1"):
        duplicate_groups(["flu", 3])
    with pytest.raises(ValueError, match="threshold"):
        duplicate_groups(["flu"], threshold=2)


# -- real data --------------------------------------------------------------------------------
def has(*parts):
    return Path(os.environ.get("SKLEARN_SPT_DATA", "-"), *parts).is_file()


@pytest.mark.skipif(
    not (has("illness", "data.txt") and has("phm_tuning", "tuning.dataset")),
    reason="the Illness and tuning files are not here: SKLEARN_SPT_DATA names no such folder",
)
def test_real_tweets():
    texts = fetch_illness(download_if_missing=False).data
    found = duplicates_of(texts[2000:], texts[:2000])
    assert Counter(found.tolist()) == {"": 20531, "exact": 87, "near": 42}
    texts = fetch_phm_tuning(download_if_missing=False).data
    groups = duplicate_groups(texts)
    assert groups.max() + 1 == 7687
    # nothing of one group repeats anything of the others
    order = np.random.default_rng(0).permutation(7687)
    here = np.isin(groups, order[:1500])
    assert set(duplicates_of(texts[~here], texts[here]).tolist()) == {""}
