"""Folders that appear whole or not at all, and the manifest that shows any damage."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

_MANIFEST = "manifest.json"
_FORMAT = "sklearn_spt model"
#: A reader refuses greater versions; raise it when older readers would misread a folder.
_FORMAT_VERSION = 1
# The only names that are read: no path can leave the folder.
_NAME = re.compile(r"estimator\.json|nets/\d+/\w[\w.-]*")


@contextmanager
def new_folder(folder: str | os.PathLike[str], overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `folder`, which takes its place if the block succeeds."""
    target = Path(os.path.realpath(Path(folder).expanduser()))
    check_outside(target)
    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file; give the name of a folder.")
    old = _patterns(target)
    if old and not overwrite:
        raise ValueError(
            f"{target} exists and is not empty; give another folder, or set overwrite=True."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    suffix = secrets.token_hex(4)
    part = target.with_name(f".{target.name}.{suffix}.part")
    gone = target.with_name(f".{target.name}.{suffix}.old")
    part.mkdir()
    try:
        yield part
        for file in part.rglob("*"):  # safetensors makes files that only their owner can read
            if file.is_file():
                file.chmod(part.stat().st_mode & 0o666)
        foreign = old.keys() - _patterns(part).keys()
        if foreign:  # to read all of the old model takes time
            foreign -= _by_pattern(_sealed(target)).keys()
        if foreign:
            raise ValueError(
                f"{target} holds {old[min(foreign)]}, which is not part of what would replace it; "
                "give another folder, or remove this one yourself."
            )
        if target.exists():
            target.rename(gone)
        part.rename(target)
    except BaseException:
        if gone.exists():
            gone.rename(target)
        raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(gone, ignore_errors=True)


def check_outside(target: Path) -> None:
    """Raise an error if a folder lies in that of a model, which could not be loaded any more."""
    for parent in target.parents:
        if _sealed(parent):
            raise ValueError(
                f"{target} lies in the folder of a model, {parent}; give a folder elsewhere."
            )


def seal(folder: Path) -> None:
    """Write the manifest: versions, and the SHA-256 of every file."""
    content = {
        "files": {name: _sha256(folder / name) for name in _checked(_files(folder))},
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "versions": {name: version(name) for name in ("sklearn-spt", "torch", "transformers")},
    }
    (folder / _MANIFEST).write_bytes(_rendered(content))


def verify(folder: Path) -> dict[str, str]:
    """Return the versions that wrote a folder; raise ValueError if it is not as it was sealed."""
    try:
        given = (folder / _MANIFEST).read_bytes()
    except OSError as error:
        raise ValueError(f"it has no {_MANIFEST} that can be read") from error
    try:
        content: dict[str, Any] = json.loads(given)
        found, number = content["format"], content["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its {_MANIFEST} is damaged, or of another program") from error
    if found == _FORMAT and isinstance(number, int) and number > _FORMAT_VERSION:
        raise ValueError(
            f"its format {number} is newer than {_FORMAT_VERSION}, the newest that this version of "
            "sklearn_spt reads; upgrade sklearn_spt"
        )
    content.pop("checksum", None)
    if found != _FORMAT or number != _FORMAT_VERSION or _rendered(content) != given:
        raise ValueError(f"its {_MANIFEST} is damaged, or of another program")
    files: dict[str, str] = content["files"]
    if difference := sorted(_checked(files) ^ _files(folder)):
        what = "is missing" if difference[0] in files else "does not belong to it"
        raise ValueError(f"its file {difference[0]} {what}")
    for name, expected in files.items():
        if _sha256(folder / name) != expected:
            raise ValueError(f"its file {name} is damaged (other SHA-256 than in {_MANIFEST})")
    versions: dict[str, str] = content["versions"]
    return versions


def _sealed(folder: Path) -> list[str]:
    """Names of the files of a model that is as it was sealed, else none."""
    try:
        verify(folder)
        return list(json.loads((folder / _MANIFEST).read_bytes())["files"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def _patterns(folder: Path) -> dict[str, str]:
    """All names in a folder by their patterns."""
    return _by_pattern(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def _by_pattern(names: Iterable[str]) -> dict[str, str]:
    """Names by the name with any number replaced: another model has more nets."""
    return {re.sub(r"\d+", "0", name): name for name in names}


def _rendered(content: dict[str, Any]) -> bytes:
    """Render a manifest together with the SHA-256 of itself."""
    plain = json.dumps(content, sort_keys=True)
    checksum = hashlib.sha256(plain.encode()).hexdigest()
    return json.dumps({"checksum": checksum, **content}, sort_keys=True, indent=1).encode()


def _files(folder: Path) -> set[str]:
    """Names of all files but the manifest and hidden ones, such as those of a file manager."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    names = {path.as_posix() for path in paths if not any(p.startswith(".") for p in path.parts)}
    return names - {_MANIFEST}


def _checked(names: Iterable[str]) -> set[str]:
    """Return the names as a set; an error if one of them is of no file that belongs to a model."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"its {_MANIFEST} names {name!r}, which is no file of a model")
    return set(names)


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
