"""A table that says what each parameter brings, over all data sets at once.

Pure: records in, a table out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sklearn_spt._intervals import mean_of_means_with_interval
from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._blocks import (
    COMMON,
    CONFIDENCE,
    check_defaults,
    check_same,
    half_precision,
    method_of,
    setting_in_words,
)
from sklearn_spt.experiments._table import Column, Interval, Table, Value, in_order, score
from sklearn_spt.inspection._gains import paired
from sklearn_spt.inspection._grouping import Record, describe, distinct, error_of, once_a_seed

#: How a method without any parameter set is called.
DEFAULTS = "defaults"
#: Finished records of a method with one set of parameters, by data set.
Groups = dict[str, list[Record]]


def choices_table(records: Sequence[Record]) -> Table:
    """Compare each set of parameters with the default one of the same method.

    Parameters
    ----------
    records : sequence of dict
        Records of cells, in any number of sets of parameters. Of a method that was run with one
        set only there is nothing to compare, and no row.

    Returns
    -------
    Table
        Of each set: mean F1, that of the defaults, the gain of F1 and the change of the Brier
        score, over the pairs of data set and seed that both have.
        All data sets count alike; intervals are those of `mean_of_means_with_interval`.

    Raises
    ------
    ValueError
        If cells of different settings or defaults would be mixed, or a method has no cells with its
        defaults.
    """
    done = [record for record in records if record["status"] == "done"]
    check_same(done, (*COMMON, "n_unlabeled"), "the cells", "table")
    rows: list[tuple[Value, ...]] = []
    for method in in_order(distinct(map(method_of, done))):
        sets = _sets(record for record in done if method_of(record) == method)
        every = [r for groups in sets.values() for group in groups.values() for r in group]
        for name, groups in sets.items():
            check_defaults(f"{method} ({name})", [r for group in groups.values() for r in group])
        check_defaults(method, every)
        for dataset in distinct(record["cell"]["dataset"] for record in every):
            here = [record for record in every if record["cell"]["dataset"] == dataset]
            check_same(here, ("n_test",), f"the cells of {dataset}", "mean")
        if len(sets) < 2:
            continue
        if DEFAULTS not in sets:
            raise ValueError(
                f"{method} was run with {' and '.join(sets)}, and never with its defaults, with "
                "which these are compared: run the same cells without --param."
            )
        default = sets.pop(DEFAULTS)
        label = _paper.LABELS.get(method, method)
        rows += [(label, name, *_compared(sets[name], default)) for name in sorted(sets)]
    if not rows:
        raise ValueError(
            "no method was run with two sets of parameters; add one by --param name=value."
        )
    columns = (
        Column("method", "method", "text"),
        Column("parameters", "parameters", "text"),
        Column("f1", "mean F1", "number"),
        Column("default_f1", "of the defaults", "number"),
        Column("gain", "gain of F1 over the defaults", "interval"),
        Column("brier", "change of the Brier score", "interval"),
        Column("n_pairs", "pairs", "integer"),
    )
    return Table("What each parameter brings", columns, tuple(rows), _notes(records), 1)


def _sets(records: Iterable[Record]) -> dict[str, Groups]:
    """Group records by set of parameters and data set; each seed once."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        groups = found.setdefault(_name_of(record["cell"]), {})
        groups.setdefault(str(record["cell"]["dataset"]), []).append(record)
    return {
        name: {dataset: once_a_seed(group) for dataset, group in groups.items()}
        for name, groups in found.items()
    }


def _name_of(cell: dict[str, Any]) -> str:
    """Parameters of a cell that are not those of a cell without any."""
    default = _paper.parameters({**cell, "params": {}})
    given = _paper.parameters(cell)
    differing = {k: v for k, v in given.items() if k not in default or default[k] != v}
    return ", ".join(f"{k}={v}" for k, v in sorted(differing.items())) or DEFAULTS


def _compared(groups: Groups, default: Groups) -> tuple[Value, ...]:
    """Mean F1 with and without the parameters, gain, change of the Brier score, pairs."""
    f1 = _differences(groups, default, "f1")
    if not f1:
        return (None, None, None, None, 0)
    every = [r for sets in (groups, default) for group in sets.values() for r in group]
    brier = None
    if all("brier" in record["scores"] for record in every):  # older records lack it
        brier = _interval(_differences(groups, default, "brier"))
    means = (_mean_f1(groups, default), _mean_f1(default, groups))
    return (*means, _interval(f1), brier, sum(map(len, f1)))


def _interval(differences: Sequence[npt.NDArray[np.float64]]) -> Interval:
    return Interval(*mean_of_means_with_interval(differences, CONFIDENCE))


def _differences(groups: Groups, default: Groups, metric: str) -> list[npt.NDArray[np.float64]]:
    """Differences of a score by data set, over the seeds that both have."""
    return [
        np.array(differences)
        for dataset in groups
        if (differences := paired(groups[dataset], default.get(dataset, []), metric))
    ]


def _mean_f1(groups: Groups, others: Groups) -> float:
    """Mean F1 over data sets, of the seeds that the others have too."""
    means = []
    for dataset, group in groups.items():
        seeds = {record["cell"]["seed"] for record in others.get(dataset, [])}
        if common := [score(record) for record in group if record["cell"]["seed"] in seeds]:
            means.append(np.mean(common))
    return float(np.mean(means))


def _by_dataset(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """Group records by data set, and by method with its parameters."""
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        cell = record["cell"]
        rows = found.setdefault(str(cell["dataset"]), {})
        rows.setdefault(f"{cell['method']} ({_name_of(cell)})", []).append(record)
    return found


def _notes(records: Sequence[Record]) -> tuple[str, ...]:
    settings: dict[str, list[str]] = {}
    for record in records:
        if record["status"] == "done":
            settings.setdefault(setting_in_words(record), []).append(record["cell"]["dataset"])
    return (
        "All numbers of a row are over the pairs of data set and seed that it and the defaults "
        f"both have, and all data sets count alike. The {CONFIDENCE:.0%} intervals are Welch's: "
        "they speak of other draws of labelled texts from these data sets, not of other data sets. "
        "Of the Brier score, less is better.",
        *(f"{', '.join(sorted(set(names)))}: {said}." for said, names in settings.items()),
        *(
            note
            for dataset, rows in _by_dataset(records).items()
            for note in half_precision(dataset, rows)
        ),
        *(
            f"failed: {describe(record['cell'])} ({error_of(record)})."
            for record in records
            if record["status"] != "done"
        ),
    )
