"""
Several classes
===============

Four classes with names, macro-F1 and a confusion matrix.

Run ``python examples/09_several_classes.py``; about half a minute. Nothing has to be set for more
than two classes. Labels can be strings; then −1 as the mark of unlabelled rows needs an array of
``dtype=object``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay, classification_report

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

# %%
# Posts of four kinds
# -------------------
posts = make_short_texts(200, n_classes=4, n_labeled=80, ambiguity=0.2, random_state=0)
names = np.array(posts.target_names, dtype=object)
y = np.where(posts.target_partial == -1, None, names[posts.target_partial])
for name in names:
    print(f"{(y == name).sum():3} labelled | {posts.data[y == name][0]}")

# %%
# Fit and report
# --------------
clf = SelfPretrainingClassifier(
    BertClassifier(n_threads=1), step_size=0.5, unlabeled_marker=None, random_state=0
)
clf.fit(posts.data, y)
test = make_short_texts(300, n_classes=4, ambiguity=0.2, random_state=1)
predicted = clf.predict(test.data)
print(classification_report(names[test.target], predicted, zero_division=0))

# %%
# Which classes are confused?
# ---------------------------
# Rows are true classes and sum to one. In a search over parameters use ``scoring="f1_macro"``.
fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
ConfusionMatrixDisplay.from_predictions(
    names[test.target],
    predicted,
    normalize="true",
    values_format=".2f",
    xticks_rotation=20,
    cmap="Blues",
    colorbar=False,
    ax=ax,
)
plt.show()
