"""
Rare classes
============

One text in ten belongs to the class that matters. Nets that see both classes equally often predict
it too often. ``logit_adjustment="auto"`` lowers its probability until its share among the
unlabelled texts is about that among the labels.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, precision_score, recall_score

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

letters = make_short_texts(700, n_classes=2, weights=[0.9, 0.1], ambiguity=0.8, random_state=0)
X, y = letters.data, letters.target
partial = np.where(np.arange(200) < 60, y[:200], -1)

rows = {}
for tau in (0.0, "auto", 1.0):
    clf = SelfPretrainingClassifier(step_size=1.0, alpha=0, logit_adjustment=tau, random_state=0)
    predicted = clf.fit(X[:200], partial).predict(X[200:])
    rows[f"{tau} (τ = {clf.logit_adjustment_:.2f})"] = {
        "predicted share": predicted.mean(),
        "precision": precision_score(y[200:], predicted, zero_division=0),
        "recall": recall_score(y[200:], predicted),
        "F1": f1_score(y[200:], predicted),
    }
table = pd.DataFrame(rows).T
print(table.round(3).to_string())
print(f"true share: {y[200:].mean():.3f}")

# %%
ax = table[["precision", "recall", "F1"]].plot.bar(rot=0, figsize=(5, 3), ylim=(0, 1))
ax.set_xlabel("logit_adjustment")
plt.tight_layout()
