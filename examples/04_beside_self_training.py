"""
Beside scikit-learn's self-training
===================================

The same net, the same texts and the same ``y`` in both.

Run ``python examples/04_beside_self_training.py``; about half a minute. Both classifiers get −1 for
missing labels, and both start from the same fine-tuned net. The results page compares them on real
texts, with 300 labelled and 3,000 unlabelled ones.
"""

import matplotlib.pyplot as plt
from sklearn.metrics import brier_score_loss, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, TokenIdVectorizer
from sklearn_spt.datasets import make_short_texts

train = make_short_texts(150, n_labeled=50, weights=[0.7], random_state=0)
test = make_short_texts(300, weights=[0.7], random_state=1)
X, y = train.data, train.target_partial

# %%
# Three classifiers
# -----------------
# scikit-learn's takes arrays and no texts, so :class:`~sklearn_spt.TokenIdVectorizer` turns the
# texts into a matrix of token ids, which :class:`~sklearn_spt.BertClassifier` accepts.
net = BertClassifier(n_threads=1, random_state=0)
models = {
    "one net": net.fit(X[y != -1], y[y != -1]),
    "self-training": make_pipeline(
        TokenIdVectorizer(), SelfTrainingClassifier(net, max_iter=2)
    ).fit(X, y),
    "Self-Pretraining": SelfPretrainingClassifier(net, step_size=0.5, random_state=0).fit(X, y),
}
proba = {name: model.predict_proba(test.data)[:, 1] for name, model in models.items()}
for name, p in proba.items():
    f1, brier = f1_score(test.target, p > 0.5), brier_score_loss(test.target, p)
    print(f"{name:18} F1 {f1:.3f}   Brier score {brier:.3f}")

# %%
# How sure they are
# -----------------
# Self-training learns hard labels, its own errors among them, as if they were true. So it becomes
# very sure. Self-Pretraining learns probabilities, corrects its students on the true labels, and
# predicts with three nets. A small Brier score says that the probabilities can be trusted.
#
# The students learn by :class:`~sklearn_spt.DistillationLoss`, at the rate of
# :class:`~sklearn_spt.RightTrapezoidalLR`, which
# :class:`~sklearn_spt.inspection.LearningRateDisplay` draws.
fig, axes = plt.subplots(1, 3, figsize=(8, 2.8), sharey=True, layout="constrained")
for ax, (name, p) in zip(axes, proba.items(), strict=True):
    for label, word in enumerate(("no report", "report")):
        ax.hist(p[test.target == label], bins=10, range=(0, 1), alpha=0.6, label=word)
    ax.set(title=name, xlabel="probability of a report")
axes[0].set_ylabel("test posts")
axes[0].legend()
plt.show()

# %%
# Over many data sets and seeds, :class:`~sklearn_spt.inspection.GainDisplay` and
# :class:`~sklearn_spt.inspection.ForestDisplay` draw such comparisons with their intervals.
