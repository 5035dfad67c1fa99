"""A progress bar that shows training and labelling in one line, or nothing at all."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tqdm.auto import tqdm


class Progress:
    """Counts texts that went through a net; silent when `verbose` is 0.

    Parameters
    ----------
    total : int
        Number of texts to be trained on and labelled.
    verbose : int
        0 shows nothing; otherwise a bar is drawn on the standard error stream.
    description : str
        What stands to the left of the bar.
    """

    def __init__(self, total: int, verbose: int, description: str) -> None:
        self._bar: Any = (
            tqdm(total=total, desc=description, unit="text", leave=True, dynamic_ncols=True)
            if verbose
            else None
        )

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
