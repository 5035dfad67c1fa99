"""Train only those rows of an encoder's word table that the documents use.

Half the weights of a small encoder are its word table, and a few thousand short documents use a
tenth of it. The other rows have no gradient, yet a plain loop fills them with zeros, measures and
clips them, and lets the optimiser go over them, in each step. `only_words` trains a table of the
words in use in place of the whole one, and puts its rows back afterwards. The result is the same:
without weight decay, a row whose gradient and moments are zero stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sklearn_spt.nets._kernels import is_plain

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
        rows = torch.full((table.num_embeddings,), -1, dtype=torch.int64)
        rows[words] = torch.arange(len(words))
        self.register_buffer("rows", rows, persistent=False)
        pad = None if table.padding_idx is None else int(rows[table.padding_idx])
        self.padding_row = pad if pad is not None and pad >= 0 else None
        self.give_back: Callable[[], None] | None = None

    @property
    def table(self) -> nn.Embedding:
        """The whole table, its rows in use as old as this module."""
        return self._whole[0]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up the vectors of token ids.

        In training an unknown word, from a net that replaces words, ends the shortcut: the whole
        table is put back and trained on.
        """
        rows = self.rows[ids]
        known = rows >= 0
        if known.all():
            return nn.functional.embedding(rows, self.weight, self.padding_row)
        if self.training and torch.is_grad_enabled() and self.give_back is not None:
            self.give_back()
            vectors: torch.Tensor = self.table(ids)
            return vectors
        # somebody looks at other documents in between
        own = nn.functional.embedding(rows.clamp_min(0), self.weight)
        return torch.where(known.unsqueeze(-1), own, self.table(ids))

    def widened(self, moment: torch.Tensor) -> torch.Tensor:
        """Turn a moment of the weights in use into one of the whole table."""
        # numpy leaves zeros to the operating system: memory nobody looks at costs nothing
        out = torch.from_numpy(np.zeros(self.table.weight.shape, dtype=np.float32))
        return out.to(moment.dtype).index_copy_(0, self.words, moment)

    def narrowed(self, moment: torch.Tensor) -> torch.Tensor:
        """Take the rows in use of a moment of the whole table."""
        return moment.index_select(0, self.words)

    def settle(self) -> nn.Embedding:
        """Write the trained rows back and return the whole table."""
        with torch.no_grad():
            self.table.weight.index_copy_(0, self.words, self.weight)
        return self.table

    def __getstate__(self) -> dict[str, Any]:
        # a copy stays as it is until it is trained, see `only_words`
        return {**self.__dict__, "give_back": None}

    # A checkpoint written in the middle of training holds the whole table, as any other.
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        weight = self.table.weight.detach().clone()
        destination[prefix + "weight"] = weight.index_copy_(0, self.words, self.weight.detach())

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        self.table._load_from_state_dict(state_dict, prefix, *args)
        with torch.no_grad():
            self.weight.copy_(self.table.weight[self.words])


@contextmanager
def only_words(
    model: Any, optimizers: Callable[[], list[Any]], ids: npt.NDArray[np.integer[Any]]
) -> Iterator[None]:
    """Let the optimisers train the rows of the word table that `ids` use, and no other.

    Nothing changes where that would not give the same result (weight decay, other optimisers,
    another kind of table), off the CPU, where it gains little, or inside
    `sklearn_spt.nets._kernels.plain`.

    Parameters
    ----------
    model : transformers model
        Its word table is replaced inside the block.
    optimizers : callable
        Returns those that may hold its weights; a callback may make new ones in the middle.
        Moments go over to the smaller table and back.
    ids : array of int
        All token ids that will be trained on.
    """
    left = model.get_input_embeddings()
    if isinstance(left, WordsInUse):  # a copy that was made in the middle of training
        _give_back(model, left, optimizers())
    table = model.get_input_embeddings()
    groups = [
        (optimizer, group)
        for optimizer in optimizers()
        for group in optimizer.param_groups
        if type(table) is nn.Embedding and any(p is table.weight for p in group["params"])
    ]
    if is_plain("word_table") or len(groups) != 1 or not _same_result(table, *groups[0]):
        yield
        return
    optimizer = groups[0][0]
    words = torch.zeros(table.num_embeddings, dtype=torch.bool)
    words[torch.from_numpy(np.asarray(ids, dtype=np.int64))] = True
    for moment in _moments(optimizer, table.weight):
        words |= (moment != 0).any(dim=1)
    small = WordsInUse(table, words.nonzero().squeeze(1)).train(table.training)
    _hand_over(optimizer, table.weight, small.weight, small.narrowed)
    hooks = [
        optimizer.register_state_dict_post_hook(partial(_converted, small, small.widened)),
        optimizer.register_load_state_dict_pre_hook(partial(_converted, small, small.narrowed)),
    ]
    model.set_input_embeddings(small)
    small.give_back = lambda: _give_back(model, small, optimizers())
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _give_back(model, small, optimizers())


def _give_back(model: Any, small: WordsInUse, optimizers: list[Any]) -> None:
    """Put the whole table in the place of the words in use, once."""
    if model.get_input_embeddings() is not small:
        return
    small.give_back = None
    whole = small.settle().train(small.training)
    whole.weight.requires_grad_(small.weight.requires_grad)
    whole.weight.grad = None
    model.set_input_embeddings(whole)
    for optimizer in optimizers:
        _hand_over(optimizer, small.weight, whole.weight, small.widened)


def _same_result(table: Any, optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    return (
        table.weight.device.type == "cpu"
        and type(optimizer) in _ROW_BY_ROW
        and not group.get("weight_decay")
        and table.weight.requires_grad
        and table.max_norm is None
        and not table.scale_grad_by_freq
        and not table.sparse
        # moments of another shape were never made by training this table
        and all(
            m.shape == table.weight.shape
            for m in optimizer.state.get(table.weight, {}).values()
            if torch.is_tensor(m) and m.ndim
        )
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
        optimizer.state[new] = _with(state, old.shape, convert)


def _converted(
    small: WordsInUse, convert: Any, optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]
) -> dict[str, Any]:
    """State of an optimiser with moments of the whole table, or from one that has them."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    places = [i for i, p in enumerate(params) if p is small.weight]
    if not places or places[0] not in state_dict["state"]:
        return state_dict
    shape = small.weight.shape if convert == small.widened else small.table.weight.shape
    state = {**state_dict["state"]}
    state[places[0]] = _with(state[places[0]], shape, convert)
    return {**state_dict, "state": state}


def _with(state: dict[str, Any], shape: torch.Size, convert: Any) -> dict[str, Any]:
    """Convert the moments of a shape in the state of one weight."""
    return {
        name: convert(m) if torch.is_tensor(m) and m.shape == shape else m
        for name, m in state.items()
    }
