"""
Save, load, export
==================

``save`` writes safetensors and JSON, and ``load`` reads them on a machine without the encoder.
``export`` writes one net for other libraries: here for sentence-transformers, which return logits.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sklearn_spt
from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

letters = make_short_texts(300, n_labeled=40, random_state=0)
clf = SelfPretrainingClassifier(teacher="embeddings", step_size=1.0, alpha=0, random_state=0)
clf.fit(letters.data[:120], letters.target_partial[:120])
folder = Path(tempfile.mkdtemp())

clf.save(folder / "model")
loaded = sklearn_spt.load(folder / "model")
texts = letters.data[120:]
assert np.array_equal(loaded.predict_proba(texts), clf.predict_proba(texts))

clf.export(folder / "exported")
print(sorted(file.name for file in (folder / "exported").glob("*")))

# %%
# Time of a prediction, by the number of texts.
seconds = {}
for n in (1, 10, 50, 150):
    start = time.perf_counter()
    loaded.predict(texts[:n])
    seconds[n] = time.perf_counter() - start
ax = pd.Series(seconds).plot(marker="o", figsize=(5, 3), xlabel="texts", ylabel="seconds")
ax.set_ylim(0)
plt.tight_layout()
