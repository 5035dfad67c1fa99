"""Semi-supervised text classification that feels like scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn_spt._runtime import lazy_names

if TYPE_CHECKING:
    from sklearn_spt.baselines import (
        CoDecompositionClassifier,
        MutualLearningClassifier,
        SpacedRepetitionClassifier,
        ThrottledSelfTrainingClassifier,
        TriTrainingClassifier,
    )
    from sklearn_spt.cli._versions import show_versions
    from sklearn_spt.model_selection._comparison import (
        SupervisedComparison,
        compare_with_supervised,
    )
    from sklearn_spt.nets._bert_classifier import BertClassifier
    from sklearn_spt.nets._callbacks import RightTrapezoidalLR
    from sklearn_spt.nets._losses import DistillationLoss
    from sklearn_spt.nets._sentence_embedder import SentenceEmbedder
    from sklearn_spt.persistence._saving import load
    from sklearn_spt.self_pretraining._classifier import SelfPretrainingClassifier
    from sklearn_spt.self_pretraining._settings import FOUR_STUDENTS, PAPER_SETTINGS
    from sklearn_spt.self_pretraining._state import Iteration
    from sklearn_spt.text._encoding import TokenIdVectorizer
    from sklearn_spt.text._keyword_window import KeywordWindow
    from sklearn_spt.text._normalization import TweetNormalizer

__version__ = "0.1.0"

__all__ = [
    "FOUR_STUDENTS",
    "PAPER_SETTINGS",
    "BertClassifier",
    "CoDecompositionClassifier",
    "DistillationLoss",
    "Iteration",
    "KeywordWindow",
    "MutualLearningClassifier",
    "RightTrapezoidalLR",
    "SelfPretrainingClassifier",
    "SentenceEmbedder",
    "SpacedRepetitionClassifier",
    "SupervisedComparison",
    "ThrottledSelfTrainingClassifier",
    "TokenIdVectorizer",
    "TriTrainingClassifier",
    "TweetNormalizer",
    "compare_with_supervised",
    "load",
    "show_versions",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "FOUR_STUDENTS": "self_pretraining._settings",
        "PAPER_SETTINGS": "self_pretraining._settings",
        "BertClassifier": "nets._bert_classifier",
        "CoDecompositionClassifier": "baselines",
        "DistillationLoss": "nets._losses",
        "Iteration": "self_pretraining._state",
        "KeywordWindow": "text._keyword_window",
        "MutualLearningClassifier": "baselines",
        "RightTrapezoidalLR": "nets._callbacks",
        "SelfPretrainingClassifier": "self_pretraining._classifier",
        "SentenceEmbedder": "nets._sentence_embedder",
        "SpacedRepetitionClassifier": "baselines",
        "SupervisedComparison": "model_selection",
        "ThrottledSelfTrainingClassifier": "baselines",
        "TokenIdVectorizer": "text._encoding",
        "TriTrainingClassifier": "baselines",
        "TweetNormalizer": "text._normalization",
        "compare_with_supervised": "model_selection",
        "load": "persistence._saving",
        "show_versions": "cli._versions",
    },
)
