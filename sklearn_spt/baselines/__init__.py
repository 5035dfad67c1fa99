"""The other methods that the paper compares, under the contract of Self-Pretraining."""

from sklearn_spt.baselines._co_decomposition import CoDecompositionClassifier, KeywordWindow
from sklearn_spt.baselines._mutual_learning import MutualLearningClassifier
from sklearn_spt.baselines._self_training import ThrottledSelfTrainingClassifier
from sklearn_spt.baselines._spaced_repetition import SpacedRepetitionClassifier
from sklearn_spt.baselines._tri_training import TriTrainingClassifier

__all__ = [
    "CoDecompositionClassifier",
    "KeywordWindow",
    "MutualLearningClassifier",
    "SpacedRepetitionClassifier",
    "ThrottledSelfTrainingClassifier",
    "TriTrainingClassifier",
]
