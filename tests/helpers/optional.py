"""pandas and polars, or stand-ins that skip the tests that use them where they are missing."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


class Missing:
    """Stands for a package that is not installed, and for all that is taken from it.

    Lists of parameters may hold it; `skip_where_missing` skips their tests.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self()

    def __call__(self, *args: Any, **kwargs: Any) -> Missing:
        if "PYTEST_CURRENT_TEST" in os.environ:
            self.skip()
        return self

    def skip(self) -> None:
        """Skip the running test."""
        pytest.skip(f"{self._package} is not installed")


def skip_where_missing(values: Any) -> None:
    """Skip the running test if its parameters hold a `Missing`."""
    if isinstance(values, Missing):
        values.skip()
    elif isinstance(values, dict):
        skip_where_missing(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            skip_where_missing(value)


def _optional(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        return Missing(package)


pd = _optional("pandas")
pl = _optional("polars")
