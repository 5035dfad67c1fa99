"""
Beside scikit-learn
===================

scikit-learn's ``SelfTrainingClassifier`` and ``LabelSpreading``, and this library, with the same
texts and the same ``y``.

Both take -1 for a missing label. scikit-learn's classifiers need arrays:
:class:`~sklearn_spt.SentenceEmbedder` makes embeddings for any of them, and
:class:`~sklearn_spt.TokenIdVectorizer` makes token ids for a net, as in
``make_pipeline(TokenIdVectorizer(), SelfTrainingClassifier(BertClassifier()))``.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
)
from sklearn_spt.datasets import make_short_texts

# %%
# Five classifiers
# ----------------
# ``SelfTrainingClassifier`` adds rows with hard labels once their probability is above 0.75. In
# this library labels are soft, and every row is labelled anew in each iteration.
embedder = SentenceEmbedder()
models = {
    "SelfTrainingClassifier\non embeddings": make_pipeline(
        embedder, SelfTrainingClassifier(LogisticRegression(C=10))
    ),
    "LabelSpreading\non embeddings": make_pipeline(
        embedder, LabelSpreading(kernel="knn", n_neighbors=10)
    ),
    "SoftSelfTrainingClassifier\non embeddings": make_pipeline(
        embedder, SoftSelfTrainingClassifier()
    ),
    "BertClassifier,\nlabels alone": BertClassifier(random_state=0),
    "SelfPretrainingClassifier": SelfPretrainingClassifier(random_state=0),
}

# %%
# Three draws
# -----------
# Each has 20 labelled and 280 unlabelled texts, and 300 others to test on.
rows = []
for draw in range(3):
    train = make_short_texts(300, n_labeled=20, random_state=draw)
    test = make_short_texts(300, random_state=draw + 10)
    for name, model in models.items():
        kept = train.target_partial >= (0 if "labels alone" in name else -1)
        start = perf_counter()
        fitted = clone(model).fit(train.data[kept], train.target_partial[kept])
        seconds = perf_counter() - start
        P = fitted.predict_proba(test.data)
        accuracy = accuracy_score(test.target, P.argmax(axis=1))
        rows.append((name, accuracy, log_loss(test.target, P), seconds))
table = pd.DataFrame(rows, columns=["", "accuracy", "log loss", "seconds"])
table = table.groupby("", sort=False).mean()
print(table.rename(lambda name: name.replace("\n", " ")).round(3).to_string())

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
colors = ["0.7", "0.7", "C0", "0.7", "C0"]
for ax, measure in zip(axes, ("accuracy", "log loss"), strict=True):
    bars = ax.barh(range(5), table[measure], color=colors)
    ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.set(xlabel=f"{measure}, mean of three draws", yticks=range(5), yticklabels=table.index)
    ax.margins(x=0.15)
axes[0].invert_yaxis()
plt.show()

# %%
# A small log loss says that probabilities can be trusted. Made-up texts are an easy case, in which
# embeddings nearly suffice. For public tasks see the results page.
