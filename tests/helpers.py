"""Small encoders, nets and data that the tests share."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
)

#: Each classifier over a net, with settings that are quick on `points`.
METHODS = {
    "self_pretraining": partial(SelfPretrainingClassifier, step_size=0.5),
    "self_training": partial(ThrottledSelfTrainingClassifier, threshold=0.55, max_iter=2),
    "tri_training": partial(TriTrainingClassifier, threshold=0.55, max_iter=2),
    "mutual_learning": MutualLearningClassifier,
    "spaced_repetition": partial(
        SpacedRepetitionClassifier, n_queues=3, episode_epochs=2, max_iter=1, threshold=0.55
    ),
    "co_decomposition": partial(
        CoDecompositionClassifier, views=(None, np.negative), threshold=0.55, max_iter=2
    ),
}

TINY_VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("[", "]", "sep", "pad", ".", ",", "!", "?", "@", "#", ":", "##s", "##ed", "##ing"),
    *("i", "you", "he", "she", "we", "they", "my", "your", "the", "a", "this", "that", "it"),
    *("got", "get", "had", "took", "want", "skip", "refuse", "need", "is", "was", "are", "not"),
    *("flu", "shot", "vaccine", "arm", "doctor", "nurse", "clinic", "fever", "cold", "needle"),
    *("today", "yesterday", "never", "again", "now", "later", "at", "in", "for", "and", "but"),
    *("good", "bad", "sore", "happy", "sad", "sick", "fine", "no", "yes", "work", "home", "www"),
]


def build_encoder(folder, seed=0, positions=64, layers=2, dropout=0.0, pooling=None, width=16):
    """Save a tiny BERT; its weights are numpy's, so that no release of torch changes them."""
    from transformers import BertConfig, BertModel, BertTokenizerFast
    from transformers.utils import logging

    vocabulary = {word: number for number, word in enumerate(TINY_VOCABULARY)}
    # not vocab_file=, which silently gives a tokenizer without words
    tokenizer = BertTokenizerFast(vocab=vocabulary, model_max_length=positions)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        model = BertModel(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.copy_(torch.from_numpy(rng.normal(0, 0.2, weight.shape)))
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    logging.enable_progress_bar()
    tokenizer.save_pretrained(folder)
    if pooling is not None:
        (Path(folder) / "1_Pooling").mkdir()
        settings = {f"pooling_mode_{pooling}_tokens": True, "pooling_mode_cls_token": False}
        (Path(folder) / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    return str(folder)


class MLP(nn.Module):
    """Two linear layers; returns logits."""

    def __init__(self, n_in=2, n_classes=2, n_hidden=16):
        super().__init__()
        self.first = nn.Linear(n_in, n_hidden)
        self.last = nn.Linear(n_hidden, n_classes)

    def forward(self, x):
        return self.last(torch.relu(self.first(x.float())))


class DropMLP(MLP):
    def forward(self, x):
        hidden = torch.relu(self.first(x.float()))
        return self.last(nn.functional.dropout(hidden, 0.5, self.training))


class Net(NeuralNetClassifier):
    """Has as many outputs as there are classes."""

    def initialize_module(self):
        params = {**self.get_params_for("module"), "n_classes": len(self.classes_)}
        self.module_ = self.initialized_instance(self.module, params)
        return self


def mlp_net(module=MLP, **params):
    """A skorch net over a small MLP, with skorch's default of verbose=1."""
    settings = {"lr": 0.1, "batch_size": 8, "optimizer": torch.optim.SGD, **params}
    return Net(module, **settings)


def learner(net=None, **params):
    """Self-Pretraining on `points` in two iterations."""
    settings = {"step_size": 0.5, "random_state": 0, **params}
    return SelfPretrainingClassifier(net or mlp_net(), **settings)


def bert_net(encoder, **params):
    """A `BertClassifier` that learns the tiny texts in a second, in fp32 without dropout."""
    settings = {"max_length": 24, "lr": 1e-2, "batch_size": 4, "random_state": 0}
    settings |= {"dropout": 0.0, "precision": "fp32", "device": "cpu"}
    return BertClassifier(encoder, **settings | params)


def points(n_classes=2, n=90, share_unlabeled=0.7):
    """Points of overlapping classes, their labels with -1, and all true labels."""
    rng = np.random.default_rng(n_classes)
    codes = np.arange(n) % n_classes
    X = rng.normal(size=(n, 2)) + 1.5 * np.eye(4)[codes][:, :2] + codes[:, None] / 2
    y = codes.copy()
    y[rng.permutation(np.arange(2 * n_classes, n))[: int(n * share_unlabeled)]] = -1
    return X.astype(np.float32), y, codes


class PaddedMLP(nn.Module):
    """Takes rows of any width up to 32, because a net is built before it sees the data."""

    def __init__(self, n_classes=2, width=32, double=False):
        super().__init__()
        self.width = width
        self.first, self.last = nn.Linear(width, 32), nn.Linear(32, n_classes)
        if double:
            self.double()

    def forward(self, x):
        x = x.to(self.first.weight.dtype).flatten(1)
        x = nn.functional.pad(x, (0, self.width - x.shape[1]))
        return self.last(torch.relu(self.first(x)))
