"""`PAPER_SETTINGS` and `FOUR_STUDENTS`."""

from __future__ import annotations

import inspect

import pytest
from sklearn.base import clone

import sklearn_spt
from sklearn_spt import FOUR_STUDENTS, PAPER_SETTINGS, BertClassifier, SelfPretrainingClassifier
from sklearn_spt.experiments import _paper
from sklearn_spt.self_pretraining._settings import PAPER_NET

#: Parameters that are not part of the method.
NOT_OF_THE_METHOD = {
    "validation_fraction",
    "unlabeled_marker",
    "on_iteration",
    "memory",
    "checkpoint_dir",
    "random_state",
    "verbose",
}


def defaults(kind):
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def test_every_parameter_of_the_method_is_set():
    assert set(PAPER_SETTINGS) == set(defaults(SelfPretrainingClassifier)) - NOT_OF_THE_METHOD
    assert len(PAPER_SETTINGS) == len(list(PAPER_SETTINGS))
    assert PAPER_SETTINGS.items() >= _paper.DEFAULTS.items()
    assert set(PAPER_NET) <= set(defaults(BertClassifier))


def test_defaults_that_differ_from_the_paper():
    """Each is listed here, and in docs/departures.md with its reason."""
    changed = {
        name
        for kind, settings in (
            (SelfPretrainingClassifier, PAPER_SETTINGS),
            (BertClassifier, PAPER_NET),
        )
        for name, value in settings.items()
        if name != "estimator" and defaults(kind)[name] != value
    }
    assert changed == {"head_init", "temperature", "ensemble", "logit_adjustment"}


def test_classifiers_share_no_net():
    one, other = (SelfPretrainingClassifier(**PAPER_SETTINGS) for _ in range(2))
    one.set_params(estimator__lr=1e-3, lam=0.9)
    assert other.estimator.lr == "auto"
    assert SelfPretrainingClassifier(**PAPER_SETTINGS).get_params()["lam"] == 0.3
    assert clone(one).estimator.head_init == "random"


def test_it_is_an_immutable_mapping():
    assert "head_init='random'" in repr(PAPER_SETTINGS)
    assert "alpha" in PAPER_SETTINGS
    assert "verbose" not in PAPER_SETTINGS
    with pytest.raises(KeyError):
        PAPER_SETTINGS["verbose"]
    with pytest.raises(TypeError):
        PAPER_SETTINGS["lam"] = 0.5
    assert sklearn_spt.PAPER_SETTINGS is PAPER_SETTINGS


def test_four_students_are_those_that_were_measured():
    assert set(FOUR_STUDENTS) == set(PAPER_SETTINGS) - {"estimator"}  # no default decides
    clf = SelfPretrainingClassifier(
        n_starts=5, n_students=4, step_size=1.0, alpha=0, pretrain_epochs=4, token_deletion=0.2
    )
    assert SelfPretrainingClassifier(**FOUR_STUDENTS).get_params() == clf.get_params()
    from_the_paper = SelfPretrainingClassifier(**PAPER_SETTINGS).set_params(**FOUR_STUDENTS)
    assert from_the_paper.temperature == 1
    assert "n_starts=5" in repr(FOUR_STUDENTS)
    with pytest.raises(TypeError):
        FOUR_STUDENTS["alpha"] = 0.5
