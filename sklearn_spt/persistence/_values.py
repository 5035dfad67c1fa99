"""Parameters, labels and histories as JSON, so that reading them back gives equal objects.

None, booleans, integers, finite floats, strings and lists are themselves. Everything else is an
object with one key, which says what it is.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import numpy as np

Encoder = Callable[[Any, str], Any]
Decoder = Callable[[str, Any], Any]

# A time zone of another class would have to be imported, so it is not saved.
_ZONES = (type(None), datetime.timezone)


def to_json(value: Any, name: str, other: Encoder) -> Any:
    """Return a value as JSON has it; what is no plain data goes to ``other(value, name)``."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is float:
        return {"float": repr(value)}
    if kind in (list, tuple):
        items = [to_json(item, f"{name}[{i}]", other) for i, item in enumerate(value)]
        return items if kind is list else {"tuple": items}
    if kind is dict:
        pairs = [(pair, f"{name}[{pair[0]!r}]") for pair in value.items()]  # a key may be a label
        return {"dict": [[to_json(part, where, other) for part in pair] for pair, where in pairs]}
    if kind is datetime.date:
        return {"date": value.isoformat()}
    if kind is datetime.datetime and type(value.tzinfo) in _ZONES:
        return {"datetime": value.isoformat()}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if isinstance(value, np.generic) and _is_plain(value.dtype):
        return {"scalar": to_json(np.asarray(value), name, other)}
    if kind is np.ndarray and (_is_plain(value.dtype) or value.dtype == object):
        flat = value.ravel()
        items = (flat.view(np.int64) if value.dtype.kind in "mM" else flat).tolist()
        return {"array": [value.dtype.str, list(value.shape), to_json(items, name, other)]}
    return other(value, name)


def from_json(value: Any, other: Decoder) -> Any:
    """Return what `to_json` was given; unknown keys go to ``other(key, content)``."""
    if isinstance(value, list):
        return [from_json(item, other) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(from_json(content, other))
    if kind == "dict":
        return {from_json(k, other): from_json(v, other) for k, v in content}
    if kind == "date":
        return datetime.date.fromisoformat(content)
    if kind == "datetime":
        return datetime.datetime.fromisoformat(content)
    if kind == "path":
        return Path(content)
    if kind == "scalar":
        return from_json(content, other)[()]
    if kind == "array":
        dtype, shape, items = content
        return _array(np.dtype(dtype), shape, from_json(items, other))
    return other(kind, content)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biufUmM" and dtype.char != "g"  # JSON has no long double


def _array(dtype: np.dtype[Any], shape: list[int], items: list[Any]) -> Any:
    if dtype.kind == "O":
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = item
    elif dtype.kind in "mM":
        array = np.asarray(items, dtype=np.int64).view(dtype)
    else:
        array = np.asarray(items, dtype=dtype)
    return array.reshape(shape)
