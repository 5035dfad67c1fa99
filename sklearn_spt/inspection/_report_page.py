"""The HTML of a fit's report. Its colours are readable on a light and on a dark ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from sklearn_spt._progress import last_losses

if TYPE_CHECKING:
    from sklearn_spt.inspection._fit_report import Doubt, FitReport

# Of the palette of Okabe and Ito, which the colour-blind can tell apart.
_COLOURS = ("#4c8ed9", "#e08a1e", "#2aa37c", "#cc79a7", "#d55e00", "#8f7ad6", "#8a8a8a")
# Only for the report itself: in a notebook the rest of the page keeps its looks.
_STYLE = """
.spt-report {font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; color: inherit}
.spt-report h1 {font-size: 1.3rem; margin: 0 0 .3rem} .spt-report h2 {font-size: 1.05rem}
.spt-report code, .spt-report pre {font: .85em/1.5 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: 0}
.spt-report dl {display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem}
.spt-report dt {opacity: .75} .spt-report dd {margin: 0}
.spt-report .wide {overflow-x: auto}
.spt-report table {border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums}
.spt-report th, .spt-report td {padding: .25rem .6rem; text-align: right; background: none;
  border-bottom: 1px solid rgba(128, 128, 128, .35); vertical-align: top}
.spt-report th {font-weight: 600} .spt-report .left {text-align: left}
.spt-report td.bar {width: 60%; min-width: 5rem; vertical-align: middle}
.spt-report ul {padding-left: 1.2rem; overflow-wrap: anywhere} .spt-report li {margin: .4rem 0}
.spt-report small {opacity: .75}
.spt-report svg {display: block; width: 100%; height: 1rem}
.spt-report .key {display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin: 0 .3em 0 0}
.spt-report .key + span {margin-right: 1.2em}
@media (max-width: 30rem) {
  .spt-report th, .spt-report td {padding: .25rem .3rem; font-size: .8rem}
}
"""


def document(report: FitReport) -> str:
    """Return a whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>Fit report</title>\n'
        "<style>:root {color-scheme: light dark} body {margin: 1.5rem auto; padding: 0 1rem; "
        "max-width: 60rem; background: Canvas; color: CanvasText}</style>\n"
        f"</head>\n<body>\n{body(report)}\n</body>\n</html>\n"
    )


def body(report: FitReport) -> str:
    """Return the report alone, for a notebook."""
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in report.facts.items())
    parts = [
        f"<style>{_STYLE}</style>",
        '<div class="spt-report">',
        f"<h1>Fit report</h1><code>{escape(report.name)}</code>",
        f"<dl>{facts}</dl>",
        _flow(report),
        f"<h2>Losses</h2>{_losses(report)}",
        f"<h2>Seconds</h2>{_seconds(report)}",
        f"<h2>Did it help?</h2><p>{escape(report.helped)}</p>",
        *(f"<h2>{escape(title)}</h2>{_texts(rows)}" for title, rows in report.lists()),
        "</div>",
    ]
    return "\n".join(part for part in parts if part)


def _flow(report: FitReport) -> str:
    """Return the pseudo-labels over the iterations, a bar for each; "" if there are none."""
    entries = [e for e in report.entries if sum((e.get("pseudo_label_counts") or {}).values())]
    if not entries:
        return ""
    names = [str(label) for label in report.classes]
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    legend = "".join(
        f'<span class="key" style="background: {colours[name]}"></span><span>{escape(name)}</span>'
        for name in names
    )
    rows = []
    for entry in entries:
        counts = {str(label): n for label, n in entry["pseudo_label_counts"].items()}
        changed = entry.get("changed")
        rows.append(
            [
                entry["iteration"],
                f"{sum(counts.values()):,}",
                ("bar", _bar(counts, colours)),
                "" if changed is None else f"{changed:.1%}",
            ]
        )
    head = ["iteration", "texts", ("left", "share of each class"), "changed"]
    return f"<h2>Pseudo-labels</h2><p>{legend}</p>{_table(head, rows)}"


def _bar(counts: Mapping[str, int], colours: Mapping[str, str]) -> str:
    """Return the shares of the classes as a bar that is as wide as its cell."""
    total, left, parts = sum(counts.values()), 0.0, []
    for name, n in counts.items():
        width = 100 * n / total
        parts.append(
            f'<rect x="{left:.3f}" y="0" width="{width:.3f}" height="8" fill="{colours[name]}">'
            f"<title>{escape(name)}: {n:,} ({width:.1f}%)</title></rect>"
        )
        left += width
    label = escape(", ".join(f"{name} {n / total:.1%}" for name, n in counts.items()), quote=True)
    return (
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _losses(report: FitReport) -> str:
    """Return losses and held-out scores of each iteration."""
    losses = [last_losses(entry) for entry in report.entries]
    stages = list(dict.fromkeys(stage for found in losses for stage in found))
    scores = [entry.get("validation_score") for entry in report.entries]
    scored = any(score is not None for score in scores)
    rows = [
        [
            entry["iteration"],
            *(f"{found[stage]:.3f}" if stage in found else "" for stage in stages),
            *(["" if score is None else f"{score:.3f}"] * scored),
        ]
        for entry, found, score in zip(report.entries, losses, scores, strict=True)
    ]
    return _table(["iteration", *stages, *(["held-out"] * scored)], rows)


def _seconds(report: FitReport) -> str:
    """Return the seconds of each phase and iteration."""
    phases = list(dict.fromkeys(name for e in report.entries for name in e["seconds"]))
    rows = []
    for entry in report.entries:
        seconds = entry["seconds"]
        shown = (f"{seconds[phase]:.1f}" if phase in seconds else "" for phase in phases)
        rows.append([entry["iteration"], *shown, f"{sum(seconds.values()):.1f}"])
    return _table(["iteration", *phases, "total"], rows)


def _texts(rows: Iterable[Doubt]) -> str:
    """Return some rows with their texts."""
    items = []
    for d in rows:
        said = [f"row {d.row}", f"predicted {d.predicted} ({d.probability:.2f})"]
        said.append(f"nets: {', '.join(map(str, d.by_net))}")
        said += [] if d.pseudo_label is None else [f"pseudo-label: {d.pseudo_label}"]
        items.append(f"<li>{escape(d.text)}<br><small>{escape(' · '.join(said))}</small></li>")
    return f"<ul>{''.join(items)}</ul>"


def _table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table; a cell may be a pair of its CSS class and its content."""

    def cells(tag: str, values: Iterable[Any]) -> str:
        pairs = (value if isinstance(value, tuple) else ("", value) for value in values)
        return "".join(
            f'<{tag} class="{kind}">{value}</{tag}>' if kind else f"<{tag}>{value}</{tag}>"
            for kind, value in pairs
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{cells("th", head)}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )
