"""Equal keys mean equal results: what changes a result changes the key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from helpers.kills import Counts, numbers
from helpers.nets import mlp_net

from sklearn_spt import BertClassifier
from sklearn_spt.nets._kernels import plain
from sklearn_spt.self_pretraining._fit_key import fit_key


@pytest.fixture
def data():
    return numbers()


def test_the_key_changes_with_data_net_seed_and_kernels(data):
    X, y = data
    net = mlp_net()
    base = fit_key(net, X=X, y=y)
    assert base == fit_key(mlp_net(), X=X.copy(), y=y.copy())
    assert base == fit_key(mlp_net(verbose=3), X=X, y=y)
    other = X.copy()
    other[3, 2] += 1e-6
    keys = [
        fit_key(net, X=other, y=y),
        fit_key(net, X=X, y=y[::-1]),
        fit_key(mlp_net(lr=0.01), X=X, y=y),
        fit_key(mlp_net(callbacks=[("counts", Counts())]), X=X, y=y),
        fit_key(net, X=X, y=y, seed=1),
    ]
    with plain("dropout"):
        keys.append(fit_key(net, X=X, y=y))
    assert len({base, *keys}) == 7


def test_what_cannot_be_pickled_is_named_in_a_few_words(data):
    X, y = data
    with pytest.raises(ValueError, match=r"that can be pickled: .*lambda.*top level") as error:
        fit_key(mlp_net(callbacks=[("scores", lambda net: 0)]), X=X, y=y)
    assert len(str(error.value)) < 500


def test_tensors_among_the_parameters_are_hashed_by_value():
    code = (
        "import torch; from helpers.nets import mlp_net;"
        "from sklearn_spt.self_pretraining._fit_key import fit_key;"
        "print(fit_key(mlp_net(optimizer__betas=(torch.arange(3.0), 1))))"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1]
    ).stdout.strip()
    one, same, other = (
        fit_key(mlp_net(optimizer__betas=(torch.arange(n), 1))) for n in (3.0, 3.0, 4.0)
    )
    assert one == same == there
    assert one != other


def test_the_key_changes_with_the_precision_of_auto(tiny_encoder, monkeypatch):
    net = BertClassifier(tiny_encoder)
    keys = set()
    for precision in ("fp32", "bf16"):
        monkeypatch.setattr(
            "sklearn_spt.self_pretraining._fit_key.resolve_precision",
            lambda *a, p=precision: p,
        )
        keys.add(fit_key(net))
    assert len(keys) == 2
    assert fit_key(net.set_params(device=None)) not in keys


@pytest.mark.parametrize("kind", [str, Path])
def test_the_key_changes_with_the_files_of_the_encoder(tiny_pooling_encoder, tmp_path, kind):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_pooling_encoder, folder)
    net = BertClassifier(kind(folder))
    before = fit_key(net)
    assert before == fit_key(BertClassifier(kind(folder), random_state=3))
    (folder / ".cache").mkdir()  # what tools leave there is no part of the encoder
    (folder / ".cache" / "lock").touch()
    assert fit_key(net) == before
    os.utime(folder / "model.safetensors", (1, 1))
    weights = fit_key(net)
    os.utime(folder / "1_Pooling" / "config.json", (1, 1))
    assert len({before, weights, fit_key(net)}) == 3


@pytest.mark.parametrize(
    "library", ["sklearn-spt", "numpy", "scikit-learn", "tokenizers", "torch", "transformers"]
)
def test_the_key_changes_with_the_versions(monkeypatch, library):
    before = fit_key(mlp_net())
    assert fit_key(mlp_net()) == before
    monkeypatch.setattr(
        "sklearn_spt.self_pretraining._fit_key.version",
        lambda name: "0.0" if name == library else version(name),
    )
    assert fit_key(mlp_net()) != before
