"""A BERT that classifies a text by the encoder states at its keywords."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from skorch import NeuralNet

from sklearn_spt._typing import BoolArray
from sklearn_spt.nets._bert_classifier import BertClassifier
from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._encoder import attention_mask, mean_over_tokens
from sklearn_spt.text._encoding import encode_texts, is_text
from sklearn_spt.text._keyword_window import first_occurrence, texts_and_keywords
from sklearn_spt.text._pretrained import load_tokenizer, resolve_max_length, vocabulary_size


def keyword_marks(
    texts: Sequence[str],
    keywords: Sequence[Sequence[str]],
    pretrained: str | os.PathLike[str],
    max_length: int,
) -> BoolArray:
    """Mark the first piece of each keyword's first occurrence, in a mask (n, max_length)."""
    tokenizer = load_tokenizer(pretrained, max_length)
    marks = np.zeros((len(texts), max_length), dtype=bool)
    for row, (text, words) in enumerate(zip(texts, keywords, strict=True)):
        spans = [span for word in words if (span := first_occurrence(text, word)) is not None]
        if not spans:
            continue
        encoded = tokenizer.encode(text)
        pieces = list(zip(encoded.offsets, encoded.special_tokens_mask, strict=True))
        for start, _ in spans:
            for position, ((begin, end), special) in enumerate(pieces):
                if not special and begin <= start < end:
                    marks[row, position] = True
                    break
    return marks


def marked_ids(
    texts: Sequence[str],
    keywords: Sequence[Sequence[str]],
    pretrained: str | os.PathLike[str],
    max_length: int | str,
) -> npt.NDArray[np.int32]:
    """Token ids of texts; ids at keywords are increased by the size of the vocabulary."""
    max_length = resolve_max_length(max_length, pretrained)
    ids = encode_texts(texts, pretrained, max_length)
    marks = keyword_marks(texts, keywords, pretrained, max_length)
    return ids + np.int32(vocabulary_size(pretrained)) * marks.astype(np.int32)


class KeywordStateModule(BertModule):
    """Mean of the last states at the marked tokens (or else the first), dropout, linear layer."""

    def __init__(
        self,
        pretrained: str,
        n_classes: int,
        pooling: str,
        dropout: float,
        precision: str,
        **encoder_options: Any,
    ) -> None:
        # "mean" has no pooler, whose weights would get no gradient
        super().__init__(pretrained, n_classes, "mean", dropout, precision, **encoder_options)
        self.n_ids = vocabulary_size(pretrained)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits in fp32 for ids from `marked_ids`."""
        marked = ids >= self.n_ids
        ids = torch.where(marked, ids - self.n_ids, ids).long()
        first = torch.arange(ids.shape[1], device=ids.device) == 0
        marked = marked | (first & ~marked.any(dim=1, keepdim=True))
        mask = attention_mask(ids, self.encoder.pad_id)
        bf16 = self.encoder.precision == "bf16"
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=bf16):
            states, _ = self.encoder.states(ids, mask)
        vectors = mean_over_tokens(states.float(), marked)
        logits: torch.Tensor = self.head(self.dropout(vectors))
        return logits


class KeywordStateClassifier(BertClassifier):
    """A `BertClassifier` that takes the ids of `marked_ids`."""

    def encode(self, X: Any, *, full_width: bool = False) -> npt.NDArray[np.int32]:
        """Return marked ids unchanged; they were checked as texts."""
        return np.asarray(X, dtype=np.int32)


@dataclass(frozen=True)
class KeywordMarks:
    """A view for a `KeywordStateClassifier`: `marked_ids` of texts."""

    pretrained: str
    max_length: int | str
    keywords: Any

    def __call__(self, X: Any) -> npt.NDArray[np.int32]:
        """Mark the keywords in X, or else those of `keywords`."""
        if not is_text(X):
            raise ValueError(
                "keyword_representation='state' needs texts, but X is a "
                f"{type(X).__name__} without texts; use 'window', or pass views."
            )
        texts, keywords = texts_and_keywords(X, self.keywords)
        return marked_ids(texts, keywords, self.pretrained, self.max_length)


def keyword_state_net(net: NeuralNet) -> KeywordStateClassifier:
    """Make a net with the same parameters that classifies by the states at keywords."""
    if not isinstance(net, BertClassifier) or net.module is not BertModule:
        raise ValueError(
            "keyword_representation='state' needs a BertClassifier with its default module as "
            f"estimator, got {type(net).__name__}; use 'window', or pass views."
        )
    params = {**net.get_params(deep=False), "module": KeywordStateModule}
    return KeywordStateClassifier(**params)
