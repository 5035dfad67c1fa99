"""Whose code a training step runs: that of known libraries, or something of the user's too.

Shortcuts that known code cannot tell from the plain way (a smaller word table, documents by number
in place of a copy) may surprise other code. Where some takes part, they are left out.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType, MethodType
from typing import Any

_LIBRARIES = ("builtins", "skorch", "sklearn", "sklearn_spt", "torch")
#: Parts of a net that run in each step of training.
_PARTS = ("module", "criterion", "optimizer", "iterator_train", "dataset")


def is_known_net(net: Any) -> bool:
    """Whether a skorch net runs known code alone, as far as its parameters say.

    Parameters
    ----------
    net : skorch.NeuralNet
        Initialised or not. Callbacks are looked at as soon as they are initialised; before that
        only a net to which none were given counts as known.

    Returns
    -------
    bool
        False if its class, a method that was put on it, one of its parts or a callback is neither
        torch's, skorch's, scikit-learn's nor this package's.
    """
    parts = [getattr(net, name) for name in _PARTS]
    if not all(map(is_known, (type(net), *parts))) or _has_own_methods(net):
        return False
    if net.initialized_:
        return all(is_known_callback(callback) for _, callback in net.callbacks_)
    given = [value for name, value in vars(net).items() if name.startswith("callbacks")]
    return all(value in (None, "disable") or value == [] for value in given)


def is_known_callback(callback: Any) -> bool:
    """Whether a callback is a known library's and calls no function of another one."""
    held = [
        part
        for value in vars(callback).values()
        for part in (value if isinstance(value, list | tuple) else [value])
    ]
    return is_known(callback) and all(is_known(part) for part in held if callable(part))


def is_known(code: Any) -> bool:
    """Whether a class, a function or an object belongs to one of the known libraries."""
    if isinstance(code, partial):
        bound = (*code.args, *code.keywords.values())
        return all(map(is_known, (code.func, *filter(callable, bound))))
    if isinstance(code, MethodType):
        return is_known(code.__func__) and is_known(code.__self__)
    if isinstance(code, FunctionType):  # functools.wraps lends a function another one's name
        module = code.__globals__["__name__"]
    else:
        module = (code if isinstance(code, type) else type(code)).__module__
    return str(module).partition(".")[0] in _LIBRARIES


def _has_own_methods(net: Any) -> bool:
    return any(callable(getattr(type(net), name, None)) for name in vars(net))
