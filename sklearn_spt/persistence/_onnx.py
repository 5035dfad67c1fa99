"""ONNX: one file with the encoder, the head and the softmax."""

from __future__ import annotations

import copy
import importlib.util
import json
import logging
import os
from pathlib import Path

import torch
from torch import nn

from sklearn_spt.text._pretrained import load_tokenizer, pad_token_id


class _Probabilities(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.module(input_ids), dim=1)


def check_onnx() -> None:
    """Raise ImportError if a package of the extra is missing."""
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f'format="onnx" needs the package {missing[0]}; install it with '
            "`pip install 'sklearn-spt[onnx]'`."
        )


def write_onnx(
    module: nn.Module,
    pretrained: str | os.PathLike[str],
    max_length: int,
    names: list[str],
    folder: Path,
) -> None:
    """Write ``model.onnx``, a tokenizer that cuts and pads, and the labels of the columns.

    The model takes ids of any number of texts and any width; the padding id makes its own mask.
    """
    pad_id = pad_token_id(pretrained)
    tokenizer = copy.deepcopy(load_tokenizer(pretrained, max_length))
    tokenizer.enable_padding(pad_id=pad_id, pad_token=tokenizer.id_to_token(pad_id))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "labels.json").write_text(json.dumps(names), encoding="utf-8")
    # padding, so that the trace has a mask; two texts, since a size of 1 would become fixed
    example = torch.tensor([one.ids for one in tokenizer.encode_batch(["a", "a a"])])
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it says which operators of torchvision are not installed
    try:
        program = torch.onnx.export(
            _Probabilities(module).eval(),
            (example,),
            input_names=["input_ids"],
            output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("n"), 1: torch.export.Dim("width")},),
            dynamo=True,
            verbose=False,
        )
        assert program is not None  # with dynamo=True
        program.save(folder / "model.onnx")
    finally:
        log.setLevel(level)
