"""scikit-learn's own checks, on every public estimator.

scikit-learn's checks pass matrices of floats, and few checks exist for estimators of texts. A
classifier over any net therefore gets a small MLP, and an estimator of texts a subclass that turns
the numbers of a row into words or token ids. A check that skips is a failure unless it runs in
another way below, and a check that is listed as failing must fail.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from unittest import SkipTest

import numpy as np
import pytest
import torch
from conftest import TINY_VOCABULARY
from helpers.nets import FollowingNet, PaddedMLP
from helpers.processes import run_python
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import (
    estimator_checks_generator,
    parametrize_with_checks,
)
from sklearn.utils.validation import validate_data
from torch import nn

import sklearn_spt
from sklearn_spt import (
    BertClassifier,
    CoDecompositionClassifier,
    KeywordWindow,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TokenIdVectorizer,
    TriTrainingClassifier,
    TweetNormalizer,
)

#: This check needs SCIPY_ARRAY_API=1; it runs in a separate process.
RUN_IN_A_PROCESS = {"check_array_api_input"}


# -- estimators of texts that take numbers ------------------------------------------------
def as_ids(X):
    """Numbers as token ids in steps of a tenth, without the padding id."""
    return np.clip(np.rint(X * 10) + 40, 1, len(TINY_VOCABULARY) - 1).astype(np.int32)


def as_texts(X):
    return [" ".join(TINY_VOCABULARY[max(number, 13)] for number in row) for row in as_ids(X)]


class RowsAsTexts(BaseEstimator):
    """Reads each row of a matrix as a text."""

    def fit(self, X, y=None):
        return super().fit(as_texts(validate_data(self, X)))

    def transform(self, X):
        return super().transform(as_texts(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        return tags


class VectorizerOfRows(RowsAsTexts, TokenIdVectorizer):
    pass


class NormalizerOfRows(RowsAsTexts, TweetNormalizer):
    """Returns numbers, since the checks subtract results."""

    def transform(self, X):
        return np.array([[float(sum(map(ord, text)))] for text in super().transform(X)])


class WindowOfRows(RowsAsTexts, KeywordWindow):
    """Returns numbers, too."""

    def transform(self, X):
        return np.array([[float(sum(map(ord, text)))] for text in super().transform(X)])


class EmbedderOfIds(SentenceEmbedder):
    """Reads each number as a token id."""

    def _encode(self, X, *, reset):
        return super()._encode(as_ids(validate_data(self, X, reset=reset)), reset=False)


class ModuleOfIds(nn.Module):
    """Turns token ids back into numbers."""

    def __init__(self, pretrained, n_classes, pooling, dropout, precision):
        super().__init__()
        self.mlp = PaddedMLP(n_classes)

    def forward(self, ids):
        return self.mlp((ids.float() - 40) / 10)


class ClassifierOfIds(BertClassifier):
    """Reads each number as a token id, and has an MLP for an encoder."""

    def encode(self, X):
        finite = validate_data(self, X, reset=False)
        return super().encode(as_ids(finite))


class WithUnlabeledRows:
    """Adds copies of the labelled rows as unlabelled rows: the checks have none."""

    def _validate(self, *args):
        data = super()._validate(*args)
        more = np.zeros(len(data.y), dtype=bool)
        return dataclasses.replace(
            data, X_unlabeled=data.X_labeled, labeled=np.concatenate([data.labeled, more])
        )


class SelfPretrainingWithMore(WithUnlabeledRows, SelfPretrainingClassifier):
    pass


class SelfTrainingWithMore(WithUnlabeledRows, ThrottledSelfTrainingClassifier):
    pass


class TriTrainingWithMore(WithUnlabeledRows, TriTrainingClassifier):
    pass


class MutualLearningWithMore(WithUnlabeledRows, MutualLearningClassifier):
    pass


class SpacedRepetitionWithMore(WithUnlabeledRows, SpacedRepetitionClassifier):
    pass


class CoDecompositionWithMore(WithUnlabeledRows, CoDecompositionClassifier):
    pass


# -- the table --------------------------------------------------------------------------------
def whole_batches(kind, **params):
    """A classifier whose steps see all rows, so that a weight of two equals a repeated row."""
    net = FollowingNet(
        PaddedMLP, module__double=True, lr=0.05, batch_size=-1, optimizer=torch.optim.Adam
    )
    return kind(net, finetune_epochs=20, balanced_batches=False, random_state=0, **params)


def mini_batches(kind, **params):
    net = FollowingNet(PaddedMLP, lr=0.04, batch_size=32, optimizer=torch.optim.Adam)
    return kind(net, finetune_epochs=4, random_state=0, **params)


N_ITER = {
    "check_non_transformer_estimators_n_iter": "n_iter_ is 0 on fully labelled rows, as "
    "documented; scikit-learn exempts its own SelfTrainingClassifier for the same reason"
}
MARKER = {"check_classifiers_classes": "it uses -1 as a class, which marks unlabelled rows here"}
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": "with mini-batches, a row of weight two is "
    "not the same as two rows"
}
SKORCH = {
    "check_no_attributes_set_in_init": "skorch sets history_, initialized_ and virtual_params_ in "
    "__init__"
}

#: An estimator, the checks that it fails, and why. "tiny" becomes the tiny encoder.
TABLE = [
    (whole_batches(SelfPretrainingClassifier, unlabeled_marker=-1), MARKER | N_ITER),
    (whole_batches(SelfPretrainingClassifier, unlabeled_marker=None), N_ITER),
    (mini_batches(SelfPretrainingWithMore, step_size=0.5, unlabeled_marker=-1), MARKER | WEIGHTS),
    (mini_batches(SelfPretrainingWithMore, step_size=0.5, unlabeled_marker="?"), WEIGHTS),
    (whole_batches(ThrottledSelfTrainingClassifier, unlabeled_marker=-1), MARKER | N_ITER),
    (
        mini_batches(SelfTrainingWithMore, n_iterations=1, threshold=0.0, unlabeled_marker="?"),
        WEIGHTS,
    ),
    (
        whole_batches(CoDecompositionClassifier, views=(None, None), unlabeled_marker=-1),
        MARKER | N_ITER,
    ),
    (
        mini_batches(
            CoDecompositionWithMore,
            views=(None, None),
            n_iterations=1,
            threshold=0.0,
            unlabeled_marker="?",
        ),
        WEIGHTS,
    ),
    (whole_batches(TriTrainingClassifier, unlabeled_marker=-1), MARKER | N_ITER),
    (
        mini_batches(TriTrainingWithMore, max_iter=2, unlabeled_marker="?"),
        WEIGHTS,
    ),
    (whole_batches(SpacedRepetitionClassifier, unlabeled_marker=-1), MARKER | N_ITER),
    (
        mini_batches(
            SpacedRepetitionWithMore,
            max_iter=1,
            episode_epochs=4,
            n_queues=3,
            unlabeled_marker="?",
        ),
        WEIGHTS,
    ),
    (whole_batches(MutualLearningClassifier, unlabeled_marker=-1), MARKER),
    (mini_batches(MutualLearningWithMore, unlabeled_marker="?"), WEIGHTS),
    (
        ClassifierOfIds(
            "tiny",
            module=ModuleOfIds,
            lr=0.02,
            max_epochs=5,
            batch_size=16,
            random_state=0,
            unlabeled_marker=None,
        ),
        SKORCH | WEIGHTS,
    ),
    (EmbedderOfIds("tiny"), {}),
    (VectorizerOfRows("tiny", max_length=33), {}),
    (NormalizerOfRows(tokenize=False), {}),
    (WindowOfRows(window=1), {}),
]


def reasons(estimator):
    return next(why for candidate, why in TABLE if candidate is estimator)


def with_encoder(estimator, encoder):
    if "pretrained" in estimator.get_params():
        estimator.set_params(pretrained=encoder)
    return estimator


def lets_set_params_warn(test):
    """Ignore the warnings of scikit-learn's check about skorch, which builds callbacks then."""
    for message in ("TypeError occurred during set_params", "Estimator's parameters changed after"):
        test = pytest.mark.filterwarnings(f"ignore:{message}:UserWarning")(test)
    return test


@lets_set_params_warn
@pytest.mark.filterwarnings("ignore:y holds no unlabelled row:UserWarning")
@pytest.mark.filterwarnings("ignore:no unlabelled document:UserWarning")
@parametrize_with_checks([row[0] for row in TABLE], expected_failed_checks=reasons)
def test_estimator_checks(estimator, check, tiny_encoder):
    try:
        check(with_encoder(estimator, tiny_encoder))
    except SkipTest as skip:
        name = check.func.__name__
        assert name in RUN_IN_A_PROCESS, f"{name} skips: {skip}"  # noqa: PT017


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row[0]).__name__)
def test_all_checks_are_run(row):
    """No tag disables checks, and at most two checks are expected to fail."""
    estimator, failing = row
    names = {check.func.__name__ for _, check in estimator_checks_generator(estimator)}
    assert set(failing) <= names
    assert len(failing) <= 2
    assert len(names - set(failing)) >= (56 if is_classifier(estimator) else 42)
    assert not get_tags(estimator)._skip_test
    assert not get_tags(estimator).no_validation


def test_every_public_estimator_is_in_the_table():
    public = (getattr(sklearn_spt, name) for name in sklearn_spt.__all__)
    estimators = {c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)}
    assert len(estimators) >= 5
    assert {c for c in estimators if not any(isinstance(row[0], c) for row in TABLE)} == set()


# -- array API --------------------------------------------------------------------------------
def array_api_checks(encoder):
    """Run the checks of each estimator in the table and return their names."""
    passed = []
    for estimator, _ in TABLE:
        for _, check in estimator_checks_generator(with_encoder(estimator, encoder)):
            if check.func.__name__ in RUN_IN_A_PROCESS:
                check(estimator)
                passed.append(check.func.__name__)
    return passed


def test_array_api_checks(tiny_encoder):
    expected = [
        check.func.__name__
        for estimator, _ in TABLE
        for _, check in estimator_checks_generator(estimator)
        if check.func.__name__ in RUN_IN_A_PROCESS
    ]  # none in older releases of scikit-learn
    if expected:
        code = (
            "import json, sys, test_common as t; print(json.dumps(t.array_api_checks(sys.argv[1])))"
        )
        printed = run_python(code, tiny_encoder, SCIPY_ARRAY_API="1")
        assert json.loads(printed) == expected
    assert set(expected) <= RUN_IN_A_PROCESS


# -- the classes themselves ------------------------------------------------------------------
WITHOUT_DATA = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
]
ESTIMATORS = [
    TokenIdVectorizer(),
    TweetNormalizer(),
    KeywordWindow(),
    SentenceEmbedder(),
    BertClassifier(),
]


@lets_set_params_warn
@pytest.mark.parametrize("check", WITHOUT_DATA)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_checks_without_data_pass_on_the_classes_themselves(estimator, check):
    if isinstance(estimator, BertClassifier) and check in SKORCH:
        with pytest.raises(AssertionError, match="history_"):
            getattr(estimator_checks, check)("BertClassifier", estimator)
    else:
        assert getattr(estimator_checks, check)(type(estimator).__name__, estimator) is None
