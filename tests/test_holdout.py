"""Splits of the labelled rows for validation, and their scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from sklearn_spt._holdout import validation_score, validation_split


def rng(seed=0):
    return np.random.default_rng(seed)


# -- the split ---------------------------------------------------------------------------------
@given(counts=st.lists(st.integers(5, 40), min_size=2, max_size=4), seed=st.integers(0, 99))
def test_a_stratified_split_keeps_proportions(counts, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    _, valid, stratified = validation_split(codes, 0.2, rng(seed))
    assert stratified
    held = np.bincount(codes[valid], minlength=len(counts))
    assert (np.abs(held - 0.2 * np.array(counts)) <= 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("codes", "fraction", "n_train", "n_valid", "stratified"),
    [
        (np.repeat([0, 1], [200, 100]), 0.2, 240, 60, True),
        (np.repeat([0, 1], 50), 0.07, 93, 7, True),  # 0.07 * 100 is 7.000000000000001
        (np.repeat([1, 4], 10), 0.2, 16, 4, True),  # a class may be absent
        (np.array([0, 0, 1, 1]), 0.2, 3, 1, False),  # one row cannot hold two classes
        (np.array([0] * 9 + [1]), 0.2, 8, 2, False),  # a class of one row
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_sizes_of_a_split(codes, fraction, n_train, n_valid, stratified, seed):
    train, valid, by_class = validation_split(codes, fraction, rng(seed))
    assert (len(train), len(valid), by_class) == (n_train, n_valid, stratified)
    assert set(codes[train]) == set(codes)
    if stratified:
        share = np.bincount(codes) / len(codes)
        np.testing.assert_allclose(np.bincount(codes[valid]) / n_valid, share, atol=1 / n_valid)


def test_a_split_is_a_function_of_the_generator():
    codes = np.repeat([0, 1], 20)
    same = [validation_split(codes, 0.2, rng(3))[1] for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert not np.array_equal(same[0], validation_split(codes, 0.2, rng(4))[1])


@given(
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=6),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 999),
)
def test_every_class_of_two_rows_is_held_out_where_there_is_room(counts, fraction, seed):
    codes = rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    split = validation_split(codes, fraction, rng(seed))
    if split is None:
        assert max(counts) == 1
        return
    train, valid, stratified = split
    np.testing.assert_array_equal(np.sort(np.r_[train, valid]), np.arange(len(codes)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(valid) > 0).all()
    assert set(codes[train]) == set(range(len(counts)))
    assert 1 <= len(valid) <= math.ceil(fraction * len(codes))
    held = set(codes[valid])
    paired = {code for code, count in enumerate(counts) if count >= 2}
    assert held <= paired  # a single row stays in training
    if len(valid) >= len(paired):
        assert held == paired
    else:  # the rarest of them have the room there is
        assert len(held) == len(valid)
        assert max(counts[c] for c in held) <= min(counts[c] for c in paired - held)
    if stratified:
        assert held == set(range(len(counts)))


@given(n=st.integers(20, 300), seed=st.integers(0, 999))
def test_one_of_two_positives_is_held_out_and_the_other_learned_from(n, seed):
    codes = rng(seed).permutation(np.repeat([0, 1], [n - 2, 2]))
    train, valid, stratified = validation_split(codes, 0.2, rng(seed))
    assert codes[train].sum() == codes[valid].sum() == 1
    assert len(valid) == math.ceil(n / 5)
    assert not stratified  # a fifth of two rows is none: the caller warns
    assert len(np.intersect1d(train, valid)) == 0


def test_one_row_per_class_cannot_be_split():
    assert validation_split(np.array([0, 1, 2]), 0.2, rng()) is None


# -- the score ---------------------------------------------------------------------------------
@given(seed=st.integers(0, 999), positive=st.integers(0, 1))
def test_two_classes_have_the_f1_of_the_positive_one(seed, positive):
    y, predicted = rng(seed).integers(0, 2, (2, 30))
    hits = ((y == positive) & (predicted == positive)).sum()
    total = (y == positive).sum() + (predicted == positive).sum()
    expected = 2 * hits / total if total else 0.0
    assert validation_score(y, predicted, 2, positive) == pytest.approx(expected)


def test_more_classes_have_macro_f1():
    y, predicted = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    assert validation_score(y, predicted, 3, 2) == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert validation_score(y, predicted, 3, 0) == validation_score(y, predicted, 3, 2)


def test_nothing_found_scores_zero_without_a_warning():
    assert validation_score(np.array([1, 0]), np.array([0, 0]), 2, 1) == 0.0
    assert validation_score(np.array([0, 0]), np.array([0, 0]), 2, 1) == 0.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_row_of_weight_two_is_two_rows_and_of_weight_zero_none(n_classes):
    y, predicted = rng(1).integers(0, n_classes, (2, 12))
    weights = rng(2).integers(0, 3, 12)
    repeated = np.repeat(np.arange(12), weights)
    assert validation_score(y, predicted, n_classes, 1, weights.astype(float)) == pytest.approx(
        validation_score(y[repeated], predicted[repeated], n_classes, 1)
    )
    assert f1_score(y == 1, predicted == 1) != f1_score(y[repeated] == 1, predicted[repeated] == 1)
