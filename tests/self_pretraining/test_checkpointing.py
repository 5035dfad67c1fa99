"""Results from memory or a checkpoint equal those that are computed again."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from helpers.kills import KillAfter, Killed
from helpers.nets import mlp_net
from helpers.variants import variant
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold
from sklearn_spt.nets._kernels import plain
from sklearn_spt.self_pretraining import _classifier
from sklearn_spt.self_pretraining._checkpointing import Checkpoint, fit_key, recall

N = 120


class Counts(Callback):
    """Counts training batches of all nets of the process."""

    batches = 0

    def on_batch_end(self, net, training=False, **kwargs):
        Counts.batches += training


@pytest.fixture
def data():
    X, y = make_classification(N, n_features=20, n_informative=5, random_state=0)
    partial = y.copy()
    partial[30:] = -1
    return X.astype(np.float32), partial


def model(**params):
    net = mlp_net(module__n_in=20, callbacks=[("counts", Counts())])
    return variant(net, **{"step_size": 30, "random_state": 0, **params})


def fitted(data, **params):
    """The model and the number of training batches that its fit took."""
    Counts.batches = 0
    return model(**params).fit(*data), Counts.batches


def timeless(history):
    return [{k: v for k, v in entry.items() if k != "seconds"} for entry in history]


def assert_same(one, other, X):
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.transduction_, other.transduction_)
    np.testing.assert_array_equal(one.labeled_iter_, other.labeled_iter_)
    assert timeless(one.history_) == timeless(other.history_)
    assert one.termination_condition_ == other.termination_condition_
    for a, b in zip(one.estimators_, other.estimators_, strict=True):
        np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
        assert len(a.history) == len(b.history)


# -- memory --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"lam": 0.9, "alpha": 0.5},
        {"switch": "one stage"},
        {"switch": "no distillation"},
        {"switch": "kept optimizer"},
        {"switch": "slanted"},
        {"pretrain_epochs": 2, "finetune_epochs": 1},
        {"max_iter": 0},
        {"step_size": 1.0, "alpha": 0.0},
    ],
)
def test_a_fit_from_memory_is_the_fit_without(data, tmp_path, params):
    plain, batches = fitted(data, **params)
    first, as_many = fitted(data, memory=str(tmp_path), **params)
    again, fewer = fitted(data, memory=str(tmp_path), **params)
    assert as_many == batches
    assert fewer < batches
    assert_same(plain, first, data[0])
    assert_same(plain, again, data[0])


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        ({"lam": 0.7}, "start and stage 1"),
        ({"alpha": 0.9}, "start and stage 1"),
        ({"max_iter": 2}, "start and stage 1"),
        ({"logit_adjustment": 0.3}, "start and stage 1"),
        ({"verbose": 1}, "start and stage 1"),
        ({"temperature": 3.0}, "start"),
        ({"step_size": 45}, "start"),
        ({"pretrain_epochs": 2}, "start"),
        ({"switch": "kept optimizer"}, "start"),
        ({"finetune_epochs": 2}, "nothing"),
        ({"random_state": 1}, "nothing"),
        ({"balanced_batches": False}, "nothing"),
    ],
)
def test_only_what_does_not_depend_on_a_parameter_is_shared(data, tmp_path, change, shared):
    memory = str(tmp_path)
    fitted(data, memory=memory)
    there, fewer = fitted(data, memory=memory, **change)
    plain, batches = fitted(data, **change)
    assert_same(plain, there, data[0])
    start = 4 * there.finetune_epochs  # 30 rows in batches of 8
    saved = {"nothing": 0, "start": start, "start and stage 1": start + 4}[shared]
    assert batches - fewer == saved


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


def test_tensors_among_the_parameters_are_hashed_by_value():
    code = (
        "import torch; from helpers.nets import mlp_net;"
        "from sklearn_spt.self_pretraining._checkpointing import fit_key;"
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


def test_the_key_changes_with_the_precision_of_auto(tiny_checkpoint, monkeypatch):
    net = BertClassifier(tiny_checkpoint)
    keys = set()
    for precision in ("fp32", "bf16"):
        monkeypatch.setattr(
            "sklearn_spt.self_pretraining._checkpointing.resolve_precision",
            lambda *a, p=precision: p,
        )
        keys.add(fit_key(net))
    assert len(keys) == 2
    assert fit_key(net.set_params(device=None)) not in keys


def test_the_key_changes_with_the_files_of_the_encoder(tiny_checkpoint, tmp_path):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_checkpoint, folder)
    net = BertClassifier(str(folder))
    before = fit_key(net)
    assert before == fit_key(BertClassifier(str(folder), random_state=3))
    os.utime(folder / "model.safetensors", (1, 1))
    assert fit_key(net) != before


def test_parallel_processes_share_a_memory(data, tmp_path):
    scores = []
    for params, n_jobs in (({}, None), ({"memory": joblib.Memory(tmp_path, verbose=0)}, 2)):
        grid, splits = {"lam": [0.1, 0.9], "alpha": [0.0, 0.5]}, SemiSupervisedStratifiedKFold(2)
        search = GridSearchCV(model(**params), grid, cv=splits, refit=False, n_jobs=n_jobs)
        scores.append(search.fit(*data).cv_results_["mean_test_score"])
    np.testing.assert_array_equal(*scores)


def test_the_progress_bar_is_full_after_a_resumed_fit(data, tmp_path, capfd):
    for params in ({"memory": str(tmp_path / "memory")}, {"checkpoint_dir": tmp_path / "state"}):
        with pytest.raises(Killed):
            model(on_iteration=KillAfter(1), **params).fit(*data)
        capfd.readouterr()
        fitted(data, verbose=1, **params)
        assert "100%" in capfd.readouterr().err.split("\r")[-1]


def test_an_error_is_not_stored(tmp_path):
    memory = joblib.Memory(tmp_path, verbose=0)

    def broken():
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        recall(memory, "x", "key", broken)
    assert recall(memory, "x", "key", lambda: 5) == (5, False)
    assert recall(memory, "x", "key", broken) == (5, True)
    assert recall(memory, "y", "key", lambda: 6) == (6, False)


# -- checkpoints ---------------------------------------------------------------------------------
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
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[1])!r}]
from test_checkpointing import data, model
def kill(iteration):
    if iteration.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
model(checkpoint_dir={str(tmp_path)!r}, on_iteration=kill).fit(*data.__wrapped__())
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


@pytest.mark.parametrize(
    ("content", "why"), [(b"cut off", ""), (pickle.dumps([1, 2]), "it is not a checkpoint")]
)
def test_a_damaged_checkpoint_raises_and_stays(data, tmp_path, content, why):
    with pytest.raises(Killed):
        model(checkpoint_dir=tmp_path, on_iteration=KillAfter(1)).fit(*data)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    message = rf"{file.name} of checkpoint_dir cannot be read \({why}.*\); remove it"
    with pytest.raises(ValueError, match=message):
        model(checkpoint_dir=tmp_path).fit(*data)
    assert file.exists()


def test_a_failed_save_keeps_the_previous_checkpoint(tmp_path):
    checkpoint = Checkpoint(tmp_path, "key")
    state = {"state": {"t": 1}, "watched": []}
    checkpoint.save(state)
    with pytest.raises(Exception, match=r"pickle|local"):
        checkpoint.save({**state, "watched": lambda: None})
    assert checkpoint.load() == state
    assert list(tmp_path.iterdir()) == [checkpoint.path]
    checkpoint.remove()
    checkpoint.remove()
    assert checkpoint.load() is None


# -- parameters ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["memory", "checkpoint_dir"])
@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)])
def test_a_seed_is_needed(data, tmp_path, name, seed):
    with pytest.raises(ValueError, match=f"{name} needs an integer random_state, got"):
        model(**{name: str(tmp_path), "random_state": seed}).fit(*data)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"memory": __file__}, ValueError, "memory must be a folder, but .*py' is a file"),
        ({"checkpoint_dir": __file__}, ValueError, "checkpoint_dir must be a folder, but .*py' is"),
        ({"checkpoint_dir": 3}, TypeError, "checkpoint_dir must be a path or None, got 3"),
        ({"memory": 3}, ValueError, "memory"),
    ],
)
def test_bad_folders(data, params, error, match):
    with pytest.raises(error, match=match):
        model(**params).fit(*data)


def test_a_net_that_cannot_be_pickled_raises(data, tmp_path):
    net = mlp_net(module__n_in=20, callbacks=[("bad", type("Local", (Callback,), {})())])
    clf = SelfPretrainingClassifier(net, random_state=0, memory=str(tmp_path))
    with pytest.raises(ValueError, match="memory and checkpoint_dir need data and an estimator"):
        clf.fit(*data)
