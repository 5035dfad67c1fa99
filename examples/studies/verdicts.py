"""How often does the interval of `compare_with_supervised` hold the gain over five nets?

    python examples/studies/verdicts.py

The 1,000 test rows of a cell of the study of gains, with the recorded predictions of five nets and
of a semi-supervised method, are the population: its gain in F1 is known. Rows are drawn from it
with replacement, and each draw gives an interval and a verdict. Half a minute on one core.
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
CONFIDENCE = 0.95


def verdicts(y: Any, first: Any, second: Any, n: int, rng: np.random.Generator) -> list[Any]:
    """Gain of a population; then whether each interval holds it, and whether it lies above 0."""
    one = np.ones((1, len(y)))
    gain = float((weighted_f1(one, y, second, 2, 1) - weighted_f1(one, y, first, 2, 1))[0])
    found = []
    for _ in range(N_DRAWS):
        i = rng.integers(len(y), size=n)
        drawn = paired_gain(
            y[i],
            first[None, i],
            second[None, i],
            2,
            1,
            confidence=CONFIDENCE,
            n_resamples=400,
            rng=rng,
        )
        found.append((drawn.low <= gain <= drawn.high, drawn.low > 0))
    return [gain, *np.mean(found, axis=0)]


def main() -> None:
    rng = np.random.default_rng(0)
    nets = recorded("confirm")
    print("| method | rows | holds the gain | on the worst task | use, no gain | use, a gain |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for method, (arm, name) in METHODS.items():
        cells = recorded(arm)
        for n in N_ROWS:
            by_task: dict[str, list[float]] = {}
            said: dict[bool, list[float]] = {True: [], False: []}
            for cell in sorted(nets.keys() & cells.keys()):
                y = nets[cell]["y"].astype(np.int64)
                mean = np.mean([nets[cell][f"start{i}"] for i in range(N_STARTS)], axis=0)
                codes = [(p > 0.5).astype(np.int64) for p in (mean, cells[cell][name])]
                gain, holds, use = verdicts(y, *codes, n, rng)
                by_task.setdefault(cell.rpartition("_")[0], []).append(holds)
                said[gain > 0].append(use)
            holds = [np.mean(values) for values in by_task.values()]
            row = [np.mean(holds), min(holds), np.mean(said[False]), np.mean(said[True])]
            print(f"| {method} | {n} |", " | ".join(f"{x:.1%}" for x in row), "|", flush=True)


if __name__ == "__main__":
    sys.exit(main())
