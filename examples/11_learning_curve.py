"""
Is labelling 200 more worth it?
===============================

F1 over the number of labels, with and without the unlabelled texts, drawn by
:class:`~sklearn_spt.inspection.LearningCurveDisplay`.

Run ``python examples/11_learning_curve.py``; about half a minute. The curve answers two questions:
what more labels would bring, and how many labels the unlabelled texts stand for.
"""

import matplotlib.pyplot as plt
import torch
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.inspection import LearningCurveDisplay

# %%
# Labelled posts, of which more and more keep their label
# -------------------------------------------------------
# With your own data, hide labels that you have. A linear layer on frozen embeddings is enough to
# see the slope.
posts = make_short_texts(700, weights=[0.7], ambiguity=0.2, random_state=0)
E = SentenceEmbedder(n_threads=1).fit_transform(posts.data)
layer = {"module__in_features": E.shape[1], "module__out_features": 2}
training = {"optimizer": torch.optim.Adam, "lr": 1e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(nn.Linear, criterion=nn.CrossEntropyLoss, **layer, **training)
settings = {"step_size": 0.5, "pretrain_epochs": 2, "finetune_epochs": 8}
sizes = [n for n in (25, 50, 100, 200, 400) if n < 0.7 * len(E)]

# %%
# Two curves on the same draws
# ----------------------------
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
without = LearningCurveDisplay.from_estimator(
    SelfPretrainingClassifier(net, max_iter=0, **settings),
    *(E, posts.target),
    n_labeled=sizes,
    scoring="f1",
    name="labels alone",
    ax=ax,
)
with_them = LearningCurveDisplay.from_estimator(
    SelfPretrainingClassifier(net, **settings),
    *(E, posts.target),
    n_labeled=sizes,
    scoring="f1",
    name="with the unlabelled texts",
    ax=ax,
)
plt.show()

# %%
# Read it
# -------
# Where the curve still rises between the last two points, label more. Where the upper line at 100
# labels is as high as the lower one at 200, the unlabelled texts stand for 100 labels.
for display in (without, with_them):
    ((name, scores),) = display.scores.items()
    print(name, {n: round(float(f1), 3) for n, f1 in zip(sizes, scores.mean(axis=0), strict=True)})
