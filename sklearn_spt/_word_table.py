"""Train only those rows of an encoder's word table that the documents use.

Half the weights of a small encoder are its word table, and a few thousand short documents use a
tenth of it. The other rows have no gradient, yet a plain loop fills them with zeros, measures and
clips them, and lets the optimiser go over them, in each step. `only_words` trains a table of the
words in use in place of the whole one, and puts its rows back afterwards. The result is the same:
without weight decay, a row whose gradient and moments are zero stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sklearn_spt._kernels import is_plain

# Optimisers that treat each weight on its own and leave it alone while gradient and moments are
# zero. Exact types: a subclass may do anything.
_ROW_BY_ROW = (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop)


class WordsInUse(nn.Module):
    """An embedding of which some rows, those in use, can be trained, and all can be looked up.

    Parameters
    ----------
    table : torch.nn.Embedding
        The whole table; its weights are not copied.
    words : Tensor of int64 of shape (n_words,)
        Rows in use, sorted.
    """

    rows: torch.Tensor

    def __init__(self, table: nn.Embedding, words: torch.Tensor) -> None:
        super().__init__()
        self.words = words
        self._whole = [table]  # in a list, so that its weight is no parameter of this module
        self.weight = nn.Parameter(table.weight.detach().index_select(0, words))
        rows = torch.full((table.num_embeddings,), -1, dtype=torch.int64, device=words.device)
        rows[words] = torch.arange(len(words), device=words.device)
        self.register_buffer("rows", rows, persistent=False)
        pad = None if table.padding_idx is None else int(rows[table.padding_idx])
        self.padding_row = pad if pad is not None and pad >= 0 else None

    @property
    def table(self) -> nn.Embedding:
        """The whole table, its rows in use as old as this module."""
        return self._whole[0]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up the vectors of token ids; in training mode all of them must be in use."""
        rows = self.rows[ids]
        if self.training:
            return nn.functional.embedding(rows, self.weight, self.padding_row)
        # somebody looks at other documents in between
        own = nn.functional.embedding(rows.clamp_min(0), self.weight)
        return torch.where((rows >= 0).unsqueeze(-1), own, self.table(ids))

    def settle(self) -> nn.Embedding:
        """Write the trained rows back and return the whole table."""
        with torch.no_grad():
            self.table.weight.index_copy_(0, self.words, self.weight)
        return self.table

    # A checkpoint written in the middle of training holds the whole table, as any other.
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        weight = self.table.weight.detach().clone()
        weight[self.words] = self.weight.detach()
        destination[prefix + "weight"] = weight

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        self.table._load_from_state_dict(state_dict, prefix, *args)
        with torch.no_grad():
            self.weight.copy_(self.table.weight[self.words])


@contextmanager
def only_words(
    model: Any, optimizers: list[torch.optim.Optimizer], ids: npt.NDArray[np.integer[Any]]
) -> Iterator[None]:
    """Let the optimisers train the rows of the word table that `ids` use, and no other.

    Nothing changes where that would not give the same result (weight decay, other optimisers,
    another kind of table) or inside `sklearn_spt._kernels.plain`.

    Parameters
    ----------
    model : transformers model
        Its word table is replaced inside the block.
    optimizers : list of torch.optim.Optimizer
        Those that may hold its weights; moments go over to the smaller table and back.
    ids : array of int
        All token ids that will be trained on.
    """
    table = model.get_input_embeddings()
    groups = [
        (optimizer, group)
        for optimizer in optimizers
        for group in optimizer.param_groups
        if type(table) is nn.Embedding and any(p is table.weight for p in group["params"])
    ]
    if is_plain("word_table") or len(groups) != 1 or not _same_result(table, *groups[0]):
        yield
        return
    optimizer = groups[0][0]
    seen = np.zeros(table.num_embeddings, dtype=bool)
    seen[ids] = True
    words = torch.from_numpy(seen).to(table.weight.device)
    for moment in _moments(optimizer, table.weight):
        words |= (moment != 0).any(dim=1)
    small = WordsInUse(table, words.nonzero().squeeze(1)).train(table.training)
    small.weight.requires_grad_(table.weight.requires_grad)
    _hand_over(optimizer, table.weight, small.weight, lambda m: m.index_select(0, small.words))
    model.set_input_embeddings(small)
    try:
        yield
    finally:
        whole = small.settle()
        whole.train(small.training)
        whole.weight.grad = None
        model.set_input_embeddings(whole)

        def widened(moment: torch.Tensor) -> torch.Tensor:
            # numpy leaves zeros to the operating system: memory nobody looks at costs nothing
            out = torch.from_numpy(np.zeros(whole.weight.shape, dtype=np.float32))
            out = out.to(dtype=moment.dtype, device=moment.device)
            return out.index_copy_(0, small.words, moment)

        for other in optimizers:
            _hand_over(other, small.weight, whole.weight, widened)


def _same_result(table: Any, optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    return (
        type(optimizer) in _ROW_BY_ROW
        and not group.get("weight_decay")
        and table.weight.requires_grad
        and table.max_norm is None
        and not table.scale_grad_by_freq
        and not table.sparse
    )


def _moments(optimizer: torch.optim.Optimizer, weight: torch.Tensor) -> list[torch.Tensor]:
    state = optimizer.state.get(weight, {})
    return [m for m in state.values() if torch.is_tensor(m) and m.shape == weight.shape]


def _hand_over(optimizer: torch.optim.Optimizer, old: Any, new: Any, convert: Any) -> None:
    """Put `new` in the place of `old`, its moments converted."""
    for group in optimizer.param_groups:
        group["params"] = [new if p is old else p for p in group["params"]]
    state = optimizer.state.pop(old, None)
    if state:
        optimizer.state[new] = {
            name: convert(m) if torch.is_tensor(m) and m.shape == old.shape else m
            for name, m in state.items()
        }
