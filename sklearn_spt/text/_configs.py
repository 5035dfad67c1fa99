"""JSON files of pretrained encoders, which may come from strangers."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from typing import Any

from sklearn_spt._validation import shown

# Attention functions: those of transformers that are part of torch, and the one of nets._kernels.
_ATTENTION = ("eager", "sdpa", "sklearn_spt")


@functools.lru_cache(maxsize=8)
def check_config(folder: str, fingerprint: object) -> None:
    """Refuse a configuration that makes transformers look for code or kernels elsewhere."""
    from transformers import CONFIG_MAPPING

    file = os.path.join(folder, "config.json")
    config = read_json(file)
    if not isinstance(config, dict):
        raise ValueError(f"{file} is damaged: it holds no JSON object.")
    for path, value in _leaves(config):
        key = ".".join(path)
        if "implementation" in key and value is not None and value not in _ATTENTION:
            raise ValueError(
                f"{file} asks for {shown(value)} as {shown(key)}. Only "
                f"{', '.join(map(repr, _ATTENTION))} are used, since any other may load code from "
                "elsewhere; remove the key."
            )
        if path[0] in ("quantization_config", "compression_config"):
            raise ValueError(
                f"{file} describes quantised weights in {path[0]!r}, which cannot be fine-tuned; "
                "use the encoder that they were made from."
            )
    kind = config.get("model_type")
    if "auto_map" in config and kind not in CONFIG_MAPPING:
        raise ValueError(
            f"{file} cannot be used: transformers has no model type {shown(kind)}, and the code "
            "that 'auto_map' names is never run. Use another encoder."
        )


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value inside nested JSON with the keys that lead to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, path)
    else:
        yield path, value


def read_json(file: str) -> Any:
    """Return the content of a JSON file; a damaged one is an error that names it."""
    try:
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged: it is not valid JSON ({error}).") from error
