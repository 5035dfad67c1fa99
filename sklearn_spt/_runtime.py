"""Lazy imports, locks, limits of time, the address of the pages: what concerns the whole process.

torch takes seconds to import, and `sklearn_spt.datasets` and the splitter do not need it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any, TypeVar

_T = TypeVar("_T")


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, given the module of each public name."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names


@cache
def documentation() -> str:
    """Return the address of the documentation, as pyproject.toml names it; "" without one."""
    try:
        urls = metadata("sklearn-spt").get_all("Project-URL") or []
    except PackageNotFoundError:  # a copy that was not installed
        urls = []
    for url in urls:
        name, _, address = url.partition(",")
        if name.strip() == "Documentation":
            return address.strip().rstrip("/")
    return ""


class _Template:
    """Template of the address of a class's page; "" for a class without a page."""

    def __get__(self, estimator: object, kind: type) -> str:
        address, name = documentation(), kind.__name__
        public = address and getattr(sys.modules["sklearn_spt"], name, None) is kind
        return address + "/generated/sklearn_spt.{estimator_name}.html" if public else ""


class DocumentedMixin:
    """Links the HTML representation of an estimator to its page, through scikit-learn's hooks."""

    _doc_link_module = "sklearn_spt"
    _doc_link_template = _Template()


def within(seconds: float, what: str, work: Callable[[], _T]) -> _T:
    """Return the result of `work`, or raise a TimeoutError about `what` after some seconds.

    The time limits of network libraries hold for each packet, and some try again. The thread is
    given up, since nothing can interrupt it; the end of the process does not wait for it.
    """
    outcome: Future[_T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(timeout=seconds)
    except TimeoutError:
        if outcome.done():  # an error of `work` itself
            raise
        raise TimeoutError(f"{what} did not answer within {seconds:.0f} seconds") from None


class ProcessLock:
    """A reentrant lock for what belongs to the whole process.

    A forked child gets a free one: the thread that held it in the parent does not exist there.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        if self._lock.acquire(blocking=False):  # free, or held by the thread that forked
            self._lock.release()
        else:
            self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Wait until no other thread holds the lock."""
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        """Let another thread take the lock."""
        self._lock.release()
