"""What a fit shows on standard error: a progress bar, and lines above it."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from tqdm.auto import tqdm


class Progress:
    """Shows the number of processed texts, or of another unit, on standard error.

    ``verbose=0`` shows nothing, 1 a bar, and 2 also the lines that are passed to `line`.
    """

    def __init__(
        self, verbose: int, description: str, total: int = 0, *, unit: str = "text"
    ) -> None:
        self._lines = verbose >= 2
        self._bar: Any = (
            tqdm(total=total, desc=description, unit=unit, leave=True, dynamic_ncols=True)
            if verbose
            else None
        )

    def expect(self, n: int) -> None:
        """Add `n` texts to the total of the bar."""
        if self._bar is not None:
            self._bar.total += n
            self._bar.refresh()

    def advance(self, n: int) -> None:
        """Count `n` more texts."""
        if self._bar is not None:
            self._bar.update(n)

    def say(self, text: str) -> None:
        """Show a short text at the right of the bar."""
        if self._bar is not None:
            self._bar.set_postfix_str(text)

    def line(self, text: str) -> None:
        """Show a line above the bar, with ``verbose=2``."""
        if self._lines:
            self._bar.write(text, file=sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
