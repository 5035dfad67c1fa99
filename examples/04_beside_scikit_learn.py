"""
Beside scikit-learn's own methods
=================================

The classifiers take the same X and y as ``SelfTrainingClassifier`` and ``LabelSpreading``: −1
marks unlabelled rows. scikit-learn's methods need numbers, which ``SentenceEmbedder`` makes of
texts.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder, SoftSelfTrainingClassifier
from sklearn_spt.datasets import make_short_texts

letters = make_short_texts(800, n_labeled=40, random_state=1)
X, y = letters.data[:300], letters.target_partial[:300]
regression = LogisticRegression(C=10)
models = {
    "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=10),
    "SelfTrainingClassifier": SelfTrainingClassifier(regression),
    "SoftSelfTrainingClassifier": SoftSelfTrainingClassifier(),
}
scores = {}
for name, model in models.items():
    pipeline = make_pipeline(SentenceEmbedder(), model)
    scores[name] = pipeline.fit(X, y).score(letters.data[300:], letters.target[300:])
net = SelfPretrainingClassifier(teacher="embeddings", step_size=1.0, alpha=0, random_state=0)
scores["SelfPretrainingClassifier"] = net.fit(X, y).score(letters.data[300:], letters.target[300:])

table = pd.Series(scores, name="accuracy")
print(table.round(3).to_string())

# %%
ax = table.plot.barh(figsize=(5.5, 2.4), xlabel="accuracy on other made-up texts", xlim=(0, 1))
plt.tight_layout()
