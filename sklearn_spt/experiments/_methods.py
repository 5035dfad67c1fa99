"""The methods that are compared, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt._base import BaseSemiSupervisedClassifier
from sklearn_spt.baselines._co_decomposition import CoDecompositionClassifier
from sklearn_spt.baselines._mutual_learning import MutualLearningClassifier
from sklearn_spt.baselines._self_training import ThrottledSelfTrainingClassifier
from sklearn_spt.baselines._spaced_repetition import SpacedRepetitionClassifier
from sklearn_spt.baselines._tri_training import TriTrainingClassifier
from sklearn_spt.experiments import _ablations, _paper
from sklearn_spt.experiments._setfit import SetFitClassifier
from sklearn_spt.nets._bert_classifier import BertClassifier
from sklearn_spt.nets._sentence_embedder import SentenceEmbedder
from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier
from sklearn_spt.self_pretraining._settings import PAPER_NET, PAPER_SETTINGS
from sklearn_spt.text._encoding import TokenIdVectorizer


@dataclass(frozen=True)
class Method:
    """A method of a table: ``build(net, seed)`` returns the unfitted estimator."""

    build: Callable[[BertClassifier, int], BaseEstimator]
    #: Names of the parameters that a cell may set.
    parameters: tuple[str, ...]
    semi_supervised: bool = True
    #: Whether it takes the keywords of the texts.
    keywords: bool = False
    #: Name in tables.
    label: str = ""
    #: Module of the extra [benchmarks] that it needs.
    requires: str | None = None

    def check_installed(self) -> None:
        """Raise ImportError with the install command if the required module is missing."""
        if self.requires is not None and find_spec(self.requires) is None:
            raise ImportError(
                f"{self.label} needs {self.requires}; install it with: "
                "pip install 'sklearn-spt[benchmarks]'"
            )


#: Nets of the supervised ensemble.
N_ENSEMBLE = 5
#: Parameters of `BertClassifier` that a cell may set.
NET_PARAMETERS = (
    "balanced_batches",
    "batch_size",
    "dropout",
    "head_init",
    "lr",
    "max_epochs",
    "max_length",
    "module__train_word_embeddings",
    "pooling",
    "precision",
)


def _own(
    kind: type[BaseSemiSupervisedClassifier],
    *,
    paper: bool = True,
    keywords: bool = False,
    **fixed: Any,
) -> Method:
    """Describe a classifier of this package, with the paper's settings or its own defaults."""
    # a method sets the epochs and the draws of its nets
    of_the_net = {f"estimator__{name}" for name in NET_PARAMETERS} - {
        "estimator__max_epochs",
        "estimator__balanced_batches",
    }
    parameters = of_the_net | set(inspect.signature(kind.__init__).parameters) - {
        "self",
        "estimator",
        "random_state",
        "verbose",
        "on_iteration",
        "unlabeled_marker",
        *fixed,
    }

    def build(net: BertClassifier, seed: int) -> BaseEstimator:
        if not paper:
            return kind(net, random_state=seed, **fixed)
        given = PAPER_SETTINGS if issubclass(kind, SelfPretrainingClassifier) else {}
        own = {k: v for k, v in given.items() if k != "estimator"}
        return kind(net.set_params(**PAPER_NET), random_state=seed, **{**own, **fixed})

    return Method(build, tuple(sorted(parameters)), keywords=keywords)


def _fine_tuning(*, names: tuple[str, ...] = NET_PARAMETERS, **fixed: Any) -> Method:
    """Describe supervised fine-tuning, whose parameters `names` a cell may set."""

    def build(net: BertClassifier, seed: int) -> BaseEstimator:
        return net.set_params(**fixed, random_state=seed)

    return Method(build, names, semi_supervised=False)


def _ensemble(net: BertClassifier, seed: int) -> BaseEstimator:
    # the first net is that of "bert_classifier"; the other seeds are outside the usual grids
    nets = [clone(net).set_params(random_state=seed + 1000 * k) for k in range(N_ENSEMBLE)]
    return VotingClassifier([(f"net_{k}", M) for k, M in enumerate(nets)], voting="soft")


def _setfit(net: BertClassifier, seed: int) -> BaseEstimator:
    return SetFitClassifier(net.pretrained, n_threads=net.n_threads, random_state=seed)


def _regression(features: BaseEstimator) -> BaseEstimator:
    return make_pipeline(features, LogisticRegression(class_weight="balanced", max_iter=1000))


def _tfidf(net: BertClassifier, seed: int) -> BaseEstimator:
    return _regression(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True))


def _embeddings(net: BertClassifier, seed: int) -> BaseEstimator:
    return _regression(SentenceEmbedder(net.pretrained, n_threads=net.n_threads))


def _sklearn_self_training(net: BertClassifier, seed: int) -> BaseEstimator:
    net = net.set_params(random_state=seed)
    return make_pipeline(TokenIdVectorizer(net.pretrained), SelfTrainingClassifier(net, max_iter=3))


def methods() -> dict[str, Method]:
    """All methods by name. The paper's and the ablations have the paper's settings."""
    spt = SelfPretrainingClassifier
    found = {
        "baseline": _fine_tuning(**PAPER_NET),
        "self_training": _own(ThrottledSelfTrainingClassifier),
        "tri_training": _own(TriTrainingClassifier),
        "mutual_learning": _own(MutualLearningClassifier),
        "spaced_rep": _own(SpacedRepetitionClassifier),
        "co_decomp": _own(CoDecompositionClassifier, keywords=True),
        "self_pretraining": _own(spt),
        "no_two_stage": _own(_ablations.WithoutTwoStages),
        "no_trapezoidal_lr": _own(_ablations.WithoutTrapezoidalLR),
        "no_distillation": _own(_ablations.WithoutDistillation),
        "no_inertia": _own(spt, alpha=0),
        "independent_variance": _own(_ablations.IndependentVariance),
        "raw_inertia_state": _own(_ablations.RawInertiaState),
        "kept_optimizer": _own(_ablations.KeptOptimizer),
        "half_first_sample": _own(_ablations.HalfFirstSample),
        "bert_classifier": _fine_tuning(),
        "bert_ensemble": Method(_ensemble, (), semi_supervised=False),
        "self_pretraining_classifier": _own(spt, paper=False),
        "tfidf_lr": Method(_tfidf, (), semi_supervised=False),
        "embeddings_lr": Method(_embeddings, (), semi_supervised=False),
        "baseline_shuffled": _fine_tuning(
            names=tuple(name for name in NET_PARAMETERS if name != "balanced_batches"),
            **{**PAPER_NET, "balanced_batches": False},
        ),
        "setfit": Method(
            _setfit,
            ("batch_size", "class_weight", "max_steps"),
            semi_supervised=False,
            requires="setfit",
        ),
        "sklearn_self_training": Method(_sklearn_self_training, ()),
    }
    return {name: replace(method, label=_paper.LABELS[name]) for name, method in found.items()}


#: The methods that a user with a few hundred labels would pick instead, and Self-Pretraining.
RIVALS = (
    "tfidf_lr",
    "embeddings_lr",
    "setfit",
    "baseline",
    "baseline_shuffled",
    "bert_classifier",
    "bert_ensemble",
    "sklearn_self_training",
    "self_pretraining",
    "self_pretraining_classifier",
)
#: Names of groups of methods on the command line.
GROUPS = {
    "paper": tuple(_paper.SYSTEMS),
    "ablations": tuple(_paper.ABLATIONS),
    "readings": tuple(_paper.READINGS),
    "rivals": RIVALS,
}
