"""From token ids to one vector for each text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.nets import interacting, set_dropout

from sklearn_spt.nets._encoder import Encoder, attention_mask, mean_over_tokens
from sklearn_spt.nets._kernels import Dropout
from sklearn_spt.text._encoding import encode_texts

POOLINGS = ("mean", "cls")


@pytest.fixture
def ids(tiny_encoder, tiny_texts):
    return torch.from_numpy(encode_texts(tiny_texts, tiny_encoder, 32))


def encoder(checkpoint, **params):
    return Encoder(checkpoint, **params).eval()


# -- mask and mean ---------------------------------------------------------------------------------
def test_the_mask_ends_at_the_last_token_that_is_not_padding():
    ids = torch.tensor([[2, 5, 3, 0, 0], [2, 0, 3, 0, 0], [0, 0, 0, 0, 9], [2, 0, 0, 0, 0]])
    expected = [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]
    assert attention_mask(ids, 0).long().tolist() == expected
    # with another padding id, zeros are tokens
    assert attention_mask(torch.tensor([[0, 4, 1, 1], [1, 4, 0, 1]]), 1).tolist() == [
        [True, True, False, False],
        [True, True, True, False],
    ]


def test_mean_over_tokens_equals_a_loop():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(4, 6, 3, generator=generator)
    counts = [6, 1, 3, 4]
    mask = torch.arange(6) < torch.tensor(counts)[:, None]
    expected = torch.stack([states[i, :n].mean(dim=0) for i, n in enumerate(counts)])
    torch.testing.assert_close(mean_over_tokens(states, mask), expected)
    no_tokens = torch.zeros(4, 6, dtype=torch.bool)
    assert not mean_over_tokens(states, no_tokens).any()  # zero, not NaN


# -- pooling -------------------------------------------------------------------------------------
def test_mean_pooling_averages_the_states_of_the_model(tiny_encoder, ids):
    enc = encoder(tiny_encoder, pooling="mean")
    with torch.no_grad():
        vectors = enc(ids)
        for row, vector in zip(ids, vectors, strict=True):
            own = row[row != enc.pad_id][None].long()
            states = enc.model(input_ids=own).last_hidden_state[0]
            torch.testing.assert_close(vector, states.mean(dim=0), rtol=0, atol=1e-5)


def test_cls_pooling_takes_the_first_token_through_the_pooler_if_there_is_one(tiny_encoder, ids):
    enc = encoder(tiny_encoder, pooling="cls")
    with torch.no_grad():
        mask = attention_mask(ids, enc.pad_id).long()
        first = enc.model(input_ids=ids.long(), attention_mask=mask).last_hidden_state[:, 0]
        dense = enc.model.pooler.dense
        expected = torch.tanh(first @ dense.weight.T + dense.bias)
        torch.testing.assert_close(enc(ids), expected)
        enc.model.pooler = None
        torch.testing.assert_close(enc(ids), first)


def test_mean_pooling_drops_the_pooler_which_would_get_no_gradient(tiny_encoder, ids):
    assert encoder(tiny_encoder, pooling="cls").model.pooler is not None
    enc = encoder(tiny_encoder, pooling="mean")
    assert enc.model.pooler is None
    enc(ids).sum().backward()
    idle = [name for name, p in enc.named_parameters() if p.grad is None]
    assert idle == []


def test_auto_pooling_follows_the_checkpoint_and_bad_values_are_rejected(
    tiny_encoder, tiny_pooling_encoder
):
    assert Encoder(tiny_encoder).pooling == "cls"
    assert Encoder(tiny_pooling_encoder).pooling == "mean"
    assert Encoder(tiny_pooling_encoder, pooling="cls").pooling == "cls"
    with pytest.raises(ValueError, match="pooling must be one of 'auto', 'mean', 'cls'; got 'max'"):
        Encoder(tiny_encoder, pooling="max")


# -- invariances ---------------------------------------------------------------------------------
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_vector_depends_neither_on_neighbours_nor_on_padding(tiny_encoder, ids, pooling):
    enc = interacting(encoder(tiny_encoder, pooling=pooling))
    lengths = attention_mask(ids, enc.pad_id).sum(dim=1)
    assert len(set(lengths.tolist())) > 1
    with torch.no_grad():
        together = enc(ids)
        torch.testing.assert_close(enc(ids.flip(0)).flip(0), together, rtol=0, atol=1e-5)
        wider = torch.nn.functional.pad(ids, (0, 20), value=enc.pad_id)
        torch.testing.assert_close(enc(wider), together, rtol=0, atol=1e-5)
        for row, n in enumerate(lengths):
            alone = enc(ids[row : row + 1, :n])
            torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_padding_id_inside_a_text_counts_as_a_token(tiny_encoder, pooling):
    enc = interacting(encoder(tiny_encoder, pooling=pooling))
    with torch.no_grad():
        inside = enc(torch.tensor([[2, 20, 0, 30, 3]]))
        outside = enc(torch.tensor([[2, 20, 30, 3, 0]]))
    assert (inside - outside).abs().max() > 0.05


def test_different_texts_have_different_vectors(tiny_encoder, ids):
    vectors = interacting(encoder(tiny_encoder))(ids).detach()
    same_text = (ids[:, None] == ids[None]).all(dim=2)
    same_vector = torch.cdist(vectors, vectors) < 1e-3
    assert torch.equal(same_text, same_vector)
    assert not same_text.all()
    assert torch.equal(
        interacting(encoder(tiny_encoder))(ids.long()), vectors
    )  # int32 and int64 agree


# -- precision and dropout -----------------------------------------------------------------------
@pytest.mark.parametrize("pooling", POOLINGS)
def test_bf16_is_close_to_fp32_with_weights_gradients_and_vectors_in_fp32(
    tiny_encoder, ids, pooling
):
    enc = encoder(tiny_encoder, pooling=pooling, precision="bf16")
    enc(ids).sum().backward()
    assert {p.dtype for p in enc.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in enc.parameters()} == {torch.float32}
    with torch.no_grad():
        exact = encoder(tiny_encoder, pooling=pooling)(ids)
        half = enc(ids)
    assert half.dtype == exact.dtype == torch.float32
    assert not torch.equal(half, exact)
    # bf16 has 8 bits of mantissa; states are of the order of one after layer normalisation
    assert (half - exact).abs().max() < 0.05
    assert (half - exact).abs().mean() < 0.01
    cosine = torch.nn.functional.cosine_similarity(half, exact)
    assert cosine.min() > 0.999


def test_dropout_is_that_of_the_checkpoint_and_acts_only_in_training(tiny_encoder, ids):
    enc = encoder(tiny_encoder)
    layers = [m for m in enc.modules() if isinstance(m, torch.nn.Dropout)]
    assert {(type(layer), layer.p) for layer in layers} == {(Dropout, 0.1)}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        expected = enc(ids)
        assert torch.equal(enc(ids), expected)
        enc.train()
        assert not torch.equal(enc(ids), enc(ids))
        torch.testing.assert_close(set_dropout(enc)(ids), expected, rtol=0, atol=1e-5)


def test_size_and_independence_of_two_encoders(tiny_encoder, ids):
    first, second = encoder(tiny_encoder), encoder(tiny_encoder)
    assert first.size == 16
    assert first(ids).shape == (len(ids), 16)
    with torch.no_grad():
        for weight in first.parameters():
            weight.zero_()
    assert np.isfinite(second(ids).detach().numpy()).all()
    assert second(ids).abs().max() > 0
