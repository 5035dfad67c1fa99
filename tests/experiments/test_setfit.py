"""SetFit, if it is installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sklearn_spt.datasets import make_short_texts
from sklearn_spt.experiments import _methods
from sklearn_spt.experiments._cli import main
from sklearn_spt.experiments._setfit import SetFitClassifier


def test_without_setfit_the_error_names_the_extra(arguments, tmp_path, monkeypatch, capsys):
    """Without it, the error says what to install before anything is run."""
    monkeypatch.setattr(_methods, "find_spec", lambda name: None)
    assert main([*arguments, "--method=setfit,tfidf_lr", "--seeds=0"]) == 2
    assert "sklearn-spt[benchmarks]" in capsys.readouterr().err
    assert not (tmp_path / "records").exists()
    monkeypatch.setitem(sys.modules, "setfit", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"sklearn-spt\[benchmarks\]"):
        SetFitClassifier("encoder").fit(["one", "two"], [0, 1])


def test_setfit_is_reproducible_and_silent(tiny_long_encoder, capfd):
    pytest.importorskip("setfit", reason="the extra [benchmarks] is not installed")
    bunch = make_short_texts(400, random_state=0)
    X, y = bunch.data[:24], bunch.target[:24]
    fits = [
        SetFitClassifier(tiny_long_encoder, max_steps=2, batch_size=4).fit(X, y) for _ in range(2)
    ]
    P, again = (model.predict_proba(bunch.data[:10]) for model in fits)
    np.testing.assert_array_equal(P, again)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(fits[0].predict(bunch.data[:10]), P.argmax(axis=1))
    assert capfd.readouterr() == ("", "")
