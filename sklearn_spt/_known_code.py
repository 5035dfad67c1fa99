"""Whose code a step of training runs: that of known libraries, or something of the user's too.

Shortcuts that are invisible to known code (a smaller word table) may not be so to other code.
"""

from __future__ import annotations

from typing import Any

from skorch.callbacks import Callback

_LIBRARIES = ("builtins", "skorch", "sklearn", "sklearn_spt")
#: What a step of training goes through, besides the methods that skorch tells of its progress.
_STEPS = ("get_loss", "infer", "notify", "run_single_epoch", "train_step", "train_step_single")


def steps_are_known(net: Any) -> bool:
    """Whether nobody but known code sees a net's weights in training, or adds to their gradients.

    A loss, a callback or a method of the user's own may hold all weights, as a penalty or a
    running mean of them does.
    """
    known = next(kind for kind in type(net).__mro__ if _is_known(kind.__module__))
    return all(of_known_make(callback) for _, callback in net.callbacks_) and all(
        getattr(getattr(net, name), "__func__", None) is getattr(known, name)
        for name in dir(known)
        if name in _STEPS or name.startswith("on_")
    )


def of_known_make(callback: Callback) -> bool:
    """Whether a callback is a known library's and calls no function of another one."""
    held = [
        part
        for value in vars(callback).values()
        for part in (value if isinstance(value, list | tuple) else [value])
    ]
    makers = [type(callback), *filter(callable, held)]
    return all(_is_known(getattr(maker, "__module__", None) or "") for maker in makers)


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES
