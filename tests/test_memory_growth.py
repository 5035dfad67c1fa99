"""Nets of a deleted fit are freed at once, and many fits need no more memory than a few.

``SKLEARN_SPT_RELIABILITY=full`` makes 100 fits with the default encoder in one process.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import pytest
from helpers.nets import bert_net

from sklearn_spt import SelfPretrainingClassifier, ThrottledSelfTrainingClassifier

FITS = """
import warnings
import numpy as np
from sklearn_spt import SelfPretrainingClassifier
from sklearn_spt.datasets import make_short_texts

warnings.simplefilter("ignore")
bunch = make_short_texts(random_state=0)
for i in range(100):
    rows = np.random.default_rng(i).permutation(len(bunch.data))[:30]
    y = np.where(np.arange(30) < 12, bunch.target[rows], -1)
    clf = SelfPretrainingClassifier(max_iter=1, alpha=0.0, finetune_epochs=1, random_state=i)
    clf.fit(bunch.data[rows], y)
    del clf
    with open("/proc/self/statm") as file:
        print(int(file.read().split()[1]) * 4096 / 2**20, flush=True)
"""


@pytest.mark.parametrize("kind", ["net", "method", "baseline"])
def test_nets_of_a_deleted_fit_are_freed_at_once(kind, tiny_encoder, tiny_texts):
    net = bert_net(tiny_encoder, max_epochs=1)
    y = [0, 1] * 6 + [-1] * 12
    if kind == "net":
        fitted = net.fit(tiny_texts[:12], y[:12])
        del net
        nets = [fitted]
    else:
        method = (
            SelfPretrainingClassifier(net, random_state=0)
            if kind == "method"
            else ThrottledSelfTrainingClassifier(net, threshold=0.0, random_state=0)
        )
        fitted = method.fit(tiny_texts, y)
        del method
        nets = list(fitted.estimators_)
    fitted.predict(tiny_texts)
    modules = [
        weakref.ref(part) for net in nets for part in (net.module_, *net.module_.parameters())
    ]
    gc.disable()
    try:
        del fitted, nets
        if kind != "net":
            del net
        assert [reference for reference in modules if reference() is not None] == []
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.reliability
@pytest.mark.skipif(
    os.environ.get("SKLEARN_SPT_RELIABILITY") != "full" or not os.path.exists("/proc/self/statm"),
    reason="100 fits take minutes: asked for by SKLEARN_SPT_RELIABILITY=full, on Linux",
)
def test_a_hundred_fits_need_no_more_memory_than_ten(minilm):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FITS], env=env, capture_output=True, text=True, check=True
    )
    mib = [float(line) for line in done.stdout.split()]
    print(f"MiB after fit 1, 10, 50, 100: {mib[0]:.0f}, {mib[9]:.0f}, {mib[49]:.0f}, {mib[99]:.0f}")
    assert len(mib) == 100
    assert mib[99] - mib[9] < 32
