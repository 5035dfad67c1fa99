"""Self-Pretraining: the method of Karisani & Karisani (WSDM 2021)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import joblib
import numpy as np
from skorch import NeuralNet
from skorch.utils import multi_indexing

from sklearn_spt._base import BaseSemiSupervisedClassifier, SemiSupervisedData
from sklearn_spt._functional import mean_probabilities, predicted_classes
from sklearn_spt._holdout import HoldOut, hold_out, positive_code
from sklearn_spt._random import derive_seed, root_seed
from sklearn_spt._typing import FloatArray
from sklearn_spt._validation import check_integer, check_option, check_real, shown
from sklearn_spt.self_pretraining._checkpointing import Checkpoint
from sklearn_spt.self_pretraining._fit_key import fit_key
from sklearn_spt.self_pretraining._logit_adjustment import logit_adjusted
from sklearn_spt.self_pretraining._memory import check_folder, open_memory
from sklearn_spt.self_pretraining._observers import Observers, iteration_entry, warn_unless_better
from sklearn_spt.self_pretraining._sample_sizes import (
    growing_sample_sizes,
    resolve_step_size,
    warn_of_sizes,
)
from sklearn_spt.self_pretraining._state import Iteration, State
from sklearn_spt.self_pretraining._trainer import SelfPretrainingTrainer

# Not in the key of a checkpoint: without effect, or there as the net and the root seed.
_WITHOUT_EFFECT = (
    *("estimator", "memory", "checkpoint_dir", "on_iteration"),
    *("unlabeled_marker", "random_state", "verbose"),
)


class SelfPretrainingClassifier(BaseSemiSupervisedClassifier):
    """Semi-supervised classifier by Self-Pretraining.

    Teachers, trained on the labelled documents, give soft pseudo-labels to a sample of the
    unlabelled ones: the mean of their probabilities. Fresh students are trained on the
    pseudo-labels, and then on the labelled documents, with the true labels and with distillation
    from the teachers. The students become the next teachers and the sample grows, until it holds
    all unlabelled documents. The paper has one teacher and one student.

    Parameters
    ----------
    estimator : None, str or skorch.NeuralNet, default=None
        An unfitted skorch net whose module returns logits of shape (n, n_classes). None is
        ``BertClassifier()``, a string is ``BertClassifier(pretrained=...)``. The method trains
        clones of the net, and sets their ``train_split=None``, criterion, ``max_epochs``,
        learning-rate callback and ``classes``.
    lam : float in [0, 1], default=0.3
        λ, the weight of the distillation loss in stage 2. 0 uses the true labels alone. The
        default is the paper's.
    alpha : float in [0, 1], default=0.1
        α, the inertia of the class distributions of the pseudo-labels. 0 switches it off. The
        default is the paper's.
    temperature : float in [0.01, 100], default=1.0
        T of the soft labels and of the distillation loss. 1 keeps the teachers' probabilities. It
        gave better Brier scores than the paper's 3, at the same F1.
    step_size : int or float, default=0.2
        k, the growth of the sample in each iteration: a number of documents, or a float in (0, 1]
        for a share of the unlabelled ones. Larger steps mean fewer iterations and a faster fit.
        0.2 is the paper's 2,000 of 10,000.
    max_iter : int or None, default=None
        Maximum number of iterations. None iterates until the sample holds all unlabelled
        documents. 0 trains on the labelled documents alone.
    n_starts : int, default=1
        Number of nets that are trained on the labelled documents alone, at least 1. They are the
        first teachers, and by default they predict, too. The default is the paper's.
    n_students : int, default=1
        Number of students of each iteration, at least 1. They differ in their random numbers. The
        default is the paper's. `FOUR_STUDENTS` ranks better than five supervised nets.
    pretrain_epochs : int, default=1
        Epochs over the pseudo-labelled sample (stage 1). The default is the paper's.
    token_deletion : float in [0, 1), default=0.0
        Probability with which each token of a text is deleted in stage 1, anew in each epoch. The
        first and the last token stay. It needs a net that reads token ids, such as
        `BertClassifier`. 0, the default, is the paper's.
    finetune_epochs : int, default=3
        Epochs over the labelled documents (stage 2, and the first teachers). The default is the
        paper's.
    balanced_batches : bool, default=True
        Whether training draws all classes equally often, as the paper's code does.
    ensemble : {"last", "last_two", "with_start"}, default="with_start"
        Nets whose probabilities are averaged. "last" takes the students of the last iteration.
        "last_two" adds their teachers, as the paper does. "with_start" adds the supervised starts,
        too, whose errors differ from those of the students. Together they weigh as one student.
    logit_adjustment : float in [0, 1] or "auto", default="auto"
        τ [2]_: the probability of a class is multiplied by the τ-th power of its share among the
        labelled documents. Balanced batches make nets predict rare classes too often. 0 corrects
        nothing (the paper), 1 corrects in full. "auto" chooses the τ in [0, 0.5] with which the
        predicted class shares of up to 1,000 unlabelled documents come closest to those of the
        labelled ones. It gives
        0 with fewer than 50 unlabelled documents, with equally many labels in each class, and with
        ``balanced_batches=False``. Set 0 if the labelled documents are not a random sample.
    validation_fraction : float in (0, 1) or None, default=None
        Share of the labelled documents to hold out, stratified by class. The nets of the iteration
        with the best score on them are kept. The score is F1 of the last class in sorted order, and
        macro-F1 with more than two classes. A warning says if no iteration beats the supervised
        start. None trains on all labelled documents. A fifth of a few hundred documents is too few
        for a reliable score: use `compare_with_supervised` to judge the classifier.
    unlabeled_marker : number, str or None, default=-1
        Value of y that marks unlabelled rows. None, NaN and NA are equivalent.
    on_iteration : callable or None, default=None
        Called with an `Iteration` after the supervised start and after each iteration. Use it to
        score intermediate nets. It must be picklable for process pools.
    memory : str, path-like, joblib.Memory or None, default=None
        Folder for results that do not depend on `lam` and `alpha`: the first teachers, their
        labels, and stage 1 of the first students. Set it for a search: its candidates share
        them, in parallel processes too. It changes no result and needs an integer `random_state`.
        Clear it when you change the code of a custom module. It holds pickles, so a folder that
        others own or may write to is an error.
    checkpoint_dir : str, path-like or None, default=None
        Folder for the state after each iteration, in safetensors and JSON. The same fit, started
        again after a kill, continues there and gives the same result; a complete fit removes its
        state. It needs an integer `random_state`. The state holds the weights of the nets that
        predict, with `validation_fraction` also those of the best iteration, and a number for each
        unlabelled document. Of a net of your own it keeps parameters and buffers; a net that needs
        more is an error.
    random_state : int, RandomState or None, default=None
        Seed of all random numbers. A fit changes no global random state, and does not use the
        net's own ``random_state``.
    verbose : int, default=0
        0 prints nothing, 1 shows a progress bar, and 2 also a line for each iteration: sample size,
        pseudo-labels, losses, seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels in sorted order.
    n_features_in_ : int
        Number of columns of X; only for numeric X.
    students_ : list of skorch.NeuralNet
        Students of iteration `best_iter_`; the supervised start if it is 0.
    estimators_ : list of skorch.NeuralNet
        The nets that predict, each once; see `ensemble`.
    estimator_weights_ : ndarray of shape (n_estimators,)
        Their weights in the mean: 1 for each student; the supervised starts share 1.
    class_shares_ : ndarray of shape (n_classes,)
        Share of each class among the labelled documents that were trained on.
    logit_adjustment_ : float
        τ, as given or chosen.
    n_iter_ : int
        Number of iterations.
    best_iter_ : int
        Iteration whose nets are kept: the best on held-out documents, or `n_iter_`.
    sample_sizes_ : list of int
        Size of the sample of each iteration.
    transduction_ : ndarray of shape (n_rows,)
        Given label, or last pseudo-label, or the marker for rows never drawn. First the rows of X,
        then those of X_unlabeled.
    labeled_iter_ : ndarray of shape (n_rows,)
        Iteration of the last pseudo-label; 0 for labelled rows, -1 for rows never drawn.
    termination_condition_ : {"all_labeled", "max_iter", "no_unlabeled", "early_stopping"}
        Reason why the fit ended. "early_stopping" means that a callback of scikit-learn ended it.
    n_threads_ : int
        Number of torch's CPU threads during the fit. Results can differ with another number.
    history_ : list of dict
        One entry for the start and one for each iteration. ``loss`` has the loss of each epoch
        by stage, as the mean over the nets, ``groups_before`` and ``groups_after`` the count, mean
        and variance of each class before and after inertia, ``changed`` the share of earlier
        pseudo-labels that changed (None if there are none), ``validation_score`` the score on
        held-out documents, ``seconds`` the time by phase. The other keys are ``iteration``,
        ``sample_size`` and ``pseudo_label_counts``.

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

    _n_subtasks = 1

    #: Trains the nets; ablations replace it.
    _trainer_class = SelfPretrainingTrainer

    def __init__(
        self,
        estimator: Any = None,
        *,
        lam: float = 0.3,
        alpha: float = 0.1,
        temperature: float = 1.0,
        step_size: float = 0.2,
        max_iter: int | None = None,
        n_starts: int = 1,
        n_students: int = 1,
        pretrain_epochs: int = 1,
        token_deletion: float = 0.0,
        finetune_epochs: int = 3,
        balanced_batches: bool = True,
        ensemble: str = "with_start",
        logit_adjustment: float | str = "auto",
        validation_fraction: float | None = None,
        unlabeled_marker: Any = -1,
        on_iteration: Callable[[Iteration], None] | None = None,
        memory: str | os.PathLike[str] | joblib.Memory | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.lam = lam
        self.alpha = alpha
        self.temperature = temperature
        self.step_size = step_size
        self.max_iter = max_iter
        self.n_starts = n_starts
        self.n_students = n_students
        self.pretrain_epochs = pretrain_epochs
        self.token_deletion = token_deletion
        self.finetune_epochs = finetune_epochs
        self.balanced_batches = balanced_batches
        self.ensemble = ensemble
        self.logit_adjustment = logit_adjustment
        self.validation_fraction = validation_fraction
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
        check_real(self.temperature, "temperature", low=0.01, high=100)
        resolve_step_size(self.step_size, 1)
        check_integer(self.max_iter, "max_iter", low=0, allow_none=True)
        check_integer(self.pretrain_epochs, "pretrain_epochs", low=0)
        check_real(self.token_deletion, "token_deletion", low=0, high=1, closed="left")
        check_integer(self.n_starts, "n_starts", low=1)
        check_integer(self.n_students, "n_students", low=1)
        check_option(self.ensemble, "ensemble", ("last", "last_two", "with_start"))
        if not isinstance(self.logit_adjustment, str):
            check_real(self.logit_adjustment, "logit_adjustment", low=0, high=1)
        elif self.logit_adjustment != "auto":
            raise ValueError(
                'logit_adjustment must be "auto" or a number in [0, 1], got '
                f"{shown(self.logit_adjustment)}."
            )
        if self.validation_fraction is not None:
            check_real(
                self.validation_fraction, "validation_fraction", low=0, high=1, closed="neither"
            )
        if self.on_iteration is not None and not callable(self.on_iteration):
            raise TypeError(
                f"on_iteration must be callable or None, got {shown(self.on_iteration)}."
            )
        check_folder(self.checkpoint_dir, "checkpoint_dir", self.random_state)
        check_folder(self.memory, "memory", self.random_state)

    # -- the algorithm --------------------------------------------------------------------------
    def _fit(self, net: NeuralNet, data: SemiSupervisedData) -> None:
        """Run Algorithm 1 of the paper, in the reading of its released code.

        The steps are numbered as in docs/guide/method.md.

        L are the labelled and U the unlabelled documents, C is the sample. P and q are the
        teachers' soft labels of C and L, S are the class distributions for inertia.
        """
        L, held_out = self._split(data)
        trainer = self._trainer_class(
            self,
            net,
            L,
            lam=self.lam,
            alpha=self.alpha,
            temperature=self.temperature,
            pretrain_epochs=self.pretrain_epochs,
            token_deletion=self.token_deletion,
            n_starts=self.n_starts,
            n_students=self.n_students,
            memory=open_memory(self.memory),
        )
        sizes = self._sample_sizes(data.n_unlabeled)
        checkpoint = self._checkpoint(net, trainer, held_out)
        observers = Observers(self, trainer, len(sizes), held_out, checkpoint)
        with trainer.progress, checkpoint or nullcontext():
            state = observers.resumed()
            if state is None:
                start, losses = trainer.supervised_start()  # step 1
                never = np.full(data.n_unlabeled, -1, dtype=np.int64)
                predicts = start if self.ensemble == "with_start" else []
                state = State(0, start, [], {}, never, never, predicts, self.ensemble)
                del start, predicts  # nets that no state holds are freed
                entry = {"iteration": 0, "sample_size": 0, "loss": losses}
                observers.on_iteration_end(state, entry)
            for t in range(state.t + 1, len(sizes) + 1):
                if observers.stopped:
                    break
                observers.on_iteration_begin(t, sizes[t - 1])
                rows = trainer.sample(t, sizes[t - 1])  # step 2
                C = multi_indexing(data.X_unlabeled, rows)
                P, q = trainer.soft_labels(t, state.students, C)  # step 3
                state = state.without_spent_nets()  # frees memory for the students
                S, inertia = state.S, trainer.inertia(P, state.S)  # step 4
                if inertia is not None:
                    P, S = inertia.P, inertia.state
                students, by_stage = trainer.train_students(t, C, P, q)  # steps 5, 6
                codes = predicted_classes(P)
                entry = iteration_entry(state, rows, codes, inertia, by_stage, data)
                state = state.followed_by(students, S, rows, codes)  # step 7
                del students
                observers.on_iteration_end(state, entry)
            observers.on_fit_end(state)
        self._set_fitted(state, sizes, data, observers)

    def _checkpoint(
        self, net: NeuralNet, trainer: SelfPretrainingTrainer, held_out: HoldOut | None
    ) -> Checkpoint | None:
        if self.checkpoint_dir is None:
            return None
        L = trainer.data
        params = self.get_params(deep=False)
        for name in _WITHOUT_EFFECT:
            del params[name]
        key = fit_key(
            net,
            params=params,
            kind=f"{type(self).__module__}.{type(self).__qualname__}",
            L=(L.X_labeled, L.y, L.weights, L.classes),
            U=L.X_unlabeled,
            held_out=held_out,
            root=trainer.root,
        )
        return Checkpoint(self.checkpoint_dir, key, trainer, rule=self.ensemble)

    def _set_fitted(
        self, state: State, sizes: list[int], data: SemiSupervisedData, observers: Observers
    ) -> None:
        self.n_iter_ = self.best_iter_ = state.t
        self.logit_adjustment_ = observers.adjustment.tau
        kept, best = state, observers.best
        if best is not None:
            warn_unless_better([entry["validation_score"] for entry in observers.history])
            kept, self.best_iter_, self.logit_adjustment_ = best.state, best.state.t, best.tau
        self.students_, self.estimators_ = kept.students, kept.ensemble
        self.estimator_weights_ = kept.weights
        self.class_shares_ = observers.adjustment.shares
        self.sample_sizes_ = sizes[: state.t]
        self.history_ = observers.history
        self._set_transduction(data, state.pseudo, state.labeled_iter)
        if state.t < len(sizes):
            self.termination_condition_ = "early_stopping"
        elif data.n_unlabeled == 0:
            self.termination_condition_ = "no_unlabeled"
        else:
            complete = bool(sizes) and sizes[-1] == data.n_unlabeled
            self.termination_condition_ = "all_labeled" if complete else "max_iter"

    def _combine(self, P: Sequence[FloatArray]) -> FloatArray:
        mean = mean_probabilities(*P, weights=self.estimator_weights_)
        return logit_adjusted(mean, self.class_shares_, self.logit_adjustment_)

    def _split(self, data: SemiSupervisedData) -> tuple[SemiSupervisedData, HoldOut | None]:
        """Hold out documents for validation if `validation_fraction` is set."""
        if self.validation_fraction is None:
            return data, None
        held_out = hold_out(
            data,
            self.validation_fraction,
            np.random.default_rng(derive_seed(root_seed(self.random_state), 0, 3)),
            positive=positive_code(data.classes, None),
            otherwise="All of them are trained on, and the last nets are kept.",
            remedy="Label more rows of the rare classes, or set validation_fraction=None.",
        )
        return (data if held_out is None else held_out.training_part(data)), held_out

    def _sample_sizes(self, n_unlabeled: int) -> list[int]:
        step = resolve_step_size(self.step_size, n_unlabeled)
        sizes = growing_sample_sizes(n_unlabeled, step, self._first_size(step), self.max_iter)
        warn_of_sizes(sizes, self.step_size, self.max_iter, self.alpha, n_unlabeled)
        return sizes

    def _first_size(self, step: int) -> int:
        """Return the size of the first sample; an ablation overrides it."""
        return step
