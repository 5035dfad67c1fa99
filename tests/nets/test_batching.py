"""Batches of similar length: less padding, and exactly the rows that were drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from skorch.dataset import Dataset

from sklearn_spt import BertClassifier
from sklearn_spt._random import class_balanced_draws
from sklearn_spt.nets import _batching
from sklearn_spt.nets._batching import (
    INFERENCE_TOKENS,
    INFERENCE_TOKENS_ELSEWHERE,
    WIDTH_MULTIPLE,
    WINDOW,
    TokenBatches,
    bucketed_batches,
    in_batches,
    inference_batches,
    inference_limits,
    width_multiple,
)

PAD = 0


def generator(seed=0):
    return np.random.default_rng(seed)


def lengths_of_tweets(n, seed=0):
    """Lengths like those of tweets in word pieces: about 28, skewed, from 3 to 120."""
    return np.clip(generator(seed).lognormal(3.2, 0.5, n), 3, 120).astype(np.int64)


def matrix(lengths, width):
    """Token ids; row r holds the number r + 1 at each of its tokens."""
    return np.where(
        np.arange(width) < lengths[:, None], np.arange(1, len(lengths) + 1)[:, None], PAD
    ).astype(np.int32)


SIZES = {
    "lengths": st.lists(st.integers(0, 40), max_size=70).map(lambda v: np.array(v, dtype=np.int64)),
    "batch_size": st.integers(1, 9),
}


# -- training ------------------------------------------------------------------------------------
@given(**SIZES, window=st.integers(1, 4), seed=st.integers(0, 9))
def test_batches_permute_a_window_and_do_not_overlap_in_length(lengths, batch_size, window, seed):
    batches = bucketed_batches(lengths, batch_size, generator(seed), window)
    n = len(lengths)
    rows = np.concatenate([np.empty(0, dtype=np.int64), *batches])
    np.testing.assert_array_equal(np.sort(rows), np.arange(n))
    np.testing.assert_array_equal(
        rows // (batch_size * window), np.arange(n) // (batch_size * window)
    )
    sizes = [len(batch) for batch in batches]
    assert sorted(sizes) == sorted(
        [batch_size] * (n // batch_size) + [n % batch_size] * (n % batch_size > 0)
    )
    for start in range(0, len(batches), window):
        spans = sorted(
            (int(lengths[rows].min()), int(lengths[rows].max()))
            for rows in batches[start : start + window]
            if len(rows) == batch_size
        )
        assert all(low >= high for (_, high), (low, _) in pairwise(spans))


def test_a_window_of_one_batch_keeps_the_order_as_drawn():
    lengths = lengths_of_tweets(50)
    batches = bucketed_batches(lengths, 8, generator(), window=1)
    drawn = [np.arange(start, min(start + 8, 50)) for start in range(0, 50, 8)]
    assert [sorted(rows.tolist()) for rows in batches] == [rows.tolist() for rows in drawn]


def test_the_short_batch_does_not_depend_on_length():
    # a row of it weighs more in the mean of its step, so that it must be a random row
    lengths = lengths_of_tweets(300)
    rng = generator(7)
    means = []
    for _ in range(200):
        drawn = rng.permutation(lengths)
        batches = bucketed_batches(drawn, 32, rng)
        means += [drawn[rows].mean() for rows in batches if len(rows) == 300 % 32]
    assert len(means) == 200
    deviation = lengths.std() / np.sqrt(12 * len(means))
    assert abs(np.mean(means) - lengths.mean()) < 4 * deviation


def test_the_order_of_batches_is_random_and_uniform():
    # the batch of the shortest rows is at each place equally often
    lengths = lengths_of_tweets(80, seed=3)
    rng = generator(1)
    places = []
    for _ in range(2000):
        batches = bucketed_batches(lengths, 8, rng, window=10)
        places.append(int(np.argmin([lengths[rows].max() for rows in batches])))
    assert chisquare(np.bincount(places, minlength=10)).pvalue > 0.01


def test_rows_of_equal_length_are_mixed_uniformly():
    n, batch_size, epochs = 12, 3, 2000
    rng = generator(3)
    counts, together = np.zeros((n, n // batch_size)), np.zeros((n, n))
    for _ in range(epochs):
        for place, rows in enumerate(bucketed_batches(np.full(n, 7), batch_size, rng)):
            counts[rows, place] += 1
            together[np.ix_(rows, rows)] += 1
    assert chisquare(counts, axis=1).pvalue.min() > 0.01 / n
    pairs = together[np.triu_indices(n, 1)]
    expected = epochs * (batch_size - 1) / (n - 1)
    assert pairs.mean() == pytest.approx(expected)
    # five standard deviations of a binomial count
    assert np.abs(pairs - expected).max() < 5 * np.sqrt(expected)


def test_padding_falls_to_a_few_per_cent():
    lengths = lengths_of_tweets(3200)
    shares = []
    for window in (1, WINDOW):
        batches = bucketed_batches(lengths, 32, generator(), window)
        padded = sum(len(rows) * int(lengths[rows].max()) for rows in batches)
        shares.append(1 - lengths.sum() / padded)
    assert shares[0] > 0.5
    assert shares[1] < 0.05


# -- inference -----------------------------------------------------------------------------------
@given(**SIZES, max_tokens=st.integers(0, 300))
def test_inference_batches(lengths, batch_size, max_tokens):
    batches = list(inference_batches(lengths, batch_size, max_tokens))
    rows = np.concatenate([np.empty(0, dtype=np.int64), *batches])
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(lengths)))
    assert (np.diff(lengths[rows]) <= 0).all()
    for place, batch in enumerate(batches):
        width = max(int(lengths[batch].max()), 1)
        assert len(batch) <= batch_size or len(batch) * width <= max_tokens
        if place < len(batches) - 1:
            assert len(batch) >= batch_size
            assert (len(batch) + 1) * width > max_tokens or len(batch) == batch_size


@pytest.mark.parametrize(
    ("device", "n", "length", "sizes"),
    [
        ("cuda:1", 8192 * 3, 16, [4096] * 6),
        ("mps", 2048, 8, [INFERENCE_TOKENS_ELSEWHERE // 8] * 2),
        ("cpu", 1024, 8, [INFERENCE_TOKENS["cpu"] // 8] * 8),
        ("cuda", 70, INFERENCE_TOKENS["cuda"], [32, 32, 6]),  # the batch size of training
        ("cpu:0", 3, INFERENCE_TOKENS["cpu"] + 1, [1, 1, 1]),
    ],
)
def test_tokens_limit_a_batch_and_on_a_gpu_the_batch_size_is_the_least(device, n, length, sizes):
    limits = inference_limits(32, device)
    assert [len(batch) for batch in inference_batches(np.full(n, length), *limits)] == sizes


@pytest.mark.parametrize("device", ["cpu", "cpu:0", "mps", "cuda", "cuda:1"])
def test_widths_are_rounded_up_on_cuda_alone(device):
    assert width_multiple(device) == (WIDTH_MULTIPLE if device.startswith("cuda") else 1)


def test_inference_rounds_widths_up_to_the_width_of_the_matrix(monkeypatch):
    monkeypatch.setattr(_batching, "width_multiple", lambda device: 4)
    monkeypatch.setattr(_batching, "inference_limits", lambda batch_size, device: (1, 0))
    widths = []
    ids = matrix(np.array([2, 5, 9, 4]), 9)
    in_batches(lambda x: widths.append(x.shape[1]) or x[:, :1], ids, PAD, 1, "cpu")
    assert widths == [9, 8, 4, 4]


# -- tensors -------------------------------------------------------------------------------------
def test_a_batch_is_as_wide_as_its_longest_row(monkeypatch):
    monkeypatch.setattr(_batching, "inference_limits", lambda batch_size, device: (batch_size, 0))
    lengths = np.array([2, 5, 3])
    ids = matrix(lengths, 8)
    seen = []
    firsts = in_batches(lambda x: seen.append(x) or x[:, :1], ids, PAD, 2, "cpu")
    long, short = seen
    assert long.dtype == short.dtype == torch.int64
    assert long.tolist() == [[2] * 5, [3, 3, 3, 0, 0]]
    assert short.tolist() == [[1, 1]]
    assert firsts.tolist() == [[1], [2], [3]]
    long += 1  # a copy, which does not change the matrix
    np.testing.assert_array_equal(ids, matrix(lengths, 8))


def test_a_padding_id_inside_a_row_is_not_trimmed():
    ids = np.array([[1, 0, 4, 0, 0], [1, 2, 0, 0, 0]], dtype=np.int32)
    (x, _), *more = TokenBatches(Dataset(ids, np.zeros(2)), 2)
    assert more == []
    assert sorted(x.tolist()) == [[1, 0, 4], [1, 2, 0]]


def token_batches(n=70, batch_size=8, **params):
    lengths = np.maximum(lengths_of_tweets(n) // 4, 1)
    y = np.column_stack([np.arange(n), np.arange(n) / 7]).astype(np.float32)
    return TokenBatches(Dataset(matrix(lengths, 32), y), batch_size, pad_id=PAD, **params), lengths


def test_token_batches_hold_each_row_with_its_target():
    batches, lengths = token_batches()
    seen = []
    for x, y in batches:
        assert len(x) == len(y) <= 8
        assert x.shape[1] == lengths[y[:, 0].long()].max()
        np.testing.assert_array_equal(x[:, 0], y[:, 0] + 1)
        np.testing.assert_allclose(y[:, 1], y[:, 0] / 7)
        seen += y[:, 0].tolist()
    assert sorted(seen) == list(range(70))


@pytest.mark.parametrize(("n", "expected"), [(70, 9), (64, 8)])
def test_number_of_batches(n, expected):
    assert len(token_batches(n)[0]) == len(list(token_batches(n)[0])) == expected


def test_targets_are_zero_if_there_are_none():
    batches = TokenBatches(Dataset(matrix(np.array([2, 1, 3]), 4)), 2)
    batches.y = None
    assert sorted(y.tolist() for _, y in batches) == [[0], [0, 0]]


def test_the_seed_of_torch_decides_about_the_order():
    batches, _ = token_batches()

    def order(seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return [y[:, 0].tolist() for _, y in batches]

    assert order(1) == order(1)
    assert order(1) != order(2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second = ([y[:, 0].tolist() for _, y in batches] for _ in range(2))
    assert first != second  # each epoch has another order


@pytest.mark.parametrize("window", [1, 3, WINDOW])
def test_an_epoch_holds_exactly_the_rows_that_were_drawn(window):
    rng = generator(4)
    codes = (rng.random(300) < 0.15).astype(np.int64)
    lengths = lengths_of_tweets(300) + 30 * codes  # one class writes longer texts
    drawn = class_balanced_draws(codes, rng)
    ids = matrix(lengths, 150)[drawn]
    batches = TokenBatches(Dataset(ids, codes[drawn]), 32, pad_id=PAD, window=window)
    rows, labels = (
        np.concatenate(parts) for parts in zip(*((x[:, 0] - 1, y) for x, y in batches), strict=True)
    )
    np.testing.assert_array_equal(np.sort(rows), np.sort(drawn))
    np.testing.assert_array_equal(labels, codes[rows])
    assert abs(labels.mean() - 0.5) < 0.1


# -- evaluation by skorch's own loop ---------------------------------------------------------------
def test_rows_of_forward_iter_keep_their_order(tiny_encoder):
    """The loop of skorch returns results in the order of the rows, and no number is drawn."""
    texts = ["a rather long text about the flu " * (1 + i % 3) for i in range(7)]
    net = BertClassifier(tiny_encoder, classes=[0, 1], batch_size=3, max_length=60, device="cpu")
    net.initialize()
    ids = net.encode(texts)
    state = torch.get_rng_state()
    found = torch.cat(list(net.forward_iter(ids)))
    torch.testing.assert_close(found, net.forward(ids), rtol=0, atol=1e-5)
    assert torch.equal(torch.get_rng_state(), state)
