"""The parts of a table: values, columns, rows and notes; and means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_spt.experiments import _paper
from sklearn_spt.inspection._grouping import Record, finite

#: Kind of a column. It sets the format: differences and intervals have a sign.
ColumnKind = Literal["text", "integer", "measure", "number", "difference", "interval"]


@dataclass(frozen=True)
class Measure:
    """Mean over seeds; `sd` (n - 1) is None for fewer than two."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Column:
    """A column; the key is its heading in CSV."""

    key: str
    heading: str
    kind: ColumnKind


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its interval, None for a single value."""

    mean: float
    low: float | None
    high: float | None


Value = str | int | float | Measure | Interval | None


@dataclass(frozen=True)
class Table:
    """A table; the rows of a block agree in the first `n_keys` columns."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...]
    n_keys: int = 2


KEYS = (Column("dataset", "data set", "text"), Column("n_labeled", "labelled", "integer"))


def measure(group: Sequence[Record] | None, metric: str) -> Measure | None:
    """Mean and sd of a score over records; None without records."""
    if not group:
        return None
    values = [score(record, metric) for record in group]
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Measure(float(np.mean(values)), sd, len(values))


def score(record: Record, metric: str = "f1") -> float:
    """Score of a finished record."""
    return finite(record, record.get("scores") or {}, metric, "scores")


def in_order(methods: Iterable[str]) -> list[str]:
    """Sort methods in the order of the labels, unknown ones last."""
    order = list(_paper.LABELS)
    return sorted(methods, key=lambda m: (order.index(m) if m in order else len(order), m))
