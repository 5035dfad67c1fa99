"""How the cost of a fit grows: with unlabelled texts, with their length, with threads.

``python examples/benchmarks/scaling.py unlabeled``
    seconds and peak memory of a whole fit for a growing number of unlabelled texts.
``python examples/benchmarks/scaling.py length``
    training and inference texts a second for texts of 16 to 256 tokens.
``python examples/benchmarks/scaling.py threads``
    the same for a growing number of threads.
``python examples/benchmarks/scaling.py million``
    seconds and memory of all that a fit does besides training and labelling (validation, encoding,
    sampling, inertia, pseudo-labels) for 1,000,000 unlabelled texts.

Each prints a table in Markdown. Texts are made up, so that every machine measures the same.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from _options import parser_of
from _record import Record
from tqdm import tqdm

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._functional import predicted_classes
from sklearn_spt._random import draw_sample
from sklearn_spt._supervised import timed
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.experiments._peak_memory import PeakMemory
from sklearn_spt.self_pretraining._inertia import inertial_transform
from sklearn_spt.self_pretraining._sample_sizes import growing_sample_sizes
from sklearn_spt.text._pretrained import vocabulary_size

N_LABELED = 300


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """Median wall-clock time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_of(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of a call, and the process's peak memory in MiB."""
    start = time.perf_counter()
    with PeakMemory() as memory:
        work()
    return time.perf_counter() - start, memory.peak / 2**20


def texts_of(n: int) -> tuple[list[str], np.ndarray]:
    """Made-up posts, the first `N_LABELED` of them for the labelled part."""
    texts, y = make_short_texts(n + N_LABELED, random_state=0, return_X_y=True)
    return list(texts), np.asarray(y)


def by_unlabeled(options: argparse.Namespace, record: Record) -> None:
    """Whole fits."""
    print("| unlabelled texts | trained on | labelled | seconds | texts/s | peak memory, MiB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for n in tqdm(options.sizes or [1000, 2000, 5000, 10_000, 20_000, 50_000], desc="sizes"):
        if record.over():
            return
        texts, y = texts_of(n)
        net = BertClassifier(options.pretrained, device=options.device)
        paper = {"logit_adjustment": 0}
        clf = SelfPretrainingClassifier(net, step_size=options.step_size, random_state=0, **paper)
        if options.step_size == 1:
            clf.set_params(alpha=0)  # one iteration: inertia would have nothing to go on
        y[N_LABELED:] = -1
        took, peak = peak_of(lambda clf=clf, texts=texts, y=y: clf.fit(texts, y))
        labelled = sum(clf.sample_sizes_) + clf.n_iter_ * N_LABELED
        trained = sum(clf.sample_sizes_) + 3 * (1 + clf.n_iter_) * N_LABELED
        speed = (labelled + trained) / took
        record.add(unlabeled=n, trained=trained, labelled=labelled, seconds=took, mebibytes=peak)
        tqdm.write(
            f"| {n:,} | {trained:,} | {labelled:,} | {took:.0f} | {speed:.0f} | {peak:,.0f} |"
        )


def by_length(options: argparse.Namespace, record: Record) -> None:
    """Training and inference of texts of one length."""
    print("| tokens | training, texts/s | tokens/s | inference, texts/s | tokens/s |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    rng = np.random.default_rng(0)
    for width in tqdm(options.sizes or [16, 32, 64, 128, 256], desc="lengths"):
        if record.over():
            return
        n = max(32, min(256, 8192 // width // 32 * 32))
        words = vocabulary_size(options.pretrained)
        ids = rng.integers(words // 10, words, size=(n, width), dtype=np.int32)
        y = np.arange(n) % 2
        net = BertClassifier(
            options.pretrained,
            max_epochs=1,
            head_init="random",
            random_state=0,
            device=options.device,
        )
        net.fit(ids[:32], y[:32])
        training = n / seconds(lambda net=net, ids=ids, y=y: net.fit(ids, y), options.rounds)
        inference = n / seconds(lambda net=net, ids=ids: net.predict_proba(ids), options.rounds)
        record.add(tokens=width, training=training, inference=inference)
        tqdm.write(
            f"| {width} | {training:.1f} | {training * width:,.0f} | {inference:.1f} | "
            f"{inference * width:,.0f} |"
        )


def by_threads(options: argparse.Namespace, record: Record) -> None:
    """Training and inference by the number of threads."""
    print("| threads | training, texts/s | inference, texts/s |")
    print("| ---: | ---: | ---: |")
    texts, y = texts_of(options.n_texts)
    for threads in tqdm(options.sizes or range(1, torch.get_num_threads() + 1), desc="threads"):
        if record.over():
            return
        net = BertClassifier(
            options.pretrained,
            max_epochs=1,
            head_init="random",
            random_state=0,
            n_threads=threads,
            device="cpu",
        )
        net.fit(texts[:32], y[:32])
        training = len(y) / seconds(lambda net=net: net.fit(texts, y), options.rounds)
        inference = len(y) / seconds(lambda net=net: net.predict_proba(texts), options.rounds)
        record.add(threads=threads, training=training, inference=inference)
        tqdm.write(f"| {threads} | {training:.1f} | {inference:.1f} |")


def in_use() -> int:
    """Bytes of memory in use, without freed memory that glibc keeps."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    with PeakMemory() as memory:
        pass
    return memory.peak


def million(options: argparse.Namespace, record: Record) -> None:
    """Everything except training and labelling; the teacher's probabilities are random."""
    n = (options.sizes or [1_000_000])[0]
    texts, y = texts_of(n)
    y = y.copy()
    labeled = np.random.default_rng(0).choice(len(y), N_LABELED, replace=False)
    y[np.setdiff1d(np.arange(len(y)), labeled)] = -1  # labelled rows anywhere, as users have them
    net = BertClassifier(options.pretrained, device="cpu")
    clf = SelfPretrainingClassifier(net, step_size=0.2, random_state=0)
    net.encode(texts[:1000])  # not timed: files are read
    took: dict[str, float] = {}
    peaks: dict[str, int] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        with timed(took, name), PeakMemory() as memory:
            yield
        peaks[name] = max(peaks.get(name, 0), memory.peak)
        record.add(stage=name, seconds=took[name], bytes=peaks[name])

    start = in_use()
    rng = np.random.default_rng(0)
    with stage("parameters, labels, texts: checked, encoded and split"):
        clf._check_params()
        data = clf._validate(net, texts, y, None, None)
    S: dict[int, tuple[float, float]] = {}
    pseudo = np.full(n, -1, dtype=np.int64)
    for t, size in enumerate(growing_sample_sizes(n, n // 5), start=1):
        if record.over():
            return
        with stage("sampling (all iterations)"):
            rows = draw_sample(n, size, np.random.default_rng(t))
            C = data.X_unlabeled[rows]
        p = rng.beta(0.5, 0.5, size)
        P = np.column_stack([p, 1 - p])
        with stage("inertia and pseudo-labels (all iterations)"):
            result = inertial_transform(P, S, 0.1)
            P, S = result.P, result.state
            pseudo[rows] = predicted_classes(P)
        del C, P, p, result
    with stage("attributes"):
        clf._set_transduction(data, pseudo, pseudo)
    print(f"| {n:,} unlabelled texts | seconds | peak memory, bytes a text |")
    print("| --- | ---: | ---: |")
    for name, value in took.items():
        print(f"| {name} | {value:.1f} | {(peaks[name] - start) / n:.0f} |")
    peak = max(peaks.values())
    print(f"| all | {sum(took.values()):.1f} | {(peak - start) / n:.0f} |")
    print(
        f"\nPeak memory {peak / 2**30:.2f} GiB, {start / 2**30:.2f} GiB of it there before "
        f"(libraries and texts). In use at the end: {(in_use() - start) / n:.0f} bytes a text. "
        f"Token ids: {data.X_unlabeled.nbytes / n:.0f} bytes a text."
    )


def main() -> None:
    """Read the options and measure."""
    parser = parser_of(__doc__, "pretrained", "device")
    what = {"unlabeled": by_unlabeled, "length": by_length, "threads": by_threads}
    add = parser.add_argument
    add("what", choices=[*what, "million"])
    add("--sizes", type=int, nargs="+", help="texts, tokens or threads (default: see above)")
    add("--rounds", type=int, default=3, help="of which the median is taken (default: 3)")
    add("--step-size", type=float, default=0.2, help="k of whole fits (default: 0.2)")
    add("--n-texts", type=int, default=256, help="of threads (default: 256)")
    options = parser.parse_args()
    {**what, "million": million}[options.what](options, Record(options))


if __name__ == "__main__":
    main()
