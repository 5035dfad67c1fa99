"""One bar for training and labelling, or silence."""

from __future__ import annotations

import pytest

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._progress import Progress


def test_verbose_0_prints_nothing(capfd):
    with Progress(10, 0, "work") as progress:
        progress.advance(4)
        progress.say("iteration 1")
        progress.advance(6)
    assert capfd.readouterr() == ("", "")


def test_the_bar_goes_to_standard_error(capfd):
    with Progress(10, 1, "work") as progress:
        progress.advance(4)
        progress.say("iteration 1")
        progress.advance(6)
    out, err = capfd.readouterr()
    assert out == ""
    assert "work: 100%" in err
    assert "10/10" in err
    assert "iteration 1" in err


def test_the_bar_is_closed_after_an_error(capfd):
    progress = Progress(10, 1, "work")
    with pytest.raises(RuntimeError, match="inside"), progress:  # noqa: PT012
        progress.advance(4)
        raise RuntimeError("inside")
    assert progress._bar.disable  # tqdm's word for closed
    assert "4/10" in capfd.readouterr().err


def test_fine_tuning_reaches_its_total(tiny_checkpoint, tiny_texts, counted, capfd):
    net = BertClassifier(tiny_checkpoint, max_length=16, max_epochs=2, batch_size=5, random_state=0)
    net.fit(tiny_texts, [1, 0] * 12)
    assert [(entry["total"], entry["done"]) for entry in counted] == [(48, 48)]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("two_stage", [True, False])
def test_self_pretraining_reaches_its_total(tiny_checkpoint, tiny_texts, counted, capfd, two_stage):
    y = [1, 0] * 4 + [-1] * 16
    net = BertClassifier(tiny_checkpoint, max_length=16, batch_size=5)
    settings = {"step_size": 0.5, "finetune_epochs": 2, "two_stage": two_stage}
    settings["teacher"] = "last_student"
    model = SelfPretrainingClassifier(net, random_state=0, **settings)
    model.fit(tiny_texts, y)
    (entry,) = counted
    # 2 epochs over 8 texts at the start; then each of two iterations labels its sample and the 8,
    # trains on the sample (1 epoch, or 2 in one stage) and for 2 epochs on the 8
    on_sample = 1 if two_stage else 2
    assert entry["total"] == 16 + sum((1 + on_sample) * size + 8 + 16 for size in (8, 16))
    assert entry["done"] == entry["total"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("n_starts", "ensemble"), [(1, "with_start"), (2, "last_two")])
def test_the_bar_counts_each_net_that_teaches(
    tiny_checkpoint, tiny_texts, counted, n_starts, ensemble
):
    y = [1, 0] * 4 + [-1] * 16
    model = SelfPretrainingClassifier(
        BertClassifier(tiny_checkpoint, max_length=16, batch_size=5),
        step_size=6,
        teacher="ensemble",
        n_starts=n_starts,
        ensemble=ensemble,
        random_state=0,
    )
    model.fit(tiny_texts, y)
    (entry,) = counted
    # after the starts, and after the first and the second student
    teachers = [n_starts, n_starts + 1, 3 if ensemble == "with_start" else 2]
    sizes = [6, 12, 16]
    trained = 3 * 8 * (n_starts + 3) + sum(sizes)
    labelled = sum(n * (size + 8) for n, size in zip(teachers, sizes, strict=True))
    assert entry["total"] == entry["done"] == trained + labelled


def test_verbose_fit_shows_one_full_bar(tiny_checkpoint, tiny_texts, capfd):
    net = BertClassifier(tiny_checkpoint, max_length=16, max_epochs=1, verbose=1, random_state=0)
    net.fit(tiny_texts, [1, 0] * 12)
    out, err = capfd.readouterr()
    assert out == ""
    assert "fine-tuning: 100%" in err
    assert "24/24" in err
