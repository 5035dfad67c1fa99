"""
Your own CSV, with missing labels
=================================

From a table with empty cells to predictions, with pandas.

Run ``python examples/03_own_csv.py``; about half a minute. It needs pandas. To stand alone, it
writes a small CSV first; put your own file in its place.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import load_texts, make_short_texts

# %%
# A file in which somebody has labelled some rows
# -----------------------------------------------
posts = make_short_texts(180, n_labeled=60, weights=[0.7], random_state=0)
names = {0: "no", 1: "yes"}  # -1 has no name: the cell stays empty
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "posts.csv"
pd.DataFrame(
    {"text": posts.data, "ill": [names.get(label) for label in posts.target_partial]}
).to_csv(path, index=False)

frame = pd.read_csv(path)
print(frame["ill"].value_counts(dropna=False))

# %%
# Fit
# ---
# ``unlabeled_marker=None`` takes every missing value (None, NaN, NA) as "no label". Classes keep
# their names. ``step_size=0.5`` takes the unlabelled texts in two steps.
clf = SelfPretrainingClassifier(
    BertClassifier(n_threads=1), step_size=0.5, unlabeled_marker=None, random_state=0
)
clf.fit(frame["text"], frame["ill"])
print(clf.classes_)

# %%
# What the unlabelled rows became
# -------------------------------
# ``transduction_`` has the given label of each labelled row and the last pseudo-label of the
# others. ``predict_proba`` says how sure the classifier is.
unlabeled = frame["ill"].isna()
frame["guess"] = clf.transduction_
frame["p_yes"] = clf.predict_proba(frame["text"])[:, list(clf.classes_).index("yes")]
print(frame[unlabeled].sort_values("p_yes").iloc[[0, 1, -2, -1]][["text", "guess", "p_yes"]])

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.hist(frame.loc[unlabeled, "p_yes"], bins=20, range=(0, 1))
ax.set(xlabel="probability of a report", ylabel="posts", title="The posts without a label")
plt.show()

# %%
# Label next what is nearest to one half: there the classifier knows least.
doubtful = frame[unlabeled].assign(doubt=lambda f: (f["p_yes"] - 0.5).abs()).nsmallest(3, "doubt")
print(doubtful["text"].tolist())

# %%
# Without pandas
# --------------
# ``load_texts`` reads CSV, TSV, JSON lines and parquet, and gives texts and labels as arrays.
bunch = load_texts(path, label="ill")
print(len(bunch.data), "texts")
folder.cleanup()
