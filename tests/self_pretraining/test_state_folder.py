"""A state is read whole or refused, and belongs to one fit and one process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.kills import KillAfter, Killed, assert_same, model, numbers, small_files

from sklearn_spt.self_pretraining import _state_folder
from sklearn_spt.self_pretraining._memory import make_folder
from sklearn_spt.self_pretraining._state_folder import StateFolder


@pytest.fixture
def data():
    return numbers()


@pytest.fixture
def no_patience(monkeypatch):
    monkeypatch.setattr(_state_folder, "_PATIENCE", 0.05)


def tensors(n=3):
    return {"a": torch.arange(float(n)), "b": torch.ones(2, dtype=torch.bool)}


def files(path):
    return sorted(file.name for file in path.rglob("*") if file.is_file())


# -- what is kept ----------------------------------------------------------------------------
def test_what_was_saved_comes_back(tmp_path):
    about = {"S": {0: (0.1, 2.0), 3: (1e-300, float("inf"))}, "text": "\u00e4\u2028", "none": None}
    with StateFolder(tmp_path, "key") as folder:
        folder.save(0, tensors(), about, {"t": 0, "of numpy": np.float32(0.1)}, [])
        folder.save(1, tensors(5), {}, {"t": 1}, [0])
    with StateFolder(tmp_path, "key") as folder:
        assert folder.load() == {"t": 1}
        found, beside = folder.read(0)
        assert beside == {**about, "S": {0: [0.1, 2.0], 3: [1e-300, float("inf")]}}
        assert {name: values.tolist() for name, values in found.items()} == {
            name: values.tolist() for name, values in tensors().items()
        }
        folder.save(2, tensors(), {}, {"t": 2}, [1])
        assert files(tmp_path) == ["1.safetensors", "2.safetensors", "lock", "state.jsonl"]
        folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_state_is_removed(tmp_path):
    with StateFolder(tmp_path / "new", "key") as folder:
        assert folder.load() is None
    assert list((tmp_path / "new").iterdir()) == []


def read_all(path):
    with StateFolder(path, "key") as folder:
        return folder.load(), folder.read(0), folder.read(1)


# -- damage ----------------------------------------------------------------------------------
def damaged(content, how, rng):
    content = bytearray(content)
    if how == "bit":
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    elif how == "cut":
        del content[rng.integers(len(content)) :]
    else:
        content += b"\n"
    return bytes(content)


@pytest.mark.parametrize("name", ["state.jsonl", "0.safetensors", "1.safetensors"])
def test_no_damaged_file_is_loaded(tmp_path, name):
    with StateFolder(tmp_path, "key") as folder:
        folder.save(0, tensors(), {"history": [1]}, {"t": 0}, [])
        folder.save(1, tensors(4), {"history": [1, 2]}, {"t": 1}, [0])
    file = folder.path / name
    content, rng = file.read_bytes(), np.random.default_rng(0)
    message = (
        rf"the state in checkpoint_dir is damaged: .*{name} \(.*\)\. Remove the folder .*key to"
    )
    for how in ["bit"] * 60 + ["cut"] * 20 + ["more"]:
        file.write_bytes(damaged(content, how, rng))
        with pytest.raises(ValueError, match=message):
            read_all(tmp_path)
    file.unlink()
    if name != "state.jsonl":
        with pytest.raises(ValueError, match=message):
            read_all(tmp_path)


def test_a_damaged_state_stays_and_the_fit_stays_unfitted(data, tmp_path):
    with pytest.raises(Killed):
        model(checkpoint_dir=tmp_path, on_iteration=KillAfter(1)).fit(*data)
    (state,) = tmp_path.iterdir()
    before = files(state)
    file = state / "0.safetensors"
    file.write_bytes(damaged(file.read_bytes(), "bit", np.random.default_rng(1)))
    clf = model(checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match=r"damaged: .*0\.safetensors \(its content does not match"):
        clf.fit(*data)
    assert files(state) == before
    assert not hasattr(clf, "classes_")
    shutil.rmtree(state)
    assert_same(model().fit(*data), clf.fit(*data), data[0])


def test_the_state_of_another_fit_is_refused(data, tmp_path):
    for seed in (0, 1):
        with pytest.raises(Killed):
            model(checkpoint_dir=tmp_path, random_state=seed, on_iteration=KillAfter(1)).fit(*data)
    one, other = tmp_path.iterdir()
    shutil.rmtree(one)
    other.rename(one)
    outcomes = []
    for seed in (0, 1):  # the one whose state is gone starts anew
        try:
            outcomes.append(model(checkpoint_dir=tmp_path, random_state=seed).fit(*data))
        except ValueError as error:
            outcomes.append(str(error))
    (refused,) = (message for message in outcomes if isinstance(message, str))
    assert "it belongs to another fit" in refused
    assert str(one) in refused


# -- interrupted writes ----------------------------------------------------------------------
def test_the_next_start_removes_what_was_not_finished(data, tmp_path):
    plain = model().fit(*data)
    with pytest.raises(Killed):
        model(checkpoint_dir=tmp_path, on_iteration=KillAfter(1)).fit(*data)
    (state,) = tmp_path.iterdir()
    for name in (".2.safetensors.part", ".state.jsonl.part", "2.safetensors"):
        (state / name).write_bytes(b"half")
    (state / "notes.txt").touch()  # not ours
    with pytest.raises(Killed):
        model(checkpoint_dir=tmp_path, on_iteration=KillAfter(2)).fit(*data)
    kept = ["0.safetensors", "1.safetensors", "2.safetensors", "lock", "notes.txt", "state.jsonl"]
    assert files(state) == kept
    (state / "notes.txt").unlink()
    (state / ".3.safetensors.part").write_bytes(b"half")
    assert_same(plain, model(checkpoint_dir=tmp_path).fit(*data), data[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_keeps_the_previous_state(tmp_path, monkeypatch, broken):
    def interrupt(*args):
        raise KeyboardInterrupt

    with StateFolder(tmp_path, "key") as folder:
        folder.save(0, tensors(), {}, {"t": 0}, [])
        before = files(folder.path)
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{broken}", interrupt)
            with pytest.raises(KeyboardInterrupt):
                folder.save(1, tensors(4), {}, {"t": 1}, [0])
        assert files(folder.path) == before
        assert folder.load() == {"t": 0}


def test_a_link_in_the_place_of_a_part_is_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    with StateFolder(tmp_path, "key") as folder:
        (folder.path / ".state.jsonl.part").symlink_to(target)
        folder.save(0, tensors(), {}, {"t": 0}, [])
        assert folder.load() == {"t": 0}
    assert target.read_text() == "mine"


def test_a_full_disk_warns_once_and_the_fit_goes_on(data, tmp_path):
    resource = pytest.importorskip("resource")
    plain = model().fit(*data)

    def fill(iteration):
        if iteration.number == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    message = "checkpoint_dir: the state after iteration 2 could not be written to"
    with small_files(resource, limits[0]), pytest.warns(UserWarning, match=message) as warned:
        clf = model(checkpoint_dir=tmp_path, on_iteration=fill).fit(*data)
    (warning,) = warned
    assert warning.filename == __file__
    assert_same(plain, clf, data[0])
    assert list(tmp_path.iterdir()) == []


# -- two at once -----------------------------------------------------------------------------
def test_two_live_fits_do_not_disturb_each_other(data, tmp_path, no_patience):
    plain = model().fit(*data)
    inner = []

    def fit_again(iteration):
        if iteration.number == 1:
            with pytest.warns(UserWarning, match="another process runs the same fit"):
                inner.append(model(checkpoint_dir=tmp_path).fit(*data))
            inner.append(model(checkpoint_dir=tmp_path, random_state=1).fit(*data))
            (state,) = tmp_path.iterdir()
            assert files(state) == ["0.safetensors", "1.safetensors", "lock", "state.jsonl"]

    clf = model(checkpoint_dir=tmp_path, on_iteration=fit_again).fit(*data)
    assert_same(plain, clf, data[0])
    assert_same(plain, inner[0], data[0])
    assert_same(model(random_state=1).fit(*data), inner[1], data[0])
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_waited_for_the_same_fit_begins_when_that_ends(tmp_path):
    def second():
        with StateFolder(tmp_path, "key") as folder:
            folder.save(0, tensors(), {}, {"t": 0}, [])
            return folder.load()

    with ThreadPoolExecutor(1) as pool:
        with StateFolder(tmp_path, "key"):
            waiting = pool.submit(second)
            time.sleep(0.2)
        # the first fit has removed its folder, which held no state
        assert waiting.result() == {"t": 0}


def test_a_folder_that_vanishes_at_the_start_is_made_again(tmp_path, monkeypatch):
    def vanishing(folder, name):
        make_folder(folder, name)
        folder.rmdir()  # as the same fit does when it ends just now

    monkeypatch.setattr(_state_folder, "make_folder", vanishing)
    with StateFolder(tmp_path, "key") as folder:
        folder.save(0, tensors(), {}, {"t": 0}, [])
        assert folder.load() == {"t": 0}


def test_a_killed_process_releases_its_folder(tmp_path, no_patience):
    code = f"""
import os, signal
from sklearn_spt.self_pretraining._state_folder import StateFolder
with StateFolder({str(tmp_path)!r}, "key") as folder:
    print(folder.usable, flush=True)
    input()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    with process:
        assert process.stdout.readline() == "True\n"
        folder = StateFolder(tmp_path, "key")
        with pytest.warns(UserWarning, match="another process"):
            folder.__enter__()
        assert not folder.usable
        assert folder.load() is None
        folder.save(0, tensors(), {}, {}, [])
        folder.remove()
        folder.__exit__()
        process.kill()
        process.wait()
        with StateFolder(tmp_path, "key") as folder:
            assert folder.usable
    assert list(tmp_path.iterdir()) == []
