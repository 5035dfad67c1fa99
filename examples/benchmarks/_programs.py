"""The programs that `speed.py` compares: each fine-tunes the same encoder in its own way.

A program has three methods. ``train(texts, targets, epochs)`` starts from the pretrained weights,
``go_on(texts, targets, epochs)`` from where it stands, with a new optimiser; both count the
optimiser steps and note the token ids in them. ``predict_proba(texts)`` labels. All take raw texts
and tokenise them at each call, but for `Ours`, which tokenises a text once, as for its users.

All use AdamW without weight decay, a constant rate, clipped gradients, mean pooling and a linear
head; targets are distributions, of shape (n, n_classes), under cross-entropy.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import skorch
import torch
import transformers
from skorch.callbacks import Callback, GradientNormClipping
from torch import nn

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt._random import derive_seed, draw_sample, root_seed
from sklearn_spt.experiments._setfit import SetFitClassifier
from sklearn_spt.nets._batching import TokenBatches
from sklearn_spt.nets._device import resolve_precision
from sklearn_spt.text._locations import encoder_folder

MAX_LENGTH = 128
LEARNING_RATE = 1e-4


class Work(NamedTuple):
    """The training work. It is equal only if the texts were the same, unless hashes collide.

    Attributes
    ----------
    steps, texts : int
        Optimiser steps, and texts in them.
    tokens : int
        Sum of a hash of each text's token ids, which the order of texts does not change.
    """

    steps: int = 0
    texts: int = 0
    tokens: int = 0


class Counter:
    """Adds up the work of the running program."""

    work = Work()

    @classmethod
    def start(cls) -> None:
        """Reset to zero."""
        cls.work = Work()

    @classmethod
    def step(cls, n_texts: int) -> None:
        """Count a step."""
        cls.work = cls.work._replace(steps=cls.work.steps + 1, texts=cls.work.texts + n_texts)

    @classmethod
    def note(cls, ids: Any, pad_id: int) -> None:
        """Note texts by their token ids, padded at the right, on the CPU."""
        rows = np.asarray(ids, dtype=np.int64)
        tokens = sum(crc32(row[row != pad_id].tobytes()) for row in rows)
        cls.work = cls.work._replace(tokens=cls.work.tokens + tokens)


class CountedByCallback(Callback):
    """Counts the batches of a skorch net that takes a dictionary."""

    def __init__(self, pad_id: int) -> None:
        self.pad_id = pad_id

    def on_batch_end(self, net: Any, batch: Any = None, training: bool = False, **_: Any) -> None:
        """Count a training batch."""
        if training:
            Counter.step(len(batch[1]))
            Counter.note(batch[0]["input_ids"], self.pad_id)


class CountedBatches(TokenBatches):
    """Counts the batches of `BertClassifier`; a custom callback would switch a fast path off."""

    def __init__(self, dataset: Any, *args: Any, pad_id: int = 0, **kwargs: Any) -> None:
        super().__init__(dataset, *args, pad_id=pad_id, **kwargs)
        self.pad_id = pad_id

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        on_cpu = torch.device(self.device).type == "cpu"
        if not on_cpu:  # to look at a batch would wait for the device
            Counter.note(self.ids, self.pad_id)
        for batch in super().__iter__():
            Counter.step(len(batch[1]))
            if on_cpu:
                Counter.note(batch[0], self.pad_id)
            yield batch


class Module(nn.Module):
    """Encoder, mean over the tokens, dropout and a linear layer."""

    def __init__(self, folder: str, n_classes: int = 2, attention: str = "sdpa") -> None:
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(
            folder, attn_implementation=attention, dtype=torch.float32
        )
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(self.encoder.config.hidden_size, n_classes)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **ignored: Any
    ) -> torch.Tensor:
        """Logits."""
        states = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weight).sum(dim=1) / weight.sum(dim=1)
        logits: torch.Tensor = self.head(self.dropout(mean))
        return logits


# -- (a) what one writes at first ------------------------------------------------------------------
class Textbook:
    """Texts padded to 128, torch's DataLoader, dropout and AdamW, plain attention; by skorch."""

    name = "textbook"
    precision = "fp32"

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder = encoder_folder(options.pretrained)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.settings: dict[str, Any] = {
            "module__folder": self.folder,
            "module__attention": "eager",
            "criterion": nn.CrossEntropyLoss,
            "optimizer": torch.optim.AdamW,
            "optimizer__weight_decay": 0.0,
            "lr": LEARNING_RATE,
            "batch_size": options.batch_size,
            "iterator_train__shuffle": True,
            "train_split": None,
            "callbacks": [
                ("counter", CountedByCallback(self.tokenizer.pad_token_id)),
                ("clip", GradientNormClipping(1.0)),
            ],
            "device": options.device,
            "verbose": 0,
        }

    def encoded(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Ids and mask of shape (n, 128)."""
        out = self.tokenizer(
            list(texts),
            padding="max_length",
            truncation=True,
            max_length=MAX_LENGTH,
            return_tensors="pt",
        )
        return {name: out[name] for name in ("input_ids", "attention_mask")}

    def train(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Fine-tune a fresh net."""
        # NeuralNet, not its classifier: targets are distributions
        self.net = skorch.NeuralNet(Module, max_epochs=epochs, **self.settings)
        self.net.fit(self.encoded(texts), targets.astype(np.float32))

    def go_on(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Continue fine-tuning with a new optimiser."""
        self.net.initialize_optimizer()
        self.net.partial_fit(self.encoded(texts), targets.astype(np.float32), epochs=epochs)

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Tokenise and label."""
        return np.asarray(self.net.predict_proba(self.encoded(texts)))  # skorch adds the softmax


# -- (b) the Trainer of transformers ---------------------------------------------------------------
class HuggingFace:
    """``transformers.Trainer``: dynamic padding, batches of similar length, fused AdamW."""

    name = "trainer"

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder = encoder_folder(options.pretrained)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.options = options
        given = options.trainer_precision
        self.precision = resolve_precision(given, options.device)
        self.output = tempfile.mkdtemp(prefix="sklearn_spt_benchmark")
        weakref.finalize(self, shutil.rmtree, self.output, ignore_errors=True)
        # The Trainer's own 8, which on a CPU is faster than more: texts come in any order, and a
        # large batch is as wide as its longest. A GPU would wait for launches.
        self.eval_batch_size = 8 if options.device == "cpu" else 8 * options.batch_size

    def rows(self, texts: Sequence[str], targets: np.ndarray | None = None) -> list[dict[str, Any]]:
        """Return one dictionary for each text."""
        ids = self.tokenizer(list(texts), truncation=True, max_length=MAX_LENGTH)["input_ids"]
        rows: list[dict[str, Any]] = [{"input_ids": i, "length": len(i)} for i in ids]
        for row, target in zip(rows, targets if targets is not None else (), strict=False):
            row["labels"] = target.tolist()
        return rows

    def collated(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Pad to the longest text of a batch."""
        batch = dict(
            self.tokenizer.pad(
                {"input_ids": [row["input_ids"] for row in rows]}, return_tensors="pt"
            )
        )
        if "labels" in rows[0]:
            Counter.step(len(rows))
            Counter.note(batch["input_ids"], self.tokenizer.pad_token_id)
            batch["labels"] = torch.tensor([row["labels"] for row in rows])
        return batch

    def trainer(self, epochs: int = 1, rows: list[dict[str, Any]] | None = None) -> Any:
        """Build a Trainer around the module."""

        class Wrapped(nn.Module):
            """Return what a Trainer needs: a dictionary, with the loss if there are labels."""

            def __init__(self, module: nn.Module) -> None:
                super().__init__()
                self.module = module

            def forward(
                self,
                input_ids: torch.Tensor,
                attention_mask: torch.Tensor,
                labels: torch.Tensor | None = None,
            ) -> dict[str, torch.Tensor]:
                logits = self.module(input_ids, attention_mask)
                if labels is None:
                    return {"logits": logits}
                return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

        arguments = transformers.TrainingArguments(
            output_dir=self.output,
            per_device_train_batch_size=self.options.batch_size,
            per_device_eval_batch_size=self.eval_batch_size,
            num_train_epochs=epochs,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            optim="adamw_torch_fused",
            bf16=self.precision == "bf16",
            use_cpu=self.options.device == "cpu",
            # it would group the texts to predict, too, and give results back in that order
            train_sampling_strategy="group_by_length" if rows is not None else "random",
            length_column_name="length",
            remove_unused_columns=False,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=self.options.device != "cpu",
        )
        trainer = transformers.Trainer(
            Wrapped(self.module), arguments, train_dataset=rows, data_collator=self.collated
        )
        trainer.remove_callback(transformers.PrinterCallback)
        return trainer

    def train(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Fine-tune a fresh net."""
        self.module = Module(self.folder)
        self.go_on(texts, targets, epochs)

    def go_on(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Continue fine-tuning with a new optimiser."""
        self.trainer(epochs, self.rows(texts, targets.astype(np.float32))).train()

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Tokenise and label."""
        out = self.trainer().predict(self.rows(texts)).predictions
        logits = out[0] if isinstance(out, tuple) else out
        return np.asarray(torch.from_numpy(logits).softmax(dim=1))


# -- (c) SetFit ------------------------------------------------------------------------------------
class SetFit:
    """SetFit with its own head: pairs of labelled texts, then a head on frozen embeddings.

    It learns in another way, so steps and texts cannot be made equal: what is compared is what a
    user waits for, the time from the same labels to a classifier.
    """

    name = "setfit"
    precision = "fp32"

    def __init__(self, options: argparse.Namespace) -> None:
        self.model = SetFitClassifier(options.pretrained, class_weight=None, device=options.device)

    def fit(self, texts: Sequence[str], y: np.ndarray) -> None:
        """Fine-tune on pairs and fit the head."""
        self.model.fit(texts, y)

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Label."""
        return self.model.predict_proba(texts)


# -- (d) this library ------------------------------------------------------------------------------
class Ours:
    """`BertClassifier`, or `SelfPretrainingClassifier` over it."""

    name = "sklearn_spt"

    def __init__(self, options: argparse.Namespace) -> None:
        self.precision = resolve_precision(options.precision, options.device)
        self.settings: dict[str, Any] = {
            "pretrained": options.pretrained,
            "pooling": "mean",
            "max_length": MAX_LENGTH,
            "lr": LEARNING_RATE,
            "batch_size": options.batch_size,
            "balanced_batches": False,
            "head_init": "random",
            "device": options.device,
            "precision": options.precision,
            "cuda_graphs": options.cuda_graphs,
            "iterator_train": CountedBatches,
        }

    def net(self, **params: Any) -> BertClassifier:
        """Unfitted."""
        return BertClassifier(**{**self.settings, **params})

    def train(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Fine-tune a fresh net on the likeliest class of each row."""
        self.fitted: Any = self.net(max_epochs=epochs, classes=[0, 1], random_state=0)
        self.fitted.fit(texts, targets.argmax(axis=1))

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Tokenise and label."""
        return np.asarray(self.fitted.predict_proba(texts))

    def self_pretraining(
        self, labeled: Sequence[str], y: np.ndarray, unlabeled: Sequence[str], step: int
    ) -> None:
        """Fit `SelfPretrainingClassifier` on labelled and unlabelled texts."""
        one_iteration = 2 * step > len(unlabeled)
        self.fitted = SelfPretrainingClassifier(
            self.net(),
            step_size=step,
            max_iter=len(unlabeled) // step,
            alpha=0.0 if one_iteration else 0.1,  # it would have no effect, and would say so
            balanced_batches=False,
            random_state=0,
        )
        self.fitted.fit(labeled, y, X_unlabeled=unlabeled)


def self_pretraining(
    program: Any,
    labeled: Sequence[str],
    y: np.ndarray,
    unlabeled: Sequence[str],
    step: int,
) -> None:
    """Self-Pretraining as a user would write it around a program that trains and labels.

    The samples are those that the estimator draws, so that the texts trained on and labelled are
    the same; inertia and the learning-rate schedule, which take no time, are left out.
    """
    hard = np.eye(2)[y]
    n = len(unlabeled)
    program.train(labeled, hard, 3)
    for t, size in enumerate(range(step, n + 1, step), start=1):
        rng = np.random.default_rng(derive_seed(root_seed(0), t, 1))
        sample = [unlabeled[i] for i in draw_sample(n, size, rng)]
        soft, guide = program.predict_proba(sample), program.predict_proba(labeled)
        program.train(sample, soft, 1)
        program.go_on(labeled, 0.7 * hard + 0.3 * guide, 3)
