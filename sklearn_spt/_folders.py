"""Files that show any damage: JSON with its own checksum, and SHA-256 of the files it names."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

#: Raise it when an older reader would misread a folder.
FORMAT = 2
_LIBRARIES = ("scikit-learn", "skorch", "torch", "transformers")


def versions() -> dict[str, str]:
    """Return the versions that a folder depends on."""
    return {"format": str(FORMAT), **{name: version(name) for name in _LIBRARIES}}


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_sealed(file: Path, content: dict[str, Any], members: list[Path]) -> None:
    """Write JSON with the SHA-256 of itself and of the files `members`, in one step."""
    names = {path.relative_to(file.parent).as_posix(): sha256(path) for path in members}
    body = json.dumps({**content, "versions": versions(), "files": names})
    checksum = hashlib.sha256(body.encode()).hexdigest()
    part = file.with_name(file.name + ".part")
    with open(part, "w", encoding="utf-8") as stream:
        stream.write(checksum + "\n" + body)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)  # the old content or the new one, never half of one


def read_sealed(file: Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote; raise ValueError if a byte of it or of a member changed."""
    remedy = "Remove it, and fit or save again."
    checksum, _, body = file.read_text(encoding="utf-8", errors="replace").partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != checksum:
        raise ValueError(f"{file} is damaged or not of this library. {remedy}")
    content: dict[str, Any] = json.loads(body)
    for name, expected in content["files"].items():
        path = file.parent / name
        if not path.is_file() or sha256(path) != expected:
            raise ValueError(f"{path} is missing or damaged (its SHA-256 changed). {remedy}")
    return content
