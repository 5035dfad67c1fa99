"""The protocol: the test, validation, labelled and unlabelled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import Bunch

from sklearn_spt.experiments._split_protocol import cut, draw


@pytest.fixture
def data():
    """200 texts of which none resembles another; a quarter is positive."""
    texts = np.array([f"a{i} b{i} c{i} d{i} e{i}" for i in range(200)], dtype=object)
    target = (np.arange(200) % 4 == 0).astype(int)
    return Bunch(data=texts, target=target, target_names=["negative", "positive"])


def test_the_test_part_is_stratified_and_disjoint(data):
    corpus = cut(data, n_test=40)
    assert len(corpus.test) == 40
    assert corpus.target[corpus.test].sum() == 10
    assert sorted([*corpus.test, *corpus.rest]) == list(range(200))
    assert corpus.dropped == {}


def test_rows_that_repeat_a_test_row_are_dropped_and_counted(data):
    test = cut(data, n_test=40).test
    rest = np.setdiff1d(np.arange(200), test)
    data.data[rest[0]] = data.data[test[0]]
    data.data[rest[1]] = f"RT @somebody: {data.data[test[1]]}"
    corpus = cut(data, n_test=40)
    np.testing.assert_array_equal(corpus.test, test)
    assert corpus.dropped == {"exact": 1, "retweet": 1}
    assert not set(rest[:2]) & set(corpus.rest)


def test_a_validation_part_takes_the_place_of_the_test_part(data):
    outer, corpus = cut(data, n_test=40), cut(data, n_test=40, n_validation=30)
    scored, learned = corpus.texts[corpus.test], corpus.texts[corpus.rest]
    assert len(scored) == 30
    assert corpus.target[corpus.test].sum() == pytest.approx(30 / 4, abs=1)
    # together they are what may be learned from; no test row is among them
    assert sorted([*scored, *learned]) == sorted(outer.texts[outer.rest])
    # rows that repeat a validation row are dropped too
    data.data[data.data == learned[0]] = scored[0]
    again = cut(data, n_test=40, n_validation=30)
    assert again.dropped == {"exact": 1}
    assert len(again.rest) == len(learned) - 1


def test_a_released_test_part_is_kept(data):
    data.test = np.arange(200) < 50
    np.testing.assert_array_equal(cut(data, n_test=None).test, np.arange(50))
    smaller = cut(data, n_test=20)
    assert set(smaller.test) < set(range(50))
    # the other released test rows are not learned from either
    np.testing.assert_array_equal(smaller.rest, np.arange(50, 200))


def test_a_seed_draws_labelled_texts_by_class_and_hides_the_rest(data):
    corpus = cut(data, n_test=40)
    split = draw(corpus, n_labeled=20, n_unlabeled=100, seed=3)
    assert np.unique(split.y, return_counts=True)[1].tolist() == [100, 15, 5]
    assert len(set(split.texts) | set(split.texts_test)) == 20 + 100 + 40
    assert split.facts["labeled_counts"] == {"negative": 15, "positive": 5}
    # labelled texts do not depend on the number of unlabelled ones
    every = draw(corpus, n_labeled=20, n_unlabeled=None, seed=3)
    assert every.texts[:120].tolist() == split.texts.tolist()
    assert len(every.texts) == 160
    checksums = [draw(corpus, 20, 50, seed).facts["sha256_rows"] for seed in (0, 1, 0)]
    assert checksums[0] == checksums[2] != checksums[1]


def test_rows_without_a_label_are_unlabelled_texts_only(data):
    data.target[100:] = -1
    corpus = cut(data, n_test=40)
    assert (corpus.target[corpus.test] >= 0).all()
    assert len(draw(corpus, 20, None, seed=0).texts) == 160


@pytest.mark.parametrize(
    ("n_test", "n_validation", "message"),
    [
        (None, None, "no released test part"),
        (200, None, "n_test=200 leaves nothing"),
        (40, 160, "n_validation=160 leaves nothing of 160 rows"),
        (40, 1, "n_validation=1 is less than 2, the number of classes"),
    ],
)
def test_a_part_that_does_not_fit_is_named(data, n_test, n_validation, message):
    with pytest.raises(ValueError, match=message):
        cut(data, n_test, n_validation)


@pytest.mark.parametrize(("n_labeled", "n_unlabeled"), [(1, 10), (160, None), (20, 141)])
def test_too_many_or_too_few_texts_are_an_error(data, n_labeled, n_unlabeled):
    with pytest.raises(ValueError, match=r"n_(un)?labeled="):
        draw(cut(data, n_test=40), n_labeled, n_unlabeled, seed=0)


@pytest.mark.parametrize(("n_positive", "n_labeled"), [(1, 20), (4, 10)])
def test_a_too_rare_class_is_named(data, n_positive, n_labeled):
    data.target = (np.arange(200) < n_positive).astype(int)
    with pytest.raises(ValueError, match=r"rows of the class 'positive'"):
        draw(cut(data, n_test=100), n_labeled, None, seed=0)


def test_a_single_class_is_an_error(data):
    data.update(target=np.zeros(200, dtype=int), target_names=["negative"])
    with pytest.raises(ValueError, match="a single class"):
        cut(data, n_test=40)
