"""A fit that is resumed from its state equals one that was not interrupted."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.kills import KillAfter, Killed, assert_same, fitted, model, numbers, timeless
from helpers.nets import MLP, bert_net, mlp_net
from safetensors.torch import load_file
from sklearn.base import clone
from skorch.callbacks import EarlyStopping
from torch import nn

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.self_pretraining import _classifier


@pytest.fixture
def data():
    return numbers()


@pytest.mark.parametrize("t", [0, 1, 2])
@pytest.mark.parametrize("params", [{}, {"switch": "no distillation"}, {"alpha": 0.9}])
def test_a_killed_fit_is_resumed(data, tmp_path, t, params):
    plain, batches = fitted(data, **params)
    clf = model(checkpoint_dir=tmp_path, on_iteration=KillAfter(t), **params)
    with pytest.raises(Killed):
        clf.fit(*data)
    assert not hasattr(clf, "classes_")
    (file,) = tmp_path.iterdir()
    done = plain.history_[: t + 1]
    resumed, rest = fitted(data, checkpoint_dir=tmp_path, **params)
    assert_same(plain, resumed, data[0])
    steps = 12 + sum(-(-entry["sample_size"] // 8) + 12 for entry in done[1:])
    assert rest == batches - steps
    assert not file.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_is_resumed(data, tmp_path):
    """SIGKILL after the second iteration; another process resumes the fit."""
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from helpers.kills import model, numbers
def kill(iteration):
    if iteration.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
model(checkpoint_dir={str(tmp_path)!r}, on_iteration=kill).fit(*numbers())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == -signal.SIGKILL, found.stderr
    plain, batches = fitted(data)
    resumed, rest = fitted(data, checkpoint_dir=tmp_path)
    assert_same(plain, resumed, data[0])
    assert 0 < rest < batches / 2


def test_the_key_of_a_checkpoint_covers_held_out_documents(data, tmp_path):
    X, y = data
    options = {"validation_fraction": 0.3}
    rows = []
    clf = model(checkpoint_dir=tmp_path, on_iteration=KillAfter(2), **options)
    with pytest.MonkeyPatch.context() as patch:
        original = _classifier.hold_out
        patch.setattr(
            _classifier, "hold_out", lambda *a, **k: rows.append(original(*a, **k)) or rows[0]
        )
        with pytest.raises(Killed):
            clf.fit(X, y)
    other = X.copy()
    other[rows[0].valid] += 1.0
    with warnings.catch_warnings(action="ignore"):
        expected, batches = fitted((other, y), **options)
        resumed, as_many = fitted((other, y), checkpoint_dir=tmp_path, **options)
    assert as_many == batches
    assert timeless(resumed.history_) == timeless(expected.history_)


def test_another_fit_ignores_the_checkpoint(data, tmp_path):
    with pytest.raises(Killed):
        model(checkpoint_dir=tmp_path, on_iteration=KillAfter(1)).fit(*data)
    for other in ({"lam": 0.31}, {"random_state": 1}, {"max_iter": 2}):
        plain, batches = fitted(data, **other)
        there, as_many = fitted(data, checkpoint_dir=tmp_path, **other)
        assert as_many == batches
        assert_same(plain, there, data[0])
    assert len(list(tmp_path.iterdir())) == 1  # the checkpoint of the killed fit


# -- what a state holds --------------------------------------------------------------------------
def killed(folder, data, t=1, **params):
    """The folder of the state of a fit that was interrupted after iteration `t`."""
    with pytest.raises(Killed):
        model(checkpoint_dir=folder, on_iteration=KillAfter(t), **params).fit(*data)
    (found,) = folder.iterdir()
    return found


@pytest.mark.parametrize(
    ("params", "t", "numbers_of_nets"),
    [
        ({}, 0, [0]),
        ({}, 1, [0, 1]),
        ({}, 3, [0, 2, 3]),
        ({"ensemble": "last_two"}, 3, [2, 3]),
    ],
)
def test_a_state_holds_each_net_once_and_no_optimiser(data, tmp_path, params, t, numbers_of_nets):
    state = killed(tmp_path, data, t, **params)
    weights = [f"{n}.safetensors" for n in numbers_of_nets]
    assert sorted(file.name for file in state.iterdir()) == [*weights, "lock", "state.jsonl"]
    plain = model().fit(*data)
    for name in weights:
        tensors = load_file(state / name)
        net = {key for key in tensors if key.startswith("net0.")}
        assert net == {f"net0.module.{key}" for key in plain.students_[0].module_.state_dict()}
        assert set(tensors) - net == {"pseudo", "labeled_iter", "probe0"}


def test_the_best_state_is_kept_too(data, tmp_path, monkeypatch):
    scores = iter([0.1, 0.9, 0.2, 0.3, 0.4])
    monkeypatch.setattr("sklearn_spt._holdout.HoldOut.score", lambda self, P: next(scores))
    state = killed(tmp_path, data, 3, validation_fraction=0.3, ensemble="last_two")
    kept = sorted(file.stem for file in state.glob("*.safetensors"))
    assert kept == ["0", "1", "2", "3"]


def test_a_planted_pickle_does_not_run(data, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    folder = tmp_path / "state"
    state = killed(folder, data)
    for file in [*state.iterdir(), state.with_suffix(".pkl")]:
        before = file.read_bytes() if file.exists() else None
        file.write_bytes(pickle.dumps(Bomb()))
        if file.name == "lock" or file.suffix == ".pkl":
            file.unlink()
            continue
        with pytest.raises(ValueError, match="the state in checkpoint_dir is damaged"):
            model(checkpoint_dir=folder).fit(*data)
        file.write_bytes(before)
    assert not (tmp_path / "ran").exists()
    assert_same(model().fit(*data), model(checkpoint_dir=folder).fit(*data), data[0])


def test_labels_of_any_kind_come_back(data, tmp_path):
    X, y = data
    for kind, labels in enumerate([["a", "*pairs*"], [1.0, 3.0], [True, False]]):
        named = np.array([None if code < 0 else labels[code] for code in y], dtype=object)
        options = {"unlabeled_marker": None, "validation_fraction": 0.3}
        folder = tmp_path / str(kind)
        with warnings.catch_warnings(action="ignore"):
            plain = model(**options).fit(X, named)
            killed(folder, (X, named), **options)
            resumed = model(checkpoint_dir=folder, **options).fit(X, named)
        assert_same(plain, resumed, X)
        keys = [
            {type(key) for entry in clf.history_[1:] for key in entry["pseudo_label_counts"]}
            for clf in (plain, resumed)
        ]
        assert keys[0] == keys[1]


# -- nets of one's own ---------------------------------------------------------------------------
class Counting(MLP):
    """Normalises its input by a running mean, in a buffer that state_dict leaves out."""

    def __init__(self, n_in=20):
        super().__init__(n_in)
        self.norm = nn.BatchNorm1d(n_in)
        self.register_buffer("mean", torch.zeros(n_in), persistent=False)
        self.register_buffer("twice", torch.ones(n_in).expand(2, n_in))
        self.noise = torch.randn(n_in)  # neither parameter nor buffer, and drawn by the seed

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(dim=0)
        return super().forward(self.norm(x) - self.mean + self.noise * self.twice[0])


class Tied(MLP):
    """Uses one matrix twice."""

    def __init__(self, n_in=20):
        super().__init__(n_in, n_hidden=n_in)
        self.middle = nn.Linear(n_in, n_in)
        self.middle.weight = self.first.weight

    def forward(self, x):
        return super().forward(self.middle(x))


class Hiding(MLP):
    """Learns a number that is neither a parameter nor a buffer."""

    def __init__(self, n_in=20):
        super().__init__(n_in)
        self.steps = 0

    def forward(self, x):
        self.steps += self.training
        return super().forward(x) * (1 + self.steps)


class Complex(MLP):
    """Has a buffer of a kind that safetensors lack."""

    def __init__(self, n_in=20):
        super().__init__(n_in)
        self.register_buffer("spectrum", torch.zeros(2, dtype=torch.complex128))


@pytest.mark.parametrize(
    ("module", "callbacks"),
    [
        (Counting, []),
        (Tied, []),
        (MLP, [("stop", EarlyStopping("train_loss", patience=1, load_best=True))]),
    ],
)
@pytest.mark.parametrize("t", [0, 2])
def test_nets_of_ones_own_are_resumed(data, tmp_path, module, callbacks, t):
    net = mlp_net(module, module__n_in=20, callbacks=callbacks)
    clf = SelfPretrainingClassifier(net, step_size=30, finetune_epochs=4, random_state=0)
    plain = clone(clf).fit(*data)
    with pytest.raises(Killed):
        clone(clf).set_params(checkpoint_dir=tmp_path, on_iteration=KillAfter(t)).fit(*data)
    assert_same(plain, clf.set_params(checkpoint_dir=tmp_path).fit(*data), data[0])


@pytest.mark.parametrize(("module", "why"), [(Hiding, "predicts otherwise"), (Complex, "complex")])
def test_a_net_that_cannot_be_rebuilt_raises_at_once(data, tmp_path, module, why):
    net = mlp_net(module, module__n_in=20)
    clf = SelfPretrainingClassifier(net, checkpoint_dir=tmp_path, random_state=0)
    with pytest.raises(ValueError, match=f"checkpoint_dir cannot keep this net: .*{why}"):
        clf.fit(*data)
    assert list(tmp_path.iterdir()) == []
    assert clf.set_params(checkpoint_dir=None).fit(*data).n_iter_ == 5


def test_a_resumed_bert(tiny_encoder, tiny_texts, tmp_path):
    y = np.array([1, 0] * 4 + [-1] * 16)
    clf = SelfPretrainingClassifier(bert_net(tiny_encoder), step_size=8, random_state=0)
    plain = clone(clf).fit(tiny_texts, y)
    with pytest.raises(Killed):
        clone(clf).set_params(checkpoint_dir=tmp_path, on_iteration=KillAfter(1)).fit(tiny_texts, y)
    assert_same(plain, clf.set_params(checkpoint_dir=tmp_path).fit(tiny_texts, y), tiny_texts)
