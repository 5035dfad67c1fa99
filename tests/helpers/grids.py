"""Made-up data and a small grid of cells."""

from __future__ import annotations

import csv

import pytest

from sklearn_spt.datasets import make_short_texts


@pytest.fixture(scope="session")
def posts(tmp_path_factory):
    """A file of made-up texts, with keywords."""
    bunch = make_short_texts(400, random_state=0)
    path = tmp_path_factory.mktemp("posts") / "posts.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "keyword"])
        for text, label in zip(bunch.data, bunch.target, strict=True):
            writer.writerow([text, "yes" if label else "no", "flu"])
    return path


@pytest.fixture
def arguments(posts, tiny_long_encoder, tmp_path):
    """The command line of a small grid, but for the methods."""
    return [
        "run",
        f"--data={posts}",
        f"--encoder={tiny_long_encoder}",
        "--n-labeled=40",
        "--n-unlabeled=60",
        "--n-test=80",
        "--positive=yes",
        "--keyword-column=keyword",
        f"--out={tmp_path / 'records'}",
        "--n-threads=1",
        "--quiet",
    ]
