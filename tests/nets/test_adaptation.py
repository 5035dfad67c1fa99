"""An encoder learns from texts without labels, and is an encoder like any other afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.nets import set_dropout
from safetensors.torch import load_file

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, adapt_encoder
from sklearn_spt._progress import Progress
from sklearn_spt.nets._adaptation import MaskedTokens
from sklearn_spt.nets._encoder import Encoder, attention_mask
from sklearn_spt.text._pretrained import default_pooling, load_encoder, text_source


def adapted(texts, folder, encoder, **params):
    settings = {"pretrained": encoder, "batch_size": 8, "random_state": 0, "n_threads": 1}
    return adapt_encoder(texts, folder, **settings | params)


def weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def masked_tokens(encoder):
    tokenizer = text_source(encoder).tokenizer
    torch.manual_seed(0)
    return MaskedTokens(Encoder(encoder), tokenizer.mask_token_id, tokenizer.all_special_ids)


# -- what is learned -----------------------------------------------------------------------------
def test_the_loss_falls_over_the_epochs(tiny_encoder, tiny_texts, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(Progress, "say", lambda progress, text: said.append(text))
    adapted(tiny_texts * 4, tmp_path / "a", tiny_encoder, max_epochs=12, lr=3e-3)
    losses = [float(text.removeprefix("loss ")) for text in said]
    assert len(losses) == 12
    assert np.mean(losses[-3:]) < 0.6 * losses[0]


def test_the_loss_is_the_cross_entropy_of_the_chosen_tokens(tiny_encoder):
    model = set_dropout(masked_tokens(tiny_encoder)).eval()
    ids = torch.tensor([[2, 7, 8, 9, 10, 11, 3], [2, 12, 13, 14, 3, 0, 0]])
    chosen = torch.zeros(ids.shape, dtype=torch.bool)
    chosen[0, 1] = chosen[0, 4] = chosen[1, 2] = True
    given = ids.masked_fill(chosen, model.mask_id)
    model.masked = lambda ids, mask: (given, chosen)
    with torch.no_grad():
        found = model(ids)
        losses = []
        for row, place in chosen.nonzero().tolist():
            alone = given[row : row + 1, : int((ids[row] != 0).sum())]
            h = model.encoder.model(input_ids=alone).last_hidden_state[0, place]
            z = model.words.weight @ model.head(h) + model.bias
            losses.append(-torch.log_softmax(z, dim=0)[ids[row, place]])
    torch.testing.assert_close(found, torch.stack(losses).mean())


def test_texts_of_which_no_token_is_chosen_have_no_loss(tiny_encoder):
    model = masked_tokens(tiny_encoder)
    loss = model(torch.tensor([[2, 3]]))
    loss.backward()
    assert loss.item() == 0
    assert not any(w.grad is not None and w.grad.any() for w in model.parameters())


def test_shares_of_the_tokens(tiny_encoder):
    model = masked_tokens(tiny_encoder)
    ids = torch.full((400, 52), 7)
    ids[:, 0], ids[:, -1] = 2, 0
    ids[:, 50] = 3
    given, chosen = model.masked(ids, attention_mask(ids, 0))
    assert not chosen[:, [0, 50, 51]].any()
    assert torch.equal(given[~chosen], ids[~chosen])
    n = int(chosen.sum())
    assert n / (400 * 49) == pytest.approx(0.15, abs=0.01)
    drawn = given[chosen]
    vocabulary = model.words.num_embeddings
    assert (drawn == model.mask_id).sum() / n == pytest.approx(0.8, abs=0.03)
    assert (drawn == 7).sum() / n == pytest.approx(0.1, abs=0.03)
    assert len(drawn.unique()) > vocabulary / 2


# -- the folder ----------------------------------------------------------------------------------
def test_only_the_random_state_decides(tiny_encoder, tiny_texts, tmp_path):
    runs = [
        adapted(tiny_texts, tmp_path / str(i), tiny_encoder, random_state=seed)
        for i, seed in enumerate((0, 0, 1))
    ]
    first, again, other = map(weights, runs)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_mean_pooling_is_kept(tiny_pooling_encoder, tiny_texts, tmp_path):
    folder = adapted(tiny_texts, tmp_path / "a", tiny_pooling_encoder)
    assert default_pooling(folder) == "mean"
    assert not any("pooler" in name for name in weights(folder))


def test_a_pooler_is_kept_as_it_is(tiny_encoder, tiny_texts, tmp_path):
    folder = adapted(tiny_texts, tmp_path / "a", tiny_encoder)
    assert default_pooling(folder) == "cls"
    before = load_encoder(tiny_encoder).state_dict()
    after = load_encoder(folder).state_dict()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]) == name.startswith("pooler")


def test_sentence_transformers_reads_it(tiny_pooling_encoder, tiny_texts, tmp_path):
    package = pytest.importorskip("sentence_transformers")
    folder = adapted(tiny_texts, tmp_path / "a", tiny_pooling_encoder)
    model = package.SentenceTransformer(folder, device="cpu", local_files_only=True)
    ids = torch.from_numpy(BertClassifier(folder).encode(tiny_texts[:5]))
    with torch.no_grad():
        expected = Encoder(folder).eval()(ids)
    np.testing.assert_allclose(model.encode(tiny_texts[:5]), expected, atol=1e-5)


def test_classifiers_start_from_it(tiny_encoder, tiny_texts, tmp_path):
    folder = adapted(tiny_texts, tmp_path / "a", tiny_encoder)
    assert Path(folder) == tmp_path / "a"
    y = [1, 0, -1, -1] * 6
    clf = SelfPretrainingClassifier(BertClassifier(folder, batch_size=8), random_state=0)
    P = clf.fit(tiny_texts, y).predict_proba(tiny_texts)
    clf.set_params(estimator__pretrained=tiny_encoder)
    assert not np.array_equal(P, clf.fit(tiny_texts, y).predict_proba(tiny_texts))


# -- input ---------------------------------------------------------------------------------------
def test_containers_of_texts(tiny_encoder, tiny_texts, tmp_path):
    pd = pytest.importorskip("pandas")
    given = (tiny_texts, np.array(tiny_texts, dtype=object), pd.Series(tiny_texts))
    found = [weights(adapted(X, tmp_path / str(i), tiny_encoder)) for i, X in enumerate(given)]
    for other in found[1:]:
        assert all(torch.equal(value, other[name]) for name, value in found[0].items())


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"max_epochs": 0}, ValueError, "max_epochs must be at least 1, got 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"lr": 0}, ValueError, "lr must"),
        ({"n_threads": 0}, ValueError, "n_threads must be at least 1"),
        ({"verbose": "yes"}, (TypeError, ValueError), "verbose must"),
        ({"overwrite": 1}, (TypeError, ValueError), "overwrite must"),
        ({"max_length": 1}, ValueError, "max_length must be at least 3"),
        ({"device": "abacus"}, ValueError, "device must be 'auto'"),
        ({"precision": "fp8"}, ValueError, "precision must be"),
        ({"random_state": -1}, ValueError, "random_state must not be negative"),
        ({"texts": "a text"}, TypeError, "texts is a single str"),
        ({"texts": ["", " "]}, ValueError, "texts hold no token to predict"),
        ({"texts": ["a", None]}, (TypeError, ValueError), "texts"),
        ({"lr": 1e30, "max_epochs": 2}, ValueError, r"the loss became .* in epoch \d; lower lr"),
    ],
)
def test_unusable_parameters(params, error, message, tiny_encoder, tiny_texts, tmp_path):
    texts = params.pop("texts", tiny_texts)
    with pytest.raises(error, match=message):
        adapted(texts, tmp_path / "a", tiny_encoder, **params)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_replaced_only_if_asked(tiny_encoder, tiny_texts, tmp_path):
    adapted(tiny_texts, tmp_path / "a", tiny_encoder)
    before = weights(tmp_path / "a")
    with pytest.raises(ValueError, match="is not empty; give another folder, or set overwrite"):
        adapted(tiny_texts, tmp_path / "a", tiny_encoder)
    folder = adapted(tiny_texts, tmp_path / "a", tiny_encoder, random_state=1, overwrite=True)
    assert any(not torch.equal(value, weights(folder)[name]) for name, value in before.items())


def test_an_encoder_can_be_adapted_twice(tiny_pooling_encoder, tiny_texts, tmp_path):
    once = adapted(tiny_texts, tmp_path / "a", tiny_pooling_encoder)
    twice = adapted(tiny_texts, tmp_path / "b", once)
    assert default_pooling(twice) == "mean"


def test_nothing_is_printed_unless_asked(tiny_encoder, tiny_texts, tmp_path, capfd):
    adapted(tiny_texts, tmp_path / "a", tiny_encoder)
    assert capfd.readouterr() == ("", "")
    adapted(tiny_texts, tmp_path / "b", tiny_encoder, verbose=1)
    out, shown = capfd.readouterr()
    assert out == ""
    assert "adapting: 100%" in shown
    assert "72/72" in shown
