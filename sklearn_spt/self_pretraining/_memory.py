"""Results that the candidates of a search share, in the folder of `memory`.

The folder is a joblib cache, so it holds pickles.
"""

from __future__ import annotations

import hashlib
import numbers
import os
import pickle
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import joblib

from sklearn_spt._validation import shown

T = TypeVar("T")


def check_folder(place: Any, name: str, random_state: Any) -> None:
    """Raise an error if fits cannot be kept in the folder; accept None and a joblib.Memory."""
    if place is None:
        return
    path = isinstance(place, str | os.PathLike)
    if path and not os.fspath(place):
        raise ValueError(f'{name} must not be empty; "." is the folder that you are in.')
    if not path and (name == "checkpoint_dir" or not isinstance(place, joblib.Memory)):
        also = "" if name == "checkpoint_dir" else ", a joblib.Memory"
        raise TypeError(
            f"{name} must be a path{also} or None, got {shown(place)} of type "
            f"{type(place).__name__}."
        )
    if path and os.path.isfile(os.path.expanduser(place)):
        raise ValueError(f"{name} must be a folder, but {shown(os.fspath(place), 200)} is a file.")
    if path:
        try:
            Path(place).expanduser()
        except RuntimeError as error:
            raise ValueError(
                f"{name} cannot be used: {shown(os.fspath(place))} names no user of this system."
            ) from error
    if not isinstance(random_state, numbers.Integral):
        raise ValueError(
            f"{name} needs an integer random_state, got {shown(random_state)}: fits "
            "with other values cannot be repeated."
        )


def make_folder(folder: Path, name: str) -> None:
    """Make a private folder if it is not there; raise an error if nothing can be written to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(2**16))
            probe.flush()
            os.fsync(probe.fileno())
    except (OSError, ValueError) as error:  # a ValueError for characters that no path can have
        why = error.strerror if isinstance(error, OSError) else error
        raise ValueError(
            f"{name} cannot be used: nothing can be written to {shown(str(folder), 200)} ({why}). "
            "Choose another folder, or free space there."
        ) from error


def open_memory(memory: Any) -> joblib.Memory:
    """Return `memory` as a joblib.Memory, after checks of its folder."""
    path = isinstance(memory, str | os.PathLike)
    location = memory if path or memory is None else memory.location
    if location is not None and (path or memory.backend == "local"):
        folder = Path(location).expanduser()  # as joblib does
        for place in (folder, folder / "joblib"):  # joblib's own subfolder
            make_folder(place, "memory")
            _refuse_what_others_can_change(place)
    if path:
        return joblib.Memory(os.fspath(memory), verbose=0)  # joblib treats a Path otherwise
    return joblib.Memory(None, verbose=0) if memory is None else memory


def _refuse_what_others_can_change(folder: Path) -> None:
    """Raise an error if another user could plant a pickle; Windows has no such permissions."""
    if not hasattr(os, "getuid"):
        return
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise ValueError(
            f"memory={str(folder)!r} belongs to another user, who could plant a pickle there that "
            "runs code when it is loaded. Choose a folder of your own."
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(
            f"memory={str(folder)!r} can be written to by other users, who could plant a pickle "
            "there that runs code when it is loaded. Choose another folder, or, if you trust what "
            f"it holds, take their permission away: chmod go-w {str(folder)!r}"
        )


def recall(memory: joblib.Memory, name: str, key: str, compute: Callable[[], T]) -> tuple[T, bool]:
    """Return the result of `compute`, and whether `memory` had it already.

    A damaged entry is computed again. If a result cannot be stored, the fit goes on without its
    entry. Both warn.
    """
    done: list[T] = []
    kept = memory.cache(_sealed, ignore=["compute", "done"])
    try:
        with warnings.catch_warnings():
            # joblib's warning of a failed write
            warnings.filterwarnings("error", "Unable to cache to disk")
            entry = kept.call_and_shelve(name, key, compute, done)
            if not done:
                try:
                    result: T = _opened(entry.get(), name, key)
                    return result, True
                except Exception as error:
                    _warn(memory, f"{name!r} is damaged ({error}), so it is computed again")
                entry.clear()
                kept.call_and_shelve(name, key, compute, done)
    except Exception as error:
        if not done:
            raise
        _warn(memory, f"{name!r} could not be stored ({error}); the fit goes on without it")
        for part in Path(memory.store_backend.location).rglob("output.pkl.*"):
            if str(os.getpid()) in part.name.split("-"):
                part.unlink(missing_ok=True)
    return done[0], False


def _warn(memory: joblib.Memory, what: str) -> None:
    warnings.warn(f"memory={str(memory.location)!r}: the entry {what}.", UserWarning, stacklevel=7)


def _sealed(name: str, key: str, compute: Callable[[], T], done: list[T]) -> tuple[str, bytes]:
    """Return what joblib keeps: a pickle of the result, and its SHA-256."""
    done.append(compute())
    content = pickle.dumps(done[0], protocol=pickle.HIGHEST_PROTOCOL)
    return _digest(name, key, content), content


def _opened(entry: tuple[str, bytes], name: str, key: str) -> Any:
    digest, content = entry
    if digest != _digest(name, key, content):
        raise ValueError("its content does not match its SHA-256")
    # joblib has read a pickle of this folder already, and a folder of others is refused.
    return pickle.loads(content)  # nosec B301


def _digest(name: str, key: str, content: bytes) -> str:
    """Hash the content and what it belongs to."""
    found = hashlib.sha256(f"{name} {key} ".encode())
    found.update(content)
    return found.hexdigest()
