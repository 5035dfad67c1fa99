"""The skorch side of `BertClassifier`: a net over token ids that resolves "auto" parameters."""

from __future__ import annotations

import copy
import inspect
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from skorch.callbacks import (
    Callback,
    EpochTimer,
    GradientNormClipping,
    PassthroughScoring,
    PrintLog,
)
from skorch.utils import to_tensor

from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt._validation import (
    check_flag,
    check_integer,
    check_option,
    check_real,
    check_verbose,
    with_versions,
    without_versions,
)
from sklearn_spt.nets._batching import TokenBatches, in_batches, width_multiple
from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._callbacks import check_callbacks
from sklearn_spt.nets._device import resolve_device, resolve_precision
from sklearn_spt.nets._device_loop import DeviceLoop
from sklearn_spt.nets._encoder import POOLINGS, Encoder
from sklearn_spt.nets._linear_probe import LinearHead, linear_probe, subsample_by_class
from sklearn_spt.nets._losses import DistillationLoss
from sklearn_spt.text._encoding import check_texts, check_token_ids, encode_texts, is_text
from sklearn_spt.text._locations import encoder_folder
from sklearn_spt.text._pretrained import (
    TextSource,
    default_learning_rate,
    pad_token_id,
    resolve_max_length,
)

#: Most rows that a linear probe is fitted on; initial weights do not need more.
_PROBE_ROWS = 2000


class TokenNet(DeviceLoop):
    """skorch net over token ids with the parameters of `BertClassifier`."""

    pretrained: str
    pooling: str
    max_length: int | str
    head_init: str
    dropout: float
    precision: str
    balanced_batches: bool
    n_threads: int | None
    device: str
    precision_: str
    lr: Any
    lr_: float
    #: What a net that was loaded from a folder reads texts with, until it is fitted again.
    _text_source: TextSource | None = None

    @property
    def reads_with(self) -> str | os.PathLike[str]:
        """The encoder whose tokenizer and configuration are used."""
        return self.pretrained if self._text_source is None else self._text_source

    def _check_params(self) -> None:
        check_option(self.pooling, "pooling", POOLINGS)
        check_option(self.head_init, "head_init", ("linear_probe", "random"))
        if self.reads_with is self.pretrained:
            encoder_folder(self.pretrained, check_verbose(self.verbose))
        resolve_max_length(self.max_length, self.reads_with)
        check_real(self.dropout, "dropout", low=0, high=1, closed="left")
        check_integer(self.batch_size, "batch_size", low=1)
        check_integer(self.max_epochs, "max_epochs", low=0)
        check_integer(self.n_threads, "n_threads", low=1, allow_none=True)
        check_flag(self.balanced_batches, "balanced_batches")
        check_flag(self.cuda_graphs, "cuda_graphs")
        if self.lr != "auto":
            check_real(self.lr, "lr", low=0, closed="neither")
        check_verbose(self.verbose)
        check_callbacks(self, "BertClassifier")
        if self.warm_start:
            raise ValueError(
                "warm_start is not supported; use partial_fit to continue from the present weights."
            )
        if self.train_split is not None:
            raise ValueError(
                "train_split must be None: BertClassifier trains on all labelled rows. Use the "
                "splitters of scikit-learn to hold rows out."
            )

    # -- what meta-estimators use ---------------------------------------------------------------
    def encode(self, X: Any, *, full_width: bool = False) -> npt.NDArray[np.int32]:
        """Return the token ids of texts, or check a matrix of token ids.

        The result is as wide as the longest text, or with `full_width` ``max_length`` wide.
        """
        if is_text(X):
            texts = check_texts(X)
            return encode_texts(texts, self.reads_with, self.max_length, full_width=full_width)
        return check_token_ids(X, self.reads_with)

    def start_head(
        self,
        X: npt.NDArray[np.int32],
        codes: IntArray,
        weights: FloatArray | None = None,
        *,
        balanced: bool = True,
        known: LinearHead | None = None,
    ) -> LinearHead | None:
        """Set the linear layer to a linear probe if `head_init` asks for it; return the probe."""
        module = getattr(self.module_, "_orig_mod", self.module_)  # the module before compile
        if self.head_init == "random" or type(module) is not BertModule:
            return None
        # an adapter may be drawn, so that the vectors are those of this net alone
        if known is None or getattr(self, "module__adapter", None) is not None:
            found = self._probed(module, X, codes, weights, balanced)
        else:
            found = known
        if found is not None:
            with torch.no_grad():
                for parameter, values in zip(module.head.parameters(), found, strict=True):
                    parameter.copy_(torch.from_numpy(values))
        return found

    def _probed(
        self,
        module: BertModule,
        X: npt.NDArray[np.int32],
        codes: IntArray,
        weights: FloatArray | None,
        balanced: bool,
    ) -> LinearHead | None:
        n_classes = len(self.classes_)
        if len(X) > _PROBE_ROWS:
            weights = np.ones(len(X)) if weights is None else weights
            rows = subsample_by_class(codes, weights, _PROBE_ROWS, np.random.default_rng(0))
            # the drawn rows of each class get the total weight of all its rows
            drawn, whole = (
                np.bincount(codes[r], weights=weights[r], minlength=n_classes)
                for r in (rows, np.arange(len(X)))
            )
            X, codes, weights = X[rows], codes[rows], weights[rows]
            weights = weights * whole[codes] / drawn[codes]
        self._set_training(False)
        with torch.no_grad():
            F = self._in_batches(X, module.encoder)
        vectors = F.cpu().numpy().astype(np.float64)
        return linear_probe(vectors, codes, n_classes, weights=weights, balanced=balanced)

    # -- skorch ---------------------------------------------------------------------------------
    @property
    def _default_callbacks(self) -> list[tuple[str, Callback]]:
        return [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("print_log", PrintLog()),
            ("gradient_clip", GradientNormClipping(1.0)),
        ]

    @property
    def classes_(self) -> AnyArray:
        """Class labels in sorted order, whatever the order of `classes`."""
        return np.unique(super().classes_)

    def check_data(self, X: Any, y: Any) -> None:
        """Do nothing: labels are already encoded, and soft targets hold no classes."""

    @contextmanager
    def _resolved(self) -> Iterator[None]:
        """Replace "auto" by the resolved device and rate, since skorch does not know "auto"."""
        given: tuple[Any, Any] = self.device, self.lr
        self.device, self.lr = self.device_, self.lr_
        try:
            yield
        finally:
            self.device, self.lr = given

    def initialize(self) -> Self:
        """Resolve "auto" parameters, then build module, criterion and optimiser."""
        self._check_params()
        self.device_ = resolve_device(self.device)
        self.precision_ = resolve_precision(self.precision, self.device_)
        self.lr_ = default_learning_rate(self.pretrained) if self.lr == "auto" else self.lr
        super().initialize()
        return self

    def initialize_module(self) -> Self:
        """Build the module with a head for the known classes."""
        try:
            n_classes = len(self.classes_)
        except AttributeError:
            raise ValueError(
                "BertClassifier must know its classes to build its linear layer: call fit, or pass "
                "classes=[...]."
            ) from None
        kwargs: dict[str, Any] = {
            "pretrained": self.pretrained,
            "n_classes": n_classes,
            "pooling": self.pooling,
            "dropout": self.dropout,
            "precision": self.precision_,
        }
        if self.module is BertModule:
            kwargs["device"] = self.device_
        kwargs.update(self.get_params_for("module"))
        self.module_ = self.initialized_instance(self.module, kwargs)
        return self

    def _initialize_module(self, reason: str | None = None) -> Self:
        with self._resolved():
            super()._initialize_module(reason)
        return self

    def _initialize_criterion(self, reason: str | None = None) -> Self:
        with self._resolved():
            super()._initialize_criterion(reason)
        return self

    def initialize_optimizer(self, triggered_directly: bool | None = None) -> Self:
        """Build the optimiser with the resolved learning rate."""
        with self._resolved():
            super().initialize_optimizer()
        return self

    def infer(self, x: Any, **fit_params: Any) -> torch.Tensor:
        """Return the logits of one batch of token ids."""
        logits: torch.Tensor = self.module_(to_tensor(x, device=self.device_), **fit_params)
        return logits

    def get_loss(
        self, y_pred: torch.Tensor, y_true: Any, X: Any = None, training: bool = False
    ) -> torch.Tensor:
        """Return the loss of one batch."""
        loss: torch.Tensor = self.criterion_(y_pred, to_tensor(y_true, device=self.device_))
        return loss

    def get_params(self, deep: bool = True, **kwargs: Any) -> dict[str, Any]:
        """Return the parameters of the net, without the private attributes that skorch lists."""
        params: dict[str, Any] = super().get_params(deep=deep, **kwargs)
        return {name: value for name, value in params.items() if not name.startswith("_")}

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the parameters with a prefix.

        `TokenBatches` also gets the padding id, the device and the order of rows. A custom
        criterion or optimiser does not get defaults that it does not accept.
        """
        params: dict[str, Any] = super().get_params_for(prefix)
        if prefix in ("iterator_train", "iterator_valid"):
            if is_class(getattr(self, prefix), TokenBatches):
                params.setdefault("pad_id", pad_token_id(self.reads_with))
                params.setdefault("device", self.device_)
                params.setdefault("in_order", prefix == "iterator_valid")
                if (multiple := width_multiple(self.device_)) > 1:
                    params.setdefault("width_multiple", multiple)
        elif prefix == "criterion" and not is_class(self.criterion, DistillationLoss):
            params = {k: v for k, v in params.items() if k not in ("lam", "temperature")}
        elif prefix == "optimizer" and isinstance(self.optimizer, type):
            taken = inspect.signature(self.optimizer).parameters
            params = {
                k: v for k, v in params.items() if k in taken or k not in ("weight_decay", "fused")
            }
        return params

    def set_params(self, **kwargs: Any) -> Self:
        """Set parameters; a new `lr` of an initialised net takes effect at once."""
        if self.initialized_ and "lr" in kwargs:
            given = kwargs["lr"]
            self.lr_ = default_learning_rate(self.pretrained) if given == "auto" else given
            super().set_params(**{**kwargs, "lr": self.lr_})
            self.lr = given  # "auto" stays "auto"
        else:
            super().set_params(**kwargs)
        return self

    def forward(self, X: Any, training: bool = False, device: str = "cpu") -> torch.Tensor:
        """Return the logits of texts or token ids in the order of X; dropout acts in `training`."""
        self.check_is_fitted()
        logits = self._in_batches(
            self.encode(X),
            lambda batch: self.evaluation_step((batch, None), training),
        )
        return logits.to(device)

    def _in_batches(
        self, ids: npt.NDArray[np.int32], compute: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        pad_id = pad_token_id(self.reads_with)
        return in_batches(compute, ids, pad_id, self.batch_size, self.device_)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: all but the state of the optimiser, and the versions."""
        view: Any = object.__new__(type(self))
        vars(view).update(vars(self))
        for name in self._optimizers:
            optimizer = copy.copy(getattr(self, f"{name}_"))
            optimizer.state = defaultdict(dict)
            vars(view)[f"{name}_"] = optimizer
        return with_versions(super(TokenNet, view).__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = without_versions(state, type(self).__name__)
        given = state["device"]
        device = resolve_device("auto") if given == "auto" else given
        super().__setstate__({**state, "device": device})
        if "device_" in state:
            self.device_ = str(self.device)  # skorch warned if it had to move to the CPU
        if given == "auto":
            self.device = given
        if self.precision == "auto" and "precision_" in state:
            # emulated bf16 is correct, but many times slower than fp32
            self.precision_ = resolve_precision("auto", self.device_)
            encoder = getattr(self.module_, "encoder", None)
            if isinstance(encoder, Encoder):
                encoder.precision = self.precision_


def is_class(given: Any, kind: type) -> bool:
    """Whether `given` is `kind` or a subclass of it."""
    return isinstance(given, type) and issubclass(given, kind)
