"""The protocol: the test, validation, labelled and unlabelled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils import Bunch

from sklearn_spt.experiments._protocol import cut, draw


def words(i):
    """A text that resembles no other one."""
    return f"a{i} b{i} c{i} d{i} e{i}"


def bunch(n=200, **more):
    texts = np.array([words(i) for i in range(n)], dtype=object)
    target = np.array([int(i % 4 == 0) for i in range(n)])
    return Bunch(data=texts, target=target, target_names=["negative", "positive"], **more)


def test_the_test_part_is_stratified_and_disjoint():
    corpus = cut(bunch(), n_test=40)
    assert len(corpus.test) == 40
    assert corpus.target[corpus.test].sum() == 10
    assert len(np.intersect1d(corpus.test, corpus.rest)) == 0
    assert len(corpus.rest) == 160
    assert corpus.dropped == {}


def test_rows_that_repeat_a_test_row_are_dropped_and_counted():
    data = bunch()
    test = cut(data, n_test=40).test
    rest = np.setdiff1d(np.arange(200), test)
    data.data[rest[0]] = data.data[test[0]]
    data.data[rest[1]] = f"RT @somebody: {data.data[test[1]]}"
    corpus = cut(data, n_test=40)
    np.testing.assert_array_equal(corpus.test, test)
    assert corpus.dropped == {"exact": 1, "retweet": 1}
    assert not set(rest[:2]) & set(corpus.rest)


def test_a_validation_part_takes_the_place_of_the_test_part():
    data = bunch()
    outer, corpus = cut(data, n_test=40), cut(data, n_test=40, n_validation=30)
    scored, learned = corpus.texts[corpus.test], corpus.texts[corpus.rest]
    assert len(scored) == 30
    assert corpus.target[corpus.test].sum() == pytest.approx(30 / 4, abs=1)
    # together they are what may be learned from; no test row is among them
    assert sorted([*scored, *learned]) == sorted(outer.texts[outer.rest])


@pytest.mark.parametrize(
    ("n_test", "n_validation", "message"),
    [
        (None, None, "no released test part"),
        (200, None, "n_test=200 leaves nothing"),
        (40, 160, "n_validation=160 leaves nothing of 160 rows"),
        (40, 1, "n_validation=1 is less than 2, the number of classes"),
    ],
)
def test_the_message_names_the_part_that_does_not_fit(n_test, n_validation, message):
    with pytest.raises(ValueError, match=message):
        cut(bunch(), n_test, n_validation)


def test_rows_that_repeat_a_validation_row_are_dropped_too():
    data = bunch()
    corpus = cut(data, n_test=40, n_validation=30)
    data.data[data.data == corpus.texts[corpus.rest[0]]] = corpus.texts[corpus.test[0]]
    again = cut(data, n_test=40, n_validation=30)
    assert again.dropped == {"exact": 1}
    assert len(again.rest) == len(corpus.rest) - 1


def test_a_released_test_part_is_kept():
    mask = np.arange(200) < 50
    corpus = cut(bunch(test=mask), n_test=None)
    np.testing.assert_array_equal(corpus.test, np.arange(50))
    smaller = cut(bunch(test=mask), n_test=20)
    assert set(smaller.test) < set(range(50))
    # the other released test rows are not learned from either
    np.testing.assert_array_equal(smaller.rest, np.arange(50, 200))


def test_a_seed_draws_labelled_texts_by_class_and_hides_the_rest():
    corpus = cut(bunch(), n_test=40)
    split = draw(corpus, n_labeled=20, n_unlabeled=100, seed=3)
    assert (split.y >= 0).sum() == 20
    assert (split.y == 1).sum() == 5
    assert (split.y == -1).sum() == 100
    assert len(set(split.texts) | set(split.texts_test)) == 20 + 100 + 40
    assert split.facts["labeled_counts"] == {"negative": 15, "positive": 5}


def test_labelled_texts_do_not_depend_on_the_number_of_unlabelled_ones():
    corpus = cut(bunch(), n_test=40)
    few, all_ = (draw(corpus, n_labeled=20, n_unlabeled=n, seed=3) for n in (10, None))
    assert few.texts[:20].tolist() == all_.texts[:20].tolist()
    assert few.texts[20:].tolist() == all_.texts[20:30].tolist()
    assert len(all_.texts) == 160


def test_seeds_draw_differently_and_each_draws_the_same_again():
    corpus = cut(bunch(), n_test=40)
    checksums = [draw(corpus, 20, 50, seed).facts["sha256_rows"] for seed in (0, 1, 0)]
    assert checksums[0] == checksums[2] != checksums[1]


@pytest.mark.parametrize(("n_positive", "n_labeled"), [(1, 20), (4, 10)])
def test_a_too_rare_class_is_named(n_positive, n_labeled):
    data = bunch()
    data.target = (np.arange(200) < n_positive).astype(int)
    with pytest.raises(ValueError, match=r"rows of the class 'positive'"):
        draw(cut(data, n_test=100), n_labeled, None, seed=0)


def test_a_single_class_is_an_error():
    data = bunch()
    data.target[:] = 0
    data.target_names = ["negative"]
    with pytest.raises(ValueError, match="a single class"):
        cut(data, n_test=40)


def test_rows_without_a_label_are_unlabelled_texts_only():
    data = bunch()
    data.target[100:] = -1
    corpus = cut(data, n_test=40)
    assert (corpus.target[corpus.test] >= 0).all()
    split = draw(corpus, 20, None, seed=0)
    assert len(split.texts) == 160


@pytest.mark.parametrize(("n_labeled", "n_unlabeled"), [(1, 10), (160, None), (20, 141)])
def test_too_many_or_too_few_texts_are_an_error(n_labeled, n_unlabeled):
    corpus = cut(bunch(), n_test=40)
    with pytest.raises(ValueError, match=r"n_(un)?labeled="):
        draw(corpus, n_labeled, n_unlabeled, seed=0)
