"""The blocks of a table: records of one data set and one number of labelled texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sklearn_spt.experiments import _paper
from sklearn_spt.inspection._grouping import (
    DEFAULT,
    LATER_SETTING,
    SETTING,
    Record,
    describe,
    distinct,
    error_of,
    once_a_seed,
)

#: Settings that the cells of one mean share.
COMMON = ("n_labeled", "encoder", "normalize", "protocol", "n_validation")
#: Data set and number of labelled texts.
Block = tuple[str, int]


class Blocks:
    """Finished records by block and row, and notes about the others.

    Each method keeps one set of parameters: the defaults, or those that all its cells in a block
    have. The parameter `free`, which a table varies, does not count.
    """

    def __init__(
        self,
        records: Sequence[Record],
        wanted: Callable[[Record], bool],
        row_of: Callable[[Record], str],
        free: str | None = None,
    ) -> None:
        #: Methods whose cells have other than the default parameters: method, parameters -> blocks.
        self.settings: dict[tuple[str, str], list[str]] = {}
        self._remarks: list[str] = []
        self._all: dict[Block, dict[str, list[Record]]] = {}
        mine = [record for record in records if wanted(record)]
        for block in sorted(distinct(block_of(record) for record in mine)):
            here = [record for record in mine if block_of(record) == block]
            here = [
                record
                for method in distinct(map(method_of, here))
                for record in self._with_one_set(here, method, free)
            ]
            done = [record for record in here if record["status"] == "done"]
            check_same(done, (*SETTING, *LATER_SETTING), f"the cells of {_name(block)}", "table")
            rows: dict[str, list[Record]] = {}
            for record in here:
                rows.setdefault(row_of(record), []).append(record)
            for row, group in rows.items():
                check_defaults(f"{_name(block)}, {row}", group)
            self._all[block] = rows

    @property
    def names(self) -> list[Block]:
        """Blocks in order."""
        return list(self._all)

    def of(self, block: Block) -> dict[str, list[Record]]:
        """Finished records of a block, by row; each seed once, in their order."""
        return {
            row: sorted(once_a_seed(done), key=lambda record: record["cell"]["seed"])
            for row, group in self._all.get(block, {}).items()
            if (done := [record for record in group if record["status"] == "done"])
        }

    def notes(self) -> tuple[str, ...]:
        """Return the notes below the table."""
        notes: list[str] = []
        for block, rows in self._all.items():
            records = [record for group in rows.values() for record in group]
            done = [record for record in records if record["status"] == "done"]
            notes.append(f"{_name(block)}: {setting_in_words((done or records)[0])}.")
            constant = [record.get("all_positive_f1") for record in records]
            known = [f1 for f1 in constant if f1 is not None]
            if known:
                f1 = np.mean(known)
                notes.append(f"{_name(block)}: calling every text positive has an F1 of {f1:.3f}.")
            notes += _gaps(block, rows)
            notes += half_precision(_name(block), rows)
            notes += _warned(block, rows)
        return (*notes, *self._remarks)

    def _with_one_set(
        self, records: Sequence[Record], method: str, free: str | None
    ) -> list[Record]:
        """Keep the records of a method with one set of parameters, the default if it was run."""
        sets: dict[str, list[Record]] = {}
        for record in records:
            if method_of(record) == method:
                sets.setdefault(_set_of(record["cell"], free), []).append(record)
        name = _name(block_of(records[0]))
        chosen = _set_of({"method": method, "params": {}, "n_unlabeled": None}, free)
        if chosen not in sets:
            if len(sets) > 1:
                raise ValueError(
                    f"{name}: the cells of {method} have the parameters {' or '.join(sets)}, and "
                    "none has the default ones; select one set, as with where={'name': value} "
                    "(--select name=value)."
                )
            (chosen,) = sets
            self.settings.setdefault((method, chosen), []).append(name)
            self._remarks.append(f"{name}: {method} with the parameters {chosen}.")
        n_others = sum(map(len, sets.values())) - len(sets[chosen])
        if n_others:
            self._remarks.append(
                f"{name}: {n_others} record(s) of {method} with other parameters are left out."
            )
        return sets[chosen]


def block_of(record: Record) -> Block:
    """Block that a record belongs to."""
    return str(record["cell"]["dataset"]), int(record["cell"]["n_labeled"])


def method_of(record: Record) -> str:
    """Name of the method of a record."""
    return str(record["cell"]["method"])


def _set_of(cell: Mapping[str, Any], free: str | None) -> str:
    """Parameters of a cell in one string, without the one that the table varies."""
    params = {k: v for k, v in _paper.parameters(cell).items() if k != free}
    return ", ".join(f"{k}={v}" for k, v in sorted(params.items())) or "defaults"


def check_defaults(row: str, records: Sequence[Record]) -> None:
    """Raise an error if the cells of a row have different defaults; older records name none."""
    given = {name for record in records for name in record["cell"].get("params") or {}}
    every = [(r["cell"]["seed"], r["parameters"]) for r in records if "parameters" in r]
    for name in distinct(n for _, parameters in every for n in parameters if n not in given):
        known = [(seed, parameters) for seed, parameters in every if name in parameters]
        values = [parameters[name] for _, parameters in known]
        if len(distinct(values)) > 1:
            of_seeds = ", ".join(
                f"{value!r} in seed {seed}" for (seed, _), value in zip(known, values, strict=True)
            )
            raise ValueError(
                f"{row}: the cells were run with different values of {name} ({of_seeds}), perhaps "
                "by two releases with different defaults; remove the older records and run the "
                "same command again, or use another folder (--out)."
            )


def check_same(records: Sequence[Record], keys: Sequence[str], what: str, where: str) -> None:
    """Raise an error if the cells differ in one of the attributes `keys`."""
    for key in keys:
        values = distinct(record["cell"].get(key, DEFAULT) for record in records)
        if len(values) > 1 and key == "file":
            raise ValueError(
                f"{what} were made on different contents or columns of a file and must not stand "
                f"in one {where}; keep the records of each version in a folder of its own (--out)."
            )
        if len(values) > 1:
            raise ValueError(
                f"{what} differ in {key} ({', '.join(map(str, values))}) and must not stand in "
                f"one {where}; select one, as with where={{{key!r}: {values[0]!r}}} "
                f"(--select {key}={values[0]})."
            )


def _gaps(block: Block, rows: Mapping[str, Sequence[Record]]) -> list[str]:
    """Name the failed cells, and the seeds that a row lacks and another row has."""
    seeds = sorted({record["cell"]["seed"] for group in rows.values() for record in group})
    notes = []
    for row, group in rows.items():
        done = {record["cell"]["seed"] for record in group if record["status"] == "done"}
        failed = {record["cell"]["seed"]: record for record in group if record["status"] != "done"}
        notes += [
            f"failed: {describe(record['cell'])} ({error_of(record)})."
            for seed, record in sorted(failed.items())
            if seed not in done
        ]
        missing = [str(seed) for seed in seeds if seed not in done | set(failed)]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            notes.append(f"missing: {_name(block)}, {row}, seed{plural} {', '.join(missing)}.")
    return notes


def half_precision(where: str, rows: Mapping[str, Sequence[Record]]) -> list[str]:
    """Name the cells computed in bf16, unless all were; older records are in fp32."""
    done = {row: [r for r in group if r["status"] == "done"] for row, group in rows.items()}
    if all(r.get("precision", "fp32") != "fp32" for group in done.values() for r in group):
        return []
    found = {
        row: sorted(r["cell"]["seed"] for r in group if r.get("precision") == "bf16")
        for row, group in done.items()
    }
    told = [
        f"{row}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        for row, seeds in found.items()
        if seeds
    ]
    return [f"computed in bf16: {where}: {'; '.join(told)}."] if told else []


def _warned(block: Block, rows: Mapping[str, Sequence[Record]]) -> list[str]:
    """Repeat the warnings of the cells."""
    notes = []
    for row, group in rows.items():
        seeds: dict[str, list[int]] = {}
        for record in group:
            for message in record.get("warnings") or []:
                seeds.setdefault(message, []).append(record["cell"]["seed"])
        notes += [
            f"warning: {_name(block)}, {row}, seed {', '.join(map(str, sorted(s)))}: {message}"
            for message, s in seeds.items()
        ]
    return notes


def _name(block: Block) -> str:
    return f"{block[0]}, {block[1]} labelled"


def setting_in_words(record: Record) -> str:
    """Sizes, preparation, encoder and protocol of a cell."""
    cell = record["cell"]

    def count(key: str) -> str:
        # a test part may be smaller than requested
        used = record.get("split", {}).get(key, cell[key])
        return "all" if used is None else f"{used:,}"

    prepared = "prepared as in the paper" if cell["normalize"] else "as they are"
    n_validation = cell.get("n_validation")
    scored = f"{n_validation:,} validation" if n_validation else f"{count('n_test')} test"
    return (
        f"{count('n_unlabeled')} unlabelled and {scored} texts, {prepared}; "
        f"encoder {cell['encoder']}; protocol {cell['protocol']}"
    )
