"""The result of every loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch


def as_bunch(return_X_y: bool, *, target_names: Sequence[str], **columns: Any) -> Any:
    """Return columns as a Bunch, or data and target alone.

    Tuples become arrays: `target` and `year` of int64, the others of objects.
    """
    for name, values in columns.items():
        if isinstance(values, tuple):
            columns[name] = np.array(
                values, dtype=np.int64 if name in ("target", "year") else object
            )
    bunch = Bunch(**columns, target_names=list(target_names))
    return (bunch.data, bunch.target) if return_X_y else bunch
