"""Fast kernels against their plain twins: equal, or of the same distribution."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from helpers.nets import set_dropout
from scipy.stats import binom, chisquare
from torch import nn

from sklearn_spt.nets._encoder import Encoder
from sklearn_spt.nets._kernels import (
    ATTENTION,
    FAST,
    Dropout,
    added,
    attention,
    byte_dropout,
    dropout,
    is_plain,
    plain,
    replace_dropout,
)

N = 200_000


@pytest.fixture(autouse=True)
def seeded():
    """Seed torch for each test, and restore its generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def rounded(p):
    """The probability that is used: the nearest multiple of 1/256 below one."""
    return min(round(p * 256), 255) / 256


# -- distribution --------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [0.05, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_kept_share_and_scale(p):
    out = byte_dropout(torch.ones(N, dtype=torch.float64), p)
    kept = int((out != 0).sum())
    low, high = binom.interval(1 - 1e-4, N, 1 - rounded(p))
    assert low <= kept <= high
    torch.testing.assert_close(out.unique(), torch.tensor([0.0, 1 / (1 - rounded(p))]).double())


def test_every_byte_of_a_word_is_uniform():
    # at p = j/256 an element is kept if its byte is at least j, so that the number of masks of one
    # seed that keep an element is the byte of the element
    words = 4096
    total = torch.zeros(words * 8, dtype=torch.int64)
    for level in range(1, 256):
        torch.manual_seed(5)
        total += byte_dropout(torch.ones(words * 8), level / 256) != 0
    values = total.numpy().reshape(words, 8)
    assert values.min() == 0
    assert values.max() == 255
    for place in range(8):
        counts = np.bincount(values[:, place], minlength=256)
        assert chisquare(counts).pvalue > 0.001, place


def test_bytes_are_independent():
    words = 40_000
    kept = (byte_dropout(torch.ones(words * 8), 0.5) != 0).numpy().reshape(words, 8)
    # all 256 patterns of a word are equally frequent
    patterns = np.packbits(kept, axis=1).ravel()
    assert chisquare(np.bincount(patterns, minlength=256)).pvalue > 0.001
    kept = (byte_dropout(torch.ones(N), 0.1) != 0).numpy().astype(float)
    for lag in (1, 7, 8, 9, 16, 64):
        assert abs(np.corrcoef(kept[:-lag], kept[lag:])[0, 1]) < 4.5 / np.sqrt(N)


# -- shapes, dtypes, gradients ---------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (8,), (9,), (3, 5, 7), (2, 0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_shape_and_dtype(shape, dtype):
    out = byte_dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert out.shape == shape
    assert out.dtype == dtype
    assert set(out.flatten().tolist()) <= {0.0, 2.0}


def test_input_that_is_not_contiguous():
    x = torch.arange(1.0, 31.0).reshape(5, 6).t()[::2]
    assert not x.is_contiguous()
    out = byte_dropout(x, 0.5)
    assert out.shape == x.shape
    assert (out == 0).any()
    kept = out != 0
    torch.testing.assert_close(out[kept], 2 * x[kept])
    expanded = byte_dropout(torch.ones(1, 1).expand(40, 50), 0.5)
    assert expanded.unique().tolist() == [0.0, 2.0]


def test_the_gradient_is_the_mask():
    x = torch.linspace(1, 2, 999, requires_grad=True)
    before = x.detach().clone()
    out = byte_dropout(x, 0.3)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out / x).detach())
    assert (x.grad == 0).any()
    assert torch.equal(x, before)  # the input is not modified


# -- limits --------------------------------------------------------------------------------------
def test_nothing_or_everything_is_dropped():
    x = torch.randn(10)
    state = torch.get_rng_state()
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert byte_dropout(x, 0.001) is x  # rounds to nothing
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)
    assert Dropout(0.5)(torch.ones(64)).unique().tolist() == [0.0, 2.0]
    assert torch.equal(dropout(torch.ones(9), 1.0, training=True), torch.zeros(9))


def test_the_seed_of_torch_decides():
    def mask(seed):
        torch.manual_seed(seed)
        return byte_dropout(torch.ones(100), 0.5)

    assert torch.equal(mask(1), mask(1))
    assert not torch.equal(mask(1), mask(2))
    torch.manual_seed(1)
    assert not torch.equal(byte_dropout(torch.ones(100), 0.5), byte_dropout(torch.ones(100), 0.5))


def test_off_the_cpu_torchs_dropout_runs(monkeypatch):
    called = []
    monkeypatch.setattr(
        nn.functional, "dropout", lambda x, p, training: called.append((p, training)) or x
    )
    x = torch.ones(3, device="meta")
    assert dropout(x, 0.25, training=True) is x
    assert called == [(0.25, True)]


# -- modules -------------------------------------------------------------------------------------
def nested():
    return nn.Sequential(
        nn.Linear(4, 4),
        nn.Dropout(0.1),
        nn.Sequential(nn.Dropout(0.2), nn.ModuleDict({"deep": nn.Dropout(0.3)})),
        nn.Dropout1d(0.4),
        nn.AlphaDropout(0.5),
    )


@pytest.mark.parametrize("training", [True, False])
def test_replace_dropout(training):
    model = nested().train(training)
    replace_dropout(model)
    assert [m.p for m in model.modules() if type(m) is Dropout] == [0.1, 0.2, 0.3]
    assert not [m for m in model.modules() if type(m) is nn.Dropout]
    assert type(model[3]) is nn.Dropout1d  # drops whole channels, which is something else
    assert type(model[4]) is nn.AlphaDropout
    assert {m.training for m in model.modules()} == {training}


LAYER = nn.Module()
LAYER.is_causal = False


# -- attention -----------------------------------------------------------------------------------
def heads(dtype=torch.float32, n=3, h=2, width=5, d=4):
    """Queries, keys and values as transformers passes them: not contiguous."""
    return [
        torch.randn(n, width, h, d, dtype=dtype).transpose(1, 2).requires_grad_() for _ in range(3)
    ]


def mask_of(kind, n=3, width=5):
    if kind == "none":
        return None
    lengths = torch.tensor([width, 2, 1])
    mask = (torch.arange(width) < lengths[:, None])[:, None, None, :]
    return mask.expand(n, 1, width, width) if kind == "square" else mask


@pytest.mark.parametrize("kind", ["none", "row", "square"])
@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.03)]
)
def test_attention_and_its_gradients_equal_those_of_torch(
    kind, scaling, dtype, tolerance, monkeypatch
):
    # a dropout that keeps everything, so that results can be compared
    monkeypatch.setattr("sklearn_spt.nets._kernels.byte_dropout", lambda x, p: x)
    given, mask = heads(dtype), mask_of(kind)
    out, weights = attention(LAYER, *given, mask, dropout=0.1, scaling=scaling)
    expected = nn.functional.scaled_dot_product_attention(*given, mask, scale=scaling)
    expected = expected.transpose(1, 2)
    assert weights is None
    assert out.is_contiguous()
    close = {"rtol": 0, "atol": tolerance}
    torch.testing.assert_close(out, expected, **close)
    upstream = torch.randn_like(out)
    for a, b in zip(
        torch.autograd.grad(out, given, upstream),
        torch.autograd.grad(expected, given, upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b, **close)


def test_attention_drops_weights_and_keeps_the_mean():
    # equal scores and values of one: each output is the mean of kept weights
    q = torch.zeros(500, 2, 16, 4)
    out, _ = attention(LAYER, q, q, torch.ones_like(q), None, dropout=0.25)
    assert out[..., 0].unique().numel() > 5
    rounds = 500 * 2 * 16
    deviation = np.sqrt(0.25 / 0.75 / 16 / rounds)
    assert abs(float(out[..., 0].mean()) - 1) < 4.5 * deviation
    assert abs(float(out[..., 0].var()) / (0.25 / 0.75 / 16) - 1) < 0.1


def test_causal_attention_and_position_biases_are_left_to_transformers(monkeypatch):
    monkeypatch.setattr("sklearn_spt.nets._kernels.byte_dropout", lambda x, p: x)
    given = heads()
    decoder = nn.Module()
    decoder.is_causal = True
    calls = []
    monkeypatch.setattr(
        "sklearn_spt.nets._kernels.sdpa_attention_forward",
        lambda *a, **k: calls.append(a) or (None,) * 2,
    )
    attention(decoder, *given, None, dropout=0.1)
    attention(nn.Module(), *given, None, dropout=0.1)  # causal by default
    attention(LAYER, *given, None, dropout=0.1, is_causal=True)
    assert len(calls) == 3
    attention(decoder, *given, mask_of("row"), dropout=0.1)  # the mask decides
    attention(decoder, *given, None, dropout=0.1, is_causal=False)
    assert len(calls) == 3
    attention(LAYER, *given, None, dropout=0.1, is_causal=False, position_bias=given[0])
    assert len(calls) == 4  # torch adds such a bias


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_attention_without_dropout_or_in_plain_is_that_of_torch(dropout):
    given = heads()
    torch.manual_seed(3)
    with plain():
        assert is_plain("attention")
        out, _ = attention(LAYER, *given, None, dropout=dropout, is_causal=False)
    torch.manual_seed(3)
    expected = nn.functional.scaled_dot_product_attention(*given, dropout_p=dropout)
    torch.testing.assert_close(out, expected.transpose(1, 2))
    assert not is_plain("attention")


def test_padded_tokens_are_ignored():
    q, k, v = heads()
    with torch.no_grad():
        k[1, :, 2:] = 1e4
        v[1, :, 2:] = 1e30
        out, _ = attention(LAYER, q, k, v, mask_of("row"), dropout=0.1)
    assert float(out[1].abs().max()) < 1e3


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_encoder_and_its_gradients_equal_those_of_the_plain_path(tiny_encoder, precision):
    ids = torch.tensor([[2, 7, 9, 8, 3], [2, 7, 3, 0, 0]])
    assert Encoder(tiny_encoder).model.config._attn_implementation == ATTENTION
    found = []
    for fast in (True, False):
        encoder = Encoder(tiny_encoder, precision=precision).train()
        set_dropout(encoder, 1e-9 if fast else 0.0)  # 1e-9: the fast path with masks that keep all
        with nullcontext() if fast else plain():
            out = encoder(ids)
        out.square().sum().backward()
        found.append((out, {n: p.grad for n, p in encoder.named_parameters()}))
    tolerance = 1e-5 if precision == "fp32" else 0.05
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=tolerance)
    for name, grad in found[0][1].items():
        torch.testing.assert_close(
            grad, found[1][1][name], rtol=tolerance, atol=10 * tolerance, msg=name
        )


def test_plain_takes_names_and_can_be_nested():
    with plain("dropout"):
        assert [name for name in FAST if is_plain(name)] == ["dropout"]
        with plain():
            assert all(is_plain(name) for name in FAST)
        assert [name for name in FAST if is_plain(name)] == ["dropout"]
    assert not any(is_plain(name) for name in FAST)
    with pytest.raises(ValueError, match=r"\['gelu'\] have no plain twins"), plain("gelu"):
        pass


@pytest.mark.parametrize("half", [False, True])
def test_numbers_that_are_added_hide_what_booleans_hide(half):
    seen = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(0)) > 0.4
    seen[..., 0] = True
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        numbers = added(seen)
    q, k, v = torch.randn(3, 2, 3, 5, 4).to(numbers.dtype)
    fused = torch.nn.functional.scaled_dot_product_attention
    assert numbers.dtype is (torch.bfloat16 if half else torch.float32)
    torch.testing.assert_close(fused(q, k, v, numbers), fused(q, k, v, seen), rtol=0, atol=0)
