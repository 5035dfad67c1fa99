"""Checks of parameters. An error names the parameter, the value and what to do."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from sklearn import get_config
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline


def last_step(estimator: Any) -> Any:
    """Return an estimator itself, or the last step of a pipeline."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def shown(value: Any, limit: int = 60) -> str:
    """Return the start of a value's representation, for a message."""
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except Exception:  # of a foreign object, or of an integer with thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= limit else f"{text[:limit]}..."


def short_repr(estimator: Any, defaults: Mapping[str, Any]) -> str:
    """Return the representation of an estimator, without parameters that have their default."""
    params = {name: repr(value) for name, value in estimator.get_params(deep=False).items()}
    if get_config()["print_changed_only"]:
        same = {name: repr(value) for name, value in defaults.items()}
        params = {name: value for name, value in params.items() if value != same.get(name)}
    listed = ", ".join(f"{name}={value}" for name, value in sorted(params.items()))
    return f"{type(estimator).__name__}({listed})"


def check_real(
    value: Any,
    name: str,
    *,
    low: float | None = None,
    high: float | None = None,
    closed: Literal["both", "left", "right", "neither"] = "both",
) -> float:
    """Return `value` as a float inside the given interval, or raise an error that names it."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name} must be a number, got {shown(value)} of type {type(value).__name__}."
        )
    number = float(value)
    left_open = closed in ("right", "neither")
    right_open = closed in ("left", "neither")
    low = -np.inf if low is None else low
    high = np.inf if high is None else high
    too_low = number < low or (left_open and number == low)
    too_high = number > high or (right_open and number == high)
    if np.isnan(number) or too_low or too_high:
        interval = f"{'(' if left_open else '['}{low:g}, {high:g}{')' if right_open else ']'}"
        raise ValueError(f"{name} must lie in {interval}, got {shown(value)}.")
    return number


def check_integer(value: Any, name: str, *, low: int, allow_none: bool = False) -> int | None:
    """Return `value` as an int not below `low`, or raise an error that names it."""
    if value is None and allow_none:
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        also = " or None" if allow_none else ""
        raise TypeError(
            f"{name} must be an integer{also}, got {shown(value)} of type {type(value).__name__}."
        )
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {shown(value)}.")
    return int(value)


def check_option(value: Any, name: str, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`, else raise an error that lists them."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {shown(value)}.")
    return value


def check_verbose(value: Any) -> int:
    """Return `value` as an int that is not negative, or raise an error that names it."""
    if not isinstance(value, bool | np.bool_ | numbers.Integral) or value < 0:
        raise ValueError(
            f"verbose must be True, False or a non-negative integer, got {shown(value)}."
        )
    return int(value)


def n_rows(X: Any, name: str) -> int:
    """Return the number of documents, or raise an error that names what is not a container."""
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    if isinstance(X, Mapping):
        return len(next(iter(X.values()), ()))
    if not hasattr(X, "__len__") or isinstance(X, str | bytes) or shape == ():
        raise TypeError(
            f"{name} must be a list, array, Series or frame of documents, got a "
            f"{type(X).__name__:.60}."
        )
    return len(X)


def check_flag(value: Any, name: str) -> bool:
    """Return `value` if it is a boolean, else raise an error that names it."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def forget_features(estimator: Any) -> None:
    """Remove the attributes that an earlier fit on a matrix set about its columns."""
    for name in ("n_features_in_", "feature_names_in_"):
        vars(estimator).pop(name, None)


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block raises, so that it keeps its former state."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


_LIBRARIES = ("sklearn-spt", "scikit-learn")


def with_versions(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a pickle with the versions of the libraries that wrote it."""
    return {**state, "_versions": {name: version(name) for name in _LIBRARIES}}


def without_versions(state: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the state of a pickle without versions; warn if it comes from others."""
    saved = state.get("_versions", {})
    for name in _LIBRARIES:
        if saved.get(name) != version(name):
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=f"{kind} ({name})",
                    current_sklearn_version=version(name),
                    original_sklearn_version=saved.get(name, "unknown"),
                ),
                stacklevel=3,
            )
    return {key: value for key, value in state.items() if key != "_versions"}


def half_character(text: str) -> int | None:
    """Return the position of a lone surrogate, as in a text that was cut inside an emoji."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None
