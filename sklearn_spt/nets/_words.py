"""Train only those rows of the word embeddings that the documents use.

Half the weights of a small encoder are its word embeddings, and a few thousand short documents use
a tenth of them. The gradient of the other rows is zero. Yet each step would fill it with zeros,
clip it and apply it. Without weight decay such a row stays as it is, so that the result is the
same.
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

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the vectors of token ids."""
        if not self.training:
            vectors: torch.Tensor = self._whole[0](ids)
            return vectors
        return nn.functional.embedding(self.rows[ids], self.weight, self.padding_row)

    def write(self, *_: Any) -> None:
        """Copy the trained rows to the embedding."""
        with torch.no_grad():
            self._whole[0].weight.index_copy_(0, self.words, self.weight)

    def widened(self, moment: torch.Tensor) -> torch.Tensor:
        """Turn a moment of the rows in use into one of the whole embedding."""
        whole = torch.zeros_like(self._whole[0].weight, requires_grad=False)
        return whole.index_copy_(0, self.words, moment)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._whole[0]._save_to_state_dict(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _itself, (self._whole[0],)  # a copy or pickle has the embedding


def _itself(embedding: nn.Embedding) -> nn.Embedding:
    return embedding


@contextmanager
def words_in_use(
    model: Any, optimizer: torch.optim.Optimizer, ids: npt.NDArray[np.int32]
) -> Iterator[None]:
    """Train the rows of the word embeddings that `ids` hold, if the result is the same."""
    embedding = model.get_input_embeddings()
    places = [
        (group["params"], i)
        for group in optimizer.param_groups
        for i, weight in enumerate(group["params"])
        if weight is embedding.weight and not group.get("weight_decay")
    ]
    if (
        is_plain("words")
        or type(optimizer) is not torch.optim.AdamW
        or len(places) != 1
        or type(embedding) is not nn.Embedding
        or embedding.weight in optimizer.state
        or embedding.max_norm is not None
        or embedding.scale_grad_by_freq
        or not embedding.weight.requires_grad
    ):
        yield
        return
    pad = [] if embedding.padding_idx is None else [embedding.padding_idx]
    words = torch.from_numpy(np.union1d(ids, pad)).long()
    small = WordsInUse(embedding, words).train(embedding.training)
    params, i = places[0]
    hook = optimizer.register_step_post_hook(small.write)
    params[i] = small.weight
    model.set_input_embeddings(small)
    try:
        yield
    finally:
        hook.remove()
        params[i] = embedding.weight
        embedding.train(small.training)
        model.set_input_embeddings(embedding)
        if state := optimizer.state.pop(small.weight, None):
            shape = small.weight.shape
            optimizer.state[embedding.weight] = {
                name: small.widened(value) if value.shape == shape else value
                for name, value in state.items()
            }
