"""Results from memory equal those that are computed again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.kills import (
    Counts,
    KillAfter,
    Killed,
    assert_same,
    fitted,
    model,
    numbers,
    small_files,
)
from helpers.nets import bert_net, mlp_net
from helpers.variants import variant
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback, EarlyStopping

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold
from sklearn_spt.self_pretraining._memory import open_memory, recall


@pytest.fixture
def data():
    return numbers()


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


def test_a_kept_optimizer_is_not_kept_in_a_memory(tiny_encoder, tiny_texts, tmp_path):
    """A pickle of a net lacks the moments of its optimiser."""
    y = [i % 2 if i < 12 else -1 for i in range(24)]

    def probabilities(memory):
        net = bert_net(tiny_encoder)
        clf = variant(net, "kept optimizer", step_size=0.5, memory=memory, random_state=0)
        return clf.fit(tiny_texts, y).predict_proba(tiny_texts)

    expected = probabilities(None)
    for _ in range(2):
        np.testing.assert_array_equal(probabilities(tmp_path), expected)


def test_students_with_and_without_deletion_share_their_teacher_alone(
    tiny_encoder, tiny_texts, tmp_path
):
    y = [i % 2 if i < 12 else -1 for i in range(24)]

    def probabilities(memory, share):
        net = bert_net(tiny_encoder)
        settings = {"step_size": 0.5, "token_deletion": share, "random_state": 0}
        clf = SelfPretrainingClassifier(net, memory=memory, **settings)
        return clf.fit(tiny_texts, y).predict_proba(tiny_texts)

    for share in (0.0, 0.5, 0.5):
        expected = probabilities(None, share)
        np.testing.assert_array_equal(probabilities(tmp_path, share), expected)


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


# -- interrupts ----------------------------------------------------------------------------------
class Interrupts(Callback):
    """Interrupts the first stage in which it is told to, as Ctrl-C does."""

    left = 0

    def on_epoch_end(self, net, **kwargs):
        if Interrupts.left:
            Interrupts.left -= 1
            if not Interrupts.left:
                raise KeyboardInterrupt


@pytest.mark.parametrize("epoch", [1, 2, 4])  # in the start, and in stage 1
def test_an_interrupted_stage_is_not_stored(data, tmp_path, monkeypatch, epoch):
    net = mlp_net(module__n_in=20, callbacks=[("interrupt", Interrupts())])
    clf = SelfPretrainingClassifier(net, step_size=30, random_state=0)
    plain = clone(clf).fit(*data)
    clf.set_params(memory=str(tmp_path))
    monkeypatch.setattr(Interrupts, "left", epoch)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*data)
    assert_same(plain, clf.fit(*data), data[0])
    assert_same(plain, clf.fit(*data), data[0])


def test_a_stage_that_early_stopping_ends_is_stored(data, tmp_path):
    stop = EarlyStopping("train_loss", patience=1, threshold=0.9)
    net = mlp_net(module__n_in=20, callbacks=[("counts", Counts()), ("stop", stop)])
    clf = SelfPretrainingClassifier(net, step_size=30, finetune_epochs=5, random_state=0)
    Counts.batches = 0
    plain, batches = clone(clf).fit(*data), Counts.batches
    assert len(plain.history_[0]["loss"]["supervised"]) < 5
    clf.set_params(memory=str(tmp_path)).fit(*data)
    Counts.batches = 0
    assert_same(plain, clf.fit(*data), data[0])
    assert 0 < Counts.batches < batches


# -- damage --------------------------------------------------------------------------------------
def entries(folder):
    """The stored results, by size."""
    return sorted(folder.rglob("output.pkl"), key=lambda file: file.stat().st_size)


@pytest.mark.parametrize("where", ["start", "middle", "end", "cut", "empty", "other"])
def test_a_damaged_entry_is_computed_again(data, tmp_path, where):
    plain, batches = fitted(data, memory=str(tmp_path))
    small, file, _ = entries(tmp_path)
    content = bytearray(file.read_bytes())
    if where in ("cut", "empty"):
        del content[len(content) // 2 if where == "cut" else 0 :]
    elif where == "other":
        content[:] = small.read_bytes()
    else:
        content[{"start": 12, "middle": len(content) // 2, "end": -3}[where]] ^= 1
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"memory='.*': the entry '\w+' is damaged \(.*\), so it"):
        again, _ = fitted(data, memory=str(tmp_path))
    assert_same(plain, again, data[0])
    mended, fewer = fitted(data, memory=str(tmp_path))
    assert fewer < batches
    assert_same(plain, mended, data[0])


def test_a_full_disk_warns_and_leaves_no_part(tmp_path):
    resource = pytest.importorskip("resource")
    memory = open_memory(tmp_path)
    large = np.random.default_rng(0).normal(size=2000)
    message = (
        r"memory='.*': the entry 'x' could not be stored \(.*File too large.*; the fit goes on"
    )
    with small_files(resource, 4000), pytest.warns(UserWarning, match=message):
        assert recall(memory, "x", "key", lambda: large) == (large, False)
    assert list(tmp_path.rglob("output.pkl*")) == []
    recall(memory, "x", "key", lambda: large)
    np.testing.assert_array_equal(recall(memory, "x", "key", None)[0], large)


# -- folders -------------------------------------------------------------------------------------
def test_a_new_folder_belongs_to_the_user_alone(data, tmp_path):
    old = os.umask(0o002)
    try:
        for memory in (tmp_path / "new", str(tmp_path / "new")):
            model(memory=memory).fit(*data)
            found = entries(tmp_path / "new")
    finally:
        os.umask(old)
    for folder in (tmp_path / "new", tmp_path / "new" / "joblib"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert found == entries(tmp_path / "new") != []  # a path and a str name the same folder


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no such permissions")
@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("kind", [str, lambda folder: joblib.Memory(folder, verbose=0)])
def test_a_folder_that_others_may_write_to_is_refused(data, tmp_path, mode, kind):
    clf = model(memory=kind(tmp_path))
    tmp_path.chmod(mode)
    with pytest.raises(ValueError, match=r"memory='.*' can be written to by other.*chmod go-w"):
        clf.fit(*data)
    assert entries(tmp_path) == []
    tmp_path.chmod(0o700)
    assert clf.fit(*data).n_iter_ == 3


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners")
def test_a_folder_of_another_user_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ValueError, match=r"memory='.*' belongs to another user.*of your own"):
        model(memory=str(tmp_path)).fit(*data)


def test_a_folder_in_the_home_is_checked_and_used_there(data, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    kept = []
    watched = model(
        memory="~/memory",
        checkpoint_dir="~/state",
        on_iteration=lambda _: kept.append(any((tmp_path / "state").rglob("*.safetensors"))),
    )
    watched.fit(*data)
    assert kept
    assert all(kept)
    assert any((tmp_path / "memory").rglob("*.pkl"))
    assert list((tmp_path / "here").iterdir()) == []
    if hasattr(os, "getuid"):
        (tmp_path / "memory").chmod(0o777)
        with pytest.raises(ValueError, match="can be written to by other"):
            model(memory="~/memory").fit(*data)


@pytest.mark.parametrize("name", ["memory", "checkpoint_dir"])
def test_an_unusable_folder_is_found_before_training(data, tmp_path, name):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "below"
    Counts.batches = 0
    with pytest.raises(
        ValueError, match=f"{name} cannot be used: nothing can be written to .*belo"
    ):
        model(**{name: folder}).fit(*data)
    assert Counts.batches == 0


@pytest.mark.parametrize("name", ["memory", "checkpoint_dir"])
@pytest.mark.parametrize(
    "place",
    ["x" * 100_000, Path("x" * 100_000), ["x" * 100_000], "a\0b"]
    + ["\ud83d", "~nobody-here"] * (os.name == "posix"),  # Windows takes these
)
def test_a_name_that_no_folder_can_have_is_shown_in_short(data, name, place):
    with pytest.raises((TypeError, ValueError), match=name) as caught:
        model(**{name: place}).fit(*data)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["memory", "checkpoint_dir"])
def test_a_full_disk_is_found_before_training(data, tmp_path, name):
    resource = pytest.importorskip("resource")
    Counts.batches = 0
    with small_files(resource, 100), pytest.raises(ValueError, match=f"{name} cannot be used"):
        model(**{name: tmp_path}).fit(*data)
    assert Counts.batches == 0


# -- parameters ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["memory", "checkpoint_dir"])
@pytest.mark.parametrize("seed", [None, np.random.RandomState(0), "x" * 100_000])
def test_a_seed_is_needed(data, tmp_path, name, seed):
    with pytest.raises(ValueError, match=f"{name} needs an integer random_state, got") as caught:
        model(**{name: str(tmp_path), "random_state": seed}).fit(*data)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"memory": __file__}, ValueError, "memory must be a folder, but .*py' is a file"),
        ({"checkpoint_dir": __file__}, ValueError, "checkpoint_dir must be a folder, but .*py' is"),
        ({"checkpoint_dir": 3}, TypeError, "checkpoint_dir must be a path or None, got 3"),
        ({"memory": 3}, TypeError, "memory must be a path, a joblib.Memory or None, got 3"),
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
