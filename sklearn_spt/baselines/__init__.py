"""The other systems that the paper compares, under the contract of Self-Pretraining."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn_spt._runtime import lazy_names

if TYPE_CHECKING:
    from sklearn_spt.baselines._co_decomposition import CoDecompositionClassifier
    from sklearn_spt.baselines._mutual_learning import MutualLearningClassifier
    from sklearn_spt.baselines._self_training import ThrottledSelfTrainingClassifier
    from sklearn_spt.baselines._spaced_repetition import SpacedRepetitionClassifier
    from sklearn_spt.baselines._tri_training import TriTrainingClassifier

__all__ = [
    "CoDecompositionClassifier",
    "MutualLearningClassifier",
    "SpacedRepetitionClassifier",
    "ThrottledSelfTrainingClassifier",
    "TriTrainingClassifier",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CoDecompositionClassifier": "_co_decomposition",
        "MutualLearningClassifier": "_mutual_learning",
        "SpacedRepetitionClassifier": "_spaced_repetition",
        "ThrottledSelfTrainingClassifier": "_self_training",
        "TriTrainingClassifier": "_tri_training",
    },
)
