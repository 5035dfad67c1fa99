"""Cross-validation for partly labelled data, and the comparison with supervised learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn_spt._runtime import lazy_names

if TYPE_CHECKING:
    from sklearn_spt.model_selection._comparison import (
        SupervisedComparison,
        compare_with_supervised,
    )
    from sklearn_spt.model_selection._scorer import make_labeled_scorer
    from sklearn_spt.model_selection._search_progress import search_progress
    from sklearn_spt.model_selection._splitter import SemiSupervisedStratifiedKFold

__all__ = [
    "SemiSupervisedStratifiedKFold",
    "SupervisedComparison",
    "compare_with_supervised",
    "make_labeled_scorer",
    "search_progress",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "SemiSupervisedStratifiedKFold": "_splitter",
        "SupervisedComparison": "_comparison",
        "compare_with_supervised": "_comparison",
        "make_labeled_scorer": "_scorer",
        "search_progress": "_search_progress",
    },
)
