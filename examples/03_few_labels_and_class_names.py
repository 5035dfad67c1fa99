"""
Few labels and class names
==========================

With frozen sentence embeddings a classifier fits in a second. ``SoftSelfTrainingClassifier`` also
learns from the unlabelled texts. The name of each class can serve as one more labelled text.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from sklearn_spt import SentenceEmbedder, SoftSelfTrainingClassifier
from sklearn_spt.datasets import make_short_texts

letters = make_short_texts(2000, n_classes=6, random_state=0)
embedder = SentenceEmbedder()
F, y = embedder.transform(letters.data), letters.target
names = embedder.transform([f"a question about {name}" for name in letters.target_names])

rows = []
for k in (1, 2, 5, 10, 20):
    labeled = np.concatenate([np.flatnonzero(y[:1000] == c)[:k] for c in range(6)])
    partial = np.full(1000, -1)
    partial[labeled] = y[labeled]
    with_names = np.vstack([F[:1000], names]), np.append(partial, np.arange(6))
    for method, model, (X, labels) in [
        ("labels alone", LogisticRegression(C=10), (F[labeled], y[labeled])),
        ("with unlabelled texts", SoftSelfTrainingClassifier(), (F[:1000], partial)),
        ("and class names", SoftSelfTrainingClassifier(), with_names),
    ]:
        accuracy = model.fit(X, labels).score(F[1000:], y[1000:])
        rows.append({"labels a class": k, "method": method, "accuracy": accuracy})

table = pd.DataFrame(rows).pivot(index="labels a class", columns="method", values="accuracy")
print(table.round(3).to_string())

# %%
ax = table.plot(marker="o", logx=True, figsize=(5, 3.2), ylabel="accuracy")
ax.set_xticks(table.index, table.index)
plt.tight_layout()
