"""
All seven systems
=================

Self-Pretraining and the systems that the paper compares it with, on the same posts.

Run ``python examples/10_all_systems.py``; about half a minute. All have the same ``fit``, the same
marker and the same attributes. A linear layer learns from frozen embeddings, so that seven fits
with three seeds end soon. This shows how they are used; which is best on real texts stands on the
results pages.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from skorch import NeuralNetClassifier
from torch import nn

import sklearn_spt as spt
from sklearn_spt.datasets import make_short_texts

kind = {"weights": [0.7], "ambiguity": 0.2}
train = make_short_texts(300, n_labeled=100, random_state=0, **kind)
test = make_short_texts(300, random_state=1, **kind)
embed = spt.SentenceEmbedder(n_threads=1)
E, E_test = embed.fit_transform(train.data), embed.transform(test.data)
y = train.target_partial

# %%
# The systems
# -----------
# Each text has a second view for ``CoDecompositionClassifier``: the words around its keyword.
window = make_pipeline(spt.KeywordWindow("flu, fever, migraine, cough, attack, stroke"), embed)
W, W_test = window.fit_transform(train.data), window.transform(test.data)
views = (lambda X: X[:, : E.shape[1]], lambda X: X[:, E.shape[1] :])
layer = {"module__in_features": E.shape[1], "module__out_features": 2}
training = {"optimizer": torch.optim.Adam, "lr": 3e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(nn.Linear, criterion=nn.CrossEntropyLoss, **layer, **training)
epochs = {"finetune_epochs": 8}
add = {"threshold": 0.5, "max_iter": 5}  # the surest texts first, five times
systems = {
    "Supervised": spt.SelfPretrainingClassifier(net, max_iter=0, **epochs),
    "Self-training": spt.ThrottledSelfTrainingClassifier(net, **add, **epochs),
    "Tri-training": spt.TriTrainingClassifier(net, **add, **epochs),
    "Mutual learning": spt.MutualLearningClassifier(net, **epochs),
    "Spaced repetition": spt.SpacedRepetitionClassifier(
        net, episode_epochs=8, max_iter=2, threshold=0.5, **epochs
    ),
    "Co-decomposition": spt.CoDecompositionClassifier(net, views=views, **add, **epochs),
    "Self-Pretraining": spt.SelfPretrainingClassifier(net, pretrain_epochs=3, **epochs),
}
f1, seconds = {}, {}
for name, system in systems.items():
    X, X_test = (np.hstack([E, W]), np.hstack([E_test, W_test])) if "Co-" in name else (E, E_test)
    start = time.perf_counter()
    f1[name] = [
        f1_score(test.target, system.set_params(random_state=seed).fit(X, y).predict(X_test))
        for seed in range(3)
    ]
    seconds[name] = time.perf_counter() - start
    print(f"{name:18} F1 {np.mean(f1[name]):.3f} (sd {np.std(f1[name]):.3f})")

# %%
# Points are seeds. Where they overlap, more labels say more than another system.
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for place, name in enumerate(reversed(systems)):
    left.plot(f1[name], [place] * 3, "o", alpha=0.6, color="C0")
    left.plot(np.mean(f1[name]), place, "|", color="black", markersize=18)
    right.barh(place, seconds[name], color="0.7")
left.set_yticks(range(len(systems)), list(reversed(systems)))
left.set(xlabel="F1 on test posts")
right.set(xlabel="seconds for three fits")
plt.show()
