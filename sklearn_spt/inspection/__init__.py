"""Reports of fits, and plots of fits and experiments after scikit-learn's ``Display`` classes.

Create a display with ``from_estimator`` (a fitted classifier) or ``from_records`` (records of
``python -m sklearn_spt.experiments``); `ForestDisplay` takes numbers. The displays need matplotlib,
which the extra ``plot`` installs.
"""

from __future__ import annotations

from sklearn_spt.inspection._fit_report import FitReport
from sklearn_spt.inspection._forest import ForestDisplay
from sklearn_spt.inspection._gains import GainDisplay
from sklearn_spt.inspection._iteration_curve import IterationCurveDisplay
from sklearn_spt.inspection._learning_curve import LearningCurveDisplay
from sklearn_spt.inspection._learning_rate import LearningRateDisplay
from sklearn_spt.inspection._pseudo_labels import PseudoLabelDisplay

__all__ = [
    "FitReport",
    "ForestDisplay",
    "GainDisplay",
    "IterationCurveDisplay",
    "LearningCurveDisplay",
    "LearningRateDisplay",
    "PseudoLabelDisplay",
]
