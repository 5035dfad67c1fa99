"""scikit-learn's estimator checks on every classifier, and a count of those that really ran."""

import dataclasses
import inspect
from unittest import SkipTest

import numpy as np
import pytest
import torch
from helpers import TINY_VOCABULARY, Net, PaddedMLP
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from sklearn.utils.validation import validate_data
from torch import nn

import sklearn_spt
from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TokenIdVectorizer,
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
SKORCH = {"check_no_attributes_set_in_init": "skorch sets history_ and initialized_ there"}


# -- estimators of texts that take numbers: the checks pass matrices of floats --------------------
def as_texts(X):
    """Rows of numbers as texts: a number, in steps of a tenth, is one of the whole words."""
    ids = np.clip(np.rint(X * 10) + 45, 19, len(TINY_VOCABULARY) - 1).astype(np.int32)
    return [" ".join(TINY_VOCABULARY[number] for number in row) for row in ids]


class VectorizerOfRows(TokenIdVectorizer):
    """Reads each row of a matrix as a text."""

    def fit(self, X, y=None):
        return super().fit(self._texts(X, reset=True))

    def transform(self, X):
        texts = isinstance(X, list) and isinstance(X[0], str)  # `fit` calls it with these
        return super().transform(X if texts else self._texts(X, reset=False))

    def _texts(self, X, reset):
        return as_texts(validate_data(self, X, reset=reset))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        return tags


class EmbedderOfIds(SentenceEmbedder):
    def _encode(self, X, reset=False):
        return super()._encode(as_texts(validate_data(self, X, reset=reset)))


class ModuleOfIds(nn.Module):
    """Turns token ids back into numbers."""

    def __init__(self, pretrained, n_classes, pooling, dropout, precision):
        super().__init__()
        self.mlp = PaddedMLP(n_classes)

    def forward(self, ids):
        return self.mlp((ids.float() - 45) / 10)


class ClassifierOfIds(BertClassifier):
    """Reads each row of a matrix as a text, and has an MLP for an encoder."""

    def encode(self, X, *, reset=False, **options):
        return super().encode(as_texts(validate_data(self, X, reset=reset)))


def whole_batches(kind, **params):
    """A classifier whose steps see all rows, so that a weight of two equals a repeated row."""
    settings = {"lr": 0.05, "batch_size": -1, "optimizer": torch.optim.Adam}
    net = Net(PaddedMLP, module__double=True, **settings)
    return kind(net, finetune_epochs=20, balanced_batches=False, random_state=0, **params)


class SelfPretrainingWithMore(SelfPretrainingClassifier):
    """Adds copies of the labelled rows as unlabelled rows: the checks have none."""

    def _validate(self, *args):
        data = super()._validate(*args)
        labeled = np.append(data.labeled, np.zeros(len(data.y), dtype=bool))
        return dataclasses.replace(data, U=data.X, labeled=labeled)


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
    (
        ClassifierOfIds(
            "tiny", module=ModuleOfIds, lr=0.02, max_epochs=5, batch_size=16, random_state=0,
            unlabeled_marker=None,
        ),
        SKORCH | WEIGHTS,
    ),
    (EmbedderOfIds("tiny"), {}),
    (VectorizerOfRows("tiny", max_length=33), {}),
]  # fmt: skip


def reasons(estimator):
    return next(why for candidate, why in TABLE if candidate is estimator)


@pytest.mark.filterwarnings("ignore:y holds no unlabelled row:UserWarning")
@pytest.mark.filterwarnings("ignore:both views of the documents:UserWarning")
@pytest.mark.filterwarnings("ignore:TypeError occurred during set_params:UserWarning")
@pytest.mark.filterwarnings("ignore:Estimator's parameters changed after:UserWarning")
@pytest.mark.filterwarnings("ignore:.*the encoder:UserWarning")  # numbers make odd token ids
@parametrize_with_checks([row[0] for row in TABLE], expected_failed_checks=reasons)
def test_estimator_checks(estimator, check, tiny_encoder):
    if "pretrained" in estimator.get_params():
        estimator.set_params(pretrained=tiny_encoder)
    try:
        check(estimator)
    except SkipTest as skip:
        assert check.func.__name__ == "check_array_api_input", skip  # noqa: PT017


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row[0]).__name__)
def test_the_checks_are_run(row):
    """No tag disables checks, and at most two are expected to fail."""
    estimator, failing = row
    names = {check.func.__name__ for _, check in estimator_checks_generator(estimator)}
    assert set(failing) <= names
    assert len(failing) <= 2
    assert len(names - set(failing)) >= (50 if is_classifier(estimator) else 42)
    assert not get_tags(estimator).no_validation


def test_every_public_estimator_is_checked():
    public = [getattr(sklearn_spt, name) for name in sklearn_spt.__all__]
    kinds = [kind for kind in public if inspect.isclass(kind) and issubclass(kind, BaseEstimator)]
    assert len(kinds) >= 9
    for kind in kinds:
        assert any(isinstance(row[0], kind) for row in TABLE), kind
