"""Peak memory."""

from __future__ import annotations

import sys

import numpy as np

from sklearn_spt.experiments._peak_memory import PeakMemory


def test_peak_memory_is_that_of_the_block():
    with PeakMemory() as large:
        block = np.ones(25_000_000)  # 200 MB
    del block
    with PeakMemory() as small:
        pass
    if sys.platform == "linux":
        assert large.peak - small.peak > 150e6
    else:
        assert large.peak >= small.peak > 0
