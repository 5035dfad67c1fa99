"""Peak memory of a block of code."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch


class PeakMemory:
    """Measure the peak of resident memory (and of CUDA memory, or None) inside the block, in bytes.

    On Linux, the peak is that of the block; elsewhere it is that of the process since its start.
    """

    def __enter__(self) -> PeakMemory:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        return self

    def __exit__(self, *_: object) -> None:
        self.peak = _peak()
        self.peak_cuda = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None


def _peak() -> int:
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit
