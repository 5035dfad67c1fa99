"""Fitted classifiers in folders: safetensors and JSON to load again, or one net for others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from sklearn import config_context
from sklearn.base import BaseEstimator
from skorch import NeuralNet
from skorch.history import History
from transformers import AutoConfig, AutoTokenizer

from sklearn_spt import baselines
from sklearn_spt._bert import BertClassifier
from sklearn_spt._export import check_fitted, export
from sklearn_spt._module import before_compile
from sklearn_spt._pretrained import PretrainedEncoder, quiet
from sklearn_spt._random import seeded
from sklearn_spt._sealed import FORMAT, STATE, foreign_files, new_folder, read_sealed, saved_state
from sklearn_spt._self_pretraining import SelfPretrainingClassifier
from sklearn_spt._soft_self_training import SoftSelfTrainingClassifier

__all__ = ["export", "load", "save"]

#: The classes that a folder may name. Beside the LoRA of peft, nothing else is built.
_CLASSES = {
    kind.__name__: kind
    for kind in (
        BertClassifier,
        SelfPretrainingClassifier,
        SoftSelfTrainingClassifier,
        *(getattr(baselines, name) for name in baselines.__all__),
    )
}
#: Fitted attributes of a net beside its weights; the last two are there for a matrix X.
_OF_NET = ("classes_inferred_", "lr_", "history_", "n_features_in_", "feature_names_in_")


# -- save and load ---------------------------------------------------------------------------------
def save(clf: Any, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Save a fitted classifier to a folder that `load` reads.

    The folder holds the weights of each net (safetensors), parameters and fitted attributes
    (JSON), and the tokenizer and configuration of the encoder: no code, no pickle. It appears
    whole or not at all.

    Parameters
    ----------
    clf : BertClassifier, SelfPretrainingClassifier or another classifier of this package
        Fitted.
    folder : str or path-like
        New or empty folder; parents are created.
    overwrite : bool, default=False
        Whether to replace a folder that an earlier `save` wrote.

    Raises
    ------
    ValueError
        If the folder is in use, or the classifier holds what needs code: a net other than
        `BertClassifier`, a callback, a subclass. Use pickle for these.
    sklearn.exceptions.NotFittedError
        If the classifier is not fitted.

    Examples
    --------
    >>> import sklearn_spt
    >>> sklearn_spt.save(clf, "model")  # doctest: +SKIP
    """
    check_fitted(clf)
    writer = _Writer()
    classifier = writer.described(clf, "the classifier")
    content = {"classifier": classifier, "nets": [found for _, found in writer.nets.values()]}
    with new_folder(folder, overwrite, STATE, content) as part, quiet():
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
    place = (state := saved_state(folder)).parent
    content = read_sealed(state)
    # one more file can change the tokenizer; hidden ones come from programs that show folders
    foreign = [name for name in foreign_files(place, content, STATE) if "/." not in f"/{name}"]
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
