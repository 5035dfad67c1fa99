"""Optional methods of a net beyond skorch's interface, and the defaults for other nets."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from sklearn_spt._typing import FloatArray, IntArray


@runtime_checkable
class TextNet(Protocol):
    """A skorch net that encodes its input itself, such as texts."""

    def encode(self, X: Any) -> Any:
        """Return documents in the form that the module takes; each fit calls it once."""


@runtime_checkable
class PreparedNet(Protocol):
    """A skorch net that prepares its own training, as `BertClassifier` does."""

    #: CPU threads of a fit; None leaves torch's setting.
    n_threads: int | None

    def start_head(
        self,
        X: Any,
        codes: IntArray,
        weights: FloatArray | None = None,
        *,
        balanced: bool = True,
        known: Any = None,
    ) -> Any:
        """Set the initial weights of the last layer from labelled rows.

        Return a value that a later call with the same rows may pass as `known` to save time.
        """

    def training_run(self, X: Any) -> AbstractContextManager[None]:
        """Return a context manager that surrounds each training run, an epoch or more on X."""


class PlainNet:
    """The defaults for a net that is not a `PreparedNet`: it prepares nothing."""

    n_threads: int | None = None

    def start_head(self, *args: Any, **kwargs: Any) -> None:
        """Keep the initial weights."""

    def training_run(self, X: Any) -> AbstractContextManager[None]:
        """Do nothing around a training run."""
        return nullcontext()


def prepared(net: Any) -> PreparedNet:
    """Return the net itself if it is a `PreparedNet`, else the defaults."""
    return net if isinstance(net, PreparedNet) else PlainNet()
