"""What a table is made of: values, columns, rows and notes; and means over the seeds of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_spt.experiments import _paper
from sklearn_spt.inspection._grouping import Record, finite

#: What a number is, and with it how it is written: a difference has a sign, and so has an interval.
ColumnKind = Literal["text", "integer", "measure", "number", "difference", "interval"]


@dataclass(frozen=True)
class Measure:
    """Mean over seeds; `sd` (n - 1) is None for fewer than two."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Column:
    """Key in CSV, heading elsewhere, and what stands in it."""

    key: str
    heading: str
    kind: ColumnKind


@dataclass(frozen=True)
class Interval:
    """A mean with the ends of its interval, which are None for a single value."""

    mean: float
    low: float | None
    high: float | None


Value = str | int | float | Measure | Interval | None


@dataclass(frozen=True)
class Table:
    """Rows of values, and what has to be said below them."""

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
    """Sort methods as their labels stand, unknown ones last."""
    order = list(_paper.LABELS)
    return sorted(methods, key=lambda m: (order.index(m) if m in order else len(order), m))
