"""Linear layers that are fitted anew by soft self-training on the vectors of the net."""

import numpy as np
import pytest
import torch
from helpers import bert_net, learner

from sklearn_spt import BertClassifier, SelfPretrainingClassifier, SoftSelfTrainingClassifier

Y = np.array([0, 1] * 6 + [-1] * 12)


def fitted(encoder, texts, **params):
    clf = SelfPretrainingClassifier(bert_net(encoder), step_size=1.0, random_state=0, **params)
    return clf.fit(texts, Y)


def vectors(net, texts):
    net.module_.eval()
    with torch.no_grad():
        F = net.module_.embed(torch.from_numpy(net.encode(texts))).double().numpy()
    return F / np.sqrt((F**2).sum(axis=1).mean())


def test_layers_are_those_of_soft_self_training(tiny_encoder, tiny_texts):
    clf = fitted(tiny_encoder, tiny_texts, finetune_epochs=3)
    assert len(clf.estimators_) == 2
    for net in clf.estimators_:
        F = vectors(net, tiny_texts)
        model = SoftSelfTrainingClassifier(C=3.0, normalize=False).fit(F, Y)
        np.testing.assert_allclose(net.predict_proba(tiny_texts), model.predict_proba(F), atol=1e-3)
    plain = fitted(tiny_encoder, tiny_texts, refit_head=False)
    for net, other in zip(plain.estimators_[:1], clf.estimators_, strict=False):
        np.testing.assert_array_equal(vectors(net, tiny_texts), vectors(other, tiny_texts))
        assert not np.allclose(net.predict_proba(tiny_texts), other.predict_proba(tiny_texts))


def test_certainty_is_that_of_labels_alone(tiny_encoder, tiny_texts):
    """The mean greatest probability of unlabelled texts; no prediction changes."""
    rng, words = np.random.default_rng(0), " ".join(tiny_texts).split()
    texts = [" ".join(rng.choice(words, 6)) for _ in range(312)]
    y, seen = np.append(np.arange(12) % 2, np.full(300, -1)), []
    params = {"finetune_epochs": 0, "on_iteration": seen.append, "random_state": 0}
    clf = SelfPretrainingClassifier(bert_net(tiny_encoder), **params).fit(texts, y)
    P = clf.predict_proba(texts)
    plain = np.mean([net.predict_proba(texts) for net in clf.estimators_], axis=0)
    alone = []
    for net in clf.estimators_:
        F = vectors(net, texts)
        model = SoftSelfTrainingClassifier(C=10.0, max_iter=0, normalize=False).fit(F, y)
        alone.append(model.predict_proba(F[12:]))
    assert clf.calibration_temperature_ > 1
    certainty = np.mean(alone, axis=0).max(axis=1).mean()
    assert plain[12:].max(axis=1).mean() > certainty + 0.01
    np.testing.assert_allclose(P[12:].max(axis=1).mean(), certainty, atol=1e-3)
    np.testing.assert_array_equal(P.argmax(axis=1), plain.argmax(axis=1))
    np.testing.assert_allclose(P, seen[-1].predict_proba(texts), atol=1e-6)
    assert fitted(tiny_encoder, tiny_texts, refit_head=False).calibration_temperature_ == 1


@pytest.mark.parametrize("by_auto", [True, False])
@pytest.mark.parametrize(
    ("n_labeled", "n_classes", "refits", "epochs", "why"),
    [
        (20, 2, True, 10, "10 labels per class"),
        (21, 2, True, 3, "10.5 labels per class"),
        (60, 2, True, 3, "30 labels per class"),
        (61, 2, False, 3, "30.5 labels per class"),
        (100, 77, True, 10, "1.299 labels per class"),
        (101, 77, True, 3, "1.312 labels per class, 101 in all"),
        (2310, 77, True, 3, "30 labels per class"),
        (2311, 77, False, 3, "30.01 labels per class"),
    ],
)
def test_what_few_labels_are(n_labeled, n_classes, refits, epochs, why, by_auto):
    clf = SelfPretrainingClassifier(refit_head="auto" if by_auto else refits)
    plan = clf._plan(BertClassifier(), n_labeled, n_classes, 9)
    step_size = 1.0 if refits else 0.2
    assert (plan.refit_head, plan.finetune_epochs, plan.step_size) == (refits, epochs, step_size)
    why = f"there are {why}" if by_auto or refits else "refit_head=False"
    why = why if by_auto or not refits else f"refit_head=True and {why}"
    said = f"finetune_epochs={epochs}, step_size={step_size}, since {why}"
    assert plan.chosen == f"refit_head={refits}, " * by_auto + said


def test_without_iterations_nothing_is_learned_from_unlabelled_documents(tiny_encoder, tiny_texts):
    clf = fitted(tiny_encoder, tiny_texts, max_iter=0, n_teachers=2, refit_head=True)
    alone = bert_net(tiny_encoder).fit(tiny_texts[:12], Y[:12])
    first = clf.estimators_[0].predict_proba(tiny_texts)
    np.testing.assert_allclose(first, alone.predict_proba(tiny_texts), atol=1e-6)


def test_rare_classes_are_found_as_often_as_they_are(tiny_encoder, tiny_texts):
    """The labelled rows weigh equally by class, as batches do, and logit adjustment corrects."""
    y = np.where(np.arange(24) % 6 == 1, 1, 0)
    y[12:] = -1
    clf, shares = learner(bert_net(tiny_encoder), step_size="auto", logit_adjustment=0), []
    for balanced in (True, False):
        clf.set_params(balanced_batches=balanced)
        shares.append(clf.fit(tiny_texts, y).predict_proba(tiny_texts)[:, 1].mean())
    assert shares[0] > shares[1] + 0.02


def test_one_iteration_where_labels_are_few(tiny_encoder, tiny_texts):
    net = bert_net(tiny_encoder)
    clf = SelfPretrainingClassifier(net, random_state=0).fit(tiny_texts, Y)
    assert clf.sample_sizes_ == [12]
    assert (clf.refit_head_, clf.finetune_epochs_, clf.step_size_) == (True, 10, 1.0)
    assert len(clf.history_[1]["loss"]["stage2"]) == 10
    clf.set_params(refit_head=False).fit(tiny_texts, Y)
    assert clf.sample_sizes_ == [3, 6, 9, 12]
    assert (clf.refit_head_, clf.finetune_epochs_, clf.step_size_) == (False, 3, 0.2)
    assert len(clf.history_[1]["loss"]["stage2"]) == 3
    with pytest.warns(UserWarning, match="alpha=0.5 has no effect with one iteration; lower step"):
        clf.set_params(refit_head=True, alpha=0.5).fit(tiny_texts, Y)
    with pytest.warns(UserWarning, match="with one iteration; raise max_iter"):
        clf.set_params(refit_head=False, max_iter=1).fit(tiny_texts, Y)
    with pytest.warns(UserWarning, match="with one iteration; lower step_size"):
        clf.set_params(step_size=1.0).fit(tiny_texts, Y)
