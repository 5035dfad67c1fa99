"""Read pretrained encoders safely and without output.

A pretrained encoder is a folder with ``config.json``, ``model.safetensors`` and a tokenizer, as
Hugging Face transformers writes it, or the name of such a repository on the hub.
"""

from __future__ import annotations

import copy
import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sklearn_spt._validation import check_integer, shown
from sklearn_spt.text._configs import check_config, read_json
from sklearn_spt.text._locations import LOCK, encoder_folder, quiet

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    Fingerprint = tuple[tuple[str, int, int], ...]

_PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
# These architectures count positions from the padding id + 1, and read that many fewer tokens.
_OFFSET_POSITIONS = {
    *("camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
}
# Weights without embeddings: MiniLM 11M (12 layers: 21M), DistilBERT 43M, BERT-base 86M.
_SMALL_ENCODER = 30_000_000
# Tokens of a text in the paper's code.
_PAPER_LENGTH = 160


@dataclass(frozen=True, eq=False)
class TextSource(os.PathLike[str]):
    """The tokenizer and configuration of an encoder in memory.

    A net that was loaded from a folder reads texts with it: it needs no file of its encoder. The
    functions below take it as `pretrained`, except those that read weights.
    """

    name: str
    tokenizer: Any
    config: Any

    def __fspath__(self) -> str:
        """Return the name of the encoder, for messages."""
        return self.name


def text_source(pretrained: str | os.PathLike[str]) -> TextSource:
    """Return the tokenizer and configuration of an encoder, shared within the process."""
    if isinstance(pretrained, TextSource):
        return pretrained
    tokenizer, config = _read(_read_tokenizer, pretrained), _read(_read_config, pretrained)
    return TextSource(os.fspath(pretrained), tokenizer, config)


# -- weights -------------------------------------------------------------------------------------


def load_encoder(pretrained: str | os.PathLike[str], device: str = "cpu") -> torch.nn.Module:
    """Return a copy of a pretrained encoder, in fp32 and in evaluation mode.

    Two encoders stay in memory, and one on another device, since one fit starts dozens of nets from
    the same weights. ``pooler`` is None where the folder holds no weights for it.
    """
    encoder: torch.nn.Module
    if device.partition(":")[0] == "cpu":
        encoder = _read(_read_encoder, pretrained)
    else:
        encoder = _read(_encoder_on, pretrained, device)
    return copy.deepcopy(encoder)


def forget_encoders() -> None:
    """Free the encoders that `load_encoder` keeps."""
    _read_encoder.cache_clear()
    _encoder_on.cache_clear()


@functools.lru_cache(maxsize=1)
def _encoder_on(folder: str, fingerprint: Fingerprint, device: str) -> Any:
    import torch

    with torch.inference_mode(False):
        return copy.deepcopy(_read_encoder(folder, fingerprint)).to(device)


@functools.lru_cache(maxsize=2)
def _read_encoder(folder: str, fingerprint: Fingerprint) -> Any:
    import torch
    from transformers import AutoModel

    _weight_shapes(folder, fingerprint)
    if os.path.exists(os.path.join(folder, "adapter_config.json")):
        raise ValueError(
            f"{folder} holds an adapter (adapter_config.json), not a whole encoder; merge it into "
            "its encoder and save the result with save_pretrained."
        )
    # The generator is forked because transformers draws missing weights, even those refused below;
    # "cpu" because the cached copy must not lie on the user's default device.
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.device("cpu"):
        encoder, report = _from_pretrained(
            AutoModel,
            folder,
            f"The encoder in {folder} cannot be loaded",
            use_safetensors=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # reported below, with names
            output_loading_info=True,
        )
    if report["mismatched_keys"]:
        name, found, wanted = min(report["mismatched_keys"])
        raise ValueError(
            f"The weights in {folder} do not fit its config.json: {name} has the shape "
            f"{tuple(found)}, expected {tuple(wanted)}."
        )
    missing = set(report["missing_keys"])
    pooler = {name for name in missing if name.split(".")[0] == "pooler"}
    if missing - pooler:
        names = sorted(missing - pooler)
        raise ValueError(
            f"The weights in {folder} are incomplete: {len(names)} tensors of the encoder are "
            f"missing, {names[0]} among them."
        )
    if pooler:
        encoder.pooler = None
    with torch.inference_mode(False), torch.no_grad():
        for weight in encoder.parameters():
            # A copy in memory: the memory-mapped file may be overwritten later.
            weight.data = weight.data.clone()
            if not torch.isfinite(weight).all():
                raise ValueError(
                    f"The weights in {folder} are damaged: some of them are NaN or infinite. "
                    "Fetch or save them again."
                )
    return encoder


def encoder_size(pretrained: str | os.PathLike[str]) -> int:
    """Count the weights of an encoder without its embeddings and language-model head.

    A large vocabulary makes an encoder neither slower nor harder to train.
    """
    return sum(
        math.prod(shape)
        for name, shape in _read(_weight_shapes, pretrained).items()
        if "embed" not in name and not name.startswith(("cls.", "lm_head.", "vocab_"))
    )


def default_learning_rate(pretrained: str | os.PathLike[str]) -> float:
    """Return 1e-4 for small encoders such as MiniLM, else 5e-5, the paper's rate for BERT-base."""
    return 1e-4 if encoder_size(pretrained) < _SMALL_ENCODER else 5e-5


@functools.lru_cache(maxsize=32)
def _weight_shapes(folder: str, fingerprint: Fingerprint) -> dict[str, tuple[int, ...]]:
    """Read the shapes from the headers of all weight files; a damaged file raises an error."""
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in _weight_files(folder):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 - not a mapping
                    shapes[name] = tuple(tensors.get_slice(name).get_shape())
        except (SafetensorError, OSError) as error:
            with open(file, "rb") as stream:
                pointer = stream.read(40).startswith(b"version https://git-lfs")
            hint = "it is a Git LFS pointer, run `git lfs pull`" if pointer else str(error)
            raise ValueError(
                f"{file} is damaged or not a safetensors file: {hint}. Fetch or save it again."
            ) from error
    return shapes


def _weight_files(folder: str) -> list[str]:
    single = os.path.join(folder, "model.safetensors")
    if os.path.isfile(single):
        return [single]
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.isfile(index):
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        files = [os.path.join(folder, name) for name in names]
        for name, file in zip(names, files, strict=True):
            # transformers would read any file that the index names: a pickle, or one elsewhere.
            inside = os.path.basename(name) == name
            if not inside or not file.endswith(".safetensors") or not os.path.isfile(file):
                raise ValueError(f"{index} names {file}, which is not a safetensors file there.")
        if files:
            return files
    pickles = sorted(n for n in os.listdir(folder) if Path(n).suffix in _PICKLE_SUFFIXES)
    found = f" (found {', '.join(pickles)})" if pickles else ""
    raise ValueError(
        f"{folder} holds no model.safetensors{found}. Only safetensors are loaded, since a pickle "
        "can run code. If you trust the file, convert it once with transformers: "
        "AutoModel.from_pretrained(folder).save_pretrained(new_folder), and the tokenizer as well."
    )


# -- tokenizer and configuration -----------------------------------------------------------------


def load_tokenizer(pretrained: str | os.PathLike[str], max_length: int | None = None) -> Tokenizer:
    """Return the tokenizer of an encoder, shared within the process: do not change it.

    It does not pad, truncates to `max_length` tokens (special ones included), and reads the names
    of special tokens in a text as plain text.
    """
    tokenizer: Tokenizer = _read(_truncating_tokenizer, pretrained, max_length)
    return tokenizer


@functools.lru_cache(maxsize=16)
def _truncating_tokenizer(
    folder: str | TextSource, fingerprint: Fingerprint, max_length: int | None
) -> Tokenizer:
    tokenizer = copy.deepcopy(_read_tokenizer(folder, fingerprint).backend_tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    tokenizer.encode_special_tokens = True  # as plain text; a copy does not keep this setting
    return tokenizer


@functools.lru_cache(maxsize=8)
def _read_tokenizer(folder: str | TextSource, fingerprint: Fingerprint) -> Any:
    if isinstance(folder, TextSource):
        return folder.tokenizer
    from transformers import AutoTokenizer

    what = f"The tokenizer in {folder} cannot be loaded"
    wrapper = _from_pretrained(AutoTokenizer, folder, what, use_fast=True)
    tokenizer = getattr(wrapper, "backend_tokenizer", None)
    # Without a vocabulary file, transformers builds a tokenizer that knows the special tokens only
    # and turns each word into [UNK] without a warning.
    if tokenizer is None or tokenizer.get_vocab_size() <= len(set(wrapper.all_special_tokens)):
        raise ValueError(
            f"{folder} holds no fast tokenizer with a vocabulary (tokenizer.json or vocab.txt)."
        )
    if wrapper.pad_token_id is None:
        raise ValueError(f"The tokenizer in {folder} has no padding token.")
    return wrapper


@functools.lru_cache(maxsize=8)
def _read_config(folder: str | TextSource, fingerprint: Fingerprint) -> Any:
    if isinstance(folder, TextSource):
        return folder.config
    from transformers import AutoConfig

    return _from_pretrained(AutoConfig, folder, f"{folder}/config.json cannot be used")


def pad_token_id(pretrained: str | os.PathLike[str]) -> int:
    """Return the id of the padding token of an encoder."""
    return int(_read(_read_tokenizer, pretrained).pad_token_id)


def vocabulary_size(pretrained: str | os.PathLike[str]) -> int:
    """Return the number of token ids that an encoder knows."""
    return int(_read(_read_config, pretrained).vocab_size)


def max_positions(pretrained: str | os.PathLike[str]) -> int:
    """Return how many tokens, special ones included, an encoder can read at once."""
    config = _read(_read_config, pretrained)
    positions = int(getattr(config, "max_position_embeddings", 512))
    if config.model_type in _OFFSET_POSITIONS:
        positions -= pad_token_id(pretrained) + 1
    return positions


def resolve_max_length(max_length: int | str, pretrained: str | os.PathLike[str]) -> int:
    """Return the number of tokens to which texts are cut; "auto" is at most the paper's 160."""
    most = max_positions(pretrained)
    if isinstance(max_length, str) and max_length == "auto":
        return min(_PAPER_LENGTH, most)
    least = load_tokenizer(pretrained).num_special_tokens_to_add(False) + 1
    if isinstance(max_length, str):
        raise ValueError(f'max_length must be "auto" or an integer, got {shown(max_length)}.')
    check_integer(max_length, "max_length", low=least)
    if max_length > most:
        raise ValueError(
            f"max_length must be at most {most}, the number of positions of the encoder "
            f"{shown(os.fspath(pretrained))}, got {max_length}."
        )
    return int(max_length)


def default_pooling(pretrained: str | os.PathLike[str]) -> Literal["mean", "cls"]:
    """Return the pooling of the encoder's sentence-transformers configuration, or "cls".

    A configured mode other than "cls" and "mean" becomes "mean".
    """
    folder = encoder_folder(pretrained)
    names = ["1_Pooling"]
    modules = os.path.join(folder, "modules.json")
    listed = os.path.isfile(modules)
    if listed:
        try:
            entries = read_json(modules)
            names = [str(e["path"]) for e in entries if str(e.get("type")).endswith("Pooling")]
        except (AttributeError, KeyError, TypeError):
            raise ValueError(
                f"{modules} is damaged: it is no list of modules with a path and a type."
            ) from None
    for file in (os.path.join(folder, name, "config.json") for name in names):
        if os.path.isfile(file):
            pooling = read_json(file)
            if not isinstance(pooling, dict):
                raise ValueError(f"{file} is damaged: it holds no JSON object.")
            mode = pooling.get("pooling_mode")  # older files have a flag for each mode instead
            if mode is None and not pooling.get("pooling_mode_mean_tokens"):
                mode = "cls" if pooling.get("pooling_mode_cls_token") else None
            return "cls" if mode == "cls" else "mean"
        if listed:
            raise ValueError(f"{modules} names {file}, which is not there; fetch it again.")
    return "cls"


def encoder_state(pretrained: str | os.PathLike[str]) -> object:
    """Return a value that changes whenever a file of an encoder or of its subfolders does."""
    top, found = encoder_folder(pretrained), []
    for folder, subfolders, _ in os.walk(top):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        found.append((os.path.relpath(folder, top), _fingerprint(folder)))
    return found


# -- helpers -------------------------------------------------------------------------------------


def _read(reader: Callable[..., Any], pretrained: str | os.PathLike[str], *args: Any) -> Any:
    """Call a cached reader with the folder of an encoder and the state of its files."""
    if isinstance(pretrained, TextSource):
        with LOCK:
            return reader(pretrained, (), *args)
    folder = encoder_folder(pretrained)
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise ValueError(f"{folder} is not a pretrained encoder: it holds no config.json.")
    fingerprint = _fingerprint(folder)
    with LOCK:
        check_config(folder, fingerprint)
        return reader(folder, fingerprint, *args)


def _from_pretrained(kind: Any, folder: str, failure: str, **options: Any) -> Any:
    """Load a part of an encoder from its folder, without output and without running its code."""
    with quiet():
        try:
            return kind.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True, **options
            )
        except Exception as error:
            # transformers lists all its models in some messages
            reason = " ".join(str(error).split())
            reason = reason if len(reason) <= 200 else f"{reason[:200]}..."
            raise ValueError(f"{failure}: {type(error).__name__}: {reason}") from error


def _fingerprint(folder: str) -> Fingerprint:
    """Names, times and sizes of a folder's files: an encoder that is saved again is read again."""
    with os.scandir(folder) as entries:
        files = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in files))
