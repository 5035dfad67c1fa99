"""The result of every loader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch


def as_bunch(
    return_X_y: bool,
    names: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
    *,
    target_names: Sequence[str],
    **more: Any,
) -> Any:
    """Return rows with the columns `names`, and more, as a Bunch, or data and target alone."""
    bunch = Bunch(target_names=list(target_names), **more)
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        numeric = name in ("target", "year", "annotations")
        bunch[name] = np.array(column, dtype=np.int64 if numeric else object)
    return (bunch.data, bunch.target) if return_X_y else bunch
