"""The state of fitted classifiers and nets: what a folder says of them, and back."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from sklearn import config_context
from sklearn.base import BaseEstimator
from skorch import NeuralNet
from skorch.history import History
from skorch.utils import get_map_location

from sklearn_spt._random import isolated
from sklearn_spt.persistence._adapters import (
    is_lora,
    lora,
    lora_settings,
    read_adapter,
    write_adapter,
)
from sklearn_spt.persistence._values import from_json, to_json
from sklearn_spt.text._locations import quiet
from sklearn_spt.text._pretrained import text_source

#: The classes that a folder may name, and their modules. Beside LoRA, nothing else is imported.
_MODULES = {
    "BertClassifier": "sklearn_spt.nets._bert_classifier",
    "CoDecompositionClassifier": "sklearn_spt.baselines._co_decomposition",
    "KeywordWindow": "sklearn_spt.text._keyword_window",
    "MutualLearningClassifier": "sklearn_spt.baselines._mutual_learning",
    "SelfPretrainingClassifier": "sklearn_spt.self_pretraining._classifier",
    "SpacedRepetitionClassifier": "sklearn_spt.baselines._spaced_repetition",
    "ThrottledSelfTrainingClassifier": "sklearn_spt.baselines._self_training",
    "TriTrainingClassifier": "sklearn_spt.baselines._tri_training",
}
# Fitted attributes of a net beside weights and history; the last two are there for a matrix X.
_NET_ATTRIBUTES = ("classes_inferred_", "lr_", "n_threads_", "n_features_in_", "feature_names_in_")
# Parameters that have another value while a net is built from a folder.
_REPLACED = ("pretrained", "pooling", "lr", "verbose")
_HEAD = "head.safetensors"
#: Methods that take metadata which scikit-learn can route.
ROUTED = ("fit", "partial_fit", "score")


def trained_module(net: NeuralNet) -> Any:
    """Return the module of a net as it was before ``torch.compile``."""
    return getattr(net.module_, "_orig_mod", net.module_)


class Writer:
    """Writes the nets of a classifier into a folder, and returns the rest as JSON has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._specs: dict[int, dict[str, Any]] = {}  # by the identity of the net

    @property
    def nets(self) -> list[dict[str, Any]]:
        """What stands beside the weights of each net, by number."""
        return list(self._specs.values())

    def fitted(self, value: Any, name: str) -> dict[str, Any]:
        """Describe a fitted classifier, or a net by its number."""
        if isinstance(value, NeuralNet):
            if id(value) not in self._specs:
                self._specs[id(value)] = self._written(value, name)
            return {"net": list(self._specs).index(id(value))}
        found = self.unfitted(value, name)
        found["estimator"]["attributes"] = {
            key: to_json(given, key, self.fitted)
            for key, given in vars(value).items()
            if key.endswith("_") and not key.startswith("_")
        }
        return found

    def unfitted(self, value: Any, name: str) -> dict[str, Any]:
        """Describe an estimator by its class and parameters, or an adapter."""
        if is_lora(value):
            return {"lora": to_json(lora_settings(value, name), name, self.unfitted)}
        kind = type(value)
        if kind.__module__ != _MODULES.get(kind.__name__):
            what = value.__name__ if isinstance(value, type) else kind.__name__
            raise ValueError(
                f"{name} ({what}) cannot be saved: a folder holds plain data, and only classes of "
                "sklearn_spt itself, since others are code. Use pickle or joblib for this "
                "classifier, or give the parameter another value by set_params."
            )
        usual = kind().get_params(deep=False)
        return {
            "estimator": {
                "class": kind.__name__,
                "requests": _requests(value),
                "params": {
                    key: to_json(given, key, self.unfitted)
                    for key, given in value.get_params(deep=False).items()
                    # a net has classes as defaults
                    if not (isinstance(given, type) and given is usual.get(key))
                },
            }
        }

    def _written(self, net: Any, name: str) -> dict[str, Any]:
        spec: dict[str, Any] = self.unfitted(net, name)["estimator"]
        module, source = trained_module(net), text_source(net.reads_with)
        spec["pooling"] = module.encoder.pooling
        spec["history"] = to_json(list(net.history), "history_", self.unfitted)
        spec["attributes"] = {
            key: to_json(vars(net)[key], key, self.unfitted)
            for key in _NET_ATTRIBUTES
            if key in vars(net)
        }
        folder = self.folder / "nets" / str(len(self._specs))
        folder.mkdir(parents=True)
        with quiet():
            write_adapter(module.encoder.model, folder).save_pretrained(folder)
            source.tokenizer.save_pretrained(folder)
        save_file(module.head.state_dict(), folder / _HEAD)
        again = text_source(folder).tokenizer
        if again.backend_tokenizer.to_str() != source.tokenizer.backend_tokenizer.to_str():
            raise ValueError(
                f"the tokenizer of {net.pretrained!r} cannot be saved: transformers reads it back "
                "as another one. Use pickle or joblib for this classifier."
            )
        return spec


class Reader:
    """Builds what a `Writer` described."""

    def __init__(self, folder: Path, nets: list[dict[str, Any]]) -> None:
        self.folder = folder
        self._nets = [self._net(number, spec) for number, spec in enumerate(nets)]

    def built(self, kind: str, content: Any) -> Any:
        """Return a net, an adapter or an estimator."""
        if kind == "net":
            return self._nets[content]
        if kind == "lora":
            return lora(from_json(content, self.built))
        if kind != "estimator":
            raise ValueError(f"unknown kind of value {kind!r}")
        estimator = _made(content, self._values(content["params"]))
        vars(estimator).update(self._values(content.get("attributes", {})))
        return estimator

    def _values(self, described: dict[str, Any]) -> dict[str, Any]:
        return {key: from_json(value, self.built) for key, value in described.items()}

    def _net(self, number: int, spec: dict[str, Any]) -> Any:
        """Build a net whose encoder, for the moment, is a folder with its trained weights."""
        folder = self.folder / "nets" / str(number)
        params, attributes = self._values(spec["params"]), self._values(spec["attributes"])
        replaced = dict(
            zip(_REPLACED, (folder, spec["pooling"], attributes["lr_"], 0), strict=True)
        )
        net = _made(spec, {**params, **replaced})
        if net.device != "auto":  # without a GPU it warns as skorch does for a pickle
            net.device = str(net._check_device(net.device, get_map_location(net.device)))
        vars(net).update(attributes)
        with isolated():
            net.initialize()
        trained_module(net).head.load_state_dict(load_file(folder / _HEAD))
        read_adapter(trained_module(net).encoder.model, folder)
        net.history_ = History(from_json(spec["history"], self.built))
        net._text_source = replace(text_source(folder), name=os.fspath(params["pretrained"]))
        vars(net).update({name: params[name] for name in _REPLACED})
        return net


def _requests(estimator: Any) -> dict[str, dict[str, bool | str]]:
    """Return the metadata that an estimator asks scikit-learn to route, by method."""
    routing = BaseEstimator.get_metadata_routing(estimator)  # skorch nets say more
    asked = {method: getattr(routing, method).requests for method in ROUTED}
    return {
        method: {name: alias for name, alias in given.items() if alias is not None}
        for method, given in asked.items()
    }


def _made(spec: dict[str, Any], params: dict[str, Any]) -> Any:
    """Return an unfitted estimator of the class and with the metadata requests of `spec`."""
    name = spec["class"]
    estimator = getattr(import_module(_MODULES[name]), name)(**params)
    with config_context(enable_metadata_routing=True):
        for method, given in spec.get("requests", {}).items():  # the first folders have none
            if given:
                getattr(estimator, f"set_{method}_request")(**given)
    return estimator
