"""Self-Pretraining: the method of Karisani & Karisani (WSDM 2021)."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from sklearn.utils.validation import check_memory
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._functional import predicted_classes
from sklearn_spt._holdout import (
    HoldOut,
    hold_out,
    positive_code,
    warn_unless_better,
    weights_of,
)
from sklearn_spt._random import derive_seed, root_seed
from sklearn_spt._sampling import draw_sample
from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import (
    check_flag,
    check_integer,
    check_option,
    check_real,
)
from sklearn_spt.nets._training import select_rows
from sklearn_spt.self_pretraining._inertia import inertial_transform
from sklearn_spt.self_pretraining._logit_adjustment import logit_adjusted
from sklearn_spt.self_pretraining._sample_sizes import growing_sample_sizes, resolve_step_size
from sklearn_spt.self_pretraining._state import Iteration
from sklearn_spt.self_pretraining._trainer import Run


class SelfPretrainingClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by Self-Pretraining.

    A teacher, trained on the labelled documents, gives soft pseudo-labels to a sample of the
    unlabelled ones. A fresh student is first trained on the pseudo-labels alone and then on the
    labelled documents, guided by both the true labels and the teacher. The student becomes the
    next teacher and the sample grows, until it holds all unlabelled documents. The prediction is
    the mean of the supervised start, the last teacher and the last student.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string ``BertClassifier(pretrained=...)``. On a clone of the net
        are set, and only set: ``train_split=None``, the criterion, ``max_epochs`` of each stage,
        the learning-rate callback and ``classes``.
    lam : float in [0, 1], default=0.3
        λ, share of the distillation loss on labelled documents (the paper's value).
    alpha : float in [0, 1], default=0.1
        α, inertia of the pseudo-label distributions of the classes (the paper's value); 0
        switches the transformation off.
    temperature : float > 0, default=1.0
        T of the soft labels and of the distillation loss. 1 leaves the teacher's probabilities as
        they are and gave the better Brier scores, at the same F1; the paper's is 3.
    step_size : int or float, default=0.2
        k, by which the sample grows: a number of documents, or a float in (0, 1] for a share of
        the unlabelled ones. 0.2 is the paper's 2,000 of 10,000 and gives five iterations.
    initial_step_size : int, float or None, default=None
        Size of the first sample; None is `step_size`. (The paper's code starts with half of it.)
    max_iter : int or None, default=None
        Greatest number of iterations; None goes on until the sample holds all unlabelled
        documents. 0 is supervised training, up to `logit_adjustment`.
    pretrain_epochs : int, default=1
        Epochs over the pseudo-labelled sample (stage 1).
    finetune_epochs : int, default=3
        Epochs over the labelled documents (stage 2, and the first teacher).
    n_starts : int >= 1, default=1
        Supervised starts, alike but for their seed, that are the first teacher together, by the
        mean of their probabilities; with ``ensemble="with_start"`` all of them predict. Few
        labels leave much to chance, which a mean takes out of the first pseudo-labels. Each is
        trained as a `BertClassifier` is, labels what the first teacher labels, and takes its
        part of each prediction.
    teacher : {"last_student", "ensemble"}, default="last_student"
        Who labels for the next student: the last student alone (the paper), or with it the one
        before and, unless ``ensemble="last_two"``, the supervised starts, by the mean of their
        probabilities at T, without `logit_adjustment` and whatever `restore_best` would keep. No
        net labels a document for students twice: logits are kept, 8 bytes for each such net,
        unlabelled document and class. The first student has the same teacher either way.
    balanced_batches : bool, default=True
        Draw classes equally often in every training run, as the paper's code does.
    two_stage : bool, default=True
        Ablation: False trains once on the union of both sets, for `finetune_epochs` epochs, with
        a slanted learning rate.
    lr_schedule : {"right_trapezoidal", "slanted"}, default="right_trapezoidal"
        Ablation: "slanted" lets the rate fall in one line over both stages.
    distillation : bool, default=True
        Ablation: False uses one-hot pseudo-labels at T = 1, without inertia.
    inertia_variance : {"linear", "independent"}, default="linear"
        How variances combine: interpolated, as in the paper's code, or as those of a sum of
        independent variables.
    inertia_state : {"ema", "raw"}, default="ema"
        What the next iteration remembers: the combined statistics, as in the paper's code (an
        exponential moving average), or the raw ones.
    reset_optimizer : bool, default=True
        Whether stage 2 starts with fresh optimiser moments, as in the paper's code.
    ensemble : {"with_start", "last_two"}, default="with_start"
        Which nets predict together, by the mean of their probabilities: the last teacher and
        student (the paper), or the supervised start too. It errs in other rows than the students,
        which learn from each other; a prediction takes half as long again.
    logit_adjustment : float in [0, 1] or "auto", default="auto"
        τ [2]_: the ensemble's probability of class *c* is multiplied by the τ-th power of its share
        among the labelled documents. Nets that see all classes equally often predict rare ones too
        often. 0 leaves that as it is (the paper), 1 goes all the way back. "auto" lets up to 1,000
        of the unlabelled documents decide: τ goes on until they are predicted to be of each class
        as often as the labelled ones are (by weight), at most to 0.5, and less far the worse the
        classes can be told apart. It stays 0 with fewer than 50 of them, with equally many labels
        in each class, and with ``balanced_batches=False``. Each net that predicts has to label
        these documents once. Where labels were not given to a random part of the documents, set 0.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the labelled documents to hold out, by class: the score of the `ensemble` on them
        stands in ``history_`` after each iteration, and a fit that ends no better
        than its supervised start says so. None learns from all of them. A fifth of a few hundred
        is too few to judge a classifier by: see `compare_with_supervised` for that.
    patience : int >= 1 or None, default=None
        With held-out documents, end the fit when the score has not risen for so many iterations.
    restore_best : bool, default=True
        With held-out documents, keep the nets of the iteration with the best score, the supervised
        start included; False keeps the last.
    pos_label : label or None, default=None
        Class whose F1 is the score of held-out documents if there are two classes; None is the
        greatest. With more classes it is macro-F1.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are one marker.
    on_iteration : callable or None, default=None
        Called as ``on_iteration(iteration)`` after the supervised start and after each iteration;
        ``iteration.number``, ``iteration.record`` and ``iteration.predict_proba(X, which=...)``
        score intermediate students. Must be picklable for process pools.
    memory : str, joblib.Memory or None, default=None
        Folder that keeps what does not depend on `lam` and `alpha`, for the candidates of a
        search: the first teacher, its first labels, and stage 1 of the first student. The result
        is the same to the last digit. Needs an integer `random_state`; fits in parallel processes
        can share it. Clear it when the code of a module of your own changes.
    checkpoint_dir : str, path-like or None, default=None
        Folder that holds the state after the last whole iteration while a fit goes on. The same
        fit, started again after a kill, goes on from there and ends with the same result; the
        file is removed at the end. Needs an integer `random_state`. As any pickle, such files
        can run code: use folders that only you can write to.
    random_state : int, RandomState or None, default=None
        Everything random derives from it; a fit changes no global random state. The net's own
        ``random_state`` is not used.
    verbose : int, default=0
        0 prints nothing; otherwise a progress bar is shown.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    teacher_, student_ : skorch.NeuralNet
        Student of the iteration `best_iter_`, and that of the one before, which taught it, alone
        or with others (`teacher`); the same net if that is 0. Of several supervised starts the
        first.
    estimators_ : list of skorch.NeuralNet
        What predicts: the supervised starts (unless ``ensemble="last_two"``), the teacher and the
        student; those of them that are one net stand there once. The teacher of the first
        iteration, and all there is at the start, are all supervised starts.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among the labelled documents that were learned from.
    logit_adjustment_ : float
        τ, as given or chosen.
    n_iter_ : int
        Number of iterations.
    best_iter_ : int
        Iteration whose nets are kept: `n_iter_`, unless held-out documents decided otherwise.
    sample_sizes_ : list of int
        Size of the sample of each iteration.
    transduction_ : ndarray of shape (n_rows,)
        Given labels, and the last pseudo-label of each unlabelled row (the marker if it was never
        drawn), also where the nets of an earlier iteration are kept: the rows of X, then those of
        X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration of the last pseudo-label; 0 for labelled rows, -1 for rows never drawn.
    termination_condition_ : {"all_labeled", "max_iter", "no_unlabeled", "early_stopping"}
        Why the fit ended.
    n_threads_ : int
        Number of torch's CPU threads during the fit: results are identical for the same number.
    history_ : list of dict
        One entry for the start and for each iteration: ``iteration``, ``sample_size``,
        ``pseudo_label_counts``, ``loss`` (mean of each epoch by stage, and over the supervised
        starts), ``groups_before`` and
        ``groups_after`` inertia (count, mean and variance by class), ``changed`` (share of earlier
        pseudo-labels in the sample that the teacher changed, None where there are none: students
        that drift change more and more), ``validation_score`` with held-out documents, ``seconds``
        by phase.

    See Also
    --------
    BertClassifier : The default net, and supervised baseline.
    sklearn.semi_supervised.SelfTrainingClassifier : Plain self-training.

    References
    ----------
    .. [1] Payam Karisani and Negin Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, https://doi.org/10.1145/3437963.3441814
    .. [2] A. K. Menon et al., "Long-tail learning via logit adjustment", ICLR 2021.

    Examples
    --------
    >>> from sklearn_spt import SelfPretrainingClassifier
    >>> from sklearn_spt.datasets import make_short_texts
    >>> bunch = make_short_texts(400, n_labeled=100, random_state=0)
    >>> clf = SelfPretrainingClassifier(random_state=0)
    >>> clf.fit(bunch.data, bunch.target_partial).predict(bunch.data)  # doctest: +SKIP
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        lam: float = 0.3,
        alpha: float = 0.1,
        temperature: float = 1.0,
        step_size: float = 0.2,
        initial_step_size: float | None = None,
        max_iter: int | None = None,
        pretrain_epochs: int = 1,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        two_stage: bool = True,
        lr_schedule: str = "right_trapezoidal",
        distillation: bool = True,
        inertia_variance: str = "linear",
        inertia_state: str = "ema",
        reset_optimizer: bool = True,
        n_starts: int = 1,
        teacher: str = "last_student",
        ensemble: str = "with_start",
        logit_adjustment: float | str = "auto",
        validation_fraction: float | None = None,
        patience: int | None = None,
        restore_best: bool = True,
        pos_label: Any = None,
        unlabeled_marker: Any = -1,
        on_iteration: Callable[[Iteration], None] | None = None,
        memory: str | joblib.Memory | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.lam = lam
        self.alpha = alpha
        self.temperature = temperature
        self.step_size = step_size
        self.initial_step_size = initial_step_size
        self.max_iter = max_iter
        self.pretrain_epochs = pretrain_epochs
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.two_stage = two_stage
        self.lr_schedule = lr_schedule
        self.distillation = distillation
        self.inertia_variance = inertia_variance
        self.inertia_state = inertia_state
        self.reset_optimizer = reset_optimizer
        self.n_starts = n_starts
        self.teacher = teacher
        self.ensemble = ensemble
        self.logit_adjustment = logit_adjustment
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.restore_best = restore_best
        self.pos_label = pos_label
        self.unlabeled_marker = unlabeled_marker
        self.on_iteration = on_iteration
        self.memory = memory
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_real(self.lam, "lam", low=0, high=1)
        check_real(self.alpha, "alpha", low=0, high=1)
        check_real(self.temperature, "temperature", low=0, closed="neither")
        resolve_step_size(self.step_size, 1, "step_size")
        if self.initial_step_size is not None:
            resolve_step_size(self.initial_step_size, 1, "initial_step_size")
        check_integer(self.max_iter, "max_iter", low=0, allow_none=True)
        check_integer(self.pretrain_epochs, "pretrain_epochs", low=0)
        check_integer(self.n_starts, "n_starts", low=1)
        check_integer(self.patience, "patience", low=1, allow_none=True)
        if self.validation_fraction is not None:
            check_real(
                self.validation_fraction, "validation_fraction", low=0, high=1, closed="neither"
            )
        elif self.patience is not None:
            raise ValueError("patience needs held-out documents: set validation_fraction too.")
        for name in ("two_stage", "distillation", "reset_optimizer", "restore_best"):
            check_flag(getattr(self, name), name)
        check_option(self.lr_schedule, "lr_schedule", ("right_trapezoidal", "slanted"))
        check_option(self.inertia_variance, "inertia_variance", ("linear", "independent"))
        check_option(self.inertia_state, "inertia_state", ("ema", "raw"))
        check_option(self.teacher, "teacher", ("last_student", "ensemble"))
        check_option(self.ensemble, "ensemble", ("with_start", "last_two"))
        if isinstance(self.logit_adjustment, str):
            if self.logit_adjustment != "auto":
                raise ValueError(
                    'logit_adjustment must be "auto" or a number in [0, 1], got '
                    f"{self.logit_adjustment!r}."
                )
        else:
            check_real(self.logit_adjustment, "logit_adjustment", low=0, high=1)
        if self.on_iteration is not None and not callable(self.on_iteration):
            raise TypeError(f"on_iteration must be callable or None, got {self.on_iteration!r}.")
        if not isinstance(self.checkpoint_dir, str | os.PathLike | None):
            raise TypeError(
                f"checkpoint_dir must be a path or None, got {self.checkpoint_dir!r} of type "
                f"{type(self.checkpoint_dir).__name__}."
            )
        for name in ("memory", "checkpoint_dir"):
            place = getattr(self, name)
            if isinstance(place, str | os.PathLike) and os.path.isfile(place):
                raise ValueError(f"{name} must be a folder, but {os.fspath(place)!r} is a file.")
            if getattr(self, name) is not None and not isinstance(
                self.random_state, numbers.Integral
            ):
                raise ValueError(
                    f"{name} needs an integer random_state, got {self.random_state!r}: with any "
                    "other no fit is like the one before."
                )
        check_memory(self.memory)

    # -- the algorithm --------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """Algorithm 1 of the paper, with the reading of its released code.

        M1 is the student, M2 the teacher, C the sample, L the labelled and U the unlabelled
        documents, S the remembered class distributions.
        """
        sizes = self._sample_sizes(data.n_unlabeled)
        learned, held = self._split(data)
        run = Run(self, net, learned, sizes, held)
        with run.progress:
            now = run.resumed() or run.supervised_start()
            for t in range(now.t + 1, len(sizes) + 1):
                if run.out_of_patience(now):
                    break
                rows = draw_sample(data.n_unlabeled, sizes[t - 1], run.rng(t))
                C = select_rows(net, data.X_unlabeled, rows)  # step 4
                P, q = run.soft_labels(now, rows, C)  # steps 3, 5 and 7
                now = replace(now, M2=())  # who taught before is done with, and its memory free
                S = now.S
                if self.distillation:  # step 6
                    inertia = inertial_transform(
                        P,
                        S,
                        self.alpha,
                        variance=self.inertia_variance,  # type: ignore[arg-type]
                        new_state=self.inertia_state,  # type: ignore[arg-type]
                    )
                    P, S = inertia.P, inertia.state
                    run.note_groups(inertia.before, inertia.after)
                codes = predicted_classes(P)
                run.note_changes(now.pseudo[rows], codes)
                M1 = run.student(t, C, P, q)  # steps 8 to 10
                now = run.end_iteration(now.followed_by(M1, S, rows, codes))
        run.complete()

        self.n_iter_ = self.best_iter_ = now.t
        self.teacher_, self.student_ = now.M2[0], now.M1[0]
        self.estimators_ = list(now.ensemble)
        self.class_shares_, self.logit_adjustment_ = run.adjustment.shares, now.tau
        if now.best is not None:
            scores = [entry["validation_score"] for entry in run.history]
            warn_unless_better(scores, now.best.t, restored=self.restore_best, stacklevel=3)
            if self.restore_best:
                self.best_iter_ = now.best.t
                self.teacher_, self.student_ = now.best.M2[0], now.best.M1[0]
                self.estimators_ = list(now.best.ensemble)
                self.logit_adjustment_ = now.best.tau
        self.sample_sizes_ = sizes[: now.t]
        self.history_ = run.history
        self._file_pseudo_labels(data, now.pseudo, now.labeled_iter)
        if now.t < len(sizes):
            self.termination_condition_ = "early_stopping"
        elif data.n_unlabeled == 0:
            self.termination_condition_ = "no_unlabeled"
        else:
            complete = bool(sizes) and sizes[-1] == data.n_unlabeled
            self.termination_condition_ = "all_labeled" if complete else "max_iter"

    def _together(self, P: Sequence[FloatArray]) -> FloatArray:
        return logit_adjusted(super()._together(P), self.class_shares_, self.logit_adjustment_)

    def _split(self, data: SemiSupervisedData) -> tuple[SemiSupervisedData, HoldOut | None]:
        """Hold out documents for validation, if asked to; the others are learned from."""
        positive = positive_code(data.classes, self.pos_label)
        if self.validation_fraction is None:
            return data, None
        held = hold_out(
            data,
            self.validation_fraction,
            np.random.default_rng(derive_seed(root_seed(self.random_state), 0, 3)),
            positive=positive,
            otherwise="All of them are learned from, and the last nets are kept.",
            remedy="Label more rows of the rare classes, or set validation_fraction=None.",
            stacklevel=4,
        )
        if held is None:
            return data, None
        learned = replace(
            data,
            X_labeled=multi_indexing(data.X_labeled, held.train),
            y=data.y[held.train],
            weights=weights_of(data.weights, held.train, 0),
        )
        return learned, held

    def _sample_sizes(self, n_unlabeled: int) -> list[int]:
        if n_unlabeled == 0:
            return []
        step = resolve_step_size(self.step_size, n_unlabeled, "step_size")
        first = self.initial_step_size
        if first is not None:
            first = resolve_step_size(first, n_unlabeled, "initial_step_size")
        sizes = growing_sample_sizes(n_unlabeled, step, first, self.max_iter)
        if self.alpha > 0 and len(sizes) == 1 and self.distillation:
            ended = sizes[0] < n_unlabeled
            cause = f"max_iter={self.max_iter}" if ended else f"step_size={self.step_size}"
            warnings.warn(
                f"alpha={self.alpha} has no effect: with {cause} and {n_unlabeled} unlabelled "
                "documents there is one iteration only, and inertia needs an earlier one. Use a "
                f"{'greater max_iter' if ended else 'smaller step_size'}, or alpha=0.",
                UserWarning,
                stacklevel=4,
            )
        return sizes
