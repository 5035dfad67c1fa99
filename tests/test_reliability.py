"""Kills, interrupts and damage at random: nothing is lost, and nothing is wrong in silence.

Each test has a short form. The counts of docs/reliability.md are taken by
``SKLEARN_SPT_RELIABILITY=full python -m pytest -m reliability -s``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.kills import KillAfter, Killed, assert_same, model, numbers

pytestmark = pytest.mark.reliability

FULL = os.environ.get("SKLEARN_SPT_RELIABILITY") == "full"


def count(short, full):
    """How often a test repeats."""
    return full if FULL else short


def parts(n):
    """Mark a test that the full form repeats with `n` seeds, each of which counts by itself."""
    return pytest.mark.parametrize("seed", range(n if FULL else 1))


def campaign(what, n, seed, folder, *encoder):
    """Run helpers.campaigns in a process of its own, and return what it counted."""
    tests = Path(__file__).parent
    paths = os.pathsep.join([str(tests), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "helpers.campaigns", what, str(n), str(seed), str(folder), *encoder],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    print(f"\n{what}{' of BERT' if encoder else ''}, seed {seed}: {counts}")
    assert counts["cut"] >= n, done.stderr
    assert (counts["different"], counts["left"], counts["failed"]) == (0, 0, 0), done.stderr
    return counts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@parts(5)
def test_killed_fits_end_with_the_same_bits(seed, tmp_path):
    assert campaign("kills", count(6, 50), seed, tmp_path)["in a write"] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@parts(2)
def test_killed_fits_of_bert_end_with_the_same_bits(seed, tmp_path, tiny_encoder):
    assert campaign("kills", count(2, 25), seed, tmp_path, tiny_encoder)["different"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no such signals")
@parts(5)
def test_interrupted_fits_end_with_the_same_bits(seed, tmp_path):
    assert campaign("interrupts", count(8, 200), seed, tmp_path)["different"] == 0


def damaged(content, other, rng):
    """The content with one bit flipped, a part lost, zeroed or doubled, or of another file."""
    content = bytearray(content)
    place = int(rng.integers(len(content)))
    how = rng.choice(["bit", "bit", "bit", "cut", "zeros", "doubled", "other"])
    if how == "bit":
        content[place] ^= 1 << int(rng.integers(8))
    elif how == "cut":
        del content[place:]
    elif how == "zeros":
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    elif how == "doubled":
        content[place:place] = content[: place + 1]
    else:
        content[:] = other
    return bytes(content)


def test_damaged_states_are_refused(tmp_path):
    data, rng, refused = numbers(), np.random.default_rng(0), 0
    plain = model().fit(*data)
    states = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        with pytest.raises(Killed):
            model(checkpoint_dir=folder, random_state=seed, on_iteration=KillAfter(2)).fit(*data)
        states += folder.iterdir()
    state, foreign = states
    files = sorted(file.name for file in state.iterdir() if file.name != "lock")
    for _ in range(count(20, 500)):
        name = rng.choice(files)
        content = (state / name).read_bytes()
        other = (foreign / rng.choice(files)).read_bytes()
        (state / name).write_bytes(damaged(content, other, rng))
        if (state / name).read_bytes() != content:  # zeros may stand in the place of zeros
            with pytest.raises(ValueError, match="Remove the folder") as caught:
                model(checkpoint_dir=tmp_path / "0").fit(*data)
            assert str(state / name) in str(caught.value)
            refused += 1
        (state / name).write_bytes(content)
    print(f"\ndamaged states: {refused} refused")
    assert refused > 0
    assert_same(plain, model(checkpoint_dir=tmp_path / "0").fit(*data), data[0])


def test_damaged_entries_of_memory_are_computed_again(tmp_path):
    data, rng, warned = numbers(), np.random.default_rng(0), 0
    plain = model().fit(*data)
    filled = tmp_path / "filled"
    model(memory=filled).fit(*data)
    files = sorted(file.relative_to(filled) for file in filled.rglob("*") if file.is_file())
    entries = [file for file in files if file.name == "output.pkl"]
    for number in range(count(10, 100)):
        memory = tmp_path / str(number)
        shutil.copytree(filled, memory)
        name = rng.choice(entries if rng.random() < 0.8 else files)
        other = (memory / rng.choice(files)).read_bytes()
        (memory / name).write_bytes(damaged((memory / name).read_bytes(), other, rng))
        with warnings.catch_warnings(record=True, action="always") as found:
            clf = model(memory=memory).fit(*data)
        assert_same(plain, clf, data[0])
        assert len(found) <= 1
        assert all("is damaged" in str(warning.message) for warning in found)
        warned += len(found)
        shutil.rmtree(memory)
    print(f"\ndamaged entries: {warned} computed again with a warning")
    assert warned > 0
