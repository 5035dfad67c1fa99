"""
Which pseudo-labels changed their mind?
=======================================

Watch the pseudo-labels of a fit from iteration to iteration.

Run ``python examples/06_changed_pseudo_labels.py``; about half a minute. In each iteration the new
teacher labels all texts of the sample again. A label that was wrong at first can become right
later. ``on_iteration`` is called after each iteration, and ``history_`` holds counts and losses,
which :class:`~sklearn_spt.inspection.PseudoLabelDisplay` draws.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.inspection import PseudoLabelDisplay

# %%
# A fit that is watched
# ---------------------
# The function gets an :class:`~sklearn_spt.Iteration`. Here the student labels the unlabelled
# posts, as it will do when it is the next teacher. Scores of held-out posts, collected in the same
# way, are what :class:`~sklearn_spt.inspection.IterationCurveDisplay` draws.
posts = make_short_texts(160, n_labeled=60, weights=[0.7], random_state=0)
y = posts.target_partial
texts, truth = posts.data[y == -1], posts.target[y == -1]  # fits never see this truth
opinions = []


def ask(iteration):
    opinions.append(iteration.predict_proba(texts, which="students")[:, 1])


clf = SelfPretrainingClassifier(
    BertClassifier(n_threads=1), step_size=0.34, on_iteration=ask, random_state=0
)
clf.fit(posts.data, y)

# %%
# Posts whose label changed
# -------------------------
# Those that change are the doubtful ones. A fit that settles changes fewer and fewer of them.
P = np.array(opinions)  # (iterations + 1, posts)
labels = P > 0.5
for t in range(1, len(P)):
    changed = labels[t] != labels[t - 1]
    better = changed & (labels[t] == truth)
    print(f"iteration {t}: {changed.sum()} changed, {better.sum()} of them to the true class")

moved = np.argsort(np.ptp(P, axis=0))[::-1][:5]
for i in moved:
    print("  ".join(f"{p:.2f}" for p in P[:, i]), f"| true class {truth[i]} |", texts[i])

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(P, color="0.85", linewidth=0.8, zorder=1)
for i in moved:
    ax.plot(P[:, i], marker="o", label=f"true class {truth[i]}", color=f"C{truth[i]}", zorder=2)
ax.axhline(0.5, color="0.3", linestyle=":", zorder=1)
ax.set(xlabel="iteration", ylabel="probability of a report", xticks=range(len(P)), ylim=(0, 1))
ax.set_title("All unlabelled posts, and the five that moved most")
plt.show()

# %%
# The history of the fit
# ----------------------
# From ``history_``, which every fit keeps: how many pseudo-labels each class has, and how inertia
# moves their probabilities. :class:`~sklearn_spt.inspection.FitReport` makes a page of all of it.
PseudoLabelDisplay.from_estimator(clf)
plt.show()
