"""Batches of token ids: trimmed to their longest row, with rows of similar length together.

A plain loop spends most of its time on padding. Here the rows of an epoch are drawn first. Then
rows of similar length are put together inside a window of some tens of batches, and the batches of
a window are shuffled. So an epoch holds exactly the rows that were drawn, and is still well mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from sklearn_spt._data import Ids, sequence_lengths

#: Batches in a window. With 32 rows each they leave about 4% padding on tweets.
WINDOW = 50
#: Tokens in a batch of inference, padding included. On a CPU the activations of a layer should fit
#: into the cache; a GPU is idle with few.
INFERENCE_TOKENS = {"cpu": 1024, "cuda": 65_536}


def width_multiple(device: str) -> int:
    """Return the number of which widths of batches are multiples on a device."""
    return 16 if torch.device(device).type == "cuda" else 4


class TokenBatches:
    """Iterator over a matrix of token ids for skorch, used in place of torch's DataLoader.

    Widths of batches are multiples of `multiple`, so that few shapes come up: a CPU compiles and
    keeps a kernel in bf16 for each, a GPU reads aligned rows faster. With `in_order`
    rows keep the order of the data set, for callers that align results with the rows.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 32,
        *,
        pad_id: int = 0,
        multiple: int = 1,
        in_order: bool = False,
    ) -> None:
        self.ids, self.y = np.asarray(dataset.X), dataset.y
        self.batch_size, self.multiple, self.in_order = batch_size, multiple, in_order
        self.lengths = sequence_lengths(self.ids, pad_id)

    def __len__(self) -> int:
        return -(-len(self.ids) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        n, size = len(self.ids), self.batch_size
        if self.in_order:
            batches = [np.arange(start, min(start + size, n)) for start in range(0, n, size)]
        else:
            # the rows are already in random order
            rng = np.random.default_rng(int(torch.randint(2**31 - 1, (1,))))
            batches, full = [], n - n % size
            for start in range(0, n, size * WINDOW):
                rows = np.arange(start, min(start + size * WINDOW, full))
                rows = rows[np.lexsort((rng.random(len(rows)), self.lengths[rows]))]
                cut = [rows[i : i + size] for i in range(0, len(rows), size)]
                if full < n <= start + size * WINDOW:
                    # Each row of the short batch weighs more in the mean of its step. It takes the
                    # rows drawn last, as a plain loop does, and not always the longest ones.
                    cut.append(np.arange(full, n))
                batches += [cut[i] for i in rng.permutation(len(cut))]
        y = np.zeros(n, dtype=np.float32) if self.y is None else self.y
        for rows in batches:
            width = -(-self.lengths[rows].max() // self.multiple) * self.multiple  # rounded up
            yield torch.from_numpy(self.ids[rows, :width]).long(), torch.from_numpy(y[rows])


def in_batches(
    compute: Callable[[torch.Tensor], torch.Tensor],
    ids: Ids,
    pad_id: int,
    device: str,
    bar: tqdm[Any] | None = None,
) -> torch.Tensor:
    """Apply `compute` to batches of similar length; return the results in the order of `ids`.

    The longest rows come first, so that a lack of memory shows soon.
    """
    lengths = sequence_lengths(ids, pad_id)
    order = np.argsort(-lengths, kind="stable")
    tokens = INFERENCE_TOKENS.get(torch.device(device).type, 8192)
    multiple = width_multiple(device)
    out, start = torch.empty(0), 0
    while start < len(order):
        width = -(-int(lengths[order[start]]) // multiple) * multiple
        rows = order[start : start + max(tokens // max(width, 1), 1)]
        found = compute(torch.from_numpy(ids[rows, :width]).long().to(device))
        if start == 0:
            out = found.new_empty((len(ids), *found.shape[1:]))
        out[torch.from_numpy(rows).to(device)] = found
        start += len(rows)
        if bar is not None:
            bar.update(len(rows))
    return out


def delete_tokens(ids: Ids, pad_id: int, share: float, rng: np.random.Generator) -> Ids:
    """Delete each token with probability `share`, but for the first and the last of a row.

    The others keep their order, and each row is padded to the old width.
    """
    columns = np.arange(ids.shape[1])
    deleted = (columns > 0) & (columns < sequence_lengths(ids, pad_id)[:, None] - 1)
    # numbers for these tokens only, so that the width of the matrix changes nothing
    deleted[deleted] = rng.random(np.count_nonzero(deleted)) < share
    out = np.full_like(ids, pad_id)
    out[columns < (~deleted).sum(axis=1, keepdims=True)] = ids[~deleted]
    return out
