"""Semi-supervised text classification that feels like scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn_spt._bert import BertClassifier
    from sklearn_spt._checkpoint import Iteration
    from sklearn_spt._comparison import compare_with_supervised
    from sklearn_spt._export import export
    from sklearn_spt._losses import DistillationLoss
    from sklearn_spt._presets import FOUR_STUDENTS, paper_classifier
    from sklearn_spt._self_pretraining import SelfPretrainingClassifier
    from sklearn_spt._soft_self_training import SoftSelfTrainingClassifier
    from sklearn_spt._training import RightTrapezoidalLR
    from sklearn_spt.baselines import (
        CoDecompositionClassifier,
        MutualLearningClassifier,
        SpacedRepetitionClassifier,
        ThrottledSelfTrainingClassifier,
        TriTrainingClassifier,
    )
    from sklearn_spt.persistence import load, save
    from sklearn_spt.text import SentenceEmbedder, TokenIdVectorizer

__version__ = "0.1.0"

# torch takes seconds to import, and `sklearn_spt.datasets` does not need it
_MODULES = {
    "BertClassifier": "_bert",
    "CoDecompositionClassifier": "baselines",
    "DistillationLoss": "_losses",
    "FOUR_STUDENTS": "_presets",
    "Iteration": "_checkpoint",
    "MutualLearningClassifier": "baselines",
    "RightTrapezoidalLR": "_training",
    "SelfPretrainingClassifier": "_self_pretraining",
    "SentenceEmbedder": "text",
    "SoftSelfTrainingClassifier": "_soft_self_training",
    "SpacedRepetitionClassifier": "baselines",
    "ThrottledSelfTrainingClassifier": "baselines",
    "TokenIdVectorizer": "text",
    "TriTrainingClassifier": "baselines",
    "compare_with_supervised": "model_selection",
    "export": "_export",
    "load": "persistence",
    "paper_classifier": "_presets",
    "save": "persistence",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
