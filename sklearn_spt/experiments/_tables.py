"""Tables of records: mean ± sd over seeds, beside the paper's number and the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sklearn_spt._validation import check_option
from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._arguments import TABLES
from sklearn_spt.experiments._blocks import Block, Blocks, method_of
from sklearn_spt.experiments._choices import choices_table
from sklearn_spt.experiments._rivals import ranks_table, rivals_table
from sklearn_spt.experiments._table import (
    KEYS,
    Column,
    Measure,
    Table,
    Value,
    in_order,
    measure,
)
from sklearn_spt.inspection._gains import paired
from sklearn_spt.inspection._grouping import SCORE_NAMES, Record, distinct, select

LAYOUTS = ("long", "wide")
TITLES = {
    "main": "All systems",
    "step_size": "Step size k, as a share of the unlabelled texts",
    "temperature": "Temperature T",
    "lambda": "Share λ of the distillation loss",
    "alpha": "Inertia α",
    "ablation": "Parts of the method left out",
}

_OURS = (
    *(Column(key, heading, "measure") for key, heading in SCORE_NAMES.items()),
    Column("n_seeds", "seeds", "integer"),
)
_PAPER = (
    Column("paper_f1", "paper F1", "number"),
    Column("paper_precision", "paper precision", "number"),
    Column("paper_recall", "paper recall", "number"),
)
_DIFFERENCE = Column("difference", "difference of F1", "difference")


def make_table(
    kind: str,
    records: Iterable[Record],
    *,
    where: Mapping[str, Any] | None = None,
    layout: str = "long",
    against: str | None = None,
) -> Table:
    """Make one of the paper's tables, or a table of rivals, ranks or choices.

    The paper's number stands in the row of the same data set, number of labelled texts and method,
    or, in the tables about one data set, beside the same value. The layout "wide" is for "main".
    """
    check_option(kind, "kind", TABLES)
    check_option(layout, "layout", LAYOUTS if kind == "main" else LAYOUTS[:1])
    found = list(records)
    found = select(found, where) if found or where else found
    if kind == "choices" and against is None:
        return choices_table(found)
    if kind in ("rivals", "ranks"):
        return (rivals_table if kind == "rivals" else ranks_table)(found, against or "baseline")
    if against is not None:
        raise ValueError(f"against={against!r} is for the tables 'rivals' and 'ranks' alone.")
    if kind == "main":
        return _wide_main(found) if layout == "wide" else _main(found)
    return _ablation(found) if kind == "ablation" else _varied(kind, found)


def _is_system(record: Record) -> bool:
    return record["cell"]["method"] not in {*_paper.ABLATIONS, *_paper.READINGS}


def _main(records: Sequence[Record]) -> Table:
    cells = Blocks(records, _is_system, method_of)
    paper = _paper.main_scores()
    rows: list[tuple[Value, ...]] = []
    for block in [*cells.names, *(b for b in _paper_blocks() if b not in cells.names)]:
        of_paper = [method for (*b, method) in paper if tuple(b) == block]
        groups = cells.of(block)
        for method in in_order(distinct([*of_paper, *groups])):
            group = groups.get(method)
            theirs = paper.get((*block, method))
            label = _paper.LABELS.get(method, method)
            rows.append(
                (*block, label, *_ours(group), *_theirs(theirs), _difference(group, theirs))
            )
    columns = (*KEYS, Column("method", "method", "text"), *_OURS, *_PAPER, _DIFFERENCE)
    return Table(_title("main"), columns, tuple(rows), _notes(rows, cells))


def _wide_main(records: Sequence[Record]) -> Table:
    cells = Blocks(records, _is_system, method_of)
    paper = _paper.main_scores()
    datasets = distinct(dataset for dataset, _ in cells.names)
    sizes = sorted({n for _, n in [*cells.names, *_paper_blocks()]})
    rows: list[tuple[Value, ...]] = []
    for n in sizes:
        here = [cells.of((dataset, n)) for dataset in datasets]
        of_paper = [method for (_, size, method) in paper if size == n]
        for method in in_order(distinct([*of_paper, *(m for groups in here for m in groups)])):
            ours = [measure(groups.get(method), "f1") for groups in here]
            theirs = [_theirs(paper.get((dataset, n, method)))[0] for dataset in _paper.DATASETS]
            rows.append((n, _paper.LABELS.get(method, method), *ours, *theirs))
    columns = (
        KEYS[1],
        Column("method", "method", "text"),
        *(Column(f"{dataset}_f1", dataset, "measure") for dataset in datasets),
        *(Column(f"paper_{d}_f1", f"paper: {d}", "number") for d in _paper.DATASETS),
    )
    return Table(_title("main", "F1, "), columns, tuple(rows), _notes(rows, cells), n_keys=1)


def _varied(kind: str, records: Sequence[Record]) -> Table:
    name = _paper.VARIED[kind]
    cells = Blocks(
        records,
        lambda r: r["cell"]["method"] == "self_pretraining",
        lambda r: _shown(_paper.parameters(r["cell"])[name]),
        free=name,
    )
    paper = {_shown(value): scores for value, scores in _paper.varied_scores(kind).items()}
    heading = "share of the unlabelled texts" if kind == "step_size" else name
    label = {"lam": "λ", "alpha": "α", "temperature": "T"}.get(name, heading)
    return _analysis(kind, cells, paper, Column(name, label, "text"), _shown(_paper.DEFAULTS[name]))


def _ablation(records: Sequence[Record]) -> Table:
    wanted = {"self_pretraining", *_paper.ABLATIONS, *_paper.READINGS}
    cells = Blocks(records, lambda r: r["cell"]["method"] in wanted, method_of)
    column = Column("method", "method", "text")
    return _analysis("ablation", cells, _paper.ablation_scores(), column, "self_pretraining")


def _analysis(
    kind: str, cells: Blocks, paper: Mapping[str, _paper.Scores], column: Column, standard: str
) -> Table:
    """Table about one data set of the paper; its numbers stand beside each of our blocks."""
    rows: list[tuple[Value, ...]] = []
    for block in cells.names or [_paper.ANALYSIS]:
        groups = cells.of(block)
        keys = distinct([*paper, *groups])
        keys = in_order(keys) if kind == "ablation" else sorted(keys, key=_as_number)
        for key in keys:
            group, theirs = groups.get(key), paper.get(key)
            rows.append(
                (
                    *block,
                    _paper.LABELS.get(key, key),
                    *_ours(group),
                    _change(group, groups.get(standard)),
                    *_theirs(theirs),
                    None if theirs is None else theirs["f1"] - paper[standard]["f1"],
                    _difference(group, theirs) if block == _paper.ANALYSIS else None,
                )
            )
    reference = "the full method" if kind == "ablation" else f"{column.heading} = {standard}"
    columns = (
        *KEYS,
        column,
        *_OURS,
        Column("change", "change of F1", "difference"),
        *_PAPER,
        Column("paper_change", "paper: change of F1", "difference"),
        _DIFFERENCE,
    )
    dataset, n = _paper.ANALYSIS
    about = (
        f"Changes are against {reference}, over the seeds that both have. The paper's numbers are "
        f"for {dataset}, {n} labelled; the difference is given for the same data set and number "
        "alone."
    )
    return Table(_title(kind), columns, tuple(rows), (about, *_notes(rows, cells)))


def _notes(rows: Sequence[Sequence[Value]], cells: Blocks) -> tuple[str, ...]:
    measures = [value for row in rows for value in row if isinstance(value, Measure)]
    notes = list(cells.notes())
    if any(measure.sd is None for measure in measures):
        notes.insert(0, "No sd is given where there are fewer than two seeds.")
    return (*notes, f"Paper: {_paper.paper_tables()['source']}.")


def _title(kind: str, of: str = "") -> str:
    return f"{TITLES[kind]}: {of}mean ± sd over seeds"


def _paper_blocks() -> list[Block]:
    blocks = distinct((dataset, n) for dataset, n, _ in _paper.main_scores())
    return sorted(blocks, key=lambda block: (_paper.DATASETS.index(block[0]), block[1]))


def _ours(group: Sequence[Record] | None) -> tuple[Value, ...]:
    return (*(measure(group, metric) for metric in SCORE_NAMES), len(group) if group else None)


def _theirs(scores: _paper.Scores | None) -> tuple[float | None, ...]:
    return tuple(None if scores is None else scores[metric] for metric in _paper.METRICS)


def _difference(group: Sequence[Record] | None, theirs: _paper.Scores | None) -> float | None:
    ours = measure(group, "f1")
    if ours is None or theirs is None or (group or [])[0]["cell"].get("n_validation"):
        return None  # scores of validation rows are not results
    return ours.mean - theirs["f1"]


def _change(group: Sequence[Record] | None, standard: Sequence[Record] | None) -> float | None:
    """Mean of the paired differences of F1, over the seeds that both have."""
    gains = paired(group or [], standard or [])
    return float(np.mean(gains)) if gains else None


def _shown(value: Any) -> str:
    """Return a parameter as a key; 0.30000000000000004 and 0.3 are the same."""
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)


def _as_number(key: str) -> tuple[float, str]:
    try:
        return float(key), key
    except ValueError:
        return float("inf"), key
