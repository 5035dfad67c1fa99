"""Train only those rows of the word embeddings that the documents use.

Half the weights of a small encoder are its word embeddings, and a few thousand short documents use
a tenth of them. The gradient of the other rows is zero. Yet each step would fill it with zeros,
clip it and apply it. Without weight decay such a row stays as it is, so that the result is the
same, bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sklearn_spt.nets._kernels import is_plain
from sklearn_spt.nets._packing import may_be_packed

#: Vectorised sums depend on the place of a number in its vector register, of 16 numbers at most.
_LANES = 16


class WordsInUse(nn.Module):
    """Stand in for an embedding during its training, with a weight for the rows in use alone.

    In evaluation all words are known, since `write` keeps the embedding up to date.
    """

    def __init__(self, embedding: nn.Embedding, words: torch.Tensor) -> None:
        super().__init__()
        self.words = words
        self._whole = [embedding]  # in a list, so that its weight is not a parameter of this module
        self.weight = nn.Parameter(embedding.weight.detach()[words])
        self.rows = torch.full((embedding.num_embeddings,), -1)
        self.rows[words] = torch.arange(len(words))
        pad = embedding.padding_idx
        self.padding_row = None if pad is None else int(self.rows[pad])

    @property
    def whole(self) -> nn.Embedding:
        """The embedding itself."""
        return self._whole[0]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the vectors of token ids."""
        if not self.training:
            vectors: torch.Tensor = self.whole(ids)
            return vectors
        return nn.functional.embedding(self.rows[ids], self.weight, self.padding_row)

    def write(self, *_: Any) -> None:
        """Copy the trained rows to the embedding."""
        with torch.no_grad():
            self.whole.weight.index_copy_(0, self.words, self.weight)

    def widened(self, moment: torch.Tensor) -> torch.Tensor:
        """Turn a moment of the rows in use into one of the whole embedding."""
        whole = torch.zeros_like(self.whole.weight, requires_grad=False)
        return whole.index_copy_(0, self.words, moment)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.whole._save_to_state_dict(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _itself, (self.whole,)  # a copy or pickle has the embedding


def _itself(embedding: nn.Embedding) -> nn.Embedding:
    return embedding


def with_whole_embeddings(module: nn.Module, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return copies of an optimiser's groups that hold the embeddings as a copy of `module` has."""
    whole = {id(m.weight): m.whole.weight for m in module.modules() if isinstance(m, WordsInUse)}
    return [
        {**group, "params": [whole.get(id(weight), weight) for weight in group["params"]]}
        for group in groups
    ]


@contextmanager
def words_in_use(
    model: Any, optimizer: torch.optim.Optimizer, ids: npt.NDArray[np.int32]
) -> Iterator[None]:
    """Train the rows of the word embeddings that `ids` hold, if the result is the same."""
    found = None if is_plain("words") else _place(model, optimizer)
    if found is None:
        yield
        return
    params, place = found
    embedding: nn.Embedding = model.get_input_embeddings()
    pad = [] if embedding.padding_idx is None else [embedding.padding_idx]
    words = torch.from_numpy(np.union1d(ids, pad)).long()
    small = WordsInUse(embedding, words).train(embedding.training)
    hook = optimizer.register_step_post_hook(small.write)
    try:
        params[place] = small.weight
        model.set_input_embeddings(small)
        yield
    finally:
        hook.remove()
        small.write()
        params[place] = embedding.weight
        model.set_input_embeddings(embedding.train(small.training))
        if state := optimizer.state.pop(small.weight, None):
            shape = small.weight.shape
            optimizer.state[embedding.weight] = {
                name: small.widened(value) if value.shape == shape else value
                for name, value in state.items()
            }


def _place(model: Any, optimizer: Any) -> tuple[list[Any], int] | None:
    """Return the group's parameters and the embeddings' place in them; None if all are trained."""
    if type(optimizer) is not torch.optim.AdamW or not may_be_packed(model):
        return None
    embedding = model.get_input_embeddings()
    weight = embedding.weight
    seen = (
        *(weight._backward_hooks, weight._post_accumulate_grad_hooks),
        *(optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks),
    )
    if (
        type(embedding) is not nn.Embedding
        or embedding.max_norm is not None
        or embedding.scale_grad_by_freq
        or embedding.sparse
        or embedding.embedding_dim % _LANES
        or not weight.requires_grad
        or weight in optimizer.state
        or any(seen)
    ):
        return None
    for group in optimizer.param_groups:
        for i, given in enumerate(group["params"]):
            if given is weight:
                return None if group["weight_decay"] else (group["params"], i)
    return None
