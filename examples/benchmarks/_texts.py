"""The texts that the benchmarks measure on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sklearn_spt import TweetNormalizer
from sklearn_spt.datasets import fetch_illness, make_short_texts


def texts_of(
    n: int, data: str | Path | None = None, *, normalize: bool = False
) -> tuple[str, np.ndarray, np.ndarray]:
    """Name of the data, texts and classes.

    These are illness tweets, prepared as in the paper with `normalize`, or made-up posts if the
    tweets are missing. `data` ("illness" or "generated") sets which, or names a file of `gpu.py`.
    """
    if isinstance(data, Path):
        with data.open(encoding="utf-8") as stream:
            rows = [json.loads(line) for line in stream][:n]
        texts, labels = zip(*rows, strict=True)
        return "packed texts", np.array(texts, dtype=object), np.array(labels)
    if data != "generated":
        try:
            texts, y = fetch_illness(download_if_missing=False, return_X_y=True)
        except OSError:
            if data == "illness":
                raise SystemExit(
                    "The illness tweets are not on this machine: call "
                    "sklearn_spt.datasets.fetch_illness() once, or use --data generated."
                ) from None
        else:
            rows = np.random.default_rng(0).permutation(len(texts))[:n]
            texts, y = texts[rows], y[rows]
            if normalize:
                texts = np.asarray(TweetNormalizer().fit_transform(texts), dtype=object)
            return "illness tweets", texts, y
    texts, y = make_short_texts(n, random_state=0, return_X_y=True)
    return "made-up posts", np.asarray(texts, dtype=object), np.asarray(y)
