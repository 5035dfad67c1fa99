"""
Beside scikit-learn
===================

scikit-learn's ``SelfTrainingClassifier`` and ``LabelSpreading``, and this library, with the same
texts and the same ``y``.

Both take -1 for a missing label. scikit-learn's classifiers need arrays:
:class:`~sklearn_spt.TokenIdVectorizer` makes token ids for a net, and
:class:`~sklearn_spt.SentenceEmbedder` makes embeddings for anything else.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
    TokenIdVectorizer,
)
from sklearn_spt.datasets import make_short_texts

train = make_short_texts(300, n_labeled=32, random_state=0)
test = make_short_texts(300, random_state=1)
X, y = train.data, train.target_partial
known = y != -1

# %%
# Six classifiers
# ---------------
# ``SelfTrainingClassifier`` adds rows with hard labels once their probability is above 0.75. In
# this library labels are soft, and every row is labelled anew in each iteration.
net = BertClassifier(random_state=0)
regression = LogisticRegression(C=10, max_iter=1000)
embedder = SentenceEmbedder()
models = {
    "one net, labels alone": net,
    "SelfTrainingClassifier\nover the net": make_pipeline(
        TokenIdVectorizer(), SelfTrainingClassifier(net, max_iter=2)
    ),
    "SelfPretrainingClassifier": SelfPretrainingClassifier(net, random_state=0),
    "SelfTrainingClassifier\non embeddings": make_pipeline(
        embedder, SelfTrainingClassifier(regression)
    ),
    "LabelSpreading\non embeddings": make_pipeline(
        embedder, LabelSpreading(kernel="knn", n_neighbors=10)
    ),
    "SoftSelfTrainingClassifier\non embeddings": make_pipeline(
        embedder, SoftSelfTrainingClassifier()
    ),
}
rows = {}
for name, model in models.items():
    start = perf_counter()
    if model is net:
        model.fit(X[known], y[known])
    else:
        model.fit(X, y)
    seconds = perf_counter() - start
    P = model.predict_proba(test.data)
    found = accuracy_score(test.target, P.argmax(axis=1)), log_loss(test.target, P), seconds
    rows[name] = dict(zip(("accuracy", "log loss", "seconds"), found, strict=True))
table = pd.DataFrame(rows).T
print(table.rename(lambda name: name.replace("\n", " ")).round(3).to_string())

# %%
# A small log loss says that probabilities can be trusted. One draw of 32 labels is a look, and no
# comparison: for that see the results page.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
places = np.arange(len(table))[::-1]
colors = ["0.7", "0.7", "C0", "0.7", "0.7", "C0"]
for ax, measure in zip(axes, ("accuracy", "log loss"), strict=True):
    ax.bar_label(ax.barh(places, table[measure], color=colors), fmt="%.2f", padding=3)
    ax.set(xlabel=measure, yticks=places, yticklabels=table.index)
    ax.margins(x=0.15)
plt.show()
