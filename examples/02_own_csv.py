"""
Your own CSV
============

From a table in which some cells of the label are empty to a table in which none is.

To run on its own, the program writes a small CSV first. Put your file in its place.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.inspection import FitReport

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "messages.csv"
bunch = make_short_texts(240, n_labeled=40, random_state=0)
names = dict(enumerate(bunch.target_names))  # -1 has no name: its cell stays empty
topics = pd.Series(bunch.target_partial).map(names)
pd.DataFrame({"text": bunch.data, "topic": topics}).to_csv(path, index=False)

# %%
# Read
# ----
frame = pd.read_csv(path)
print(frame["topic"].value_counts(dropna=False))

# %%
# Fit
# ---
# ``unlabeled_marker=None`` takes every missing value as "no label". Labels are strings; they need
# no encoding. With few labels, frozen embeddings are the better teacher.
clf = SelfPretrainingClassifier(
    teacher="embeddings", step_size=1.0, unlabeled_marker=None, random_state=0
)
clf.fit(frame["text"], frame["topic"])

# %%
# Fill in
# -------
# Predictions of the unlabelled rows, with the probability of each.
unlabeled = frame["topic"].isna()
P = clf.predict_proba(frame.loc[unlabeled, "text"])
found = frame[unlabeled].assign(topic=clf.classes_[P.argmax(axis=1)], probability=P.max(axis=1))
complete = pd.concat([frame[~unlabeled], found]).sort_index()
complete.to_csv(path.with_name("complete.csv"), index=False)
print(complete.head(8).to_string())

# %%
# Which rows to label next?
# -------------------------
# :class:`~sklearn_spt.inspection.FitReport` lists the rows in doubt: their last pseudo-label is no
# longer predicted, or two classes are almost equally probable.
report = FitReport.from_estimator(clf, frame["text"], n_texts=5)
print(report.doubtful.to_string(index=False))

# %%
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
groups = [part["probability"] for _, part in found.groupby("topic")]
ax.hist(groups, bins=10, range=(0, 1), stacked=True, label=sorted(found["topic"].unique()))
ax.set(xlabel="probability of the predicted topic", ylabel="messages")
ax.legend()
plt.show()
folder.cleanup()
