"""Fits that are interrupted, for tests of what they leave on disk."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from sklearn.datasets import make_classification
from skorch.callbacks import Callback

from helpers.nets import mlp_net
from helpers.variants import variant


class Killed(Exception):
    """Raised by `KillAfter`."""


class KillAfter:
    """Callback that interrupts a fit after iteration `t`."""

    def __init__(self, t):
        self.t = t

    def __call__(self, iteration):
        if iteration.number == self.t:
            raise Killed


N = 120


class Counts(Callback):
    """Counts training batches of all nets of the process."""

    batches = 0

    def on_batch_end(self, net, training=False, **kwargs):
        Counts.batches += training


def numbers():
    """X and partly labelled y."""
    X, y = make_classification(N, n_features=20, n_informative=5, random_state=0)
    partial = y.copy()
    partial[30:] = -1
    return X.astype(np.float32), partial


def model(**params):
    """A classifier over a small net that counts its batches."""
    net = mlp_net(module__n_in=20, callbacks=[("counts", Counts())])
    return variant(net, **{"step_size": 30, "random_state": 0, **params})


def fitted(data, **params):
    """The model and the number of training batches that its fit took."""
    Counts.batches = 0
    return model(**params).fit(*data), Counts.batches


def timeless(history):
    """A history without the seconds."""
    return [{k: v for k, v in entry.items() if k != "seconds"} for entry in history]


def assert_same(one, other, X):
    """Two fitted classifiers are equal bit by bit."""
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.transduction_, other.transduction_)
    np.testing.assert_array_equal(one.labeled_iter_, other.labeled_iter_)
    assert timeless(one.history_) == timeless(other.history_)
    assert one.termination_condition_ == other.termination_condition_
    np.testing.assert_array_equal(one.estimator_weights_, other.estimator_weights_)
    for a, b in zip(one.estimators_, other.estimators_, strict=True):
        np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
        assert len(a.history) == len(b.history)
        assert a.history[:, "train_loss"] == b.history[:, "train_loss"]
        assert (a.lr, a.max_epochs, a.criterion_.lam) == (b.lr, b.max_epochs, b.criterion_.lam)


@contextmanager
def small_files(resource, size):
    """Let no file grow above `size` bytes, as on a full disk; `resource` is the module."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
