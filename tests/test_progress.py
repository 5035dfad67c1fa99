"""One progress bar for training and labelling, or no output."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.methods import METHODS

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, _progress
from sklearn_spt._progress import Progress
from sklearn_spt.nets import _batching


@pytest.mark.parametrize("verbose", [0, 1])
def test_the_bar_goes_to_standard_error(verbose, capfd):
    with Progress(verbose, "work", 4) as progress:
        progress.advance(4)
        progress.say("iteration 1")
        progress.expect(6)
        progress.advance(6)
    out, err = capfd.readouterr()
    assert out == ""
    for part in ("work: 100%", "10/10", "iteration 1"):
        assert (part in err) == bool(verbose)
    assert verbose or err == ""


def test_the_bar_is_closed_after_an_error(capfd):
    progress = Progress(1, "work", 10)
    with pytest.raises(RuntimeError, match="inside"), progress:  # noqa: PT012
        progress.advance(4)
        raise RuntimeError("inside")
    assert progress._bar.disable  # tqdm sets it when it closes the bar
    assert "4/10" in capfd.readouterr().err


def test_a_bar_that_counted_nothing_disappears_with_the_error(capfd):
    with pytest.raises(RuntimeError, match="inside"), Progress(1, "work", 10):
        raise RuntimeError("inside")
    assert capfd.readouterr().err.rpartition("\r")[0].rstrip(" ").endswith("\r")


def test_fine_tuning_reaches_its_total(tiny_encoder, tiny_texts, counted, capfd):
    net = BertClassifier(tiny_encoder, max_length=16, max_epochs=2, batch_size=5, random_state=0)
    net.fit(tiny_texts, [1, 0] * 12)
    assert [(entry["total"], entry["done"]) for entry in counted] == [(48, 48)]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "n_nets"), [("bert", 1), ("self_pretraining", 3), ("co_decomposition", 2)]
)
def test_a_prediction_counts_texts_by_batches(
    name, n_nets, tiny_encoder, tiny_texts, monkeypatch, capfd
):
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    net = BertClassifier(tiny_encoder, max_length=16, max_epochs=1, random_state=0)
    texts = [f"{text} shot" for text in tiny_texts]
    clf = net if name == "bert" else METHODS[name](net)
    clf.fit(texts[:8], [1, 0] * 4, X_unlabeled=None if clf is net else texts[8:])
    assert "prediction" not in capfd.readouterr().err
    plain = clf.predict_proba(texts)
    assert capfd.readouterr().err == ""
    counts = []
    advance = Progress.advance
    monkeypatch.setattr(Progress, "advance", lambda self, n: (counts.append(n), advance(self, n)))
    monkeypatch.setattr(_batching, "INFERENCE_TOKENS", {"cpu": 100})
    found = clf.set_params(verbose=1).predict_proba(texts)
    np.testing.assert_allclose(found, plain, atol=1e-5)
    assert "prediction: 100%" in capfd.readouterr().err
    assert sum(counts) == n_nets * len(texts)
    assert len(counts) >= 2 * n_nets


def test_self_pretraining_reaches_its_total(tiny_encoder, tiny_texts, counted, capfd):
    y = [1, 0] * 4 + [-1] * 16
    net = BertClassifier(tiny_encoder, max_length=16, batch_size=5)
    settings = {"step_size": 0.5, "finetune_epochs": 2, "random_state": 0}
    SelfPretrainingClassifier(net, **settings).fit(tiny_texts, y)
    (entry,) = counted
    # 2 epochs over 8 texts at the start. Each of two iterations labels its sample and the 8 texts,
    # and trains on the sample for 1 epoch and on the 8 texts for 2.
    assert entry["total"] == 16 + sum(2 * size + 8 + 16 for size in (8, 16))
    assert entry["done"] == entry["total"]
    assert capfd.readouterr() == ("", "")


def test_several_starts_fill_the_bar_once(tiny_encoder, tiny_texts, counted, monkeypatch):
    full = []

    def seen(self, n, advance=Progress.advance):
        advance(self, n)
        full.append(counted[-1]["done"] == counted[-1]["total"])

    monkeypatch.setattr(Progress, "advance", seen)
    net = BertClassifier(tiny_encoder, max_length=16, batch_size=5)
    settings = {"n_starts": 3, "max_iter": 0, "finetune_epochs": 2, "random_state": 0}
    SelfPretrainingClassifier(net, **settings).fit(tiny_texts, [1, 0] * 4 + [-1] * 16)
    assert full.count(True) == 1
    assert full[-1]
    assert counted[-1]["total"] == 3 * 2 * 8


def test_lines_are_shown_at_the_second_level_only(capfd):
    for verbose, shown in ((0, False), (1, False), (2, True)):
        with Progress(verbose, "work", 4) as progress:
            progress.line("a line of its own")
        out, err = capfd.readouterr()
        assert out == ""
        assert ("a line of its own\n" in err) == shown


def test_a_line_for_each_epoch(tiny_encoder, tiny_texts, capfd):
    net = BertClassifier(tiny_encoder, max_length=16, max_epochs=2, verbose=2, random_state=0)
    net.fit(tiny_texts, [1, 0] * 12)
    lines = re.findall(r"epoch (\d): loss (\d\.\d{4})\n", capfd.readouterr().err)
    assert lines == [(str(e["epoch"]), f"{e['train_loss']:.4f}") for e in net.history]
