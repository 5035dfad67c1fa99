"""scikit-learn's own checks, on every public estimator.

scikit-learn speaks to an estimator in matrices of floats and derives hardly a check for one that
takes texts. So the classifier over any net gets a small MLP, and an estimator of texts gets a
subclass which turns the numbers of a row into words, or into token ids, and changes nothing else.
Two things cannot hide here: a check that skips is a failure unless it is run in another way below,
and a check that is listed as failing must fail.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pytest
import torch
from conftest import TINY_VOCABULARY
from helpers.nets import FollowingNet, PaddedMLP
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import (
    check_estimator,
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

#: scikit-learn asks for it under SCIPY_ARRAY_API=1 alone; a process of its own runs it.
RUN_IN_A_PROCESS = {"check_array_api_input"}


# -- estimators of texts, spoken to in numbers ------------------------------------------------
def as_ids(X):
    """Numbers as token ids: a step is a tenth, no id is that of padding or beyond the last."""
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
    """Gives numbers back, since the checks subtract what comes out."""

    def transform(self, X):
        return np.array([[float(sum(map(ord, text)))] for text in super().transform(X)])


class WindowOfRows(RowsAsTexts, KeywordWindow):
    """Gives numbers back, too."""

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
    """Has unlabelled rows, copies of the labelled ones, in every fit: the checks bring none."""

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
    """A classifier whose every step sees all rows, in double precision.

    That is a learner for which weights and repetitions are the same, and the checks say whether
    ours are.
    """
    net = FollowingNet(
        PaddedMLP, module__double=True, lr=0.05, batch_size=-1, optimizer=torch.optim.Adam
    )
    return kind(net, finetune_epochs=20, balanced_batches=False, random_state=0, **params)


def mini_batches(kind, **params):
    net = FollowingNet(PaddedMLP, lr=0.04, batch_size=32, optimizer=torch.optim.Adam)
    return kind(net, finetune_epochs=4, random_state=0, **params)


N_ITER = {
    "check_non_transformer_estimators_n_iter": "it wants n_iter_ >= 1 of a fit on fully labelled "
    "rows, in which there is nothing to iterate over: n_iter_ is 0 as documented, and scikit-learn "
    "excepts its own SelfTrainingClassifier for the same reason"
}
MARKER = {"check_classifiers_classes": "it takes -1 for a class, and here -1 marks unlabelled rows"}
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight two is in one mini-batch, "
    "two rows are in two: no learner by mini-batches passes"
}
SKORCH = {
    "check_no_attributes_set_in_init": "every skorch net has history_, initialized_ and "
    "virtual_params_ from __init__ on"
}

#: An estimator, the checks that it fails, and why. "tiny" becomes the tiny checkpoint.
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
        mini_batches(TriTrainingWithMore, max_iter=2, growth="quota", unlabeled_marker="?"),
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


def with_checkpoint(estimator, checkpoint):
    if "pretrained" in estimator.get_params():
        estimator.set_params(pretrained=checkpoint)
    return estimator


def lets_set_params_warn(test):
    """Pass over what scikit-learn's check says of skorch, which builds callbacks in set_params."""
    for message in ("TypeError occurred during set_params", "Estimator's parameters changed after"):
        test = pytest.mark.filterwarnings(f"ignore:{message}:UserWarning")(test)
    return test


@lets_set_params_warn
@pytest.mark.filterwarnings("ignore:y holds no unlabelled row:UserWarning")
@pytest.mark.filterwarnings("ignore:no unlabelled document:UserWarning")
@parametrize_with_checks([row[0] for row in TABLE], expected_failed_checks=reasons)
def test_estimator_checks(estimator, check, tiny_checkpoint):
    try:
        check(with_checkpoint(estimator, tiny_checkpoint))
    except SkipTest as skip:
        name = check.func.__name__
        assert name in RUN_IN_A_PROCESS, f"{name} skips: {skip}"  # noqa: PT017


@pytest.mark.parametrize("row", TABLE, ids=lambda row: type(row[0]).__name__)
def test_all_checks_are_run(row):
    """No tag of ours keeps checks away, and no more than two are expected to fail."""
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
def array_api_checks(checkpoint):
    """Of each estimator in the table, the names of the checks that pass; an error otherwise."""
    passed = []
    for estimator, _ in TABLE:
        for _, check in estimator_checks_generator(with_checkpoint(estimator, checkpoint)):
            if check.func.__name__ in RUN_IN_A_PROCESS:
                check(estimator)
                passed.append(check.func.__name__)
    return passed


def test_array_api_checks(tiny_checkpoint):
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
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, tiny_checkpoint],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SCIPY_ARRAY_API": "1"},
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout) == expected
    assert set(expected) <= RUN_IN_A_PROCESS


# -- the classes as they are ------------------------------------------------------------------
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
TEXT_ESTIMATORS = [TokenIdVectorizer(), TweetNormalizer(), KeywordWindow()]


SEMI_SUPERVISED = [
    SelfPretrainingClassifier(),
    ThrottledSelfTrainingClassifier(),
    TriTrainingClassifier(),
    MutualLearningClassifier(),
    SpacedRepetitionClassifier(),
    CoDecompositionClassifier(),
]


@lets_set_params_warn
@pytest.mark.parametrize("check", WITHOUT_DATA)
@pytest.mark.parametrize(
    "estimator",
    [*TEXT_ESTIMATORS, SentenceEmbedder(), BertClassifier(), *SEMI_SUPERVISED],
    ids=lambda estimator: type(estimator).__name__,
)
def test_checks_without_data_pass_on_the_classes_themselves(estimator, check):
    if isinstance(estimator, BertClassifier) and check in SKORCH:
        with pytest.raises(AssertionError, match="history_"):
            getattr(estimator_checks, check)("BertClassifier", estimator)
    else:
        assert getattr(estimator_checks, check)(type(estimator).__name__, estimator) is None


@pytest.mark.filterwarnings("ignore:Can't test estimator:sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", TEXT_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_an_estimator_of_texts_is_asked_for_little(estimator):
    """Why the subclasses above are needed."""
    results = check_estimator(estimator, on_fail=None)
    assert 1 <= len(results) < 20
    assert {result["status"] for result in results} == {"passed"}
