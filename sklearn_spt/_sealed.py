"""Folders that appear whole or not at all, and files that show any damage."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError

#: Raise it when an older reader would misread a folder.
FORMAT = 2
#: The sealed file of a saved classifier, and of an exported net.
STATE, EXPORT = "estimator.json", "export.seal"
_LIBRARIES = ("sklearn-spt", "numpy", "scikit-learn", "skorch", "torch", "transformers")


def versions() -> dict[str, str]:
    """Return the versions that a folder depends on."""
    return {"format": str(FORMAT), **{name: version(name) for name in _LIBRARIES}}


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Name the folder in the error of a disk that is full or not to be used."""
    try:
        yield
    except Exception as error:
        # safetensors has an error of its own, and tokenizers raise a bare Exception
        if not isinstance(error, OSError | SafetensorError) and type(error) is not Exception:
            raise
        remedy = "free space on its disk, change its permissions, or give another folder"
        raise OSError(f"{folder} cannot be used ({error}); {remedy}.") from error


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a path beside `file`; if the block succeeds, put what it wrote in place of `file`."""
    part = file.with_name(file.name + ".part")
    try:
        yield part
        part.replace(file)  # the old content or the new one, never half of one
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder; inside the block, no other process is inside such a block of it."""
    with naming(folder), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(ImportError, OSError):  # not on Windows, nor on some disks of a network
            import fcntl

            place = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, place)
            fcntl.flock(place, fcntl.LOCK_EX)
        yield


def write_sealed(file: Path, content: dict[str, Any], members: list[Path]) -> None:
    """Write JSON with the SHA-256 of itself and of the files `members`, in one step."""
    names = {path.relative_to(file.parent).as_posix(): sha256(path) for path in members}
    body = json.dumps({**content, "versions": versions(), "files": names})
    checksum = hashlib.sha256(body.encode()).hexdigest()
    with replacing(file) as part, open(part, "w", encoding="utf-8") as stream:
        stream.write(checksum + "\n" + body)
        stream.flush()
        os.fsync(stream.fileno())


def read_sealed(file: Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote; raise ValueError if a byte of it or of a member changed."""
    remedy = f"Remove the folder {file.parent}, and fit or save again."
    checksum, _, body = file.read_text(encoding="utf-8", errors="replace").partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != checksum:
        raise ValueError(f"{file} is damaged or not of this library. {remedy}")
    content: dict[str, Any] = json.loads(body)
    for name, expected in content["files"].items():
        path = file.parent / name
        if not path.is_file() or sha256(path) != expected:
            raise ValueError(f"{path} is missing or damaged (its SHA-256 changed). {remedy}")
    return content


def foreign_files(folder: Path, content: dict[str, Any], seal: str) -> list[str]:
    """Return the files that a sealed file does not name."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()]
    return sorted({path.as_posix() for path in files} - {seal, *content["files"]})


def saved_state(folder: str | os.PathLike[str]) -> Path:
    """Return the sealed file of a saved classifier, or say why there is none."""
    place = Path(folder).expanduser()
    if not (place / STATE).is_file():
        what = "is no folder" if place.is_file() else "no such folder"
        what = "holds no saved classifier" if place.is_dir() else what
        raise ValueError(f"{place}: {what}; give the folder of a saved classifier.")
    return place / STATE


def free_folder(folder: str | os.PathLike[str], overwrite: bool) -> Path:
    """Return the place of a new folder, whose parents are created; one in use is an error."""
    target = Path(folder).expanduser().resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        if not overwrite:
            raise ValueError(f"{target} is in use; set overwrite=True, or give another folder.")
        seals = [name for name in (STATE, EXPORT) if (target / name).is_file()]
        if not seals or foreign_files(target, read_sealed(target / seals[0]), seals[0]):
            raise ValueError(
                f"{target} is in use; give another folder: neither save nor export wrote all of it."
            )
    with naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        TemporaryDirectory(dir=target.parent).cleanup()  # an error now, if nothing can be written
    return target


@contextmanager
def new_folder(
    folder: str | os.PathLike[str], overwrite: bool, seal: str, content: dict[str, Any]
) -> Iterator[Path]:
    """Yield an empty folder; if the block succeeds, seal it, and put it in place of `folder`."""
    target = free_folder(folder, overwrite)
    part, old = (target.with_name(f".{target.name}.{secrets.token_hex(4)}") for _ in range(2))
    with naming(target):
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
