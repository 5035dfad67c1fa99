"""Weights cast at once must give the digits of autocast."""

from __future__ import annotations

import pytest
import torch
from helpers.nets import interacting

from sklearn_spt.nets import _casts as casts
from sklearn_spt.nets._casts import with_half_weights
from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.nets._kernels import plain

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 30, 31, 3, 0]])


@pytest.fixture
def model(tiny_encoder):
    return interacting(Encoder(tiny_encoder, pooling="cls").model.eval())


def passes(model):
    """Output and gradients of the weights."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = with_half_weights(model, {"input_ids": IDS, "attention_mask": (IDS != 0).long()})
    out.pooler_output.float().square().sum().backward()
    return out.pooler_output.detach(), {n: w.grad for n, w in model.named_parameters()}


def test_outputs_and_gradients_are_those_of_autocast(model, monkeypatch):
    with plain("casts"):
        expected, wanted = passes(model)
    cast = []
    original = casts._copies
    monkeypatch.setattr(
        casts, "_copies", lambda x, dtype: cast.append(len(x)) or original(x, dtype)
    )
    found, gradients = passes(model)
    assert cast == [26, 26]  # weights and biases of two layers and the pooler, and their gradients
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        assert gradient.dtype is torch.float32
        torch.testing.assert_close(gradient, wanted[name], rtol=0, atol=0)


def test_frozen_and_unused_weights_get_no_gradient(model, monkeypatch):
    cast = []
    original = casts._copies
    monkeypatch.setattr(
        casts, "_copies", lambda x, dtype: cast.append(len(x)) or original(x, dtype)
    )
    model.zero_grad()
    model.encoder.layer[0].intermediate.dense.weight.requires_grad_(False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        row = {"input_ids": IDS, "attention_mask": (IDS != 0).long()}
        with_half_weights(model, row).last_hidden_state.float().sum().backward()
    assert model.encoder.layer[0].intermediate.dense.weight.grad is None
    assert model.encoder.layer[0].intermediate.dense.bias.grad is not None
    assert model.pooler.dense.weight.grad is None
    assert cast == [26, 23]  # the gradient of the frozen weight is not even computed
