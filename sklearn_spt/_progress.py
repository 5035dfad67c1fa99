"""What a fit shows: a progress bar, and a line for each iteration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tqdm.auto import tqdm

#: Seconds after which the bar of a prediction appears.
DELAY = 1.0


class Progress:
    """Shows the number of processed texts, or of another unit, on standard error.

    ``verbose=0`` shows nothing, 1 a bar after `delay` seconds, and 2 also the lines that are passed
    to `line`.
    """

    def __init__(
        self,
        verbose: int,
        description: str,
        total: int = 0,
        *,
        unit: str = "text",
        delay: float = 0.0,
    ) -> None:
        self._lines = verbose >= 2
        options: dict[str, Any] = {"leave": True, "dynamic_ncols": True, "delay": delay}
        self._bar: Any = (
            tqdm(total=total, desc=description, unit=unit, **options) if verbose else None
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
            self._bar.leave = error is None or self._bar.n > 0  # a bar at zero says nothing
            self._bar.close()


def prediction_bar(verbose: int, n: int) -> Progress:
    """Return a bar for a prediction of `n` texts, by all nets together."""
    return Progress(verbose, "prediction", n, delay=DELAY)


def iteration_line(entry: Mapping[str, Any]) -> str:
    """Describe an entry of ``history_`` in one line."""
    parts = []
    counts = entry.get("pseudo_label_counts") or {}
    if size := sum(counts.values()):
        shares = ", ".join(f"{str(label)[:20]} {n / size:.1%}" for label, n in counts.items())
        parts.append(f"{size:,} pseudo-labels ({shares})")
    if entry.get("changed") is not None:
        parts.append(f"{entry['changed']:.1%} changed")
    parts += [f"{stage} loss {loss:.4f}" for stage, loss in last_losses(entry).items()]
    if entry.get("validation_score") is not None:
        parts.append(f"validation score {entry['validation_score']:.3f}")
    parts.append(f"{sum(entry['seconds'].values()):.1f} s")
    return f"iteration {entry['iteration']}: {'; '.join(parts)}"


def last_losses(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the loss of the last epoch of each stage of an iteration."""
    losses = entry.get("loss") or {}
    stages = {"training": losses} if isinstance(losses, list) else losses
    nets = ("cross_entropy", "kl")  # an iteration is an epoch there, with a loss for each net
    return {
        stage: sum(values) / len(values) if stage in nets else values[-1]
        for stage, values in stages.items()
        if values
    }
