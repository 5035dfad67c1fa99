"""The table of the effect of each parameter, over all data sets at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sklearn_spt._typing import FloatArray
from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._blocks import (
    COMMON,
    check_defaults,
    check_same,
    half_precision,
    method_of,
    setting_in_words,
)
from sklearn_spt.experiments._table import Column, Interval, Table, Value, in_order, score
from sklearn_spt.inspection._gains import CONFIDENCE, paired
from sklearn_spt.inspection._grouping import Record, describe, distinct, error_of, once_a_seed
from sklearn_spt.model_selection._intervals import mean_of_means_with_interval

#: Name of the set without parameters.
DEFAULTS = "defaults"
#: The parameters that a cell sets, as sorted name=value.
Given = tuple[str, ...]
#: Finished records of a method with one set of parameters, by data set.
Groups = dict[str, list[Record]]


def choices_table(records: Sequence[Record]) -> Table:
    """Compare each set of parameters with the base of the same method.

    The base is the set of what all cells of the method have in common, usually the defaults. A
    method with one set only has no row. All data sets count alike.
    """
    done = [record for record in records if record["status"] == "done"]
    check_same(done, (*COMMON, "n_unlabeled"), "the cells", "table")
    rows: list[tuple[Value, ...]] = []
    for method in in_order(distinct(map(method_of, done))):
        sets = _sets(record for record in done if method_of(record) == method)
        _check(method, sets)
        if len(sets) < 2:
            continue
        base = _base(method, sets)
        compared = sets.pop(base)
        names = (_paper.LABELS.get(method, method), _name(base))
        own = {tuple(item for item in given if item not in base): given for given in sets}
        for key in sorted(own):
            groups = sets[own[key]]
            # other differences than those that were set come from another release
            check_defaults(f"{method} ({_name(own[key])})", [*_all(groups), *_all(compared)])
            rows.append((names[0], _name(key), names[1], *_compared(groups, compared)))
    if not rows:
        raise ValueError(
            "no method was run with two sets of parameters; add one by --param name=value."
        )
    bases = distinct(str(row[2]) for row in rows)
    base_name = "the base" if len(bases) > 1 else bases[0]
    if base_name == DEFAULTS:
        base_name = f"the {DEFAULTS}"
    columns = (
        Column("method", "method", "text"),
        Column("parameters", "parameters", "text"),
        Column("base", "compared with", "text"),
        Column("f1", "mean F1", "number"),
        Column("base_f1", f"of {base_name}", "number"),
        Column("gain", f"gain of F1 over {base_name}", "interval"),
        Column("brier", "change of the Brier score", "interval"),
        Column("n_pairs", "pairs", "integer"),
    )
    return Table("What each parameter brings", columns, tuple(rows), _notes(records, base_name), 1)


def _check(method: str, sets: dict[Given, Groups]) -> None:
    """Raise an error for cells that cannot be compared."""
    for given, groups in sets.items():
        check_defaults(f"{method} ({_name(given)})", _all(groups))
    every = [record for groups in sets.values() for record in _all(groups)]
    for dataset in distinct(record["cell"]["dataset"] for record in every):
        here = [record for record in every if record["cell"]["dataset"] == dataset]
        check_same(here, ("n_test", "file"), f"the cells of {dataset}", "mean")


def _base(method: str, sets: dict[Given, Groups]) -> Given:
    """Return the parameters that all sets have in common; they must be one of the sets."""
    base = tuple(item for item in next(iter(sets)) if all(item in given for given in sets))
    if base in sets:
        return base
    lacking = f"{_name(base)} alone" if base else "its defaults"
    how = "with that alone" if base else "without --param"
    raise ValueError(
        f"{method} was run with {' and '.join(map(_name, sets))}, and has no finished cell with "
        f"{lacking} to compare these with; run the same cells {how}."
    )


def _all(groups: Groups) -> list[Record]:
    return [record for group in groups.values() for record in group]


def _sets(records: Iterable[Record]) -> dict[Given, Groups]:
    """Group records by set of parameters and data set; each seed once."""
    found: dict[Given, dict[str, list[Record]]] = {}
    for record in records:
        groups = found.setdefault(_given(record["cell"]), {})
        groups.setdefault(str(record["cell"]["dataset"]), []).append(record)
    return {
        given: {dataset: once_a_seed(group) for dataset, group in groups.items()}
        for given, groups in found.items()
    }


def _given(cell: dict[str, Any]) -> Given:
    """Return the parameters of a cell that differ from the defaults."""
    default = _paper.parameters({**cell, "params": {}})
    given = _paper.parameters(cell)
    differing = {k: v for k, v in given.items() if k not in default or default[k] != v}
    # 0 and 0.0 are the same number
    said = {
        k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in differing.items()
    }
    return tuple(f"{k}={v}" for k, v in sorted(said.items()))


def _name(given: Given) -> str:
    return ", ".join(given) or DEFAULTS


def _compared(groups: Groups, base: Groups) -> tuple[Value, ...]:
    """Mean F1 with and without the parameters, gain, change of the Brier score, pairs."""
    f1 = _differences(groups, base, "f1")
    if not f1:
        return (None, None, None, None, 0)
    gain, brier = (
        Interval(*mean_of_means_with_interval(differences, CONFIDENCE))
        for differences in (f1, _differences(groups, base, "brier"))
    )
    return (_mean_f1(groups, base), _mean_f1(base, groups), gain, brier, sum(map(len, f1)))


def _differences(groups: Groups, base: Groups, metric: str) -> list[FloatArray]:
    """Differences of a score by data set, over the seeds that both have."""
    return [
        np.array(differences)
        for dataset in groups
        if (differences := paired(groups[dataset], base.get(dataset, []), metric))
    ]


def _mean_f1(groups: Groups, others: Groups) -> float:
    """Mean F1 over data sets, of the seeds that the others have too."""
    means = []
    for dataset, group in groups.items():
        seeds = {record["cell"]["seed"] for record in others.get(dataset, [])}
        if common := [score(record) for record in group if record["cell"]["seed"] in seeds]:
            means.append(np.mean(common))
    return float(np.mean(means))


def _notes(records: Sequence[Record], base: str) -> tuple[str, ...]:
    settings: dict[str, list[str]] = {}
    by_dataset: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        cell = record["cell"]
        rows = by_dataset.setdefault(str(cell["dataset"]), {})
        rows.setdefault(f"{cell['method']} ({_name(_given(cell))})", []).append(record)
        if record["status"] == "done":
            settings.setdefault(setting_in_words(record), []).append(cell["dataset"])
    return (
        f"All numbers of a row are over the pairs of data set and seed that it and {base} both "
        f"have, and all data sets count alike. The {CONFIDENCE:.0%} intervals are Welch's: "
        "they speak of other draws of labelled texts from these data sets, not of other data sets. "
        "Of the Brier score, less is better.",
        *(f"{', '.join(sorted(set(names)))}: {said}." for said, names in settings.items()),
        *(note for dataset, rows in by_dataset.items() for note in half_precision(dataset, rows)),
        *(
            f"failed: {describe(record['cell'])} ({error_of(record)})."
            for record in records
            if record["status"] != "done"
        ),
    )
