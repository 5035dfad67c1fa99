"""`BertClassifier`: a pretrained encoder with a linear head, as a scikit-learn classifier."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, GradientNormClipping, PassthroughScoring
from skorch.dataset import get_len

from sklearn_spt._batches import TokenBatches, in_batches, width_multiple
from sklearn_spt._data import Ids, as_texts, check_rows_of_ids
from sklearn_spt._estimator import BaseClassifier, all_or_nothing, forget_columns, progress_bar
from sklearn_spt._heads import Refit, linear_probe, refitted_head, rows_of_probe, set_head
from sklearn_spt._labels import (
    Codes,
    FloatArray,
    as_labels,
    check_scalar,
    check_weights,
    encode_labels,
    warn_of_labels,
    warn_user,
)
from sklearn_spt._losses import DistillationLoss
from sklearn_spt._module import DEFAULT_DEVICE, BertModule, before_compile
from sklearn_spt._pretrained import (
    DEFAULT_ENCODER,
    PretrainedEncoder,
    check_token_ids,
    load_encoder,
    warn_of_lost_content,
)
from sklearn_spt._random import generator, root_seed, seeded
from sklearn_spt._training import check_template, probabilities, train_supervised

#: Weights without embeddings: MiniLM 11M (12 layers: 21M), DistilBERT 43M, BERT-base 86M.
_SMALL_ENCODER = 30_000_000

_SKORCH_DEFAULTS = {
    "module": BertModule,
    "criterion": DistillationLoss,
    "criterion__lam": 0.0,
    "criterion__temperature": 1.0,
    "optimizer": torch.optim.AdamW,
    "optimizer__weight_decay": 0.0,
    "optimizer__fused": True,
    "iterator_train": TokenBatches,
    "iterator_valid": TokenBatches,
    "train_split": None,
    "classes": None,
}


class BertClassifier(BaseClassifier, NeuralNetClassifier):
    """Fine-tuned pretrained encoder for short texts; the paper's *Baseline*.

    A skorch ``NeuralNetClassifier`` that takes raw texts, or the token ids of `TokenIdVectorizer`,
    and class labels of any kind. On its own it is plain supervised fine-tuning. Inside
    `SelfPretrainingClassifier` it is the net of teachers and students.

    Parameters
    ----------
    pretrained : str, default="sentence-transformers/all-MiniLM-L6-v2"
        Name or folder of an encoder that ``transformers.AutoModel`` loads from safetensors.
        ``name@revision`` pins a commit, tag or branch on the hub. The default is small enough for
        a laptop (22.7 million weights); with the extra ``[offline]`` it needs no download.
    pooling : {"auto", "mean", "cls"}, default="auto"
        How the token states become one vector: their mean, or the pooled first token. "auto" is
        the mean if the encoder was trained with it (sentence encoders), else "cls".
    max_length : int or "auto", default="auto"
        Texts are cut to this number of tokens, special ones included. "auto" is 160 (the paper's
        value), or the encoder's limit if that is less.
    head_init : {"linear_probe", "random"}, default="linear_probe"
        Initial weights of the linear layer: a logistic regression on the vectors of the pretrained
        encoder [2]_, or small random weights (the paper). The probe saves training steps, which
        are few with few labels.
    dropout : float in [0, 1), default=0.1
        Dropout before the linear layer; the encoder keeps the dropout of its configuration.
    lr : float > 0 or "auto", default="auto"
        Initial learning rate. "auto" is 5e-5 (the paper's code) for encoders of the size of
        BERT-base and 1e-4 for small ones.
    batch_size : int, default=32
        Texts in a training batch (the paper's value).
    max_epochs : int, default=3
        Passes over the labelled texts (the paper's value).
    balanced_batches : bool, default=True
        Draw each epoch with replacement so that every class is seen equally often, as in the
        paper's code; False shuffles.
    device : str, default="cuda" where there is such a device, else "cpu"
        Any torch device.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        "auto" computes in bf16 if the hardware supports it, else in fp32; weights stay fp32.
    unlabeled_marker : number, str or None, default=-1
        Rows of y with this value are dropped, with a warning. None, NaN and NA are one marker.
    random_state : int, RandomState or None, default=None
        Seeds the head, dropout and draws. A fit changes no global random state.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar.
    **kwargs
        Any other parameter of ``skorch.NeuralNetClassifier``, such as `classes`, `module`,
        `optimizer`, `callbacks` or `compile`. The defaults are those of the paper's code: AdamW
        without weight decay, and gradients clipped to a global L2 norm of 1. `module__adapter`, a
        configuration of peft such as LoRA, trains an adapter and leaves the encoder as it is. A
        module of your own is called with ``pretrained, n_classes, pooling, dropout, precision``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    module_ : BertModule
        The fine-tuned module.
    n_features_in_ : int
        Width of the token-id matrix; only if X was one.

    References
    ----------
    .. [1] Karisani & Karisani, "Semi-Supervised Text Classification via Self-Pretraining",
       WSDM 2021.
    .. [2] A. Kumar, A. Raghunathan, R. Jones, T. Ma and P. Liang, "Fine-Tuning can Distort
       Pretrained Features and Underperform Out-of-Distribution", ICLR 2022.

    Examples
    --------
    >>> from sklearn_spt import BertClassifier
    >>> clf = BertClassifier(random_state=0)
    >>> clf.fit(["I caught the flu", "flu shots on sale"] * 8, [1, 0] * 8)  # doctest: +SKIP
    """

    source_: PretrainedEncoder

    def __init__(
        self,
        pretrained: str = DEFAULT_ENCODER,
        *,
        pooling: str = "auto",
        max_length: int | str = "auto",
        head_init: str = "linear_probe",
        dropout: float = 0.1,
        lr: float | str = "auto",
        batch_size: int = 32,
        max_epochs: int = 3,
        balanced_batches: bool = True,
        device: str = DEFAULT_DEVICE,
        precision: str = "auto",
        unlabeled_marker: Any = -1,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            lr=lr,
            max_epochs=max_epochs,
            batch_size=batch_size,
            verbose=verbose,
            device=device,
            **{**_SKORCH_DEFAULTS, **kwargs},
        )
        self.pretrained = pretrained
        self.pooling = pooling
        self.max_length = max_length
        self.head_init = head_init
        self.dropout = dropout
        self.balanced_batches = balanced_batches
        self.precision = precision
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state

    def check_params(self) -> None:
        """Raise an error that names the first unusable parameter."""
        for name, options in {
            "pooling": ("auto", "mean", "cls"),
            "head_init": ("linear_probe", "random"),
            "precision": ("auto", "fp32", "bf16"),
        }.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {options}, got {getattr(self, name)!r}.")
        check_scalar(self.dropout, "dropout", Real, min_val=0, max_val=1, include_boundaries="left")
        check_scalar(self.batch_size, "batch_size", Integral, min_val=1)
        check_scalar(self.max_epochs, "max_epochs", Integral, min_val=0)
        if self.lr != "auto":
            check_scalar(self.lr, "lr", Real, min_val=0, include_boundaries="neither")
        if self.train_split is not None:
            raise ValueError(
                "train_split must be None: BertClassifier trains on all labelled rows. Use the "
                "splitters of scikit-learn to hold rows out."
            )

    # -- scikit-learn ---------------------------------------------------------------------------
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> BertClassifier:
        """Continue training for `max_epochs` epochs from the present weights.

        The learning rate starts at its initial value again and falls as in `fit`. An unfitted net
        is fitted.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; y may lack some classes but must not hold a new one.
        classes : array-like or None
            All classes, for a first call whose y does not hold all of them.

        Returns
        -------
        self
        """
        with all_or_nothing(self) as new:
            if self.initialized_:  # other threads predict with the present weights until the end
                names = [*self.cuda_dependent_attributes_, "history_"]
                vars(new).update(copy.deepcopy({name: vars(self)[name] for name in names}))
            new._fit_documents(X, y, None, sample_weight, classes, fresh=not self.initialized_)
        return self

    def _fit_documents(
        self,
        X: Any,
        y: Any,
        X_unlabeled: Any,
        sample_weight: Any,
        classes: Any = None,
        fresh: bool = True,
    ) -> None:
        known = self.classes if classes is None else classes
        known = known if fresh else self.classes_
        known = None if known is None else np.unique(as_labels(known))
        self.check_params()
        check_template(self, "BertClassifier")
        ids = self.encode(X, allow_empty=False, reset=fresh)
        labeled, classes, codes = encode_labels(y, len(ids), self.unlabeled_marker, known)
        weights = check_weights(sample_weight, labeled)
        n_dropped = int((~labeled).sum()) + (0 if X_unlabeled is None else get_len(X_unlabeled))
        if n_dropped:
            warn_user(
                f"BertClassifier learns only from labelled rows: {n_dropped} unlabelled rows are "
                "dropped. Use SelfPretrainingClassifier to learn from them."
            )
        cut = not hasattr(self, "n_features_in_")
        self.check_documents(ids, codes, len(ids), cut=cut, fresh=fresh)
        if known is None:
            warn_of_labels(classes, codes, self.unlabeled_marker)
        ids, codes = ids[labeled], codes[labeled]
        self.classes_inferred_ = classes
        path = (0,) if fresh else (0, len(self.history))
        root, size = root_seed(self.random_state), self.batch_size
        with (
            seeded(root, *path),
            progress_bar(self.verbose, self.max_epochs * len(ids), "fine-tuning", size) as bar,
        ):
            if fresh:
                self.history_, self.initialized_ = None, False  # a new history and no message
                self.initialize()
                with seeded(0):
                    self.start_head(ids, codes, weights, self.balanced_batches)
            how = self.max_epochs, self.balanced_batches, generator(root, *path), bar
            train_supervised(self, ids, codes, len(classes), weights, *how)

    def _predict_proba(self, X: Any) -> FloatArray:
        self.check_is_fitted()
        return probabilities(self, self.encode(X), len(self.classes_))

    def __sklearn_tags__(self) -> Tags:
        """Declare that texts are accepted besides matrices."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    # -- what the methods use -------------------------------------------------------------------
    def encode(
        self, X: Any, *, allow_empty: bool = True, reset: bool = False, full_width: bool = False
    ) -> Ids:
        """Return the token ids of texts, or check a matrix of token ids.

        The result is as wide as the longest text, or with `full_width` ``max_length`` wide.
        """
        known = self.initialized_ and not reset
        source = self.source_ if known else load_encoder(self.pretrained)
        texts = as_texts(X, allow_empty=allow_empty)
        if texts is not None:
            if reset:
                forget_columns(self)
            return source.tokenize(texts, self.max_length, full_width=full_width)
        check_rows_of_ids(X, "X")
        if reset or hasattr(self, "n_features_in_"):
            validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        return check_token_ids(X, source)

    def check_documents(
        self,
        ids: Ids,
        codes: Codes,
        n: int,
        *,
        cut: bool,
        fresh: bool = True,
    ) -> None:
        """Raise an error for empty texts, of X in the first n rows; warn of what is not read."""
        source = load_encoder(self.pretrained) if fresh else self.source_
        empty = np.flatnonzero((ids != source.pad_id).sum(axis=1) <= source.n_special_tokens)
        if len(empty):
            name, row = ("X", empty[0]) if empty[0] < n else ("X_unlabeled", empty[0] - n)
            raise ValueError(
                f"{name} holds a text without a token in row {row}, and {len(empty)} in all; drop "
                "these rows."
            )
        length = self.max_length if cut else None
        warn_of_lost_content(ids, codes, source, length)

    def start_head(
        self, X: Ids, codes: Codes, weights: FloatArray, balanced: bool = True, known: Any = None
    ) -> Any:
        """Set the linear layer to a linear probe if `head_init` asks for it; return the probe.

        `known` is what an earlier call with the same rows returned.
        """
        module = before_compile(self.module_)
        if self.head_init == "random" or type(module) is not BertModule:
            return None
        # an adapter may be drawn, so that the vectors are those of this net only
        if known is None or getattr(self, "module__adapter", None) is not None:
            rows, weights = rows_of_probe(codes, weights)
            F, K = self.embed(X[rows]), len(self.classes_)
            known = linear_probe(F, codes[rows], K, weights, balanced=balanced)
        if known is not None:
            set_head(module, *known)
        return known

    def refit_head(
        self,
        X: Ids,
        codes: Codes,
        weights: FloatArray,
        U: Ids,
        balanced: bool = True,
        bar: Any = None,
    ) -> Refit:
        """Fit the linear layer anew, by soft self-training on labelled and other rows."""
        L, F_U = self.embed(X, bar), self.embed(U, bar)
        W, b, by_labels = refitted_head(L, codes, weights, F_U, len(self.classes_), balanced)
        set_head(self.module_, W, b)
        return Refit(L @ W.T + b, F_U @ W.T + b, by_labels)

    def embed(self, ids: Ids, bar: Any = None) -> FloatArray:
        """Return the vectors that the linear layer gets, of shape (n, hidden_size)."""
        module = before_compile(self.module_)
        self._set_training(False)
        with torch.no_grad():
            F = in_batches(module.embed, ids, module.pad_id, self.device, bar)
        return np.asarray(F.cpu().numpy(), dtype=np.float64)

    # -- skorch ---------------------------------------------------------------------------------
    @property
    def _default_callbacks(self) -> list[tuple[str, Callback]]:
        return [
            ("epoch_timer", EpochTimer()),
            ("train_loss", PassthroughScoring(name="train_loss", on_train=True)),
            ("gradient_clip", GradientNormClipping(1.0)),
        ]

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels in sorted order, whatever the order of `classes`."""
        return np.unique(super().classes_ if self.classes is None else as_labels(self.classes))

    def check_data(self, X: Any, y: Any) -> None:
        """Do nothing: labels are already encoded, and soft targets hold no classes."""

    def initialize(self, source: PretrainedEncoder | None = None) -> BertClassifier:
        """Build module, criterion and optimiser; of a `source` without a model, no weights."""
        self.source_ = load_encoder(self.pretrained) if source is None else source
        if self.lr != "auto":
            self.lr_ = self.lr
        elif self.source_.model is not None:
            weights = self.source_.model.named_parameters()
            size = sum(weight.numel() for name, weight in weights if "embed" not in name)
            self.lr_ = 1e-4 if size < _SMALL_ENCODER else 5e-5
        super().initialize()
        self.source_ = replace(self.source_, model=None)  # pickles hold no second encoder
        return self

    def initialize_module(self) -> BertClassifier:
        """Build the module with a head for the known classes."""
        kwargs: dict[str, Any] = {
            "pretrained": self.pretrained,
            "n_classes": len(self.classes_),
            "pooling": self.pooling,
            "dropout": self.dropout,
            "precision": self.precision,
            **self.get_params_for("module"),
        }
        if self.source_.model is None and not self.initialized_:
            source = self.source_
            kwargs |= {"config": source.config, "pad_id": source.pad_id, "pooling": source.pooling}
        self.module_ = self.initialized_instance(self.module, kwargs)
        return self

    def get_params(self, deep: bool = True, **kwargs: Any) -> dict[str, Any]:
        """Return the parameters, without the private attributes that skorch lists."""
        params: dict[str, Any] = super().get_params(deep=deep, **kwargs)
        return {name: value for name, value in params.items() if not name.startswith("_")}

    def get_params_for(self, prefix: str) -> dict[str, Any]:
        """Return the parameters with a prefix, and those that follow from others."""
        params: dict[str, Any] = super().get_params_for(prefix)
        if prefix == "optimizer":
            params.setdefault("lr", self.lr_)
        elif prefix.startswith("iterator") and getattr(self, prefix) is TokenBatches:
            usual = {"pad_id": self.source_.pad_id, "multiple": width_multiple(self.device)}
            params = {**usual, "in_order": prefix == "iterator_valid", **params}
        return params

    def forward(self, X: Ids, training: bool = False, device: str = "cpu") -> torch.Tensor:
        """Return the logits of token ids in the order of X; dropout acts in `training`."""
        self._set_training(training)
        with (
            torch.set_grad_enabled(training),
            progress_bar(self.verbose, len(X), "prediction", delay=1) as bar,
        ):
            logits = in_batches(self.infer, X, self.source_.pad_id, self.device, bar)
        return logits.to(device)


def as_net(estimator: Any) -> Any:
    """Return the net of a parameter: None and names of encoders stand for a `BertClassifier`."""
    if estimator is None or isinstance(estimator, str):
        return BertClassifier() if estimator is None else BertClassifier(estimator)
    return estimator
