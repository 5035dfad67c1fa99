"""How often does the interval of `compare_with_supervised` hold the gain over five nets?

    python examples/studies/verdicts.py

The 1,000 test rows of a cell of the study of gains, with the recorded predictions of five nets and
of a semi-supervised method, are the population: its gain in F1 is known. Rows are drawn from it
with replacement, and each draw gives an interval and a verdict. Two minutes on one core.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from _gain_report import N_STARTS, recorded

from sklearn_spt.model_selection._intervals import interval_of, paired_gain, weighted_f1

#: Method -> the arm of its records and its name there.
METHODS = {
    "defaults": ("defaults", "defaults"),
    "five starts": ("confirm", "five starts"),
    "the paper's settings": ("paper", "paper's settings, k = 1/3"),
    "four students": ("four_students", "four students, and the starts as one"),
}
N_ROWS = (300, 100)
N_DRAWS = 100
N_RESAMPLES = 400
CONFIDENCE = 0.95
COLUMNS = ("holds the gain", "on the worst task", "plain bootstrap", "use", "use without a gain")


def gains(W: Any, y: Any, first: Any, second: Any) -> Any:
    """Gain of F1 for each row of weights."""
    return weighted_f1(W, y, second, 2, 1) - weighted_f1(W, y, first, 2, 1)


def plain_interval(rows: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Interval of the plain bootstrap, for comparison."""
    n = len(rows[0])
    W = rng.multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES).astype(float)
    return interval_of(gains(W, *rows), CONFIDENCE)


def verdicts(
    y: Any, first: Any, second: Any, n: int, rng: np.random.Generator
) -> tuple[float, Any]:
    """Return the gain of a population, and means over draws.

    Those are the shares in which the interval holds the gain, a plain bootstrap holds it, the
    verdict is "use", and it is "use" without a gain; then half the width of the interval.
    """
    gain = float(gains(np.ones((1, len(y))), y, first, second)[0])
    found = []
    options: dict[str, Any] = {"confidence": CONFIDENCE, "n_resamples": N_RESAMPLES}
    for _ in range(N_DRAWS):
        i = rng.integers(len(y), size=n)
        rows = y[i], first[i], second[i]
        drawn = paired_gain(rows[0], *(p[None] for p in rows[1:]), 2, 1, rng=rng, **options)
        low, high = plain_interval(rows, rng)
        use = drawn.low > 0
        holds = drawn.low <= gain <= drawn.high, low <= gain <= high
        found.append((*holds, use, use and gain <= 0, (drawn.high - drawn.low) / 2))
    return gain, np.mean(found, axis=0)


def main() -> None:
    rng = np.random.default_rng(0)
    nets = recorded("confirm")
    print(f"| method | rows | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * (1 + len(COLUMNS))}")
    for method, (arm, name) in METHODS.items():
        cells = recorded(arm)
        for n in N_ROWS:
            of_cells, found = [], []
            by_task: dict[str, list[float]] = {}
            for cell in sorted(nets.keys() & cells.keys()):
                y = nets[cell]["y"].astype(np.int64)
                own = cells[cell] if "start0" in cells[cell] else nets[cell]  # its teachers
                mean = np.mean([own[f"start{i}"] for i in range(N_STARTS)], axis=0)
                codes = [(p > 0.5).astype(np.int64) for p in (mean, cells[cell][name])]
                gain, shares = verdicts(y, *codes, n, rng)
                of_cells.append(gain)
                found.append(shares)
                by_task.setdefault(cell.rpartition("_")[0], []).append(shares[0])
            holds, plain, use, wrong, half = np.mean(found, axis=0)
            worst = min(map(np.mean, by_task.values()))
            cells_of_row = (f"{x:.1%}" for x in (holds, worst, plain, use, wrong))
            print(f"| {method} | {n} |", " | ".join(cells_of_row), "|", flush=True)
            print(f"<!-- half the width of the interval: {half:.3f} -->")
        low, middle, high = np.quantile(of_cells, [0.25, 0.5, 0.75])
        print(f"<!-- gains of {method}: quartiles {low:+.3f}, {middle:+.3f}, {high:+.3f} -->")


if __name__ == "__main__":
    sys.exit(main())
