"""Texts per second of fine-tuning and prediction, beside a plain skorch loop.

Run ``python examples/benchmarks/training_speed.py`` on a machine that does nothing else. Two
programs fine-tune the same encoder on the same texts in the same process and take turns:

textbook
    what one writes at first: texts padded to 128 tokens, torch's DataLoader, dropout and AdamW as
    they come, plain ("eager") attention, fp32, a loop by skorch.
sklearn_spt
    `BertClassifier` with its defaults, apart from what makes the two alike: mean pooling, texts
    cut to 128 tokens, each drawn exactly once in an epoch.

Both times are those of a whole ``fit`` or ``predict_proba`` on raw texts: tokenising and building
the net are in them. Both must take the same number of optimiser steps over the same number of
texts, or the program stops. A table in Markdown goes to the standard output, and everything that
was measured to the file of ``--json``.

The share of the machine's rate says how much of what its matrix units can do is used for the
texts: 6 floating-point operations for each encoder weight and token in training, 2 in inference,
over the rate of a matrix product of the encoder's sizes in the same precision. Attention is left
out, padding counts as no work, and so do tokenising and the optimiser: a share of 1 cannot be
reached.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import skorch
import torch
import transformers
from skorch.callbacks import Callback
from torch import nn
from tqdm import tqdm

import sklearn_spt
from sklearn_spt import BertClassifier
from sklearn_spt._device import resolve_precision
from sklearn_spt._locations import DEFAULT_ENCODER, checkpoint_folder
from sklearn_spt.datasets import fetch_illness, make_short_texts

MAX_LENGTH = 128
LEARNING_RATE = 1e-4
PROGRAMS = ("textbook", "sklearn_spt")
TASKS = ("training", "inference")
# Weights that take part in a matrix product for each token; a lookup is no product.
NO_PRODUCT = ("embeddings.", "LayerNorm", "bias")


# -- the two programs ------------------------------------------------------------------------------
class Counter(Callback):
    """Counts optimiser steps and the texts that they saw."""

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        """Start from zero."""
        self.steps_ = self.texts_ = 0

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, **_: Any) -> None:
        """Count a training batch; its targets have one entry for each text."""
        if training:
            self.steps_ += 1
            self.texts_ += len(batch[1])


class TextbookModule(nn.Module):
    """Encoder, mean over the tokens, dropout and a linear layer."""

    def __init__(self, folder: str, n_classes: int) -> None:
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(self.encoder.config.hidden_size, n_classes)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Logits."""
        states = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weight).sum(dim=1) / weight.sum(dim=1)
        logits: torch.Tensor = self.head(self.dropout(mean))
        return logits


class Textbook:
    """Tokenise everything to one width, then a skorch net with what torch has by default."""

    precision = "fp32"

    def __init__(self, options: argparse.Namespace) -> None:
        folder = checkpoint_folder(options.pretrained)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.net = skorch.NeuralNetClassifier(
            TextbookModule,
            module__folder=folder,
            module__n_classes=2,
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.AdamW,
            optimizer__weight_decay=0.0,
            lr=LEARNING_RATE,
            batch_size=options.batch_size,
            max_epochs=options.epochs,
            iterator_train__shuffle=True,
            train_split=None,
            classes=[0, 1],
            callbacks=[("counter", Counter())],
            verbose=0,
        )

    def encoded(self, texts: list[str]) -> dict[str, torch.Tensor]:
        """Ids and mask of shape (n, 128)."""
        out = self.tokenizer(
            texts,
            padding="max_length",
            truncation=True,
            max_length=MAX_LENGTH,
            return_tensors="pt",
        )
        return {name: out[name] for name in ("input_ids", "attention_mask")}

    def fit(self, texts: list[str], y: np.ndarray) -> None:
        """Tokenise and fine-tune."""
        self.net.fit(self.encoded(texts), y)

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        """Tokenise and predict."""
        return np.asarray(self.net.predict_proba(self.encoded(texts)))


class Ours:
    """`BertClassifier` on raw texts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.net = BertClassifier(
            options.pretrained,
            pooling="mean",
            max_length=MAX_LENGTH,
            lr=LEARNING_RATE,
            batch_size=options.batch_size,
            max_epochs=options.epochs,
            balanced_batches=False,
            device="cpu",
            precision=options.precision,
            random_state=0,
            callbacks=[("counter", Counter())],
        )
        self.precision = resolve_precision(options.precision, "cpu")
        self.fit = self.net.fit
        self.predict_proba = self.net.predict_proba


# -- what is measured ------------------------------------------------------------------------------
def seconds(work: Callable[[], Any]) -> float:
    """Wall-clock time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def matrix_rate(n: int, k: int, m: int, precision: str, least: float = 0.5) -> float:
    """Floating-point operations a second of an (n, k) by (k, m) product, the best of five."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x, weight = torch.randn(n, k, dtype=dtype), torch.randn(m, k, dtype=dtype)
    with torch.inference_mode():
        nn.functional.linear(x, weight)  # not timed: threads start, weights are laid out
        once = seconds(lambda: nn.functional.linear(x, weight))
        repeats = max(1, round(least / 5 / once))
        best = min(
            seconds(lambda: [nn.functional.linear(x, weight) for _ in range(repeats)])
            for _ in range(5)
        )
    return 2 * n * k * m * repeats / best


def counted(program: Any) -> tuple[int, int]:
    """Optimiser steps of the last fit, and texts in them."""
    counter = dict(program.net.callbacks_)["counter"]
    return counter.steps_, counter.texts_


def encoder_weights(program: Ours) -> int:
    """Weights of the fitted encoder that are multiplied with every token."""
    named = program.net.module_.encoder.model.named_parameters()
    return sum(w.numel() for name, w in named if not any(part in name for part in NO_PRODUCT))


def check_same_start(textbook: Textbook, ours: Ours, text: str) -> None:
    """Stop unless both encoders hold the same weights and read a text in the same way."""
    with torch.random.fork_rng(devices=[]):
        other = TextbookModule(textbook.net.module__folder, 2).encoder.eval()
    batch = textbook.encoded([text])
    module = BertClassifier(ours.net.pretrained, classes=[0, 1], device="cpu", precision="fp32")
    encoder = module.set_params(pooling="mean").initialize().module_.encoder.eval()
    with torch.inference_mode():
        states = other(**batch).last_hidden_state[0, : int(batch["attention_mask"].sum())]
        torch.testing.assert_close(
            encoder(batch["input_ids"])[0], states.mean(0), rtol=0, atol=1e-4
        )


def texts_of(options: argparse.Namespace) -> tuple[str, list[str], np.ndarray]:
    """Name of the data, texts and classes."""
    n = options.n_texts
    if options.data != "generated":
        try:
            texts, y = fetch_illness(download_if_missing=False, return_X_y=True)
        except OSError:
            if options.data == "illness":
                raise SystemExit(
                    "The illness tweets are not on this machine: call "
                    "sklearn_spt.datasets.fetch_illness() once, or use --data generated."
                ) from None
        else:
            rows = np.random.default_rng(0).permutation(len(texts))[:n]
            return "illness tweets", *both_classes_first(texts[rows], y[rows])
    texts, y = make_short_texts(n, random_state=0, return_X_y=True)
    return "made-up posts", *both_classes_first(np.asarray(texts, dtype=object), np.asarray(y))


def both_classes_first(texts: np.ndarray, y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The same rows, such that the first two, and so any few, hold both classes."""
    if len(set(y.tolist())) < 2:
        raise SystemExit(f"{len(y)} texts hold one class only; take more with --n-texts.")
    first = [int(np.argmax(y == label)) for label in (0, 1)]
    order = [*first, *(row for row in range(len(y)) if row not in first)]
    return texts[order].tolist(), y[order]


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
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
        "capabilities": [name for name in telling if capabilities.get(name)],
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers", "skorch")},
        "sklearn_spt": sklearn_spt.__version__,
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All measurements of all rounds, and what belongs to them."""
    data, texts, y = texts_of(options)
    programs: dict[str, Any] = {"textbook": Textbook(options), "sklearn_spt": Ours(options)}
    check_same_start(programs["textbook"], programs["sklearn_spt"], texts[0])
    mask = programs["textbook"].encoded(texts)["attention_mask"]
    tokens = float(mask.sum(dim=1).double().mean())
    few = max(options.batch_size, 2)
    for program in programs.values():  # not timed: files are read, threads start
        program.fit(texts[:few], y[:few])
        program.predict_proba(texts[:few])

    config = programs["textbook"].net.module_.encoder.config
    sizes = (
        round(options.batch_size * tokens),
        int(config.hidden_size),
        int(getattr(config, "intermediate_size", 4 * config.hidden_size)),
    )
    rates: dict[str, list[float]] = {program.precision: [] for program in programs.values()}
    times: dict[str, dict[str, list[float]]] = {p: {t: [] for t in TASKS} for p in PROGRAMS}
    steps: dict[str, tuple[int, int]] = {}
    total = options.rounds * (len(rates) + len(PROGRAMS) * len(TASKS))
    with tqdm(total=total, desc="measuring", unit="part") as bar:
        for number in range(options.rounds):
            for precision, found in rates.items():
                found.append(matrix_rate(*sizes, precision))
                bar.update()
            for name in PROGRAMS if number % 2 == 0 else PROGRAMS[::-1]:
                program = programs[name]
                bar.set_postfix_str(name)
                times[name]["training"].append(seconds(lambda p=program: p.fit(texts, y)))
                bar.update()
                steps[name] = counted(program)
                times[name]["inference"].append(seconds(lambda p=program: p.predict_proba(texts)))
                bar.update()
    if len(set(steps.values())) != 1:
        raise SystemExit(f"not comparable: (steps, texts) of a fit were {steps}.")
    n_steps, n_trained = steps["sklearn_spt"]
    return {
        "machine": machine(),
        "data": data,
        "pretrained": options.pretrained,
        "n_texts": len(texts),
        "tokens_per_text": tokens,
        "batch_size": options.batch_size,
        "epochs": options.epochs,
        "steps": n_steps,
        "texts_trained": n_trained,
        "rounds": options.rounds,
        "encoder_weights": encoder_weights(programs["sklearn_spt"]),
        "precision": {name: program.precision for name, program in programs.items()},
        "matrix_product": dict(zip("nkm", sizes, strict=True)),
        "matrix_rates": rates,
        "seconds": times,
    }


# -- what is said about it -------------------------------------------------------------------------
def summary(record: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Medians over the rounds: texts a second, and the share of the machine's rate."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    texts = {"training": record["texts_trained"], "inference": record["n_texts"]}
    for task, passes in zip(TASKS, (6, 2), strict=True):
        operations = passes * record["encoder_weights"] * record["tokens_per_text"]
        out[task] = {}
        for name in PROGRAMS:
            speed = texts[task] / statistics.median(record["seconds"][name][task])
            rate = statistics.median(record["matrix_rates"][record["precision"][name]])
            out[task][name] = {"texts_per_second": speed, "share": speed * operations / rate}
        pairs = zip(*(record["seconds"][name][task] for name in PROGRAMS), strict=True)
        out[task]["ratio"] = {"median": statistics.median(slow / fast for slow, fast in pairs)}
    return out


def table(record: dict[str, Any]) -> str:
    """Summary and machine as Markdown."""
    medians = summary(record)
    precision = record["precision"]
    heads = [f"{name} ({precision[name]})" for name in PROGRAMS]
    lines = [f"| | {heads[0]} | {heads[1]} | ratio |", "| --- | ---: | ---: | ---: |"]
    for task in TASKS:
        speeds = [f"{medians[task][name]['texts_per_second']:.1f}" for name in PROGRAMS]
        ratio = f"{medians[task]['ratio']['median']:.1f}"
        lines.append(f"| {task}, texts/s | {' | '.join(speeds)} | {ratio} |")
    for task in TASKS:
        shares = [f"{medians[task][name]['share']:.1%}" for name in PROGRAMS]
        lines.append(f"| {task}, share of the matrix rate | {' | '.join(shares)} | |")
    rates = [statistics.median(record["matrix_rates"][precision[name]]) for name in PROGRAMS]
    lines.append(f"| matrix rate, GFLOP/s | {rates[0] / 1e9:.0f} | {rates[1] / 1e9:.0f} | |")
    host = record["machine"]
    sizes = " x ".join(str(size) for size in record["matrix_product"].values())
    lines += [
        "",
        f"{host['cpu']} ({', '.join(host['capabilities']) or 'no vector extensions named'}), "
        f"threads: {host['threads']}, torch {host['torch']}, transformers {host['transformers']}, "
        f"skorch {host['skorch']}, Python {host['python']}, sklearn_spt {host['sklearn_spt']}.",
        f"{record['pretrained']}: {record['encoder_weights'] / 1e6:.1f}M weights in products. "
        f"{record['n_texts']} {record['data']} of {record['tokens_per_text']:.1f} tokens on "
        f"average; epochs: {record['epochs']}, steps of each program: {record['steps']}, texts in "
        f"a step: {record['batch_size']}. Matrix product {sizes}. Rounds: {record['rounds']} "
        "(medians).",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the file that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n-texts", type=int, default=256, help="texts in a fit (default: 256)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: 3)")
    parser.add_argument("--epochs", type=int, default=1, help="epochs of a fit (default: 1)")
    parser.add_argument("--batch-size", type=int, default=32, help="texts in a step (default: 32)")
    parser.add_argument(
        "--data",
        choices=("illness", "generated"),
        help="illness tweets or made-up posts (default: the tweets where they are found)",
    )
    parser.add_argument("--pretrained", default=DEFAULT_ENCODER, help="checkpoint of both")
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16"),
        default="auto",
        help="of sklearn_spt; the textbook has fp32 (default: auto)",
    )
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own choice)")
    parser.add_argument("--json", type=Path, help="file for everything that was measured")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    record = measure(options)
    print(table(record))
    if options.json:
        options.json.write_text(json.dumps({**record, "summary": summary(record)}, indent=1))


if __name__ == "__main__":
    main()
