"""
Search λ and α
==============

``GridSearchCV`` over λ and α by cross-validation, with a heat map of the scores.

Run ``python examples/02_grid_search.py``; about half a minute. λ (``lam``) is the weight of the
teacher's opinion on labelled texts. α (``alpha``) is the inertia of the pseudo-labels.

The texts are embedded once by a frozen encoder, and a linear layer learns from the embeddings. So
the whole search costs less than one fit that trains the encoder. Scores are lower than with
fine-tuning, but you get to know data and parameters quickly.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

# %%
# Posts and embeddings
# --------------------
# 100 of 300 posts have a label; the others have −1 in ``y``. Embeddings hold little of word order,
# so only a few posts depend on it here.
kind = {"weights": [0.7], "ambiguity": 0.2}
train = make_short_texts(300, n_labeled=100, random_state=0, **kind)
test = make_short_texts(300, random_state=1, **kind)
embedder = SentenceEmbedder(n_threads=1)
E, E_test = embedder.fit_transform(train.data), embedder.transform(test.data)
y = train.target_partial

# %%
# The search
# ----------
# Two arguments matter with partly labelled data. ``SemiSupervisedStratifiedKFold`` scores labelled
# rows only and keeps every unlabelled row in training. ``scoring="f1"`` is the F1 of the positive
# class; accuracy rewards a model that never finds a rare class. A layer that starts from random
# weights needs more epochs than a pretrained encoder.
layer = {"module__in_features": E.shape[1], "module__out_features": 2}
training = {"optimizer": torch.optim.Adam, "lr": 1e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(nn.Linear, criterion=nn.CrossEntropyLoss, **layer, **training)
lams, alphas = [0.0, 0.3, 0.6], [0.0, 0.1, 0.4]
search = GridSearchCV(
    SelfPretrainingClassifier(
        net, step_size=0.5, pretrain_epochs=2, finetune_epochs=10, random_state=0
    ),
    {"lam": lams, "alpha": alphas},
    scoring="f1",
    cv=SemiSupervisedStratifiedKFold(n_splits=2, shuffle=True, random_state=0),
)
search.fit(E, y)
print(search.best_params_)

# %%
# The scores
# ----------
# Neighbours differ by less than the folds do. Then the exact values matter little.
scores = search.cv_results_["mean_test_score"].reshape(len(alphas), len(lams))  # alpha first
spread = search.cv_results_["std_test_score"].mean()
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
image = ax.imshow(scores, cmap="viridis", origin="lower")
for row, column in [(i, j) for i in range(len(alphas)) for j in range(len(lams))]:
    shade = "black" if image.norm(scores[row, column]) > 0.5 else "white"
    ax.text(column, row, f"{scores[row, column]:.3f}", ha="center", va="center", color=shade)
ax.set(xticks=range(len(lams)), xticklabels=lams, yticks=range(len(alphas)), yticklabels=alphas)
ax.set(xlabel="λ", ylabel="α", title=f"F1 in cross-validation (sd over folds {spread:.3f})")
fig.colorbar(image, ax=ax)
plt.show()

# %%
# The best candidate was fitted again on all rows:
print(f"F1 on test posts: {f1_score(test.target, search.predict(E_test)):.3f}")
