"""Which records belong together: selection, grouping, and what must not be mixed in one mean.

A record is a dict with ``status``, ``cell`` (what was run) and, if it is done, its results. Pure:
dicts in, dicts out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

#: What two cells must share to stand in one comparison, besides what the comparison is about.
SETTING = ("n_unlabeled", "n_test", "encoder", "normalize", "protocol")
#: Part of the setting too, but absent from cells that leave it alone.
LATER_SETTING = ("n_validation",)
#: Every cell has these.
CELL_KEYS = ("dataset", "method", "n_labeled", "seed", *SETTING)
#: These change no result of a method, or are what a mean is taken over.
NOT_A_CONDITION = frozenset({"seed", "score_iterations"})
#: Stands for the value of a parameter that a cell leaves at its default.
DEFAULT = "default"


def checked_records(records: Iterable[Record]) -> list[Record]:
    """Return the records as a list, or raise an error that names the first broken one.

    Parameters
    ----------
    records : iterable of dict
        Records of cells, done or failed.

    Returns
    -------
    records : list of dict
        The same ones.

    Raises
    ------
    ValueError
        If a record lacks its status or a part of its cell; the message names both.
    """
    found = list(records)
    for number, record in enumerate(found):
        cell = record.get("cell") if isinstance(record, Mapping) else None
        if not isinstance(cell, Mapping):
            raise ValueError(f"record {number} is no record of a cell: it has no 'cell'.")
        lacking = [key for key in CELL_KEYS if key not in cell]
        if lacking:
            raise ValueError(f"the cell of record {number} lacks {', '.join(map(repr, lacking))}.")
        if not isinstance(cell.get("params", {}), Mapping):
            raise ValueError(f"record {number} ({describe(cell)}): 'params' must be a dict.")
        if record.get("status") not in ("done", "failed"):
            raise ValueError(
                f"record {number} ({describe(cell)}): 'status' must be 'done' or 'failed', got "
                f"{record.get('status')!r}."
            )
    return found


def describe(cell: Mapping[str, Any]) -> str:
    """Name a cell in a message: data set, labelled texts, method, parameters, seed."""
    parts = [str(cell["dataset"]), f"{cell['n_labeled']} labelled", str(cell["method"])]
    parts += [f"{name}={value}" for name, value in sorted(dict(cell.get("params", {})).items())]
    return ", ".join([*parts, f"seed {cell['seed']}"])


def condition(record: Record) -> dict[str, Any]:
    """Everything that was chosen for a cell, but for the seed; parameters beside the rest."""
    cell = record["cell"]
    chosen = {**cell, **cell.get("params", {})}
    return {k: v for k, v in chosen.items() if k != "params" and k not in NOT_A_CONDITION}


def select(records: Iterable[Record], where: Mapping[str, Any] | None = None) -> list[Record]:
    """Keep the records whose cell has the given values.

    Parameters
    ----------
    records : iterable of dict
        Records of cells.
    where : dict or None
        Part of a cell, or parameter of a method -> value, or list of values. ``"default"`` keeps
        the cells that leave the parameter alone. None keeps all.

    Returns
    -------
    records : list of dict
        Those kept, in their order.

    Raises
    ------
    ValueError
        If no cell has such a key, or none is left; the message lists what there is.
    """
    kept = checked_records(records)
    for key, wanted in (where or {}).items():
        values = wanted if isinstance(wanted, list | tuple | set) else [wanted]
        cells = [{**r["cell"], **r["cell"].get("params", {})} for r in kept]
        if not any(key in cell for cell in cells):
            keys = sorted({k for cell in cells for k in cell} - {"params"})
            raise ValueError(f"no cell has {key!r} to select by; there are {', '.join(keys)}.")
        found = [r for r, cell in zip(kept, cells, strict=True) if cell.get(key, DEFAULT) in values]
        if not found:
            there = ", ".join(map(repr, distinct(cell.get(key, DEFAULT) for cell in cells)))
            raise ValueError(f"no record has {key}={wanted!r}; there are {there}.")
        kept = found
    return kept


def finished(records: Iterable[Record], purpose: str) -> list[Record]:
    """Keep the records that are done, or raise an error that says why there is none.

    Parameters
    ----------
    records : iterable of dict
        Records of cells.
    purpose : str
        What they are wanted for, for the message.
    """
    found = checked_records(records)
    done = [record for record in found if record["status"] == "done"]
    if done:
        return done
    broken = f": all {len(found)} have failed" if found else ""
    first = f", the first with {error_of(found[0])}" if found else ""
    raise ValueError(f"there is no finished record for {purpose}{broken}{first}.")


def error_of(record: Record) -> str:
    """Name the error of a failed record in one line."""
    error = record.get("error") or {}
    message = str(error.get("message", "")).strip().split("\n")[0]
    return f"{error.get('type', 'an unknown error')}: {message}".rstrip(": ")


def grouped(
    records: Sequence[Record], by: str | None = None, *, along: Collection[str] = ()
) -> tuple[str, dict[Any, list[Record]]]:
    """Put records of one condition together, and refuse to compare what differs otherwise.

    Parameters
    ----------
    records : sequence of dict
        Finished records.
    by : str or None
        What the groups differ in: part of the cell, or a parameter. None finds it: it has to be
        the only such thing.
    along : collection of str
        What may differ inside a group, besides the seed.

    Returns
    -------
    by : str
        What the groups differ in; "method" if in nothing.
    groups : dict of list
        Value -> its records; values in their natural order. A seed that was run twice with the
        same result stands there once.

    Raises
    ------
    ValueError
        If the records differ in something else; the message names it and says how to select.
    """
    conditions = [condition(record) for record in records]
    for one in conditions:
        for key in along:
            one.pop(key, None)
    keys = distinct(key for one in conditions for key in one)
    varying = [key for key in keys if len(values_of(conditions, key)) > 1]
    if by is None:
        possible = [key for key in varying if not _clashes(conditions, varying, key)]
        if len(possible) > 1 or (varying and not possible):
            raise ValueError(
                f"the records differ in {_listed(conditions, varying)}; {_advice(varying[0])} or "
                "name the one that tells the lines apart with by=."
            )
        by = possible[0] if possible else "method"
    clashes = _clashes(conditions, varying, by)
    if clashes:
        raise ValueError(
            f"records that differ in {_listed(conditions, clashes)} must not be mixed; "
            f"{_advice(clashes[0])}."
        )
    if by not in keys:
        raise ValueError(f"no cell has {by!r} to group by; there are {', '.join(map(str, keys))}.")
    groups = {}
    for value in values_of(conditions, by):
        pairs = zip(records, conditions, strict=True)
        group = [record for record, one in pairs if one.get(by, DEFAULT) == value]
        groups[value] = once_a_seed(group, along)
    return by, groups


def once_a_seed(records: Sequence[Record], along: Collection[str] = ()) -> list[Record]:
    """Drop repetitions of a seed; two results for one seed are an error.

    Cells that are the same run, such as one with per-iteration scores and one without, have the
    same scores and count once.
    """
    kept: dict[tuple[Any, ...], Record] = {}
    for record in records:
        cell = record["cell"]
        key = (cell["seed"], *(cell.get(name) for name in along))
        other = kept.setdefault(key, record)
        if other is record:
            continue
        if other.get("scores") != record.get("scores"):
            raise ValueError(
                f"two records of one cell have different scores ({describe(cell)}); select one of "
                "them, or keep records of different machines or versions in different folders."
            )
        if "iterations" in record and "iterations" not in other:
            kept[key] = record
    return list(kept.values())


def finite(record: Record, container: Mapping[str, Any], key: str, what: str) -> float:
    """Return a number of a record, or raise an error that names the cell and what is wrong."""
    value: Any = container.get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ValueError(
            f"the record of {describe(record['cell'])} has no number {key!r} in {what!r}: got "
            f"{value!r}."
        )
    return float(value)


def values_of(conditions: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    """Distinct values of a key, numbers in order and before words; "default" where it is absent."""
    return sorted(
        distinct(one.get(key, DEFAULT) for one in conditions),
        key=lambda v: (0, v, "") if isinstance(v, int | float) else (1, 0, str(v)),
    )


def distinct(values: Iterable[Any]) -> list[Any]:
    """Different values in the order in which they come; they need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _clashes(conditions: list[dict[str, Any]], varying: list[str], by: str) -> list[str]:
    """Find what must not vary beside `by`.

    That is: part of the setting anywhere, and anything inside a group. Methods may have parameters
    of their own.
    """
    clashes = []
    for key in varying:
        if key == by:
            continue
        per_group: list[list[Any]] = [
            values_of([one for one in conditions if one.get(by, DEFAULT) == value], key)
            for value in values_of(conditions, by)
        ]
        fixed = key in (*CELL_KEYS, *LATER_SETTING)
        if fixed or any(len(values) > 1 for values in per_group):
            clashes.append(key)
    return clashes


def _listed(conditions: list[dict[str, Any]], keys: list[str]) -> str:
    return ", ".join(f"{key} ({', '.join(map(str, values_of(conditions, key)))})" for key in keys)


def _advice(key: str) -> str:
    return f"select the records first, as with where={{{key!r}: value}} (--select {key}=value)"
