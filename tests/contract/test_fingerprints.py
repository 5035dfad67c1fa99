"""Predictions of many configurations, as they were recorded: a change of the code changes none.

``python tests/contract/test_fingerprints.py`` records them again. Nets have no dropout and compute
in fp32, so that only draws and arithmetic count.
"""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import METHODS as QUICK
from helpers import bert_net, build_encoder, mlp_net, points

from sklearn_spt import FOUR_STUDENTS, SelfPretrainingClassifier, paper_classifier

RECORDED = Path(__file__).with_name("fingerprints.json")
WORDS = [["flu", "fever", "sick"], ["shot", "vaccine", "arm"], ["work", "home", "happy"]]

PAPER = {name: getattr(paper_classifier(), name) for name in FOUR_STUDENTS}
SP = partial(SelfPretrainingClassifier, step_size=0.5, refit_head=False)
METHODS = {
    "self-training": partial(QUICK["self_training"], max_iter=3),
    "tri-training": partial(QUICK["tri_training"], max_iter=3),
    "mutual learning": QUICK["mutual_learning"],
    "three nets": partial(QUICK["mutual_learning"], n_nets=3, kl_weight=0.5),
    "spaced repetition": partial(QUICK["spaced_repetition"], episode_epochs=3, max_iter=2),
}
PARAMETERS = [
    *({}, {"alpha": 0.0}, {"alpha": 0.6}, {"lam": 0.0}, {"lam": 0.8}, {"temperature": 3.0}),
    *({"step_size": 7}, {"max_iter": 0}, {"max_iter": 1}, {"pretrain_epochs": 2}),
    *({"finetune_epochs": 1}, {"balanced_batches": False}, {"ensemble": "last"}),
    *({"ensemble": "last_two"}, {"logit_adjustment": 0.5}, {"n_teachers": 2, "n_students": 3}),
    *(PAPER, {**FOUR_STUDENTS, "token_deletion": 0.0}),
]


def texts(n_classes):
    rng, codes = np.random.default_rng(n_classes), np.arange(60) % n_classes
    fill = ["i", "you", "got", "the", "today", "at", "good", "bad", "no"]
    X = [" ".join([*rng.choice(WORDS[c], 2), *rng.choice(fill, rng.integers(2, 9))]) for c in codes]
    y = codes.copy()
    y[rng.permutation(np.arange(2 * n_classes, 60))[:35]] = -1
    return X, y


def configurations(encoder):
    """Name -> classifier, X, y and weights."""
    found, weights = {}, np.linspace(0.1, 3, 90)
    for params in PARAMETERS:
        name = ", ".join(f"{k}={v}" for k, v in params.items() if k != "refit_head")
        clf = SelfPretrainingClassifier(mlp_net(), **{"step_size": 0.5, **params})
        found[f"self-pretraining {name}"] = clf, *points()[:2], None
    for K in (3, 4):
        found[f"self-pretraining K={K}"] = SP(mlp_net(), alpha=0.4), *points(K)[:2], None
    found["self-pretraining weights"] = SP(mlp_net()), *points()[:2], weights
    for K in (2, 3):
        found[f"texts K={K}"] = SP(bert_net(encoder)), *texts(K), None
    found["texts deletion"] = SP(bert_net(encoder), token_deletion=0.3), *texts(2), None
    found["texts mean"] = SP(bert_net(encoder, pooling="mean")), *texts(2), None
    found["texts random head"] = SP(bert_net(encoder, head_init="random")), *texts(2), None
    found["bert"] = bert_net(encoder), *texts(3), weights[:60]
    for name, kind in METHODS.items():
        for K in (2, 3):
            found[f"{name} K={K}"] = kind(mlp_net()), *points(K)[:2], None
    found["co-training"] = QUICK["co_decomposition"](mlp_net()), *points(3)[:2], None
    return found


def prediction(clf, X, y, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P = clf.set_params(random_state=0).fit(X, y, sample_weight=weights).predict_proba(X[:4])
    return np.round(P, 4).tolist()


@pytest.mark.parametrize("name", json.loads(RECORDED.read_text()) if RECORDED.exists() else [])
def test_predictions_are_as_recorded(name, tiny_encoder):
    found = prediction(*configurations(tiny_encoder)[name])
    np.testing.assert_allclose(found, json.loads(RECORDED.read_text())[name], atol=2e-3)


def test_every_configuration_is_recorded(tiny_encoder):
    assert [*configurations(tiny_encoder)] == [*json.loads(RECORDED.read_text())]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = configurations(build_encoder(folder + "/tiny"))
        lines = [f"{json.dumps(name)}: {prediction(*parts)}" for name, parts in made.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
