"""Optimisers and modules of a skorch net, which has no public list of them."""

from __future__ import annotations

from typing import Any


def optimizers(net: Any) -> dict[str, Any]:
    """Return the optimisers of a net by name; a custom net may have several."""
    return {name: getattr(net, f"{name}_") for name in net._optimizers}


def modules(net: Any) -> dict[str, Any]:
    """Return the modules of a net by name; a custom net may have several."""
    return {name: getattr(net, f"{name}_") for name in net._modules}
