"""How often does the interval of `compare_with_supervised` hold the gain over five nets?

    python examples/studies/verdicts.py

The 1,000 test rows of a cell of the study of gains, with the recorded predictions of five nets and
of a semi-supervised method, are the population: its gain in F1 is known. Rows are drawn from it
with replacement, and each draw gives an interval and a verdict. A minute on one core.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from gain_study import N_STARTS, recorded

from sklearn_spt.model_selection._intervals import paired_gain, weighted_f1

#: Method -> the arm of its records and its name there.
METHODS = {
    "defaults": ("defaults", "defaults"),
    "five starts": ("confirm", "five starts"),
    "the paper's settings": ("paper", "paper's settings, k = 1/3"),
}
N_ROWS = (300, 100)
N_DRAWS = 100
N_RESAMPLES = 400
CONFIDENCE = 0.95
COLUMNS = ("holds the gain", "on the worst task", "plain bootstrap", "use", "use without a gain")


def plain_interval(y: Any, first: Any, second: Any, rng: np.random.Generator) -> list[float]:
    """Interval of the plain bootstrap, for comparison."""
    W = rng.multinomial(len(y), np.full(len(y), 1 / len(y)), size=N_RESAMPLES).astype(float)
    gains = weighted_f1(W, y, second, 2, 1) - weighted_f1(W, y, first, 2, 1)
    return np.quantile(gains, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()


def verdicts(
    y: Any, first: Any, second: Any, n: int, rng: np.random.Generator
) -> tuple[float, Any]:
    """Gain of a population; then, in the mean over draws, how often what is in `COLUMNS` is so."""
    one = np.ones((1, len(y)))
    gain = float((weighted_f1(one, y, second, 2, 1) - weighted_f1(one, y, first, 2, 1))[0])
    found = []
    for _ in range(N_DRAWS):
        i = rng.integers(len(y), size=n)
        rows = y[i], first[i], second[i]
        options: dict[str, Any] = {"confidence": CONFIDENCE, "n_resamples": N_RESAMPLES}
        drawn = paired_gain(rows[0], *(p[None] for p in rows[1:]), 2, 1, rng=rng, **options)
        low, high = plain_interval(*rows, rng)
        use = drawn.low > 0
        found.append((drawn.low <= gain <= drawn.high, low <= gain <= high, use, use and gain <= 0))
    return gain, np.mean(found, axis=0)


def main() -> None:
    rng = np.random.default_rng(0)
    nets = recorded("confirm")
    print(f"| method | rows | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * (1 + len(COLUMNS))}")
    for method, (arm, name) in METHODS.items():
        cells = recorded(arm)
        for n in N_ROWS:
            gains, found = [], []
            by_task: dict[str, list[float]] = {}
            for cell in sorted(nets.keys() & cells.keys()):
                y = nets[cell]["y"].astype(np.int64)
                mean = np.mean([nets[cell][f"start{i}"] for i in range(N_STARTS)], axis=0)
                codes = [(p > 0.5).astype(np.int64) for p in (mean, cells[cell][name])]
                gain, shares = verdicts(y, *codes, n, rng)
                gains.append(gain)
                found.append(shares)
                by_task.setdefault(cell.rpartition("_")[0], []).append(shares[0])
            holds, plain, use, wrong = np.mean(found, axis=0)
            worst = min(map(np.mean, by_task.values()))
            cells_of_row = (f"{x:.1%}" for x in (holds, worst, plain, use, wrong))
            print(f"| {method} | {n} |", " | ".join(cells_of_row), "|", flush=True)
        low, middle, high = np.quantile(gains, [0.25, 0.5, 0.75])
        print(f"<!-- gains of {method}: quartiles {low:+.3f}, {middle:+.3f}, {high:+.3f} -->")


if __name__ == "__main__":
    sys.exit(main())
