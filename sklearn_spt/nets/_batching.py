"""Batches of token ids: trimmed to their longest row, with rows of like length together.

Padding is the greatest waste of a plain training loop: short posts padded to a fixed width spend
most of the arithmetic on nothing. What a method draws (class-balanced or shuffled) is drawn
first; only then are rows of like length put together inside a window of some tens of batches, and
the batches of a window are put in random order. So the multiset of rows of an epoch is exactly
the one that was drawn, and an epoch is still well mixed.
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

#: Batches in a window: rows are sorted by length inside it. 50 batches of 32 rows leave about
#: 4% padding on tweets, and an epoch over a few thousand texts still has several windows.
WINDOW = 50

#: Tokens in a batch of inference, padding included. On a CPU what a layer computes has to stay in
#: the cache: batches of 8192 tokens take 1.5 times as long as those of 1024 (what_pays.py).
INFERENCE_TOKENS = 8192
INFERENCE_TOKENS_CPU = 1024


def bucketed_batches(
    lengths: IntArray, batch_size: int, rng: np.random.Generator, window: int = WINDOW
) -> list[IntArray]:
    """Cut rows 0..n-1, which are already in random order, into batches of like length.

    Parameters
    ----------
    lengths : ndarray of shape (n,)
        Number of tokens of each row, in the order in which the rows were drawn.
    batch_size : int
        Rows in a batch; the last batch of all may be shorter, none is dropped.
    rng : numpy.random.Generator
        Breaks ties between equal lengths and orders the batches.
    window : int
        Number of batches inside which rows may be exchanged.

    Returns
    -------
    list of ndarray
        Row numbers of each batch; together a permutation of 0..n-1.
    """
    n = len(lengths)
    full = n - n % batch_size
    batches: list[IntArray] = []
    for start in range(0, n, batch_size * window):
        rows = np.arange(start, min(start + batch_size * window, full))
        rows = rows[np.lexsort((rng.random(len(rows)), lengths[rows]))]
        cut = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
        if full < n <= start + batch_size * window:
            # Each row of the short batch weighs more in the mean of its step: it takes the rows
            # drawn last, as a plain loop does, and not always the longest ones.
            cut.append(np.arange(full, n))
        batches += [cut[i] for i in rng.permutation(len(cut))]
    return batches


def inference_limits(batch_size: int, device: str) -> tuple[int, int]:
    """Rows that a batch of inference holds at least, and tokens that it holds at most, on a device.

    On a GPU that is the batch size of training, which is known to fit, on a CPU a single row.
    """
    if is_asynchronous(device):
        return batch_size, INFERENCE_TOKENS
    return 1, INFERENCE_TOKENS_CPU


def inference_batches(lengths: IntArray, least: int, max_tokens: int) -> Iterator[IntArray]:
    """Cut rows into batches for inference, longest rows first.

    The longest batch comes first, so that a lack of memory shows at once. A batch holds at
    least `least` rows, and more while rows times width stay within `max_tokens`.
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
    lengths: IntArray,
    limits: tuple[int, int],
    device: str,
    advance: Callable[[int], object] | None = None,
) -> torch.Tensor | None:
    """Apply a function to batches of like length and put its results in the order of `ids`.

    Parameters
    ----------
    compute : callable
        Takes token ids of shape (n_batch, width) on the device, returns n_batch rows there.
    ids : ndarray of int32 of shape (n, width)
        Token ids.
    lengths : ndarray of shape (n,)
        Their numbers of tokens.
    limits : tuple of int
        See `inference_limits`.
    device : str
        A GPU gets all token ids at once, and is not waited for after each batch.
    advance : callable or None, default=None
        Told the number of rows of each batch that is done.

    Returns
    -------
    Tensor with n rows, or None
        On the device of the results; None if there are no rows.
    """
    batches = list(inference_batches(lengths, *limits))
    if not batches:
        return None
    widths = [int(lengths[rows].max()) for rows in batches]
    out: torch.Tensor | None = None
    start = 0
    for rows, batch in zip(batches, _laid_out(ids, batches, device, widths), strict=True):
        found = compute(batch.long())
        if out is None:
            out = found.new_empty((len(ids), *found.shape[1:]))
        out[start : start + len(rows)] = found
        start += len(rows)
        if advance is not None:
            advance(len(rows))
    assert out is not None
    order = np.concatenate(batches)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return out[torch.from_numpy(back).to(out.device)]


def _laid_out(
    values: AnyArray,
    batches: list[IntArray],
    device: str,
    widths: list[int] | None = None,
) -> Iterator[torch.Tensor]:
    """Rows of each batch, cut to its width, on the device.

    A GPU gets all rows at once, in the order of the batches, which are slices of them.
    """
    columns: list[Any] = (
        [()] * len(batches) if widths is None else [(slice(width),) for width in widths]
    )
    resident = is_asynchronous(device) and not is_plain("resident") and batches
    held = torch.from_numpy(values[np.concatenate(batches)]).to(device) if resident else None
    start = 0
    for rows, cut in zip(batches, columns, strict=True):
        if held is None:
            yield torch.from_numpy(values[(rows, *cut)]).to(device)
        else:
            yield held[(slice(start, start + len(rows)), *cut)]
        start += len(rows)


class TokenBatches:
    """Training iterator over a matrix of token ids, in the place of torch's DataLoader.

    Parameters
    ----------
    dataset : skorch.dataset.Dataset
        ``X`` int32 ids of shape (n, width), padded at the right; ``y`` targets with n rows.
    batch_size : int
        Rows in a batch.
    pad_id : int
        What pads a row.
    window : int, default=WINDOW
        Batches inside which rows of like length are put together; 1 leaves the order as drawn.
    width_multiple : int, default=1
        Batches are so wide that this divides their width, or as wide as the matrix: fewer shapes,
        for what is compiled or captured for each of them.
    in_order : bool, default=False
        Whether rows keep the order of the data set, for a caller that puts results beside it.
    device : str, default="cpu"
        On any other device an epoch is laid out there at once, in the order of its batches, which
        are slices of it: no step has to wait for a copy.
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
        from sklearn_spt.text._encoding import sequence_lengths

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
        if self.in_order:
            n = len(self.ids)
            ends = range(self.batch_size, n + self.batch_size, self.batch_size)
            batches = [np.arange(end - self.batch_size, min(end, n)) for end in ends]
        else:
            # torch's generator is the one that a fit seeds, and leaves as it was
            seed = int(torch.randint(2**31 - 1, (1,)))
            rng = np.random.default_rng(seed)
            batches = bucketed_batches(self.lengths, self.batch_size, rng, self.window)
        widths = [self._width(rows) for rows in batches]
        y = np.zeros(len(self.ids), dtype=np.float32) if self.y is None else self.y
        ids = _laid_out(self.ids, batches, self.device, widths)
        for x, target in zip(ids, _laid_out(y, batches, self.device), strict=True):
            yield x.long(), target

    def _width(self, rows: IntArray) -> int:
        longest = int(self.lengths[rows].max())
        return min(-(-longest // self.width_multiple) * self.width_multiple, self.ids.shape[1])
