"""All semi-supervised methods, with parameters that make a fit on a few texts quick."""

from __future__ import annotations

from sklearn_spt import (
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
)

#: Each method with parameters that make a fit quick.
METHODS = {
    "self_pretraining": lambda net: SelfPretrainingClassifier(
        net, step_size=0.5, finetune_epochs=1, random_state=0
    ),
    "last_two": lambda net: SelfPretrainingClassifier(
        net, max_iter=1, alpha=0, ensemble="last_two", finetune_epochs=1, random_state=0
    ),
    "throttled": lambda net: ThrottledSelfTrainingClassifier(
        net, threshold=0.5, n_iterations=1, finetune_epochs=1, random_state=0
    ),
    "tri_training": lambda net: TriTrainingClassifier(
        net, threshold=0.5, max_iter=1, finetune_epochs=1, random_state=0
    ),
    "mutual_learning": lambda net: MutualLearningClassifier(net, finetune_epochs=1, random_state=0),
    "spaced_repetition": lambda net: SpacedRepetitionClassifier(
        net, threshold=0.5, max_iter=1, finetune_epochs=1, random_state=0
    ),
    "co_decomposition": lambda net: CoDecompositionClassifier(
        net, keywords=["shot"], threshold=0.5, n_iterations=1, finetune_epochs=1, random_state=0
    ),
}


def half_labeled(n):
    """Two classes, the second half of the rows without labels."""
    return [i % 2 if i < n // 2 else -1 for i in range(n)]
