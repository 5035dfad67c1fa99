"""The table of scikit-learn's meta-estimators in the user guide."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from helpers.nets import FollowingNet, PaddedMLP
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_spt import SelfPretrainingClassifier

WORKS, A_CLASS, AN_ERROR = "works", "−1 becomes a class", "an error"
#: Name -> how to make it, what it does with -1 in y, and the warning that it shows.
TABLE = {
    "Pipeline": (lambda c: make_pipeline(StandardScaler(), c), WORKS, ""),
    "GridSearchCV": (lambda c: GridSearchCV(c, {"lam": [0.3]}, cv=2), WORKS, "score leaves out"),
    "OneVsRestClassifier": (OneVsRestClassifier, A_CLASS, "holds no unlabelled row"),
    "OneVsOneClassifier": (OneVsOneClassifier, A_CLASS, "holds no unlabelled row"),
    "VotingClassifier": (
        lambda c: VotingClassifier([("a", c)], voting="soft"),
        A_CLASS,
        "holds no unlabelled row",
    ),
    "BaggingClassifier": (
        lambda c: BaggingClassifier(c, n_estimators=2, random_state=0),
        A_CLASS,
        "holds no unlabelled row",
    ),
    "StackingClassifier": (
        lambda c: StackingClassifier([("a", c)], cv=2),
        A_CLASS,
        "holds no unlabelled row",
    ),
    "CalibratedClassifierCV": (lambda c: CalibratedClassifierCV(c, cv=2), A_CLASS, ""),
    "TunedThresholdClassifierCV": (lambda c: TunedThresholdClassifierCV(c, cv=2), AN_ERROR, ""),
    "FixedThresholdClassifier": (FixedThresholdClassifier, AN_ERROR, ""),
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    codes = np.arange(72) % 2
    X = (rng.normal(size=(72, 2)) + 2 * codes[:, None]).astype(np.float32)
    return X, np.where(np.arange(72) < 36, codes, -1)


@pytest.fixture
def classifier():
    net = FollowingNet(PaddedMLP, lr=0.05, verbose=0)
    return SelfPretrainingClassifier(net, step_size=0.5, finetune_epochs=1, random_state=0)


@pytest.mark.parametrize("name", TABLE)
def test_marked_rows(name, data, classifier):
    make, expected, message = TABLE[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = make(classifier).fit(*data).classes_.tolist()
        except ValueError:
            found = AN_ERROR
    assert found == {WORKS: [0, 1], A_CLASS: [-1, 0, 1], AN_ERROR: AN_ERROR}[expected]
    assert any(message in str(one.message) for one in caught) if message else not caught


@pytest.mark.parametrize("name", TABLE)
def test_unlabeled_rows_as_metadata(name, data, classifier):
    X, y = data
    labeled = y != -1
    with sklearn.config_context(enable_metadata_routing=True):
        classifier.set_fit_request(X_unlabeled=True, sample_weight=False)
        if name == "BaggingClassifier":
            classifier.set_fit_request(sample_weight=True)
        meta = TABLE[name][0](classifier)
        more = {"X_unlabeled": X[~labeled][:30]}
        if name == "StackingClassifier":
            with pytest.raises(TypeError, match="unexpected keyword argument 'X_unlabeled'"):
                meta.fit(X[labeled], y[labeled], **more)
        else:
            assert meta.fit(X[labeled], y[labeled], **more).classes_.tolist() == [0, 1]
