"""
Save, load and serve
====================

Keep a fitted classifier in a folder, load it elsewhere, and serve one of its nets without this
library.

``save`` writes JSON and safetensors, no pickle. ``load`` needs neither the encoder nor the
internet, and compares every file with its SHA-256 first. ``export`` writes one net, a student of
the last iteration, for sentence-transformers or as ONNX.
"""

import importlib.util
import tempfile
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import accuracy_score

import sklearn_spt
from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

train = make_short_texts(240, n_labeled=60, random_state=0)
test = make_short_texts(300, random_state=1)
clf = SelfPretrainingClassifier(step_size=0.5, random_state=0)
clf.fit(train.data, train.target_partial)

# %%
# Save and load
# -------------
# By default several nets predict together; all are saved. On the same machine the probabilities
# are equal bit by bit.
folder = tempfile.TemporaryDirectory()
saved, exported = Path(folder.name) / "saved", Path(folder.name) / "exported"
sklearn_spt.save(clf, saved)
loaded = sklearn_spt.load(saved)  # in another program, on another machine
P = clf.predict_proba(test.data)
print("equal:", np.array_equal(P, loaded.predict_proba(test.data)))


def megabytes(place):
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1e6


# %%
# One net alone
# -------------
# It takes a third of the time and of the memory, and may predict a little worse: measure it.
nets = {f"all {len(loaded.estimators_)} nets": loaded, "one student": loaded.students_[0]}
rows = {}
for name, model in nets.items():
    start = perf_counter()
    predicted = model.predict_proba(test.data).argmax(axis=1)
    seconds = perf_counter() - start
    rows[name] = len(test.data) / seconds, accuracy_score(test.target, predicted)
    print(f"{name}: {rows[name][0]:.0f} texts per second, accuracy {rows[name][1]:.3f}")

# %%
# Export
# ------
# The folder of ``format="huggingface"`` is one of sentence-transformers, whose ``encode`` returns
# logits; ``format="onnx"`` needs ``pip install onnx onnxscript``. The order of the labels is in
# ``export.json``.
sklearn_spt.export(clf, exported)
print(f"saved: {megabytes(saved):.0f} MB, exported: {megabytes(exported):.0f} MB")
print(sorted(file.name for file in exported.iterdir()))
if importlib.util.find_spec("sentence_transformers"):
    from sentence_transformers import SentenceTransformer

    served = SentenceTransformer(str(exported), device="cpu")
    logits = served.encode(list(test.data), show_progress_bar=False)
    print(f"accuracy when served: {accuracy_score(test.target, logits.argmax(axis=1)):.3f}")
folder.cleanup()

# %%
fig, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
for place, name in enumerate(("texts per second", "accuracy on test texts")):
    ax = axes[place]
    bars = ax.bar(list(rows), [values[place] for values in rows.values()], width=0.5)
    ax.bar_label(bars, fmt="{:.3g}")
    ax.set_title(name)
    ax.margins(y=0.15)
plt.show()
