"""Selection and grouping of records, and checks of which records may be averaged together.

A record is a dict with ``status``, ``cell`` (what was run) and, if it is done, its results.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

#: Scores on the test rows, as a record has them, and their names in tables and plots.
SCORE_NAMES = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
}
#: Scores of probabilities, of which less is better.
CALIBRATION = {"brier": "Brier score", "ece": "calibration error"}

#: Keys of a cell that must be equal within a comparison.
SETTING = ("n_unlabeled", "n_test", "encoder", "normalize", "protocol")
#: Also part of the setting, but absent from cells that use the default.
LATER_SETTING = ("n_validation", "file")
#: Keys that every cell has.
CELL_KEYS = ("dataset", "method", "n_labeled", "seed", *SETTING)
#: Keys that do not change the result of a method, or over which means are taken.
NOT_A_CONDITION = frozenset({"seed", "score_iterations"})
#: Value that represents a parameter that a cell does not set.
DEFAULT = "default"


def checked_records(records: Iterable[Record]) -> list[Record]:
    """Return the records as a list, or raise an error that names the first invalid one."""
    found = list(records)
    for number, record in enumerate(found):
        cell = record.get("cell") if isinstance(record, Mapping) else None
        if not isinstance(cell, Mapping):
            raise ValueError(f"record {number} is not a record of a cell: it has no 'cell'.")
        lacking = [key for key in CELL_KEYS if key not in cell]
        if lacking:
            raise ValueError(f"the cell of record {number} lacks {', '.join(map(repr, lacking))}.")
        if record.get("status") not in ("done", "failed"):
            raise ValueError(
                f"record {number} ({describe(cell)}): 'status' must be 'done' or 'failed', got "
                f"{record.get('status')!r}."
            )
    return found


def describe(cell: Mapping[str, Any]) -> str:
    """Describe a cell in a message: data set, labelled texts, method, parameters, seed."""
    parts = [str(cell["dataset"]), f"{cell['n_labeled']} labelled", str(cell["method"])]
    parts += [f"{name}={value}" for name, value in sorted(dict(cell.get("params", {})).items())]
    return ", ".join([*parts, f"seed {cell['seed']}"])


def whole_history(clf: Any) -> list[Mapping[str, Any]]:
    """Entries of a fit, those of the run before it that chose the number of iterations included."""
    return [*getattr(clf, "selection_history_", ()), *clf.history_]


def condition(record: Record) -> dict[str, Any]:
    """Return the keys of a cell without the seed, and its parameters, in one dict."""
    cell = record["cell"]
    chosen = {**cell, **cell.get("params", {})}
    return {k: v for k, v in chosen.items() if k != "params" and k not in NOT_A_CONDITION}


def select(records: Iterable[Record], where: Mapping[str, Any] | None = None) -> list[Record]:
    """Keep the records whose cell has the given values.

    `where` maps a key of the cell, or a parameter, to a value or a list of values. The value
    "default" keeps the cells that do not set the parameter.
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
            known = ", ".join(map(repr, distinct(cell.get(key, DEFAULT) for cell in cells)))
            raise ValueError(f"no record has {key}={wanted!r}; there are {known}.")
        kept = found
    return kept


def finished(records: Iterable[Record], purpose: str) -> list[Record]:
    """Keep the records that are done; if there are none, raise an error that names `purpose`."""
    found = checked_records(records)
    done = [record for record in found if record["status"] == "done"]
    if done:
        return done
    why = f": all {len(found)} have failed, the first with {error_of(found[0])}" if found else ""
    raise ValueError(f"there is no finished record for {purpose}{why}.")


def error_of(record: Record) -> str:
    """Describe the error of a failed record in one line."""
    error = record.get("error") or {}
    message = str(error.get("message", "")).strip().split("\n")[0]
    return f"{error.get('type', 'an unknown error')}: {message}".rstrip(": ")


def grouped(
    records: Sequence[Record], by: str | None = None, *, along: Collection[str] = ()
) -> tuple[str, dict[Any, list[Record]]]:
    """Group finished records by a key of the cell or a parameter; return the key and the groups.

    ``by=None`` uses the only thing in which the records differ, or "method" if they do not differ.
    Values in `along` may differ within a group. Groups are sorted by value.
    """
    conditions = [
        {key: value for key, value in condition(record).items() if key not in along}
        for record in records
    ]
    keys = distinct(key for one in conditions for key in one)
    # each data set has a file of its own, which is no difference but within a data set
    files = distinct((one.get("dataset"), one.get("file")) for one in conditions)
    several = len(files) > len(values_of(conditions, "dataset"))
    varying = [
        key for key in keys if len(values_of(conditions, key)) > 1 and (key != "file" or several)
    ]
    if by is None:
        possible = [key for key in varying if not _clashes(conditions, varying, key)]
        if len(possible) > 1 or (varying and not possible):
            raise ValueError(
                f"the records differ in {_listed(conditions, varying)}; {_advice(varying[0])} or "
                "name the one that distinguishes the lines with by=."
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
    """Keep one record for each seed; raise an error if two have different scores.

    The same run may exist with and without scores per iteration. The one with them is kept.
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
                f"two records of the same cell have different scores ({describe(cell)}); select "
                "one, or keep records of different computers or versions in different folders."
            )
        if "iterations" in record and "iterations" not in other:
            kept[key] = record
    return list(kept.values())


def finite(record: Record, container: Mapping[str, Any], key: str, what: str) -> float:
    """Return a number of a record, or raise an error that names the cell and the value."""
    value: Any = container.get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise ValueError(
            f"the record of {describe(record['cell'])} has no number {key!r} in {what!r}: got "
            f"{value!r}."
        )
    return float(value)


def values_of(conditions: Iterable[Mapping[str, Any]], key: str) -> list[Any]:
    """Distinct values of a key, sorted, with numbers before strings; "default" if it is absent."""
    return sorted(
        distinct(one.get(key, DEFAULT) for one in conditions),
        key=lambda v: (0, v, "") if isinstance(v, int | float) else (1, 0, str(v)),
    )


def distinct(values: Iterable[Any]) -> list[Any]:
    """Distinct values in order of first occurrence; they need not be hashable."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _clashes(conditions: list[dict[str, Any]], varying: list[str], by: str) -> list[str]:
    """Return the keys that vary but must not: a setting, or anything within a group."""
    groups = [
        [one for one in conditions if one.get(by, DEFAULT) == value]
        for value in values_of(conditions, by)
    ]
    fixed = (*CELL_KEYS, *LATER_SETTING)
    return [
        key
        for key in varying
        if key != by and (key in fixed or any(len(values_of(group, key)) > 1 for group in groups))
    ]


def _listed(conditions: list[dict[str, Any]], keys: list[str]) -> str:
    """List keys with their values, for a message."""
    return ", ".join(
        "the content or the columns of the file"
        if key == "file"
        else f"{key} ({', '.join(map(str, values_of(conditions, key)))})"
        for key in keys
    )


def _advice(key: str) -> str:
    """Say how to select records by a key."""
    if key == "file":
        return "keep the records of each version of a file in a folder of its own (--out)"
    return f"select the records first, as with where={{{key!r}: value}} (--select {key}=value)"
