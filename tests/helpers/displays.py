"""Fixtures of the tests of the displays."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification

from helpers.nets import mlp_net
from sklearn_spt import SelfPretrainingClassifier


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def numbers():
    return make_classification(200, 8, random_state=0)


@pytest.fixture(scope="session")
def fitted(numbers):
    """Self-Pretraining on 40 labelled and 100 unlabelled rows, in 2 iterations."""
    X, y = numbers
    partial = np.where(np.arange(140) < 40, y[:140], -1)
    net = mlp_net(module__n_in=8, verbose=0, lr=0.25)
    clf = SelfPretrainingClassifier(net, step_size=0.5, random_state=0)
    return clf.fit(X[:140].astype(np.float32), partial)
