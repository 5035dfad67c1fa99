"""
Search parameters
=================

``GridSearchCV`` over two parameters, with a cache that the candidates share, and a heat map.

λ (``lam``) is the weight of the distillation loss, ``finetune_epochs`` the number of passes over
the labelled rows. Here a linear layer learns from frozen embeddings, so that 32 fits end soon. With
texts and a :class:`~sklearn_spt.BertClassifier` the search is the same, and takes hours.
"""

import tempfile

import matplotlib.pyplot as plt
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

bunch = make_short_texts(300, n_labeled=60, flip_y=0.1, random_state=0)
E, y = SentenceEmbedder().fit_transform(bunch.data), bunch.target_partial

# %%
# The search
# ----------
# :class:`~sklearn_spt.model_selection.SemiSupervisedStratifiedKFold` tests on labelled rows only,
# and keeps every unlabelled row in training. ``memory`` is a folder for what does not depend on λ:
# the first teachers, and stage 1 of the first students. Each is trained once for all values of λ.
# It needs an integer ``random_state``.
layer = {"module__in_features": E.shape[1], "module__out_features": 4}
training = {"optimizer": torch.optim.Adam, "lr": 1e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(torch.nn.Linear, criterion=torch.nn.CrossEntropyLoss, **layer, **training)
cache = tempfile.TemporaryDirectory()
clf = SelfPretrainingClassifier(net, step_size=0.5, memory=cache.name, random_state=0)
grid = {"finetune_epochs": [1, 3, 10, 30], "lam": [0.0, 0.3, 0.6, 0.9]}
folds = SemiSupervisedStratifiedKFold(n_splits=2, shuffle=True, random_state=0)
search = GridSearchCV(clf, grid, scoring="f1_macro", cv=folds).fit(E, y)
print(search.best_params_)
cache.cleanup()

# %%
# The scores
# ----------
# Epochs matter for a layer that starts from random weights. With 30 of them λ does not matter: the
# scores differ by less than the folds do, so that the default, 0.3, may stay.
scores = search.cv_results_["mean_test_score"].reshape(4, 4)  # lam varies fastest
spread = search.cv_results_["std_test_score"].mean()
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
image = ax.imshow(scores, origin="lower")
for row, column in [(i, j) for i in range(4) for j in range(4)]:
    color = "black" if image.norm(scores[row, column]) > 0.5 else "white"
    ax.text(column, row, f"{scores[row, column]:.3f}", ha="center", va="center", color=color)
ax.set(xlabel="λ", xticks=range(4), xticklabels=grid["lam"])
ax.set(ylabel="finetune_epochs", yticks=range(4), yticklabels=grid["finetune_epochs"])
ax.set_title(f"macro-F1 in cross-validation (sd over folds {spread:.3f})")
fig.colorbar(image, ax=ax)
plt.show()

# %%
# The best candidate was fitted again on all rows.
hidden = y == -1
print(f"accuracy on the unlabelled rows: {search.score(E[hidden], bunch.target[hidden]):.3f}")
