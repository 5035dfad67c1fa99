"""Batches without padding: the positions of tokens, and the same results of an encoder."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from helpers.nets import WithoutDropout, bert_net, interacting, set_dropout, tiny_config
from torch import nn
from transformers import AutoModel

from sklearn_spt.nets._encoder import Encoder, attention_mask, mean_over_tokens
from sklearn_spt.nets._kernels import packing_of, plain, replace_dropout, use_attention
from sklearn_spt.nets._packing import Packing, may_be_packed, positions

LENGTHS = (3, 1, 5, 2)
WIDTH = 5
MASK = torch.arange(WIDTH) < torch.tensor(LENGTHS)[:, None]
# a row with padding at its end, one with padding inside, a full one
IDS = torch.tensor([[2, 7, 9, 3, 0, 0], [2, 0, 9, 0, 3, 0], [2, 8, 9, 7, 8, 3]])


# -- positions of tokens -------------------------------------------------------------------------
def test_packing_and_padding_are_inverse():
    x = torch.arange(len(LENGTHS) * WIDTH).view(len(LENGTHS), WIDTH)
    expected = [int(x[i, j]) for i, n in enumerate(LENGTHS) for j in range(n)]
    packing = Packing(MASK)
    assert packing.packed(x).tolist() == expected
    back = packing.padded(packing.packed(x))
    assert torch.equal(back, torch.where(MASK, x, 0))


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_rows_of_each_head(heads):
    d, n = 2, len(LENGTHS)
    packing = Packing(MASK)
    x = torch.randn(1, sum(LENGTHS), heads, d).transpose(1, 2)  # as transformers gives it
    rows = packing.by_head(heads).padded(x)
    padded = packing.padded(x[0].transpose(0, 1))  # (n, width, heads, d)
    assert torch.equal(rows.view(n, heads, WIDTH, d), padded.transpose(1, 2))
    assert torch.equal(packing.by_head(heads).packed(rows), x.transpose(1, 2))
    assert packing.by_head(heads) is packing.by_head(heads)


def test_gradients_to_the_second_order():
    packing = Packing(MASK)
    rows = packing.by_head(2)
    double = {"dtype": torch.float64, "requires_grad": True}
    tokens = torch.randn(sum(LENGTHS), 3, **double)
    parts = torch.randn(1, 2, sum(LENGTHS), 3, **double)
    by_head = torch.randn(2 * len(LENGTHS), WIDTH, 3, **double)
    for function, x in ((packing.padded, tokens), (rows.padded, parts), (rows.packed, by_head)):
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)


# -- an encoder without padding ------------------------------------------------------------------
def encoder_of(family, checkpoint, precision="fp32", pooling="mean", pad_token_id=0):
    """An encoder of a model type with random weights and without dropout."""
    config = tiny_config(
        family,
        vocab_size=40,
        embedding_size=16,
        num_hidden_layers=2,
        type_vocab_size=2,
        pad_token_id=pad_token_id,
    )
    encoder = Encoder(checkpoint, pooling=pooling, precision=precision)
    torch.manual_seed(0)
    encoder.model = interacting(AutoModel.from_config(config))
    encoder.pad_id = pad_token_id
    if pooling == "mean":
        encoder.model.pooler = None
    replace_dropout(encoder.model)
    use_attention(encoder.model)
    return set_dropout(encoder)


@pytest.fixture
def packings(monkeypatch):
    """Collects the packing of every packed batch."""
    made = []

    def spy(mask):
        made.append(Packing(mask))
        return made[-1]

    monkeypatch.setattr("sklearn_spt.nets._kernels.Packing", spy)
    return made


FAMILIES = ("bert", "electra", "roberta", "xlm-roberta", "camembert")


@pytest.mark.parametrize("with_dropout", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("precision", "pooling", "tolerance"),
    [("fp32", "mean", 2e-5), ("fp32", "cls", 2e-5), ("bf16", "mean", 0.1)],
)
def test_vectors_and_gradients_equal_those_with_padding(
    family, precision, pooling, tolerance, with_dropout, tiny_encoder, packings
):
    encoder = encoder_of(family, tiny_encoder, precision, pooling).train()
    if with_dropout:  # so small that its masks keep everything; without it attention is fused
        set_dropout(encoder, 1e-9)
    found = []
    for mode in (nullcontext(), plain("packing")):
        encoder.zero_grad()
        with mode:
            vectors = encoder(IDS)
        assert len(packings) == 1  # only the first is packed
        vectors.square().sum().backward()
        grads = {n: p.grad for n, p in encoder.named_parameters() if p.grad is not None}
        found.append((vectors, grads))
    (packed, packed_grads), (padded, padded_grads) = found
    torch.testing.assert_close(packed, padded, rtol=tolerance, atol=tolerance)
    assert packed_grads.keys() == padded_grads.keys()
    for name, grad in padded_grads.items():
        close = {"rtol": tolerance, "atol": tolerance * max(1.0, float(grad.abs().max()))}
        torch.testing.assert_close(packed_grads[name], grad, msg=name, **close)


@pytest.mark.parametrize("family", FAMILIES)
def test_positions_are_the_models_own(family, tiny_encoder):
    model = encoder_of(family, tiny_encoder).model
    seen = []
    model.embeddings.position_embeddings.register_forward_pre_hook(
        lambda module, given: seen.append(given[0])
    )
    model(input_ids=IDS)
    assert torch.equal(seen[0].expand_as(IDS), positions(model, IDS))


@pytest.mark.parametrize("pad_token_id", [1, 3])
def test_another_padding_id(pad_token_id, tiny_encoder, packings):
    encoder = encoder_of("roberta", tiny_encoder, pad_token_id=pad_token_id).train()
    ids = torch.where(IDS == 0, pad_token_id, torch.where(pad_token_id == IDS, 5, IDS))
    with torch.no_grad():
        packed = encoder(ids)
        with plain("packing"):
            torch.testing.assert_close(packed, encoder(ids), rtol=1e-5, atol=1e-5)
    assert len(packings) == 1


def test_a_batch_with_more_tokens_than_positions(tiny_encoder, packings):
    encoder = set_dropout(Encoder(tiny_encoder).train())
    ids = torch.full((20, 30), 9)
    ids[0, 10:] = encoder.pad_id
    with torch.no_grad():
        packed = encoder(ids)
        with plain("packing"):
            torch.testing.assert_close(packed, encoder(ids))
    assert len(packings) == 1


# -- batches and models that stay padded ---------------------------------------------------------
def test_batches_that_stay_padded(tiny_encoder, monkeypatch):
    model = Encoder(tiny_encoder).train().model
    mask = IDS != 0
    assert packing_of(model, IDS, mask) is not None
    assert packing_of(model, IDS, torch.ones_like(mask)) is None  # no padding
    assert packing_of(model, IDS, torch.zeros_like(mask)) is None  # a row without a token
    assert packing_of(model, IDS.to("meta"), mask.to("meta")) is None  # not on a CPU
    for name in ("packing", "attention"):
        with plain(name):
            assert packing_of(model, IDS, mask) is None
    with monkeypatch.context() as patch:
        patch.setattr(torch.jit, "is_tracing", lambda: True)
        assert packing_of(model, IDS, mask) is None
    assert packing_of(model.eval(), IDS, mask) is None
    model.train().set_attn_implementation("eager")
    assert packing_of(model, IDS, mask) is None


@pytest.mark.parametrize(
    "setting", [{"is_decoder": True}, {"chunk_size_feed_forward": 5}, {"model_type": "another"}]
)
def test_models_that_stay_padded(tiny_encoder, setting):
    model = Encoder(tiny_encoder).model
    assert may_be_packed(model)
    for name, value in setting.items():
        setattr(model.config, name, value)
    assert not may_be_packed(model)


class Neighbours(nn.Module):
    """Mixes neighbouring tokens."""

    def forward(self, states, *args):
        return states + states.roll(1, dims=1)


def test_models_with_custom_parts_or_hooks_stay_padded(tiny_encoder):
    model = Encoder(tiny_encoder).model
    output = model.encoder.layer[0].output
    kept = output.dense
    for other in (Neighbours(), nn.Conv1d(1, 1, 3), nn.TransformerEncoderLayer(16, 2)):
        output.dense = other
        assert not may_be_packed(model)
    output.dense = kept
    assert may_be_packed(model)
    output.forward = lambda states, *args: states.roll(1, dims=1)
    assert not may_be_packed(model)
    del output.forward
    assert may_be_packed(model)
    for name in (
        *("register_forward_hook", "register_forward_pre_hook"),
        *("register_full_backward_hook", "register_full_backward_pre_hook"),
    ):
        handle = getattr(model.encoder.layer[1], name)(lambda *args: None)
        assert not may_be_packed(model)
        handle.remove()
        assert may_be_packed(model)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("family", ["albert", "distilbert", "mpnet"])
def test_other_model_types_stay_padded(family, pooling, tiny_encoder, packings):
    encoder = encoder_of(family, tiny_encoder, pooling=pooling).train()
    vectors = encoder(IDS)
    assert not packings
    mask = attention_mask(IDS, 0)
    out = encoder.model(input_ids=IDS, attention_mask=mask.long())
    if pooling == "mean":
        expected = mean_over_tokens(out.last_hidden_state, mask)
    else:
        pooled = getattr(out, "pooler_output", None)
        expected = out.last_hidden_state[:, 0] if pooled is None else pooled
    torch.testing.assert_close(vectors, expected)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_the_encoder_can_be_compiled_as_one_graph(mode, tiny_encoder):
    encoder = encoder_of("bert", tiny_encoder)
    getattr(encoder, mode)()
    compiled = torch.compile(encoder, backend="eager", fullgraph=True)
    with torch.no_grad(), plain("packing"):
        expected = encoder(IDS)
    with torch.no_grad():
        torch.testing.assert_close(compiled(IDS), expected)
    torch.compiler.reset()


# torch warns that vmap over attention is slow on a CPU
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_gradients_by_torch_func(tiny_encoder, packings):
    encoder = encoder_of("bert", tiny_encoder).train()
    parameters = dict(encoder.named_parameters())

    def loss(values):
        return torch.func.functional_call(encoder, values, (IDS,)).square().sum()

    found = torch.func.grad(loss)(parameters)
    assert packings
    two = {name: torch.stack([value, value]) for name, value in parameters.items()}
    losses = torch.func.vmap(loss)(two)
    torch.testing.assert_close(losses, loss(parameters).expand(2))
    loss(parameters).backward()
    for name, grad in found.items():
        if parameters[name].grad is not None:
            torch.testing.assert_close(grad, parameters[name].grad, msg=name)


# -- training ------------------------------------------------------------------------------------
def test_dropout_reaches_packed_attention(tiny_encoder):
    encoder = Encoder(tiny_encoder).train()
    set_dropout(encoder)
    for name, module in encoder.named_modules():
        if "attention.self" in name:
            set_dropout(module, 0.5)
    ids = IDS % 20
    assert not torch.equal(encoder(ids), encoder(ids))
    encoder.eval()
    assert torch.equal(encoder(ids), encoder(ids))


def test_a_fit_is_close_to_one_with_padding(tiny_encoder, tiny_texts, packings):
    y = np.arange(len(tiny_texts)) % 2
    params = {"max_epochs": 2, "max_length": 32, "batch_size": 8, "lr": 1e-3, "precision": "fp32"}
    fits, counts = [], []
    for mode in (nullcontext(), plain("packing")):
        net = bert_net(tiny_encoder, module=WithoutDropout, **params)
        with mode:
            fits.append(net.fit(tiny_texts, y))
        counts.append(len(packings))
    assert counts[0] == counts[1] > 0  # the second fit packs nothing
    packed, padded = (net.predict_proba(tiny_texts) for net in fits)
    np.testing.assert_allclose(packed, padded, atol=1e-4)
    losses = [net.history[:, "train_loss"] for net in fits]
    np.testing.assert_allclose(*losses, rtol=1e-4)
