"""scikit-learn's estimator checks on every classifier, and a count of those that really ran."""

import dataclasses

import numpy as np
import pytest
import torch
from helpers import Net, PaddedMLP
from sklearn.base import is_classifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SoftSelfTrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TriTrainingClassifier,
)

MARKER = {"check_classifiers_classes": "it uses -1 as a class, which marks unlabelled rows here"}
N_ITER = {
    "check_non_transformer_estimators_n_iter": "n_iter_ is 0 on fully labelled rows, as "
    "documented; scikit-learn exempts its own SelfTrainingClassifier for the same reason"
}
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": "with mini-batches, a row of weight two is "
    "not the same as two rows"
}


def whole_batches(kind, **params):
    """A classifier whose steps see all rows, so that a weight of two equals a repeated row."""
    settings = {"lr": 0.05, "batch_size": -1, "optimizer": torch.optim.Adam}
    net = Net(PaddedMLP, module__double=True, **settings)
    return kind(net, finetune_epochs=20, balanced_batches=False, random_state=0, **params)


class WithUnlabeledRows:
    """Adds copies of the labelled rows as unlabelled rows: the checks have none."""

    def _validate(self, *args):
        data = super()._validate(*args)
        n, more = len(data.y), np.zeros(len(data.y), dtype=bool)
        labeled = np.concatenate([data.labeled, more])
        return dataclasses.replace(data, U=data.X, labeled=labeled, n_unlabeled=n)


class SelfPretrainingWithMore(WithUnlabeledRows, SelfPretrainingClassifier):
    pass


def mini_batches(kind, **params):
    net = Net(PaddedMLP, lr=0.04, batch_size=32, optimizer=torch.optim.Adam)
    return kind(net, finetune_epochs=4, random_state=0, unlabeled_marker="?", **params)


#: An estimator, the checks that it fails, and why.
TABLE = [
    (whole_batches(SelfPretrainingClassifier), MARKER | N_ITER),
    (whole_batches(SelfPretrainingClassifier, unlabeled_marker=None), N_ITER),
    (mini_batches(SelfPretrainingWithMore, step_size=0.5), WEIGHTS),
    (whole_batches(ThrottledSelfTrainingClassifier), MARKER | N_ITER),
    (whole_batches(TriTrainingClassifier), MARKER | N_ITER),
    (whole_batches(SpacedRepetitionClassifier), MARKER | N_ITER),
    (whole_batches(MutualLearningClassifier), MARKER),
    (whole_batches(CoDecompositionClassifier, views=(None, None)), MARKER | N_ITER),
    (SoftSelfTrainingClassifier(C=100.0, normalize=False), MARKER | N_ITER),
]


def reasons(estimator):
    return next(why for candidate, why in TABLE if candidate is estimator)


@pytest.mark.filterwarnings("ignore:y holds no unlabelled row:UserWarning")
@pytest.mark.filterwarnings("ignore:both views of the documents:UserWarning")
@pytest.mark.filterwarnings("ignore:TypeError occurred during set_params:UserWarning")
@pytest.mark.filterwarnings("ignore:Estimator's parameters changed after:UserWarning")
@parametrize_with_checks([row[0] for row in TABLE], expected_failed_checks=reasons)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row[0]).__name__)
def test_the_checks_are_run(row):
    """No tag disables checks, and at most two are expected to fail."""
    estimator, failing = row
    names = {check.func.__name__ for _, check in estimator_checks_generator(estimator)}
    assert set(failing) <= names
    assert len(failing) <= 2
    assert len(names - set(failing)) >= 50
    assert is_classifier(estimator)
    assert not get_tags(estimator).no_validation


WITHOUT_DATA = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]


@pytest.mark.filterwarnings("ignore:TypeError occurred during set_params:UserWarning")
@pytest.mark.filterwarnings("ignore:Estimator's parameters changed after:UserWarning")
@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_checks_without_data_on_the_net(name):
    from sklearn.utils import estimator_checks

    getattr(estimator_checks, name)("BertClassifier", BertClassifier())
