"""What the scores of a record are called, in tables, plots and on the command line."""

from __future__ import annotations

#: Scores on the test rows, as a record has them, and their names.
SCORE_NAMES = {
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
}
#: Scores of probabilities, of which less is better.
CALIBRATION = {"brier": "Brier score", "ece": "calibration error"}
