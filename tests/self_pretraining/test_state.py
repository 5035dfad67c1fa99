"""`Iteration`, the argument of `on_iteration`."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.nets import mlp_net
from helpers.sgd import partial_moons

from sklearn_spt import SelfPretrainingClassifier


def test_an_iteration_predicts_with_each_net_and_the_ensemble():
    X, y, _ = partial_moons(200, 20, 0.1)
    settings = {"step_size": 90, "finetune_epochs": 4, "random_state": 0}
    seen = []

    def on_iteration(iteration):
        which = ("ensemble", "students")
        seen.append((iteration, {name: iteration.predict_proba(X, which=name) for name in which}))

    clf = SelfPretrainingClassifier(mlp_net(), on_iteration=on_iteration, **settings).fit(X, y)
    assert [iteration.number for iteration, _ in seen] == [0, 1, 2]
    assert [iteration.record for iteration, _ in seen] == clf.history_
    start, first, last = (P for _, P in seen)
    np.testing.assert_array_equal(start["ensemble"], start["students"])
    np.testing.assert_array_equal(last["ensemble"], clf.predict_proba(X))
    np.testing.assert_allclose(first["ensemble"], (start["students"] + first["students"]) / 2)
    together = start["students"] + first["students"] + last["students"]
    np.testing.assert_allclose(last["ensemble"], together / 3)
    with pytest.raises(ValueError, match="which must be one of 'ensemble', 'students'"):
        seen[0][0].predict_proba(X, which="start")
    without = SelfPretrainingClassifier(mlp_net(), **settings).fit(X, y)
    np.testing.assert_array_equal(without.predict_proba(X), clf.predict_proba(X))
