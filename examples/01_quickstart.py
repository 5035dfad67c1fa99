r"""
Quickstart
==========

Five labels per class and 300 texts without a label: one net that learns from the labels alone, and
this library, on the same rows.

Run ``python examples/01_quickstart.py``; it takes up to two minutes on two cores. The texts are
made up: messages to the support of a shop, whose classes are topics. For texts of your own add
``--data posts.csv``, a file with the columns ``text`` and ``label`` as ``fit`` takes it.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

parser = argparse.ArgumentParser(description="Compare one net with this library.")
parser.add_argument("--data", metavar="FILE.csv", help="texts of your own")
parser.add_argument("--out", default="quickstart.png", help="file of the picture")
options, _ = parser.parse_known_args()  # a notebook has arguments of its own
if options.data:
    frame = pd.read_csv(options.data, dtype=str)
    if not {"text", "label"} <= set(frame):
        parser.error(f"{options.data} needs the columns text and label; it has {list(frame)}")
else:
    bunch = make_short_texts(2000, random_state=0)
    names = np.array(bunch.target_names)
    frame = pd.DataFrame({"text": bunch.data, "label": names[bunch.target]})
frame = frame[["text", "label"]].dropna(subset="text")
frame["label"] = frame["label"].mask(frame["label"].isin(["-1", "-1.0"]))
partly = frame["label"].isna().any()  # there are unlabelled texts already


# %%
# The rows
# --------
# Each draw has five labelled, 300 unlabelled and up to 400 test texts. A file in which labels are
# missing keeps its own: a quarter of each class tests, and up to 2,000 unlabelled texts are used.
# None marks a text without a label.
def draw(seed):
    """Return the rows to learn from, and those to test on."""
    rows = frame.sample(frac=1, random_state=seed)
    place = rows.groupby("label").cumcount()
    size = rows.groupby("label")["label"].transform("size")
    if partly:
        test = place < size // 4
        rest = rows[rows["label"].isna()][:2000]
        return pd.concat([rows[~test & rows["label"].notna()], rest]), rows[test]
    others = rows[place >= 5]
    n = min(400, len(others) // 2)
    return pd.concat([rows[place < 5], others[n : n + 300].assign(label=None)]), others[:n]


# %%
# Two classifiers
# ---------------
# Both have their default parameters.
results = []
for seed in (0, 1, 2):
    train, test = draw(seed)
    if test.empty:
        parser.error("no class has enough labels to test on; use python -m sklearn_spt compare")
    X, y = train["text"], train["label"]
    one = BertClassifier(random_state=seed).fit(X[y.notna()], y[y.notna()])
    spt = SelfPretrainingClassifier(unlabeled_marker=None, random_state=seed).fit(X, y)
    results.append([clf.score(test["text"], test["label"]) for clf in (one, spt)])
    print("draw {}: one net {:.3f}, this library {:.3f}".format(seed, *results[-1]), flush=True)

# %%
# The result
# ----------
table = pd.DataFrame(results, columns=["one net", "this library"]).rename_axis("draw")
print(table.to_string(float_format="{:.3f}".format))
one, spt = table.mean()
ahead = (table["this library"] > table["one net"]).sum()
print(f"\n{y.notna().sum()} labelled, {y.isna().sum()} unlabelled and {len(test)} test texts.")
print(f"Mean accuracy {one:.3f} and {spt:.3f}: {spt - one:+.3f}, ahead in {ahead} of 3 draws.")

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(table.T, color="0.7", zorder=1)
for name in table:
    ax.scatter([name] * len(table), table[name], s=60, zorder=2)
ax.set(ylabel="accuracy on test texts", xlim=(-0.5, 1.5))
fig.savefig(options.out, dpi=150)
print(f"The picture is in {options.out}.")
plt.show()

# %%
# A few test texts decide little. On your own labels, ``python -m sklearn_spt compare posts.csv`` or
# :func:`~sklearn_spt.compare_with_supervised` gives a verdict with an interval.
