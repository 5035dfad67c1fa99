"""The module of `BertClassifier`: an encoder and a linear layer."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from sklearn_spt._validation import check_flag
from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.nets._kernels import Dropout
from sklearn_spt.text._locations import quiet

#: Standard deviation of the head's initial weights, as in BERT.
_HEAD_STD = 0.02


class BertModule(nn.Module):
    """Encoder, dropout and a linear layer: token ids (n, width) to logits (n, n_classes).

    The encoder is built on `device`. The linear layer is drawn on the CPU, with the same numbers
    for every device. With an `adapter`, a configuration of peft, only the adapter and the linear
    layer are trained, and the configuration decides on word embeddings. Without one, all weights
    are, or with ``train_word_embeddings=False`` all but those of the word embeddings.
    """

    def __init__(
        self,
        pretrained: str,
        n_classes: int,
        pooling: str = "auto",
        dropout: float = 0.1,
        precision: str = "fp32",
        device: str = "cpu",
        adapter: Any = None,
        train_word_embeddings: bool = True,
    ) -> None:
        super().__init__()
        check_flag(train_word_embeddings, "module__train_word_embeddings")
        self.encoder = Encoder(pretrained, pooling=pooling, precision=precision, device=device)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(self.encoder.size, n_classes)
        nn.init.normal_(self.head.weight, std=_HEAD_STD)
        nn.init.zeros_(self.head.bias)
        if not train_word_embeddings:
            self.encoder.model.get_input_embeddings().requires_grad_(False)
        if adapter is not None:
            self.encoder.model = _adapted(self.encoder.model, adapter)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits in fp32."""
        logits: torch.Tensor = self.head(self.dropout(self.encoder(ids)))
        return logits


def _adapted(model: nn.Module, adapter: Any) -> nn.Module:
    """Freeze the weights of a model and put an adapter of peft into its layers."""
    try:
        from peft import PeftConfig, get_peft_model
    except ImportError as error:
        raise ImportError(
            "module__adapter needs the package peft; install it with "
            "`pip install 'sklearn-spt[peft]'`."
        ) from error
    if not isinstance(adapter, PeftConfig) or adapter.is_prompt_learning:
        raise TypeError(
            "module__adapter must be a configuration of peft that adapts layers, such as "
            f"LoraConfig(), got {type(adapter).__name__}."
        )
    config = copy.deepcopy(adapter)  # peft fills it in
    config.task_type = None  # the head is not peft's
    config.inference_mode = False  # True where the configuration of a finished adapter is read
    config.base_model_name_or_path = None
    with quiet():
        adapted: nn.Module = get_peft_model(model, config)
    return adapted
