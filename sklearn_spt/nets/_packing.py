"""Rows of unlike length without padding: their tokens lie one after another.

All that an encoder computes token by token (products with weights, layer norm, GELU, dropout, sums)
then has no padding to go over; attention alone looks from token to token, and gets its rows padded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# By how the family numbers positions: from 0, or from behind the padding id, which has its own.
_FROM_ZERO = ("bert", "electra")
_FROM_PADDING = ("camembert", "roberta", "xlm-roberta")
#: torch's modules that treat each token on its own; those of transformers are known by the family.
_TOKEN_BY_TOKEN = (
    *(nn.Linear, nn.Embedding, nn.LayerNorm, nn.Dropout, nn.Identity),
    *(nn.GELU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.ModuleList, nn.Sequential),
)


class Packing:
    """Where each token of a batch lies, in padded rows and one after another.

    Parameters
    ----------
    mask : bool Tensor of shape (n, width)
        True at tokens, False at padding. Each row has a token.

    Attributes
    ----------
    tokens : Tensor of int64 of shape (n_tokens,)
        Places of the tokens in the flattened rows, ascending.
    padding : Tensor of int64 of shape (n * width - n_tokens,)
        The other places.
    places : Tensor of int64 of shape (n * width,)
        Number of the token at each place; at padding the first token stands in.
    """

    def __init__(self, mask: torch.Tensor) -> None:
        self.mask = mask
        flat = mask.flatten()
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
        """Return the same for vectors of each token that are divided among `heads` heads."""
        if heads not in self._by_head:
            self._by_head[heads] = HeadPacking(self, heads)
        return self._by_head[heads]


class HeadPacking:
    """Tokens divided among heads, and the padded rows of each head that attention takes.

    Parameters
    ----------
    packing : Packing
        The batch.
    heads : int
        Number of heads.
    """

    def __init__(self, packing: Packing, heads: int) -> None:
        n, width = packing.mask.shape
        self.shape = (n, heads, width)
        head = torch.arange(heads)
        # (n, heads, width): where the part of a token for a head lies among (n_tokens, heads)
        rows = packing.places.view(n, 1, width) * heads + head.view(1, heads, 1)
        self.rows = rows.flatten()
        self.parts = self._places(packing.tokens, head)
        self.padding = self._places(packing.padding, head)

    def _places(self, places: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
        """Places of (place, head) among (n, heads, width)."""
        _, heads, width = self.shape
        row, column = places // width, places % width
        return ((row[:, None] * heads + head) * width + column[:, None]).flatten()

    def padded(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of each head, (n * heads, width, d), of x of shape (1, heads, n_tokens, d)."""
        n, heads, width = self.shape
        parts = x.transpose(1, 2).reshape(-1, x.shape[-1])
        rows: torch.Tensor = _Padded.apply(parts, self.rows, self.parts, self.padding)
        return rows.view(n * heads, width, -1)

    def packed(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens, (1, n_tokens, heads, d), of rows of each head of shape (n * heads, width, d)."""
        d = x.shape[-1]
        parts: torch.Tensor = _Packed.apply(x.reshape(-1, d), self.rows, self.parts, self.padding)
        return parts.view(1, -1, self.shape[1], d)


class _Rearranged(torch.autograd.Function):
    """Rows at other places: how to get there and back is the same for both ways."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])


class _Padded(_Rearranged):
    """Put rows at their places and zeros elsewhere; each place is known, so nothing is added up."""

    @staticmethod
    def forward(x: Any, there: Any, back: Any, padding: Any) -> torch.Tensor:
        out: torch.Tensor = x.index_select(0, there).index_fill_(0, padding, 0)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _Packed.apply(grads[0], *ctx.saved_tensors), None, None, None


class _Packed(_Rearranged):
    """Take rows from their places, the other way of `_Padded`."""

    @staticmethod
    def forward(x: Any, there: Any, back: Any, padding: Any) -> torch.Tensor:
        out: torch.Tensor = x.index_select(0, back)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return _Padded.apply(grads[0], *ctx.saved_tensors), None, None, None


def may_be_packed(model: Any) -> bool:
    """Whether a model looks from token to token by its attention alone, as far as is known.

    That holds for the encoders of some families, as transformers makes them. A decoder also looks
    at the order of tokens; parts of the user's own, and hooks, may look at anything.
    """
    config = model.config
    return (
        config.model_type in (*_FROM_ZERO, *_FROM_PADDING)
        and not getattr(config, "is_decoder", False)
        # chunks of tokens: their number would have to be a multiple
        and getattr(config, "chunk_size_feed_forward", 0) <= 1
        and all(map(_is_transparent, model.modules()))
    )


def _is_transparent(module: nn.Module) -> bool:
    """Whether a module is a known one, without hooks or a ``forward`` of its own."""
    library = type(module).__module__.partition(".")[0]
    known = library in ("sklearn_spt", "transformers") or type(module) in _TOKEN_BY_TOKEN
    hooks = (
        *(module._forward_hooks, module._forward_pre_hooks),
        *(module._backward_hooks, module._backward_pre_hooks),
    )
    return known and not any(hooks) and "forward" not in vars(module)


def positions(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Positions of token ids of shape (n, width) as a model of a known family numbers them."""
    if model.config.model_type in _FROM_ZERO:
        return torch.arange(ids.shape[1]).expand_as(ids)
    pad_id = model.config.pad_token_id
    no_padding = (ids != pad_id).long()
    return no_padding.cumsum(dim=1) * no_padding + pad_id
