r"""
Quickstart
==========

Five labels per class, 300 texts without a label: one net that learns from the labels only, and this
library, on the same rows.

Run ``python examples/01_quickstart.py``; it takes up to two minutes on two cores. The texts
are made up: messages to the support of a shop, whose classes are topics. Such texts suit the
library. ``--data posts.csv``, with the columns ``text`` and ``label``, takes texts of your own.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

PER_CLASS, N_UNLABELED, N_TEST, SEEDS = 5, 300, 400, (0, 1, 2)
parser = argparse.ArgumentParser(description="Compare one net with this library.")
parser.add_argument("--data", metavar="FILE.csv", help="texts of your own")
parser.add_argument("--out", default="quickstart.png", help="file of the picture")
options, _ = parser.parse_known_args()  # a notebook has arguments of its own
if options.data:
    frame = pd.read_csv(options.data).dropna(subset=["text", "label"])
    texts, target = frame["text"].to_numpy(dtype=object), frame["label"].to_numpy()
else:
    bunch = make_short_texts(2000, random_state=0)
    texts, target = bunch.data, np.array(bunch.target_names)[bunch.target]


# %%
# The rows
# --------
# Each seed draws five labelled rows of each class, and 300 unlabelled and 400 test rows at random.
# -1 marks the rows without a label.
def draw(seed):
    """Return the texts and labels to learn from, and those to test on."""
    rest, test = train_test_split(np.arange(len(texts)), test_size=N_TEST, random_state=seed)
    labeled = [rest[target[rest] == label][:PER_CLASS] for label in np.unique(target)]
    labeled = np.concatenate(labeled)
    unlabeled = np.setdiff1d(rest, labeled)
    unlabeled = np.random.default_rng(seed).permutation(unlabeled)[:N_UNLABELED]
    y = np.full(len(labeled) + len(unlabeled), -1, dtype=object)
    y[: len(labeled)] = target[labeled]
    return texts[np.append(labeled, unlabeled)], y, texts[test], target[test]


# %%
# Two classifiers
# ---------------
# Both have their default parameters.
results = []
for seed in SEEDS:
    X, y, X_test, y_test = draw(seed)
    known = y != -1
    one = BertClassifier(random_state=seed).fit(X[known], y[known].tolist())
    spt = SelfPretrainingClassifier(random_state=seed)
    spt.fit(X, y)
    found = one.score(X_test, y_test), spt.score(X_test, y_test)
    print("seed {}: one net {:.3f}, this library {:.3f}".format(seed, *found), flush=True)
    results.append(found)

# %%
# The result
# ----------
table = pd.DataFrame(results, columns=["one net", "this library"], index=SEEDS)
table["gain"] = table["this library"] - table["one net"]
print(table.rename_axis("seed").to_string(float_format="{:.3f}".format))
print(
    f"\nWith {PER_CLASS} labels per class, {N_UNLABELED} unlabelled texts "
    f"change the mean accuracy from {table['one net'].mean():.3f} to "
    f"{table['this library'].mean():.3f}: {table['gain'].mean():+.3f}, "
    f"ahead in {(table['gain'] > 0).sum()} of {len(SEEDS)} seeds."
)

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(table[["one net", "this library"]].T, color="0.7", zorder=1)
for name in ("one net", "this library"):
    ax.scatter([name] * len(table), table[name], s=60, zorder=2)
ax.set(ylabel="accuracy on test texts", xlim=(-0.5, 1.5))
ax.set_title(f"{PER_CLASS} labels per class, {N_UNLABELED} unlabelled texts")
fig.savefig(options.out, dpi=150)
print(f"The picture is in {options.out}.")
plt.show()

# %%
# On your own labels, :func:`~sklearn_spt.compare_with_supervised` says whether unlabelled texts
# help, by cross-validation and with an interval.
