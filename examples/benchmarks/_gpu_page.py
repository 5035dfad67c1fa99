"""The page of the docs on GPUs, made of what `gpu.py` wrote; a cell may be empty."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Entries = list[dict[str, Any]]

TOP = """\
# On a GPU

{state}

The aims: training at least five times as fast as the Trainer of transformers, and the search below
in less than five minutes.

The page is made by `examples/benchmarks/gpu.py`. `pack` makes a folder of less than 60 MiB with
what a machine may lack; then no network is needed. Each call ends in nine minutes.

```bash
python examples/benchmarks/gpu.py pack packed
python3 examples/benchmarks/gpu.py a --folder packed --json gpu.jsonl
python3 examples/benchmarks/gpu.py b --folder packed --json gpu.jsonl
python3 examples/benchmarks/gpu.py c --folder packed --json gpu.jsonl
python examples/benchmarks/gpu.py c --folder packed --json gpu.jsonl --device cpu --seconds 7200
python examples/benchmarks/gpu.py report gpu.jsonl > docs/gpu.md
```

`--rehearsal` runs the first three on a CPU with few texts.

## What is the same, bit by bit

Random numbers: the same seed draws the same rows, batches and initial weights on a GPU and on a
CPU, and recording a graph gives back the random numbers that it took. Weights that are cast at
once have the digits of autocast. These are tests that run without a GPU. Not the same: kernels of
CUDA add up in an order of their own, some of them in another one at each run, so that two fits
may differ in the last digits, and more after many steps. On graphs AdamW reads a learning rate of
32 bits, in plain steps one of 64. A CPU draws other dropout masks than a GPU. How much differs
between two fits of the same seed, as the greatest difference of a probability:

{equal}

## Steps

Milliseconds of a training step of the default encoder, 32 texts of 48 tokens. *Graphs* is
`BertClassifier(cuda_graphs=True)`, where a step is one graph; *whole step* is such a graph without
skorch's loop, the least that it can take. TF32 is torch's setting, not a parameter.

{steps}

Launches are counted without a GPU: `python -m pytest tests/nets/test_device_launches.py` allows
350 for a step in fp32, 420 in bf16 and 6 with graphs. Milliseconds of an eager step in bf16
without one of the fast paths:

{without}

Milliseconds of the first and the second pass, forward and backward, of the kernels of attention,
by the width of a batch. Flash attention takes no mask. The last two lines name the kernel that the
library takes with a mask, and the one that torch would take.

{attention}

Several nets at once, which the library does not have: milliseconds of the gradients of stacked nets
(`torch.func`), in fp32 without dropout, and of whole steps of nets that each have a stream, in
bf16.

{stacked}

## Labelling and memory

Texts of 48 tokens a second, by the tokens in a batch (the library takes 65,536):

{inference}

Reserved MiB after each of ten fits with graphs, without garbage collection:

{memory}

## Beside other programs

`speed.py` with 4,000 texts, 500 of them labelled, and samples of 1,000; how many times as fast
sklearn_spt is as the Trainer of transformers:

{speed}

## The search

25 values of λ and α in 3 folds, on 500 labelled and 10,000 unlabelled tweets. What is *promised*
is extrapolated from six fits. The texts are encoded once, before: a second on one core of a CPU.

{search}

F1 of the fits that both devices made, mean: {f1}
"""

PATHS = {
    "casts": "weights cast one by one",
    "attention": "kernels of attention as torch takes them, masks made in each layer",
    "losses": "a look at each loss",
    "resident": "a copy for each batch",
}
KERNELS = ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
WIDTHS = (16, 32, 48, 64, 96, 128)


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table in Markdown; the first column holds names. One without a number is a line."""
    if not any(cell != "" for line in rows for cell in line[1:]):
        return "*Not measured yet.*"
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


class Found:
    """The measurements of a GPU."""

    def __init__(self, entries: Entries) -> None:
        self.entries = [e for e in entries if e["device"] == "cuda" and not e["rehearsal"]]

    def last(self, name: str, **about: Any) -> dict[str, Any] | None:
        """Return the last measurement of this kind; None if there is none."""
        wanted = {"name": name, **about}
        fitting = [e for e in self.entries if wanted.items() <= e.items()]
        return fitting[-1] if fitting else None

    def cell(self, key: str, name: str, form: str = ".2f", **about: Any) -> str:
        """Return a number of the last measurement of this kind, or nothing."""
        entry = self.last(name, **about)
        if entry is None:
            return ""
        return f"{entry[key]:{form}}" if key in entry else "failed"


def speeds(found: Found, encoder: str, graphs: bool) -> list[str]:
    """Return how many times as fast as the Trainer; the median over the rounds."""
    entry = found.last("speed", encoder=encoder, graphs=graphs)
    cells = []
    for task in ("training", "inference", "self-pretraining"):
        times = (entry or {}).get("seconds", {}).get(task)
        ratios = (
            [a / b for a, b in zip(times["trainer"], times["sklearn_spt"], strict=False)]
            if (times)
            else []
        )
        cells.append(f"{statistics.median(ratios):.1f}" if ratios else "")
    return cells


def f1_of(entries: Entries) -> str:
    """Return the mean F1 of each device, with and without graphs, over the fits that all have."""
    scores: dict[str, dict[tuple[Any, ...], float]] = {}
    for e in entries:
        if e.get("name") == "fit" and not e["rehearsal"]:
            place = (e["fold"], e["lam"], e["alpha"])
            way = e["device"] + (", graphs" if e["graphs"] else "")
            scores.setdefault(way, {})[place] = e["f1"]
    both = set.intersection(*map(set, scores.values())) if len(scores) > 1 else set()
    if not both:
        return "not measured."
    means = {d: statistics.mean(found[p] for p in both) for d, found in sorted(scores.items())}
    return ", ".join(f"{mean:.3f} ({way})" for way, mean in means.items()) + "."


def page(files: Sequence[Path]) -> str:
    """Return the page in Markdown."""
    entries: Entries = []
    for file in files:
        entries += map(json.loads, file.read_text(encoding="utf-8").splitlines())
    found = Found(entries)
    cell: Callable[..., str] = found.cell
    versions, tests = found.last("versions"), found.last("tests")
    state = "Nothing has been measured yet: this page says what will be, and how."
    if versions is not None:
        names = ("torch", "transformers", "skorch")
        parts = [f"{name} {versions.get(name, '?')}" for name in names]
        state = f"Measured on one {versions.get('accelerator', '?')} with {', '.join(parts)}."
    if tests is not None:
        lines = tests.get("end", tests.get("error", "")).strip().splitlines() or ["nothing printed"]
        state += f" Tests: `{lines[-1]}`."
    ways = ("eager", "graphs", "whole step")
    memory = (found.last("memory") or {}).get("mebibytes", [""] * 10)
    equal = ("eager twice", "graphs twice", "graphs and eager", "casts and autocast")
    tokens, stacks = (8192, 16_384, 32_768, 65_536, 131_072), (1, 5, 25)
    return TOP.format(
        state=state,
        equal=table(
            ["fits", "difference"],
            [[what, cell("difference", "equal", ".1e", what=what)] for what in equal],
        ),
        steps=table(
            ["precision", *ways],
            [
                [p, *(cell("milliseconds", "step", precision=p, way=way) for way in ways)]
                for p in ("fp32", "tf32", "bf16")
            ],
        ),
        without=table(
            ["instead", "milliseconds"],
            [[label, cell("milliseconds", "without", path=p)] for p, label in PATHS.items()],
        ),
        attention=table(
            ["kernel", *WIDTHS],
            [
                [
                    kernel.removesuffix("_ATTENTION").lower(),
                    *(
                        " ".join(
                            cell(key, "attention", ".1f", kernel=kernel, width=width)
                            for key in ("first", "second")
                        ).strip()
                        for width in WIDTHS
                    ),
                ]
                for kernel in KERNELS
            ]
            + [
                [label, *(cell(key, "kernel", "s", width=width).lower() for width in WIDTHS)]
                for label, key in (("the library", "ours"), ("torch", "as torch"))
            ],
        ),
        stacked=table(
            ["nets", "stacked", "on streams"],
            [
                [n, *(cell("milliseconds", name, n=n) for name in ("stacked", "streams"))]
                for n in stacks
            ],
        ),
        inference=table(
            ["tokens", "texts/s"],
            [[f"{n:,}", cell("texts", "inference", ",.0f", tokens=n)] for n in tokens],
        ),
        memory=table(
            ["fit", *range(1, 11)],
            [["MiB", *(f"{m:,.0f}" if isinstance(m, float) else m for m in memory)]],
        ),
        speed=table(
            ["encoder", "training", "inference", "whole fit"],
            [
                [name + (", graphs" if graphs else ""), *speeds(found, name, graphs)]
                for name in ("MiniLM", "BERT-base")
                for graphs in (False, True)
            ],
        ),
        search=table(
            ["", "promised, s", "fits made", "seconds"],
            [
                [
                    "graphs" if graphs else "eager",
                    cell("seconds", "promised", ",.0f", graphs=graphs),
                    cell("fits", "search", "d", graphs=graphs),
                    cell("seconds", "search", ",.0f", graphs=graphs),
                ]
                for graphs in (True, False)
            ],
        ),
        f1=f1_of(entries),
    )
