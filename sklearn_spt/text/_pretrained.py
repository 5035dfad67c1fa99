"""Pretrained checkpoints: how to read them quietly and safely.

A checkpoint is a folder with ``config.json``, ``model.safetensors`` and a tokenizer, as Hugging
Face transformers writes it, or the name of such a repository on the hub (see `_locations`).
"""

from __future__ import annotations

import copy
import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sklearn_spt._validation import check_integer
from sklearn_spt.text._locations import LOCK, encoder_folder, quiet

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

    Fingerprint = tuple[tuple[str, int, int], ...]

_PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
# These architectures begin to count positions after the padding id, so that two are lost.
_OFFSET_POSITIONS = {
    *("camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
}
# A MiniLM holds 11M weights beside its embeddings (12 layers: 21M), DistilBERT 43M, BERT-base 86M.
_SMALL_ENCODER = 30_000_000

#: Tokens of a text in the paper's code.
_PAPER_LENGTH = 160


# -- weights -------------------------------------------------------------------------------------


def load_encoder(
    pretrained: str | os.PathLike[str], *, attn_implementation: str | None = "eager"
) -> torch.nn.Module:
    """Return a fresh copy of a pretrained encoder, in fp32 on the CPU and in evaluation mode.

    The weights of the two checkpoints last used stay in memory and each call copies them, since
    one semi-supervised fit starts dozens of networks from the same weights. No global random
    state is changed and nothing is printed. Where the architecture has a pooler but the
    checkpoint no weights for it, ``pooler`` is None.

    Raises ValueError if the folder holds no safetensors weights, if a file is damaged, or if the
    weights do not fit the configuration: an encoder is never filled up with random weights.
    """
    folder = encoder_folder(pretrained)
    with LOCK:
        encoder = _read_encoder(folder, _fingerprint(folder), attn_implementation)
    copied: torch.nn.Module = copy.deepcopy(encoder)
    return copied


@functools.lru_cache(maxsize=2)
def _read_encoder(folder: str, fingerprint: Fingerprint, attn_implementation: str | None) -> Any:
    import torch
    from transformers import AutoModel

    _require_config(folder)
    _weight_shapes(folder, fingerprint)
    if os.path.exists(os.path.join(folder, "adapter_config.json")):
        raise ValueError(
            f"{folder} holds an adapter (adapter_config.json), not a whole encoder; merge it into "
            "its encoder and save the result with save_pretrained."
        )
    # The generator is forked because transformers draws weights that it misses, even those that
    # are refused below; "cpu" because a default device of the user's would hold the cached copy.
    with (
        quiet(),
        torch.random.fork_rng(devices=[]),
        torch.inference_mode(False),
        torch.device("cpu"),
    ):
        try:
            encoder, report = AutoModel.from_pretrained(
                folder,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,
                attn_implementation=attn_implementation,
                ignore_mismatched_sizes=True,  # reported below, with names
                output_loading_info=True,
            )
        except Exception as error:
            raise ValueError(f"The encoder in {folder} cannot be loaded: {error}") from error
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
            # Out of the memory-mapped file, which somebody may overwrite while we live.
            weight.data = weight.data.clone()
            if not torch.isfinite(weight).all():
                raise ValueError(
                    f"The weights in {folder} are damaged: some of them are NaN or infinite. "
                    "Fetch or save them again."
                )
    return encoder


def encoder_size(pretrained: str | os.PathLike[str]) -> int:
    """Count the weights of an encoder beside its embeddings, without loading them.

    Embeddings are left out because a large vocabulary does not make a network slower or harder
    to train: a multilingual MiniLM is 118M weights, of which 96M are its word table. Heads of
    language models are not counted either.
    """
    folder = encoder_folder(pretrained)
    size = 0
    for name, shape in _weight_shapes(folder, _fingerprint(folder)).items():
        if "embed" not in name and not name.startswith(("cls.", "lm_head.", "vocab_")):
            count = 1
            for extent in shape:
                count *= extent
            size += count
    return size


def default_learning_rate(pretrained: str | os.PathLike[str]) -> float:
    """Return the learning rate that suits the size of an encoder.

    1e-4 for small ones such as MiniLM (fewer than 30M weights beside the embeddings), else 5e-5,
    the paper's rate for BERT-base.
    """
    return 1e-4 if encoder_size(pretrained) < _SMALL_ENCODER else 5e-5


@functools.lru_cache(maxsize=32)
def _weight_shapes(folder: str, fingerprint: Fingerprint) -> dict[str, tuple[int, ...]]:
    """Read the headers of all weight files, which also finds truncated and foreign files."""
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
        names = sorted(set(_read_json(index).get("weight_map", {}).values()))
        files = [os.path.join(folder, name) for name in names]
        for file in files:
            # transformers would read whatever the index names, also a pickle.
            if not file.endswith(".safetensors") or not os.path.isfile(file):
                raise ValueError(f"{index} names {file}, which is not a safetensors file there.")
        if files:
            return files
    pickles = sorted(n for n in os.listdir(folder) if Path(n).suffix in _PICKLE_SUFFIXES)
    found = f" (found {', '.join(pickles)})" if pickles else ""
    raise ValueError(
        f"{folder} holds no model.safetensors{found}. Only safetensors are loaded, since a pickle "
        "can run code. If you trust the file, convert it once with transformers: "
        "AutoModel.from_pretrained(folder).save_pretrained(new_folder), the tokenizer likewise."
    )


# -- tokenizer and configuration -----------------------------------------------------------------


def load_tokenizer(pretrained: str | os.PathLike[str], max_length: int | None = None) -> Tokenizer:
    """Return the tokenizer of a checkpoint, shared within the process: do not change it.

    It does not pad, whatever its file says, and truncates to `max_length` tokens, special ones
    included (None: not at all). Each length has an object of its own, so that threads do not
    disturb each other. The text of special tokens is read as plain text: a ``[SEP]`` typed by
    somebody must not become a separator.
    """
    folder = encoder_folder(pretrained)
    with LOCK:
        return _truncating_tokenizer(folder, _fingerprint(folder), max_length)


@functools.lru_cache(maxsize=16)
def _truncating_tokenizer(
    folder: str, fingerprint: Fingerprint, max_length: int | None
) -> Tokenizer:
    tokenizer = copy.deepcopy(_read_tokenizer(folder, fingerprint)[0])
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    tokenizer.encode_special_tokens = True  # i.e. do not look for them; a copy does not keep it
    return tokenizer


@functools.lru_cache(maxsize=8)
def _read_tokenizer(folder: str, fingerprint: Fingerprint) -> tuple[Tokenizer, int]:
    from transformers import AutoTokenizer

    _require_config(folder)
    with quiet():
        try:
            wrapper = AutoTokenizer.from_pretrained(
                folder, use_fast=True, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:
            raise ValueError(f"The tokenizer in {folder} cannot be loaded: {error}") from error
    tokenizer = getattr(wrapper, "backend_tokenizer", None)
    # Without any vocabulary file transformers builds one of special tokens only, which turns each
    # word into [UNK] without a word of warning.
    if tokenizer is None or tokenizer.get_vocab_size() <= len(set(wrapper.all_special_tokens)):
        raise ValueError(
            f"{folder} carries no fast tokenizer with a vocabulary (tokenizer.json, or vocab.txt)."
        )
    if wrapper.pad_token_id is None:
        raise ValueError(f"The tokenizer in {folder} has no padding token.")
    return tokenizer, int(wrapper.pad_token_id)


@functools.lru_cache(maxsize=8)
def _read_config(folder: str, fingerprint: Fingerprint) -> Any:
    from transformers import AutoConfig

    _require_config(folder)
    with quiet():
        try:
            return AutoConfig.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:
            raise ValueError(f"{folder}/config.json cannot be used: {error}") from error


def pad_token_id(pretrained: str | os.PathLike[str]) -> int:
    """Return the id of the padding token of a checkpoint."""
    folder = encoder_folder(pretrained)
    with LOCK:
        return _read_tokenizer(folder, _fingerprint(folder))[1]


def vocabulary_size(pretrained: str | os.PathLike[str]) -> int:
    """Return the number of rows of a checkpoint's word table, which token ids are below."""
    folder = encoder_folder(pretrained)
    with LOCK:
        return int(_read_config(folder, _fingerprint(folder)).vocab_size)


def max_positions(pretrained: str | os.PathLike[str]) -> int:
    """Return how many tokens, special ones included, a checkpoint can read at once."""
    folder = encoder_folder(pretrained)
    with LOCK:
        config = _read_config(folder, _fingerprint(folder))
    positions = int(getattr(config, "max_position_embeddings", 512))
    if config.model_type in _OFFSET_POSITIONS:
        positions -= pad_token_id(pretrained) + 1
    return positions


def resolve_max_length(max_length: int | str, pretrained: str | os.PathLike[str]) -> int:
    """Return the number of tokens to which texts are cut.

    "auto" is 160, the paper's value, or what the encoder has if that is less. An integer must leave
    room for one token beside the special ones, and must not exceed the encoder's positions.
    """
    most = max_positions(pretrained)
    if isinstance(max_length, str) and max_length == "auto":
        return min(_PAPER_LENGTH, most)
    least = load_tokenizer(pretrained).num_special_tokens_to_add(False) + 1
    if isinstance(max_length, str):
        raise ValueError(f'max_length must be "auto" or an integer, got {max_length!r}.')
    check_integer(max_length, "max_length", low=least)
    if max_length > most:
        raise ValueError(
            f"max_length must be at most {most}, the number of positions of the encoder "
            f"{os.fspath(pretrained)!r}, got {max_length}."
        )
    return int(max_length)


def default_pooling(pretrained: str | os.PathLike[str]) -> Literal["mean", "cls"]:
    """Return the pooling that a checkpoint was made for.

    It is what a pooling configuration of sentence-transformers says, if the checkpoint carries
    one ("mean" for its other modes as well, as the nearest relative), and "cls" without one.
    """
    folder = encoder_folder(pretrained)
    names = ["1_Pooling"]
    modules = os.path.join(folder, "modules.json")
    if os.path.isfile(modules):
        entries = _read_json(modules)
        names = [e["path"] for e in entries if str(e.get("type", "")).endswith("Pooling")]
    for file in (os.path.join(folder, name, "config.json") for name in names):
        if os.path.isfile(file):
            pooling = _read_json(file)
            mode = pooling.get("pooling_mode")  # newer files; older ones have a flag for each mode
            if mode is None and not pooling.get("pooling_mode_mean_tokens"):
                mode = "cls" if pooling.get("pooling_mode_cls_token") else None
            return "cls" if mode == "cls" else "mean"
    return "cls"


def encoder_state(pretrained: str | os.PathLike[str]) -> object:
    """Return something that changes whenever a file of a checkpoint does."""
    return _fingerprint(encoder_folder(pretrained))


# -- helpers -------------------------------------------------------------------------------------


def _fingerprint(folder: str) -> Fingerprint:
    """State of a folder's files, so that a checkpoint saved anew is not mistaken for the old."""
    with os.scandir(folder) as entries:
        files = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in files))


def _require_config(folder: str) -> None:
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise ValueError(f"{folder} is no checkpoint: it holds no config.json.")


def _read_json(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)
    except ValueError as error:
        raise ValueError(f"{file} is damaged: it holds no valid JSON ({error}).") from error
