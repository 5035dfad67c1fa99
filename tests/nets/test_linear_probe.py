"""A linear probe compared with scikit-learn, and as the initial weights of a linear layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from torch import nn

from sklearn_spt import BertClassifier, MutualLearningClassifier, SelfPretrainingClassifier
from sklearn_spt._functional import tempered_softmax
from sklearn_spt._random import isolated
from sklearn_spt.datasets import make_short_texts
from sklearn_spt.nets import _token_net as token_net_module
from sklearn_spt.nets._bert_module import BertModule
from sklearn_spt.nets._linear_probe import linear_probe, subsample_by_class
from sklearn_spt.nets._token_net import TokenNet
from sklearn_spt.nets._training import start_head


def vectors(n=60, d=5, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
    return rng.normal(size=(n, d)) + rng.normal(size=(n_classes, d))[codes], codes


def logits(F, head):
    return F @ head.W.T + head.b


# -- the function ---------------------------------------------------------------------------------
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("balanced", [True, False])
def test_it_equals_logistic_regression_on_scaled_vectors(n_classes, balanced):
    F, codes = vectors(n_classes=n_classes)
    scaled = (F - F.mean(axis=0)) / np.sqrt(F.var(axis=0).mean())
    model = LogisticRegression(C=1 / len(F), class_weight="balanced" if balanced else None)
    expected = model.fit(scaled, codes).predict_proba(scaled)
    found = tempered_softmax(logits(F, linear_probe(F, codes, n_classes, balanced=balanced)))
    assert_allclose(found, expected, atol=1e-3)


@given(st.floats(1e-3, 1e3), st.floats(-3, 3), st.integers(2, 4))
def test_scale_and_origin_of_the_vectors_do_not_matter(scale, shift, n_classes):
    F, codes = vectors(n_classes=n_classes)
    moved = scale * (F + shift)
    first = logits(F, linear_probe(F, codes, n_classes))
    assert_allclose(logits(moved, linear_probe(moved, codes, n_classes)), first, atol=1e-3)


def test_the_regularisation_does_not_depend_on_the_number_of_rows():
    F, codes = vectors()
    twice = linear_probe(np.tile(F, (3, 1)), np.tile(codes, 3), 2)
    assert_allclose(logits(F, twice), logits(F, linear_probe(F, codes, 2)), atol=1e-3)


@pytest.mark.parametrize("balanced", [True, False])
def test_a_weight_acts_like_copies_of_a_row(balanced):
    F, codes = vectors()
    copies = np.random.default_rng(1).integers(1, 4, size=len(F))
    # the origin and scale of the vectors do not depend on the weights
    weighted = linear_probe(F, codes, 2, weights=5.0 * copies, balanced=balanced)
    scaled = (F - F.mean(axis=0)) / np.sqrt(F.var(axis=0).mean())
    rows = np.repeat(np.arange(len(F)), copies)
    model = LogisticRegression(C=1 / len(rows), class_weight="balanced" if balanced else None).fit(
        scaled[rows], codes[rows]
    )
    found = tempered_softmax(logits(F, weighted))
    assert_allclose(found, model.predict_proba(scaled), atol=1e-3)


def test_an_absent_class_is_unlikely_and_does_not_change_the_others():
    F, codes = vectors(n_classes=2)
    with_gap = linear_probe(F, np.where(codes == 1, 2, 0), 4)
    P = tempered_softmax(logits(F, with_gap))
    assert P[:, [1, 3]].mean() < 0.02
    two = tempered_softmax(logits(F, linear_probe(F, codes, 2)))
    assert_allclose(P[:, 2] / (P[:, 0] + P[:, 2]), two[:, 1], atol=1e-6)


def test_none_if_nothing_can_be_learned():
    F, codes = vectors()
    assert linear_probe(F, np.zeros_like(codes), 2) is None
    assert linear_probe(np.ones_like(F), codes, 2) is None
    nearly = 1e6 + np.random.default_rng(0).normal(scale=1e-6, size=F.shape)
    assert linear_probe(nearly, codes, 2) is None  # they differ only by rounding
    assert linear_probe(np.where(F > 2, np.nan, F), codes, 2) is None
    assert linear_probe(F, codes, 2, weights=np.where(codes == 0, 1.0, 0.0)) is None
    assert linear_probe(F, codes, 2, weights=np.zeros(len(F))) is None


def test_a_class_without_weight_counts_as_absent():
    F, codes = vectors(n_classes=3)
    found = linear_probe(F, codes, 3, weights=np.where(codes == 1, 0.0, 1.0))
    kept = codes != 1
    expected = linear_probe(F[kept], codes[kept], 3)
    assert_allclose(found.W, expected.W)
    assert_allclose(found.b, expected.b)


def test_a_large_common_part_does_not_make_large_weights():
    F, codes = vectors()
    alike = linear_probe(F + 1000, codes, 2)
    assert np.abs(alike.W).max() < np.abs(linear_probe(F, codes, 2).W).max()


# -- as initial weights ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def corpus():
    """Texts and labels, most of which are hidden."""
    bunch = make_short_texts(120, n_labeled=40, random_state=0)
    return bunch.data, bunch.target_partial


@pytest.fixture
def texts(corpus):
    X, y = corpus
    labeled = np.asarray(y) != -1
    return np.asarray(X, dtype=object)[labeled], np.asarray(y)[labeled]


def net(tiny_encoder, **params):
    settings = {"max_epochs": 0, "max_length": 32, "random_state": 0, **params}
    return BertClassifier(tiny_encoder, **settings)


def test_without_training_the_classifier_is_the_probe(tiny_encoder, texts):
    X, y = texts
    fitted = net(tiny_encoder).fit(X, y)
    fitted.module_.eval()
    with torch.no_grad():
        F = fitted.module_.encoder(torch.from_numpy(fitted.encode(X))).numpy().astype(np.float64)
    expected = logits(F, linear_probe(F, np.searchsorted(fitted.classes_, y), 2))
    assert_allclose(fitted.predict_proba(X), tempered_softmax(expected), atol=1e-5)
    # it is better than random weights
    drawn = net(tiny_encoder, head_init="random").fit(X, y)
    assert fitted.score(X, y) > drawn.score(X, y)


def test_balanced_batches_balance_the_probe(tiny_encoder, texts):
    X, y = texts
    rare = np.r_[np.flatnonzero(y == y[0]), np.flatnonzero(y != y[0])[:2]]
    balanced, not_balanced = (
        net(tiny_encoder, balanced_batches=b).fit(X[rare], y[rare]).predict_proba(X[rare])
        for b in (True, False)
    )
    code = list(np.unique(y)).index(y[0])
    assert (balanced[:, code] < not_balanced[:, code]).all()


def test_a_subsample_of_rows_keeps_the_weight_of_each_class(tiny_encoder, texts, monkeypatch):
    X, y = texts
    rare = y[0]
    rows = np.r_[np.flatnonzero(y != rare), np.flatnonzero(y == rare)[:2]]
    X, y = np.tile(X[rows], 3), np.tile(y[rows], 3)
    params = {"balanced_batches": False}
    whole = net(tiny_encoder, **params).fit(X, y).predict_proba(X)
    monkeypatch.setattr(token_net_module, "_PROBE_ROWS", 2 * len(rows))
    part = net(tiny_encoder, **params).fit(X, y, sample_weight=np.ones(len(y)))
    assert_allclose(part.predict_proba(X).mean(axis=0), whole.mean(axis=0), atol=0.02)


def test_rows_are_drawn_in_turn_from_each_class():
    codes = np.array([0] * 50 + [1] * 3 + [2] * 20)
    weights = np.ones(73)
    weights[:10] = 0
    rows = subsample_by_class(codes, weights, 23, np.random.default_rng(0))
    assert np.bincount(codes[rows]).tolist() == [10, 3, 10]
    assert rows.min() >= 10
    assert_array_equal(rows, np.unique(rows))
    everything = subsample_by_class(codes, weights, 100, np.random.default_rng(0))
    assert_array_equal(everything, np.arange(10, 73))


def test_a_compiled_module_gets_the_probe_too(tiny_encoder, texts):
    X, y = texts
    fitted = net(tiny_encoder, head_init="random").fit(X, y)
    fitted.head_init = "linear_probe"
    original = fitted.module_
    fitted.module_ = torch._dynamo.eval_frame.OptimizedModule(original, torch._dynamo.disable)
    head = fitted.start_head(fitted.encode(X), np.searchsorted(fitted.classes_, y))
    assert_allclose(original.head.weight.detach().numpy(), head.W, rtol=1e-5)


class TwoLayers(BertModule):
    """A subclass of the default module with another linear layer."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.head = nn.Sequential(nn.Linear(self.encoder.size, 8), nn.Linear(8, 2))


class OwnModule(nn.Module):
    """A module without an encoder."""

    def __init__(self, n_classes, **ignored):
        super().__init__()
        self.words = nn.Embedding(2000, n_classes)

    def forward(self, ids):
        return self.words(ids.long()).mean(dim=1)


@pytest.mark.parametrize("module", [TwoLayers, OwnModule])
def test_a_custom_module_keeps_its_initial_weights(tiny_encoder, texts, module):
    one, other = (
        net(tiny_encoder, module=module, head_init=kind).fit(*texts).predict_proba(texts[0])
        for kind in ("linear_probe", "random")
    )
    assert_array_equal(one, other)


def test_it_draws_no_random_numbers(tiny_encoder, texts):
    X, y = texts
    fitted = net(tiny_encoder).fit(X, y)
    with isolated(3):
        before = torch.get_rng_state()
        start_head(fitted, fitted.encode(X), np.searchsorted(fitted.classes_, y), balanced=True)
        assert_array_equal(torch.get_rng_state(), before)


def test_partial_fit_does_not_fit_a_probe_again(tiny_encoder, texts, monkeypatch):
    X, y = texts
    fitted = net(tiny_encoder).fit(X, y)
    before = fitted.module_.head.weight.clone()
    monkeypatch.setattr(TokenNet, "_probed", lambda *args: pytest.fail("a second probe"))
    fitted.partial_fit(X, y)
    assert torch.equal(fitted.module_.head.weight, before)  # no epochs


@pytest.fixture
def probed(monkeypatch):
    """Collects the number of rows of each probe."""
    rows = []
    own = TokenNet._probed

    def noted(self, module, ids, codes, *args):
        rows.append(len(codes))
        return own(self, module, ids, codes, *args)

    monkeypatch.setattr(TokenNet, "_probed", noted)
    return rows


def test_students_share_the_probe_on_the_labelled_documents(tiny_encoder, corpus, probed):
    X, y = corpus
    clf = SelfPretrainingClassifier(net(tiny_encoder), step_size=0.5, random_state=0).fit(X, y)
    assert clf.n_iter_ == 2
    assert probed == [int((np.asarray(y) != -1).sum())]  # the students reuse it


def test_mutual_learning_starts_from_it_too(tiny_encoder, corpus, probed):
    MutualLearningClassifier(net(tiny_encoder), finetune_epochs=1, random_state=0).fit(*corpus)
    assert len(probed) == 2
