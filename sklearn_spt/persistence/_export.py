"""Export one net for other libraries: transformers, sentence-transformers, onnxruntime."""

from __future__ import annotations

import copy
import inspect
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from skorch import NeuralNet
from torch import nn

from sklearn_spt._random import isolated
from sklearn_spt._validation import check_option
from sklearn_spt.persistence._card import model_card
from sklearn_spt.persistence._fitted_state import trained_module
from sklearn_spt.persistence._folder import new_folder
from sklearn_spt.persistence._onnx import check_onnx, write_onnx
from sklearn_spt.text._locations import quiet
from sklearn_spt.text._pretrained import resolve_max_length, text_source


def export(clf: Any, folder: str | os.PathLike[str], format: str, overwrite: bool) -> None:
    """Write the net that `exported_net` chooses, a tokenizer and a model card."""
    check_option(format, "format", ("huggingface", "onnx"))
    net = exported_net(clf)
    module = _adjusted(clf, net)
    names = [str(label) for label in clf.classes_]
    max_length = resolve_max_length(net.max_length, net.reads_with)
    if format == "onnx":
        check_onnx()
    with new_folder(folder, overwrite) as part, isolated(), quiet():
        if format == "onnx":
            library = "onnx"
            write_onnx(module, net.reads_with, max_length, names, part)
        else:
            library = _write_huggingface(module, names, max_length, part)
            tokenizer = copy.deepcopy(text_source(net.reads_with).tokenizer)
            # as in this library: long texts are cut, and "[SEP]" in a text is plain text
            for name, value in (("model_max_length", max_length), ("split_special_tokens", True)):
                setattr(tokenizer, name, value)
                tokenizer.init_kwargs[name] = value
            tokenizer.save_pretrained(part)
        (part / "README.md").write_text(model_card(clf, net, names, library), encoding="utf-8")


def exported_net(clf: Any) -> NeuralNet:
    """Return the first student; of a method without students the first net; or the net itself."""
    if isinstance(clf, NeuralNet):
        return clf
    return getattr(clf, "students_", clf.estimators_)[0]


def _adjusted(clf: Any, net: Any) -> Any:
    """Return a copy of the module for a CPU, with the logit adjustment in the bias of its head."""
    module = trained_module(net)
    if type(module).__module__ != "sklearn_spt.nets._bert_module":
        raise ValueError(
            f"a net with the module {type(module).__name__} cannot be exported, only a "
            "BertClassifier with its default module."
        )
    module = copy.deepcopy(module).to("cpu").eval().requires_grad_(False)
    module.encoder.precision = "fp32"
    if hasattr(module.encoder.model, "merge_and_unload"):  # an adapter of peft
        module.encoder.model = module.encoder.model.merge_and_unload(progressbar=False)
    tau = getattr(clf, "logit_adjustment_", 0.0)
    if tau:  # P * shares ** tau, as logits
        module.head.bias += torch.from_numpy(tau * np.log(clf.class_shares_)).float()
    return module


def _write_huggingface(module: Any, names: list[str], max_length: int, folder: Path) -> str:
    """Write the model, and return the library that loads it."""
    model = module.encoder.model
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: i for i, name in enumerate(names)}
    pooler = getattr(model, "pooler", None)  # None with mean pooling
    if pooler is not None and model.config.model_type == "bert":
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig.from_dict(model.config.to_dict())
        config.classifier_dropout = module.dropout.p
        config.problem_type = "single_label_classification"
        whole = BertForSequenceClassification(config)
        whole.bert.load_state_dict(model.state_dict())
        whole.classifier.load_state_dict(module.head.state_dict())
        whole.save_pretrained(folder)
        return "transformers"
    layers = [("torch.nn.modules.linear.Identity", module.head)]
    if pooler is not None:
        dense, activation = getattr(pooler, "dense", None), getattr(pooler, "activation", None)
        if not (isinstance(dense, nn.Linear) and isinstance(activation, nn.Tanh)):
            raise ValueError(
                f"the pooler of a {model.config.model_type} encoder fits no stock class; export "
                'with format="onnx", or train with pooling="mean".'
            )
        model.pooler = None
        layers.insert(0, ("torch.nn.modules.activation.Tanh", dense))
    _write_sentence_transformer(module.encoder, layers, max_length, folder)
    return "sentence-transformers"


def _write_sentence_transformer(
    encoder: Any, layers: list[tuple[str, Any]], max_length: int, folder: Path
) -> None:
    """Write a sentence transformer: encoder, pooling, and layers with their activations."""
    encoder.model.save_pretrained(folder)
    options: dict[str, Any] = {"max_seq_length": max_length, "do_lower_case": False}
    if "add_pooling_layer" in inspect.signature(type(encoder.model)).parameters:
        options["model_args"] = {"add_pooling_layer": False}  # transformers would draw one
    _write_json(folder / "sentence_bert_config.json", options)
    parts = {"": "Transformer", "1_Pooling": "Pooling"}
    pooling = {
        "word_embedding_dimension": encoder.size,
        "pooling_mode_cls_token": encoder.pooling == "cls",
        "pooling_mode_mean_tokens": encoder.pooling == "mean",
    }
    _write_json(folder / "1_Pooling" / "config.json", pooling)
    for number, (activation, layer) in enumerate(layers, start=2):
        part = f"{number}_Dense"
        parts[part] = "Dense"
        dense = {
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bias": True,
            "activation_function": activation,
        }
        _write_json(folder / part / "config.json", dense)
        weights = {f"linear.{name}": value for name, value in layer.state_dict().items()}
        save_file(weights, folder / part / "model.safetensors")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts.items())
    ]
    _write_json(folder / "modules.json", modules)


def _write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
