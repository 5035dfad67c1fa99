"""Measurements that are written at once, within a time that is given."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm


class Record:
    """Writes each measurement as one line of JSON as soon as it is there."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.file: Path | None = options.json
        self.end = float("inf") if options.seconds is None else time.monotonic() + options.seconds
        self.common: dict[str, Any] = {}

    def add(self, **entry: Any) -> None:
        """Write a measurement."""
        line = json.dumps({**self.common, **entry})
        if self.file is None:
            tqdm.write(line, file=sys.stderr)
            return
        with self.file.open("a", encoding="utf-8") as stream:  # closed, so that it is on the disk
            stream.write(line + "\n")

    def left(self) -> float:
        """Seconds that are left."""
        return max(self.end - time.monotonic(), 0.0)

    def over(self) -> bool:
        """Whether no measurement should begin any more."""
        return self.left() == 0
