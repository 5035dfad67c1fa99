"""The folder in which a fit keeps its state: a lock, files, and their SHA-256.

``state.jsonl`` has two lines: the SHA-256 of the second, and the second with the key of the fit,
its state, and name and SHA-256 of the other files. ``<t>.safetensors`` holds tensors of iteration
t. All of it is numbers and text: to load it runs no code.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError

from sklearn_spt.self_pretraining._memory import make_folder

_STATE, _LOCK = "state.jsonl", "lock"
# Seconds to wait for the lock: workers of a killed fit hold it until they notice its end.
_PATIENCE = 10.0
# Marks a dictionary that JSON cannot hold, since some of its keys are not strings.
_PAIRS = "*pairs*"


class StateFolder:
    """The folder of one fit, for one process at a time.

    A fit that finds its folder in use goes on without it: `usable` is False, and nothing is loaded
    or saved.
    """

    def __init__(self, folder: str | os.PathLike[str], key: str) -> None:
        self.key = key
        self.path = Path(folder).expanduser() / f"self-pretraining-{key}"
        self._lock = FileLock(self.path / _LOCK)
        self._files: dict[str, dict[str, Any]] = {}
        self.usable = False

    def __enter__(self) -> StateFolder:
        """Make the folder, lock it, and remove what a killed fit did not finish writing."""
        end = time.monotonic() + _PATIENCE
        while not self._lock.is_locked:
            make_folder(self.path, "checkpoint_dir")
            try:
                self._lock.acquire(timeout=max(end - time.monotonic(), 0.0))
            except Timeout:
                warnings.warn(
                    f"another process runs the same fit with checkpoint_dir, and uses {self.path}: "
                    "this fit keeps no state.",
                    UserWarning,
                    stacklevel=5,
                )
                return self
            except OSError as error:
                # a fit that ends removes its folder while this one waits for the lock
                if not isinstance(error, FileNotFoundError) or time.monotonic() > end:
                    raise ValueError(f"checkpoint_dir cannot be used: {error}.") from error
        self.usable = True
        self._clean({".part"})
        return self

    def __exit__(self, *error: object) -> None:
        """Release the folder, and remove it if it holds no state."""
        if not self._lock.is_locked:
            return
        lock, empty, unlinked = self.path / _LOCK, not (self.path / _STATE).exists(), False
        if empty:
            self._clean({".safetensors"})
            # Deleted before it is unlocked: another process could lock the deleted file. Windows
            # cannot delete an open file.
            with suppress(OSError):
                lock.unlink()
                unlinked = True  # what lies there from now on is the lock of another fit
        self._lock.release()
        if empty:
            with suppress(OSError):
                if not unlinked:
                    lock.unlink()
                self.path.rmdir()

    def load(self) -> Any:
        """Return the state that `save` got last, or None; a ValueError tells of a damaged file."""
        if not self.usable:
            return None
        try:
            head, _, body = (self.path / _STATE).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._damaged(_STATE, str(error)) from error
        if head != _digest_line(body):
            raise self._damaged(_STATE, "its content does not match its SHA-256")
        kept = json.loads(body, object_hook=_unpaired)
        if kept["key"] != self.key:
            raise self._damaged(_STATE, "it belongs to another fit")
        self._files = kept["files"]
        self._clean({".safetensors"})
        return kept["state"]

    def read(self, t: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return the tensors of iteration `t` and what was kept beside them."""
        name = f"{t}.safetensors"
        try:
            content = (self.path / name).read_bytes()
        except OSError as error:
            raise self._damaged(name, str(error)) from error
        beside = self._files[name]
        if _digest(content) != beside["sha256"]:
            raise self._damaged(name, "its content does not match its SHA-256")
        return safetensors.torch.load(content), beside["about"]

    def save(
        self,
        t: int,
        tensors: dict[str, torch.Tensor],
        about: dict[str, Any],
        state: Any,
        also: Iterable[int],
    ) -> None:
        """Add the tensors of iteration `t` and replace the state, which needs those of `also` too.

        An interrupted write keeps the previous state. If the disk is full, the fit warns and saves
        no further state.
        """
        if not self.usable:
            return
        try:
            content = safetensors.torch.save(tensors)
        except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
            raise ValueError(
                f"checkpoint_dir cannot keep this net: {error}. Leave checkpoint_dir out, or use "
                "weights that safetensors can hold."
            ) from error
        name = f"{t}.safetensors"
        older = {f"{number}.safetensors" for number in also}
        files = {n: found for n, found in self._files.items() if n in older}
        files[name] = {"sha256": _digest(content), "about": about}
        kept = {"key": self.key, "files": files, "state": state}
        body = json.dumps(_paired(kept), default=str).encode()
        try:
            self._write(name, content)
            self._write(_STATE, _digest_line(body) + b"\n" + body)
        except OSError as error:
            self.usable = False
            warnings.warn(
                f"checkpoint_dir: the state after iteration {t} could not be written to "
                f"{self.path} ({error.strerror}). The fit goes on and keeps no further state.",
                UserWarning,
                stacklevel=6,
            )
            return
        self._files = files
        self._clean({".safetensors"})

    def remove(self) -> None:
        """Remove the state of a complete fit."""
        if self._lock.is_locked:
            self._files = {}
            with suppress(OSError):
                (self.path / _STATE).unlink(missing_ok=True)
            self._clean({".safetensors"})

    def _damaged(self, name: str, why: str) -> ValueError:
        return ValueError(
            f"the state in checkpoint_dir is damaged: {self.path / name} ({why}). Remove the "
            f"folder {self.path} to start again."
        )

    def _write(self, name: str, content: bytes) -> None:
        """Replace a file, so that after a crash it is the old or the new one."""
        part = self.path / f".{name}.part"
        try:
            part.unlink(missing_ok=True)
            with open(part, "xb") as file:  # never through a link that lies there
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path / name)
            if hasattr(os, "O_DIRECTORY"):  # not on Windows, which cannot open folders
                folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def _clean(self, suffixes: set[str]) -> None:
        """Remove files of these kinds that do not belong to the state."""
        for file in self.path.iterdir():
            if file.suffix in suffixes and file.name not in self._files:
                with suppress(OSError):
                    file.unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_line(body: bytes) -> bytes:
    return json.dumps({"sha256": _digest(body)}).encode()


def _paired(value: Any) -> Any:
    """Return a value that JSON can hold; numbers of numpy and torch become plain ones."""
    if isinstance(value, dict):
        if all(type(key) is str and key != _PAIRS for key in value):
            return {key: _paired(v) for key, v in value.items()}
        return {_PAIRS: [[_paired(key), _paired(v)] for key, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_paired(v) for v in value]
    if isinstance(value, np.generic | np.ndarray | torch.Tensor):
        return value.tolist()
    return value


def _unpaired(value: dict[str, Any]) -> Any:
    return dict(value[_PAIRS]) if _PAIRS in value else value
