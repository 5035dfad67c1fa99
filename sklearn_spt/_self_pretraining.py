"""Self-Pretraining: the method of Karisani & Karisani (WSDM 2021)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from skorch import NeuralNet
from skorch.dataset import get_len
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._callbacks import RightTrapezoidalLR, ScheduledLR
from sklearn_spt._functional import (
    inertial_transform,
    mean_probabilities,
    predicted_classes,
    tempered_softmax,
)
from sklearn_spt._losses import distillation_targets, one_hot
from sklearn_spt._progress import Progress
from sklearn_spt._sampling import (
    derive_seed,
    draw_sample,
    growing_sample_sizes,
    resolve_step_size,
)
from sklearn_spt._schedules import slanted
from sklearn_spt._training import (
    check_outputs,
    fresh_net,
    isolated,
    n_steps,
    predict_logits,
    release_optimizer,
    root_seed,
    set_loss,
    train,
)
from sklearn_spt._validation import check_flag, check_integer, check_option, check_real

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Iteration:
    """What ``on_iteration`` is called with after each iteration.

    Attributes
    ----------
    number : int
        0 is the supervised start, then 1, 2, ...
    student : skorch.NeuralNet
        The net trained in this iteration.
    teacher : skorch.NeuralNet
        The net that labelled for it; the student itself at the start.
    record : dict
        The entry of ``history_``.
    """

    number: int
    student: NeuralNet
    teacher: NeuralNet
    record: dict[str, Any]
    _model: SelfPretrainingClassifier
    _n_classes: int

    def predict_proba(self, X: Any, which: str = "ensemble") -> FloatArray:
        """Probabilities of the "student", the "teacher", or their "ensemble" (the mean).

        This is what the fitted classifier would return if the fit ended here.
        """
        check_option(which, "which", ("ensemble", "student", "teacher"))
        nets = {
            "student": [self.student],
            "teacher": [self.teacher],
            "ensemble": [self.teacher, self.student],
        }[which]
        with isolated():
            encoded = self._model._encode(self.student, X, reset=False)
            return mean_probabilities(
                *(tempered_softmax(predict_logits(n, encoded, self._n_classes)) for n in nets)
            )


class SelfPretrainingClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by Self-Pretraining.

    A teacher, trained on the labelled documents, gives soft pseudo-labels to a sample of the
    unlabelled ones. A fresh student is first trained on the pseudo-labels alone and then on the
    labelled documents, guided by both the true labels and the teacher. The student becomes the
    next teacher and the sample grows, until it holds all unlabelled documents. The prediction is
    the mean of the last teacher and the last student.

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
    temperature : float > 0, default=3.0
        T of the soft labels and of the distillation loss (the paper's value).
    step_size : int or float, default=0.2
        k, by which the sample grows: a number of documents, or a float in (0, 1] for a share of
        the unlabelled ones. 0.2 is the paper's 2,000 of 10,000 and gives five iterations.
    initial_step_size : int, float or None, default=None
        Size of the first sample; None is `step_size`. (The paper's code starts with half of it.)
    max_iter : int or None, default=None
        Greatest number of iterations; None goes on until the sample holds all unlabelled
        documents. 0 is supervised training.
    pretrain_epochs : int, default=1
        Epochs over the pseudo-labelled sample (stage 1).
    finetune_epochs : int, default=3
        Epochs over the labelled documents (stage 2, and the first teacher).
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
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are one marker.
    on_iteration : callable or None, default=None
        Called as ``on_iteration(iteration)`` after the supervised start and after each iteration;
        ``iteration.number``, ``iteration.record`` and ``iteration.predict_proba(X, which=...)``
        score intermediate students. Must be picklable for process pools.
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
        The last teacher and the last student; the same net if there was no iteration.
    estimators_ : list of skorch.NeuralNet
        ``[teacher_, student_]``.
    n_iter_ : int
        Number of iterations.
    sample_sizes_ : list of int
        Size of the sample of each iteration.
    transduction_ : ndarray of shape (n_rows,)
        Given labels, and the last pseudo-label of each unlabelled row (the marker if it was never
        drawn): the rows of X, then those of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration of the last pseudo-label; 0 for labelled rows, -1 for rows never drawn.
    termination_condition_ : {"all_labeled", "max_iter", "no_unlabeled"}
        Why the fit ended.
    n_threads_ : int
        Number of torch's CPU threads during the fit: results are identical for the same number.
    history_ : list of dict
        One entry for the start and for each iteration: ``iteration``, ``sample_size``,
        ``pseudo_label_counts``, ``loss`` (mean of each epoch by stage), ``groups_before`` and
        ``groups_after`` inertia (count, mean and variance by class), ``seconds`` by phase.

    See Also
    --------
    BertClassifier : The default net, and supervised baseline.
    sklearn.semi_supervised.SelfTrainingClassifier : Plain self-training.

    References
    ----------
    .. [1] Payam Karisani and Negin Karisani, "Semi-Supervised Text Classification via
       Self-Pretraining", WSDM 2021, https://doi.org/10.1145/3437963.3441814

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
        temperature: float = 3.0,
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
        unlabeled_marker: Any = -1,
        on_iteration: Callable[[Iteration], None] | None = None,
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
        self.unlabeled_marker = unlabeled_marker
        self.on_iteration = on_iteration
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        check_real(self.lam, "lam", low=0, high=1)
        check_real(self.alpha, "alpha", low=0, high=1)
        check_real(self.temperature, "temperature", low=0, closed="neither")
        resolve_step_size(self.step_size, 1, "step_size")
        if self.initial_step_size is not None:
            resolve_step_size(self.initial_step_size, 1, "initial_step_size")
        check_integer(self.max_iter, "max_iter", low=0, allow_none=True)
        check_integer(self.pretrain_epochs, "pretrain_epochs", low=0)
        check_integer(self.finetune_epochs, "finetune_epochs", low=0)
        for name in ("balanced_batches", "two_stage", "distillation", "reset_optimizer"):
            check_flag(getattr(self, name), name)
        check_option(self.lr_schedule, "lr_schedule", ("right_trapezoidal", "slanted"))
        check_option(self.inertia_variance, "inertia_variance", ("linear", "independent"))
        check_option(self.inertia_state, "inertia_state", ("ema", "raw"))
        if self.on_iteration is not None and not callable(self.on_iteration):
            raise TypeError(f"on_iteration must be callable or None, got {self.on_iteration!r}.")

    # -- the algorithm --------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """Algorithm 1 of the paper, with the reading of its released code.

        M1 is the student, M2 the teacher, C the sample, L the labelled and U the unlabelled
        documents, S the remembered class distributions.
        """
        sizes = self._sample_sizes(data.n_unlabeled)
        run = _Run(self, net, data, sizes)
        pseudo = np.full(data.n_unlabeled, -1, dtype=np.int64)
        labeled_iter = np.full(data.n_unlabeled, -1, dtype=np.int64)
        S: dict[int, tuple[float, float]] = {}
        with run.progress:
            M1 = M2 = run.supervised_start()
            for t, size in enumerate(sizes, start=1):
                M2 = M1
                rows = draw_sample(data.n_unlabeled, size, run.rng(t))
                C = multi_indexing(data.X_unlabeled, rows)
                P = run.soft_labels(M2, C)
                q = run.soft_labels(M2, data.X_labeled)
                if self.distillation:
                    inertia = inertial_transform(
                        P,
                        S,
                        self.alpha,
                        variance=self.inertia_variance,
                        new_state=self.inertia_state,
                    )
                    P, S = inertia.P, inertia.state
                    run.note_groups(inertia.before, inertia.after)
                pseudo[rows], labeled_iter[rows] = predicted_classes(P), t
                M1 = run.student(t, C, P, q)
                run.end_iteration(t, M1, M2)
        release_optimizer(M1)

        self.teacher_, self.student_ = M2, M1
        self.estimators_ = [M2, M1]
        self.n_iter_ = len(sizes)
        self.sample_sizes_ = sizes
        self.history_ = run.history
        self.transduction_ = self._transduction(data, pseudo)
        self.labeled_iter_ = np.zeros(len(data.labeled), dtype=np.int64)
        self.labeled_iter_[~data.labeled] = labeled_iter
        complete = bool(sizes) and sizes[-1] == data.n_unlabeled
        self.termination_condition_ = (
            "no_unlabeled" if not data.n_unlabeled else "all_labeled" if complete else "max_iter"
        )

    def _sample_sizes(self, n_unlabeled: int) -> list[int]:
        if n_unlabeled == 0:
            return []
        step = resolve_step_size(self.step_size, n_unlabeled, "step_size")
        first = self.initial_step_size
        if first is not None:
            first = resolve_step_size(first, n_unlabeled, "initial_step_size")
        sizes = growing_sample_sizes(n_unlabeled, step, first, self.max_iter)
        if self.alpha > 0 and len(sizes) == 1 and self.distillation:
            warnings.warn(
                f"alpha={self.alpha} has no effect: with step_size={self.step_size} and "
                f"{n_unlabeled} unlabelled documents there is one iteration only, and inertia "
                "needs an earlier one. Use a smaller step_size, or alpha=0.",
                UserWarning,
                stacklevel=5,
            )
        return sizes


class _Run:
    """One fit in progress: trains nets by the parameters of the model and keeps the records."""

    def __init__(
        self,
        model: SelfPretrainingClassifier,
        net: NeuralNet,
        data: SemiSupervisedData,
        sizes: list[int],
    ) -> None:
        self.model = model
        self.net = net
        self.data = data
        self.root = root_seed(model.random_state)
        self.history: list[dict[str, Any]] = []
        self.record: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        L = len(data.y)
        per_student = model.finetune_epochs * L
        on_sample = model.pretrain_epochs if model.two_stage else model.finetune_epochs
        texts = per_student + sum((1 + on_sample) * size + L + per_student for size in sizes)
        self.progress = Progress(texts, model.verbose, "self-pretraining")
        # hard labels, scaled by the weights of the user
        self.hard = one_hot(data.y, data.n_classes)
        # at T = 1 the soft terms are plain cross-entropies against one-hot pseudo-labels
        self.T = model.temperature if model.distillation else 1.0

    def rng(self, t: int) -> np.random.Generator:
        """Draws the sample of iteration `t`; a function of `t` alone."""
        return np.random.default_rng(derive_seed(self.root, t, 1))

    def supervised_start(self) -> NeuralNet:
        """Step 1: a fresh net, trained on L with hard labels and a slanted rate."""
        model, data = self.model, self.data
        seed = derive_seed(self.root, 0)
        start = time.perf_counter()
        with isolated(seed):
            M = fresh_net(self.net, data.classes, model.finetune_epochs)
            with isolated(seed):  # a look at the outputs must not shift the random stream
                check_outputs(M, multi_indexing(data.X_labeled, np.arange(1)), data.n_classes)
            targets = distillation_targets(self.hard, None, data.weights)
            steps = n_steps(M, data.X_labeled, targets, model.finetune_epochs)
            loss = self._train(
                M,
                data.X_labeled,
                targets,
                data.y,
                epochs=model.finetune_epochs,
                schedule=ScheduledLR(partial(slanted, n_steps=steps)).initialize(),
                rng=np.random.default_rng(seed),
            )
        self.record["loss"] = {"supervised": loss}
        self.seconds["supervised"] = time.perf_counter() - start
        self.end_iteration(0, M, M)
        return M

    def soft_labels(self, M2: NeuralNet, X: Any) -> FloatArray:
        """Steps 5 and 7: the teacher's tempered probabilities, or one-hot labels without T."""
        start = time.perf_counter()
        P = tempered_softmax(predict_logits(M2, X, self.data.n_classes), self.T)
        if not self.model.distillation:
            P = one_hot(predicted_classes(P), self.data.n_classes).astype(np.float64)
        self.progress.advance(get_len(X))
        self.seconds["labeling"] = (
            self.seconds.get("labeling", 0.0) + time.perf_counter() - start
        )
        return P

    def note_groups(self, before: dict[int, Any], after: dict[int, Any]) -> None:
        """Keep the class distributions before and after inertia."""
        for name, groups in (("groups_before", before), ("groups_after", after)):
            self.record[name] = {
                _key(self.data.classes[c]): {
                    "count": g.count,
                    "mean": g.mean,
                    "variance": g.variance,
                }
                for c, g in groups.items()
            }

    def student(self, t: int, C: Any, P: FloatArray, q: FloatArray) -> NeuralNet:
        """Steps 8 to 10: a fresh net, trained on the pseudo-labels and then on L."""
        data = self.data
        codes = predicted_classes(P)
        counts = np.bincount(codes, minlength=data.n_classes).tolist()
        self.record["pseudo_label_counts"] = {
            _key(label): count for label, count in zip(data.classes, counts, strict=True)
        }
        on_C = distillation_targets(np.zeros_like(P), P)
        on_L = distillation_targets(self.hard, q, data.weights)
        with isolated(derive_seed(self.root, t)):
            if self.model.two_stage:
                return self._two_stages(t, C, on_C, codes, on_L)
            return self._one_stage(t, C, on_C, codes, on_L)

    def _two_stages(
        self,
        t: int,
        C: Any,
        on_C: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int64],
        on_L: npt.NDArray[np.float32],
    ) -> NeuralNet:
        model, data = self.model, self.data
        M1 = fresh_net(self.net, data.classes, model.pretrain_epochs)
        n_C = n_steps(M1, C, on_C, model.pretrain_epochs)
        n_L = n_steps(M1, data.X_labeled, on_L, model.finetune_epochs)
        schedule = (
            RightTrapezoidalLR(n_constant=n_C, n_decay=max(n_L, 1))
            if model.lr_schedule == "right_trapezoidal"
            else ScheduledLR(partial(slanted, n_steps=n_C + n_L))
        ).initialize()
        rng = np.random.default_rng(derive_seed(self.root, t, 2))
        start = time.perf_counter()
        # stage 1: distillation alone, on the pseudo-labelled sample
        set_loss(M1, lam=1.0, temperature=self.T, max_epochs=model.pretrain_epochs)
        stage1 = self._train(
            M1, C, on_C, codes, epochs=model.pretrain_epochs, schedule=schedule, rng=rng
        )
        middle = time.perf_counter()
        # stage 2: true labels and distillation, mixed by λ
        set_loss(
            M1,
            lam=model.lam,
            temperature=self.T,
            max_epochs=model.finetune_epochs,
            reset_optimizer=model.reset_optimizer,
        )
        stage2 = self._train(
            M1,
            data.X_labeled,
            on_L,
            data.y,
            epochs=model.finetune_epochs,
            schedule=schedule,
            rng=rng,
        )
        self.record["loss"] = {"stage1": stage1, "stage2": stage2}
        self.seconds.update(stage1=middle - start, stage2=time.perf_counter() - middle)
        return M1

    def _one_stage(
        self,
        t: int,
        C: Any,
        on_C: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int64],
        on_L: npt.NDArray[np.float32],
    ) -> NeuralNet:
        """Ablation: one run over C and L together, with a slanted rate."""
        model, data = self.model, self.data
        M1 = fresh_net(self.net, data.classes, model.finetune_epochs)
        X = _joined(C, data.X_labeled)
        # λ differs from row to row here, so it is multiplied into the targets
        K = data.n_classes
        mixed = on_L * np.repeat([1 - model.lam, model.lam], K).astype(np.float32)
        targets = np.concatenate([on_C, mixed])
        steps = n_steps(M1, X, targets, model.finetune_epochs)
        start = time.perf_counter()
        set_loss(M1, lam=None, temperature=self.T, max_epochs=model.finetune_epochs)
        loss = self._train(
            M1,
            X,
            targets,
            np.concatenate([codes, data.y]),
            epochs=model.finetune_epochs,
            schedule=ScheduledLR(partial(slanted, n_steps=steps)).initialize(),
            rng=np.random.default_rng(derive_seed(self.root, t, 2)),
        )
        self.record["loss"] = {"one_stage": loss}
        self.seconds["one_stage"] = time.perf_counter() - start
        return M1

    def _train(
        self,
        M: NeuralNet,
        X: Any,
        targets: npt.NDArray[np.float32],
        codes: npt.NDArray[np.int64],
        *,
        epochs: int,
        schedule: ScheduledLR,
        rng: np.random.Generator,
    ) -> list[float]:
        return train(
            M,
            X,
            targets,
            codes,
            epochs=epochs,
            schedule=schedule,
            balanced=self.model.balanced_batches,
            rng=rng,
            progress=self.progress,
        )

    def end_iteration(self, t: int, M1: NeuralNet, M2: NeuralNet) -> None:
        """Step 11: file the record, free memory, tell the user's callback."""
        drawn = sum(self.record.get("pseudo_label_counts", {}).values())
        entry = {"iteration": t, "sample_size": drawn, **self.record, "seconds": self.seconds}
        self.history.append(entry)
        self.record, self.seconds = {}, {}
        release_optimizer(M2)
        self.progress.say(f"iteration {t}")
        if self.model.on_iteration is not None:
            self.model.on_iteration(
                Iteration(t, M1, M2, entry, self.model, self.data.n_classes)
            )


def _key(label: Any) -> Any:
    """A class label as a plain Python object, so that history can be written as JSON."""
    return label.item() if isinstance(label, np.generic) else label


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {key: np.concatenate([first[key], second[key]]) for key in first}
    return np.concatenate([first, second])
