"""The options that benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from _checkpoints import HELP, checkpoint

from sklearn_spt.text._locations import DEFAULT_ENCODER

SHARED: dict[str, dict[str, Any]] = {
    "pretrained": {"default": DEFAULT_ENCODER, "type": checkpoint, "help": HELP},
    "device": {"choices": ("cpu", "cuda"), "default": "cpu", "help": "where (default: cpu)"},
    "precision": {
        "choices": ("auto", "fp32", "bf16"),
        "default": "auto",
        "help": "of sklearn_spt (default: auto)",
    },
    "threads": {"type": int, "help": "CPU threads (default: torch's own choice)"},
    "normalize": {"action": "store_true", "help": "prepare tweets as the paper does (needs nltk)"},
    "json": {"type": Path, "help": "file to which measurements are added (default: stderr)"},
    "seconds": {"type": float, "help": "begin no measurement after this time (default: no limit)"},
}


def parser_of(program: str | None, *shared: str) -> argparse.ArgumentParser:
    """Parser of a program with its docstring, the options of a `Record`, and others by name."""
    parser = argparse.ArgumentParser(
        description=program, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in (*shared, "json", "seconds"):
        parser.add_argument(f"--{name}", **SHARED[name])
    return parser
