"""Figures of records, by the displays of `sklearn_spt.inspection`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn_spt._validation import check_option
from sklearn_spt.experiments import _paper
from sklearn_spt.experiments._arguments import PLOTS
from sklearn_spt.experiments._blocks import Blocks, check_same, method_of
from sklearn_spt.experiments._table import Column, Interval, Table, Value
from sklearn_spt.experiments._tables import make_table
from sklearn_spt.inspection import (
    ForestDisplay,
    GainDisplay,
    IterationCurveDisplay,
    LearningCurveDisplay,
    LearningRateDisplay,
    PseudoLabelDisplay,
)
from sklearn_spt.inspection._gains import CONFIDENCE
from sklearn_spt.inspection._grouping import (
    Record,
    condition,
    finished,
    select,
    values_of,
)
from sklearn_spt.inspection._style import figure_size, require_matplotlib, row_figure_size
from sklearn_spt.nets._schedules import n_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Tables that are drawn, with a panel for each column of numbers.
_TABLES = ("ranks", "choices")
#: Option -> the figures that have it.
_OPTIONS = {
    "metric": ("iterations", "learning_curve", "gains"),
    "against": ("gains", "ranks"),
}
#: Column of a table -> text behind its heading in the label of a panel.
_PANEL_NOTES = {"rank": " (1 is best)", "brier": " (less is better)"}
#: Suffix of a file -> metadata that would differ between two files of the same figure.
_DATED = {".png": (), ".svg": ("Date",), ".pdf": ("CreationDate",)}


def make_plot(
    kind: str,
    records: Iterable[Record],
    path: str | Path,
    *,
    where: Mapping[str, Any] | None = None,
    metric: str | None = None,
    against: str | None = None,
) -> Path:
    """Draw one of the figures and write it to a PNG, SVG or PDF file; missing folders are made."""
    path = Path(path)
    if path.suffix.lower() not in _DATED:
        raise ValueError(f"path must end in {', '.join(_DATED)}; got {path.name!r}.")
    figure = draw(kind, records, where=where, metric=metric, against=against)
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = dict.fromkeys(_DATED[path.suffix.lower()])
    with matplotlib.rc_context({"svg.hashsalt": "sklearn_spt"}):
        figure.savefig(path, dpi=150, metadata=metadata)
    return path


def draw(
    kind: str,
    records: Iterable[Record],
    *,
    where: Mapping[str, Any] | None = None,
    metric: str | None = None,
    against: str | None = None,
) -> Figure:
    """Draw one of the figures; no window is opened.

    The metric is "f1" by default, and the others are compared with the method "baseline". The
    schedule is that of the paper's last iteration; it needs no records.
    """
    check_option(kind, "kind", PLOTS)
    for name, value in {"metric": metric, "against": against}.items():
        if value is not None and kind not in _OPTIONS[name]:
            kinds = " and ".join(map(repr, _OPTIONS[name]))
            raise ValueError(f"{name}={value!r} is for {kinds} alone, not {kind!r}.")
    metric = metric or "f1"
    require_matplotlib("the command plot")
    from matplotlib.figure import Figure

    found = []
    if kind != "schedule":
        found = finished(select(records, where), f"the figure {kind!r}")
    settings: list[str] = []
    labels = _paper.LABELS
    # pyplot would keep the figure open and may need a screen
    figure, size = Figure(layout="constrained"), None
    if kind in _TABLES:
        if kind == "ranks":
            _, settings = _with_default_parameters(found)
        forest = _forest(make_table(kind, found, against=against))
        n_panels = len(forest.panels)
        ax = forest.plot(figure.subplots(1, n_panels, squeeze=False)[0]).axes_[0]
        size = row_figure_size(n_panels, forest.rows)
    elif kind == "pseudo_labels":
        entries = [entry for record in found for entry in record.get("history") or ()]
        n_panels = 2 if any(entry.get("groups_before") for entry in entries) else 1
        axes = figure.subplots(n_panels, 1, sharex=True, squeeze=False)
        ax = PseudoLabelDisplay.from_records(found, class_names=_class_names(found), ax=axes).ax_
    else:
        ax = figure.add_subplot()
        if kind == "iterations":
            found = _with_defaults(found)
            IterationCurveDisplay.from_records(found, metric=metric, labels=labels, ax=ax)
        elif kind == "schedule":
            # one epoch on all unlabelled texts, three on the labelled ones, in batches of 32
            n_constant = n_batches(_paper.N_UNLABELED, 32)
            n_decay = 3 * n_batches(_paper.ANALYSIS[1], 32)
            LearningRateDisplay.from_schedule(n_constant=n_constant, n_decay=n_decay, ax=ax)
        elif kind == "learning_curve":
            found, settings = _with_default_parameters(found)
            LearningCurveDisplay.from_records(found, metric=metric, labels=labels, ax=ax)
        else:
            check_same(found, ("n_validation",), "the cells", "figure")
            found, settings = _with_default_parameters(found)
            GainDisplay.from_records(
                found, against=against or "baseline", metric=metric, labels=labels, ax=ax
            )
    figure.set_size_inches(size or figure_size(len(figure.axes)))
    title = _title(found) if found else "the paper's last iteration"
    title = "\n".join([title, *(textwrap.fill(line, 68) for line in settings)])
    ax.set_title(title, loc="left", fontsize="medium")
    return figure


def _forest(table: Table) -> ForestDisplay:
    """Draw the columns of numbers of a table, the best rank at the top.

    For parameters only the differences are drawn; the means of two rows are over different pairs.
    """
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    if "rank" in keys:
        rows.sort(key=lambda row: float(row["rank"]))  # type: ignore[arg-type]
    texts = [c.key for c in table.columns if c.kind == "text"]
    telling = [key for key in texts if len({row[key] for row in rows}) > 1]
    telling = telling or [key for key in texts if key != "base"][-1:]
    kinds = ("number", "interval") if "rank" in keys else ("interval",)
    shown = {_label(c): c for c in table.columns if c.kind in kinds}
    for row in rows:
        if "base" in row:
            row["base"] = f"over {row['base']}"
    names = [": ".join(str(row[key]) for key in telling) for row in rows]
    pairs = [row["n_pairs"] for row in rows]
    if len({n for n in pairs if n is not None}) > 1:
        names = [
            name if n is None else f"{name} ({n} pairs)"
            for name, n in zip(names, pairs, strict=True)
        ]
    return ForestDisplay(
        rows=names,
        panels={label: [_point(row[c.key]) for row in rows] for label, c in shown.items()},
        zero=[label for label, c in shown.items() if c.kind != "number"],
    )


def _label(column: Column) -> str:
    """Name a panel."""
    interval = f", {CONFIDENCE:.0%} interval" if column.kind == "interval" else ""
    return f"{column.heading}{_PANEL_NOTES.get(column.key, '')}{interval}"


def _point(value: Value) -> Any:
    """Return a number of a table as `ForestDisplay` takes it."""
    return astuple(value) if isinstance(value, Interval) else value


def _class_names(records: Sequence[Record]) -> dict[str, str]:
    """Names of the classes by their codes; the runner fits on the codes."""
    counts = records[0].get("split", {}).get("labeled_counts", {})
    return {str(code): name for code, name in enumerate(counts)}


def _with_defaults(records: Sequence[Record]) -> list[Record]:
    """Add the default value of each parameter that only some cells set."""
    given = {name for record in records for name in record["cell"].get("params", {})}
    filled: list[Record] = []
    for record in records:
        cell = dict(record["cell"])
        full = _paper.parameters(cell)
        cell["params"] = {k: v for k, v in full.items() if k in given}
        filled.append({**record, "cell": cell})
    return filled


def _with_default_parameters(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Keep one set of parameters per method, as the main table does; name those not default."""
    blocks = Blocks(records, lambda record: True, method_of)
    settings = [
        f"{_paper.LABELS.get(method, method)} with {params} ({'; '.join(names)})"
        for (method, params), names in blocks.settings.items()
    ]
    kept = [r for block in blocks.names for group in blocks.of(block).values() for r in group]
    return kept, settings


def _title(records: Sequence[Record]) -> str:
    """Name the settings that all records share."""
    conditions = [condition(record) for record in records]
    parts = []
    for key, words in (
        ("dataset", "{}"),
        ("method", "{}"),
        ("n_labeled", "{:,} labelled"),
        ("n_unlabeled", "{:,} unlabelled texts"),
    ):
        values = values_of(conditions, key)
        if len(values) == 1 and values[0] is not None:
            value = _paper.LABELS.get(values[0], values[0]) if key == "method" else values[0]
            parts.append(words.format(value))
    if any(one.get("n_validation") for one in conditions):
        parts.append("validation texts")
    return textwrap.fill(", ".join(parts), 68)
