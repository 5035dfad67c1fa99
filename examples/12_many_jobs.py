"""
Many jobs, and a cluster
========================

A search in several processes, and the same search on dask workers.

Run ``python examples/12_many_jobs.py``; about half a minute. It needs dask (the extra
``distributed``). scikit-learn hands its fits to joblib, and joblib to processes or to a cluster.
The scores are the same everywhere, as long as each fit has the same number of threads.
"""

import time

import joblib
import matplotlib.pyplot as plt
import torch
from distributed import Client
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_spt import SelfPretrainingClassifier, SentenceEmbedder
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.model_selection import SemiSupervisedStratifiedKFold

posts = make_short_texts(300, n_labeled=100, weights=[0.7], ambiguity=0.2, random_state=0)
E, y = SentenceEmbedder(n_threads=1).fit_transform(posts.data), posts.target_partial
layer = {"module__in_features": E.shape[1], "module__out_features": 2}
training = {"optimizer": torch.optim.Adam, "lr": 1e-2, "batch_size": 32, "verbose": 0}
net = NeuralNetClassifier(nn.Linear, criterion=nn.CrossEntropyLoss, **layer, **training)
search = GridSearchCV(
    SelfPretrainingClassifier(net, step_size=0.5, finetune_epochs=10, random_state=0),
    {"lam": [0.1, 0.3, 0.5]},
    scoring="f1",
    cv=SemiSupervisedStratifiedKFold(n_splits=3, shuffle=True, random_state=0),
)


def run(where):
    """Fit the search; return its scores."""
    start = time.perf_counter()
    scores = search.fit(E, y).cv_results_["mean_test_score"]
    seconds[where] = time.perf_counter() - start
    print(f"{where:14}", scores.round(4))
    return scores


# %%
# One process, then two
# ---------------------
# Processes pay where a fit takes much longer than the start of a process, a few seconds. Each has
# its own memory: plan for 3 GB with the default encoder.
seconds = {}
alone = run("one process")
search.set_params(n_jobs=2)
assert (run("two processes") == alone).all()

# %%
# A cluster
# ---------
# ``dask scheduler`` on one machine and ``dask worker tcp://THE-SCHEDULER:8786 --nthreads 1`` on the
# others make a cluster; ``Client("tcp://THE-SCHEDULER:8786")`` connects to it. For this page the
# workers live in this process, where fits wait for each other: only other machines make it faster.
cluster = Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None)
with cluster, joblib.parallel_config("dask"):
    assert (run("dask") == alone).all()

fig, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.barh(list(seconds), list(seconds.values()))
ax.invert_yaxis()
ax.set(xlabel="seconds for ten fits of a second or less")
plt.show()

# %%
# Whole comparisons of methods, seeds and data sets run in the same way, and go on where they were
# stopped: ``python -m sklearn_spt.experiments run --n-jobs 4`` or ``--scheduler tcp://...``.
