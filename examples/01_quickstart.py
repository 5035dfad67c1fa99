"""
Few labels, many texts
======================

Ten labelled texts of each class, and 400 texts without a label: what do the 400 add? The same rows
are learned by one net from the labels alone, and by this library from all of them, with three
seeds. The texts are made up, and the sizes and seeds were fixed before the first run.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sklearn_spt import BertClassifier, SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

N_LABELED, N_UNLABELED, N_TEST = 40, 400, 1000
rows = []
for seed in range(3):
    letters = make_short_texts(N_LABELED + N_UNLABELED + N_TEST, random_state=seed)
    texts, topics = letters.data, letters.target
    y = np.where(np.arange(len(topics)) < N_LABELED, topics, -1)
    train, test = slice(N_LABELED + N_UNLABELED), slice(N_LABELED + N_UNLABELED, None)

    one_net = BertClassifier(random_state=seed)
    one_net.fit(texts[:N_LABELED], y[:N_LABELED])

    clf = SelfPretrainingClassifier(teacher="embeddings", step_size=1.0, alpha=0, random_state=seed)
    clf.fit(texts[train], y[train])

    for name, model in {"one net, labels alone": one_net, "with unlabelled texts": clf}.items():
        accuracy = model.score(texts[test], topics[test])
        rows.append({"seed": seed, "classifier": name, "accuracy": accuracy})

# %%
# Accuracy on 1,000 other texts, by seed.
table = pd.DataFrame(rows).pivot(index="classifier", columns="seed", values="accuracy")
table["mean"] = table.mean(axis=1)
print(table.round(3).to_string())
gain = table["mean"]["with unlabelled texts"] - table["mean"]["one net, labels alone"]
print(
    f"The {N_UNLABELED} unlabelled texts change the mean accuracy by {gain:+.3f} (made-up texts)."
)

# %%
fig, ax = plt.subplots(figsize=(5, 2.2), layout="constrained")
means = table["mean"].sort_values()
ax.barh(means.index, means, color=["0.7", "C0"])
for name, one in table.drop(columns="mean").iterrows():
    ax.plot(one, [name] * len(one), "k.")
ax.set(xlabel="accuracy; points are seeds", xlim=(0, 1))
fig.savefig("quickstart.png", dpi=150)
