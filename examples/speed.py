"""Texts per second of fine-tuning and prediction: this library beside two other programs.

    python speed.py                       # made-up texts, on the CPU
    python speed.py --data posts.csv --n-texts 2000 --device cuda --compile
    python speed.py --whole 40,300 300,3000  # minutes of fits, by labelled and unlabelled texts

All three fine-tune the same encoder with a linear layer on the mean of its token states, on the
same texts, cut to the same length, in batches of the same size, with AdamW, a constant rate and
clipped gradients, for the same number of steps. Each call is timed as a whole, from raw texts on:
the tokenizer and the loading of the net count, and so does the compiler.

textbook      a loop of plain PyTorch: padding to --max-length, DataLoader, fp32
trainer       the Trainer of transformers: padding to the longest text of a batch, batches of
              similar length, fused AdamW, bf16 where sklearn_spt uses it
sklearn_spt   BertClassifier; apart from the head, the draws and the rate with its defaults

The programs take turns, in another order each round. Printed are the texts per second of the median
round, and how many times faster sklearn_spt was in the same round. Run it on a machine that does
nothing else.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import torch
import transformers
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModel, AutoTokenizer, Trainer, TrainingArguments

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._module import uses_bf16
from sklearn_spt._pretrained import load_encoder
from sklearn_spt.datasets import make_short_texts

RATE = 1e-4


class Net(nn.Module):
    """Encoder, mean over the tokens, dropout, linear layer; returns loss and logits."""

    def __init__(self, folder, n_classes):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder, dtype=torch.float32)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(self.encoder.config.hidden_size, n_classes)

    def forward(self, input_ids, attention_mask, labels=None, **ignored):
        states = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
        logits = self.head(self.dropout(mean))
        if labels is None:
            return {"logits": logits}
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Textbook:
    """A loop of plain PyTorch."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def loader(self, texts, *labels, **settings):
        how = {"padding": "max_length", "truncation": True, "max_length": self.options.max_length}
        found = self.tokenizer(texts, return_tensors="pt", **how)
        parts = found["input_ids"], found["attention_mask"], *map(torch.from_numpy, labels)
        return DataLoader(TensorDataset(*parts), self.options.batch_size, **settings)

    def forward(self, batch):
        return self.net(*[part.to(self.options.device) for part in batch])

    def fit(self, texts, y):
        self.net = Net(self.folder, len(np.unique(y))).to(self.options.device).train()
        optimizer = torch.optim.AdamW(self.net.parameters(), RATE, weight_decay=0.0)
        batches = self.loader(texts, y, shuffle=True)
        for _ in range(self.options.epochs):
            for batch in batches:
                optimizer.zero_grad()
                self.forward(batch)["loss"].backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                optimizer.step()

    def predict_proba(self, texts):
        self.net.eval()
        with torch.no_grad():
            found = [self.forward(batch)["logits"] for batch in self.loader(texts)]
        return torch.cat(found).softmax(dim=1).cpu().numpy()


class WithTrainer:
    """The Trainer of transformers."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.collate = transformers.DataCollatorWithPadding(self.tokenizer)

    def trainer(self, rows=None):
        options = self.options
        settings = TrainingArguments(
            output_dir=self.folder,
            per_device_train_batch_size=options.batch_size,
            # its default on a CPU, where more are slower: a batch is as wide as its longest text
            per_device_eval_batch_size=8 if options.device == "cpu" else 8 * options.batch_size,
            num_train_epochs=options.epochs,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            optim="adamw_torch_fused",
            bf16=uses_bf16("auto", torch.device(options.device)),
            use_cpu=options.device == "cpu",
            train_sampling_strategy="group_by_length" if rows else "random",
            remove_unused_columns=False,
            torch_compile=options.compile,
            dataloader_pin_memory=options.device != "cpu",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        made = Trainer(self.net, settings, train_dataset=rows, data_collator=self.collate)
        made.remove_callback(transformers.PrinterCallback)
        return made

    def rows(self, texts, y=None):
        ids = self.tokenizer(texts, truncation=True, max_length=self.options.max_length)[
            "input_ids"
        ]
        if y is None:
            return [{"input_ids": one} for one in ids]
        return [{"input_ids": one, "labels": int(c)} for one, c in zip(ids, y, strict=True)]

    def fit(self, texts, y):
        self.net = Net(self.folder, len(np.unique(y)))
        self.trainer(self.rows(texts, y)).train()

    def predict_proba(self, texts):
        logits = self.trainer().predict(self.rows(texts)).predictions
        return torch.from_numpy(logits).softmax(dim=1).numpy()


def ours(options, folder):
    """Return `BertClassifier` with the same head, draws and learning rate as the others."""
    compiled = {"compile": True, "compile__dynamic": True} if options.compile else {}
    return BertClassifier(
        options.encoder,
        pooling="mean",
        max_length=options.max_length,
        head_init="random",
        balanced_batches=False,
        lr=RATE,
        max_epochs=options.epochs,
        batch_size=options.batch_size,
        device=options.device,
        random_state=0,
        **compiled,
    )


def timed(device, call, *args):
    """Return the seconds and the result of a call."""
    start = perf_counter()
    found = call(*args)
    if device != "cpu":
        torch.cuda.synchronize()
    return perf_counter() - start, found


def texts_and_labels(options):
    """Return the texts and class codes of a file, or made-up ones."""
    if not options.data:
        return make_short_texts(options.n_texts, random_state=0, return_X_y=True)
    frame = pd.read_csv(options.data).dropna(subset=["text", "label"])
    frame = frame.sample(min(options.n_texts, len(frame)), random_state=0)
    return frame["text"].to_numpy(dtype=object), pd.factorize(frame["label"])[0]


def measure(options, folder):
    """Return the seconds of each program by task, one for each round, and the number of texts."""
    texts, y = texts_and_labels(options)
    texts, few = texts.tolist(), slice(0, 2 * options.batch_size)
    source = load_encoder(options.encoder)
    source.model.save_pretrained(folder)
    source.tokenizer.save_pretrained(folder)
    programs = {"textbook": Textbook, "trainer": WithTrainer, "sklearn_spt": ours}
    programs = {name: kind(options, folder) for name, kind in programs.items()}
    for name, program in programs.items():  # not timed: threads start, kernels are compiled
        program.fit(texts[few], y[few])
        one, other = program.predict_proba(texts[few]), program.predict_proba(texts[few][::-1])
        if not np.allclose(one, other[::-1], atol=0.02):
            raise SystemExit(f"{name} returns its results in another order than that of the texts.")
    seconds = {task: {name: [] for name in programs} for task in ("fit", "predict")}
    for number in range(options.rounds):
        for name in list(programs)[:: 1 if number % 2 else -1]:
            program = programs[name]
            seconds["fit"][name].append(timed(options.device, program.fit, texts, y)[0])
            found = timed(options.device, program.predict_proba, texts)
            seconds["predict"][name].append(found[0])
            if found[1].shape != (len(texts), y.max() + 1):
                raise SystemExit(f"{name} gave probabilities of the shape {found[1].shape}.")
    return seconds, len(texts)


def print_table(seconds, n_texts, options):
    """Print texts per second, and the ratio of the same round, in Markdown."""
    print("| | fit, texts/s | prediction, texts/s | fit: sklearn_spt is faster by | prediction |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in seconds["fit"]:
        rates = [
            f"{n / statistics.median(seconds[task][name]):.0f}"
            for task, n in (("fit", options.epochs * n_texts), ("predict", n_texts))
        ]
        faster = []
        for found in seconds.values():
            ratios = [a / b for a, b in zip(found[name], found["sklearn_spt"], strict=True)]
            spread = f" ({min(ratios):.1f} to {max(ratios):.1f})" if len(ratios) > 1 else ""
            faster.append(f"{statistics.median(ratios):.1f}{spread}")
        print(f"| {name} | {' | '.join(rates)} | {' | '.join(faster)} |")
    bf16 = uses_bf16("auto", torch.device(options.device))
    cpu = platform.processor() or platform.machine()
    machine = torch.cuda.get_device_name() if options.device != "cpu" else cpu
    threads = "" if options.device != "cpu" else f", {torch.get_num_threads()} threads"
    print(
        f"\n{options.encoder}; {n_texts} texts, {options.epochs} epochs, {options.rounds} rounds."
    )
    print(f"{machine}{threads}, {'bf16' if bf16 else 'fp32'}; torch {torch.__version__}.")


def whole_fits(options):
    """Print the minutes of fits, and of 50,000 predictions, in Markdown; on a CPU of one core."""
    torch.set_num_threads(1)
    clock = process_time if options.device == "cpu" else perf_counter
    bf16 = ["bf16"] * uses_bf16("auto", torch.device(options.device))
    precisions = [*bf16, "fp32"]
    columns = [f"{what}, {kind}" for kind in precisions for what in ("fit", "predict 50,000")]
    print(f"| labels | unlabelled texts | {' | '.join(columns)} |")
    print("|---:|---:|" + "---:|" * len(columns))
    for labeled, unlabeled in (map(int, pair.split(",")) for pair in options.whole):
        n = labeled + unlabeled
        texts, y = texts_and_labels(argparse.Namespace(data=options.data, n_texts=n))
        if len(texts) < n:
            raise SystemExit(f"{n} texts are needed, and the file has {len(texts)}.")
        y[labeled:] = -1
        minutes = []
        for precision in precisions:
            net = BertClassifier(options.encoder, device=options.device, precision=precision)
            start = clock()
            clf = SelfPretrainingClassifier(net, random_state=0).fit(texts, y)
            fitted = clock()
            clf.predict(texts)
            seconds = fitted - start, (clock() - fitted) * 50_000 / n
            minutes += [f"{part / 60:.1f}" for part in seconds]
        print(f"| {labeled} | {unlabeled:,} | {' | '.join(minutes)} |", flush=True)


def main():
    """Read the command line, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", metavar="FILE.csv", help="columns text and label; default: made-up texts")
    add("--n-texts", type=int, default=500, help="default: 500")
    add("--encoder", default="sentence-transformers/all-MiniLM-L6-v2", help="default: MiniLM")
    add("--device", default="cpu", help="default: cpu")
    add("--compile", action="store_true", help="torch.compile, in sklearn_spt and in the Trainer")
    add("--max-length", type=int, default=128, help="tokens of a text; default: 128")
    add("--epochs", type=int, default=1, help="default: 1")
    add("--batch-size", type=int, default=32, help="default: 32")
    add("--rounds", type=int, default=3, help="default: 3")
    add("--whole", nargs="+", metavar="L,U", help="time fits with L labelled, U unlabelled texts")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if options.whole:
        return whole_fits(options)
    with tempfile.TemporaryDirectory() as folder:
        print_table(*measure(options, folder), options)


if __name__ == "__main__":
    main()
