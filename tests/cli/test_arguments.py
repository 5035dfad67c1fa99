"""The arguments, and the commands that the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sklearn_spt.cli._arguments import parsed

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
SHOWN = re.findall(r"python -m sklearn_spt ([^`|>\n]+)", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", [c.strip() for c in SHOWN if "--help" not in c])
def test_the_commands_of_the_page_are_understood(command):
    options = parsed(shlex.split(command))
    assert options.command == command.split()[0]


def test_all_commands_are_shown():
    assert {command.split()[0] for command in SHOWN} == {"fit", "predict", "evaluate", "compare"}


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "compare"])
def test_help(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        parsed([command, "--help"])
    assert "standard input" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "expected"),
    [("500", 500), ("1_000", 1000), ("0.5", 0.5), ("1.0", 1.0), ("1/3", 1 / 3)],
)
def test_a_step_is_a_number_of_texts_or_a_share(given, expected):
    found = parsed(["fit", "a.csv", "--out", "model", "--step-size", given]).step_size
    assert found == expected
    assert type(found) is type(expected)
