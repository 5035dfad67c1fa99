"""Semi-supervised text classification that feels like scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn_spt._callbacks import RightTrapezoidalLR
    from sklearn_spt._comparison import SupervisedComparison, compare_with_supervised
    from sklearn_spt._embedding import SentenceEmbedder
    from sklearn_spt._encoding import TokenIdVectorizer
    from sklearn_spt._keywords import KeywordWindow
    from sklearn_spt._losses import DistillationLoss
    from sklearn_spt._net import BertClassifier
    from sklearn_spt._normalization import TweetNormalizer
    from sklearn_spt._paper_settings import PAPER_SETTINGS
    from sklearn_spt._self_pretraining import SelfPretrainingClassifier
    from sklearn_spt._state import Iteration
    from sklearn_spt.baselines import (
        CoDecompositionClassifier,
        MutualLearningClassifier,
        SpacedRepetitionClassifier,
        ThrottledSelfTrainingClassifier,
        TriTrainingClassifier,
    )

__version__ = "0.1.0"

__all__ = [
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
]

# Names are imported when they are first used: `sklearn_spt.datasets` and the splitter need no
# torch, which takes seconds to import.
_HOMES = {
    "PAPER_SETTINGS": "_paper_settings",
    "BertClassifier": "_net",
    "CoDecompositionClassifier": "baselines",
    "DistillationLoss": "_losses",
    "Iteration": "_state",
    "KeywordWindow": "_keywords",
    "MutualLearningClassifier": "baselines",
    "RightTrapezoidalLR": "_callbacks",
    "SelfPretrainingClassifier": "_self_pretraining",
    "SentenceEmbedder": "_embedding",
    "SpacedRepetitionClassifier": "baselines",
    "SupervisedComparison": "_comparison",
    "ThrottledSelfTrainingClassifier": "baselines",
    "TokenIdVectorizer": "_encoding",
    "TriTrainingClassifier": "baselines",
    "TweetNormalizer": "_normalization",
    "compare_with_supervised": "_comparison",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
