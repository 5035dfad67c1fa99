"""
Rare positives
==============

9% positive posts: what balanced batches do, and what the logit adjustment takes back.

Run ``python examples/07_rare_positives.py``; about half a minute. In the paper's comparison one of
the older systems, on 300 tweets with 9% positive ones, called nearly everything negative. This page
shows that failure, its cause and its cure. A linear layer learns from frozen embeddings, which
leaves time for three seeds.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import MutualLearningClassifier, SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts

kind = {"weights": [0.91], "ambiguity": 0.2, "flip_y": 0.0}
train = make_short_texts(400, n_labeled=200, random_state=0, **kind)
test = make_short_texts(400, random_state=1, **kind)
embedder = SentenceEmbedder(n_threads=1)
E, E_test = embedder.fit_transform(train.data), embedder.transform(test.data)
layer = {"module__in_features": E.shape[1], "module__out_features": 2}
training = {"optimizer": torch.optim.Adam, "lr": 1e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(nn.Linear, criterion=nn.CrossEntropyLoss, **layer, **training)

# %%
# Four fits
# ---------
# Shuffled batches hold two or three positive posts each: in a few epochs a net learns little more
# from them than how rare the class is. Balanced batches, the default of every method here, draw
# both classes equally often. Then nets call too much positive. ``logit_adjustment="auto"``, the
# default, corrects the probabilities without training anything again.
epochs = {"finetune_epochs": 10}
models = {
    "mutual learning,\nshuffled": MutualLearningClassifier(net, balanced_batches=False, **epochs),
    "mutual learning,\nbalanced": MutualLearningClassifier(net, **epochs),
    "Self-Pretraining,\nnot adjusted": SelfPretrainingClassifier(
        net, logit_adjustment=0, step_size=0.5, **epochs
    ),
    "Self-Pretraining": SelfPretrainingClassifier(net, step_size=0.5, **epochs),
}
found = {}
for name, model in models.items():
    scores = []
    for seed in range(3):
        predicted = model.set_params(random_state=seed).fit(E, train.target_partial).predict(E_test)
        scores.append(
            precision_recall_fscore_support(
                test.target, predicted, average="binary", zero_division=0
            )[:3]
        )
    found[name] = np.mean(scores, axis=0)
    print(
        f"{name!r:36} precision {found[name][0]:.3f}, recall {found[name][1]:.3f}, "
        f"F1 {found[name][2]:.3f}"
    )

# %%
# So look at the batches before you blame the method.
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for i, measure in enumerate(("precision", "recall", "F1")):
    ax.bar(
        np.arange(len(found)) + 0.27 * (i - 1), [f[i] for f in found.values()], 0.25, label=measure
    )
ax.set_xticks(range(len(found)), list(found))
ax.set(ylabel="mean of three seeds", ylim=(0, 1))
ax.legend(loc="upper left")
plt.show()

# %%
# Another trade-off
# -----------------
# If a missed positive costs more than a false alarm, move the threshold on labelled posts that
# neither the fit nor the final test has seen: scikit-learn's ``TunedThresholdClassifierCV``.
