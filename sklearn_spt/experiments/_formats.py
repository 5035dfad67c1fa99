"""Tables as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from sklearn_spt._validation import check_option
from sklearn_spt.experiments._table import Column, Interval, Measure, Table, Value

#: Stands for a missing number, such as the sd over one seed.
MISSING = "–"
#: Digits after the point, as the paper has them.
DIGITS = 3

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "λ": r"$\lambda$",
    "α": r"$\alpha$",
}


def render(table: Table, fmt: str) -> str:
    """Write a table in one of `FORMATS`."""
    check_option(fmt, "fmt", FORMATS)
    return FORMATS[fmt](table)


def to_markdown(table: Table) -> str:
    """Write a pipe table, its title in bold above it and its notes as a list below it."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rules = ["---" if column.kind == "text" else "---:" for column in table.columns]
    lines = [f"**{table.title}**", "", line([column.heading for column in table.columns])]
    lines.append("| " + " | ".join(rules) + " |")
    lines += [line(_cells(table, row)) for row in table.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes)]) + "\n"


def to_csv(table: Table) -> str:
    """Write comma-separated values with a header and all digits, without notes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header: list[str] = []
    for column in table.columns:
        header += [column.key + part for part in _PARTS.get(column.kind, ("",))]
    writer.writerow(header)
    for row in table.rows:
        cells: list[Value] = []
        for column, value in zip(table.columns, row, strict=True):
            if isinstance(value, Measure):
                cells += [value.mean, value.sd]
            elif isinstance(value, Interval):
                cells += [value.mean, value.low, value.high]
            else:
                cells += [value] * len(_PARTS.get(column.kind, ("",)))
        writer.writerow(cells)
    return out.getvalue()


#: Kind of a column -> suffixes of its key in CSV, each a column.
_PARTS = {"measure": ("_mean", "_sd"), "interval": ("", "_low", "_high")}


def to_latex(table: Table) -> str:
    """Write a ``table`` for a document that uses the package booktabs."""

    def line(cells: list[str]) -> str:
        return " & ".join(map(_escaped, cells)) + r" \\"

    columns = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escaped(table.title)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        line([column.heading for column in table.columns]),
        r"\midrule",
    ]
    for i, row in enumerate(table.rows):
        lines += [r"\midrule"] if _new_block(table, i) else []
        lines.append(line(_cells(table, row)))
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.notes:
        lines += ["", r"\smallskip", r"\begin{minipage}{\linewidth}\footnotesize"]
        lines += [_escaped(note) + r"\par" for note in table.notes]
        lines.append(r"\end{minipage}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


#: Name -> writer.
FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": to_markdown,
    "csv": to_csv,
    "latex": to_latex,
}


def _cells(table: Table, row: tuple[Value, ...]) -> list[str]:
    return [_cell(value, column) for value, column in zip(row, table.columns, strict=True)]


def _cell(value: Value, column: Column) -> str:
    """Write a value with its digits; None is empty."""
    if value is None:
        return ""
    if isinstance(value, Measure):
        sd = MISSING if value.sd is None else f"{value.sd:.{DIGITS}f}"
        return f"{value.mean:.{DIGITS}f} ± {sd}"
    if isinstance(value, Interval):
        ends = [
            MISSING if end is None else _signed(end).removeprefix("+")
            for end in (value.low, value.high)
        ]
        return f"{_signed(value.mean)} [{', '.join(ends)}]"
    if column.kind == "difference":
        return _signed(float(value))
    if column.kind == "number":
        return f"{float(value):.{DIGITS}f}"
    return str(value)


def _signed(value: float) -> str:
    """Write a number with its sign, none for a rounded zero; the minus is not a hyphen."""
    text = f"{round(value, DIGITS) + 0.0:+.{DIGITS}f}"
    return "0." + "0" * DIGITS if float(text) == 0 else text.replace("-", "−")


def _new_block(table: Table, i: int) -> bool:
    """Whether row `i` begins another block than the row above it."""
    keys = slice(table.n_keys)
    return i > 0 and table.rows[i][keys] != table.rows[i - 1][keys]


def _escaped(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
