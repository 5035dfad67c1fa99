"""Arms of the study in docs/results/adaptation.md: is an encoder better that knows the texts?

    python examples/studies/adaptation.py run --seed 0 --arm adapted_nets
    python examples/studies/gain_study.py report nets adapted_nets

The commands are those of gain_study.py, with two more arms. With `--scratch FOLDER` both arms use
the same adapted encoders. To adapt an encoder takes about 5 minutes on one core.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import gain_study
import numpy as np
import torch
from gain_study import N_STARTS, Cell, Study, predicted
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.nets._batching import bucketed_batches
from sklearn_spt.nets._encoder import Encoder, attention_mask
from sklearn_spt.nets._schedules import n_batches
from sklearn_spt.text._encoding import sequence_lengths
from sklearn_spt.text._locations import DEFAULT_ENCODER
from sklearn_spt.text._pretrained import text_source

EPOCHS, BATCH_SIZE = 3, 32
#: Share of the steps in which the learning rates rise; then they fall to zero.
WARMUP = 0.1
#: Learning rates of the encoder, and of the layers that predict words.
RATES = 1e-4, 1e-3
#: Share of the tokens that are predicted. Of these, as in BERT, eight tenths are masked, a tenth is
#: replaced by random tokens and a tenth left as it is.
MASKED = 0.15


class MaskedWords(nn.Module):
    """Loss of an encoder that predicts masked tokens; the word embeddings are the last layer."""

    def __init__(self, encoder: Encoder, mask_id: int, special: list[int]) -> None:
        super().__init__()
        d = encoder.size
        self.encoder, self.mask_id, self.special = encoder, mask_id, torch.tensor(special)
        self.words = encoder.model.get_input_embeddings()
        self.head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d))
        nn.init.eye_(self.head[0].weight)
        self.bias = nn.Parameter(torch.zeros(self.words.num_embeddings))

    def forward(self, ids: Tensor) -> Tensor:
        mask = attention_mask(ids, self.encoder.pad_id)
        chosen = mask & ~torch.isin(ids, self.special) & (torch.rand(ids.shape) < MASKED)
        how = torch.rand(ids.shape)
        given = ids.masked_fill(chosen & (how < 0.8), self.mask_id)
        other = torch.randint(self.words.num_embeddings, ids.shape)
        given = torch.where(chosen & (how >= 0.9), other, given)
        states, _ = self.encoder.states(given, mask)
        z = self.head(states[chosen]) @ self.words.weight.T + self.bias
        return cross_entropy(z.float(), ids[chosen], reduction="sum") / chosen.sum().clamp_min(1)


def adapt(texts: list[str], seed: int, folder: Path) -> list[float]:
    """Train the default encoder on texts without their labels, and write it to a folder."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    tokenizer = text_source(DEFAULT_ENCODER).tokenizer
    net = BertClassifier()
    ids = net.encode(texts)
    encoder = Encoder(DEFAULT_ENCODER, precision="bf16")
    model = MaskedWords(encoder, tokenizer.mask_token_id, tokenizer.all_special_ids)
    new = [*model.head.parameters(), model.bias]
    groups = [{"params": encoder.parameters(), "lr": RATES[0]}, {"params": new, "lr": RATES[1]}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01, fused=True)
    n = EPOCHS * n_batches(len(ids), BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (WARMUP * n), (n - step) / ((1 - WARMUP) * n))
    )
    model.train()
    losses = []
    for _ in range(EPOCHS):
        order = rng.permutation(len(ids))
        lengths = sequence_lengths(ids[order], encoder.pad_id)
        for rows in bucketed_batches(lengths, BATCH_SIZE, rng):
            batch = torch.from_numpy(ids[order[rows], : lengths[rows].max()]).long()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    encoder.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    at = np.linspace(0, len(losses), EPOCHS + 1).astype(int)
    return [float(np.mean(losses[i:j])) for i, j in pairwise(at)]


@contextmanager
def adapted(cell: Cell) -> Iterator[BertClassifier]:
    """Yield a net over an encoder that was adapted to all texts of a cell."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if cell.scratch is None else cell.scratch.with_suffix("")
        if not (folder / "config.json").exists():
            split, _ = cell.draw()
            print(adapt(list(split.texts), cell.seed, folder), flush=True)
        yield BertClassifier(str(folder), pooling="mean", n_threads=1)


def adapted_nets(cell: Cell) -> dict[str, Any]:
    """Five nets over the adapted encoder; their seeds are those of the five nets."""
    with adapted(cell) as net:
        of = Study(net, alpha=0.0, random_state=0).prepare(cell)
        return {f"adapted{i}": of.soft(of.start(i), of.V) for i in range(N_STARTS)}


def adapted_defaults(cell: Cell) -> dict[str, Any]:
    """Self-Pretraining over the adapted encoder."""
    with adapted(cell) as net:
        return predicted("defaults, adapted", SelfPretrainingClassifier(net), cell)


gain_study.ARMS |= {"adapted_nets": adapted_nets, "adapted_defaults": adapted_defaults}

if __name__ == "__main__":
    sys.exit(gain_study.main())
