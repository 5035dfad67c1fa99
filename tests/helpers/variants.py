"""Self-Pretraining with one of its ablations or readings."""

from __future__ import annotations

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.experiments import _ablations

#: The class of each switch.
VARIANTS = {
    "one stage": _ablations.WithoutTwoStages,
    "slanted": _ablations.WithoutTrapezoidalLR,
    "no distillation": _ablations.WithoutDistillation,
    "independent variance": _ablations.IndependentVariance,
    "raw state": _ablations.RawInertiaState,
    "kept optimizer": _ablations.KeptOptimizer,
    "half first sample": _ablations.HalfFirstSample,
}


def variant(estimator=None, switch=None, **params):
    """The classifier, or the subclass of a switch."""
    kind = SelfPretrainingClassifier if switch is None else VARIANTS[switch]
    return kind(estimator, **params)
