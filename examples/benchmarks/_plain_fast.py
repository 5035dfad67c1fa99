"""The plain fast way: what a careful user of torch and transformers writes in sixty lines.

Batches of like length, trimmed; fused AdamW; eager attention; dropout masks from random bytes on a
CPU; bf16 autocast where the hardware has it; inference sorted by length. No skorch, no contract.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import transformers
from _programs import LEARNING_RATE, MAX_LENGTH, Counter, Module
from torch import nn

from sklearn_spt.nets._device import resolve_precision
from sklearn_spt.text._locations import encoder_folder

WINDOW = 50  # batches inside which texts are sorted by length
INFERENCE_TOKENS = 1024  # tokens in a batch of inference


class ByteDropout(nn.Dropout):
    """Dropout whose mask comes from random bytes, which cost less than random floats."""

    generator = np.random.Generator(np.random.SFC64(0))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Drop elements in training mode."""
        if not self.training or self.p == 0 or input.device.type != "cpu":
            return super().forward(input)
        threshold = round(256 * self.p)
        kept = np.frombuffer(self.generator.bytes(input.numel()), np.uint8) >= threshold
        mask = torch.from_numpy(kept).view(input.shape).to(input.dtype)
        return input * mask * (256 / (256 - threshold))


class PlainFast:
    """Fine-tune and label in one loop each."""

    name = "plain fast"

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder = encoder_folder(options.pretrained)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        self.batch_size, self.device = options.batch_size, options.device
        self.precision = resolve_precision(options.precision, options.device)

    def train(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Fine-tune a fresh net."""
        self.module = Module(self.folder, attention="eager").to(self.device)
        for parent in list(self.module.modules()):
            for name, child in parent.named_children():
                if isinstance(child, nn.Dropout):
                    setattr(parent, name, ByteDropout(child.p))
        self.go_on(texts, targets, epochs)

    def go_on(self, texts: Sequence[str], targets: np.ndarray, epochs: int) -> None:
        """Continue fine-tuning with a new optimiser."""
        ids = self.ids(texts)
        labels = torch.from_numpy(targets.astype(np.float32)).to(self.device)
        parameters = list(self.module.parameters())
        optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0, fused=True)
        self.module.train()
        rng = np.random.default_rng(0)
        for _ in range(epochs):
            for rows in self.batches([len(row) for row in ids], rng):
                optimizer.zero_grad(set_to_none=True)
                logits = self.logits([ids[i] for i in rows], count=True)
                nn.functional.cross_entropy(logits, labels[rows]).backward()
                nn.utils.clip_grad_norm_(parameters, 1.0)
                optimizer.step()

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Tokenise and label."""
        ids = self.ids(texts)
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        P = np.empty((len(ids), 2))
        self.module.eval()
        start = 0
        with torch.inference_mode():
            while start < len(order):
                size = max(1, INFERENCE_TOKENS // len(ids[order[start]]))
                rows = order[start : start + size]
                P[rows] = self.logits([ids[i] for i in rows]).softmax(dim=1).cpu().numpy()
                start += size
        return P

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        found = self.tokenizer(list(texts), truncation=True, max_length=MAX_LENGTH)
        return list(found["input_ids"])

    def batches(self, lengths: list[int], rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Rows of similar length inside a window of shuffled ones, in random order."""
        order, n = rng.permutation(len(lengths)), self.batch_size
        for start in range(0, len(order), n * WINDOW):
            rows = np.array(sorted(order[start : start + n * WINDOW], key=lambda i: lengths[i]))
            cuts = [rows[i : i + n] for i in range(0, len(rows), n)]
            for i in rng.permutation(len(cuts)):
                yield cuts[i]

    def logits(self, ids: list[list[int]], count: bool = False) -> torch.Tensor:
        """Logits of a batch in fp32; the batch is counted as trained on if asked for."""
        batch = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        if count:
            Counter.step(len(ids))
            Counter.note(batch["input_ids"], self.tokenizer.pad_token_id)
        given = {name: batch[name].to(self.device) for name in ("input_ids", "attention_mask")}
        with torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16"):
            logits = self.module(**given)
        return logits.float()
