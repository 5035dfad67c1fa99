"""Pseudo-labels whose classes have the shares of the labels."""

from __future__ import annotations

from typing import Any

import numpy as np


def aligned(P: Any, shares: Any, strength: float) -> Any:
    """Multiply the probabilities of each class by a factor and scale the rows to sum 1.

    At strength 1 the means of the columns are `shares`. At strength 0.5 the factors are the square
    roots of these.
    """
    factors = np.ones(len(shares))
    for _ in range(1000):
        scaled = P * factors
        ratio = shares / (scaled / scaled.sum(axis=1, keepdims=True)).mean(axis=0)
        factors *= ratio / ratio[0]  # only ratios of factors matter
        if np.allclose(ratio, 1, rtol=0, atol=1e-6):
            break
    scaled = P * factors**strength
    return scaled / scaled.sum(axis=1, keepdims=True)


def drawn_classes(P: Any, rng: np.random.Generator) -> Any:
    """Draw a class of each row by its probabilities."""
    return (rng.random((len(P), 1)) > P[:, :-1].cumsum(axis=1)).sum(axis=1)
