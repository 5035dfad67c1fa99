"""The encoders that the benchmarks run with."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

from sklearn_spt.text._locations import DEFAULT_ENCODER, encoder_folder
from sklearn_spt.text._pretrained import vocabulary_size

#: An encoder of the size of BERT-base with random weights, to measure speed.
RANDOM_BERT_BASE = "random-bert-base"
HELP = f"checkpoint, or {RANDOM_BERT_BASE}: of the size of BERT-base, for speed only"


def checkpoint(name: str, like: str = DEFAULT_ENCODER, **sizes: int) -> str:
    """Return `name`, or the folder of a random encoder with the tokenizer of `like`.

    `sizes` differ from those of BERT-base.
    """
    if name != RANDOM_BERT_BASE:
        return name
    own = "-".join([name, *(f"{n}={size}" for n, size in sizes.items())])
    folder = Path(tempfile.gettempdir()) / "sklearn_spt_benchmarks" / own
    if not (folder / "model.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in Path(encoder_folder(like)).iterdir():
            if file.name.startswith(("tokenizer", "vocab", "special_tokens")):
                shutil.copy(file, folder)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = BertModel(BertConfig(vocab_size=vocabulary_size(like), **sizes))
        model.save_pretrained(folder)
    return str(folder)
