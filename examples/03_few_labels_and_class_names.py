"""
Few labels and class names
==========================

The name of each class as one more labelled text, for 0 to 20 labels per class.

A name costs nothing and says what a class is about. Add it to the texts, with its class as the
label. This helps most where labels are fewest, if the names are plain words. Here a linear
classifier learns from frozen embeddings, in seconds. At the end a net learns from names and texts,
and from the answers of a language model.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder, SoftSelfTrainingClassifier
from sklearn_spt.datasets import make_short_texts

train, test = make_short_texts(400, random_state=0), make_short_texts(300, random_state=1)
names = train.target_names
embedder = SentenceEmbedder()
E, E_test = embedder.fit_transform(train.data), embedder.transform(test.data)
E_names = embedder.transform([f"It is about {name}." for name in names])


# %%
# Hide labels
# -----------
def hide(per_class, seed):
    """Return y with -1 for all but some rows of each class."""
    order = np.random.default_rng(seed).permutation(len(train.target))
    y = np.full(len(order), -1)
    for code in range(len(names)):
        rows = order[train.target[order] == code][:per_class]
        y[rows] = code
    return y


# %%
# With and without names
# ----------------------
# :class:`~sklearn_spt.SoftSelfTrainingClassifier` learns from labelled and unlabelled embeddings.
# Each point is a mean of five draws of the labels.
warnings.filterwarnings("ignore", "Classes with a single labelled row")  # on purpose
per_class = [0, 1, 2, 5, 10, 20]
scores = {"with names": [], "without names": []}
for n in per_class:
    for with_names, found in zip((True, False), scores.values(), strict=True):
        draws = []
        for seed in range(5):
            X, y = E, hide(n, seed)
            if with_names:
                X, y = np.vstack([E_names, X]), np.append(range(len(names)), y)
            if (y >= 0).any():  # without names and labels there is nothing to learn from
                clf = SoftSelfTrainingClassifier().fit(X, y)
                draws.append(clf.score(E_test, test.target))
        found.append(np.mean(draws) if draws else np.nan)
    print(f"{n:2} labels per class: " + ", ".join(f"{k} {v[-1]:.3f}" for k, v in scores.items()))

fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, found in scores.items():
    ax.plot(range(len(per_class)), found, marker="o", label=name)
ax.set_xticks(range(len(per_class)), per_class)
ax.set(xlabel="labels per class", ylabel="accuracy, mean of five draws")
ax.legend()
plt.show()

# %%
# A net
# -----
# The names go to the texts.
X = np.append([f"It is about {name}." for name in names], train.data)
y = np.append(range(len(names)), hide(2, seed=0))
clf = SelfPretrainingClassifier(random_state=0).fit(X, y)
print(f"a net, two labels per class and the names: {clf.score(test.data, test.target):.3f}")


# %%
# A language model's labels
# -------------------------
# You asked a language model for the class of each text, and a third of its answers are wrong. They
# are a teacher: any estimator with ``predict_proba`` is one, and gets the texts as they are. This
# one looks the answers up. Beside "nets", which learn from true labels, it gives the first labels.
class Answers(ClassifierMixin, BaseEstimator):
    """Probabilities by the answers of a language model."""

    def __init__(self, answer_to=None, trust=0.7):
        self.answer_to = answer_to
        self.trust = trust

    def fit(self, X, y):
        """Learn nothing."""
        self.classes_ = np.arange(len(names))
        return self

    def predict_proba(self, X):
        """Return `trust` for the answer, and equal shares of the rest for other classes."""
        answered = np.eye(len(names))[[self.answer_to[text] for text in X]]
        rest = (1 - self.trust) / (len(names) - 1)
        return answered * (self.trust - rest) + rest


rng = np.random.default_rng(0)
wrong = rng.random(len(train.target)) < 1 / 3
other = (train.target + rng.integers(1, len(names), size=len(wrong))) % len(names)
said = np.where(wrong, other, train.target)
answers = Answers(dict(zip(train.data, said, strict=True)))
y = hide(2, seed=0)
for teacher in (None, ["nets", answers]):
    clf = SelfPretrainingClassifier(teacher=teacher, random_state=0)
    score = clf.fit(train.data, y).score(test.data, test.target)
    print(f"two labels per class{', and the answers' if teacher else ''}: {score:.3f}")
