"""Texts per second of fine-tuning and prediction, and seconds of whole fits, of five programs.

Run ``python examples/benchmarks/speed.py`` on a machine that does nothing else; the extra
``[benchmarks]`` brings what the rivals need. They fine-tune the same encoder on the same texts in
the same process and take turns (see `_programs`):

textbook
    what one writes at first: texts padded to 128 tokens, torch's DataLoader, dropout and AdamW as
    they come, plain ("eager") attention, fp32, tokenised at each fit, a loop by skorch.
trainer
    the Trainer of transformers: dynamic padding, batches of like length, fused AdamW.
plain fast
    what a careful user writes in sixty lines of torch: batches of like length, dropout masks from
    random bytes, fused AdamW, sorted inference (see `_plain_fast`).
sklearn_spt
    `BertClassifier` and `SelfPretrainingClassifier` with their defaults, apart from what makes
    all alike: mean pooling, texts cut to 128 tokens, each drawn exactly once in an epoch, a
    linear layer that starts at random.
setfit
    SetFit on the same labels, with ``--setfit``. It trains on pairs, so only its times are given.

Before anything is timed, the program checks that all start from the same weights, read every text
as the same tokens, and give back probabilities in the order of the texts; afterwards, that they
took the same number of optimiser steps over the same texts. Otherwise it stops. Times are those of
a whole call on raw texts: tokenising and building the net are in them. Peak memory is that of the
process during a call, in which the nets of the other programs lie too. A table in Markdown goes to
the standard output, and each measurement, as soon as it is there, to the file of ``--json``.

The share of the machine's rate says how much of what its matrix units can do is used for the
texts: 6 floating-point operations for each encoder weight and token in training, 2 in inference,
over the rate of a matrix product of the encoder's sizes in the same precision. Attention is left
out, padding counts as no work, and so do tokenising and the optimiser: a share of 1 cannot be
reached.
"""

from __future__ import annotations

import argparse
import platform
import statistics
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from _options import SHARED, parser_of
from _plain_fast import PlainFast
from _programs import (
    Counter,
    HuggingFace,
    Module,
    Ours,
    SetFit,
    Textbook,
    Work,
    self_pretraining,
)
from _rate import matrix_rate, product_sizes, seconds
from _record import Record
from _texts import texts_of
from tqdm import tqdm

import sklearn_spt
from sklearn_spt.experiments._peak_memory import PeakMemory

# Weights that take part in a matrix product for each token; a lookup is not a product.
NO_PRODUCT = ("embeddings.", "LayerNorm", "bias")


# -- what is measured ------------------------------------------------------------------------------
def encoder_weights(program: Ours) -> int:
    """Weights of the fitted encoder that are multiplied with every token."""
    named = program.fitted.module_.encoder.model.named_parameters()
    return sum(w.numel() for name, w in named if not any(part in name for part in NO_PRODUCT))


def check_same_start(options: argparse.Namespace, texts: list[str]) -> None:
    """Stop unless all encoders hold the same weights and read all texts in the same way."""
    textbook, trainer = Textbook(options), HuggingFace(options)
    batch = textbook.encoded(texts[:1])
    with torch.random.fork_rng(devices=[]):
        other = Module(textbook.folder).encoder.eval()
    net = Ours(options).net(classes=[0, 1], device="cpu", precision="fp32", random_state=0)
    encoder = net.initialize().module_.encoder.eval()
    n = int(batch["attention_mask"].sum())
    pad = textbook.tokenizer.pad_token_id
    read = (
        [[i for i in row if i != pad] for row in ids]
        for ids in (
            textbook.encoded(texts)["input_ids"].tolist(),
            [row["input_ids"] for row in trainer.rows(texts)],
            net.encode(texts).tolist(),
        )
    )
    for number, (one, two, three) in enumerate(zip(*read, strict=True)):
        if not one == two == three:
            raise SystemExit(f"not comparable: text {number} is not the same tokens for all.")
    with torch.inference_mode():
        states = other(**batch).last_hidden_state[0, :n]
        torch.testing.assert_close(
            encoder(batch["input_ids"])[0], states.mean(0), rtol=0, atol=1e-4
        )


def check_probabilities(name: str, found: Any, n: int) -> None:
    """Stop unless a program returned one distribution for each text."""
    P = np.asarray(found)
    if P.shape != (n, 2) or not np.allclose(P.sum(axis=1), 1, atol=1e-3):
        raise SystemExit(f"not comparable: {name} gave no probabilities of {n} texts back.")


def check_order(name: str, program: Any, texts: list[str]) -> None:
    """Stop unless the results of a program are in the order of the texts."""
    order = np.random.default_rng(0).permutation(len(texts))
    there = np.asarray(program.predict_proba(texts))
    back = program.predict_proba([texts[i] for i in order])
    check_probabilities(name, there, len(texts))
    tolerance = 1e-4 if program.precision == "fp32" else 2e-2
    if not np.allclose(there[order], back, atol=tolerance):
        raise SystemExit(f"not comparable: {name} gives results in another order than the texts.")


def both_classes_first(texts: np.ndarray, y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Reorder rows so that the first two hold both classes."""
    if len(set(y.tolist())) < 2:
        raise SystemExit(f"{len(y)} texts hold one class only; take more with --n-texts.")
    first = [int(np.argmax(y == label)) for label in (0, 1)]
    order = [*first, *(row for row in range(len(y)) if row not in first)]
    return texts[order].tolist(), y[order]


def machine(device: str) -> dict[str, Any]:
    """What the numbers depend on."""
    accelerator = f" with {torch.cuda.get_device_name()}" if device == "cuda" else ""
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    telling = ("avx2", "avx512_f", "avx512_bf16", "amx_tile", "amx_bf16")
    model = str(capabilities.get("cpu_name", "")) or platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else model,
        "accelerator": accelerator,
        "capabilities": [name for name in telling if capabilities.get(name)],
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "skorch")},
        "sklearn_spt": sklearn_spt.__version__,
    }


class Turns:
    """Run programs in turn, in a new order each round, and check that they do equal work."""

    def __init__(self, programs: dict[str, Any], rounds: int, bar: Any, record: Record) -> None:
        self.programs = programs
        self.record = record
        self.rounds = rounds
        self.bar = bar
        self.work: dict[str, Work] = {}
        self.peaks: dict[str, dict[str, int]] = {}

    def __call__(
        self, task: str, run: Callable[[Any], Any], check: Callable[[str, Any], None] | None = None
    ) -> dict[str, Any]:
        """Seconds of every program in every round.

        It stops if what they trained on differs, or, where nothing is trained, by a check of
        what they gave back.
        """
        peaks = self.peaks[task] = dict.fromkeys(self.programs, 0)
        times: dict[str, list[float]] = {name: [] for name in self.programs}
        for number in range(self.rounds):
            if self.record.over():
                break
            for name in list(self.programs)[:: 1 if number % 2 == 0 else -1]:
                self.bar.set_postfix_str(f"{task}, {name}")
                Counter.start()
                program = self.programs[name]
                out: list[Any] = []
                with PeakMemory() as memory:
                    times[name].append(seconds(lambda p=program, o=out: o.append(run(p))))
                peak = memory.peak if memory.peak_cuda is None else memory.peak_cuda
                peaks[name] = max(peaks[name], peak)
                if check is not None:
                    check(name, out[0])
                elif self.work.setdefault(task, Counter.work) != Counter.work:
                    raise SystemExit(
                        f"not comparable: {task} of {name} took {Counter.work}, of another "
                        f"program {self.work[task]}."
                    )
                self.record.add(task=task, program=name, seconds=times[name][-1], memory=peak)
                self.bar.update()
        return times


def measure(options: argparse.Namespace, record: Record) -> dict[str, Any]:
    """All measurements of all rounds, with their settings."""
    data, *drawn = texts_of(options.n_texts, options.data, normalize=options.normalize)
    texts, y = both_classes_first(*drawn)
    n_labeled, step = options.n_labeled, options.step_size
    labeled, unlabeled = texts[:n_labeled], texts[n_labeled:]
    if step > len(unlabeled) or n_labeled < 2:
        raise SystemExit(
            f"{len(texts)} texts less --n-labeled={n_labeled} leave {len(unlabeled)}, of which "
            f"--step-size={step} cannot be taken; take more --n-texts, or --step-size 0 for no "
            "whole fit."
        )
    check_same_start(options, texts)
    ours = Ours(options)
    programs: dict[str, Any] = {
        p.name: p for p in (Textbook(options), HuggingFace(options), PlainFast(options), ours)
    }
    setfit = SetFit(options) if options.setfit else None
    targets = np.eye(2)[y]
    ids = ours.net().encode(texts)
    lengths = (ids != 0).sum(axis=1)
    few = max(options.batch_size, 2)
    for name, program in programs.items():  # not timed: files are read, threads start
        program.train(texts[:few], targets[:few], 1)
        check_order(name, program, texts[:few])
    config = ours.fitted.module_.encoder.model.config
    sizes = product_sizes(config, options.batch_size, float(lengths.mean()))
    end_to_end = step > 0
    parts = options.rounds * (len(programs) * (2 + end_to_end) + 2) + bool(setfit)
    with tqdm(total=parts, desc="measuring", unit="part") as bar:
        rates: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for precision in {program.precision for program in programs.values()}:
                rate = matrix_rate(*sizes, precision, options.device)
                rates.setdefault(precision, []).append(rate)
            bar.update()
        turns = Turns(programs, options.rounds, bar, record)
        times = {
            "training": turns("training", lambda p: p.train(texts, targets, options.epochs)),
            "inference": turns(
                "inference",
                lambda p: p.predict_proba(texts),
                lambda name, found: check_probabilities(name, found, len(texts)),
            ),
        }
        weights = encoder_weights(ours)
        if end_to_end:
            times["self-pretraining"] = turns(
                "self-pretraining",
                lambda p: (
                    p.self_pretraining(labeled, y[:n_labeled], unlabeled, step)
                    if isinstance(p, Ours)
                    else self_pretraining(p, labeled, y[:n_labeled], unlabeled, step)
                ),
            )
        if setfit is not None and not record.over():
            bar.set_postfix_str("setfit")
            times["setfit"] = {
                "fit": [seconds(lambda: setfit.fit(labeled, y[:n_labeled]))],
                "inference": [seconds(lambda: setfit.predict_proba(texts))],
            }
            record.add(task="setfit", seconds=times["setfit"])
            bar.update()
        bar.update(parts - bar.n)
    # what there was no time for is left out
    whole = {task: found for task, found in times.items() if all(found.values())}
    rounds = [len(of_program) for found in whole.values() for of_program in found.values()]
    return {
        "machine": machine(options.device),
        "data": data,
        "pretrained": options.pretrained,
        "n_texts": len(texts),
        "n_labeled": n_labeled,
        "step_size": step,
        "tokens_per_text": float(lengths.mean()),
        "batch_size": options.batch_size,
        "epochs": options.epochs,
        "work": turns.work,
        "peak_memory": turns.peaks,
        "rounds": min(rounds, default=options.rounds),
        "encoder_weights": weights,
        "precision": {name: program.precision for name, program in programs.items()},
        "matrix_product": dict(zip("nkm", sizes, strict=True)),
        "matrix_rates": rates,
        "seconds": whole,
    }


# -- what is said about it -------------------------------------------------------------------------
def rate_of(record: dict[str, Any], task: str, name: str) -> float:
    """Texts a second, the median over the rounds; for a whole fit its seconds."""
    middle = statistics.median(record["seconds"][task][name])
    if task == "self-pretraining":
        return middle
    texts = record["work"]["training"][1] if task == "training" else record["n_texts"]
    return float(texts / middle)


def share_of(record: dict[str, Any], task: str, name: str) -> float:
    """Share of the machine's matrix rate."""
    passes = {"training": 6, "inference": 2}[task]
    operations = passes * record["encoder_weights"] * record["tokens_per_text"]
    rate = statistics.median(record["matrix_rates"][record["precision"][name]])
    return rate_of(record, task, name) * operations / rate


def times_faster(record: dict[str, Any], task: str, name: str) -> list[float]:
    """How many times faster sklearn_spt is in the same round, sorted."""
    pairs = zip(record["seconds"][task][name], record["seconds"][task]["sklearn_spt"], strict=True)
    return sorted(slow / fast for slow, fast in pairs)


def table(record: dict[str, Any]) -> str:
    """Summary and machine as Markdown."""
    precision = record["precision"]
    lines = [
        "| | " + " | ".join(f"{name} ({precision[name]})" for name in precision) + " |",
        "| --- |" + " ---: |" * len(precision),
    ]
    units = {
        "training": "training, texts/s",
        "inference": "inference, texts/s",
        "self-pretraining": "whole Self-Pretraining fit, s",
    }
    for task, label in units.items():
        if task in record["seconds"]:
            cells = [f"{rate_of(record, task, name):.1f}" for name in precision]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    for task in ("training", "inference"):
        if task not in record["seconds"]:
            continue
        cells = [f"{share_of(record, task, name):.1%}" for name in precision]
        lines.append(f"| {task}, share of the matrix rate | {' | '.join(cells)} |")
    for task in units:
        if task in record["seconds"]:
            cells = [f"{record['peak_memory'][task][name] / 2**20:,.0f}" for name in precision]
            lines.append(f"| {task}, peak memory in MiB | {' | '.join(cells)} |")
    for task in units:
        if task in record["seconds"]:
            cells = []
            for name in precision:
                found = times_faster(record, task, name)
                spread = f" ({found[0]:.1f} to {found[-1]:.1f})" if len(found) > 1 else ""
                cells.append(
                    "1" if name == "sklearn_spt" else f"{statistics.median(found):.1f}{spread}"
                )
            lines.append(f"| {task}: sklearn_spt is faster by | {' | '.join(cells)} |")
    host = record["machine"]
    sizes = " x ".join(str(size) for size in record["matrix_product"].values())
    rates = ", ".join(
        f"{statistics.median(found) / 1e9:.0f} GFLOP/s in {name}"
        for name, found in record["matrix_rates"].items()
    )
    lines.append("")
    if "setfit" in record["seconds"]:
        fit, inference = (record["seconds"]["setfit"][k][0] for k in ("fit", "inference"))
        lines.append(
            f"SetFit on the same {record['n_labeled']} labels: {fit:.0f} s, inference "
            f"{record['n_texts'] / inference:.0f} texts/s (fp32, one run)."
        )
    steps = {task: f"{n} steps on {texts} texts" for task, (n, texts, _) in record["work"].items()}
    lines += [
        f"Work of each program: {'; '.join(f'{t}: {what}' for t, what in steps.items())}; "
        f"{record['batch_size']} texts in a step.",
        f"{host['cpu']} ({', '.join(host['capabilities']) or 'no vector extensions named'})"
        f"{host['accelerator']}, threads: {host['threads']}, torch {host['torch']}, transformers "
        f"{host['transformers']}, skorch {host['skorch']}, Python {host['python']}, "
        f"sklearn_spt {host['sklearn_spt']}.",
        f"{record['pretrained']}: {record['encoder_weights'] / 1e6:.1f}M weights in products. "
        f"{record['n_texts']} {record['data']} of {record['tokens_per_text']:.1f} tokens on "
        f"average. Matrix product {sizes}: {rates}. Rounds: {record['rounds']}"
        + (" (medians; in brackets the least and the greatest)." if record["rounds"] > 1 else "."),
    ]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return the options of the program."""
    parser = parser_of(__doc__, "pretrained", "device", "precision", "threads", "normalize")
    add = parser.add_argument
    add("--n-texts", type=int, default=256, help="texts in all (default: 256)")
    add("--n-labeled", type=int, default=64, help="labelled ones, for whole fits (default: 64)")
    add("--step-size", type=int, default=96, help="k of whole fits; 0: none (default: 96)")
    add("--rounds", type=int, default=3, help="turns of each (default: 3)")
    add("--epochs", type=int, default=1, help="epochs of a training run (default: 1)")
    add("--batch-size", type=int, default=32, help="texts in a step (default: 32)")
    add(
        "--data",
        choices=("illness", "generated"),
        help="illness tweets or made-up posts (default: the tweets where they are found)",
    )
    add("--trainer-precision", **{**SHARED["precision"], "help": "of the Trainer (default: auto)"})
    add("--cuda-graphs", action="store_true", help="sklearn_spt launches steps as graphs")
    add("--setfit", action="store_true", help="SetFit, too")
    return parser


def main() -> None:
    """Measure and print."""
    options = parser().parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    record = Record(options)
    found = measure(options, record)
    record.add(all=found)
    print(table(found))


if __name__ == "__main__":
    main()
