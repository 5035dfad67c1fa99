"""The rate of matrix products on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def seconds(work: Callable[[], Any]) -> float:
    """Wall-clock time of a call, including the work of an accelerator."""
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def product_sizes(config: Any, batch_size: int, tokens: float) -> tuple[int, int, int]:
    """Return tokens per batch, hidden and intermediate size: the largest product of a layer."""
    hidden = int(config.hidden_size)
    return (
        round(batch_size * tokens),
        hidden,
        int(getattr(config, "intermediate_size", 4 * hidden)),
    )


def matrix_rate(n: int, k: int, m: int, precision: str, device: str, least: float = 0.5) -> float:
    """Floating-point operations a second of an (n, k) by (k, m) product, the best of five."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x = torch.randn(n, k, dtype=dtype, device=device)
    weight = torch.randn(m, k, dtype=dtype, device=device)
    with torch.inference_mode():
        nn.functional.linear(x, weight)  # warm-up, not timed
        once = seconds(lambda: nn.functional.linear(x, weight))
        repeats = max(1, round(least / 5 / once))
        best = min(
            seconds(lambda: [nn.functional.linear(x, weight) for _ in range(repeats)])
            for _ in range(5)
        )
    return 2 * n * k * m * repeats / best
