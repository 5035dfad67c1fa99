"""
Search over λ and α
===================

``GridSearchCV`` works as usual. The splitter keeps all unlabelled rows in training, and ``memory``
shares the first teachers between the candidates. Here a small net reads sentence embeddings, so
that a fit takes a second.
"""

import tempfile

import matplotlib.pyplot as plt
import pandas as pd
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

letters = make_short_texts(300, n_labeled=80, random_state=0)
F = SentenceEmbedder().transform(letters.data)

net = NeuralNetClassifier(torch.nn.Linear, module__in_features=384, module__out_features=4)
net.set_params(lr=0.5, criterion=torch.nn.CrossEntropyLoss)
grid = {"lam": [0.0, 0.3, 0.6, 0.9], "alpha": [0.0, 0.2, 0.4]}
with tempfile.TemporaryDirectory() as memory:
    clf = SelfPretrainingClassifier(net, finetune_epochs=20, random_state=0, memory=memory)
    search = GridSearchCV(clf, grid, cv=SemiSupervisedStratifiedKFold(3))
    search.fit(F, letters.target_partial)
print(search.best_params_, round(search.best_score_, 3))

# %%
results = pd.DataFrame(search.cv_results_)
heat = results.pivot(index="param_lam", columns="param_alpha", values="mean_test_score")
fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
image = ax.imshow(heat, origin="lower")
ax.set_xticks(range(3), heat.columns)
ax.set_yticks(range(4), heat.index)
ax.set(xlabel="α", ylabel="λ", title="accuracy, 3 folds")
for i, row in enumerate(heat.to_numpy()):
    for j, score in enumerate(row):
        ax.text(j, i, f"{score:.2f}", ha="center", va="center", color="w")
fig.colorbar(image)
