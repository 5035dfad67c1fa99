from __future__ import annotations

import csv
import io

import pytest

from sklearn_spt.experiments._formats import render
from sklearn_spt.experiments._table import Column, Interval, Measure, Table

TABLE = Table(
    title="Share λ of 100% & more",
    columns=(
        Column("dataset", "data set", "text"),
        Column("n_labeled", "labelled", "integer"),
        Column("f1", "F1", "measure"),
        Column("paper_f1", "paper F1", "number"),
        Column("difference", "difference", "difference"),
    ),
    rows=(
        ("illness", 300, Measure(0.61234, 0.0101, 3), None, None),
        ("illness", 300, Measure(0.5, None, 1), 0.52, -0.02),
        ("my_data|set", 500, None, 0.4, 0.0123),
    ),
    notes=("failed: my_data, seed 0 (ValueError: 50% {bad} #1 ~ x^2 \\ $).",),
    n_keys=2,
)


def test_markdown():
    expected = """\
**Share λ of 100% & more**

| data set | labelled | F1 | paper F1 | difference |
| --- | ---: | ---: | ---: | ---: |
| illness | 300 | 0.612 ± 0.010 |  |  |
| illness | 300 | 0.500 ± – | 0.520 | −0.020 |
| my_data\\|set | 500 |  | 0.400 | +0.012 |

- failed: my_data, seed 0 (ValueError: 50% {bad} #1 ~ x^2 \\ $).
"""
    assert render(TABLE, "markdown") == expected


def test_csv_holds_all_digits_and_reads_back():
    rows = list(csv.DictReader(io.StringIO(render(TABLE, "csv"))))
    assert list(rows[0]) == ["dataset", "n_labeled", "f1_mean", "f1_sd", "paper_f1", "difference"]
    assert [row["dataset"] for row in rows] == ["illness", "illness", "my_data|set"]
    assert [row["f1_mean"] for row in rows] == ["0.61234", "0.5", ""]
    assert [row["f1_sd"] for row in rows] == ["0.0101", "", ""]
    assert [row["difference"] for row in rows] == ["", "-0.02", "0.0123"]


def test_latex_is_booktabs_with_special_characters_escaped():
    latex = render(TABLE, "latex")
    lines = latex.splitlines()
    assert (lines[0], lines[-1]) == (r"\begin{table}", r"\end{table}")
    assert r"\begin{tabular}{lrrrr}" in lines
    rules = [line for line in lines if line in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert rules == [r"\toprule", r"\midrule", r"\midrule", r"\bottomrule"]
    assert r"illness & 300 & 0.500 $\pm$ -- & 0.520 & $-$0.020 \\" in lines
    assert r"\caption{Share $\lambda$ of 100\% \& more}" in latex
    assert r"my\_data\textbar{}set & 500" in latex
    note = r"50\% \{bad\} \#1 \textasciitilde{} x\textasciicircum{}2 \textbackslash{} \$)."
    assert note in latex
    assert latex.count(r"\begin{") == latex.count(r"\end{")


INTERVALS = (Interval(0.061, 0.02, 0.1), Interval(-0.0001, -0.25, 0.25), Interval(0.1, None, None))


def one_column(kind, *values):
    column = Column("gain", "gain", kind)
    return Table("t", (column,), tuple((value,) for value in values), (), n_keys=0)


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        ("difference", (-0.0001, 0.0, -0.0016, 0.1), ["0.000", "0.000", "−0.002", "+0.100"]),
        (
            "interval",
            (*INTERVALS, None),
            ["+0.061 [0.020, 0.100]", "0.000 [−0.250, 0.250]", "+0.100 [–, –]", ""],
        ),
    ],
)
def test_differences_and_intervals_have_signs(kind, values, shown):
    lines = render(one_column(kind, *values), "markdown").splitlines()[4:-1]
    assert lines == [f"| {value} |" for value in shown]
    assert "minipage" not in render(one_column(kind, *values), "latex")  # there are no notes


def test_an_interval_has_three_columns_in_csv():
    header, *rows = csv.reader(io.StringIO(render(one_column("interval", *INTERVALS, None), "csv")))
    assert header == ["gain", "gain_low", "gain_high"]
    assert [rows[0], *rows[2:]] == [["0.061", "0.02", "0.1"], ["0.1", "", ""], [""] * 3]


def test_unknown_format():
    with pytest.raises(ValueError, match="fmt must be one of 'markdown', 'csv', 'latex'"):
        render(TABLE, "html")
