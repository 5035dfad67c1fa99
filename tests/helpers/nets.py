"""Small nets that several test modules share."""

from __future__ import annotations

import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn
from transformers import AutoConfig

from sklearn_spt import BertClassifier
from sklearn_spt.nets._bert_module import BertModule


class MLP(nn.Module):
    """Two linear layers; returns logits."""

    def __init__(self, n_in: int = 2, n_classes: int = 2, n_hidden: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(n_in, n_hidden)
        self.last = nn.Linear(n_hidden, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x.float())))


class SoftmaxMLP(MLP):
    """Returns probabilities, which no method here accepts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(super().forward(x), dim=1)


class NaNMLP(MLP):
    """Returns NaN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * float("nan")


class TwoInputs(MLP):
    """Takes two parts of a mapping."""

    def forward(self, left, right):
        return super().forward(torch.cat([left, right], dim=1))


def mlp_net(module=MLP, **params):
    """A skorch net over a small MLP, with skorch's default of verbose=1."""
    settings = {"lr": 0.1, "batch_size": 8, "optimizer": torch.optim.SGD, **params}
    return NeuralNetClassifier(module, **settings)


def tiny_config(family, **sizes):
    """Configuration of a tiny encoder of a model type of transformers."""
    tiny = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    tiny |= {"num_hidden_layers": 1, "max_position_embeddings": 20, "pad_token_id": 0}
    return AutoConfig.for_model(family, **tiny | sizes)


class PaddedMLP(nn.Module):
    """Takes rows of any width up to 32, because a net is built before it sees the data."""

    def __init__(self, n_classes: int = 2, width: int = 32, double: bool = False) -> None:
        super().__init__()
        self.width = width
        self.first = nn.Linear(width, 32)
        self.last = nn.Linear(32, n_classes)
        if double:
            self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.first.weight.dtype).flatten(1)
        x = nn.functional.pad(x, (0, self.width - x.shape[1]))
        return self.last(torch.relu(self.first(x)))


class FollowingNet(NeuralNetClassifier):
    """Has as many outputs as there are classes."""

    def initialize_module(self):
        params = self.get_params_for("module")
        params["n_classes"] = len(self.classes_)
        self.module_ = self.initialized_instance(self.module, params)
        return self


def bert_net(checkpoint, **params):
    """A `BertClassifier` that learns the tiny texts in a second."""
    settings = {"max_length": 24, "lr": 1e-2, "batch_size": 4, "random_state": 0, **params}
    return BertClassifier(checkpoint, **settings)


def set_dropout(module, p=0.0):
    """Set the probability of all dropout layers of a module, and return the module."""
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = p
    return module


def interacting(module):
    """Enlarge the weights of an encoder, so that tokens interact as in a trained one."""
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim == 2:
                weight *= 10
    return module


class WithoutDropout(BertModule):
    """The default module without dropout."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        set_dropout(self)


class Fails(Callback):
    """Raises an error at the end of a batch after some epochs."""

    def __init__(self, after=0):
        self.after = after

    def on_batch_end(self, net, **kwargs):
        if len(net.history) > self.after:
            raise RuntimeError("stop")


class Rates(Callback):
    """Collects the learning rates of every parameter group at every training step."""

    def initialize(self):
        self.seen_ = []
        return self

    def on_batch_end(self, net, training=False, **kwargs):
        if training:
            self.seen_.append([group["lr"] for group in net.optimizer_.param_groups])


def weights_of(net):
    """Copies of the weights of a net, on the CPU."""
    return [weight.detach().cpu().clone() for weight in net.module_.parameters()]


def of_many_lengths(texts, y, n=96):
    """Repeat texts one to four times; return `n` of these texts and their labels."""
    many = [" ".join([texts[i % len(texts)]] * (1 + i % 4)) for i in range(n)]
    return many, [y[i % len(texts)] for i in range(n)]
