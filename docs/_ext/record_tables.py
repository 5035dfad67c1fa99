"""Tables that are made from the records when the pages are built.

A page holds the command of a table in a fenced block::

    ```{record-table}
    python -m sklearn_spt.experiments table ranks --records docs/records/rivals.jsonl
    ```

GitHub shows the command alone. The built page shows the table that it prints. The command and the
notes of the table are in a part that opens on a click.
"""

from __future__ import annotations

import io
import re
import shlex
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from sklearn_spt.experiments._cli import main

ROOT = Path(__file__).parents[2]


def printed_table(command: str) -> tuple[list[str], list[str]]:
    """Run a command; return the lines of the table that it prints, and its notes."""
    argv = shlex.split(command.replace("\\\n", " "))
    out = io.StringIO()
    with chdir(ROOT), redirect_stdout(out):
        if argv[:3] != ["python", "-m", "sklearn_spt.experiments"] or main(argv[3:]) != 0:
            raise ValueError(f"this command makes no table: {command}")
    lines = out.getvalue().splitlines()
    table = [line for line in lines if line.startswith("|")]
    return table, folded([line[2:] for line in lines if line.startswith("- ")])


def folded(notes: list[str]) -> list[str]:
    """Join the notes that say the same of several data sets."""
    names: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        match = re.fullmatch(r"((?:missing: |computed in bf16: )?)(\S+?)([:,] .+)", note)
        before, name, after = match.groups() if match else ("", note, "")
        names.setdefault((before, after), []).append(name)
    return [before + ", ".join(found) + after for (before, after), found in names.items()]


class RecordTable(SphinxDirective):
    """The table that a command prints; the command and the notes fold away."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Run the command and parse what it prints as Markdown."""
        command = "\n".join(self.content)
        for path in re.findall(r"docs/records/\S+", command):
            self.env.note_dependency(str(ROOT / path))
        table, notes = printed_table(command)
        return [
            *self._parsed(table),
            nodes.raw("", "<details><summary>Command and notes</summary>", format="html"),
            nodes.literal_block(command, command, language="bash"),
            *self._parsed([f"- {note}" for note in notes]),
            nodes.raw("", "</details>", format="html"),
        ]

    def _parsed(self, lines: list[str]) -> list[nodes.Node]:
        parent = nodes.container()
        self.state.nested_parse(StringList(lines), self.content_offset, parent)
        return parent.children


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("record-table", RecordTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
