"""Files that lie elsewhere: found in the data home or downloaded, and in either case verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import secrets
import time
import urllib.error
import urllib.request
import warnings
from dataclasses import dataclass
from pathlib import Path

from sklearn_spt._runtime import within
from sklearn_spt._validation import check_flag
from sklearn_spt.datasets._home import DOWNLOADS, ENVIRONMENT, locate_data_home

_SILENCE = 30.0  # seconds without a byte from the server
_TIME_LIMIT = 120.0  # seconds for a whole file; the largest has 4 MB
_MOST_BYTES = 50_000_000
_RETRIES = 3
_DELAY = 1.0  # seconds between two tries


@dataclass(frozen=True)
class RemoteFile:
    """A file that never changes, and the places where it can be."""

    title: str  # its name in messages
    url: str
    sha256: str
    own: str  # path in the data home where a user may have put it
    cached: str  # name of a download


def obtain(
    remote: RemoteFile,
    data_home: str | os.PathLike[str] | None,
    *,
    download_if_missing: bool,
) -> tuple[Path, bytes]:
    """Return path and verified content of a remote file, downloading it where needed.

    Nothing is written unless a download succeeded, so that a read-only data home that has the
    file serves as well as any other.
    """
    check_flag(download_if_missing, "download_if_missing")
    home = locate_data_home(data_home)
    own, cached = home / remote.own, home / DOWNLOADS / remote.cached
    for path in (own, cached):
        if path.is_file():
            content = path.read_bytes()
            _check_digest(remote, content, path)
            return path, content
    if not download_if_missing:
        raise OSError(
            f"The {remote.title} is not on this machine and download_if_missing is False. "
            f"Neither of these files exists: {own}, {cached}. Set download_if_missing=True, or "
            f"point data_home (or the environment variable {ENVIRONMENT}) to where it is."
        )
    content = _download(remote, own)
    try:
        write_whole(cached, content)
    except OSError as error:
        raise OSError(
            f"The {remote.title} was downloaded but cannot be saved as {cached} ({error}). Choose "
            f"a folder that can be written to, with data_home or the environment variable "
            f"{ENVIRONMENT}."
        ) from error
    return cached, content


def _check_digest(remote: RemoteFile, content: bytes, path: Path) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != remote.sha256:
        raise OSError(
            f"The file {path} is damaged, or another version of the {remote.title}: it has "
            f"{len(content)} bytes with the SHA256 checksum {digest}, expected {remote.sha256}. "
            f"Delete it, and it is downloaded again; or replace it by an exact copy of "
            f"{remote.url} (a copy with changed line ends is not exact)."
        )


def _download(remote: RemoteFile, own: Path) -> bytes:
    """Content behind the URL, held in memory until it is known to be right."""
    cause: Exception | None
    for retries_left in range(_RETRIES, -1, -1):
        try:
            content = within(_TIME_LIMIT, "the server", lambda: _content(remote.url))
        except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
            problem, cause = f"{type(error).__name__}: {error}", error
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it is also the server's answer, with its connection
            if _is_final(error):
                break
        else:
            digest = hashlib.sha256(content).hexdigest()
            if digest == remote.sha256:
                return content
            problem, cause = (
                f"{len(content)} bytes with the SHA256 checksum {digest} arrived, expected "
                f"{remote.sha256}",
                None,
            )
        if retries_left:
            warnings.warn(
                f"Downloading {remote.url} failed ({problem}), trying again.", stacklevel=4
            )
            time.sleep(_DELAY)
    raise OSError(
        f"The {remote.title} could not be downloaded from {remote.url} ({problem}); nothing was "
        f"saved. Without a network, get this file by other means and save it as {own}; or use "
        "sklearn_spt.datasets.make_short_texts, which needs no file."
    ) from cause


class _TooLarge(OSError):
    """The server sends more than any of the data sets has."""


def _content(url: str) -> bytes:
    # the addresses stand in this package
    with urllib.request.urlopen(url, timeout=_SILENCE) as response:  # nosec B310
        content: bytes = response.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise _TooLarge(f"more than {_MOST_BYTES} bytes arrived")
        missing = getattr(response, "length", None)  # files have no such attribute
        if missing:
            raise http.client.IncompleteRead(content, missing)
    return content


def _is_final(error: Exception) -> bool:
    """Whether asking again is useless: the server is silent or does not have the file."""
    reason = getattr(error, "reason", error)  # a URLError holds the error that it stands for
    return isinstance(reason, TimeoutError | _TooLarge) or (
        isinstance(error, urllib.error.HTTPError)
        and 400 <= error.code < 500
        and error.code not in (408, 429)
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, and missing folders, so that a killed process leaves no partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}_{secrets.token_hex(4)}.partial")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
