"""What each fast way brings: `BertClassifier` with all of them, and without one at a time.

A second table has the inference in batches of other sizes.

Run ``python examples/benchmarks/what_pays.py`` on a machine that does nothing else. All variants
take turns in one process, on the same texts and with the same number of steps; a number is the
time without a fast way over the time with all of them, the median over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from unittest.mock import patch

import torch
from _options import parser_of
from _record import Record
from _texts import texts_of
from tqdm import tqdm

from sklearn_spt import BertClassifier
from sklearn_spt.nets._batching import INFERENCE_TOKENS
from sklearn_spt.nets._kernels import plain

FAST = {
    "dropout": "without masks from random bytes",
    "attention": "without the attention written out",
    "packing": "with padding",
}
TOKENS = INFERENCE_TOKENS["cpu"]
SIZES = (256, 512, TOKENS, 2048, 4096, 8192)


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__, "pretrained", "precision", "threads", "normalize")
    add = parser.add_argument
    add("--n-texts", type=int, default=256, help="texts in a fit (default: 256)")
    add("--epochs", type=int, default=1, help="of a fit (default: 1)")
    add("--rounds", type=int, default=5, help="of which the median is taken (default: 5)")
    options = parser.parse_args()
    record = Record(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    data, texts, y = texts_of(options.n_texts, normalize=options.normalize)

    def fit(window: int, mode: AbstractContextManager[None]) -> float:
        net = BertClassifier(
            options.pretrained,
            max_epochs=options.epochs,
            balanced_batches=False,
            head_init="random",
            precision=options.precision,
            device="cpu",
            iterator_train__window=window,
            random_state=0,
        )
        start = time.perf_counter()
        with mode:
            net.fit(texts, y)
        return time.perf_counter() - start

    variants: dict[str, tuple[int, Callable[[], AbstractContextManager[None]]]] = {
        "everything": (50, nullcontext),
        **{label: (50, partial(plain, name)) for name, label in FAST.items()},
        "without batches of like length": (1, nullcontext),
        "without any of them": (1, plain),
    }
    fit(50, nullcontext())  # not timed: files are read, threads start
    times: dict[str, list[float]] = {name: [] for name in variants}
    with tqdm(total=options.rounds * len(variants), desc="measuring") as bar:
        for number in range(options.rounds):
            if record.over():
                break
            for name in list(variants)[:: 1 if number % 2 == 0 else -1]:
                window, mode = variants[name]
                bar.set_postfix_str(name)
                times[name].append(fit(window, mode()))
                record.add(variant=name, seconds=times[name][-1])
                bar.update()
    print("| | training, texts/s | everything is faster by |\n| --- | ---: | ---: |")
    n = options.epochs * len(y)
    for name, found in times.items():
        if found:
            ratios = faster(found, times["everything"])
            print(f"| {name} | {n / statistics.median(found):.1f} | {ratios} |")
    print(f"\n| tokens in a batch of inference | texts/s | {TOKENS} are faster by |")
    print("| ---: | ---: | ---: |")
    inference = inference_seconds(options, texts, record)
    for tokens, found in inference.items():
        if found:
            rate = len(y) / statistics.median(found)
            print(f"| {tokens} | {rate:.1f} | {faster(found, inference[TOKENS])} |")
    print(
        f"\n{len(y)} {data}, epochs: {options.epochs}, threads: {torch.get_num_threads()}, rounds: "
        f"{options.rounds} (medians; in brackets the least and the greatest)."
    )


def faster(found: list[float], against: list[float]) -> str:
    """Ratio of two times of the same round: median, minimum and maximum."""
    ratios = [slow / fast for slow, fast in zip(found, against, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def inference_seconds(
    options: argparse.Namespace, texts: Sequence[str], record: Record
) -> dict[int, list[float]]:
    """Seconds of labelling all texts, by the number of tokens in a batch, one per round."""
    net = BertClassifier(
        options.pretrained, classes=[0, 1], precision=options.precision, device="cpu"
    ).initialize()
    ids = net.encode(texts)
    net.forward(ids)  # not timed
    times: dict[int, list[float]] = {tokens: [] for tokens in SIZES}
    for number in range(options.rounds):
        if record.over():
            break
        for tokens in SIZES[:: 1 if number % 2 == 0 else -1]:
            with patch("sklearn_spt.nets._batching.inference_limits", return_value=(1, tokens)):
                start = time.perf_counter()
                net.forward(ids)
            times[tokens].append(time.perf_counter() - start)
            record.add(tokens=tokens, seconds=times[tokens][-1])
    return times


if __name__ == "__main__":
    main()
