"""
A CSV file of your own
======================

A file has a column of texts and a column of labels, which is empty for most rows. pandas reads the
empty labels as missing values, and ``unlabeled_marker=None`` says that they mark unlabelled rows.
"""

import io

import matplotlib.pyplot as plt
import pandas as pd

from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.inspection import FitReport

letters = make_short_texts(120, n_labeled=40, random_state=0)
names = [letters.target_names[c] if c >= 0 else None for c in letters.target_partial]
file = io.StringIO(pd.DataFrame({"text": letters.data, "label": names}).to_csv(index=False))

frame = pd.read_csv(file)
print(frame.sample(4, random_state=0).to_string())

# %%
clf = SelfPretrainingClassifier(unlabeled_marker=None, step_size=1.0, alpha=0, random_state=0)
clf.fit(frame["text"], frame["label"])
print(clf.predict(["where is my parcel", "the card was charged twice"]))

# %%
# ``transduction_`` has a label for every row, and the report shows the texts that are in doubt.
frame["found"] = clf.transduction_
print(FitReport.from_estimator(clf, frame["text"], n_texts=5))
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
counts = pd.DataFrame(
    {"given": frame["label"].value_counts(), "found": frame["found"].value_counts()}
)
counts.plot.bar(ax=ax, rot=0, xlabel="", ylabel="rows")
