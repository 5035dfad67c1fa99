"""Batches without padding: the tokens of all rows lie one after another.

Most of an encoder works on each token separately (products with weights, layer norm, GELU, dropout,
sums), and then skips all padding. Only attention mixes tokens; it gets padded rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Model types that number positions from 0, and those that number them from the padding id + 1.
_FROM_ZERO = ("bert", "electra")
_FROM_PADDING = ("camembert", "roberta", "xlm-roberta")
#: torch modules that treat each token separately; those of transformers depend on the model type.
_TOKEN_BY_TOKEN = (
    *(nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.Identity),
    *(nn.GELU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.ModuleList, nn.Sequential),
)


class Packing:
    """Positions of the tokens of a batch in padded rows, and in one packed row."""

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask  # (n, width), True at tokens
        flat = mask.flatten()
        # places in the flattened rows, and the number of the token at each place, 0 at padding
        self.tokens = flat.nonzero().squeeze(1)
        self.padding = (~flat).nonzero().squeeze(1)
        self.places = torch.zeros(len(flat), dtype=torch.int64)
        self.places[self.tokens] = torch.arange(len(self.tokens))
        self._by_head: dict[int, HeadPacking] = {}

    def packed(self, x: torch.Tensor) -> torch.Tensor:
        """Take the tokens of padded rows of shape (n, width, ...): (n_tokens, ...)."""
        return x.flatten(0, 1).index_select(0, self.tokens)

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        """Put tokens of shape (n_tokens, ...) into rows of shape (n, width, ...); padding is 0."""
        filled = _Padded.apply(x, self.places, self.tokens, self.padding)
        return filled.view(*self.mask.shape, *x.shape[1:])

    def by_head(self, heads: int) -> HeadPacking:
        """Return the same for tokens whose vectors are split among `heads` heads."""
        if heads not in self._by_head:
            self._by_head[heads] = HeadPacking(self, heads)
        return self._by_head[heads]


class HeadPacking:
    """Positions of tokens that are split among heads, in the padded rows of each head."""

    def __init__(self, packing: Packing, heads: int) -> None:
        n, width = packing.mask.shape
        self.shape = (n, heads, width)
        head = torch.arange(heads)
        # (n, heads, width): place of the part of a token for a head among (n_tokens, heads)
        rows = packing.places.view(n, 1, width) * heads + head.view(1, heads, 1)
        self.rows = rows.flatten()
        self.parts = self._places(packing.tokens, head)
        self.padding = self._places(packing.padding, head)

    def _places(self, places: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        """Return the places of (place, head) among (n, heads, width)."""
        _, heads, width = self.shape
        row, column = places // width, places % width
        return ((row[:, None] * heads + head) * width + column[:, None]).flatten()

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rows of each head, (n * heads, width, d), of x (1, heads, n_tokens, d)."""
        n, heads, width = self.shape
        parts = x.transpose(1, 2).reshape(-1, x.shape[-1])
        rows: torch.Tensor = _Padded.apply(parts, self.rows, self.parts, self.padding)
        return rows.view(n * heads, width, -1)

    def packed(self, x: torch.Tensor) -> torch.Tensor:
        """Return the tokens, (1, n_tokens, heads, d), of the rows of each head."""
        d = x.shape[-1]
        parts: torch.Tensor = _Packed.apply(x.reshape(-1, d), self.rows, self.parts, self.padding)
        return parts.view(1, -1, self.shape[1], d)


class _Rearranged(torch.autograd.Function):
    """Base of `_Padded` and `_Packed`, each of which is the backward pass of the other."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])


class _Padded(_Rearranged):
    """Put rows at their places and zeros elsewhere, without a sum over places."""

    @staticmethod
    def forward(x: Any, there: Any, back: Any, padding: Any) -> torch.Tensor:
        out: torch.Tensor = x.index_select(0, there).index_fill_(0, padding, 0)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _Packed.apply(grads[0], *ctx.saved_tensors), None, None, None


class _Packed(_Rearranged):
    """Take rows from their places, the inverse of `_Padded`."""

    @staticmethod
    def forward(x: Any, there: Any, back: Any, padding: Any) -> torch.Tensor:
        out: torch.Tensor = x.index_select(0, back)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _Padded.apply(grads[0], *ctx.saved_tensors), None, None, None


def may_be_packed(model: Any) -> bool:
    """Whether a model is known to mix tokens only in its attention; custom parts may do more."""
    config = model.config
    return (
        config.model_type in (*_FROM_ZERO, *_FROM_PADDING)
        and not getattr(config, "is_decoder", False)
        # with chunks, the number of tokens would have to be a multiple
        and getattr(config, "chunk_size_feed_forward", 0) <= 1
        and all(map(is_transparent, model.modules()))
    )


def is_transparent(module: nn.Module) -> bool:
    """Whether a module is a known one, without hooks or a replaced ``forward``."""
    library = type(module).__module__.partition(".")[0]
    known = library in ("sklearn_spt", "transformers") or type(module) in _TOKEN_BY_TOKEN
    hooks = (
        *(module._forward_hooks, module._forward_pre_hooks),
        *(module._backward_hooks, module._backward_pre_hooks),
    )
    return known and not any(hooks) and "forward" not in vars(module)


def positions(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return the positions of token ids of shape (n, width) as the model numbers them."""
    if model.config.model_type in _FROM_ZERO:
        return torch.arange(ids.shape[1]).expand_as(ids)
    pad_id = model.config.pad_token_id
    no_padding = (ids != pad_id).long()
    return no_padding.cumsum(dim=1) * no_padding + pad_id
