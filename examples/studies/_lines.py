"""Records of JSON lines, and the commands of the programs that write them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def parsers(program: str, records: Path) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser of a program with its docstring, and that of its command ``run``."""
    parser = argparse.ArgumentParser(description=program.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="make cells")
    run.add_argument("tasks", nargs="*", metavar="TASK", help="default: all")
    run.add_argument("--seed", type=int, required=True)
    run.add_argument("--out", type=Path, default=records, metavar="FILE")
    commands.add_parser("report", help="print the tables")
    return parser, run
