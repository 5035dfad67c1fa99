"""`BertClassifier`: a pretrained encoder with a linear head, as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data
from skorch.utils import multi_indexing

from sklearn_spt._functional import tempered_softmax
from sklearn_spt._labels import LabelsMixin, check_labels, check_weights, unlabeled_mask
from sklearn_spt._progress import Progress, prediction_bar
from sklearn_spt._random import derive_seed, exclusive, isolated, root_seed
from sklearn_spt._runtime import DocumentedMixin
from sklearn_spt._typing import AnyArray, FloatArray, IntArray
from sklearn_spt._validation import all_or_nothing, forget_features, n_rows, short_repr, shown
from sklearn_spt.nets._batching import TokenBatches
from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._callbacks import ScheduledLR
from sklearn_spt.nets._fit_tasks import FitTask, FitTaskMixin
from sklearn_spt.nets._losses import DistillationLoss, distillation_targets, one_hot
from sklearn_spt.nets._schedules import slanted
from sklearn_spt.nets._token_net import TokenNet, is_class
from sklearn_spt.nets._training import epoch_loss, n_steps, predict_logits, start_head, train
from sklearn_spt.persistence._saving import SavingMixin
from sklearn_spt.text._allocator import give_back
from sklearn_spt.text._documents import check_documents, check_matrix
from sklearn_spt.text._encoding import is_text, text_array
from sklearn_spt.text._locations import DEFAULT_ENCODER

#: Where skorch's own defaults do not fit.
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


class BertClassifier(DocumentedMixin, SavingMixin, FitTaskMixin, LabelsMixin, TokenNet):
    """Fine-tuned pretrained encoder for short texts; the paper's *Baseline*.

    A skorch ``NeuralNetClassifier`` that takes raw texts, or the token ids of `TokenIdVectorizer`,
    and class labels of any kind. On its own it is plain supervised fine-tuning. Inside
    `SelfPretrainingClassifier` it is the net of teacher and student.

    Parameters
    ----------
    pretrained : str, default="sentence-transformers/all-MiniLM-L6-v2"
        Name or folder of any BERT-like encoder that ``transformers.AutoModel`` loads from
        safetensors. ``name@revision`` pins a commit, tag or branch on the hub. The default is
        small enough for a laptop (22.7 million weights); with the extra ``[offline]`` it needs no
        download.
    pooling : {"auto", "mean", "cls"}, default="auto"
        How the token states become one vector: their mean, or the pooled first token. "auto" is
        the mean if the encoder was trained with it (sentence encoders), else "cls".
    max_length : int or "auto", default="auto"
        Texts are cut to this number of tokens, special ones included. "auto" is 160 (the paper's
        value), or the encoder's limit if that is less. Short texts cost no more with a high value,
        since batches are trimmed.
    head_init : {"linear_probe", "random"}, default="linear_probe"
        Initial weights of the linear layer: a logistic regression on the vectors of the pretrained
        encoder [2]_, or small random weights (the paper). The probe saves training steps, which
        are few with few labels; "docs/results" has the gain. It costs one pass over at most 2,000
        rows, and has no effect with a custom module.
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
    device : str, default="auto"
        Any torch device; "auto" takes cuda, else mps, else cpu.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        "auto" computes in bf16 if the hardware supports it, else in fp32; weights stay fp32.
    cuda_graphs : bool, default=False
        On a CUDA device, launch a whole training step as one graph, recorded for each shape of
        batch that keeps coming up. Nets of one kind share their graphs, which stay on the device.
        Meant for small encoders, whose kernels take less time than their launches. Off because no
        gain has been measured yet. Needs the default criterion and optimiser, and no code of your
        own in the step. No effect on other devices, with ``compile=True``, or without `Encoder`.
    n_threads : int or None, default=None
        CPU threads during fit and predict; None keeps torch's setting. Results are identical for
        the same number of threads, and differ in the last digits between numbers.
    unlabeled_marker : number, str or None, default=-1
        Rows of y with this value are dropped, with a warning. None, NaN and NA are one marker.
    random_state : int, RandomState or None, default=None
        Seeds the head, dropout and draws. A fit changes no global random state.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar, and 2 also a line for each epoch.
    **kwargs
        Any other parameter of ``skorch.NeuralNetClassifier``, such as `classes` (all classes, if
        y lacks some), `module`, `optimizer` or `callbacks`. The defaults are those of the paper's
        code: fused AdamW without weight decay, and gradients clipped to a global L2 norm of 1 (the
        callback ``gradient_clip``). ``module__train_word_embeddings=False`` leaves the word
        embeddings, half of the default encoder's weights, as they are. A net then needs less
        memory and scored the same; `SelfPretrainingClassifier` may lose a little F1
        ("docs/results/word_embeddings"). `module__adapter`, a configuration of peft such as LoRA,
        leaves the encoder as it is and trains an adapter (extra ``[peft]``). A module of your own
        is called with ``pretrained, n_classes, pooling, dropout, precision`` and returns logits.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    module_ : BertModule
        The fine-tuned module.
    device_, precision_, lr_ : str, str, float
        The resolved values of these parameters.
    n_threads_ : int
        Number of CPU threads of the fit.
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

    n_threads_: int

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
        device: str = "auto",
        precision: str = "auto",
        cuda_graphs: bool = False,
        n_threads: int | None = None,
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
        self.cuda_graphs = cuda_graphs
        self.n_threads = n_threads
        self.unlabeled_marker = unlabeled_marker
        self.random_state = random_state

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults, as scikit-learn does."""
        return short_repr(self, BertClassifier().get_params(deep=False))

    # -- scikit-learn ---------------------------------------------------------------------------
    def fit(
        self, X: Any, y: Any, X_unlabeled: Any = None, sample_weight: Any = None
    ) -> BertClassifier:
        """Fine-tune on the labelled rows.

        Parameters
        ----------
        X : texts of length n_samples, or array-like of token ids of shape (n_samples, width)
            Documents.
        y : array-like of shape (n_samples,)
            Labels; rows marked by `unlabeled_marker` are dropped with a warning.
        X_unlabeled : ignored
            Present so that all classifiers share one signature; a warning counts its rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Scales the loss of each row, not its chance to be drawn; only proportions count.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For unusable parameters, labels, texts, token ids or weights; the message names them.
        """
        with all_or_nothing(self):
            self._text_source = None
            self._check_classes(self.classes)
            known = None if self.classes is None else self.classes_
            X, codes, classes, weights = self._check_fit(
                X, y, X_unlabeled, sample_weight, known, reset=True
            )
            self.classes_inferred_ = classes
            self._train(X, codes, weights, fresh=True)
        give_back()
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
    ) -> BertClassifier:
        """Continue training for `max_epochs` epochs from the present weights and optimiser.

        The learning rate starts at its initial value again and falls as in `fit`, and rows are
        drawn anew. Bad input changes nothing; an error during training keeps the weights reached so
        far. A pickle or copy of the net holds the weights but not the state of the optimiser, which
        is twice as large: it continues with a new optimiser.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. On a fitted net, y may lack some classes but must not hold a new one.
        classes : array-like or None
            All classes, for a first call whose y does not hold all of them.

        Returns
        -------
        self
        """
        fresh = not self.initialized_
        if fresh and classes is None:
            return self.fit(X, y, sample_weight=sample_weight)
        with all_or_nothing(self):
            self._check_classes(classes)
            known = np.unique(classes) if fresh and self.classes is None else self.classes_
            if classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError(
                    f"classes={np.unique(classes).tolist()} differ from the classes of the net, "
                    f"{known.tolist()}; leave classes out, or call fit."
                )
            X, codes, _, weights = self._check_fit(X, y, None, sample_weight, known, reset=fresh)
            if fresh:
                self.classes_inferred_ = known
            self._train(X, codes, weights, fresh=fresh)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities.

        Parameters
        ----------
        X : texts or token ids, n_samples rows
            Documents.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        self.check_is_fitted()
        X = self._rows(X, reset=False)
        with exclusive(self.n_threads), prediction_bar(self.verbose, len(X)) as progress:
            return tempered_softmax(predict_logits(self, X, len(self.classes_), progress.advance))

    def __sklearn_tags__(self) -> Tags:
        """Declare that texts are accepted besides matrices."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    # -- the fit, in parts ----------------------------------------------------------------------
    def _check_fit(
        self, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any, known: Any, *, reset: bool
    ) -> tuple[Any, IntArray, AnyArray, FloatArray | None]:
        """Return encoded labelled rows, their codes, the classes, their weights."""
        self._check_params()
        text = is_text(X)
        X = self._rows(X, reset=reset)
        if not text:
            X = self.encode(X)  # before rows are dropped, so that an error names the right row
        labeled, classes, codes = check_labels(y, len(X), self.unlabeled_marker, known)
        weights = check_weights(sample_weight, len(X), labeled)
        dropped = int((~labeled).sum()) + (
            0 if X_unlabeled is None else n_rows(X_unlabeled, "X_unlabeled")
        )
        if dropped:
            warnings.warn(
                f"BertClassifier learns only from labelled rows: {dropped} unlabelled rows are "
                "dropped. Use SelfPretrainingClassifier to learn from them too.",
                UserWarning,
                stacklevel=3,
            )
        ids = X if labeled.all() else multi_indexing(X, np.flatnonzero(labeled))
        ids = self.encode(ids) if text else ids
        return ids, codes[labeled], classes, weights

    def _check_classes(self, classes: Any) -> None:
        """Raise an error if the classes hold more than the labels of classes."""
        if classes is None:
            return
        with suppress(ValueError, TypeError):  # an error of y
            marked, labels = unlabeled_mask(classes, self.unlabeled_marker)
            if not marked.any() and len(np.unique(labels)) > 1:
                return
        raise ValueError(
            "classes must be a list of all labels, two or more, without the marker of unlabelled "
            f"rows, {shown(self.unlabeled_marker)}; got {shown(classes, 200)}."
        )

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Return texts or a matrix as an array that can be indexed by row; ids are not checked."""
        check_documents(X)
        if is_text(X):
            if reset:
                forget_features(self)
            return text_array(X)
        if not reset and not hasattr(self, "n_features_in_"):
            raise TypeError("X holds no texts, but the classifier was fitted on texts.")
        check_matrix(X, "X")
        return validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)

    def _train(
        self,
        ids: npt.NDArray[np.int32],
        codes: IntArray,
        weights: FloatArray | None,
        *,
        fresh: bool,
    ) -> None:
        """Train the present module, or a fresh one that starts from a linear probe."""
        seed = derive_seed(root_seed(self.random_state), 0, *([] if fresh else [len(self.history)]))
        with isolated(seed, self.n_threads):
            self.n_threads_ = torch.get_num_threads()
            if fresh:
                self.history_ = None  # otherwise skorch would empty the history of an earlier fit
                self.initialize()
                start_head(self, ids, codes, weights, balanced=self.balanced_batches)
            distils = is_class(self.criterion, DistillationLoss)
            if weights is not None and not distils:
                raise ValueError(
                    "sample_weight needs the criterion DistillationLoss (the default)."
                )
            hard = one_hot(codes, len(self.classes_))
            targets = distillation_targets(hard, None, weights) if distils else codes
            steps = n_steps(self, ids, targets, self.max_epochs)
            n_texts = self.max_epochs * len(ids)
            with (
                Progress(self.verbose, "fine-tuning", n_texts) as progress,
                self._followed(self.max_epochs),
            ):
                train(
                    self,
                    ids,
                    targets,
                    codes,
                    epochs=self.max_epochs,
                    schedule=ScheduledLR(partial(slanted, n_steps=steps)).initialize(),
                    balanced=self.balanced_batches,
                    rng=np.random.default_rng(seed),
                    progress=progress,
                    on_epoch=partial(_end_epoch, progress, self._task),
                )


def _end_epoch(progress: Progress, task: FitTask, net: Any, epoch: int) -> bool:
    """Show the loss of an epoch, and tell scikit-learn's callbacks, which may end the training."""
    progress.line(f"epoch {epoch}: loss {epoch_loss(net):.4f}")
    return task.subtask("epoch").end()
