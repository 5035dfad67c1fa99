"""Batches of token ids: trimmed to their longest row, with rows of similar length together.

A plain training loop spends most of its time on padding, because short texts are padded to a fixed
width. Here the rows of an epoch are drawn first (class-balanced or shuffled). Then rows of similar
length are put together inside a window of some tens of batches, and the batches of a window are
shuffled. So an epoch holds exactly the rows that were drawn, and is still well mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sklearn_spt._typing import AnyArray, IntArray
from sklearn_spt._validation import check_integer
from sklearn_spt.nets._device import is_asynchronous
from sklearn_spt.nets._kernels import is_plain
from sklearn_spt.text._encoding import sequence_lengths

#: Batches in a window, inside which rows are sorted by length. 50 batches of 32 rows leave about
#: 4% padding on tweets, and an epoch over a few thousand texts still has several windows.
WINDOW = 50

#: Tokens in a batch of inference, padding included. On a CPU the activations of a layer should fit
#: into the cache: 8192 tokens take 1.5 times as long as 1024 (examples/benchmarks/what_pays.py). A
#: CUDA device has room for many more, and is idle with fewer; not measured yet.
INFERENCE_TOKENS = {"cpu": 1024, "cuda": 65_536}
INFERENCE_TOKENS_ELSEWHERE = 8192
#: On a CUDA device widths of batches are multiples of this: its kernels read aligned rows, and
#: fewer shapes come up, each of which is planned or recorded once.
WIDTH_MULTIPLE = 16


def bucketed_batches(
    lengths: IntArray, batch_size: int, rng: np.random.Generator, window: int = WINDOW
) -> list[IntArray]:
    """Cut rows 0..n-1, which are already in random order, into batches of similar length.

    Rows are exchanged only inside a window of `window` batches. The last batch may be shorter.
    """
    n = len(lengths)
    full = n - n % batch_size
    batches: list[IntArray] = []
    for start in range(0, n, batch_size * window):
        rows = np.arange(start, min(start + batch_size * window, full))
        rows = rows[np.lexsort((rng.random(len(rows)), lengths[rows]))]
        cut = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
        if full < n <= start + batch_size * window:
            # Each row of the short batch weighs more in the mean of its step. It takes the rows
            # drawn last, as a plain loop does, and not always the longest ones.
            cut.append(np.arange(full, n))
        batches += [cut[i] for i in rng.permutation(len(cut))]
    return batches


def inference_limits(batch_size: int, device: str) -> tuple[int, int]:
    """Return the least number of rows and the greatest number of tokens in a batch of inference.

    On a GPU the least number is the batch size of training, which is known to fit into memory.
    """
    tokens = INFERENCE_TOKENS.get(torch.device(device).type, INFERENCE_TOKENS_ELSEWHERE)
    return (batch_size if is_asynchronous(device) else 1), tokens


def width_multiple(device: str) -> int:
    """Return the number of which widths of batches should be multiples on a device."""
    return WIDTH_MULTIPLE if torch.device(device).type == "cuda" else 1


def _width(longest: int, multiple: int) -> int:
    return -(-longest // multiple) * multiple


def inference_batches(lengths: IntArray, least: int, max_tokens: int) -> Iterator[IntArray]:
    """Cut rows into batches for inference, longest rows first, so that a lack of memory shows soon.

    A batch holds at least `least` rows, and more while rows times width stay within `max_tokens`.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        size = max(least, max_tokens // width)
        yield order[start : start + size]
        start += size


def in_batches(
    compute: Callable[[torch.Tensor], torch.Tensor],
    ids: npt.NDArray[np.int32],
    pad_id: int,
    batch_size: int,
    device: str,
    advance: Callable[[int], object] | None = None,
) -> torch.Tensor:
    """Apply `compute` to batches of similar length and return the results in the order of `ids`.

    `ids` has at least one row. `advance` is called with the number of rows of each finished batch.
    """
    lengths = sequence_lengths(ids, pad_id)
    multiple = width_multiple(device)
    batches = list(inference_batches(lengths, *inference_limits(batch_size, device)))
    out = torch.empty(0)
    start = 0
    for rows, batch in zip(batches, _on_device(ids, batches, device), strict=True):
        found = compute(batch[:, : _width(int(lengths[rows].max()), multiple)].long())
        if start == 0:
            out = found.new_empty((len(ids), *found.shape[1:]))
        out[start : start + len(rows)] = found
        start += len(rows)
        if advance is not None:
            advance(len(rows))
    order = np.concatenate(batches)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return out[torch.from_numpy(back).to(out.device)]


def _on_device(values: AnyArray, batches: list[IntArray], device: str) -> Iterator[torch.Tensor]:
    """Yield the rows of each batch on the device.

    A GPU gets all rows in one copy, in the order of the batches, and each batch is a slice of it.
    """
    if is_asynchronous(device) and not is_plain("resident") and batches:
        held = torch.from_numpy(values[np.concatenate(batches)]).to(device)
        yield from held.split([len(rows) for rows in batches])
    else:
        for rows in batches:
            yield torch.from_numpy(values[rows]).to(device)


class TokenBatches:
    """Training iterator over a matrix of token ids, used in place of torch's DataLoader.

    Rows of similar length are put together inside a window of `window` batches; 1 keeps the order
    as drawn. The width of a batch is a multiple of `width_multiple`, or the width of the matrix:
    fewer shapes help code that is compiled or recorded for each shape. With `in_order` rows keep
    the order of the data set, for callers that align results with the rows. A GPU gets an epoch in
    one copy, so that no step waits for a copy.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 32,
        *,
        pad_id: int = 0,
        window: int = WINDOW,
        width_multiple: int = 1,
        in_order: bool = False,
        device: str = "cpu",
    ) -> None:
        check_integer(window, "iterator_train__window", low=1)
        check_integer(width_multiple, "iterator_train__width_multiple", low=1)

        self.ids = np.asarray(dataset.X)
        self.y = dataset.y
        self.batch_size = batch_size
        self.window = window
        self.width_multiple = width_multiple
        self.in_order = in_order
        self.device = device
        self.lengths = sequence_lengths(self.ids, pad_id)

    def __len__(self) -> int:
        return -(-len(self.ids) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        n, size = len(self.ids), self.batch_size
        if self.in_order:
            batches = [np.arange(start, min(start + size, n)) for start in range(0, n, size)]
        else:
            # A fit seeds torch's generator, and restores it afterwards.
            rng = np.random.default_rng(int(torch.randint(2**31 - 1, (1,))))
            batches = bucketed_batches(self.lengths, size, rng, self.window)
        y = np.zeros(n, dtype=np.float32) if self.y is None else self.y
        parts = (_on_device(values, batches, self.device) for values in (self.ids, y))
        for rows, x, target in zip(batches, *parts, strict=True):
            width = _width(int(self.lengths[rows].max()), self.width_multiple)
            yield x[:, :width].long(), target
