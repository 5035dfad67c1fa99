"""Fitted classifiers in folders: safetensors and JSON to load again, or one net for others."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from skorch import NeuralNet
from skorch.history import History
from torch import nn
from transformers import AutoConfig, AutoTokenizer, BertConfig, BertForSequenceClassification

import sklearn_spt
from sklearn_spt._bert import BertClassifier
from sklearn_spt._checkpoint import FORMAT, read_sealed, write_sealed
from sklearn_spt._encoder import BertModule, before_compile
from sklearn_spt._random import seeded
from sklearn_spt._texts import PretrainedEncoder, quiet
from sklearn_spt.baselines import KeywordWindow

__all__ = ["export", "load", "save"]

_STATE, _EXPORT = "estimator.json", "export.seal"  # sealed: they show any change of a folder
#: The classes that a folder may name. Beside the LoRA of peft, nothing else is built.
_CLASSES = {
    name: getattr(sklearn_spt, name) for name in sklearn_spt.__all__ if name.endswith("Classifier")
} | {"KeywordWindow": KeywordWindow}
#: Fitted attributes of a net beside its weights; the last two are there for a matrix X.
_OF_NET = ("classes_inferred_", "lr_", "history_", "n_features_in_", "feature_names_in_")


# -- save and load ---------------------------------------------------------------------------------
def save(clf: Any, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted classifier to a folder; see the method `save` of each classifier."""
    _check_fitted(clf)
    writer = _Writer()
    classifier = writer.described(clf, "the classifier")
    content = {"classifier": classifier, "nets": [found for _, found in writer.nets.values()]}
    with _new_folder(folder, overwrite, _STATE, content) as part, quiet():
        writer.write(part)


def load(folder: str | os.PathLike[str]) -> Any:
    """Load a classifier that `save` wrote.

    All files are compared with their SHA-256 first, and no code of the folder is run. The encoder
    is not needed, neither on disk nor from the hub. On the same machine the probabilities are equal
    bit by bit. Nets of a GPU are loaded to the CPU where there is none.

    Parameters
    ----------
    folder : str or path-like
        The folder. It is not needed after the call.

    Returns
    -------
    BertClassifier, SelfPretrainingClassifier or another classifier of this package
        As it was saved. A new `fit` reads the encoder that the parameters name, and `partial_fit`
        continues from the weights.

    Raises
    ------
    ValueError
        If the folder is missing, damaged, or of another format.

    Examples
    --------
    >>> import sklearn_spt
    >>> clf = sklearn_spt.load("model")  # doctest: +SKIP
    """
    place = Path(folder).expanduser()
    if not (place / _STATE).is_file():
        what = "is no folder" if place.is_file() else "is missing"
        what = "holds no saved classifier" if place.is_dir() else what
        raise ValueError(f"{place} {what}: give the folder that save wrote.")
    content = read_sealed(place / _STATE)
    # one more file can change the tokenizer; hidden ones come from programs that show folders
    foreign = [name for name in _foreign(place, content, _STATE) if "/." not in f"/{name}"]
    if foreign:
        raise ValueError(f"{place} holds {foreign[0]}, which save did not write; remove this file.")
    try:
        if (found := content["versions"]["format"]) != str(FORMAT):
            raise ValueError(f"it has the format {found}, but this version reads {FORMAT}")
        with seeded(0), quiet():
            return _Reader(place, content["nets"]).built(content["classifier"])
    except (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{place} cannot be loaded with the installed versions ({error}); load it with those "
            f"that wrote it: {content['versions']}."
        ) from error


class _Writer:
    """Describes a classifier as JSON has it, and writes the weights of its nets."""

    def __init__(self) -> None:
        self.nets: dict[int, tuple[Any, dict[str, Any]]] = {}  # by identity
        self._sources: dict[int, PretrainedEncoder] = {}  # by identity of the tokenizer

    def described(self, value: Any, name: str) -> Any:
        """Return a value as JSON has it; what is no plain data becomes an object with one key."""
        value = np.asarray(value) if isinstance(value, np.generic) else value
        value = None if value is pd.NA else str(value) if isinstance(value, torch.device) else value
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, list | tuple | set):
            value = sorted(value) if isinstance(value, set) else value  # target_modules of LoRA
            items = [self.described(item, name) for item in value]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, dict):
            pairs = [[self.described(k, name), self.described(v, name)] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufUO":
            items = [self.described(item, name) for item in value.ravel().tolist()]
            return {"array": [value.dtype.str, list(value.shape), items]}
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, NeuralNet) and value.initialized_:
            return {"net": self._net(value, name)}
        if type(value).__name__ == "LoraConfig" and type(value).__module__.startswith("peft."):
            usual, given = vars(type(value)()), vars(value)
            changed = {k: v for k, v in given.items() if v != usual[k]}
            return {"lora": {k: self.described(v, f"{name}.{k}") for k, v in changed.items()}}
        return {"estimator": self._estimator(value, name)}

    def _estimator(self, value: Any, name: str) -> dict[str, Any]:
        kind = type(value)
        if _CLASSES.get(kind.__name__) is not kind:
            what = getattr(value, "__name__", kind.__name__)
            raise ValueError(
                f"{name} ({what}) cannot be saved: a folder holds plain data, LoRA adapters and "
                "classes of sklearn_spt alone, and this needs code. Use pickle or joblib, give the "
                "parameter another value by set_params, or make labels plain strings before fit."
            )
        usual = kind().get_params(deep=False)  # a net has classes among its defaults
        params = value.get_params(deep=False).items()
        params = {k: v for k, v in params if not (isinstance(v, type) and v is usual.get(k))}
        fitted = {k: v for k, v in vars(value).items() if k.endswith("_") and k[0] != "_"}
        if isinstance(value, NeuralNet):
            fitted = {k: fitted[k] for k in _OF_NET if k in fitted}
        routing, routed = BaseEstimator.get_metadata_routing(value), ("fit", "partial_fit", "score")
        return {
            "class": kind.__name__,
            "params": {k: self.described(v, k) for k, v in params.items()},
            "attributes": {k: self.described(v, k) for k, v in fitted.items()},
            "requests": {method: getattr(routing, method).requests for method in routed},
        }

    def _net(self, net: Any, name: str) -> int:
        """Return the number of a net, which is described and written once."""
        if id(net) not in self.nets:
            described, key = self._estimator(net, name), id(net.source_.tokenizer)
            self._sources.setdefault(key, net.source_)
            described["source"] = list(self._sources).index(key)
            self.nets[id(net)] = net, {**described, "pooling": before_compile(net.module_).pooling}
        return list(self.nets).index(id(net))

    def write(self, folder: Path) -> None:
        """Write tokenizers, configurations and weights."""
        for number, source in enumerate(self._sources.values()):
            source.tokenizer.save_pretrained(folder / "encoder" / str(number))
            source.config.save_pretrained(folder / "encoder" / str(number))
        (folder / "nets").mkdir()
        for number, (net, _) in enumerate(self.nets.values()):
            weights = {
                k: v.contiguous() for k, v in before_compile(net.module_).state_dict().items()
            }
            save_file(weights, folder / "nets" / f"{number}.safetensors")


class _Reader:
    """Builds what a `_Writer` described."""

    def __init__(self, folder: Path, nets: list[dict[str, Any]]) -> None:
        self.folder = folder
        self._sources: dict[int, tuple[Any, Any]] = {}
        self._nets = [self._net(number, described) for number, described in enumerate(nets)]

    def built(self, value: Any) -> Any:
        """Return what a value of JSON stands for."""
        if isinstance(value, list):
            return [self.built(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tuple":
            return tuple(self.built(content))
        if kind == "dict":
            return {self.built(k): self.built(v) for k, v in content}
        if kind == "array":
            array = np.empty(len(content[2]), dtype=np.dtype(content[0]))
            array[:] = self.built(content[2])
            return array.reshape(content[1])[()]  # a number if there is no dimension
        if kind == "net":
            return self._nets[content]
        if kind == "lora":
            from peft import LoraConfig

            # the settings of Megatron name a module to import
            return LoraConfig(**{k: self.built(v) for k, v in content.items() if k[:4] != "mega"})
        return self._estimator(content)

    def _estimator(self, described: dict[str, Any]) -> Any:
        params = {k: self.built(v) for k, v in described["params"].items()}
        made = _CLASSES[described["class"]](**params)
        device = torch.device(getattr(made, "device", "cpu"))
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            made.device = "cpu"
        vars(made).update({k: self.built(v) for k, v in described["attributes"].items()})
        with config_context(enable_metadata_routing=True):
            for method, asked in described["requests"].items():
                if asked:
                    getattr(made, f"set_{method}_request")(**asked)
        return made

    def _net(self, number: int, described: dict[str, Any]) -> Any:
        net = self._estimator(described)
        if described["source"] not in self._sources:
            place = self.folder / "encoder" / str(described["source"])
            safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            tokenizer = AutoTokenizer.from_pretrained(place, **safe)
            # the encoder's file may say fp16, but a net is trained in fp32
            config = AutoConfig.from_pretrained(place, dtype=torch.float32, **safe)
            self._sources[described["source"]] = tokenizer, config
        tokenizer, config = self._sources[described["source"]]
        history, net.history_ = net.history_, None  # initialize empties it
        net.initialize(PretrainedEncoder(net.pretrained, tokenizer, config, described["pooling"]))
        net.history_ = History(history)
        weights = load_file(self.folder / "nets" / f"{number}.safetensors")
        if not any(".pooler." in name for name in weights):  # nor had the files of the encoder
            encoder = before_compile(net.module_).encoder
            getattr(encoder, "get_base_model", lambda: encoder)().pooler = None  # peft wraps it
        before_compile(net.module_).load_state_dict(weights)
        return net


def _check_fitted(clf: Any) -> None:
    if not (clf.initialized_ if isinstance(clf, NeuralNet) else hasattr(clf, "classes_")):
        raise NotFittedError(f"This {type(clf).__name__} is not fitted; call fit first.")


# -- folders ---------------------------------------------------------------------------------------
def _foreign(folder: Path, content: dict[str, Any], seal: str) -> list[str]:
    """Return the files that a sealed file does not name."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    return sorted({path.as_posix() for path in files} - {seal, *content["files"]})


@contextmanager
def _new_folder(
    folder: str | os.PathLike[str], overwrite: bool, seal: str, content: dict[str, Any]
) -> Iterator[Path]:
    """Yield an empty folder; if the block succeeds, seal it, and put it in place of `folder`."""
    target = Path(folder).expanduser().resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        if not overwrite:
            raise ValueError(f"{target} is in use; set overwrite=True, or give another folder.")
        seals = [name for name in (_STATE, _EXPORT) if (target / name).is_file()]
        if not seals or _foreign(target, read_sealed(target / seals[0]), seals[0]):
            raise ValueError(
                f"{target} is in use; give another folder: neither save nor export wrote all of it."
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    part, old = (target.with_name(f".{target.name}.{secrets.token_hex(4)}") for _ in range(2))
    part.mkdir()
    try:
        yield part
        members = [path for path in part.rglob("*") if path.is_file()]
        write_sealed(part / seal, content, members)
        for path in members:  # safetensors hides its files from other users
            path.chmod((part / seal).stat().st_mode)
        if target.exists():
            target.rename(old)
        part.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


# -- export ----------------------------------------------------------------------------------------
def export(
    clf: Any,
    folder: str | os.PathLike[str],
    *,
    format: str = "huggingface",
    overwrite: bool = False,
) -> None:
    """Write one net for other libraries; see the method `export` of each classifier."""
    if format not in ("huggingface", "onnx"):
        raise ValueError(f'format must be "huggingface" or "onnx", got {format!r}.')
    _check_fitted(clf)
    net: Any = (getattr(clf, "students_", None) or getattr(clf, "estimators_", [clf]))[0]
    if not isinstance(net, BertClassifier) or type(before_compile(net.module_)) is not BertModule:
        what = f"{type(net).__name__} cannot be exported"
        raise ValueError(f"{what}, only a BertClassifier with its default module can.")
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if format == "onnx" and missing:
        raise ImportError(f"format='onnx' needs {missing[0]}: pip install onnx onnxscript.")
    module = copy.deepcopy(before_compile(net.module_)).to("cpu").eval().requires_grad_(False)
    module.precision = "fp32"
    if hasattr(module.encoder, "merge_and_unload"):  # an adapter of peft
        module.encoder = module.encoder.merge_and_unload(progressbar=False)
    tau = getattr(clf, "logit_adjustment_", 0.0)
    if tau:  # P * shares ** tau, as logits
        module.head.bias.add_(torch.from_numpy(tau * np.log(clf.class_shares_)))
    names = [str(label) for label in clf.classes_.tolist()]
    tokenizer = copy.deepcopy(net.source_.tokenizer)
    # as in this library: long texts are cut, and "[SEP]" in a text is plain text
    length = net.source_.tokenize(["a"], net.max_length, full_width=True).shape[1]
    for key, value in (("model_max_length", length), ("split_special_tokens", True)):
        setattr(tokenizer, key, value)
        tokenizer.init_kwargs[key] = value
    with _new_folder(folder, overwrite, _EXPORT, {}) as part, seeded(0), quiet():
        if format == "onnx":
            _write_onnx(module, part)
            # leaves truncation and padding in tokenizer.json
            tokenizer(["a"], truncation=True, padding=True, max_length=length)
        else:
            _write_huggingface(module, names, length, part)
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
    size: dict[str, Any] = {"word_embedding_dimension": head.in_features}
    mean = module.pooling == "mean"
    modes = {"pooling_mode_mean_tokens": mean, "pooling_mode_cls_token": not mean}
    _write_json(folder / "1_Pooling" / "config.json", size | modes)
    size = {"in_features": head.in_features, "out_features": head.out_features, "bias": True}
    identity = {"activation_function": "torch.nn.modules.linear.Identity"}
    _write_json(folder / "2_Dense" / "config.json", size | identity)
    weights = {f"linear.{name}": value for name, value in head.state_dict().items()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    parts = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts.items())
    ]
    _write_json(folder / "modules.json", modules)


def _write_onnx(module: BertModule, folder: Path) -> None:
    """Write ``model.onnx``; the padding id in a row makes its own mask."""
    # padding, so that the trace has a mask; two texts, since a size of 1 would become fixed
    ids = torch.tensor([[1, 2, 1], [1, 2, 0]]) + module.pad_id
    log = logging.getLogger("torch.onnx")
    level, Dim = log.level, torch.export.Dim
    log.setLevel(logging.ERROR)  # it names operators of torchvision that are not installed
    shapes = ({0: Dim("n"), 1: Dim("width")},)
    names: dict[str, Any] = {"input_names": ["input_ids"], "output_names": ["probabilities"]}
    whole = nn.Sequential(module, nn.Softmax(dim=1)).eval()
    try:
        program: Any = torch.onnx.export(
            whole, (ids,), dynamic_shapes=shapes, dynamo=True, verbose=False, **names
        )
        program.save(folder / "model.onnx")
    finally:
        log.setLevel(level)


def _write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
