"""Self-Pretraining: the method of Karisani & Karisani (WSDM 2021)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_memory
from skorch import NeuralNet
from skorch.utils import multi_indexing
from tqdm.auto import tqdm

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt._checkpoint import Checkpoint, Iteration, State
from sklearn_spt._class_distributions import (
    class_shares,
    inertia,
    logit_adjusted,
    tempered,
)
from sklearn_spt._data import PartlyLabeled, class_counts, share_of
from sklearn_spt._estimator import progress_bar
from sklearn_spt._labels import Codes, FloatArray, check_scalar, check_step_size, warn_user
from sklearn_spt._losses import predicted_codes
from sklearn_spt._random import generator
from sklearn_spt._stages import (
    Plan,
    chosen_by_auto,
    mean_losses,
    train_student,
    train_teacher,
)
from sklearn_spt._teachers import label, split_teachers
from sklearn_spt._training import RightTrapezoidalLR, Trainer, set_loss


@dataclass(eq=False, repr=False)
class SelfPretrainingClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by Self-Pretraining.

    Teachers, trained on the labelled documents, give soft pseudo-labels to a sample of the
    unlabelled ones. Fresh students are trained on the pseudo-labels, and then on the labelled
    documents, with the true labels and with distillation from the teachers. The students become
    the next teachers and the sample grows, until it holds all unlabelled documents.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string is ``BertClassifier(pretrained=...)``. The method trains
        clones of the net, and sets their ``train_split=None``, criterion, ``max_epochs``,
        learning-rate callback and ``classes``.
    lam : float in [0, 1], default=0.3
        λ, the weight of distillation in stage 2; 0 uses the true labels only (paper: 0.3).
    alpha : float in [0, 1], default=0.1
        α, the inertia of the class distributions of the pseudo-labels; 0 is none (paper: 0.1).
    temperature : float in [0.01, 100], default=1.0
        T of the soft labels and of the distillation loss. 1 keeps the teachers' probabilities. It
        gave better Brier scores than the paper's 3, at the same F1.
    step_size : int, float or "auto", default="auto"
        k, the growth of the sample in each iteration: a number of documents, or a float in (0, 1]
        for a share of the unlabelled ones. "auto" is 1.0, one iteration, where `refit_head` acts,
        else 0.2 (paper: 2,000 of 10,000).
    max_iter : int or None, default=None
        Maximum number of iterations. None iterates until the sample holds all unlabelled
        documents. 0 trains on the labelled documents only.
    teacher : None, "nets", "embeddings", estimator or list of these, default=None
        The first teachers. None or "nets" are nets that are trained on the labelled documents
        (paper). "embeddings" is `SoftSelfTrainingClassifier` on frozen embeddings by the encoder of
        the net, which takes seconds. An estimator or pipeline is cloned, seeded where its
        `random_state` is None, and fitted on the documents as they were given, with class codes 0
        to K - 1 as y, -1 at unlabelled rows, and the weights if its fit takes them. The classes of
        a fitted one, in a FrozenEstimator, are labels. For a list, their mean probabilities are
        used. Without "nets", only the students predict.
    n_teachers : int, default=1
        Number of nets that are trained on the labelled documents (paper: 1). They are the
        first teachers, and by default they predict, too.
    n_students : int, default=1
        Number of students of each iteration, which differ in their seeds (paper: 1).
    pretrain_epochs : int, default=1
        Epochs over the pseudo-labelled sample (stage 1). The default is the paper's.
    token_deletion : float in [0, 1), default=0.0
        Probability with which each token of a text is deleted in stage 1, anew in each epoch. It
        needs a net that reads token ids, such as `BertClassifier`. 0 is the paper's.
    finetune_epochs : int or "auto", default="auto"
        Epochs over the labelled documents, in stage 2 and of the first teachers. "auto" is 10 where
        `refit_head` acts with at most 10 labelled documents per class on average and 100 in all,
        else 3 (paper).
    balanced_batches : bool, default=True
        Whether training draws all classes equally often, as the paper's code does.
    refit_head : bool or "auto", default="auto"
        Whether the linear layer of each net is fitted anew after its training, by
        `SoftSelfTrainingClassifier` on the net's vectors of all documents. "auto" does so for a
        `BertClassifier` with up to 30 labelled documents per class on average (paper: False).
    ensemble : {"last", "last_two", "all"}, default="all"
        Nets that predict. "last": the last students; "last_two": their teachers, too (paper);
        "all": the first teachers, too, which together weigh as much as one student.
    logit_adjustment : float in [0, 1] or "auto", default="auto"
        τ [2]_: the probability of a class is multiplied by the τ-th power of its share among the
        labelled documents, since balanced batches make nets predict rare classes too often. 0
        corrects nothing (the paper), 1 corrects in full. "auto" chooses the τ in [0, 0.5] with
        which the predicted class shares of up to 1,000 unlabelled documents come closest to those
        of the labelled ones; with fewer than 50 it gives 0. Set 0 if the labelled documents are
        not a random sample.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are equivalent.
    on_iteration : callable or None, default=None
        Called with an `Iteration` after the first teachers and after each iteration. Use it to
        score intermediate nets. It must be picklable for process pools. A fit that resumes does not
        repeat earlier calls.
    memory : str, joblib.Memory or None, default=None
        Folder for results that do not depend on `lam` and `alpha`, which the candidates of a search
        share: the first teachers, and stage 1 of the first students. It needs an integer
        `random_state` and holds pickles: use a folder of your own. Clear it when code changes.
    checkpoint_dir : str, path-like or None, default=None
        Folder for the state after each iteration. The same fit, started again after a kill, goes on
        there and gives the same result; a complete fit removes its state. It needs an integer
        `random_state`.
    random_state : int, RandomState or None, default=None
        Seed of all random numbers; the net's own ``random_state`` has no effect.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    students_ : list of skorch.NeuralNet
        Students of the last iteration; the first teachers if there was none.
    estimators_ : list of skorch.NeuralNet
        The nets that predict, each once; see `ensemble`.
    estimator_weights_ : ndarray of shape (n_estimators,)
        Their weights in the mean: 1 for each student; the first teachers share 1.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among the labelled documents.
    refit_head_, finetune_epochs_, step_size_, logit_adjustment_ : bool, int, float or int, float
        These parameters, as given or as "auto" chose them.
    chosen_by_auto_ : str
        The first three, where "auto" chose them, and why.
    calibration_temperature_ : float
        Temperature of the predicted probabilities, from 1 to 20. Above 1 it makes them less
        certain and changes no prediction. It is 1 unless `refit_head` acts: then the mean greatest
        probability of the unlabelled documents is that of logistic regressions on the labelled ones
        alone, on the vectors of the same nets.
    n_iter_ : int
        Number of iterations.
    sample_sizes_ : list of int
        Size of the sample of each iteration.
    transduction_ : ndarray of shape (n_rows,)
        Given label, or last pseudo-label, or the marker for rows never drawn. First the rows of X,
        then those of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration of the last pseudo-label; 0 for labelled rows, -1 for rows never drawn.
    termination_condition_ : {"all_labeled", "max_iter", "no_unlabeled"}
        Reason why the fit ended.
    history_ : list of dict
        One entry for the first teachers and one for each iteration, for ``pandas.DataFrame``:
        ``iteration``, ``sample_size``, ``loss`` (by stage and epoch), ``groups`` (count, mean and
        variance of each predicted class before inertia, by code), ``changed`` (share of earlier
        pseudo-labels that changed), ``pseudo_label_counts``, ``seconds``.

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
    >>> clf = SelfPretrainingClassifier(random_state=0)
    >>> clf.fit(texts, y).predict(texts)  # doctest: +SKIP
    """

    estimator: Any = None
    _: KW_ONLY
    lam: float = 0.3
    alpha: float = 0.1
    temperature: float = 1.0
    step_size: float | str = "auto"
    max_iter: int | None = None
    teacher: Any = None
    n_teachers: int = 1
    n_students: int = 1
    pretrain_epochs: int = 1
    token_deletion: float = 0.0
    finetune_epochs: int | str = "auto"
    balanced_batches: bool = True
    refit_head: bool | str = "auto"
    ensemble: str = "all"
    logit_adjustment: float | str = "auto"
    unlabeled_marker: Any = -1
    on_iteration: Callable[[Iteration], None] | None = None
    memory: str | joblib.Memory | None = None
    checkpoint_dir: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    # Steps that an ablation replaces: both stages, inertia, the learning rate over n_C steps of
    # stage 1 and n_L steps of stage 2, and the loss of stage 2 (with an optimiser of its own).
    _train_student = train_student
    _inertia = staticmethod(inertia)
    _schedule = RightTrapezoidalLR
    _set_loss = staticmethod(set_loss)

    def _check_params(self) -> None:
        for name in ("finetune_epochs", "logit_adjustment"):
            if isinstance(value := getattr(self, name), str) and value != "auto":
                raise ValueError(f'{name} must be a number or "auto", got {value!r}.')
        if self.finetune_epochs != "auto":
            super()._check_params()
        for name, low, high in (("lam", 0, 1), ("alpha", 0, 1), ("temperature", 0.01, 100)):
            check_scalar(getattr(self, name), name, Real, min_val=low, max_val=high)
        for name, least in (("n_teachers", 1), ("n_students", 1), ("pretrain_epochs", 0)):
            check_scalar(getattr(self, name), name, Integral, min_val=least)
        if self.max_iter is not None:
            check_scalar(self.max_iter, "max_iter", Integral, min_val=0)
        check_step_size(self.step_size)
        share = {"min_val": 0, "max_val": 1, "include_boundaries": "left"}
        check_scalar(self.token_deletion, "token_deletion", Real, **share)
        split_teachers(self.teacher)
        named = {"refit_head": (True, False, "auto"), "ensemble": ("last", "last_two", "all")}
        for name, options in named.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {options}, got {getattr(self, name)!r}.")
        if self.logit_adjustment != "auto":
            check_scalar(self.logit_adjustment, "logit_adjustment", Real, min_val=0, max_val=1)
        if self.on_iteration is not None and not callable(self.on_iteration):
            raise TypeError(f"on_iteration must be callable, got {self.on_iteration!r}.")
        for name in ("memory", "checkpoint_dir"):
            if getattr(self, name) is not None and not isinstance(self.random_state, Integral):
                raise ValueError(f"{name} needs an integer random_state, to find a fit again.")

    # -- Algorithm 1 ----------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: PartlyLabeled) -> None:
        """Run Algorithm 1 of the paper; steps have the numbers of ``docs/guide/method.md``.

        L are the labelled and U the unlabelled documents, C is the sample. P and q are the
        teachers' soft labels of C and L, S are the class distributions for inertia.
        """
        plan = self._plan(net, len(data.y), data.n_classes, data.n_unlabeled)
        self._say(plan, data.n_unlabeled)
        work, size = sum(plan.work), net.batch_size
        with progress_bar(self.verbose, work, "first teachers", size) as bar:
            trainer = self._trainer(net, data, bar, plan.finetune_epochs)
            trainer.refit_with = data.U if plan.refit_head else None
            folder = self.checkpoint_dir
            checkpoint = None if folder is None else Checkpoint(folder, self, trainer, data)
            state = self._start(trainer, data, plan.n_nets, checkpoint)  # step 1
            for t in range(state.t + 1, len(plan.sizes) + 1):
                start = time.perf_counter()
                bar.set_description(f"iteration {t} of {len(plan.sizes)}")
                bar.update(sum(plan.work[:t]) - bar.n)
                rng = generator(trainer.root, t, 1)
                rows = rng.choice(data.n_unlabeled, plan.sizes[t - 1], replace=False)  # step 2
                P, q = self._soft_labels(trainer, data, state, rows, plan.others)  # step 3
                P, S, groups = self._inertia(P, state.S, self.alpha)  # step 4
                state, C = state.kept(self.ensemble), multi_indexing(data.U, rows)
                trained = [  # steps 5 and 6
                    self._train_student(trainer, data, t, i, C, P, q)
                    for i in range(self.n_students)
                ]
                students, codes = [M for M, _ in trained], predicted_codes(P)
                refits = trainer.refit(students, *data.L)
                record = {
                    "groups": groups,
                    "pseudo_label_counts": class_counts(codes, data.classes),
                    "loss": mean_losses([loss for _, loss in trained]),
                    "seconds": time.perf_counter() - start,
                }
                state = state.following(students, refits, S, rows, codes, record)  # step 7
                self._end_iteration(trainer, data, state, checkpoint)
            adjustment = self._adjustment(trainer, data, state)
            bar.update(sum(plan.work) - bar.n)
        if checkpoint is not None:
            checkpoint.remove()
        self._set_results(data, plan, state, adjustment)

    def _start(
        self, trainer: Trainer, data: PartlyLabeled, n_nets: int, checkpoint: Checkpoint | None
    ) -> State:
        """Train the first teachers, or find the state that an earlier run left."""
        if checkpoint is not None and (found := checkpoint.load()) is not None:
            if self.verbose:
                where = f"goes on after iteration {found.t}, from {checkpoint.folder}"
                tqdm.write(where, file=sys.stderr)
            return found
        start = time.perf_counter()
        teach = check_memory(self.memory).cache(train_teacher)
        taught = [teach(trainer, *data.L, number) for number in range(n_nets)]
        nets = [M for M, _ in taught]
        refits = trainer.refit(nets, *data.L)
        record = {
            "iteration": 0,
            "sample_size": 0,
            "loss": mean_losses([loss for _, loss in taught]),
            "seconds": time.perf_counter() - start,
        }
        never = np.full(data.n_unlabeled, -1, dtype=np.intp)
        state = State(0, {0: nets}, {}, never, never, [record], {0: refits} if refits else {})
        if nets:
            self._end_iteration(trainer, data, state, checkpoint)
        return state

    def _soft_labels(
        self, trainer: Trainer, data: PartlyLabeled, state: State, rows: Codes, others: list[Any]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the teachers' mean tempered probabilities of some rows of U, and of L.

        All nets are one teacher. Others teach in the first iteration only.
        """
        T, C = self.temperature, multi_indexing(data.U, rows)
        P, q = [], []
        if state.refits:
            P = [softmax(refit.on_U[rows] / T, axis=1) for refit in state.refits[state.t]]
            q = [softmax(refit.on_L / T, axis=1) for refit in state.refits[state.t]]
        elif state.students:
            P = [trainer.probabilities(M, C, T) for M in state.students]
            q = [trainer.probabilities(M, data.X, T) for M in state.students]
        P, q = ([np.mean(part, axis=0)] if part else [] for part in (P, q))
        if others and state.t == 0:
            on_U, on_L = label(others, trainer, data, T)
            P, q = P + [on_U[rows]] * len(others), q + [on_L] * len(others)
        return np.asarray(np.mean(P, axis=0)), np.asarray(np.mean(q, axis=0))

    # -- the plan -------------------------------------------------------------------------------
    def _plan(self, net: NeuralNet, n_L: int, n_classes: int, n_U: int) -> Plan:
        """Decide what a fit on so many labelled and unlabelled documents does."""
        if self.token_deletion and not hasattr(net, "pretrained"):
            raise ValueError(
                f"token_deletion={self.token_deletion} needs a net that reads token ids, such as "
                f"BertClassifier, but estimator is a {type(net).__name__}; set token_deletion=0."
            )
        refit, epochs, step, chosen = chosen_by_auto(self, net, n_L, n_classes, n_U)
        sizes = self._sample_sizes(n_U, step) if n_U else []
        nets_teach, others = split_teachers(self.teacher)
        n_nets = self.n_teachers if nets_teach or not sizes else 0
        work = self._work(n_nets, n_L, (n_L + n_U) * refit, sizes, epochs)
        return Plan(refit, epochs, step, chosen, n_nets, others, sizes, work)

    def _say(self, plan: Plan, n_unlabeled: int) -> None:
        """Say what "auto" chose; warn of a plan that was hardly meant."""
        if self.verbose and plan.chosen:
            tqdm.write(f'"auto" chose {plan.chosen}', file=sys.stderr)
        if len(plan.sizes) > 100 and self.max_iter is None:
            warn_user(
                f"step_size={self.step_size} makes {len(plan.sizes)} iterations; an int is a "
                "number of documents and a float is a share of them: 1.0 makes one iteration."
            )
        if len(plan.sizes) == 1 and self.alpha not in (0, 0.1):  # not the default
            what = "raise max_iter" if plan.sizes[0] < n_unlabeled else "lower step_size"
            message = f"alpha={self.alpha} has no effect with one iteration; {what}."
            warn_user(message)

    def _sample_sizes(self, n_unlabeled: int, step: Any) -> list[int]:
        """Return the size of the sample of each iteration."""
        if not isinstance(step, Integral):
            step = max(1, share_of(step, n_unlabeled, up=True))
        return [*range(step, n_unlabeled, step), n_unlabeled][: self.max_iter]

    def _work(self, n_nets: int, n_L: int, n_refit: int, sizes: list[int], E2: int) -> list[int]:
        """Return the numbers of texts that each iteration trains on, labels or refits heads on."""
        E1, m = self.pretrain_epochs, self.n_students
        teachers = [n_nets, *[m] * len(sizes)] if not n_refit else [0] * len(sizes)
        return [n_nets * (E2 * n_L + n_refit)] + [
            k * (size + n_L) + m * (E1 * size + E2 * n_L + n_refit)
            for k, size in zip(teachers, sizes, strict=False)
        ]

    # -- after an iteration, and after all ------------------------------------------------------
    def _end_iteration(
        self,
        trainer: Trainer,
        data: PartlyLabeled,
        state: State,
        checkpoint: Checkpoint | None,
    ) -> None:
        if checkpoint is not None:
            checkpoint.save(state)
        if self.on_iteration is not None:
            predict = partial(self._predict_at, trainer, data, state)
            self.on_iteration(Iteration(state.t, state.students, state.history[-1], predict))

    def _predict_at(
        self, trainer: Trainer, data: PartlyLabeled, state: State, X: Any
    ) -> FloatArray:
        """Predict class probabilities as if the fit ended with this state."""
        P = state.predict_proba(self._encode(state.students[0], X), data.n_classes)
        tau, T = self._adjustment(trainer, data, state)
        return tempered(logit_adjusted(P, class_shares(data.y, data.n_classes), tau), T)

    def _adjustment(
        self, trainer: Trainer, data: PartlyLabeled, state: State
    ) -> tuple[float, float]:
        """Return τ and the temperature of predictions."""
        tau = self.logit_adjustment
        if tau == "auto":
            tau = state.choose_tau(data, trainer.root) if self.balanced_batches else 0.0
        return float(tau), state.choose_temperature(data, float(tau))

    def _set_results(
        self, data: PartlyLabeled, plan: Plan, state: State, adjustment: tuple[float, float]
    ) -> None:
        self.logit_adjustment_, self.calibration_temperature_ = adjustment
        self.refit_head_, self.finetune_epochs_ = plan.refit_head, plan.finetune_epochs
        self.step_size_, self.chosen_by_auto_ = plan.step_size, plan.chosen
        self.students_, self.n_iter_ = state.students, state.t
        self.estimators_, self.estimator_weights_ = state.members()
        self.class_shares_ = class_shares(data.y, data.n_classes)
        self.sample_sizes_, self.history_ = plan.sizes, state.history
        self._set_transduction(data, state.pseudo, state.labeled_iter)
        ended = "all_labeled" if plan.sizes and plan.sizes[-1] == data.n_unlabeled else "max_iter"
        self.termination_condition_ = ended if data.n_unlabeled else "no_unlabeled"

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        mean = np.average(P, axis=0, weights=self.estimator_weights_)
        adjusted = logit_adjusted(mean, self.class_shares_, self.logit_adjustment_)
        return tempered(adjusted, self.calibration_temperature_)
