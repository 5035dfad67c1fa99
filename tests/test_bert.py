"""The net: module, dropout, attention, batches, the linear probe, and the classifier."""

import multiprocessing
import pickle

import numpy as np
import pytest
import torch
import transformers
from helpers import bert_net, build_encoder
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from skorch.callbacks import Callback
from skorch.dataset import Dataset
from transformers import AutoTokenizer, GPT2Config, GPT2Model, T5Config, T5Model

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    TokenIdVectorizer,
)
from sklearn_spt._batches import TokenBatches
from sklearn_spt._heads import linear_probe
from sklearn_spt._module import BertModule, ByteDropout, _attention, byte_dropout, uses_bf16

Y = ["yes", "no"] * 12


# -- dropout and attention -------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_byte_dropout(dtype):
    torch.manual_seed(0)
    out = byte_dropout(torch.ones(1000, 999, dtype=dtype), 0.1)
    assert out.dtype == dtype
    dropped = (out == 0).float().mean().item()
    assert dropped == pytest.approx(26 / 256, abs=2e-3)
    assert out.max().item() == pytest.approx(256 / 230, rel=5e-3)
    torch.manual_seed(0)
    assert torch.equal(byte_dropout(torch.ones(1000, 999, dtype=dtype), 0.1), out)
    layer = ByteDropout(0.5).eval()
    assert torch.equal(layer(out), out)


def test_attention_is_torchs():
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, 5, 4) for _ in range(3))
    seen = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    mask = seen[:, None, None, :].expand(-1, -1, 5, -1)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2)
    module = torch.nn.Identity()
    module.is_causal = False
    found, _ = _attention(module, q, k, v, mask, dropout=0.0)
    torch.testing.assert_close(found, expected)
    almost, _ = _attention(module, q, k, v, mask, dropout=1e-9)  # its own path, nothing dropped
    torch.testing.assert_close(almost, expected)


def test_padding_changes_nothing(tiny_encoder, tiny_sentence_encoder):
    for encoder in (tiny_encoder, tiny_sentence_encoder):
        module = BertModule(encoder, 3, precision="fp32").eval()
        ids = torch.tensor([[2, 20, 21, 3]])
        wide = torch.nn.functional.pad(ids, (0, 9))
        torch.testing.assert_close(module(ids), module(wide))
        both = torch.cat([wide, torch.full((1, 13), 5)])
        torch.testing.assert_close(module(both)[:1], module(ids))


def test_training_uses_byte_dropout(tiny_sentence_encoder):
    module = BertModule(tiny_sentence_encoder, 2)
    kinds = {type(layer) for layer in module.modules() if isinstance(layer, torch.nn.Dropout)}
    assert kinds == {ByteDropout}
    assert module.encoder.config._attn_implementation == "byte_dropout"
    assert module.pooling == "mean"
    assert module.encoder.pooler is None


def test_precision():
    cpu = torch.device("cpu")
    assert uses_bf16("bf16", cpu)
    assert not uses_bf16("fp32", cpu)
    assert not uses_bf16("auto", torch.device("meta"))


# -- batches ---------------------------------------------------------------------------------------
def rows(lengths, width=20):
    return np.array([[1] * n + [0] * (width - n) for n in lengths], dtype=np.int32)


def test_batches_hold_each_row_once():
    rng = np.random.default_rng(0)
    X = rows(rng.integers(1, 20, size=403))
    X[:, 0] = np.arange(403) + 1
    batches = TokenBatches(Dataset(X, np.arange(403.0)), 4, multiple=4)
    torch.manual_seed(0)
    seen = list(batches)
    assert len(seen) == len(batches) == 101
    assert sorted(len(x) for x, _ in seen) == [3] + [4] * 100
    assert sorted(torch.cat([y for _, y in seen]).tolist()) == list(range(403))
    for x, y in seen:
        assert x.shape[1] % 4 == 0
        np.testing.assert_array_equal(x[:, 0], y + 1)
    padding = 1 - (X != 0).sum() / sum(x.numel() for x, _ in seen)
    assert padding < 0.2
    in_order = list(TokenBatches(Dataset(X, None), 100, in_order=True))
    np.testing.assert_array_equal(torch.cat([x[:, 0] for x, _ in in_order]), X[:, 0])


# -- the linear probe ------------------------------------------------------------------------------
@pytest.mark.parametrize("K", [2, 3])
def test_the_probe_is_a_logistic_regression(K):
    rng = np.random.default_rng(0)
    codes = np.arange(90) % K
    F = rng.normal(size=(90, 5)) + 2 * np.eye(5)[codes]
    F = (F - F.mean(axis=0)) / np.sqrt(F.var(axis=0).mean())
    W, b = linear_probe(F, codes, K, np.ones(len(F)), balanced=False)
    expected = LogisticRegression(C=1.0).fit(F, codes, sample_weight=np.full(90, 1 / 90))
    P = np.exp(F @ W.T + b)
    found = P / P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected.predict_proba(F), atol=1e-3)


def test_limits_of_the_probe():
    F = np.random.default_rng(0).normal(size=(6, 3))
    assert linear_probe(F, np.zeros(6, dtype=int), 2, np.ones(6)) is None
    assert linear_probe(np.ones((6, 3)), np.array([0, 1] * 3), 2, np.ones(6)) is None
    W, b = linear_probe(F, np.array([0, 2] * 3), 3, np.ones(6))
    assert (W[1] == 0).all()
    assert b[1] == pytest.approx(-np.log(9))


# -- the classifier --------------------------------------------------------------------------------
def test_it_learns(tiny_encoder, tiny_texts, global_random_state_unchanged):
    net = bert_net(tiny_encoder, max_epochs=8).fit(tiny_texts, Y)
    assert net.classes_.tolist() == ["no", "yes"]
    assert net.score(tiny_texts, Y) > 0.8
    P = net.predict_proba(tiny_texts)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (net.predict(tiny_texts) == net.classes_[P.argmax(axis=1)]).all()
    ids = TokenIdVectorizer(tiny_encoder, max_length=24).transform(tiny_texts)
    np.testing.assert_allclose(net.predict_proba(ids), P, atol=1e-6)
    for order in (np.arange(24)[::-1], [3]):
        some = net.predict_proba([tiny_texts[i] for i in order])
        np.testing.assert_allclose(some, P[order], atol=1e-6)


def test_a_second_fit_is_the_first_one_of_another_net(tiny_encoder, tiny_texts, tmp_path):
    net = bert_net(tiny_encoder, max_length="auto").fit(tiny_texts, Y)
    assert net.fit(tiny_texts, Y).history[-1]["epoch"] == 3
    other = build_encoder(tmp_path / "short", seed=3, positions=16)
    long = [text * 9 for text in tiny_texts]  # cut at the positions of the encoder
    fresh = bert_net(other, max_length="auto", max_epochs=1, lr=1e-3)
    for one in (net.set_params(pretrained=other, max_epochs=1, lr=1e-3), fresh):
        with pytest.warns(UserWarning, match="100% of the texts reach max_length=16 tokens"):
            one.fit(long, ["a", "b", "c"] * 8)
    assert net.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(net.predict_proba(long), fresh.predict_proba(long))


def test_parameters_of_skorch_are_kept(tiny_encoder, tiny_texts):
    """Also those that belong to a part, and own callbacks beside the default ones."""
    seen = []

    class Note(Callback):
        def on_batch_end(self, net, **kwargs):
            seen.append(net.optimizer_.param_groups[0]["weight_decay"])

    net = bert_net(tiny_encoder, callbacks=[Note()], optimizer__weight_decay=0.5)
    net.set_params(callbacks__gradient_clip__gradient_clip_value=1e-9, optimizer=torch.optim.SGD)
    net.set_params(optimizer__fused=False, head_init="random", max_epochs=1)
    assert clone(net).get_params()["optimizer__weight_decay"] == 0.5
    net.fit(tiny_texts, Y)
    assert seen == [0.5] * 6
    assert repr(BertClassifier("e", lr=1e-3)) == "BertClassifier(lr=0.001, pretrained='e')"
    assert not [name for name in net.get_params() if name.startswith("_")]


def test_many_rows_start_from_a_probe_on_some(tiny_encoder, tiny_texts, monkeypatch):
    expected = bert_net(tiny_encoder, max_epochs=0).fit(tiny_texts, Y).predict_proba(tiny_texts)
    monkeypatch.setattr("sklearn_spt._heads.MOST_ROWS", 20)
    some = bert_net(tiny_encoder, max_epochs=0).fit(tiny_texts, Y).predict_proba(tiny_texts)
    assert not np.array_equal(some, expected)
    assert (some.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.7


def test_the_bar_of_a_fit(tiny_encoder, tiny_texts, capfd):
    bert_net(tiny_encoder, max_epochs=2, verbose=1).fit(tiny_texts, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert "fine-tuning: 100%" in err
    assert "12/12 steps" in err


@pytest.mark.parametrize("kind", [bert_net, SelfPretrainingClassifier])
def test_what_the_encoder_does_not_see_is_said_once(kind, tiny_encoder, tiny_texts):
    net = kind(tiny_encoder) if kind is bert_net else kind(bert_net(tiny_encoder), max_iter=1)
    begin = "we are fine " * 20
    texts = [*tiny_texts, begin + "and got the flu", begin + "and no flu", "żółć ćma " * 3]
    y = [*Y, "no", "yes", "no"] if kind is bert_net else [*(Y[:12]), *[-1] * 12, "no", "yes", -1]
    with pytest.warns(UserWarning, match="texts") as caught:
        net.fit(texts, y)
    (message,) = {str(one.message) for one in caught}
    assert message == (
        "7% of the texts reach max_length=24 tokens, and what is longer is cut there; the encoder "
        "reads up to 64. 4% of the texts are mostly tokens that the encoder does not know; choose "
        "one for their language. 2 labelled texts look the same to the encoder as a text of "
        "another class (first: row 24)."
    )


@pytest.mark.parametrize("fit", ["net", "method", "embedder"])
def test_texts_without_spaces_are_one_unknown_token(fit, tiny_encoder, tiny_texts):
    """Two special tokens beside it do not count, and that such texts are equal says nothing."""
    net = bert_net(tiny_encoder)
    clf = SentenceEmbedder(tiny_encoder) if fit == "embedder" else net
    clf = SelfPretrainingClassifier(net, max_iter=1) if fit == "method" else clf
    y = [0, 1, 0, 1, *([-1] * 20 if fit == "method" else [0, 1] * 10)]
    with pytest.warns(UserWarning, match="encoder does not know") as caught:
        clf.fit(["พัสดุของฉัน", "ยังไม่ได้รับ", "ของมาช้ามาก", "จ่ายเงินไม่", *tiny_texts[:20]], y)
    assert not any("another class" in str(one.message) for one in caught)


def test_counts_of_words_are_no_token_ids(tiny_encoder):
    X = CountVectorizer().fit_transform(["flu shot", "no shot"] * 4)
    with pytest.raises(TypeError, match="X is a sparse matrix, but this net reads texts"):
        bert_net(tiny_encoder).fit(X, [0, 1] * 4)
    with pytest.raises(TypeError, match="X is a dict, but this net reads texts"):
        bert_net(tiny_encoder).fit({"text": ["a", "b"]}, [0, 1])
    with pytest.raises(ValueError, match="pass texts in place of counts of words"):
        SelfPretrainingClassifier(bert_net(tiny_encoder)).fit(X.toarray(), [0, 1, 0, 1, *[-1] * 4])


def test_encoders_that_are_none(tmp_path, tiny_encoder, tiny_texts):
    """The first token of a causal model sees no other one; encoder-decoders are refused."""
    small = {"vocab_size": 99, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    small |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 1e-6}
    causal, both = tmp_path / "causal", tmp_path / "both"
    GPT2Model(GPT2Config(**small)).save_pretrained(causal)
    small = {"vocab_size": 99, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1}
    T5Model(T5Config(**small, num_heads=2)).save_pretrained(both)
    for folder in (causal, both):
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    net = bert_net(str(causal)).fit(tiny_texts, Y)
    assert net.module_.pooling == "mean"
    assert np.ptp(net.predict_proba(tiny_texts)[:, 0]) > 0.1
    # in training, too, no token sees a later one
    ids, states = torch.tensor([[7, 8, 9], [7, 8, 30]]), []
    net.module_.encoder.train()
    for row in ids:
        states.append(net.module_.encoder(input_ids=row[None]).last_hidden_state[0, :2])
    torch.testing.assert_close(*states, atol=0.01, rtol=0)
    with pytest.raises(ValueError, match=r'pooling="cls" .* its first token sees no other'):
        bert_net(str(causal), pooling="cls").fit(tiny_texts, Y)
    with pytest.raises(ValueError, match="is an encoder-decoder"):
        bert_net(str(both)).fit(tiny_texts, Y)


def test_predict_in_a_forked_child(tmp_path, tiny_texts):
    """torch's threads do not survive a fork; a net of this size needs more than one of them."""
    wide = build_encoder(tmp_path / "wide", layers=2, width=256)
    net = bert_net(wide, max_epochs=0, max_length="auto").fit(tiny_texts, Y)
    texts, threads = tiny_texts * 20, torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        P = net.predict_proba(texts)
        context = multiprocessing.get_context("fork")
        found = context.Queue()
        child = context.Process(target=lambda: found.put(net.predict_proba(texts)))
        child.start()
        np.testing.assert_allclose(found.get(timeout=60), P, atol=1e-5)
        child.join(10)
    finally:
        child.kill()
        torch.set_num_threads(threads)


def test_pickles_hold_one_copy_of_the_weights(tiny_encoder, tiny_texts):
    net = bert_net(tiny_encoder).fit(tiny_texts, Y)
    content = pickle.dumps(net)
    size = sum(4 * weight.numel() for weight in net.module_.parameters())
    assert len(content) < 1.6 * size + 60_000
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict_proba(tiny_texts), net.predict_proba(tiny_texts))


def test_partial_fit_goes_on(tiny_encoder, tiny_texts):
    first = bert_net(tiny_encoder).partial_fit(tiny_texts, Y)
    same = bert_net(tiny_encoder).fit(tiny_texts, Y)
    P = same.predict_proba(tiny_texts)
    np.testing.assert_array_equal(first.predict_proba(tiny_texts), P)
    first.partial_fit(tiny_texts[:2], ["yes", "yes"])
    assert len(first.history) == 6
    assert not np.allclose(first.predict_proba(tiny_texts), P)
    with pytest.raises(ValueError, match=r"'maybe' in row 1, which is none of \['no', 'yes'\]"):
        first.partial_fit(tiny_texts[:2], ["yes", "maybe"])
    three = bert_net(tiny_encoder).partial_fit(tiny_texts, Y, classes=["no", "yes", "maybe"])
    assert three.predict_proba(tiny_texts).shape == (24, 3)


def test_weights_count(tiny_encoder, tiny_texts):
    flipped = [*Y[:12], *("yes" if y == "no" else "no" for y in Y[12:])]
    weights = np.repeat([1.0, 0.0], 12)
    net = bert_net(tiny_encoder, balanced_batches=False).fit(tiny_texts, Y, sample_weight=weights)
    other = bert_net(tiny_encoder, balanced_batches=False)
    other.fit(tiny_texts, flipped, sample_weight=weights)
    np.testing.assert_allclose(net.predict_proba(tiny_texts), other.predict_proba(tiny_texts))


def test_the_head_starts_as_a_probe(tiny_encoder, tiny_texts):
    net = bert_net(tiny_encoder, max_epochs=0)
    assert net.fit(tiny_texts, Y).score(tiny_texts, Y) > 0.7
    random = net.set_params(head_init="random").fit(tiny_texts, Y)
    assert random.module_.head.weight.std() < 0.05


def test_the_learning_rate_follows_the_size(tiny_encoder, tiny_texts):
    assert bert_net(tiny_encoder, lr="auto", max_epochs=0).fit(tiny_texts, Y).lr_ == 1e-4
    assert bert_net(tiny_encoder, lr=0.3, max_epochs=0).fit(tiny_texts, Y).lr_ == 0.3


def test_adapters(tiny_encoder, tiny_texts, tiny_y):
    peft = pytest.importorskip("peft")
    adapter = peft.LoraConfig(r=2, target_modules=["query", "value"])
    net = bert_net(tiny_encoder, module__adapter=adapter)
    clf = SelfPretrainingClassifier(net, max_iter=1, unlabeled_marker=None, random_state=0)
    clf.fit(tiny_texts, tiny_y)
    trained = {k for k, w in clf.students_[0].module_.named_parameters() if w.requires_grad}
    assert all("lora" in name or name.startswith("head") for name in trained)
    assert len(trained) == 2 * 2 * 2 + 2


def test_other_families(tmp_path, tiny_texts):
    folder = build_encoder(tmp_path / "bert")
    settings = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    settings |= {"num_hidden_layers": 1, "max_position_embeddings": 40, "vocab_size": 90}
    small = {"dim": 16, "hidden_dim": 16, "n_heads": 2, "n_layers": 1, "vocab_size": 90}
    config = transformers.DistilBertConfig(**small)
    transformers.DistilBertModel(config).save_pretrained(tmp_path / "distil")
    config = transformers.ElectraConfig(embedding_size=16, **settings)
    transformers.ElectraModel(config).save_pretrained(tmp_path / "electra")
    for name in ("distil", "electra"):
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / name)
        net = BertClassifier(str(tmp_path / name), max_length=16, max_epochs=1, random_state=0)
        assert net.fit(tiny_texts, Y).predict_proba(tiny_texts).shape == (24, 2)
