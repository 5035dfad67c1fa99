"""The progress bar of a fit."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tqdm.auto import tqdm


class Progress:
    """Shows the number of processed texts on standard error; ``verbose=0`` shows nothing."""

    def __init__(self, verbose: int, description: str, total: int = 0) -> None:
        self._bar: Any = (
            tqdm(total=total, desc=description, unit="text", leave=True, dynamic_ncols=True)
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
