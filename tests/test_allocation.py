"""Freed memory is kept during a fit, and given back after it."""

from __future__ import annotations

import numpy as np
import pytest
from nets import bert_net

from sklearn_spt import SelfPretrainingClassifier, _allocation
from sklearn_spt._allocation import freed_memory_kept
from sklearn_spt._kernels import plain


class Library:
    """Stands for glibc and notes what it is told."""

    def __init__(self):
        self.told = []

    def mallopt(self, name, value):
        self.told.append((name, value))

    def malloc_trim(self, pad):
        self.told.append("trim")


KEPT = [(-3, 2**31 - 1), (-1, 2**31 - 1)]
GIVEN_BACK = [(-3, 32 * 2**20), (-1, 64 * 2**20), "trim"]


@pytest.fixture
def library(monkeypatch):
    found = Library()
    monkeypatch.setattr(_allocation, "_glibc", lambda: found)
    return found


def test_inside_it_is_kept_and_after_it_given_back(library):
    with freed_memory_kept():
        assert library.told == KEPT
        with freed_memory_kept():  # only the outermost block counts
            pass
        assert library.told == KEPT
    assert library.told == KEPT + GIVEN_BACK
    with pytest.raises(RuntimeError, match="stop"), freed_memory_kept():
        raise RuntimeError("stop")
    assert library.told == 2 * (KEPT + GIVEN_BACK)


def test_plain_leaves_it_alone(library):
    with plain("allocation"), freed_memory_kept():
        pass
    assert library.told == []


@pytest.mark.parametrize("semi_supervised", [False, True])
def test_a_fit_does_it_once_and_a_prediction_not(
    library, tiny_pooling_checkpoint, tiny_texts, semi_supervised
):
    model = bert_net(tiny_pooling_checkpoint, device="cpu", max_epochs=1)
    y = np.arange(len(tiny_texts)) % 2
    if semi_supervised:
        model = SelfPretrainingClassifier(model, step_size=0.5, finetune_epochs=1, random_state=0)
        y[8:] = -1
    model.fit(tiny_texts, y)
    assert library.told == KEPT + GIVEN_BACK
    model.predict(tiny_texts)
    assert library.told == KEPT + GIVEN_BACK


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_user_chose_stays(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert _allocation._glibc.__wrapped__() is None


def test_other_systems_have_nothing_to_set(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert _allocation._glibc.__wrapped__() is None
    monkeypatch.setattr(_allocation, "_glibc", lambda: None)
    with freed_memory_kept():
        pass


def test_the_real_library_takes_the_settings():
    library = _allocation._glibc()
    if library is None:
        pytest.skip("no glibc, or the user has settings")
    assert library.mallopt(*KEPT[0]) == 1
    assert library.mallopt(*KEPT[1]) == 1
    with freed_memory_kept():
        pass
