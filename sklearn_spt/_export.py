"""One net for other libraries: folders of Hugging Face, and ONNX."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError
from skorch import NeuralNet
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from sklearn_spt._bert import BertClassifier
from sklearn_spt._module import BertModule, before_compile
from sklearn_spt._pretrained import quiet
from sklearn_spt._random import seeded
from sklearn_spt._sealed import EXPORT, new_folder, versions

_CARD = """---
library_name: {library}
pipeline_tag: text-classification
{base}---
Fine-tuned by sklearn_spt {version}. Texts are cut after {length} tokens.
The classes, in the order of the logits: {labels}
"""


def check_fitted(clf: Any) -> None:
    """Raise an error for a classifier without a fit; scikit-learn does not know that of nets."""
    if not (clf.initialized_ if isinstance(clf, NeuralNet) else hasattr(clf, "classes_")):
        raise NotFittedError(f"This {type(clf).__name__} is not fitted; call fit first.")


def export(
    clf: Any,
    folder: str | os.PathLike[str],
    *,
    format: str = "huggingface",
    overwrite: bool = False,
) -> None:
    """Export one net to a folder that other libraries load without code of this one.

    The net is the classifier itself, or the first of its ``students_`` or ``estimators_``. Its
    head includes the logit adjustment and the temperature of the predictions.

    Parameters
    ----------
    clf : classifier of this package
        Fitted.
    folder : str or path-like
        New or empty folder; parents are created.
    format : {"huggingface", "onnx", "onnx-int8"}, default="huggingface"
        "huggingface": a BERT with ``pooling="cls"`` becomes a folder for transformers
        (``AutoModelForSequenceClassification``). No class of transformers classifies the mean
        of the token states, so a net with mean pooling becomes a folder for
        sentence-transformers 6, whose ``encode`` returns the logits; a README.md for the hub stands
        in both. "onnx": ``model.onnx`` maps token ids of any number and width to probabilities.
        "onnx-int8" multiplies in 8 bits, about twice as fast as fp32: probabilities move by 0.01 on
        average, and some by 0.3.
    overwrite : bool, default=False
        Whether to replace a folder that an earlier `export` wrote.

    Raises
    ------
    ValueError
        If the folder is in use, or the net is not a `BertClassifier`.
    ImportError
        If a package that the format needs is missing.
    sklearn.exceptions.NotFittedError
        If the classifier is not fitted.

    Examples
    --------
    >>> import sklearn_spt
    >>> sklearn_spt.export(clf, "model", format="onnx")  # doctest: +SKIP
    """
    onnx: tuple[str, ...] = "onnx", "onnxscript"
    needed = {"huggingface": (), "onnx": onnx, "onnx-int8": (*onnx, "onnxruntime")}
    if format not in needed:
        raise ValueError(f"format must be one of {', '.join(needed)}, got {format!r}.")
    check_fitted(clf)
    net: Any = (getattr(clf, "students_", None) or getattr(clf, "estimators_", [clf]))[0]
    if not isinstance(net, BertClassifier) or type(before_compile(net.module_)) is not BertModule:
        what = f"{type(net).__name__} cannot be exported"
        raise ValueError(f"{what}, only a BertClassifier with its default module can.")
    missing = [name for name in needed[format] if importlib.util.find_spec(name) is None]
    if missing:
        packages = " ".join(needed[format])
        raise ImportError(f"format={format!r} needs {missing[0]}: pip install {packages}.")
    module = copy.deepcopy(before_compile(net.module_)).to("cpu").eval().requires_grad_(False)
    module.precision = "fp32"
    if hasattr(module.encoder, "merge_and_unload"):  # an adapter of peft
        module.encoder = module.encoder.merge_and_unload(progressbar=False)
    tau = getattr(clf, "logit_adjustment_", 0.0)
    if tau:  # P * shares ** tau, as logits
        module.head.bias.add_(torch.from_numpy(tau * np.log(clf.class_shares_)))
    for parameter in module.head.parameters():
        parameter.div_(getattr(clf, "calibration_temperature_", 1.0))
    names = [str(label) for label in clf.classes_.tolist()]
    tokenizer = copy.deepcopy(net.source_.tokenizer)
    # as in this library: long texts are cut, and "[SEP]" in a text is plain text
    length = net.source_.tokenize(["a"], net.max_length, full_width=True).shape[1]
    for key, value in (("model_max_length", length), ("split_special_tokens", True)):
        setattr(tokenizer, key, value)
        tokenizer.init_kwargs[key] = value
    with new_folder(folder, overwrite, EXPORT, {}) as part, seeded(0), quiet():
        if format != "huggingface":
            _write_onnx(module, part, int8=format == "onnx-int8")
            # leaves truncation and padding in tokenizer.json
            tokenizer(["a"], truncation=True, padding=True, max_length=length)
        else:
            _write_huggingface(module, names, length, part)
            library = f"{'sentence-' * (part / 'modules.json').is_file()}transformers"
            base = f"base_model: {net.pretrained.split('@')[0]}\n"
            base *= not Path(net.pretrained).is_dir()  # no path of this machine
            version, labels = versions()["sklearn-spt"], json.dumps(names, ensure_ascii=False)
            card = {"library": library, "base": base, "version": version, "length": length}
            (part / "README.md").write_text(_CARD.format(**card, labels=labels), "utf-8")
        tokenizer.save_pretrained(part)
        _write_json(part / "export.json", {"format": format, "labels": names})


def _write_huggingface(module: Any, names: list[str], length: int, folder: Path) -> None:
    encoder, head = module.encoder, module.head
    encoder.config.id2label = dict(enumerate(names))
    encoder.config.label2id = {name: i for i, name in enumerate(names)}
    if getattr(encoder, "pooler", None) is not None:
        if encoder.config.model_type != "bert":
            raise ValueError(
                f"the pooler of {encoder.config.model_type} fits no stock class; use "
                'format="onnx", or train with pooling="mean".'
            )
        whole = BertForSequenceClassification(BertConfig.from_dict(encoder.config.to_dict()))
        whole.bert.load_state_dict(encoder.state_dict())
        whole.classifier.load_state_dict(head.state_dict())
        whole.save_pretrained(folder)
        return
    encoder.save_pretrained(folder)
    options: dict[str, Any] = {"max_seq_length": length, "do_lower_case": False}
    if "add_pooling_layer" in inspect.signature(type(encoder)).parameters:
        options["model_args"] = {"add_pooling_layer": False}  # transformers would draw one
    _write_json(folder / "sentence_bert_config.json", options)
    pooling = {"embedding_dimension": head.in_features, "pooling_mode": module.pooling}
    _write_json(folder / "1_Pooling" / "config.json", pooling)
    size = {"in_features": head.in_features, "out_features": head.out_features, "bias": True}
    identity = {"activation_function": "torch.nn.modules.linear.Identity"}
    _write_json(folder / "2_Dense" / "config.json", size | identity)
    weights = {f"linear.{name}": value for name, value in head.state_dict().items()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    parts = {  # as version 6 of sentence-transformers names them
        "": "base.modules.transformer.Transformer",
        "1_Pooling": "sentence_transformer.modules.pooling.Pooling",
        "2_Dense": "base.modules.dense.Dense",
    }
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
        for i, (path, kind) in enumerate(parts.items())
    ]
    _write_json(folder / "modules.json", modules)


def _write_onnx(module: BertModule, folder: Path, int8: bool) -> None:
    """Write ``model.onnx``; the padding id in a row makes its own mask."""
    # padding, so that the trace has a mask; two texts, since a size of 1 would become fixed
    ids = torch.tensor([[1, 2, 1], [1, 2, 0]]) + module.pad_id
    Dim, off, handler = torch.export.Dim, logging.root.manager.disable, logging.NullHandler()
    logging.disable(logging.WARNING)  # of operators of torchvision, which are not needed
    logging.root.addHandler(handler)  # without any, onnxruntime would add one that stays
    shapes = ({0: Dim("n"), 1: Dim("width")},)
    names: dict[str, Any] = {"input_names": ["input_ids"], "output_names": ["probabilities"]}
    whole = nn.Sequential(module, nn.Softmax(dim=1)).eval()
    try:
        program: Any = torch.onnx.export(
            whole, (ids,), dynamic_shapes=shapes, dynamo=True, verbose=False, **names
        )
        if int8:
            from onnxruntime.quantization import quantize_dynamic

            # One scale for each column: with one a matrix, some probabilities move by 0.7. And 7
            # bits: x86 processors without VNNI add two products in 16 bits.
            how: Any = {"per_channel": True, "reduce_range": True}
            file = folder / "model.onnx"
            quantize_dynamic(program.model_proto, file, op_types_to_quantize=["MatMul"], **how)
        else:
            program.save(folder / "model.onnx")
    finally:
        logging.disable(off)
        logging.root.removeHandler(handler)


def _write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
