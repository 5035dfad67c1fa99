"""Bad input: one sentence that names parameter, row and remedy, and nothing half-fitted."""

from contextlib import contextmanager

import numpy as np
import pyarrow
import pytest
import torch
from helpers import METHODS, MLP, bert_net, mlp_net, points
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler
from skorch.dataset import ValidSplit
from transformers import BatchEncoding

from sklearn_spt import (
    BertClassifier,
    SelfPretrainingClassifier,
    SentenceEmbedder,
    SoftSelfTrainingClassifier,
    TokenIdVectorizer,
)

X, Y, _ = points()
TEXTS = ["i got the flu", "no vaccine", "we are fine", "a sore arm"]


def numbers(**params):
    return SelfPretrainingClassifier(mlp_net(), random_state=0, **params)


@pytest.fixture(scope="module", params=[*METHODS, "soft_self_training"])
def fitted(request):
    """A classifier that keeps what it is through all errors."""
    if request.param == "soft_self_training":
        return SoftSelfTrainingClassifier().fit(X, Y)
    return METHODS[request.param](mlp_net(), random_state=0).fit(X, Y)


@contextmanager
def assert_refused(clf, error, message):
    """The block raises the error, and the estimator stays exactly as it is."""
    before = dict(vars(clf))
    with pytest.raises(error, match=message):
        yield
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is value for name, value in before.items())


#: What is wrong -> (y, message).
LABELS = {
    "no labelled row": (np.full(90, -1), "y has no labelled row: all 90 rows carry the marker"),
    "one class": (np.where(Y < 0, -1, 1), "hold one class only, 1; .* at least two classes"),
    "length": (Y[:-1], "inconsistent numbers of samples: X has 90 rows, y has 89"),
    "continuous": (np.linspace(0, 1, 90), "Unknown label type: continuous"),
    "infinity": (np.where(Y < 0, np.inf, Y), "y contains infinity in row"),
    "mixed": (["a", 0] * 45, "labels that cannot be sorted together"),
    "mixed, numbers first": ([0, "a"] * 45, "labels that cannot be sorted together"),
    "None": (None, "requires y to be passed, but the target y is None"),
    "missing": ([np.nan, *Y[1:]], "y contains a missing value .* in row 0.*unlabeled_marker=-1"),
    "several labels": ([["a"], ["a", "b"], []] * 30, "one class label for each row .*MultiOutput"),
    "matrix": (
        np.full((90, 3), 1 / 3),
        r"1d array, got an array of shape \(90, 3\).*most probable",
    ),
    "the string -1": (["a", "b", "-1"] * 30, "y holds the string '-1' in row 2, while unlabelled"),
}


@pytest.mark.parametrize("what", LABELS)
def test_labels(what, fitted):
    y, message = LABELS[what]
    P = fitted.predict_proba(X)
    with assert_refused(fitted, ValueError, message):
        fitted.fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), P)


WEIGHTS = {
    "length": (np.ones(3), r"sample_weight.shape == \(3,\), expected \(90,\)"),
    "negative": (-np.ones(90), r"must be finite and not negative; row 0 has -1.0"),
    "NaN": (np.where(Y == 1, np.nan, 1.0), f"row {np.argmax(Y == 1)} has nan"),
    "infinite": (np.where(Y == 1, np.inf, 1.0), f"row {np.argmax(Y == 1)} has inf"),
    "zero": (np.zeros(90), "sample_weight is zero for every labelled row"),
    "matrix": (np.ones((90, 2)), r"sample_weight.shape == \(90, 2\), expected \(90,\)"),
}


@pytest.mark.parametrize("what", WEIGHTS)
def test_weights(what, fitted):
    weights, message = WEIGHTS[what]
    with assert_refused(fitted, ValueError, message):
        fitted.fit(X, Y, sample_weight=weights)


EITHER = TypeError, ValueError
#: X -> (error, message).
NUMBERS = {
    "no rows": (X[:0], ValueError, r"0 sample\(s\)"),
    "NaN": (np.where(X > 0, np.nan, X), ValueError, "contains NaN"),
    "texts": ([f"text {i}" for i in range(90)], EITHER, "texts|not convert|Expected 2D"),
    "one string": ("text", EITHER, "single str|Expected 2D array|convert string"),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers(what, fitted):
    bad, error, message = NUMBERS[what]
    with assert_refused(fitted, error, message):
        fitted.fit(bad, Y)
    with assert_refused(fitted, error, message):
        fitted.predict(bad)


def test_other_widths(fitted):
    with assert_refused(fitted, ValueError, "X has 3 features, but .* is expecting 2 features"):
        fitted.predict(np.ones((4, 3)))


#: X_unlabeled -> (error, message).
MORE = {
    "width": (np.ones((5, 3)), ValueError, "3 features"),
    "NaN": (np.full((5, 2), np.nan), ValueError, "contains NaN"),
    "texts": (TEXTS, TypeError, "X_unlabeled"),
    "a dict": ({"a": np.ones((5, 2))}, (TypeError, ValueError, AttributeError), None),
}


@pytest.mark.parametrize("what", MORE)
def test_unlabeled_documents(what, fitted):
    if isinstance(fitted, SoftSelfTrainingClassifier):
        pytest.skip("it takes no X_unlabeled")
    more, error, message = MORE[what]
    with assert_refused(fitted, error, message):
        fitted.fit(X, Y, X_unlabeled=more)


#: X -> message; y has as many entries as the four texts.
VALUES = {
    "empty": ([*TEXTS[:2], "  ", ""], "empty or missing text in row 2, and 2 in all"),
    "missing": ([*TEXTS[:3], None], "empty or missing text in row 3"),
    "surrogate": ([*TEXTS[:3], "ab\ud800"], r"lone surrogate\) in row 3, at position 2"),
    "no rows": ([], r"0 sample\(s\)"),
    "two columns": (np.array([TEXTS, TEXTS], dtype=object).T, "X has 2 columns"),
    "id too large": (np.full((4, 3), 9999), "token ids, .* row 0, column 0 is 9999"),
    "fractions": (np.full((4, 3), 0.5), "whole numbers from 0 to .* is 0.5"),
    "too wide": (np.ones((4, 999)), "X is 999 tokens wide, but .* at most 64"),
    "ragged ids": ([[1, 2], [1, 2, 3]] * 2, "different lengths; .* padding=True"),
    "padding": (np.zeros((4, 3), dtype=int), "nothing but padding in row 0"),
    "no width": ([*TEXTS[:3], "\u200b"], "empty or missing text in row 3, and 1 in all"),
    "no character": (["\x00", *TEXTS[1:]], "X holds an empty or missing text in row 0"),
    "accent": (["\u0301", *TEXTS[1:]], "X holds a text without a token in row 0"),
    "numbers before ids": (
        [[7, 2, 20, 3], [8, 2, 30, 3], [9, 2, 22, 3], [9, 2, 30, 3]],
        r"alone, from \[2\] to \[3\] in each row, but row 0 does not, and 4 in all. Leave other",
    ),
    "a number after ids": ([[2, 20, 3, 0], *[[2, 20, 3, 5]] * 3], "row 1 does not, and 3 in all"),
    "ids that are cut": ([[2, 20, 30, 5], *[[2, 20, 3, 0]] * 3], "row 0 does not, and 1 in all"),
}
KINDS = {
    "no string": ([*TEXTS[:3], 7], "X must hold texts, but row 3 is of type int"),
    "one string": (TEXTS[0], r"X is a single str; wrap it in a list: \[X\]"),
    "swapped": ([0, 1, 0, 1], "are X and y swapped"),
    "swapped array": (np.array([0, 1, -1, -1]), "are X and y swapped"),
    "swapped, with a string marker": (
        ["flu", -1, "no", -1], r"row 1 is of type int; .* Or are X and y swapped"
    ),
    "tokenizer": (BatchEncoding({"input_ids": [[1]] * 4}), "or its input_ids, made with"),
    "words": ([text.split() for text in TEXTS], "X holds lists of words; join each"),
    "table": (pyarrow.table({"text": TEXTS}), r"column of texts, one of \['text'\]"),
    "dicts": ([{"text": text} for text in TEXTS], "take the text out of a dict"),
    "bytes": ([text.encode() for text in TEXTS], "holds bytes objects; decode"),
    "set": (set(TEXTS), "X is a set, whose rows have no order; pass a list"),
    "frozenset": (frozenset(TEXTS), "X is a frozenset, whose rows have no order"),
    "keys": (dict.fromkeys(TEXTS).keys(), "X is a dict_keys, whose rows have no order"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:BertClassifier learns only from labelled rows")
@pytest.mark.parametrize("kind", [BertClassifier, SelfPretrainingClassifier])
@pytest.mark.parametrize("what", [*VALUES, *KINDS])
def test_documents(what, kind, tiny_encoder):
    documents, message = (VALUES | KINDS)[what]
    with pytest.raises(ValueError if what in VALUES else TypeError, match=message):
        kind(tiny_encoder).fit(documents, [0, 1, -1, -1])


def test_texts_and_numbers_do_not_mix(tiny_encoder, tiny_texts, tiny_y):
    with pytest.raises(TypeError, match="X holds texts, but the net Net takes numbers"):
        numbers(unlabeled_marker=None).fit(tiny_texts, tiny_y)
    net = bert_net(tiny_encoder)
    clf = SelfPretrainingClassifier(net, unlabeled_marker=None, max_iter=1, random_state=0)
    clf.fit(tiny_texts, tiny_y)
    with pytest.raises(TypeError, match="X holds no texts, but the classifier was fitted on them"):
        clf.predict(np.ones((2, 3), dtype=int))
    with pytest.raises(TypeError, match="X holds texts and X_unlabeled does not"):
        clf.fit(tiny_texts, tiny_y, X_unlabeled=np.ones((2, 3)))
    with pytest.raises(ValueError, match="X_unlabeled is not of the same kind as X"):
        numbers().fit(X, Y, X_unlabeled=np.ones((5, 3)))
    with pytest.raises(ValueError, match="X_unlabeled is not of the same kind as X"):
        numbers().fit({"x": X}, Y, X_unlabeled={"z": X[:5]})


class Answers(ClassifierMixin, BaseEstimator):
    """A teacher that returns what it is given, as a column of an LLM's answers may hold it."""

    def __init__(self, row=(0.5, 0.5), classes=None):
        self.row, self.classes = row, classes

    def fit(self, X, y):
        if self.classes is not None:
            self.classes_ = self.classes
        return self

    def predict_proba(self, X):
        P = np.tile([0.5, 0.5], (len(X), 1))
        P[3] = self.row
        return P


@pytest.mark.parametrize("row", [(np.nan, 0.5), (0.0, 0.0), (-0.5, 1.5), (3.0, 2.0)])
def test_answers_of_a_teacher(row):
    model = numbers(teacher=Answers(row))
    with assert_refused(model, ValueError, r"the teacher Answers returned .* for row 3: prob"):
        model.fit(X, Y)


def test_classes_of_a_teacher():
    model = numbers(teacher=FrozenEstimator(Answers(classes=["a", "b"]).fit(X, Y)))
    message = r"the teacher FrozenEstimator .* classes \['a', 'b'\], .* each of \[0, 1\]"
    with assert_refused(model, ValueError, message):
        model.fit(X, Y)


class OneOutput(MLP):
    def forward(self, x):
        return super().forward(x)[:, :1]


class Softmax(MLP):
    def forward(self, x):
        return torch.softmax(super().forward(x), dim=1)


class NaN(MLP):
    def forward(self, x):
        return super().forward(x) * float("nan")


OWN_WEIGHT = {"criterion": torch.nn.CrossEntropyLoss, "criterion__weight": torch.ones(2)}
ON_TRAIN = EpochScoring("accuracy", on_train=True)
BERT_MARKER = "estimator__unlabeled_marker=None has no effect.* set unlabeled_marker instead"
#: Nets that cannot be used -> message.
NETS = [
    (mlp_net(criterion=torch.nn.MSELoss), "a criterion of its own"),
    (mlp_net(**OWN_WEIGHT), "criterion__weight.*pass sample_weight to fit"),
    (mlp_net(callbacks=[LRScheduler()]), "the method sets the learning rate"),
    (mlp_net(callbacks=[("stop", EarlyStopping())]), "needs validation data"),
    (mlp_net(callbacks=[EpochScoring("accuracy")]), "needs validation data"),
    (mlp_net(callbacks=[ON_TRAIN]), "or class labels"),
    (mlp_net(max_epochs=5), "max_epochs=5 .* set finetune_epochs"),
    (mlp_net(train_split=ValidSplit(3)), "hold rows out by cross-val"),
    (mlp_net(OneOutput), r"logits of shape \(n, 2\).* give its last layer 2"),
    (mlp_net(Softmax), "returns probabilities .* remove its final"),
    (mlp_net(NaN), "NaN or infinite logits"),
    (mlp_net(lr=1e30), "training loss became|NaN or infinite logits"),
    (BertClassifier(balanced_batches=False), "estimator__balanced_batches=False has no effect"),
    (BertClassifier(unlabeled_marker=None), BERT_MARKER),
]
NUMBERS_OF_THE_METHOD = ("lam", "alpha", "temperature", "logit_adjustment", "token_deletion")
#: Parameters out of range -> message.
PARAMETERS = [
    *(({"estimator": net}, message) for net, message in NETS),
    ({"lam": 1.5}, "lam == 1.5, must be <= 1"),
    ({"alpha": -0.1}, "alpha == -0.1, must be >= 0"),
    ({"temperature": 0}, "temperature == 0, must be >= 0.01"),
    *(
        ({"step_size": x}, rf"step_size must be a share in \(0, 1\] or a whole .* got {x!r}\.")
        for x in (0, 1.5, -0.1, 2.0, True, None, np.nan, "half")
    ),
    ({"max_iter": -1}, "max_iter == -1, must be >= 0"),
    ({"n_teachers": 0}, "n_teachers == 0, must be >= 1"),
    ({"n_students": 0}, "n_students == 0, must be >= 1"),
    ({"pretrain_epochs": -1}, "pretrain_epochs == -1"),
    ({"finetune_epochs": -1}, "finetune_epochs == -1"),
    ({"finetune_epochs": "always"}, "finetune_epochs must be a number or \"auto\", got 'always'"),
    ({"token_deletion": 1}, "token_deletion == 1, must be < 1"),
    ({"token_deletion": 0.2}, "token_deletion=0.2 needs a net that reads token ids"),
    ({"ensemble": "most"}, r"ensemble must be one of \('last', 'last_two', 'all'\)"),
    ({"logit_adjustment": 2}, "logit_adjustment == 2, must be <= 1"),
    ({"checkpoint_dir": "x", "random_state": None}, "checkpoint_dir needs an integer random_state"),
    ({"memory": "x", "random_state": None}, "memory needs an integer random_state"),
    ({"random_state": "seed"}, "'seed' cannot be used to seed"),
    *(({name: np.nan}, f"{name} must be a number, got nan") for name in NUMBERS_OF_THE_METHOD),
    ({"refit_head": True}, r"refit_head=True needs a BertClassifier .* is a Net"),
    ({"refit_head": "always"}, r"refit_head must be one of \(True, False, 'auto'\)"),
]
#: Parameters of another type -> message.
TYPES = [
    ({"unlabeled_marker": True}, "unlabeled_marker must be a number, a string or a missing"),
    ({"on_iteration": "x"}, "on_iteration must be callable, got 'x'"),
    ({"estimator": MLP}, "an unfitted skorch net .* got the class MLP"),
    ({"estimator": MLP()}, "got a MLP"),
    ({"teacher": ["nets", 3]}, "teacher must be None, .* got 3"),
    ({"teacher": "nobody"}, "teacher must be None, .* got 'nobody'"),
    ({"teacher": []}, r"teacher must be None, .* got \[\]"),
]


def test_tokens_are_deleted_only_where_a_net_has_them():
    class OwnEncode(type(mlp_net())):
        def encode(self, X, **_):
            return np.asarray(X, dtype=np.float32)

    own = OwnEncode(**mlp_net().get_params(deep=False))
    with pytest.raises(ValueError, match=r"token_deletion=0.2 needs .* estimator is a OwnEncode"):
        SelfPretrainingClassifier(own, token_deletion=0.2).fit(X, Y)


@pytest.mark.parametrize(("params", "message"), PARAMETERS + TYPES)
def test_parameters(params, message):
    with pytest.raises(TypeError if (params, message) in TYPES else ValueError, match=message):
        numbers().set_params(**params).fit(X, Y)


BERT = [
    ({"pooling": "max"}, "pooling must be one of"),
    ({"head_init": "zero"}, "head_init must be one of"),
    ({"precision": "fp8"}, "precision must be one of"),
    ({"dropout": 1.0}, "dropout == 1.0, must be < 1"),
    ({"batch_size": 0}, "batch_size == 0"),
    ({"lr": 0.0}, "lr == 0.0, must be > 0"),
    ({"max_length": 999}, r"max_length must be in \[3, 64\]"),
    ({"train_split": 5}, "train_split must be None"),
]


@pytest.mark.parametrize(("params", "message"), BERT)
def test_parameters_of_the_net(params, message, tiny_encoder):
    with pytest.raises(ValueError, match=message):
        BertClassifier(tiny_encoder, **params).fit(TEXTS, [0, 1, 0, 1])


def test_containers_without_an_order(tiny_encoder):
    """Their rows would not be those of y, whatever reads them."""
    fitted = bert_net(tiny_encoder).fit(TEXTS, [0, 1, 0, 1])
    for read in (
        fitted.predict,
        SentenceEmbedder(tiny_encoder).transform,
        TokenIdVectorizer(tiny_encoder).fit,
        lambda X: SoftSelfTrainingClassifier().fit(X, [0, 1, -1, -1]),
    ):
        with pytest.raises(TypeError, match="X is a set, whose rows have no order"):
            read(set(TEXTS))
    clf = SelfPretrainingClassifier(bert_net(tiny_encoder))
    with pytest.raises(TypeError, match="X_unlabeled is a set, whose rows have no order"):
        clf.fit(TEXTS, [0, 1, 0, 1], X_unlabeled={"a cold", "no fever"})
    with pytest.raises(ValueError, match="X_unlabeled holds a text without a token in row 2"):
        clf.fit(TEXTS, [0, 1, 0, 1], X_unlabeled=["a cold", "no fever", "\u0301"])
    with pytest.raises((TypeError, ValueError), match=r"y must|y should|1d array"):
        clf.fit(TEXTS[:2], {"a", "b"})
