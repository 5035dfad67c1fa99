"""
Rare classes
============

A class with 4% of the texts: what balanced batches do, and what logit adjustment corrects.

Shuffled batches hold one text of such a class, or none, and a net may never predict it. Balanced
batches, the default, draw all classes equally often. Then the net predicts rare classes too often.
``logit_adjustment="auto"``, the default, corrects the probabilities without training again.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support
from skorch import NeuralNetClassifier

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts

shares = [0.8, 0.16, 0.04]
train = make_short_texts(800, n_classes=3, weights=shares, n_labeled=150, random_state=0)
test = make_short_texts(800, n_classes=3, weights=shares, random_state=1)
embedder = SentenceEmbedder()
E, E_test = embedder.fit_transform(train.data), embedder.transform(test.data)
y = train.target_partial
print(dict(zip(train.target_names, np.bincount(y[y >= 0]).tolist(), strict=True)))

# %%
# Three fits
# ----------
# A linear layer learns from embeddings, which leaves time for five seeds.
layer = {"module__in_features": E.shape[1], "module__out_features": 3}
training = {"optimizer": torch.optim.Adam, "lr": 1e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(torch.nn.Linear, criterion=torch.nn.CrossEntropyLoss, **layer, **training)
settings = {
    "shuffled batches": {"balanced_batches": False, "logit_adjustment": 0.0},
    "balanced batches": {"logit_adjustment": 0.0},
    "balanced, adjusted\n(default)": {},
}
found = {}
for name, params in settings.items():
    scores = []
    for seed in range(5):
        clf = SelfPretrainingClassifier(net, finetune_epochs=10, random_state=seed, **params)
        predicted = clf.fit(E, y).predict(E_test)
        each = precision_recall_fscore_support(test.target, predicted, zero_division=0.0)
        scores.append([measure[2] for measure in each[:3]])  # of the rarest class
    found[name] = np.mean(scores, axis=0)
    p, r, f = found[name]
    print(f"{name.split(chr(10))[0]:20} precision {p:.3f}, recall {r:.3f}, F1 {f:.3f}")

fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for place, measure in enumerate(("precision", "recall", "F1")):
    ax.bar(
        np.arange(3) + 0.27 * (place - 1), [f[place] for f in found.values()], 0.25, label=measure
    )
ax.set_xticks(range(3), list(found))
ax.set(ylabel=f"of the class {train.target_names[2]!r}, five seeds", ylim=(0, 1))
ax.legend(loc="upper left")
plt.show()

# %%
# Set ``logit_adjustment=0.0`` if the labelled rows are not a random sample, for instance ten of
# each class: their shares say nothing about other texts then. If a missed text costs more than a
# false alarm, move the threshold by scikit-learn's ``TunedThresholdClassifierCV``.
