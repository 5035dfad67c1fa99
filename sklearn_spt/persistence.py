"""Fitted classifiers in folders: safetensors and JSON to load again, or one net for others."""

from __future__ import annotations

import copy
import importlib.util
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.exceptions import NotFittedError
from skorch import NeuralNet
from torch import nn
from transformers import AutoConfig, AutoTokenizer, BertConfig, BertForSequenceClassification

from sklearn_spt._bert import BertClassifier
from sklearn_spt._encoder import BertModule
from sklearn_spt._folders import FORMAT, read_sealed, write_sealed
from sklearn_spt._random import seeded
from sklearn_spt._texts import PretrainedEncoder, quiet

__all__ = ["export", "load", "save"]

_STATE = "estimator.json"
#: The classes that a folder may name, and their modules. Nothing else is imported.
_MODULES = {
    "BertClassifier": "sklearn_spt",
    "CoDecompositionClassifier": "sklearn_spt",
    "KeywordWindow": "sklearn_spt.baselines",
    "MutualLearningClassifier": "sklearn_spt",
    "SelfPretrainingClassifier": "sklearn_spt",
    "SoftSelfTrainingClassifier": "sklearn_spt",
    "SpacedRepetitionClassifier": "sklearn_spt",
    "ThrottledSelfTrainingClassifier": "sklearn_spt",
    "TriTrainingClassifier": "sklearn_spt",
}
#: Fitted attributes of a net beside its weights.
_OF_NET = ("classes_inferred_", "lr_", "n_features_in_", "feature_names_in_")


# -- save and load ---------------------------------------------------------------------------------
def save(clf: Any, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a fitted classifier to a folder; see the method `save` of each classifier."""
    _check_fitted(clf)
    with _new_folder(folder, overwrite) as part:
        writer = _Writer(part)
        content = {"classifier": writer.described(clf, "the classifier"), "nets": writer.nets}
        members = [path for path in part.rglob("*") if path.is_file()]
        write_sealed(part / _STATE, content, members)


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
        As it was saved. A new `fit` reads the encoder that the parameters name.

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
        what = "holds no saved classifier" if place.is_dir() else "is missing"
        raise ValueError(f"{place} {what}: give the folder that save wrote.")
    content = read_sealed(place / _STATE)
    if content["versions"]["format"] != str(FORMAT):
        raise ValueError(
            f"{place} has the format {content['versions']['format']}, but this version reads "
            f"{FORMAT}; load it with the version that wrote it."
        )
    with quiet():
        return _Reader(place, content["nets"]).built(content["classifier"])


class _Writer:
    """Writes nets into a folder, and describes everything else as JSON has it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.nets = folder, []  # type: tuple[Path, list[dict[str, Any]]]
        self._numbers: dict[int, int] = {}
        self._sources: list[PretrainedEncoder] = []

    def described(self, value: Any, name: str) -> Any:
        """Return a value as JSON has it; what is no plain data becomes an object with one key."""
        if isinstance(value, np.generic):
            return {"numpy": [value.dtype.str, value.item()]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple):
            items = [self.described(item, name) for item in value]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, dict):
            pairs = [[self.described(k, name), self.described(v, name)] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, np.ndarray):
            items = [self.described(item, name) for item in value.ravel().tolist()]
            return {"array": [value.dtype.str, list(value.shape), items]}
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, NeuralNet) and value.initialized_:
            return {"net": self._net(value, name)}
        if type(value).__name__ == "LoraConfig":
            return {"lora": self.described(_lora_settings(value), name)}
        return {"estimator": self._estimator(value, name)}

    def _estimator(self, value: Any, name: str) -> dict[str, Any]:
        kind = type(value)
        module = _MODULES.get(kind.__name__)
        if module is None or getattr(import_module(module), kind.__name__) is not kind:
            what = getattr(value, "__name__", kind.__name__)
            raise ValueError(
                f"{name} ({what}) cannot be saved: a folder holds plain data and classes of "
                "sklearn_spt alone, and this needs code. Use pickle or joblib, or give the "
                "parameter another value by set_params."
            )
        usual = kind().get_params(deep=False)
        params = value.get_params(deep=False).items()
        fitted = {k: v for k, v in vars(value).items() if k.endswith("_") and k[0] != "_"}
        if isinstance(value, NeuralNet):
            fitted = {k: fitted[k] for k in _OF_NET if k in fitted}
        return {
            "class": kind.__name__,
            "params": {k: self.described(v, k) for k, v in params if v is not usual.get(k)},
            "attributes": {k: self.described(v, k) for k, v in fitted.items()},
        }

    def _net(self, net: Any, name: str) -> int:
        """Write the weights of a net once, and the tokenizer of its encoder; return its number."""
        if id(net) not in self._numbers:
            described = self._estimator(net, name)
            module = getattr(net.module_, "_orig_mod", net.module_)
            if type(module) is not BertModule:
                raise ValueError(f"{name}: a module of your own cannot be saved. Use pickle.")
            known = [s.tokenizer is net.source_.tokenizer for s in self._sources]
            if True not in known:
                self._sources.append(net.source_)
                place = self.folder / "encoders" / str(len(known))
                with quiet():
                    net.source_.tokenizer.save_pretrained(place)
                    net.source_.config.save_pretrained(place)
            number = self._numbers[id(net)] = len(self.nets)
            file = self.folder / "nets" / f"{number}.safetensors"
            file.parent.mkdir(exist_ok=True)
            weights = {k: v.contiguous() for k, v in module.state_dict().items()}
            save_file(weights, file)
            described |= {"source": [*known, True].index(True), "pooling": module.pooling}
            self.nets.append(described)
        return self._numbers[id(net)]


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
        if kind == "numpy":
            return np.dtype(content[0]).type(content[1])
        if kind == "tuple":
            return tuple(self.built(content))
        if kind == "dict":
            return {self.built(k): self.built(v) for k, v in content}
        if kind == "array":
            array = np.empty(len(content[2]), dtype=np.dtype(content[0]))
            array[:] = self.built(content[2])
            return array.reshape(content[1])
        if kind == "net":
            return self._nets[content]
        if kind == "lora":
            from peft import LoraConfig

            return LoraConfig(**self.built(content))
        return self._estimator(content)

    def _estimator(self, described: dict[str, Any]) -> Any:
        kind = getattr(import_module(_MODULES[described["class"]]), described["class"])
        made = kind(**{k: self.built(v) for k, v in described["params"].items()})
        vars(made).update({k: self.built(v) for k, v in described["attributes"].items()})
        return made

    def _net(self, number: int, described: dict[str, Any]) -> Any:
        net = self._estimator(described)
        if net.device.startswith("cuda") and not torch.cuda.is_available():
            net.device = "cpu"
        if described["source"] not in self._sources:
            place = self.folder / "encoders" / str(described["source"])
            found = AutoTokenizer.from_pretrained(place), AutoConfig.from_pretrained(place)
            self._sources[described["source"]] = found
        source = PretrainedEncoder(
            net.pretrained, *self._sources[described["source"]], described["pooling"]
        )
        with seeded(0):
            net.initialize(source)
        module = getattr(net.module_, "_orig_mod", net.module_)
        module.load_state_dict(load_file(self.folder / "nets" / f"{number}.safetensors"))
        return net


def _lora_settings(config: Any) -> dict[str, Any]:
    """Return those settings of an adapter that differ from the defaults."""
    usual, settings = type(config)(), {}
    for key, value in vars(config).items():
        if value != getattr(usual, key, None) and key not in ("peft_type", "runtime_config"):
            settings[key] = sorted(value) if isinstance(value, set) else value
    return settings


def _check_fitted(clf: Any) -> None:
    fitted = clf.initialized_ if isinstance(clf, NeuralNet) else hasattr(clf, "classes_")
    if not fitted:
        raise NotFittedError(f"This {type(clf).__name__} is not fitted; call fit first.")


@contextmanager
def _new_folder(folder: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder, which takes the place of `folder` if the block succeeds."""
    target = Path(folder).expanduser().absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        ours = (target / _STATE).is_file() or (target / "export.json").is_file()
        if not (overwrite and ours):
            hint = "set overwrite=True" if ours else "give another folder"
            raise ValueError(f"{target} is in use; {hint}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield part
        for path in [part, *part.rglob("*")]:  # tempfile and safetensors hide them from others
            path.chmod(0o755 if path.is_dir() else 0o644)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


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
    nets = getattr(clf, "students_", None) or getattr(clf, "estimators_", [clf])
    net = clf if isinstance(clf, NeuralNet) else nets[0]
    if not isinstance(net, BertClassifier) or type(net.module_) is not BertModule:
        raise ValueError(f"{type(net).__name__} cannot be exported, only a BertClassifier can.")
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if format == "onnx" and missing:
        raise ImportError(f"format='onnx' needs {missing[0]}: pip install onnx onnxscript.")
    module = copy.deepcopy(net.module_).to("cpu").eval().requires_grad_(False)
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
    with _new_folder(folder, overwrite) as part, seeded(0), quiet():
        if format == "onnx":
            _write_onnx(module, part)
        else:
            _write_huggingface(module, names, length, part)
        tokenizer.save_pretrained(part)
        _write_json(part / "export.json", {"format": format, "labels": names})


def _write_huggingface(module: Any, names: list[str], length: int, folder: Path) -> None:
    encoder = module.encoder
    encoder.config.id2label = dict(enumerate(names))
    encoder.config.label2id = {name: i for i, name in enumerate(names)}
    if getattr(encoder, "pooler", None) is not None:
        if encoder.config.model_type != "bert":
            raise ValueError(
                f"the pooler of a {encoder.config.model_type} encoder fits no stock class; use "
                'format="onnx", or train with pooling="mean".'
            )
        whole = BertForSequenceClassification(BertConfig.from_dict(encoder.config.to_dict()))
        whole.bert.load_state_dict(encoder.state_dict())
        whole.classifier.load_state_dict(module.head.state_dict())
        whole.save_pretrained(folder)
        return
    encoder.save_pretrained(folder)
    options: dict[str, Any] = {"max_seq_length": length, "do_lower_case": False}
    if encoder.config.model_type in ("bert", "roberta", "xlm-roberta", "mpnet"):
        options["model_args"] = {"add_pooling_layer": False}  # transformers would draw one
    _write_json(folder / "sentence_bert_config.json", options)
    mode, head = module.pooling, module.head
    pooling = {
        "word_embedding_dimension": head.in_features,
        "pooling_mode_cls_token": mode == "cls",
        "pooling_mode_mean_tokens": mode == "mean",
    }
    _write_json(folder / "1_Pooling" / "config.json", pooling)
    dense = {
        "in_features": head.in_features,
        "out_features": head.out_features,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    _write_json(folder / "2_Dense" / "config.json", dense)
    weights = {f"linear.{name}": value for name, value in head.state_dict().items()}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    parts = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts.items())
    ]
    _write_json(folder / "modules.json", modules)


class _Probabilities(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.module(input_ids), dim=1)


def _write_onnx(module: BertModule, folder: Path) -> None:
    """Write ``model.onnx``; the padding id in a row makes its own mask."""
    pad = module.pad_id
    # padding, so that the trace has a mask; two texts, since a size of 1 would become fixed
    example = torch.tensor([[pad + 1, pad + 2, pad + 1], [pad + 1, pad + 2, pad]])
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)  # it names operators of torchvision that are not installed
    program = torch.onnx.export(
        _Probabilities(module).eval(),
        (example,),
        input_names=["input_ids"],
        output_names=["probabilities"],
        dynamic_shapes=({0: torch.export.Dim("n"), 1: torch.export.Dim("width")},),
        dynamo=True,
        verbose=False,
    )
    log.setLevel(level)
    assert program is not None  # with dynamo=True
    program.save(folder / "model.onnx")


def _write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
