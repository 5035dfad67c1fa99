"""Predictions of many configurations, as they were recorded: a redesign changes none of them.

`python tests/test_fingerprints.py OUT.json` writes the SHA-256 of each prediction. Two trees agree
bit by bit if their files do. `--record` writes the probabilities that the test compares with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import build_encoder
from helpers.kills import KillAfter, Killed
from helpers.nets import bert_net, mlp_net
from helpers.variants import VARIANTS, variant
from sklearn.base import clone

from sklearn_spt import (
    PAPER_SETTINGS,
    CoDecompositionClassifier,
    MutualLearningClassifier,
    SelfPretrainingClassifier,
    SpacedRepetitionClassifier,
    ThrottledSelfTrainingClassifier,
    TokenIdVectorizer,
    TriTrainingClassifier,
)

RECORDED = Path(__file__).with_suffix(".json")
#: Rows whose probabilities are recorded.
SHOWN = 4

METHODS = {
    "self_pretraining": partial(SelfPretrainingClassifier, step_size=0.5),
    "throttled": partial(ThrottledSelfTrainingClassifier, threshold=0.55, max_iter=3),
    "tri_training": partial(TriTrainingClassifier, threshold=0.55, max_iter=3),
    "mutual_learning": MutualLearningClassifier,
    "spaced_repetition": partial(
        SpacedRepetitionClassifier, n_queues=3, episode_epochs=2, max_iter=2, threshold=0.55
    ),
}
PARAMETERS = {
    "self_pretraining": [
        {"alpha": 0.0},
        {"alpha": 0.6},
        {"lam": 0.0},
        {"lam": 0.8},
        {"temperature": 3.0},
        {"step_size": 7},
        {"max_iter": 0},
        {"max_iter": 1},
        {"pretrain_epochs": 2},
        {"finetune_epochs": 1},
        {"balanced_batches": False},
        {"ensemble": "last_two"},
        {"logit_adjustment": 0.5},
        {"validation_fraction": 0.3},
        {name: value for name, value in PAPER_SETTINGS.items() if name != "estimator"},
    ],
    "throttled": [{"balanced_batches": False}],
    "tri_training": [{"max_fraction": 0.5}],
    "mutual_learning": [{"n_nets": 3}],
}


# -- data ----------------------------------------------------------------------------------------
def numbers(n_classes: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of overlapping classes, their labels with -1, and points to predict."""
    rng = np.random.default_rng(n_classes)
    codes = np.arange(90) % n_classes
    points = (rng.normal(size=(90, 2)) + 1.5 * np.eye(4)[codes][:, :2] + codes[:, None] / 2).astype(
        np.float32
    )
    return points[:60], np.where(np.arange(60) < 24, codes[:60], -1), points[60:]


def texts(n_classes: int = 2) -> tuple[list[str], np.ndarray, list[str]]:
    """Texts of a few words, their labels with -1, and texts to predict."""
    rng = np.random.default_rng(n_classes)
    words = [["got", "today"], ["never", "bad"], ["clinic", "sore"], ["doctor", "home"]]
    others = ["i", "she", "the", "flu", "shot", "a", "vaccine", "at", "now", "no", "!"]
    codes = np.arange(48) % n_classes
    all_texts = [
        " ".join(rng.permutation([*words[code], *rng.choice(others, rng.integers(2, 9))]))
        for code in codes
    ]
    return all_texts[:36], np.where(np.arange(36) < 16, codes[:36], -1), all_texts[36:]


# -- configurations ------------------------------------------------------------------------------
def on_numbers(method, folder, n_classes=2, weights=False, strings=False, **params):
    X, y, X_new = numbers(n_classes)
    net = mlp_net(module__n_classes=n_classes)
    clf = METHODS[method](net, random_state=0).set_params(**params)
    fit_params = {"sample_weight": np.linspace(0.5, 2, len(y))} if weights else {}
    if strings:
        clf.set_params(unlabeled_marker="?")
        y = np.array(["?", "a", "b"])[y + 1]
    return clf.fit(X, y, **fit_params).predict_proba(X_new)


def beside_X(method, folder):
    X, y, X_new = numbers()
    clf = METHODS[method](mlp_net(), random_state=0)
    return clf.fit(X[y >= 0], y[y >= 0], X_unlabeled=X[y < 0]).predict_proba(X_new)


def of_variant(name, folder):
    X, y, X_new = numbers()
    clf = variant(mlp_net(), name, step_size=0.4, random_state=0)
    return clf.fit(X, y).predict_proba(X_new)


def resumed(folder):
    X, y, X_new = numbers()
    clf = SelfPretrainingClassifier(
        mlp_net(), step_size=0.3, checkpoint_dir=folder / "state", random_state=0
    )
    with pytest.raises(Killed):
        clone(clf).set_params(on_iteration=KillAfter(2)).fit(X, y)
    return clf.fit(X, y).predict_proba(X_new)


def with_memory(folder):
    X, y, X_new = numbers()
    clf = SelfPretrainingClassifier(mlp_net(), memory=str(folder / "memory"), random_state=0)
    clf.fit(X, y)
    return clf.set_params(lam=0.6).fit(X, y).predict_proba(X_new)


def supervised(folder, n_classes=2, weights=False, ids=False, **params):
    X, y, X_new = texts(n_classes)
    net = bert_net(str(folder / "encoder"), max_epochs=2, device="cpu", precision="fp32", **params)
    labeled = np.flatnonzero(y >= 0)
    X = [X[row] for row in labeled]
    if ids:
        vectorizer = TokenIdVectorizer(str(folder / "encoder"), max_length=24)
        X, X_new = vectorizer.fit_transform(X), vectorizer.transform(X_new)
    fit_params = {"sample_weight": np.linspace(0.5, 2, len(labeled))} if weights else {}
    return net.fit(X, y[labeled], **fit_params).predict_proba(X_new)


def on_texts(method, folder, n_classes=2):
    X, y, X_new = texts(n_classes)
    net = bert_net(str(folder / "encoder"), device="cpu", precision="fp32")
    clf = METHODS[method](net, finetune_epochs=2, random_state=0)
    return clf.fit(X, y).predict_proba(X_new)


def two_views(folder, **params):
    X, y, X_new = texts()
    net = bert_net(str(folder / "encoder"), device="cpu", precision="fp32")
    clf = CoDecompositionClassifier(
        net, keywords=["flu", "vaccine"], threshold=0.55, max_iter=2, finetune_epochs=2
    )
    return clf.set_params(random_state=0, **params).fit(X, y).predict_proba(X_new)


def _named(params) -> str:
    return ",".join(f"{name}={value}" for name, value in params.items())


CONFIGURATIONS = {
    **{
        f"{method} {_named(params)}": partial(on_numbers, method, **params)
        for method, several in PARAMETERS.items()
        for params in several
    },
    **{
        f"{method} K={K}": partial(on_numbers, method, n_classes=K)
        for method in METHODS
        for K in (2, 3, 4)
    },
    **{f"{method} weights": partial(on_numbers, method, weights=True) for method in METHODS},
    **{f"{method} strings": partial(on_numbers, method, strings=True) for method in METHODS},
    **{f"{method} X_unlabeled": partial(beside_X, method) for method in METHODS},
    **{name: partial(of_variant, name) for name in VARIANTS},
    "resumed after a kill": resumed,
    "memory": with_memory,
    "bert": supervised,
    "bert K=3": partial(supervised, n_classes=3),
    "bert weights": partial(supervised, weights=True),
    "bert ids": partial(supervised, ids=True),
    "bert random head": partial(supervised, head_init="random"),
    "bert cls": partial(supervised, pooling="cls"),
    **{f"{method} on texts": partial(on_texts, method) for method in METHODS},
    "self_pretraining on texts K=3": partial(on_texts, "self_pretraining", n_classes=3),
    "co_decomposition": two_views,
}


def predictions(name: str, folder: Path) -> np.ndarray:
    """Fit a configuration with one thread; return its probabilities."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings(action="ignore"):  # some settings are unwise on purpose
            return CONFIGURATIONS[name](folder=folder)
    finally:
        torch.set_num_threads(n_threads)


@pytest.fixture
def folder(tmp_path, tiny_encoder):
    (tmp_path / "encoder").symlink_to(tiny_encoder, target_is_directory=True)
    return tmp_path


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_predictions_are_those_recorded(name, folder):
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    # Other processors round differently, and training lets the difference grow.
    np.testing.assert_allclose(predictions(name, folder)[:SHOWN], recorded[name], atol=2e-3)


def test_recorded_are_the_configurations():
    assert sorted(json.loads(RECORDED.read_text(encoding="utf-8"))) == sorted(CONFIGURATIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--record", action="store_true", help="probabilities, not their SHA-256")
    args = parser.parse_args()
    found = {}
    for name in CONFIGURATIONS:
        with tempfile.TemporaryDirectory() as folder:
            build_encoder(Path(folder) / "encoder")
            P = predictions(name, Path(folder))
        found[name] = (
            np.round(P[:SHOWN].astype(float), 4).tolist()
            if args.record
            else hashlib.sha256(np.ascontiguousarray(P).tobytes()).hexdigest()
        )
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    args.out.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
