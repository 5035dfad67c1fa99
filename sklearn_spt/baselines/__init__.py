"""The other systems that the paper compares, under the contract of Self-Pretraining."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

# Each name is imported when it is first used, as in `sklearn_spt` itself.
_HOMES = {
    "CoDecompositionClassifier": "_co_decomposition",
    "MutualLearningClassifier": "_mutual_learning",
    "SpacedRepetitionClassifier": "_spaced_repetition",
    "ThrottledSelfTrainingClassifier": "_self_training",
    "TriTrainingClassifier": "_tri_training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
