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
from _checkpoints import HELP, checkpoint
from _texts import texts_of
from tqdm import tqdm

from sklearn_spt import BertClassifier
from sklearn_spt.nets._batching import INFERENCE_TOKENS, INFERENCE_TOKENS_CPU
from sklearn_spt.nets._batching import WIDTH_MULTIPLE
from sklearn_spt.nets._kernels import plain
from sklearn_spt.text._locations import DEFAULT_ENCODER

FAST_ON_CPU = {
    "dropout": "without masks from random bytes",
    "attention": "without the attention written out",
    "packing": "with padding",
}
FAST_ON_CUDA = {
    "losses": "with a look at the loss of each step",
    "resident": "with a copy to the device for each step",
}
SIZES_ON_CPU = (256, 512, INFERENCE_TOKENS_CPU, 2048, 4096, 8192)
SIZES_ON_CUDA = (2048, 4096, INFERENCE_TOKENS, 16_384, 32_768, 65_536)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--n-texts", type=int, help="texts in a fit (default: 256, on a GPU 2000)")
    add("--epochs", type=int, help="of a fit (default: 1, on a GPU 4: graphs need many batches)")
    add("--rounds", type=int, default=5, help="of which the median is taken (default: 5)")
    add("--threads", type=int, help="CPU threads (default: torch's own choice)")
    add("--pretrained", default=DEFAULT_ENCODER, type=checkpoint, help=HELP)
    add("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: cpu)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    cuda = options.device == "cuda"
    epochs = options.epochs or (4 if cuda else 1)
    data, texts, y = texts_of(options.n_texts or (2000 if cuda else 256), normalize=True)

    def fit(window: int, graphs: bool, mode: AbstractContextManager[None]) -> float:
        net = BertClassifier(
            options.pretrained,
            max_epochs=epochs,
            balanced_batches=False,
            head_init="random",
            precision=options.precision,
            device=options.device,
            cuda_graphs=graphs,
            iterator_train__window=window,
            # the same batches with graphs and without
            iterator_train__width_multiple=WIDTH_MULTIPLE if cuda else 1,
            random_state=0,
        )
        start = time.perf_counter()
        with mode:
            net.fit(texts, y)  # ends with a look at the losses, for which a GPU is waited for
        return time.perf_counter() - start

    names = FAST_ON_CUDA if cuda else FAST_ON_CPU
    variants: dict[str, tuple[int, bool, Callable[[], AbstractContextManager[None]]]] = {
        "everything": (50, cuda, nullcontext),
        **{label: (50, cuda, partial(plain, name)) for name, label in names.items()},
        "without batches of like length": (1, cuda, nullcontext),
        "without any of them": (1, False, plain),
    }
    if cuda:
        variants["without CUDA graphs"] = (50, False, nullcontext)
    fit(50, cuda, nullcontext())  # not timed: files are read, threads start
    times: dict[str, list[float]] = {name: [] for name in variants}
    with tqdm(total=options.rounds * len(variants), desc="measuring") as bar:
        for number in range(options.rounds):
            for name in list(variants)[:: 1 if number % 2 == 0 else -1]:
                window, graphs, mode = variants[name]
                bar.set_postfix_str(name)
                times[name].append(fit(window, graphs, mode()))
                bar.update()
    print("| | training, texts/s | everything is faster by |\n| --- | ---: | ---: |")
    n = epochs * len(y)
    for name, found in times.items():
        ratios = faster(found, times["everything"])
        print(f"| {name} | {n / statistics.median(found):.1f} | {ratios} |")
    used = INFERENCE_TOKENS if cuda else INFERENCE_TOKENS_CPU
    print(f"\n| tokens in a batch of inference | texts/s | {used} are faster by |")
    print("| ---: | ---: | ---: |")
    inference = inference_seconds(options, texts)
    for tokens, found in inference.items():
        rate = len(y) / statistics.median(found)
        print(f"| {tokens} | {rate:.1f} | {faster(found, inference[used])} |")
    print(
        f"\n{len(y)} {data}, epochs: {epochs}, threads: {torch.get_num_threads()}, rounds: "
        f"{options.rounds} (medians; in brackets the least and the greatest)."
    )


def faster(found: list[float], against: list[float]) -> str:
    """Ratio of two times of the same round: median, minimum and maximum."""
    ratios = [slow / fast for slow, fast in zip(found, against, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def inference_seconds(options: argparse.Namespace, texts: Sequence[str]) -> dict[int, list[float]]:
    """Seconds of labelling all texts, by the number of tokens in a batch, one per round."""
    net = BertClassifier(
        options.pretrained, classes=[0, 1], precision=options.precision, device=options.device
    ).initialize()
    ids = net.encode(texts)
    net.forward(ids)  # not timed
    sizes = SIZES_ON_CUDA if options.device == "cuda" else SIZES_ON_CPU
    times: dict[int, list[float]] = {tokens: [] for tokens in sizes}
    for number in range(options.rounds):
        for tokens in sizes[:: 1 if number % 2 == 0 else -1]:
            with patch("sklearn_spt.nets._batching.inference_limits", return_value=(1, tokens)):
                start = time.perf_counter()
                net.forward(ids)
            times[tokens].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
